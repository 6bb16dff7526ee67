"""The ledger of seeds: an append-only file whose order and content are chained by hashes.

Evidence that may be continued later is only worth something if no seed can be dropped, reordered or replaced once
it was seen. Every line holds the hash of the line before it and its own; the first line fixes the rule, the items
and the params of all that follow. Cutting off the newest lines is the one change a chain alone cannot show, so the
hash of the last line (`head`) belongs into git or a report.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from selfgen.errors import DataError
from selfgen.records import dumps, read_jsonl, write_jsonl


@dataclass(frozen=True)
class Entry:
    """One line. Line 0 has kind "plan" and holds the rule; the others kind "seed" and hold one seed's result.

    `content` of a seed: seed, source (experiment or revision), estimates (criterion id -> value), rows (arm ->
    sha256 of its rows).
    """

    index: int
    kind: str
    content: dict[str, Any]
    previous: str
    hash: str = ""
    format: int = field(default=1)

    def sealed(self) -> Entry:
        """The same line with its own hash."""
        body = {k: v for k, v in asdict(self).items() if k != "hash"}
        return replace(self, hash=hashlib.sha256(dumps(body).encode()).hexdigest())


GENESIS = "0" * 64


def read(path: Path) -> list[Entry]:
    """The lines of a ledger, chain verified; empty when there is no file yet.

    Raises:
        DataError: a line was changed, removed, inserted or reordered. Names the first such line.
    """
    if not path.exists():
        return []
    entries: list[Entry] = []
    previous = GENESIS
    for index, entry in enumerate(read_jsonl(path, Entry)):
        kind = "plan" if index == 0 else "seed"
        if entry.index != index or entry.kind != kind or entry.previous != previous or entry.sealed() != entry:
            raise DataError(
                f"{path}:{index + 1}: the chain is broken here, a line was changed, removed or moved; "
                f"restore the file with `git checkout {path}`"
            )
        entries.append(entry)
        previous = entry.hash
    if not entries:
        raise DataError(f"{path}: an empty ledger; restore it with `git checkout {path}`, or delete it to start one")
    return entries


def append(path: Path, plan: Mapping[str, Any], seeds: Sequence[Mapping[str, Any]]) -> tuple[list[Entry], int]:
    """Add seeds that are not yet there, in the order given; returns all lines and how many are new.

    Raises:
        DataError: the ledger is of another plan, or a seed in it has other rows than now.
    """
    entries = read(path)
    if not entries:
        entries = [Entry(0, "plan", dict(plan), GENESIS).sealed()]
    elif dumps(entries[0].content) != dumps(plan):
        different = sorted(
            k for k in entries[0].content.keys() | plan.keys() if entries[0].content.get(k) != plan.get(k)
        )
        raise DataError(
            f"{path}: this ledger is of another plan ({', '.join(different)} differ); use another --ledger file"
        )
    known = {entry.content["seed"]: entry.content for entry in entries[1:]}
    new = 0
    for seed in seeds:
        before = known.get(seed["seed"])
        if before is None:
            entries.append(Entry(len(entries), "seed", dict(seed), entries[-1].hash).sealed())
            known[seed["seed"]] = dict(seed)
            new += 1
        elif before["rows"] != seed["rows"]:
            raise DataError(
                f"{path}: seed {seed['seed']} is recorded with other rows (from {before['source']}); "
                "a recorded seed cannot be replaced: train a new seed"
            )
    if new:
        write_jsonl(path, entries)
    return entries, new
