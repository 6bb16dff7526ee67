"""The one JSONL reader and writer: canonical bytes, whole files, errors that name file, line and field."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from selfgen.errors import DataError
from selfgen.records import CuratedRow, Task, read_json, read_jsonl, replace_file, write_json, write_jsonl

ROW = CuratedRow("a-train-00000", "How many “eggs”?", "One.\n#### 1", "1")
TASK = Task("task-0", "cand-0", 0, "p", "c", 3, 2, 8, ("one", "two"))


def test_rows_come_back_as_written_in_canonical_bytes(tmp_path: Path) -> None:
    assert write_jsonl(tmp_path / "rows.jsonl", [ROW, ROW]) == 2
    assert list(read_jsonl(tmp_path / "rows.jsonl", CuratedRow)) == [ROW, ROW]
    first = (tmp_path / "rows.jsonl").read_text().splitlines()[0]
    assert first == '{"answer":"1","id":"a-train-00000","question":"How many “eggs”?","solution":"One.\\n#### 1"}'


def test_tuples_survive(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "tasks.jsonl", [TASK])
    assert list(read_jsonl(tmp_path / "tasks.jsonl", Task)) == [TASK]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"rows\.jsonl:2: not a JSON object"),
        ("[1]", r"rows\.jsonl:2: not a JSON object"),
        ('{"id": "x", "question": "q", "solution": "s"}', r"rows\.jsonl:2: missing field 'answer' for a CuratedRow"),
        (
            '{"id": "x", "question": "q", "solution": "s", "answer": "1", "extra": 1}',
            r"rows\.jsonl:2: unknown field 'extra'",
        ),
        (
            '{"id": "x", "question": "q", "solution": "s", "answer": 1}',
            r"rows\.jsonl:2: field 'answer' must be str, not int",
        ),
    ],
)
def test_a_bad_line_names_file_line_and_field(tmp_path: Path, line: str, message: str) -> None:
    write_jsonl(tmp_path / "rows.jsonl", [ROW])
    with open(tmp_path / "rows.jsonl", "a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=message):
        list(read_jsonl(tmp_path / "rows.jsonl", CuratedRow))


def test_true_is_not_an_integer(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text(
        '{"id":"t","candidate_id":"c","index":0,"problem":"p","code":"c","label":true,"n_correct":1,"n_samples":8}\n'
    )
    with pytest.raises(DataError, match="field 'label' must be int, not bool"):
        list(read_jsonl(tmp_path / "tasks.jsonl", Task))


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "rows.jsonl", [ROW])
    before = (tmp_path / "rows.jsonl").read_bytes()

    def rows():
        yield ROW
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        write_jsonl(tmp_path / "rows.jsonl", rows())
    assert (tmp_path / "rows.jsonl").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_what_a_killed_writer_left_is_removed_by_the_next_one_and_by_no_other(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f".rows.jsonl.{gone.pid}-ab_c.tmp"
    others = [tmp_path / f".rows.jsonl.{os.getpid()}-abc.tmp", tmp_path / f".other.jsonl.{gone.pid}-abc.tmp"]
    for path in (left, *others):
        path.write_text("half a r")
    write_jsonl(tmp_path / "rows.jsonl", [{"a": 1}])
    assert not left.exists()
    assert all(path.exists() for path in others)


def test_a_missing_file_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such file; run `dvc repro`"):
        list(read_jsonl(tmp_path / "none.jsonl", CuratedRow))
    with pytest.raises(DataError, match=r"no such file; run `dvc repro`"):
        read_json(tmp_path / "none.json")


def test_json_that_is_not_json_says_how_to_restore_it(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(DataError, match=r"not JSON: .*dvc checkout"):
        read_json(tmp_path / "x.json")


def test_nan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", {"x": float("nan")})
    assert not (tmp_path / "x.json").exists()


def test_files_get_the_users_own_permissions(tmp_path: Path) -> None:
    with replace_file(tmp_path / "x") as temporary:
        temporary.write_text("1")
    plain = tmp_path / "plain"
    plain.write_text("1")
    assert (tmp_path / "x").stat().st_mode == plain.stat().st_mode


def test_no_rows_are_a_file_that_is_not_empty_and_reads_as_none(tmp_path: Path) -> None:
    assert write_jsonl(tmp_path / "none.jsonl", []) == 0
    assert (tmp_path / "none.jsonl").read_bytes() == b"\n"
    assert list(read_jsonl(tmp_path / "none.jsonl", CuratedRow)) == []
