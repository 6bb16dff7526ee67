"""Transfer sets from files, folders and the stand-in, as canonical rows whose ids name their set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from selfgen.curated import gsm8k
from selfgen.curated.transfer import final_answer, load
from selfgen.errors import DataError, ParamsError
from selfgen.params import TransferParams, parse

ROWS = [
    {"Body": "Ann has 3 pens.", "Question": "How many pens?", "Answer": 3.0},
    {"Body": "Ben has 1,000 figs.", "Question": "How many figs?", "Answer": "He has them.\n#### 1,000"},
]
FIELDS = {"question": ("Body", "Question"), "answer": "Answer"}


def write(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_file_and_a_folder_give_the_same_rows_under_the_sets_name(tmp_path: Path) -> None:
    file = write(tmp_path / "svamp/dev.jsonl", ROWS)
    one, other = (
        load({"svamp": TransferParams(source=str(source), split="dev", **FIELDS)}, 0) for source in (file, file.parent)
    )
    assert one == other
    assert [(row.id, row.question, row.answer) for row in one] == [
        ("svamp-00000", "Ann has 3 pens. How many pens?", "3"),
        ("svamp-00001", "Ben has 1,000 figs. How many figs?", "1000"),
    ]


def test_several_sets_stand_in_params_order(tmp_path: Path) -> None:
    mine = TransferParams(source=str(write(tmp_path / "mine.jsonl", ROWS)), items=1, **FIELDS)
    rows = load({"outside": TransferParams(source="standin", items=2), "mine": mine}, 0)
    assert [row.id for row in rows] == ["outside-00000", "outside-00001", "mine-00000"]


@pytest.mark.parametrize(
    ("given", "answer"),
    [("145.0", "145"), (145.0, "145"), ("1,234", "1234"), ("so\n#### 7", "7"), ("-3", "-3"), ("2.5", "2.5"),
     (r"\frac{1}{2}", r"\frac{1}{2}"), ("3, 4", "3, 4")],
)  # fmt: skip
def test_answers_are_what_the_grader_compares_with(given: object, answer: str) -> None:
    assert final_answer(given) == answer


def test_a_pin_refuses_other_rows(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.jsonl", ROWS)
    digest = gsm8k.digest(load({"mine": TransferParams(source=str(file), **FIELDS)}, 0))
    pinned = TransferParams(source=str(file), sha256=digest, **FIELDS)
    assert len(load({"mine": pinned}, 0)) == 2
    write(file, ROWS[::-1])
    with pytest.raises(DataError, match="pinned is"):
        load({"mine": pinned}, 0)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"source": "none.jsonl"}, "transfer.mine.source none.jsonl: no such file"),
        ({"source": "folder"}, "no such file; give a JSON lines file, a folder with test.jsonl"),
        ({"source": "mine.jsonl"}, "row 0 lacks one of the fields question, answer; name them"),
        ({"source": "mine.jsonl", **FIELDS, "items": 3}, "2 rows, 3 asked for"),
        ({"source": "torn.jsonl"}, "torn.jsonl:1: not a JSON object"),
        ({"source": "standin"}, "transfer.mine.items: missing"),
    ],
)  # fmt: skip
def test_a_bad_source_is_one_line(tmp_path: Path, monkeypatch, params: dict, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("mine.jsonl"), ROWS)
    Path("torn.jsonl").write_text('{"question": "How')
    Path("folder").mkdir()
    with pytest.raises(DataError) as found:
        load({"mine": TransferParams(**params)}, 0)
    assert message in str(found.value)
    assert "\n" not in str(found.value)


def test_a_misspelt_key_says_what_a_set_accepts(root: Path) -> None:
    values = yaml.safe_load((root / "params.yaml").read_text())
    with pytest.raises(ParamsError, match="accepted here: answer, config, items, question"):
        parse({**values, "transfer": {"mine": {"source": "a", "fields": "b"}}})
