"""A run as the report sees it: every artifact it shows, read once into records.

A finished run has all of them. A run that was stopped, by a failed audit or gate say, has the first ones: with
`partial`, what is missing is None or empty and the page says so, which is when a page is needed most.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from selfgen.errors import DataError
from selfgen.params import Params
from selfgen.records import LEFT_OUT, AuditRow, CuratedRow, EvalRow, Rejection, Rollout, Task, read_json, read_jsonl

BASE = "base"
EXAMPLES = 4  # rejected candidates kept of each reason

T = TypeVar("T")


@dataclass(frozen=True)
class Training:
    """One trained arm: its checkpoint record, step metrics, rollouts and (volatile) timing."""

    checkpoint: Mapping[str, Any]
    curve: Sequence[Mapping[str, Any]]
    rollouts: Sequence[Rollout]
    timing: Mapping[str, Any]


@dataclass(frozen=True)
class Rejected:
    """The rejected candidates: counts by reason, and for each reason up to EXAMPLES drawn by hash."""

    counts: Mapping[str, int]
    examples: Mapping[str, Sequence[Rejection]]


@dataclass(frozen=True)
class Run:
    """All artifacts under `root`. None and empty mappings stand for what a stopped run has not reached."""

    root: Path
    params: Params
    items: Sequence[CuratedRow] = ()
    tasks: Sequence[Task] = ()
    rejected: Rejected | None = None
    overlap: Mapping[str, Any] | None = None
    yields: Mapping[str, Any] | None = None
    audit: Mapping[str, Any] | None = None
    audit_rows: Sequence[AuditRow] = ()
    past_audits: Sequence[Mapping[str, Any]] = ()
    preflight: Mapping[str, Any] | None = None
    subsets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pilots: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    gate: Mapping[str, Any] | None = None
    feasibility: Mapping[str, Any] | None = None
    trainings: Mapping[str, Training] = field(default_factory=dict)
    evaluations: Mapping[str, Sequence[EvalRow]] = field(default_factory=dict)
    transfers: Mapping[str, Sequence[EvalRow]] = field(default_factory=dict)
    eval_timings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    decision: Mapping[str, Any] | None = None
    graders: Mapping[str, Any] | None = None
    manifests: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    provenance: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    missing: Sequence[str] = ()

    @property
    def n_items(self) -> int:
        """Evaluation items: the curated test rows, or where they are not here, the rows of an evaluated arm."""
        return len(self.items) or max(map(len, self.evaluations.values()), default=0)

    @property
    def arms(self) -> list[str]:
        """The evaluated arms in the order shown: base, then params' order."""
        return [BASE, *self.params.arms]


def load(root: str | Path, params: Params, *, partial: bool = False) -> Run:
    """Read the artifacts of the run under `root`.

    Args:
        root: the project's folder.
        params: the composed params of that run.
        partial: leave out what is missing instead of refusing it. A malformed file is refused either way.

    Raises:
        DataError: a file is missing (unless `partial`) or malformed.
    """
    root = Path(root)
    data, trained = root / "data", list(params.arms)
    left_out = read_json(root / LEFT_OUT) if (root / LEFT_OUT).exists() else {}
    missing: list[str] = []

    def optional(path: Path, read: Callable[[Path], T], empty: T) -> T:
        if partial and not path.exists():
            missing.append(path.relative_to(root).as_posix())
            return empty
        return read(path)

    def rows(kind: type[T]) -> Callable[[Path], list[T]]:
        return lambda path: list(read_jsonl(path, kind))

    def by_arm(arms: Iterable[str], place: str, read: Callable[[Path], T]) -> dict[str, T]:
        found: dict[str, T] = {}
        for arm in arms:
            path = data / place.format(arm=arm)
            if partial and not path.exists():
                missing.append(path.relative_to(root).as_posix())
            else:
                found[arm] = read(path)
        return found

    return Run(
        root=root,
        params=params,
        items=optional(data / "curated/test.jsonl", rows(CuratedRow), []),
        tasks=optional(data / "filter/tasks.jsonl", rows(Task), []),
        rejected=optional(data / "filter/rejected.jsonl", read_rejected, None),
        overlap=optional(data / "filter/overlap.json", read_json, None),
        yields=optional(data / "filter/yields.json", read_json, None),
        audit=optional(data / "audit/audit.json", read_json, None),
        audit_rows=optional(data / "audit/rows.jsonl", rows(AuditRow), []),
        past_audits=[read_json(path) for path in sorted((root / "review/audit_rounds").glob("*/audit.json"))],
        preflight=optional(data / "preflight/preflight.json", read_json, None),
        subsets=by_arm(trained, "subset/{arm}.json", read_json),
        pilots=by_arm(trained, "pilot/{arm}/pilot.json", read_json),
        gate=optional(data / "gate/gate.json", read_json, None),
        feasibility=optional(root / "metrics/feasibility.json", read_json, None),
        trainings=by_arm(trained, "train/{arm}/checkpoint.json", _training),
        evaluations=by_arm([BASE, *trained], "eval/{arm}/rows.jsonl", rows(EvalRow)),
        transfers=_transfers(data, [BASE, *trained]),
        eval_timings=by_arm([BASE, *trained], "eval/{arm}/timing.json", read_json),
        decision=optional(data / "decide/decision.json", read_json, None),
        graders=optional(data / "decide/graders.json", read_json, None),
        manifests=_beside(data, "manifest.json"),
        provenance=_beside(data, "provenance.json"),
        missing=[name for name in missing if name not in left_out],
    )


def read_rejected(path: Path) -> Rejected:
    """Count rejections by reason and keep a few of each, with memory flat in the number of rows.

    Examples are those with the smallest sha256 of their candidate id: a fixed random draw, not the first ones.
    """
    counts: Counter[str] = Counter()
    kept: dict[str, list[tuple[bytes, Rejection]]] = {}
    for row in read_jsonl(path, Rejection):
        counts[row.reason] += 1
        best = kept.setdefault(row.reason, [])
        best.append((draw_key(row.candidate_id), row))
        best.sort(key=lambda pair: pair[0])
        del best[EXAMPLES:]
    return Rejected(dict(counts), {reason: [row for _, row in best] for reason, best in kept.items()})


def draw_key(name: str) -> bytes:
    """Sort key of a fixed random order that any tool can recompute: sha256 of `report:` and the id."""
    return hashlib.sha256(f"report:{name}".encode()).digest()


def _transfers(data: Path, arms: Iterable[str]) -> dict[str, list[EvalRow]]:
    """Evaluations on the transfer sets, all of an arm's in one file."""
    paths = {arm: data / f"eval/{arm}/transfer.jsonl" for arm in arms}
    return {arm: list(read_jsonl(path, EvalRow)) for arm, path in paths.items() if path.exists()}


def _training(checkpoint: Path) -> Training:
    folder = checkpoint.parent
    return Training(
        checkpoint=read_json(checkpoint),
        curve=_plain_rows(folder / "curve.jsonl"),
        rollouts=list(read_jsonl(folder / "rollouts.jsonl", Rollout)),
        timing=read_json(folder / "timing.json"),
    )


def _plain_rows(path: Path) -> list[dict[str, Any]]:
    """Rows whose fields vary with the loop's version (step metrics), as dicts."""
    import jsonlines

    try:
        with jsonlines.open(path) as reader:
            return list(reader.iter(type=dict))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; run `dvc repro` for the stage that writes it") from None
    except jsonlines.InvalidLineError as error:
        raise DataError(f"{path}:{error.lineno}: not a JSON object; run the stage that writes it again") from None


def _beside(data: Path, name: str) -> dict[str, dict[str, Any]]:
    """Every stage's file of this name, keyed by the stage's folder under data/."""
    return {path.parent.relative_to(data).as_posix(): read_json(path) for path in sorted(data.rglob(name))}
