"""One arm through the stock loop, the real SDK and a real server: recorded, repeatable, resumable."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tinker_cookbook.utils import ml_log

from selfgen.embedded.launch import running_server
from selfgen.errors import GateError, ParamsError, ServiceError
from selfgen.journal import cache_dir
from selfgen.params import TrackingParams
from selfgen.records import Rollout, read_json, read_jsonl
from selfgen.service import Service, state_dir
from selfgen.training import arms, preflight, results
from tests.training.conftest import make_params


@pytest.fixture(scope="module")
def coin(tiny):
    """Params whose rl_selfgen arm is rewarded by coin flips: a random model gets no stock reward, so no gradient."""
    params = make_params(tiny)
    entry = params.arms["rl_selfgen"].model_copy(update={"reward": "random"})
    return params.model_copy(update={"arms": {**params.arms, "rl_selfgen": entry}})


@pytest.fixture(scope="module")
def start(small, service):
    return preflight.make_start(small, service, 0)


@pytest.fixture(scope="module")
def trained(coin, problems, start, service, tmp_path_factory):
    folder = tmp_path_factory.mktemp("arm")
    run = arms.train_arm(coin, "rl_selfgen", problems, start, service, adapter=folder / "adapter")
    arms.write(folder, coin, run, start)
    return run, folder


def test_rollouts_name_the_problems_of_each_batch_in_order(trained):
    rows = list(read_jsonl(trained[1] / "rollouts.jsonl", Rollout))
    assert len(rows) == 3 * 2 * 4
    assert [rows[k].problem_id for k in range(0, 24, 4)] == ["p0", "p1", "p2", "p3", "p4", "p5"]
    assert [(r.step, r.group, r.sample) for r in rows] == [
        (s, g, k) for s in range(3) for g in range(2) for k in range(4)
    ]


def test_coin_rewards_reach_the_rollouts_and_the_stock_verdict_stays_in_the_metrics(trained):
    rewards = {row.reward for row in trained[0].rollouts}
    assert rewards == {0.0, 1.0}
    assert all(row.correct == 0.0 for row in trained[0].rollouts)


def test_every_optimizer_step_is_recorded_as_sent(trained, coin):
    rows = [json.loads(line) for line in (trained[1] / "optim.jsonl").read_text().splitlines()]
    wanted = coin.train.optimizer
    assert [row["step"] for row in rows] == [0, 1, 2]
    for row in rows:
        assert row["params"] == {
            "learning_rate": wanted.learning_rate,
            "beta1": 0.9,
            "beta2": 0.95,
            "eps": 1e-8,
            "weight_decay": 0.0,
            "grad_clip_norm": 0.0,
        }
        assert (row["loss_fn"], row["family"], row["datums"]) == ("importance_sampling", "adam", 8)


def test_the_curve_has_one_row_a_step_and_nothing_timed(trained):
    rows = [json.loads(line) for line in (trained[1] / "curve.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert set(rows[0]) == {"step", *results.CURVE}
    assert not [key for row in rows for key in row if "time" in key]


def test_the_checkpoint_is_named_by_content_and_differs_from_its_start(trained, start):
    record = read_json(trained[1] / "checkpoint.json")
    assert record["digest"] != record["start_digest"] == start.digest
    assert "tinker://" not in json.dumps(record)
    assert (trained[1] / "adapter" / "adapter_model.safetensors").is_file()


def test_an_equal_run_gives_equal_files(trained, coin, problems, start, service, tmp_path):
    again = arms.train_arm(coin, "rl_selfgen", problems, start, service, adapter=tmp_path / "adapter")
    arms.write(tmp_path, coin, again, start)
    for name in (
        "checkpoint.json",
        "rollouts.jsonl",
        "curve.jsonl",
        "optim.jsonl",
        "adapter/adapter_model.safetensors",
    ):
        assert (tmp_path / name).read_bytes() == (trained[1] / name).read_bytes(), name


def test_a_finished_run_leaves_no_log_folder_behind(trained):
    assert not list((cache_dir() / "runs").iterdir())


def test_an_optimizer_that_is_not_the_stated_one_stops_the_arm(coin, problems, start, service, tmp_path):
    optimizer = coin.train.optimizer.model_copy(update={"beta2": 0.999})
    other = coin.model_copy(update={"train": coin.train.model_copy(update={"optimizer": optimizer})})
    with pytest.raises(GateError, match=r"beta2 sent is 0\.95, params say 0\.999"):
        arms.train_arm(other, "rl_selfgen", problems, start, service, adapter=tmp_path / "adapter", steps=1)


def test_training_killed_in_the_middle_ends_with_the_same_files_and_no_step_twice(
    trained, coin, problems, start, service, tmp_path
):
    """A stage with its own server gets kill -9 after the second of three steps; the same call then resumes elsewhere."""
    script = tmp_path / "train.py"
    script.write_text(KILLED)
    given = {
        "params": coin.model_dump(mode="json"),
        "problems": [vars(p) for p in problems],
        "start": vars(start),
        "adapter": str(tmp_path / "adapter"),
    }
    (tmp_path / "given.json").write_text(json.dumps(given))
    child = subprocess.Popen([sys.executable, str(script), str(tmp_path)], env={**os.environ})
    deadline = time.monotonic() + 240
    try:
        while not (tmp_path / "second").exists():
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    log_dir = cache_dir() / "runs" / arms._run_name(coin, "rl_selfgen", problems, start, service, 3, 0.5)
    assert len(results.metric_rows(log_dir)) in (1, 2)

    resumed = arms.train_arm(coin, "rl_selfgen", problems, start, service, adapter=tmp_path / "adapter")
    arms.write(tmp_path, coin, resumed, start)
    assert resumed.timing["resumed_from_step"] >= 1
    for name in (
        "checkpoint.json",
        "rollouts.jsonl",
        "curve.jsonl",
        "optim.jsonl",
        "adapter/adapter_model.safetensors",
    ):
        assert (tmp_path / name).read_bytes() == (trained[1] / name).read_bytes(), name


KILLED = """
import json, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
given = json.loads((folder / "given.json").read_text())
from selfgen import params
from selfgen.service import open_service
from selfgen.training import arms
from selfgen.records import Problem

def on_step(sent):
    if sent.step == 1:
        (folder / "second").touch()
        time.sleep(60)

params = params.parse(given["params"])
with open_service(params, [params.model.name], seed=0) as service:
    arms.train_arm(
        params, "rl_selfgen", [Problem(**p) for p in given["problems"]], arms.Start(**given["start"]), service,
        adapter=Path(given["adapter"]), on_step=on_step,
    )
"""


def test_only_the_final_checkpoint_stays_with_the_service(trained, service):
    run_id = trained[0].state_path.removeprefix("tinker://").split("/")[0]
    left = service.client.create_rest_client().list_checkpoints(run_id).result().checkpoints
    assert sorted(c.tinker_path for c in left) == sorted([trained[0].state_path, trained[0].sampler_path])


class Tracker:
    """Stands for the wandb module, and for a run of it: keeps what it is told."""

    def __init__(self, fails=None):
        self.logged, self.named, self.fails, self.url, self.finished = [], {}, fails, "https://tracker/run", False
        self.config = self

    def init(self, **named):
        if self.fails:
            raise RuntimeError(self.fails)
        self.named = named
        (Path(named["dir"]) / "wandb/offline-run-1").mkdir(parents=True)
        return self

    def update(self, values):
        self.named["config"] = values

    def log(self, metrics, step):
        self.logged.append((step, metrics["env/all/reward/total"]))

    def finish(self):
        self.finished = True


def tracked(coin, *loggers):
    whole = coin.model_copy(update={"train": coin.train.model_copy(update={"steps": 1})})
    return whole.model_copy(update={"tracking": TrackingParams(loggers=loggers, project="mine")})


def install(monkeypatch, **modules):
    for name, module in modules.items():
        monkeypatch.setattr(ml_log, name, module)
        monkeypatch.setattr(ml_log, f"_{name}_available", True)


def test_a_tracker_sees_every_step_and_changes_no_artifact(coin, problems, start, service, tmp_path, monkeypatch):
    watching, unwanted = Tracker(), Tracker()
    install(monkeypatch, wandb=watching, trackio=unwanted)
    for name, params in {"without": tracked(coin), "with": tracked(coin, "wandb")}.items():
        folder = tmp_path / name
        run = arms.train_arm(params, "rl_selfgen", problems, start, service, adapter=folder / "adapter")
        arms.write(folder, params, run, start)
        if name == "without":
            assert watching.named == {}
    assert watching.logged == [(0, pytest.approx(run.curve[0]["reward"], abs=1e-6))]
    assert (watching.named["project"], watching.named["name"]) == ("mine", "embedded rl_selfgen seed 0")
    assert watching.finished
    assert unwanted.named == {}
    assert (cache_dir() / "wandb/offline-run-1").is_dir()
    volatile = {"timing.json", "location.json"}
    names = {p.relative_to(tmp_path / "with") for p in (tmp_path / "with").rglob("*") if p.is_file()}
    assert len(names) > 5
    for name in names:
        if name.name not in volatile:
            assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes(), name


def test_the_pilot_is_not_tracked(coin, problems, start, service, tmp_path, monkeypatch):
    install(monkeypatch, wandb=(watching := Tracker()))
    whole = tracked(coin, "wandb")
    arms.train_arm(whole, "rl_selfgen", problems, start, service, adapter=tmp_path / "adapter", steps=1)
    assert watching.named == {}


@pytest.mark.parametrize(
    ("fails", "message"),
    [
        (None, "tracking.loggers: wandb is not installed; pip install wandb"),
        ("no key", "tracking.loggers: Failed to initialize W&B run for project 'mine': RuntimeError: no key; log in"),
    ],
)
def test_a_tracker_that_cannot_start_is_one_line(coin, problems, start, service, tmp_path, monkeypatch, fails, message):
    monkeypatch.setattr(ml_log, "wandb", Tracker(fails))
    monkeypatch.setattr(ml_log, "_wandb_available", fails is not None)
    with pytest.raises(ParamsError, match="^" + re.escape(message)):
        arms.train_arm(tracked(coin, "wandb"), "rl_selfgen", problems, start, service, adapter=tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()


def test_log_folders_that_nothing_can_resume_from_are_removed(tmp_path):
    for name, days in (("old", 8), ("new", 1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").touch()
        for path in (tmp_path / name / "metrics.jsonl", tmp_path / name):
            os.utime(path, (time.time() - days * 86400,) * 2)
    arms._prune(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["new"]


def test_a_run_whose_checkpoints_the_service_lost_starts_anew(coin, problems, start, service, tmp_path):
    name = arms._run_name(coin, "rl_selfgen", problems, start, service, 1, 0.5)
    folder = cache_dir() / "runs" / name
    folder.mkdir(parents=True)
    lost = {"name": "000001", "batch": 1, "state_path": "tinker://gone:train:0/weights/000001"}
    (folder / "checkpoints.jsonl").write_text(json.dumps(lost) + '\n{"torn')
    before = replace(service.usage)
    run = arms.train_arm(coin, "rl_selfgen", problems, start, service, adapter=tmp_path / "adapter", steps=1)
    assert run.timing["resumed_from_step"] == 0
    assert run.steps == 1
    tokens = sum(row.n_tokens for row in run.rollouts)
    assert service.usage.sampled_tokens - before.sampled_tokens == tokens
    assert service.usage.trained_tokens - before.trained_tokens > 2 * tokens  # prompts and responses


def test_a_run_killed_between_its_last_step_and_its_files_trains_nothing_again(
    trained, coin, problems, start, service, tmp_path
):
    adapter = tmp_path / "adapter"
    arms.train_arm(coin, "rl_selfgen", problems, start, service, adapter=adapter, keep_log=True)
    sent_again = []
    again = arms.train_arm(coin, "rl_selfgen", problems, start, service, adapter=adapter, on_step=sent_again.append)
    arms.write(tmp_path, coin, again, start)
    assert sent_again == []
    assert again.timing["resumed_from_step"] == 3
    for name in ("checkpoint.json", "rollouts.jsonl", "curve.jsonl", "optim.jsonl"):
        assert (tmp_path / name).read_bytes() == (trained[1] / name).read_bytes(), name


def test_a_server_that_dies_in_the_middle_of_training_is_one_line_within_seconds(coin, problems, start, tmp_path):
    with running_server([coin.model.name], state_dir(), seed=0) as info:
        own = Service("embedded", info.base_url, info.api_key, 8, None)
        before = {name: os.environ.get(name) for name in ("TINKER_BASE_URL", "TINKER_API_KEY")}
        os.environ.update(TINKER_BASE_URL=info.base_url, TINKER_API_KEY=info.api_key)
        died = []

        def kill(sent):
            if not died:
                os.kill(info.pid, signal.SIGKILL)
                died.append(time.monotonic())

        try:
            with pytest.raises(ServiceError, match="the embedded server has ended in the middle of training"):
                arms.train_arm(
                    coin, "rl_selfgen", problems, start, own, adapter=tmp_path / "adapter", rate=0.25, on_step=kill
                )
            assert time.monotonic() - died[0] < 60
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
    assert not (tmp_path / "adapter").exists()


def test_two_equal_runs_at_once_do_not_share_a_log_folder(coin, problems, start, service):
    name = arms._run_name(coin, "rl_selfgen", problems, start, service, 3, 0.5)
    with arms._log_folder(name) as first, arms._log_folder(name) as second:
        assert first != second
    shutil.rmtree(first)


@pytest.mark.parametrize("change", ["problems", "start", "steps", "rate", "train"])
def test_only_an_equal_run_may_resume(change, coin, problems, start, service):
    def name(**changes):
        given = {"params": coin, "problems": problems, "start": start, "steps": 3, "rate": 0.5} | changes
        return arms._run_name(
            given["params"], "rl_selfgen", given["problems"], given["start"], service, given["steps"], given["rate"]
        )

    other = {
        "problems": [*problems[:-1], replace(problems[-1], answer="11")],
        "start": replace(start, digest="0" * 64),
        "steps": 2,
        "rate": 0.25,
        "params": coin.model_copy(update={"train": coin.train.model_copy(update={"max_tokens": 13})}),
    }
    key = "params" if change == "train" else change
    assert name(**{key: other[key]}) != name()
    assert name(start=replace(start, path="tinker://elsewhere/weights/x")) == name()
