"""Packing training sequences so that a prefix shared by several of them is computed once.

The samples of one RL group start with the same prompt; computing it once per group instead of once per sample is exact
(causal attention: a token's state depends on what precedes it alone) and saves about half of the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MIN_SHARED = 16  # shorter common prefixes are not worth the bookkeeping


@dataclass(frozen=True)
class Group:
    """Sequences (`members`, indices into the request) whose first `shared` tokens are equal and computed once."""

    members: tuple[int, ...]
    shared: int
    rows: int


@dataclass(frozen=True)
class Packing:
    """A micro-batch of groups.

    tokens, positions: [rows], one per computed token.
    index: [sum of lengths], the row of each token of each member, members in order.
    first: [rows], for each row one place in `index` that points to it.
    lengths: tokens of each member.
    """

    members: tuple[int, ...]
    tokens: np.ndarray
    positions: np.ndarray
    index: np.ndarray
    first: np.ndarray
    lengths: tuple[int, ...]

    @property
    def shares(self) -> bool:
        return len(self.index) != len(self.tokens)


def common_prefix(one: np.ndarray, other: np.ndarray) -> int:
    """Number of leading tokens in which two sequences agree."""
    n = min(len(one), len(other))
    differ = np.nonzero(one[:n] != other[:n])[0]
    return int(differ[0]) if len(differ) else n


def group(sequences: Sequence[np.ndarray]) -> list[Group]:
    """Partition sequences into groups with a shared prefix, so as to leave few rows. Depends on the contents alone."""
    order = sorted(range(len(sequences)), key=lambda i: (sequences[i].tolist(), i))
    groups: list[Group] = []
    members: list[int] = []
    shared = 0

    def close() -> None:
        if members:
            prefix = shared if len(members) > 1 else 0
            rows = prefix + sum(len(sequences[i]) - prefix for i in members)
            groups.append(Group(tuple(members), prefix, rows))

    for i in order:
        if members:
            prefix = min(shared, common_prefix(sequences[members[0]], sequences[i]))
            saved = (len(members) - 1) * shared if len(members) > 1 else 0
            if prefix >= MIN_SHARED and len(members) * prefix > saved:
                members.append(i)
                shared = prefix
                continue
        close()
        members, shared = [i], len(sequences[i])
    close()
    return groups


def pack(sequences: Sequence[np.ndarray], budget: int) -> list[Packing]:
    """Micro-batches of at most `budget` rows each; a larger group is cut, a larger sequence stands alone."""
    batches: list[list[Group]] = []
    room = 0
    for whole in group(sequences):
        for part in cut(whole, sequences, budget):
            if not batches or part.rows > room:
                batches.append([])
                room = budget
            batches[-1].append(part)
            room -= part.rows
    return [lay_out(batch, sequences) for batch in batches]


def cut(whole: Group, sequences: Sequence[np.ndarray], budget: int) -> list[Group]:
    """Split a group that exceeds the budget; each part computes the prefix again."""
    if whole.rows <= budget:
        return [whole]
    parts: list[Group] = []
    members: list[int] = []
    rows = whole.shared
    for i in whole.members:
        extra = len(sequences[i]) - whole.shared
        if members and rows + extra > budget:
            parts.append(Group(tuple(members), whole.shared, rows))
            members, rows = [], whole.shared
        members.append(i)
        rows += extra
    parts.append(Group(tuple(members), whole.shared, rows))
    return parts


def lay_out(groups: list[Group], sequences: Sequence[np.ndarray]) -> Packing:
    """Rows of a micro-batch: each group's prefix, then its members' own tokens."""
    tokens, positions, index, first = [], [], [], []
    rows = places = 0
    for each in groups:
        lead = sequences[each.members[0]]
        prefix = np.arange(rows, rows + each.shared)
        tokens.append(lead[: each.shared])
        positions.append(np.arange(each.shared))
        first.append(places + np.arange(each.shared))
        rows += each.shared
        for i in each.members:
            own = len(sequences[i]) - each.shared
            tokens.append(sequences[i][each.shared :])
            positions.append(np.arange(each.shared, len(sequences[i])))
            index += [prefix, np.arange(rows, rows + own)]
            first.append(places + each.shared + np.arange(own))
            rows += own
            places += len(sequences[i])
    return Packing(
        members=tuple(i for g in groups for i in g.members),
        tokens=np.concatenate(tokens).astype(np.int64),
        positions=np.concatenate(positions),
        index=np.concatenate(index),
        first=np.concatenate(first),
        lengths=tuple(len(sequences[i]) for g in groups for i in g.members),
    )
