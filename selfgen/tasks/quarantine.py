"""Tasks that a failed audit took out for good: what the filter needs to know of a repair, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from selfgen.records import read_jsonl

QUARANTINE = "quarantine.jsonl"


@dataclass(frozen=True)
class Quarantined:
    """A task taken out for good. `solution` is the worked solution that contradicts it, or the question it equals."""

    id: str
    problem: str
    label: int
    reason: str
    answer: str | None
    solution: str
    round: int


def read_quarantine(review: str | Path) -> list[Quarantined]:
    """The quarantine kept in the folder `review`; empty when there is none yet."""
    path = Path(review) / QUARANTINE
    return list(read_jsonl(path, Quarantined)) if path.exists() else []


def quarantined_ids(review: str | Path) -> frozenset[str]:
    """Ids that the filter must reject, whatever else they pass."""
    return frozenset(row.id for row in read_quarantine(review))
