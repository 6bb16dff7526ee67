"""The stand-in curated set: templated word problems in the form of GSM8K, made on the spot, offline.

It plays GSM8K's part at the embedded scale. Three splits: `train` and `test` come from the same templates and are
disjoint in structure-with-numbers (not only in wording); `outside` comes from other templates, to show what does not
transfer. Which problems may be tests is a property of the problem itself (a hash of its key), so the corpus that the
shipped models were trained on excludes every possible test problem, for every seed and size.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping

from selfgen.curated.templates import Problem, draw, draw_outside
from selfgen.errors import DataError
from selfgen.records import CuratedRow

TEST_SHARE = 1 / 16
SPLITS = ("train", "test", "outside")


def reserved_for_test(problem: Problem) -> bool:
    """Whether a problem's structure and numbers belong to the test side; one in sixteen do, whatever the seed."""
    return hashlib.sha256(problem.key.encode()).digest()[0] < 256 * TEST_SHARE


def build(n_train: int, n_test: int, n_outside: int = 0, seed: int = 0) -> dict[str, list[CuratedRow]]:
    """Make the splits, each in a fixed order; equal arguments give equal rows, and a larger size extends a smaller.

    Raises:
        DataError: a size is negative, or the splits overlap (checked on keys and on normalised questions).
    """
    sizes = {"train": n_train, "test": n_test, "outside": n_outside}
    for split, size in sizes.items():
        if size < 0:
            raise DataError(f"stand-in set: size of {split} is {size}; set curated sizes to 0 or more")
    problems = {split: _draw_split(split, size, seed) for split, size in sizes.items()}
    check_disjoint(problems)
    return {
        split: [
            CuratedRow(f"standin-{split}-{i:05d}", p.question, p.solution(), str(p.answer))
            for i, p in enumerate(problems[split])
        ]
        for split in SPLITS
    }


def _draw_split(split: str, size: int, seed: int) -> list[Problem]:
    # A string seed hashes the same way in every process; each split has its own stream, so sizes do not interact.
    rng = random.Random(f"standin:{split}:{seed}")
    rows: list[Problem] = []
    seen: set[str] = set()
    while len(rows) < size:
        if split == "outside":
            problem = draw_outside(rng)
        else:
            problem = draw(rng, accept=lambda p: reserved_for_test(p) == (split == "test"))
        if problem.key not in seen:
            seen.add(problem.key)
            rows.append(problem)
    return rows


def check_disjoint(problems: Mapping[str, list[Problem]]) -> None:
    """Refuse splits that share a structure with its numbers, or a question up to case and spacing.

    Raises:
        DataError: naming the two splits and the shared question.
    """
    owner: dict[str, str] = {}
    for split, rows in problems.items():
        for p in rows:
            for mark in (p.key, " ".join(p.question.lower().split())):
                if owner.setdefault(mark, split) != split:
                    raise DataError(f"stand-in set: {owner[mark]} and {split} share a problem: {p.question[:60]}...")
