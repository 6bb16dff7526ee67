"""Pairing the arms' rows by item id. Missing, extra and duplicate items are errors, never dropped.

The estimand is a mean over one fixed list of items, so an item that one arm lacks makes the arms answer
different questions. Silence about it would bias the difference toward whichever arm failed quietly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from selfgen.errors import DataError
from selfgen.records import EvalRow, read_jsonl

Rows = Iterable[tuple[str, Any]]


@dataclass(frozen=True)
class Paired:
    """Scores of every arm on the same items, in one order. `scores[arm]` is a bool, int or float array of n."""

    items: Sequence[str]
    scores: Mapping[str, np.ndarray]

    @property
    def n(self) -> int:
        """The number of items."""
        return len(self.items)

    def total(self, arm: str) -> Fraction:
        """The exact sum of an arm's scores."""
        return exact_sum(self.scores[arm])

    def mean(self, arm: str) -> Fraction:
        """The exact mean of an arm's scores: its accuracy, when scores are `correct`."""
        return self.total(arm) / self.n

    def values(self, weights: Mapping[str, Any]) -> np.ndarray:
        """x_i = sum over arms of w_a * score_(a,i), as floats, shape (n,)."""
        return sum((float(w) * self.scores[arm].astype(float) for arm, w in weights.items()), np.zeros(self.n))

    def without(self, excluded: Iterable[str]) -> Paired:
        """The same arms without some items.

        Raises:
            DataError: an id to exclude is not among the items (a typo would silently exclude nothing).
        """
        excluded = set(excluded)
        if unknown := sorted(excluded - set(self.items)):
            raise DataError(f"{unknown[0]!r} ({len(unknown)} ids) is not an evaluated item; correct the list of ids")
        keep = np.fromiter((i not in excluded for i in self.items), bool, self.n)
        items = [i for i in self.items if i not in excluded]
        return Paired(items, {arm: s[keep] for arm, s in self.scores.items()})

    def digest(self) -> str:
        """sha256 of the sorted item ids, one a line: the identity of the item list, whatever its order."""
        return items_digest(self.items)


def items_digest(items: Iterable[str]) -> str:
    """sha256 of the sorted ids joined by newlines, with a final newline."""
    return hashlib.sha256(("\n".join(sorted(items)) + "\n").encode()).hexdigest()


def pair(rows: Mapping[str, Rows], items: Iterable[str] | None = None) -> Paired:
    """Align arms' (item id, score) rows on the item ids.

    Args:
        rows: for each arm, its (item id, score) pairs in any order; a score is a bool, int or finite float.
        items: the ids every arm must have, such as the test set's. Without it the first arm's ids are the
            standard, and an item that all arms lack cannot be noticed.

    Raises:
        DataError: an arm lacks an item, has one too many or one twice; a score is no number; there is no item.
    """
    if not rows:
        raise DataError("no arm has evaluation rows; run `dvc repro` for the eval stages")
    reference = None if items is None else list(items)
    position: dict[str, int] = {}
    scores: dict[str, np.ndarray] = {}
    for arm, arm_rows in rows.items():
        ids, values = _columns(arm, arm_rows)
        if reference is None:
            reference = ids
        if not position:
            position = {item: i for i, item in enumerate(reference)}
            if len(position) < len(reference):
                _refuse_duplicate("the item list" if items is not None else f"arm {arm}", reference)
        if ids != reference:
            places = np.fromiter(map(position.get, ids, repeat(-1)), np.int64, len(ids))
            _refuse_difference(arm, ids, reference, places)
            aligned = np.empty_like(values)
            aligned[places] = values
            values = aligned
        scores[arm] = values
    return Paired(reference or [], scores)


def read_arms(paths: Mapping[str, str | Path]) -> dict[str, list[tuple[str, bool]]]:
    """Read arms' evaluation rows (JSONL of `EvalRow`) as (item id, correct) pairs.

    Raises:
        DataError: a file is missing or malformed, or its rows name another arm than the one it stands for.
    """
    arms: dict[str, list[tuple[str, bool]]] = {}
    for arm, path in paths.items():
        pairs = []
        for number, row in enumerate(read_jsonl(path, EvalRow), 1):
            if row.arm != arm:
                raise DataError(f"{path}:{number}: row of arm {row.arm!r} in the file of arm {arm!r}; re-run its eval")
            pairs.append((row.item_id, row.correct))
        arms[arm] = pairs
    return arms


def exact_sum(values: np.ndarray) -> Fraction:
    """The exact sum of an array as a fraction; integers and bools are counted, floats summed bit by bit."""
    if values.dtype.kind in "bui":
        return Fraction(int(values.sum(dtype=np.int64)))
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    total = Fraction(0)
    for e in np.unique(exponent):
        part = whole[exponent == e]
        # 53-bit integers overflow int64 after 1,024 terms: sum the high and low 32 bits apart.
        high, low = int((part >> 32).sum()), int((part & 0xFFFFFFFF).sum())
        total += Fraction((high << 32) + low) * Fraction(2) ** (int(e) - 53)
    return total


def _columns(arm: str, rows: Rows) -> tuple[list[str], np.ndarray]:
    rows = rows if isinstance(rows, list) else list(rows)
    if not rows:
        raise DataError(f"arm {arm}: no evaluation rows; run `dvc repro` for its eval stage")
    values = np.array(list(map(itemgetter(1), rows)))
    if values.dtype.kind not in "buif" or (values.dtype.kind == "f" and not np.isfinite(values).all()):
        raise DataError(f"arm {arm}: every score must be a finite number; re-run its eval stage")
    return list(map(itemgetter(0), rows)), values


def _refuse_difference(arm: str, ids: list[str], reference: list[str], places: np.ndarray) -> None:
    """Raise unless `places`, the positions of `ids` in `reference` (-1: absent), is a permutation."""
    counts = np.bincount(places[places >= 0], minlength=len(reference))
    if len(ids) > len(set(ids)):
        _refuse_duplicate(f"arm {arm}", ids)
    missing = [reference[i] for i in np.flatnonzero(counts == 0)]
    extra = [ids[i] for i in np.flatnonzero(places < 0)]
    for what, which in (("lacks", missing), ("has an unexpected", extra)):
        if which:
            more = f" and {len(which) - 1} more" if len(which) > 1 else ""
            raise DataError(f"arm {arm} {what} item {which[0]!r}{more}; arms must be evaluated on the same items")


def _refuse_duplicate(where: str, ids: list[str]) -> None:
    seen: set[str] = set()
    for item in ids:
        if item in seen:
            raise DataError(f"{where}: item {item!r} appears more than once; every item counts once, re-run its stage")
        seen.add(item)
