"""Edits of artifacts: each helper returns a function that changes one file under a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonlines
import yaml

from selfgen.records import dumps, read_json, write_json, write_jsonl

Row = dict[str, Any]


def rows(root: Path, name: str) -> list[Row]:
    with jsonlines.open(root / name) as reader:
        return list(reader.iter(skip_empty=True))


def edit_rows(name: str, change: Callable[[list[Row]], None]) -> Callable[[Path], None]:
    """An edit of a JSONL file's list of rows."""

    def apply(root: Path) -> None:
        found = rows(root, name)
        before = dumps(found)
        change(found)
        assert dumps(found) != before, f"{name}: the edit changes nothing"
        write_jsonl(root / name, found)

    return apply


def edit_json(name: str, change: Callable[[Any], None]) -> Callable[[Path], None]:
    """An edit of a JSON file."""

    def apply(root: Path) -> None:
        value = read_json(root / name)
        before = dumps(value)
        change(value)
        assert dumps(value) != before, f"{name}: the edit changes nothing"
        write_json(root / name, value)

    return apply


def edit_params(change: Callable[[Any], None]) -> Callable[[Path], None]:
    """An edit of params.yaml."""

    def apply(root: Path) -> None:
        values = yaml.safe_load((root / "params.yaml").read_text())
        change(values)
        (root / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))

    return apply


def edit_lock(change: Callable[[Any], None]) -> Callable[[Path], None]:
    """An edit of dvc.lock."""

    def apply(root: Path) -> None:
        values = yaml.safe_load((root / "dvc.lock").read_text())
        change(values["stages"])
        (root / "dvc.lock").write_text(yaml.safe_dump(values, sort_keys=False))

    return apply


def put(index: int, field: str, value: Any) -> Callable[[list[Row]], None]:
    """Set one field of one row; a function gets the old value."""

    def change(found: list[Row]) -> None:
        found[index][field] = value(found[index][field]) if callable(value) else value

    return change


def swap(a: int, b: int) -> Callable[[list[Row]], None]:
    def change(found: list[Row]) -> None:
        found[a], found[b] = found[b], found[a]

    return change


def drop(index: int) -> Callable[[list[Row]], None]:
    return lambda found: found.pop(index)


def double(index: int) -> Callable[[list[Row]], None]:
    return lambda found: found.insert(index, dict(found[index]))


def exchange(first: str, second: str) -> Callable[[Path], None]:
    """Swap two files."""

    def apply(root: Path) -> None:
        a, b = (root / first).read_bytes(), (root / second).read_bytes()
        assert a != b
        (root / first).write_bytes(b)
        (root / second).write_bytes(a)

    return apply


def cut(name: str) -> Callable[[Path], None]:
    """The file ends in the middle of its last line."""

    def apply(root: Path) -> None:
        data = (root / name).read_bytes()
        (root / name).write_bytes(data[:-20])

    return apply


def remove(name: str) -> Callable[[Path], None]:
    return lambda root: (root / name).unlink()


def empty(name: str) -> Callable[[Path], None]:
    return lambda root: (root / name).write_bytes(b"")


def assign(key: str, value: Any) -> Callable[[Any], None]:
    """Set a dotted key; in a list its part is an index; a function gets the old value."""

    def change(whole: Any) -> None:
        *path, last = key.split(".")
        for part in path:
            whole = whole[int(part) if isinstance(whole, list) else part]
        whole[last] = value(whole[last]) if callable(value) else value

    return change
