"""`selfgen status` tells where the run stands, what is next, what it will cost, and what stopped it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from selfgen import status
from selfgen.errors import DataError
from selfgen.params import Params
from selfgen.records import write_json
from selfgen.status import DONE, NOT_RUN, STALE, StageState, Status
from tests.report import tree


@pytest.fixture
def params(root: Path) -> Params:
    return tree.params(root)


@pytest.fixture(scope="module")
def finished(root: Path) -> Path:
    return tree.finished(root)[0]


def project(folder: Path) -> None:
    """Two stages, the second on the first's output."""
    graph = {
        "curated": {"cmd": "cp in.txt data.txt", "deps": ["in.txt"], "outs": ["data.txt"]},
        "generate": {"cmd": "cp data.txt more.txt", "deps": ["data.txt"], "outs": ["more.txt"]},
    }
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": graph}), encoding="utf-8")
    (folder / "in.txt").write_text("1", encoding="utf-8")


def test_states_follow_dvc_from_not_run_to_done_to_stale(
    tmp_path: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dvc.repo import Repo

    monkeypatch.chdir(tmp_path)
    Repo.init(str(tmp_path), no_scm=True).close()
    project(tmp_path)
    found = status.survey(tmp_path, params)
    assert [(s.name, s.state) for s in found.stages] == [("curated", NOT_RUN), ("generate", NOT_RUN)]
    assert found.next == "curated"
    with Repo(str(tmp_path)) as repo:
        repo.reproduce()
    found = status.survey(tmp_path, params)
    assert [s.state for s in found.stages] == [DONE, DONE]
    assert found.next is None
    assert "Everything is up to date" in status.lines(found)[-1]
    (tmp_path / "in.txt").write_text("2", encoding="utf-8")
    found = status.survey(tmp_path, params)
    assert (found.stages[0].state, found.stages[0].why) == (STALE, "in.txt modified")
    assert found.next == "curated"


def test_outside_a_project_the_error_says_what_to_do(tmp_path: Path, params: Params) -> None:
    with pytest.raises(DataError, match="run from the project's folder"):
        status.survey(tmp_path, params)


def test_training_and_evaluation_cost_what_was_projected(finished: Path) -> None:
    phases = json.loads((finished / "metrics/feasibility.json").read_text())["phases"]
    assert status.seconds(finished, "train@rl_selfgen") == phases["train:rl_selfgen"]
    assert status.seconds(finished, "eval_base") == phases["eval:base"]
    assert status.seconds(finished, "filter") is not None
    assert status.seconds(finished, "decide") == 0.0  # asks no service
    assert status.seconds(finished, "preflight") is None


def test_facts_come_from_the_artifacts(finished: Path) -> None:
    assert status.fact(finished, "audit") == "passed: 0 label errors in 40, round 1"
    assert status.fact(finished, "gate") == "passed"
    assert status.fact(finished, "decide") in ("validated", "failed", "inconclusive")
    assert status.fact(finished, "curated") == "300 test, 200 train"
    assert status.fact(finished, "generate") == ""


def test_what_stopped_the_run_is_told_with_its_remedy(tmp_path: Path, params: Params) -> None:
    tree.make(tmp_path, params, n_test=20, until="audit", audit_errors=3)
    told = status.stopped_by(tmp_path)
    assert told is not None
    assert told.startswith("the audit: 3 label errors")
    assert "selfgen repair" in told


def test_a_failed_gate_names_its_checks(tmp_path: Path, params: Params) -> None:
    tree.make(tmp_path, params, n_test=20, until="gate")
    assert status.stopped_by(tmp_path) is None
    path = tmp_path / "data/gate/gate.json"
    gate = json.loads(path.read_text())
    gate["passed"] = gate["checks"][2]["passed"] = False
    write_json(path, gate)
    assert status.stopped_by(tmp_path) == (
        "the gate: selfgen_frac_groups_nonzero_reward_variance_pilot; see data/gate/gate.json"
    )


def test_a_training_run_that_was_killed_is_listed(
    tmp_path: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELFGEN_CACHE", str(tmp_path))
    folder = tmp_path / "runs/rl_selfgen-0123"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text('{"step": 0}\n{"step": 1}\n{"st', encoding="utf-8")
    assert status.unfinished(params) == [f"rl_selfgen: 2 steps done in {folder}"]


def test_the_cost_line_admits_what_is_not_known() -> None:
    stages = [
        StageState("audit", DONE, "", "passed", 3.0),
        StageState("preflight", NOT_RUN, "", "", None),
        StageState("train@rl_selfgen", NOT_RUN, "", "", 120.0),
    ]
    told = status.lines(Status(stages, "preflight", None, [], [], 120.0, 1, "0.42 USD"))
    assert told[-2:] == [
        "next: preflight, with `dvc repro` (2 stages to go)",
        "cost: about 2.0 min, 0.42 USD, and 1 stage nobody has timed yet",
    ]
    assert status.lines(Status(stages[1:2], "preflight", None, [], [], None, 1))[-1] == (
        "cost: not known before the pilots"
    )
    report = [StageState("report", STALE, "params.yaml modified", "", 0.0)]
    assert status.lines(Status(report, "report", None, [], [], 0.0, 0))[-2:] == [
        "next: report, with `dvc repro` (1 stage to go)",
        "cost: seconds: what is left asks no service",
    ]


def test_money_is_told_while_all_of_it_is_still_to_come(tmp_path: Path, params: Params) -> None:
    tree.make(tmp_path, params, n_test=20, until="gate")
    path = tmp_path / "metrics/feasibility.json"
    found = json.loads(path.read_text())
    stages = {"gate", "eval_base", *(f"{kind}@{arm}" for kind in ("train", "eval") for arm in params.arms)}
    assert status.money(tmp_path, stages) is None  # no price is known
    write_json(path, {**found, "money": 1.25, "currency": "EUR"})
    assert status.money(tmp_path, stages) == "1.25 EUR"
    assert status.money(tmp_path, stages - {"train@rl_gsm8k"}) is None
