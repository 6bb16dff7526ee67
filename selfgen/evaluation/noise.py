"""The noise floor of greedy decoding: one checkpoint evaluated twice, and the items that changed.

Greedy decoding is deterministic on paper only: batching and kernels change the order of float sums, and a tie breaks
the other way. A difference between arms that is no larger than these flips says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from selfgen.errors import DataError
from selfgen.records import EvalRow


def flips(first: Sequence[EvalRow], second: Sequence[EvalRow]) -> dict[str, Any]:
    """What changed between two evaluations of one checkpoint.

    Returns:
        n, `changed_text` and `changed_verdict` (item ids, in order), `flip_rate` (share of items whose verdict changed)
        and `net` (correct in the second minus correct in the first, over n).

    Raises:
        DataError: the evaluations are not of the same items in the same order.
    """
    if [row.item_id for row in first] != [row.item_id for row in second] or not first:
        raise DataError("noise floor: the two evaluations are not of the same items; run the evaluation again")
    pairs = list(zip(first, second, strict=True))
    verdicts = [a.item_id for a, b in pairs if a.correct != b.correct]
    return {
        "n": len(pairs),
        "changed_text": [a.item_id for a, b in pairs if a.completion != b.completion],
        "changed_verdict": verdicts,
        "flip_rate": len(verdicts) / len(pairs),
        "net": (sum(b.correct for _, b in pairs) - sum(a.correct for a, _ in pairs)) / len(pairs),
    }
