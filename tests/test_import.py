"""`selfgen import` brings another project's problems into the form that training reads, and keeps test questions out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from selfgen.errors import DataError, ParamsError, SelfgenError
from selfgen.export.importing import import_, read
from selfgen.records import CuratedRow, Problem, read_jsonl, write_jsonl
from selfgen.tasks.overlap import OverlapIndex
from selfgen.training import subset
from tests.report import tree

TEST = OverlapIndex.build([CuratedRow("t-0", "Ann has 3 hens. How many hens?", "#### 3", "3")])


@pytest.mark.parametrize(
    "row",
    [
        {"question": "How many?", "answer": "7"},
        {"problem": "How many?", "label": 7},
        {"prompt": " How many? ", "final_answer": "3 + 4 = 7\n#### 7"},
        {"question": "How many?", "answer": "7.0", "more": [1]},
    ],
)
def test_common_field_names_and_answer_forms_give_the_same_problem(row: dict[str, Any]) -> None:
    found = read([row], TEST, "x.jsonl").problems[0]
    assert (found.question, found.answer) == ("How many?", "7")
    assert found.id == read([{"question": "How many?", "answer": "7"}], TEST, "x").problems[0].id


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "How many?", "answer": 7}, "no text under any of question"),
        ({"question": "How many?"}, "no text under any of answer"),
        ({"question": "How many?", "answer": "7.5"}, "not an integer"),
        ({"question": "How many?", "answer": "many"}, "not an integer"),
        ({"question": "How many?", "answer": True}, "no text under any of answer"),
    ],
)
def test_rows_that_cannot_be_trained_on_are_named_with_their_line(row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=rf"x\.jsonl:1: .*{message}"):
        read([row], TEST, "x.jsonl")


def test_test_questions_and_repeated_texts_are_left_out_and_counted() -> None:
    rows = [{"question": q, "answer": 3} for q in ("How many?", "ANN has 3 hens;  how many hens", "How many?", "Why?")]
    found = read(rows, TEST, "x")
    assert [p.question for p in found.problems] == ["How many?", "Why?"]
    assert found.overlapping == ((2, "t-0"),)
    assert found.repeated == 1


def test_an_imported_arm_trains_on_its_file_in_order(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = tree.copy(root, tmp_path / "run")
    monkeypatch.chdir(where)
    write_jsonl(where / "other.jsonl", [{"question": f"How many is {i} and 1?", "answer": i + 1} for i in range(100)])
    done = CliRunner().invoke(import_, ["other.jsonl", "--arm", "rl_other"])
    assert done.exit_code == 0, done.output
    arms = {"rl_gsm8k": {"data": "curated"}, "rl_selfgen": {"data": "tasks"}, "rl_other": {"data": "imported"}}
    params = tree.params(root, arms=arms)
    problems, about = subset.build(params, "rl_other", curated=[], tasks=[])
    assert problems == list(read_jsonl("imports/rl_other.jsonl", Problem))[: params.train.problems]
    assert about["data"] == "imported"


def refused(arguments: list[str]) -> SelfgenError:
    error = CliRunner().invoke(import_, arguments).exception
    assert isinstance(error, SelfgenError)
    return error


def test_too_few_problems_a_bad_name_and_an_existing_file_are_refused(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree.copy(root, tmp_path / "run"))
    write_jsonl("other.jsonl", [{"question": "How many?", "answer": 1}])
    assert "1 usable problems" in str(refused(["other.jsonl", "--arm", "rl_other"]))
    assert isinstance(refused(["other.jsonl", "--arm", "base"]), ParamsError)
    assert not Path("imports").exists()
    write_jsonl("imports/rl_other.jsonl", [])
    assert "--replace" in str(refused(["other.jsonl", "--arm", "rl_other"]))


def test_an_arm_whose_problems_were_never_imported_says_how(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="selfgen import FILE --arm rl_other"):
        subset.read_imported("rl_other", tmp_path)
