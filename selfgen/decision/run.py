"""The decision on the evaluation rows that lie on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from selfgen.decision.pairing import read_arms
from selfgen.decision.verdict import decide
from selfgen.params import Params
from selfgen.records import CuratedRow, read_jsonl


def decide_files(params: Params, data: Path) -> dict[str, Any]:
    """Apply the registered rule to data/eval/<arm>/rows.jsonl of `base` and every arm of params.

    Raises:
        DataError: an arm lacks an item of the test set, has one twice or a foreign one.
    """
    items = [row.id for row in read_jsonl(data / "curated/test.jsonl", CuratedRow)]
    rows = read_arms({arm: data / f"eval/{arm}/rows.jsonl" for arm in ("base", *params.arms)})
    return decide(rows, params.decision, items).to_json()
