"""`selfgen show` tells one row's whole life, from the artifacts alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from selfgen import show
from selfgen.errors import DataError
from selfgen.records import Rejection, Task, read_jsonl, write_json, write_jsonl
from selfgen.tasks.repair import Quarantined
from tests.report import tree


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    return tree.make(tmp_path_factory.mktemp("run"), tree.params(root), n_test=20, audit_errors=1)


@pytest.fixture(scope="module")
def tasks(finished: Path) -> list[Task]:
    return list(read_jsonl(finished / "data/filter/tasks.jsonl", Task))


def test_a_task_is_followed_from_raw_text_to_rewards(finished: Path, tasks: list[Task]) -> None:
    life = show.task_life(finished, tasks[0].id)
    assert life["candidate"]["id"] == tasks[0].candidate_id
    assert life["task"]["label"] == tasks[0].label
    trained = [(e["stage"], e["arm"], e["step"], e["group"], len(e["rewards"])) for e in life["training"]]
    assert trained == [("pilot", "rl_selfgen", 0, 0, 8), ("train", "rl_selfgen", 0, 0, 8)]
    text = show.describe_task(life)
    for wanted in (
        tasks[0].problem,
        tasks[0].code.splitlines()[1],
        f"label: {tasks[0].label}",
        "train rl_selfgen: step 0",
    ):
        assert wanted in text


def test_a_candidate_id_leads_to_its_task(finished: Path, tasks: list[Task]) -> None:
    assert show.task_life(finished, tasks[3].candidate_id)["id"] == tasks[3].id


def test_a_disagreeing_audit_shows_the_worked_solution(finished: Path) -> None:
    rows = [json.loads(line) for line in (finished / "data/audit/rows.jsonl").read_text().splitlines()]
    wrong = next(row for row in rows if row["outcome"] == "disagree")
    text = show.describe_task(show.task_life(finished, wrong["task_id"]))
    assert f"disagree; selfgen/auditor says {wrong['label'] + 1}, the label is {wrong['label']}" in text
    assert wrong["attempts"][0] in text


def test_a_rejected_candidate_says_why(finished: Path) -> None:
    row = next(read_jsonl(finished / "data/filter/rejected.jsonl", Rejection))
    text = show.describe_task(show.task_life(finished, row.candidate_id))
    assert f"rejected as {row.reason}: {row.detail}" in text
    assert "not trained on" in text


def test_a_quarantined_task_is_found_although_it_left_the_set(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    gone = Quarantined("task-gone", "A problem.", 7, "label_error", "8", "It is 8.", 1)
    write_jsonl(tmp_path / "run/review/quarantine.jsonl", [gone])
    folder = tmp_path / "run/review/audit_rounds/01"
    row = json.loads((finished / "data/audit/rows.jsonl").read_text().splitlines()[0]) | {"task_id": "task-gone"}
    write_jsonl(folder / "rows.jsonl", [row])
    write_json(folder / "audit.json", {"round": 1})
    text = show.describe_task(show.task_life(tmp_path / "run", "task-gone"))
    assert "quarantined after audit round 1 as label_error" in text
    assert "audit round 1" in text


def test_a_test_item_shows_every_arms_answer(finished: Path) -> None:
    text = show.describe_item(show.item_life(finished, "x-test-00001"))
    for arm in ("base", "rl_gsm8k", "rl_selfgen"):
        assert f"--- {arm}: " in text
    assert "training:" not in text


def test_a_train_row_shows_its_batches(finished: Path) -> None:
    rows = [json.loads(line) for line in (finished / "data/subset/rl_gsm8k.jsonl").read_text().splitlines()]
    text = show.describe_item(show.item_life(finished, rows[9]["id"]))
    assert "train rl_gsm8k: step 1, group 1, rewards" in text


@pytest.mark.parametrize("look", [show.task_life, show.item_life])
def test_an_unknown_id_says_where_ids_stand(finished: Path, look) -> None:
    with pytest.raises(DataError, match="ids stand in data/"):
        look(finished, "nothing-like-it")


def test_json_is_the_whole_life(finished: Path, tasks: list[Task], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(finished)
    printed = CliRunner().invoke(show.show, ["task", tasks[0].id, "--json"])
    assert json.loads(printed.output)["task"]["id"] == tasks[0].id
    printed = CliRunner().invoke(show.show, ["item", "x-test-00001"])
    assert printed.output.startswith("x-test-00001 (test split)")
