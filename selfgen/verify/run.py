"""What a verification reads: one checkout's artifacts, parsed once, and the three things a check may say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import jsonlines
import yaml

from selfgen.errors import DataError, VerifyError
from selfgen.params import Params, load
from selfgen.records import LEFT_OUT, CuratedRow, Task, dumps, read_json, read_jsonl, to_dict
from selfgen.tasks.overlap import OverlapIndex

T = TypeVar("T")
LARGE = "data/train/*/adapter"  # what an evidence archive leaves out
PUBLIC = (
    "data/curated/train.jsonl",
    "data/curated/test.jsonl",
    "data/subset/*.jsonl",
)  # rows of a public set, which its maker may leave out too


class NotHere(Exception):
    """A claim that cannot be checked from what is here; the message says why."""


class Run:
    """One run's artifacts under `root` (a project folder with params.yaml, dvc.lock, data/ and metrics/).

    Files are read on first use and kept. A file that is missing is `NotHere` when its stage has not run according to
    dvc.lock; when dvc.lock names it, its absence is a failed claim of `files.complete`, and `NotHere` for the rest.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self._rows: dict[tuple[str, type], list[Any]] = {}

    def path(self, name: str) -> Path:
        """An artifact by its name relative to the project.

        Raises:
            NotHere: the file is not there.
        """
        path = self.root / name
        if not path.exists():
            listed = name in self.locked_outs
            raise NotHere(f"{name} is missing; run `dvc pull`" if listed else f"{name}: its stage has not run")
        return path

    def rows(self, name: str, kind: type[T]) -> list[T]:
        """A JSONL artifact as records."""
        key = (name, kind)
        if key not in self._rows:
            self._rows[key] = list(read_jsonl(self.path(name), kind))
        return self._rows[key]

    def loose(self, name: str) -> list[dict[str, Any]]:
        """A JSONL artifact without a record type, such as step metrics."""
        try:
            with jsonlines.open(self.path(name)) as reader:
                return list(reader.iter(type=dict))
        except jsonlines.InvalidLineError as error:
            raise DataError(f"{name}:{error.lineno}: not a JSON object; restore it with `dvc checkout`") from None

    def json(self, name: str) -> Any:
        """A JSON artifact."""
        return read_json(self.path(name))

    def require(self, *names: str) -> None:
        """Stop with `NotHere` unless all of these are there."""
        for name in names:
            self.path(name)

    @cached_property
    def params(self) -> Params:
        """The validated params.yaml."""
        return load(self.root / "params.yaml")

    @cached_property
    def raw_params(self) -> dict[str, Any]:
        """params.yaml as plain values, for comparison with what dvc.lock recorded."""
        return load_yaml(self.root / "params.yaml")

    @cached_property
    def lock(self) -> dict[str, Any]:
        """The stages of dvc.lock.

        Raises:
            DataError: no dvc.lock, or not one.
        """
        path = self.root / "dvc.lock"
        try:
            return dict(load_yaml(path)["stages"])
        except FileNotFoundError:
            raise DataError(f"{path}: no such file; run `dvc repro`, or verify a revision that has one") from None
        except (yaml.YAMLError, TypeError, KeyError, ValueError):
            raise DataError(f"{path}: not a dvc.lock; restore it with `git checkout dvc.lock`") from None

    @cached_property
    def locked_outs(self) -> dict[str, dict[str, Any]]:
        """Every output that dvc.lock records, by path."""
        return {out["path"]: out for stage in self.lock.values() for out in stage.get("outs", [])}

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """Trained arms, in params' order."""
        return tuple(self.params.arms)

    @cached_property
    def finished(self) -> tuple[str, ...]:
        """The trained arms that claims about training and evaluation are about.

        An arm that no criterion compares, and that dvc.lock has not seen trained and evaluated while it has others, is
        still to come: the report says so, and `unfinished` names it.
        """
        done = {arm for arm in self.arms if {f"train@{arm}", f"eval@{arm}"} <= self.lock.keys()}
        compared = self.params.decision.compared
        return tuple(arm for arm in self.arms if not done or arm in done or arm in compared)

    @property
    def unfinished(self) -> str:
        """What to add to a claim's detail: the arms it leaves out."""
        left = [arm for arm in self.arms if arm not in self.finished]
        return f"; not yet trained and evaluated: {', '.join(left)}" if left else ""

    @cached_property
    def left_out(self) -> dict[str, dict[str, Any]]:
        """Artifacts that the maker of an evidence archive left out of it, by path, with their hashes in dvc.lock."""
        path = self.root / LEFT_OUT
        return dict(read_json(path)) if path.is_file() else {}

    def left_out_by_its_maker(self, name: str) -> bool:
        """Whether `name` is missing because the archive says so, of the very content that dvc.lock records."""
        if (self.root / name).exists() or not any(fnmatch(name, pattern) for pattern in (LARGE, *PUBLIC)):
            return False
        said, recorded = self.left_out.get(name, {}).get("md5"), self.locked_outs.get(name, {}).get("md5")
        return said is not None and said == recorded

    @property
    def tasks(self) -> list[Task]:
        """The accepted tasks, in generation order."""
        return self.rows("data/filter/tasks.jsonl", Task)

    @property
    def train_rows(self) -> list[CuratedRow]:
        """The curated training rows."""
        return self.rows("data/curated/train.jsonl", CuratedRow)

    @property
    def test_rows(self) -> list[CuratedRow]:
        """The evaluation items."""
        return self.rows("data/curated/test.jsonl", CuratedRow)

    @cached_property
    def index(self) -> OverlapIndex:
        """The evaluation questions, for overlap detectors."""
        return OverlapIndex.build(self.test_rows)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """libyaml's loader where it is there, since dvc.lock is long; reads `1e-08` as DVC does, as a number (YAML 1.2)."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def load_yaml(path: Path) -> Any:
    """A YAML file as DVC reads it."""
    return yaml.load(path.read_text(encoding="utf-8"), _Loader)


def broken(message: str) -> VerifyError:
    """A claim that the artifacts contradict."""
    return VerifyError(message)


def expect(found: Any, wanted: Any, where: str) -> None:
    """Compare two JSON-like values, exactly; a difference names the first path inside that differs.

    Raises:
        VerifyError: they differ. `found` is what the artifact says, `wanted` what was recomputed.
    """
    for place, says, should in differences(plain(found), plain(wanted), where):
        raise broken(f"{place} says {shown(says)}, recomputed {shown(should)}")


def differences(found: Any, wanted: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    """(place, found, wanted) of every leaf in which two JSON values differ."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted(found.keys() | wanted.keys(), key=str):
            yield from differences(found.get(key, MISSING), wanted.get(key, MISSING), f"{where}: {key}")
    elif isinstance(found, list) and isinstance(wanted, list):
        if len(found) != len(wanted):
            yield f"{where}: length", len(found), len(wanted)
        for index, (a, b) in enumerate(zip(found, wanted, strict=False)):
            yield from differences(a, b, f"{where}: [{index}]")
    elif isinstance(found, bool) != isinstance(wanted, bool) or found != wanted:
        yield where, found, wanted


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()


def plain(value: Any) -> Any:
    """Tuples as lists, records as dicts, as a JSON file would hold them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return plain(to_dict(value))
    return value


def shown(value: Any) -> str:
    """A value for a message, short."""
    text = repr(value) if value is MISSING or isinstance(value, float) else dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def first(items: Iterable[T]) -> T | None:
    """The first item, or None."""
    return next(iter(items), None)
