"""The pipeline as a DVC user meets it: from nothing to a verdict, and only what an edit can change after that."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest
import yaml

from selfgen.records import EvalRow, Rollout, Task, read_json, read_jsonl
from tests.support import invalidation
from tests.support.checkout import Checkout, make_checkout

pytestmark = pytest.mark.timeout(900)
VOLATILE = ("timing.json", "location.json", "provenance.json")


def hashes(checkout: Checkout) -> dict[str, str]:
    """Path -> md5 of every stage output that is not volatile, from dvc.lock."""
    lock = yaml.safe_load((checkout.path / "dvc.lock").read_text())
    outs = [out for stage in lock["stages"].values() for out in stage.get("outs", [])]
    return {
        out["path"]: out["md5"]
        for out in outs
        if out["path"].startswith("data/") and not out["path"].endswith(VOLATILE)
    }


def ran(output: str) -> list[str]:
    """Names of the stages that a `dvc repro` ran."""
    return [line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage '")]


def test_it_ends_with_a_verdict_and_a_report(small_run: Checkout) -> None:
    decision = json.loads((small_run.path / "metrics/decision.json").read_text())
    assert decision["verdict"] in ("validated", "failed", "inconclusive")
    assert decision["n"] == 12
    assert set(decision["accuracy"]) == {"base", "rl_gsm8k", "rl_selfgen"}
    page = (small_run.path / "reports/index.html").read_text()
    assert decision["verdict"] in page
    assert (
        "://" not in page.replace("http://www.w3.org", "").replace("https://in-toto.io", "")
        or "<script src" not in page
    )


def test_the_plan_is_said_to_be_older_than_the_rows_and_unchanged(small_run: Checkout) -> None:
    said = json.loads((small_run.path / "data/decide/decision.json").read_text())["registration"]
    assert (said["registered"], said["before_first_row"], said["changes"]) == (True, True, [])
    assert "was registered before the first evaluation row existed" in said["statement"]
    assert said["statement"] in html.unescape((small_run.path / "reports/index.html").read_text())
    assert said["statement"] in small_run.selfgen("prereg", "--check").stdout


def test_a_plan_registered_anew_runs_the_decision_again_and_it_says_so(small_run: Checkout) -> None:
    try:
        small_run.selfgen("prereg", "--seed", "7", "--replace")
        assert list(json.loads(small_run.dvc("status", "--json").stdout)) == ["decide"]
        assert ran(small_run.dvc("repro", "decide").stdout) == ["decide"]
        said = json.loads((small_run.path / "data/decide/decision.json").read_text())["registration"]
        assert said["before_first_row"] is False
        assert "was NOT registered before the first evaluation row existed" in said["statement"]
        assert said["changes"] == [{"what": "seeds", "registered": [7], "now": [0]}]
        verified = small_run.selfgen("verify", check=False)
        assert verified.returncode == 1
        assert "seeds was registered as [7], the run used [0]" in verified.stdout
    finally:
        small_run.run("git", "checkout", "-q", "--", ".")
        small_run.dvc("checkout")


def test_a_second_evaluation_is_sampled_and_gives_the_same_answers(small_run: Checkout) -> None:
    evaluated = small_run.path / "data/eval"
    for arm in ("base", "rl_gsm8k", "rl_selfgen"):
        first = (evaluated / arm / "rows.jsonl").read_text()
        assert (evaluated / arm / "rows_again.jsonl").read_text() == first
        assert first.count("\n") == 12
    noise = json.loads((small_run.path / "data/decide/decision.json").read_text())["noise_floor"]
    assert {arm: found["flip_rate"] for arm, found in noise["evaluated_twice"].items()} == {
        "base": 0.0,
        "rl_gsm8k": 0.0,
        "rl_selfgen": 0.0,
    }


def test_the_run_can_be_verified_and_its_graders_agreement_is_published(small_run: Checkout) -> None:
    assert ", 0 failed, " in small_run.selfgen("verify").stdout
    metrics = json.loads((small_run.path / "metrics/decision.json").read_text())
    assert set(metrics["graders_agree"]) == {"base", "rl_gsm8k", "rl_selfgen"}
    assert "A second grader" in (small_run.path / "reports/index.html").read_text()


def test_a_set_of_ones_own_is_one_entry_and_is_reported_beside_the_verdict(small_run: Checkout) -> None:
    for arm in ("base", "rl_gsm8k", "rl_selfgen"):
        rows = list(read_jsonl(small_run.path / f"data/eval/{arm}/transfer.jsonl", EvalRow))
        assert [(row.item_id, row.answer) for row in rows[2:]] == [("mine-00000", "5"), ("mine-00001", "6")]
        measured = json.loads((small_run.path / f"metrics/eval/{arm}.json").read_text())
        assert {name: found["n"] for name, found in measured["transfer"].items()} == {"outside": 2, "mine": 2}
        assert measured["n"] == 12
    page = (small_run.path / "reports/index.html").read_text()
    assert '<th class="n">mine</th>' in page
    assert "never deciding, the share right of outside (2 problems), mine (2 problems)" in page


def test_training_used_the_problems_it_should(small_run: Checkout) -> None:
    data = small_run.path / "data"
    tasks = {task.id for task in read_jsonl(data / "filter/tasks.jsonl", Task)}
    trained = [row.problem_id for row in read_jsonl(data / "train/rl_selfgen/rollouts.jsonl", Rollout)]
    assert len(trained) == 2 * 4 * 8
    assert set(trained) == tasks
    curated = {row.problem_id for row in read_jsonl(data / "train/rl_gsm8k/rollouts.jsonl", Rollout)}
    assert all(name.startswith("standin-train-") for name in curated)


def test_a_second_repro_runs_nothing_and_status_is_clean(small_run: Checkout) -> None:
    assert ran(small_run.dvc("repro").stdout) == []
    assert "up to date" in small_run.dvc("status").stdout
    assert small_run.run("git", "status", "--porcelain").stdout == ""


@pytest.mark.slow
def test_sampling_and_training_again_without_the_journal_gives_the_same_hashes(
    small_run: Checkout, tmp_path: Path
) -> None:
    before = hashes(small_run)
    again = Checkout(small_run.path, tmp_path / "empty-cache")
    for stage in ("generate", "filter", "preflight", "train@rl_selfgen"):
        again.dvc("repro", "--force", "--single-item", stage)
    assert hashes(again) == before
    small_run.run("git", "checkout", "-q", "--", ".")
    small_run.dvc("checkout")


def test_another_seed_keeps_generation_and_audit(small_run: Checkout) -> None:
    values = yaml.safe_load((small_run.path / "params.yaml").read_text())
    values["seed"] = 1
    (small_run.path / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    try:
        changed = small_run.dvc("status", "--json").stdout
        touched = {name.split("@")[0] for name, what in json.loads(changed).items() if "params.yaml" in str(what)}
        assert touched == {"preflight", "subset", "pilot", "train", "decide", "report"}
    finally:
        small_run.run("git", "checkout", "-q", "--", "params.yaml")


# Read, and without a bearing on any result: prices for the progress line, who watches training.
IDLE = ("service.concurrency", "train.save_every", "budget", "tracking")


def test_every_stage_reads_the_params_it_declares_and_no_others(small_run: Checkout, reads: Path) -> None:
    """An undeclared key would leave stale results, a declared and unread one would run a stage for nothing."""
    for stage in invalidation.stages(small_run.path):
        if "params.yaml" in stage.deps:
            continue
        read = json.loads((reads / f"{stage.name.replace('eval_base', 'eval@base')}.json").read_text())
        undeclared = {key for key in read if not any(invalidation.touches(key, own, ".") for own in stage.params)}
        assert not {key for key in undeclared if not key.startswith(IDLE)}, stage.name
        unread = {own for own in stage.params if not any(invalidation.touches(key, own, ".") for key in read)}
        if stage.name.startswith("subset@"):  # those that only an arm under the pass-rate rule needs
            unread = {
                key for key in unread if not key.startswith(("filter.solve", "train.few_shot", "model.", "service."))
            }
        if stage.name == "decide":  # compares what it does not name with the registered plan
            unread = set()
        assert not unread, stage.name


@pytest.mark.parametrize(
    ("key", "value"), [("model.lora_rank", 8), ("train.steps", 1), ("arms.rl_selfgen.reward", "random")]
)
def test_dvc_runs_what_the_table_says_for_a_param(small_run: Checkout, key: str, value: object) -> None:
    path = small_run.path / "params.yaml"
    before = path.read_text()
    values = here = yaml.safe_load(before)
    *outer, last = key.split(".")
    for part in outer:
        here = here[part]
    here[last] = value
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    try:
        changed = json.loads(small_run.dvc("status", "--json").stdout)
    finally:
        path.write_text(before)
    assert set(changed) == invalidation.by_param(key, invalidation.stages(small_run.path))


@pytest.mark.parametrize("file", ["selfgen/report/page.py", "selfgen/training/pilot.py", "selfgen/verify/cli.py"])
def test_dvc_runs_what_the_table_says_for_a_source_file(small_run: Checkout, file: str) -> None:
    path = small_run.path / file
    before = path.read_text()
    path.write_text(before + "\nADDED = 1\n")
    try:
        assert ran(small_run.dvc("repro", "code").stdout) == ["code"]
        changed = json.loads(small_run.dvc("status", "--json").stdout)
        assert set(changed) == invalidation.by_file(file, invalidation.stages(small_run.path))
    finally:
        path.write_text(before)
        small_run.dvc("repro", "code")


def test_a_comment_re_runs_nothing_but_the_hashing(small_run: Checkout) -> None:
    path = small_run.path / "selfgen/training/dataset.py"
    before = path.read_text()
    path.write_text(before + "\n# A remark.\n")
    try:
        assert ran(small_run.dvc("repro").stdout) == ["code"]
    finally:
        path.write_text(before)
        small_run.dvc("repro")


def test_an_unreachable_service_is_one_line_and_writes_nothing(root: Path, tmp_path: Path) -> None:
    checkout = make_checkout(root, tmp_path / "spec", tmp_path / "cache")
    checkout.selfgen("compose", "scale=spec")
    before = sorted(
        path for path in checkout.path.rglob("*") if ".git/" not in str(path) and "__pycache__" not in str(path)
    )
    environment = ["env", "TINKER_BASE_URL=http://127.0.0.1:9", "TINKER_API_KEY=tml-x"]
    done = checkout.run(*environment, "python", "-m", "stages.generate", check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: http://127.0.0.1:9: no Tinker service answers")
    after = sorted(
        path for path in checkout.path.rglob("*") if ".git/" not in str(path) and "__pycache__" not in str(path)
    )
    assert after == before
    without = checkout.run("env", "-u", "TINKER_API_KEY", "python", "-m", "stages.generate", check=False)
    assert (without.returncode, without.stderr.count("\n")) == (1, 1)
    assert "TINKER_API_KEY is not set" in without.stderr


@pytest.mark.slow
def test_a_failed_audit_is_repaired_topped_up_and_audited_again(small_run: Checkout) -> None:
    """The auditor is cut off too early to answer, so every audited task is flagged; then it may finish."""
    path, data = small_run.path / "params.yaml", small_run.path / "data"
    values = yaml.safe_load(path.read_text())
    before = [task.id for task in read_jsonl(data / "filter/tasks.jsonl", Task)]
    sample = values["audit"]["sample"]

    def audit_with(tokens: int) -> None:
        values["audit"]["max_tokens"] = tokens
        path.write_text(yaml.safe_dump(values, sort_keys=False))

    try:
        audit_with(8)
        refused = small_run.dvc("repro", "gate", check=False)
        assert refused.returncode != 0
        assert "the audit failed, so nothing is trained; run `selfgen repair`" in refused.stderr
        flagged = read_json(data / "audit/audit.json")["flagged"]
        assert len(flagged) == sample
        assert f"{sample} tasks quarantined" in small_run.selfgen("repair").stdout

        audit_with(256)
        passed = small_run.dvc("repro", "gate")
        assert ran(passed.stdout)[:2] == ["filter", "audit"]
        assert "gate: passed, training may start" in passed.stdout
        after = [task.id for task in read_jsonl(data / "filter/tasks.jsonl", Task)]
        verdict = read_json(data / "audit/audit.json")
        assert (verdict["passed"], verdict["round"], verdict["sample"]) == (True, 2, sample)
        assert after[: len(before) - sample] == [id for id in before if id not in flagged]
        assert len(after) == len(before)
        assert not set(after) & set(flagged)
    finally:
        small_run.run("git", "checkout", "-q", "--", ".")
        small_run.run("git", "clean", "-fdq", "review")
        small_run.dvc("checkout")
