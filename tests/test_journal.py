"""The request journal: what is answered once is never asked again, and never read back wrong."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from selfgen.errors import DataError
from selfgen.journal import Journal, Sampled, open_journal, request_key

SAMPLING = {"max_tokens": 8, "temperature": 1.0, "stop": [2], "top_p": 1.0}
SAMPLES = [Sampled((5, 6, 2), "stop"), Sampled((7,) * 8, "length")]


def key(i: int = 0) -> bytes:
    return request_key("model@abc", (1, 2, i), SAMPLING, 2, 7)


def test_an_answer_is_read_back_as_written(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.sqlite") as journal:
        assert journal.get(key()) is None
        journal.put(key(), "model", 3, SAMPLES)
        assert journal.get(key()) == SAMPLES
    with Journal(tmp_path / "j.sqlite") as again:
        assert again.get(key()) == SAMPLES
        assert again.stats()["hits"] == 2
        assert again.stats()["sampled_tokens_saved"] == 22


@pytest.mark.parametrize(
    "change",
    [
        {"identity": "model@other"},
        {"prompt": (1, 2, 4)},
        {"sampling": {**SAMPLING, "temperature": 0.7}},
        {"sampling": {**SAMPLING, "max_tokens": 9}},
        {"sampling": {**SAMPLING, "stop": [3]}},
        {"n": 3},
        {"seed": 8},
    ],
)
def test_every_part_of_a_request_is_part_of_its_key(change: dict) -> None:
    request = {"identity": "model@abc", "prompt": (1, 2, 3), "sampling": SAMPLING, "n": 2, "seed": 7}
    assert request_key(**request) != request_key(**{**request, **change})
    assert request_key(**request) == request_key(**request)


def test_the_first_answer_of_a_key_stays(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.sqlite") as journal:
        journal.put(key(), "model", 3, SAMPLES)
        journal.put(key(), "model", 3, SAMPLES[:1])
        assert journal.get(key()) == SAMPLES


def test_a_damaged_row_is_asked_for_again(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.sqlite") as journal:
        journal.put(key(), "model", 3, SAMPLES)
    with sqlite3.connect(tmp_path / "j.sqlite") as db:
        db.execute("UPDATE samples SET body = CAST(substr(body, 1, length(body) - 1) || x'00' AS BLOB)")
    with Journal(tmp_path / "j.sqlite") as journal:
        assert journal.get(key()) is None
        journal.put(key(), "model", 3, SAMPLES)
        assert journal.get(key()) == SAMPLES


def test_a_file_that_is_no_database_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "j.sqlite").write_bytes(b"not a database, and long enough to be looked at" * 50)
    with pytest.raises(DataError, match=r"j\.sqlite: the request journal cannot be opened .* SELFGEN_JOURNAL=off"):
        Journal(tmp_path / "j.sqlite")


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFGEN_JOURNAL", "off")
    assert open_journal() is None


def test_prune_keeps_what_was_used_lately(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.sqlite") as journal:
        for i in range(3):
            journal.put(key(i), "model", 3, SAMPLES)
        with sqlite3.connect(tmp_path / "j.sqlite") as db:
            db.execute("UPDATE samples SET used = used - 10 * 86400")
        journal.get(key(1))
        assert journal.prune(unused_days=5) == 2
        assert journal.get(key(1)) == SAMPLES
        assert journal.get(key(0)) is None


def _write_forever(path: Path, offset: int) -> None:
    with Journal(path) as journal:
        for i in range(10**9):
            journal.put(key(offset + i), "model", 3, SAMPLES)


def _write(path: Path, n: int) -> None:
    with Journal(path) as journal:
        for i in range(n):
            journal.put(key(i), "model", 3, SAMPLES)


def test_several_writers_of_the_same_keys_agree(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(tmp_path / "j.sqlite", 200)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    with Journal(tmp_path / "j.sqlite") as journal:
        assert journal.stats()["requests"] == 200
        assert all(journal.get(key(i)) == SAMPLES for i in range(200))


def test_a_killed_writer_leaves_whole_rows_only(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    context = multiprocessing.get_context("spawn")
    for round_ in range(3):
        writer = context.Process(target=_write_forever, args=(path, round_ * 10**6))
        writer.start()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            time.sleep(0.2)
            if path.exists() and _rows(path) > 50 * (round_ + 1):
                break
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
    with Journal(path) as journal:
        with sqlite3.connect(path) as db:
            keys = [row[0] for row in db.execute("SELECT key FROM samples")]
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert len(keys) > 100
        assert all(journal.get(k) == SAMPLES for k in keys)


def _rows(path: Path) -> int:
    try:
        with sqlite3.connect(path, timeout=5) as db:
            return db.execute("SELECT COUNT(*) FROM samples").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
