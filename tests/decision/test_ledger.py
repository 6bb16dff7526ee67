import json

import pytest

from selfgen.decision import ledger
from selfgen.errors import DataError

PLAN = {"alpha": 0.05, "criteria": [{"id": "c"}]}


def seed(number, value=0.1, rows="aa"):
    return {"seed": number, "source": f"exp-{number}", "estimates": {"c": value}, "rows": {"base": rows}}


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "seeds.jsonl"
    ledger.append(path, PLAN, [seed(0), seed(1), seed(2)])
    return path


def rewrite(path, change):
    lines = path.read_text().splitlines()
    path.write_text("\n".join(change(lines)) + "\n")


def test_seeds_are_appended_once_and_may_be_continued_later(book):
    before = book.read_bytes()
    entries, new = ledger.append(book, PLAN, [seed(1), seed(3)])
    assert new == 1
    assert [e.content["seed"] for e in entries[1:]] == [0, 1, 2, 3]
    assert book.read_bytes().startswith(before)


def test_nothing_new_writes_nothing(book):
    before = book.read_bytes()
    assert ledger.append(book, PLAN, [seed(2)])[1] == 0
    assert book.read_bytes() == before


def edit(lines):
    row = json.loads(lines[2])
    row["content"]["estimates"]["c"] = 0.9
    return [*lines[:2], json.dumps(row), *lines[3:]]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (edit, 3),
        (lambda lines: [lines[0], lines[2], *lines[3:]], 2),
        (lambda lines: [lines[0], lines[2], lines[1], lines[3]], 2),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], 3),
        (lambda lines: lines[1:], 1),
    ],
    ids=["edited", "dropped", "swapped", "doubled", "beheaded"],
)
def test_any_change_to_a_recorded_line_is_found_and_named(book, change, line):
    rewrite(book, change)
    with pytest.raises(DataError, match=rf":{line}: the chain is broken"):
        ledger.read(book)


def test_a_recorded_seed_cannot_be_replaced(book):
    with pytest.raises(DataError, match="seed 1 is recorded with other rows"):
        ledger.append(book, PLAN, [seed(1, rows="bb")])


def test_another_plan_is_refused_naming_what_differs(book):
    with pytest.raises(DataError, match="another plan \\(alpha differ"):
        ledger.append(book, PLAN | {"alpha": 0.1}, [seed(4)])


def test_a_missing_ledger_is_a_new_one_and_an_empty_file_is_not(tmp_path):
    assert ledger.read(tmp_path / "none.jsonl") == []
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(DataError, match="empty ledger"):
        ledger.read(tmp_path / "empty.jsonl")


def reseal(line, **change):
    entry = ledger.Entry(**(json.loads(line) | change))
    return json.dumps(vars(entry.sealed()))


def test_an_edited_line_with_its_hash_made_anew_breaks_the_line_after_it(book):
    rewrite(book, lambda lines: [*lines[:2], reseal(lines[2], content=seed(1, value=0.9)), *lines[3:]])
    with pytest.raises(DataError, match=":4: the chain is broken"):
        ledger.read(book)


def test_a_wrong_line_number_is_found_even_under_a_valid_hash(book):
    rewrite(book, lambda lines: [*lines[:3], reseal(lines[3], index=7)])
    with pytest.raises(DataError, match=":4: the chain is broken"):
        ledger.read(book)
