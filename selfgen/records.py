"""The typed, frozen rows that flow through the pipeline, and the one JSONL reader and writer.

A row is parsed once, here, into a record; a bad one raises `DataError` naming file, line and field. After
that nobody checks again. Files are UTF-8 JSON lines with sorted keys and no volatile content, so equal
records give equal bytes.
"""

from __future__ import annotations

import dataclasses
import glob
import json
import os
import tempfile
import types
import typing
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import jsonlines

from selfgen.errors import DataError


@dataclass(frozen=True)
class CuratedRow:
    """One row of a curated set. `id` is `{set}-{split}-{row:05d}`; `answer` the final answer, an integer as text."""

    id: str
    question: str
    solution: str
    answer: str


@dataclass(frozen=True)
class Completion:
    """One sampled sequence. `stop_reason` is "stop" (a stop sequence ended it) or "length" (max_tokens did)."""

    text: str
    n_tokens: int
    stop_reason: str


@dataclass(frozen=True)
class Candidate:
    """One raw proposal, in generation order. `id` is `cand-{index:06d}`; `text` the model's whole answer."""

    id: str
    index: int
    text: str
    n_tokens: int
    stop_reason: str


@dataclass(frozen=True)
class Task:
    """An accepted task. `id` is `task-` + the first 16 hex digits of sha256(problem, label); it survives re-runs."""

    id: str
    candidate_id: str
    index: int
    problem: str
    code: str
    label: int
    n_correct: int
    n_samples: int
    solutions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rejection:
    """A candidate that may not be trained on: one `reason` from the closed list in tasks/filters.py, and evidence."""

    candidate_id: str
    index: int
    reason: str
    detail: str
    text: str
    problem: str | None = None
    code: str | None = None
    label: int | None = None
    n_correct: int | None = None
    n_samples: int | None = None


@dataclass(frozen=True)
class AuditRow:
    """One blind re-solve. `outcome` is "agree", "disagree" or "unanswered"; `attempts` all worked solutions, in order.

    `stop_reasons` says of each attempt whether it was cut off. `adjudication` holds the recorded reason when a
    human ruled that the solver, not the label, was wrong.
    """

    task_id: str
    problem: str
    label: int
    solver: str
    attempts: tuple[str, ...]
    stop_reasons: tuple[str, ...]
    answer: str | None
    outcome: str
    adjudication: str | None = None


@dataclass(frozen=True)
class Problem:
    """What the training environment gets: an id, the text and the answer as text. Nothing else can leak into it."""

    id: str
    question: str
    answer: str


@dataclass(frozen=True)
class Rollout:
    """One training rollout, read back from the stock loop's rollout summaries."""

    step: int
    group: int
    sample: int
    problem_id: str
    reward: float
    correct: float
    format: float
    n_tokens: int


@dataclass(frozen=True)
class EvalRow:
    """One greedy evaluation item of one arm. `extracted` is what the stock extractor found, None without a box."""

    item_id: str
    arm: str
    answer: str
    completion: str
    n_tokens: int
    stop_reason: str
    extracted: str | None
    correct: bool


T = TypeVar("T")
# In an evidence archive: the artifacts that its maker left out, with what dvc.lock records of them.
LEFT_OUT = "left_out.json"


def dumps(value: Any) -> str:
    """Canonical JSON text: sorted keys, no spaces, UTF-8, no NaN."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def to_dict(record: Any) -> dict[str, Any]:
    """A record as a plain dict (tuples become lists when dumped)."""
    return dataclasses.asdict(record)


def read_jsonl(path: str | Path, kind: type[T]) -> Iterator[T]:
    """Stream a JSONL file as records of `kind`, with flat memory.

    Raises:
        DataError: the file is missing, or a line is not JSON, or a field is missing, unknown or of the wrong type.
    """
    path = Path(path)
    hints = typing.get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    required = {
        n for n, f in fields.items() if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    try:
        reader = jsonlines.open(path, loads=json.loads)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; run `dvc repro` for the stage that writes it") from None
    with reader:
        rows = reader.iter(type=dict, skip_empty=True)
        number = 0
        while True:
            number += 1
            try:
                row = next(rows)
            except StopIteration:
                return
            except (jsonlines.InvalidLineError, UnicodeDecodeError) as error:
                line = getattr(error, "lineno", number)
                raise DataError(f"{path}:{line}: not a JSON object: {str(error)[:80]}") from None
            missing = sorted(required - row.keys())
            unknown = sorted(row.keys() - fields.keys())
            if missing or unknown:
                what = f"missing field {missing[0]!r}" if missing else f"unknown field {unknown[0]!r}"
                raise DataError(f"{path}:{number}: {what} for a {kind.__name__} row")
            yield kind(**{k: _coerce(v, hints[k], path, number, k) for k, v in row.items()})


def _coerce(value: Any, hint: Any, path: Path, line: int, name: str) -> Any:
    """Check one JSON value against a field's type; tuples come as lists."""
    origin = typing.get_origin(hint)
    if origin is types.UnionType or origin is typing.Union:
        if value is None:
            return None
        hint = next(a for a in typing.get_args(hint) if a is not type(None))
        origin = typing.get_origin(hint)
    if origin is tuple and isinstance(value, list):
        inner = typing.get_args(hint)[0]
        return tuple(_coerce(v, inner, path, line, name) for v in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint) and not (hint in (int, float) and isinstance(value, bool)):
        return value
    if hint is Any or origin is dict:
        return value
    expected = getattr(hint, "__name__", str(hint))
    raise DataError(f"{path}:{line}: field {name!r} must be {expected}, not {type(value).__name__}")


def by_set(rows: Iterable[EvalRow]) -> dict[str, list[EvalRow]]:
    """Rows of transfer sets by the set that their item ids name (`svamp-00012`), in order."""
    out: dict[str, list[EvalRow]] = {}
    for row in rows:
        out.setdefault(row.item_id.rpartition("-")[0], []).append(row)
    return out


@contextmanager
def replace_file(path: str | Path) -> Iterator[Path]:
    """A temporary name beside `path`, renamed onto it when the block ends well and removed otherwise.

    What a writer killed with -9 left behind is removed by the next one.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if _writer_is_gone(left):
            left.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{os.getpid()}-", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _writer_is_gone(temporary: Path) -> bool:
    """Whether the process whose id stands in a temporary name has ended."""
    import psutil

    pid = temporary.name.split(".")[-2].partition("-")[0]
    return pid.isdigit() and not psutil.pid_exists(int(pid))


def write_jsonl(path: str | Path, records: Iterable[Any]) -> int:
    """Write records (or dicts) atomically as canonical JSONL; returns the number of rows.

    No rows are one blank line: DVC warns of every empty output.
    """
    rows = 0
    with replace_file(path) as temporary:
        with jsonlines.open(temporary, "w", dumps=dumps) as writer:
            for record in records:
                writer.write(record if isinstance(record, dict) else to_dict(record))
                rows += 1
        if rows == 0:
            temporary.write_text("\n", encoding="utf-8")
    return rows


def write_json(path: str | Path, value: Any) -> None:
    """Write one JSON value atomically: sorted keys, two-space indent, trailing newline."""
    with replace_file(path) as temporary:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, indent=2, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def read_json(path: str | Path) -> Any:
    """Read one JSON value.

    Raises:
        DataError: the file is missing or not JSON.
    """
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; run `dvc repro` for the stage that writes it") from None
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}; restore it with `dvc checkout` or `dvc repro`") from None
