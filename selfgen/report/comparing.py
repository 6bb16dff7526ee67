"""Two arms on the same items: counts, flips, and exact tests that stand beside the registered rule.

Source of the test: McNemar (1947), exact form. Under equal accuracy each discordant item is a fair coin, so the
number of items gained is Binomial(discordant, 1/2). Source of the interval of one arm: Clopper and Pearson (1934).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from selfgen.errors import DataError
from selfgen.records import EvalRow


@dataclass(frozen=True)
class Comparison:
    """`first` against `second` on the items both answered. `gained`: only `first` is right; `lost`: only `second`."""

    first: str
    second: str
    n: int
    both: int
    neither: int
    gained: tuple[str, ...]
    lost: tuple[str, ...]

    @property
    def difference(self) -> float:
        """Accuracy of `first` minus accuracy of `second`."""
        return (len(self.gained) - len(self.lost)) / self.n

    @property
    def p_better(self) -> float:
        """One-sided exact McNemar p-value of `first` being no better than `second`; 1 without discordant items."""
        discordant = len(self.gained) + len(self.lost)
        if not self.gained:
            return 1.0
        from scipy.special import betainc

        # P(X >= k) for X ~ Binomial(n, 1/2), by the incomplete beta function.
        return float(betainc(len(self.gained), discordant - len(self.gained) + 1, 0.5))


def compare(rows: Mapping[str, Sequence[EvalRow]], first: str, second: str) -> Comparison:
    """Pair two arms' rows by item id.

    Raises:
        DataError: the arms were not evaluated on the same items.
    """
    ours, theirs = ({row.item_id: row.correct for row in rows[arm]} for arm in (first, second))
    if ours.keys() != theirs.keys() or not ours:
        raise DataError(f"data/eval: arms {first} and {second} were evaluated on different items; run `dvc repro`")
    return Comparison(
        first=first,
        second=second,
        n=len(ours),
        both=sum(ours[i] and theirs[i] for i in ours),
        neither=sum(not ours[i] and not theirs[i] for i in ours),
        gained=tuple(i for i in ours if ours[i] and not theirs[i]),
        lost=tuple(i for i in ours if theirs[i] and not ours[i]),
    )


def clopper_pearson(correct: int, n: int, alpha: float) -> tuple[float, float]:
    """Exact two-sided 1 - alpha interval of one arm's accuracy, items taken as independent draws."""
    from scipy.special import betaincinv

    low = float(betaincinv(correct, n - correct + 1, alpha / 2)) if correct else 0.0
    high = float(betaincinv(correct + 1, n - correct, 1 - alpha / 2)) if correct < n else 1.0
    return low, high
