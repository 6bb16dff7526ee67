"""Other intervals beside the registered one. They NEVER decide: the rule was fixed before the data.

Each criterion is shown through every method that applies to it, at the same simultaneous level (alpha divided by
the number of criteria), with what the method would have said. Reading them: where a sharper valid interval agrees
with an inconclusive verdict, more items would not have been needed; where it does not, the rule was the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from selfgen.decision import bounded, paired
from selfgen.decision.pairing import Paired
from selfgen.decision.verdict import FAILED, INCONCLUSIVE, VALIDATED, Decision, decide

METHODS: Mapping[str, Mapping[str, str]] = {
    "clopper_pearson_discordant": {
        "source": "Clopper and Pearson (1934), on the share of wins and on the share of discordant items",
        "assumes": "independent items; exact at every n",
    },
    "tango": {
        "source": "Tango (1998), score interval for paired proportions",
        "assumes": "independent items; large n (coverage may fall slightly short)",
    },
    "empirical_bernstein": {
        "source": "Maurer and Pontil (2009), Theorem 4",
        "assumes": "independent items from one population; exact at every n",
    },
    "betting": {
        "source": "Waudby-Smith and Ramdas (2024), hedged capital with predictable plug-in",
        "assumes": "independent items from one population, in evaluation order; exact at every n",
    },
}


def sensitivity(rows: Paired, params: Any, exclude: Iterable[str] = ()) -> dict[str, Any]:
    """Every criterion through every applicable method, as a JSON object marked as not deciding.

    Args:
        rows: paired per-item scores.
        params: the `decision` params.
        exclude: item ids (known-bad test items, say) without which accuracies and rule are shown once more.
    """
    m = len(params.criteria)
    result: dict[str, Any] = {
        "decides": False,
        "note": "sensitivity, does not decide",
        "level": 1 - params.alpha / m,
        "methods": {name: dict(about) for name, about in METHODS.items()},
        "criteria": [criterion_sensitivity(rows, c, params.alpha / m) for c in params.criteria],
    }
    excluded = sorted(set(exclude))
    if excluded:
        result["without_listed_items"] = without_items(rows, params, excluded)
    return _rounded(result)


def criterion_sensitivity(rows: Paired, criterion: Any, alpha: float) -> dict[str, Any]:
    """One criterion's intervals, each covering with probability 1 - alpha on its own."""
    weights = {arm: float(w) for arm, w in criterion.weights.items() if w}
    values = rows.values(weights)
    low, high = (float(b) for b in criterion.bounds)
    least = math.fsum(w * (low if w > 0 else high) for w in weights.values())
    most = math.fsum(w * (high if w > 0 else low) for w in weights.values())
    mean, n = float(values.mean()), rows.n
    variance = float(values.var(ddof=1)) if n > 1 else 0.0
    intervals = {
        "empirical_bernstein": bounded.empirical_bernstein(mean, variance, n, most - least, alpha),
        "betting": bounded.betting(values, least, most, alpha),
    }
    entry: dict[str, Any] = {"id": criterion.id, "estimate": mean, "item_variance": variance}
    arms = difference_arms(criterion.weights)
    if arms is not None and all(set(np.unique(rows.scores[a])) <= {0, 1} for a in arms):
        wins, losses = discordant_counts(rows, *arms)
        margin = float(criterion.margin)
        intervals |= {
            "clopper_pearson_discordant": _floats(paired.discordant_interval(wins, losses, n, alpha)),
            "tango": _floats(paired.tango_interval(wins, losses, n, alpha)),
        }
        z = float(paired.tango_z(wins, losses, n, margin))
        share_low, share_high = _floats(paired.clopper_pearson(wins, wins + losses, alpha))
        entry["discordant"] = {
            "first": arms[0],
            "second": arms[1],
            "wins": wins,
            "losses": losses,
            "discordance": (wins + losses) / n,
            "win_share_lower": share_low,
            "win_share_upper": share_high,
        }
        entry["tango_noninferiority"] = {"margin": margin, "z": z, "p_one_sided": _upper_tail(z)}
        entry["mcnemar"] = {
            "tests": "equality of the two accuracies, not the margin",
            "p_two_sided": paired.mcnemar(wins, losses),
        }
    entry["intervals"] = [
        {"method": name, "lower": lower, "upper": upper, "would_say": would_say(lower, upper, float(criterion.margin))}
        for name, (lower, upper) in sorted(intervals.items())
    ]
    return entry


def without_items(rows: Paired, params: Any, excluded: Iterable[str]) -> dict[str, Any]:
    """Accuracies and the registered rule once more without some items; beside the verdict, never instead of it."""
    excluded = sorted(set(excluded))
    again: Decision = decide(rows.without(excluded), params)
    return {
        "excluded": excluded,
        "n": again.n,
        "accuracies": {arm: float(a) for arm, a in again.accuracies.items()},
        "criteria": [
            {"id": c.id, "estimate": float(c.estimate), "lower": c.lower, "upper": c.upper, "would_say": c.verdict}
            for c in again.criteria
        ],
    }


def difference_arms(weights: Mapping[str, Any]) -> tuple[str, str] | None:
    """(first, second) where the criterion is first - second, else None."""
    first = [a for a, w in weights.items() if w == 1]
    second = [a for a, w in weights.items() if w == -1]
    rest = [w for w in weights.values() if w not in (0, 1, -1)]
    return (first[0], second[0]) if len(first) == len(second) == 1 and not rest else None


def discordant_counts(rows: Paired, first: str, second: str) -> tuple[int, int]:
    """(items only `first` got right, items only `second` did)."""
    a, b = rows.scores[first].astype(bool), rows.scores[second].astype(bool)
    return int((a & ~b).sum()), int((b & ~a).sum())


def would_say(lower: float, upper: float, margin: float) -> str:
    """The verdict an interval would give by the registered rule: a bound that equals the margin decides nothing."""
    if lower > upper:  # an empty interval, which a running intersection can leave, says nothing
        return INCONCLUSIVE
    return VALIDATED if lower > margin else FAILED if upper < margin else INCONCLUSIVE


def _floats(interval: tuple[Any, Any]) -> tuple[float, float]:
    return float(interval[0]), float(interval[1])


def _rounded(value: Any) -> Any:
    # Ten decimals: sums and roots differ between processors in the last digits, and files are compared by bytes.
    if isinstance(value, float):
        return round(value, 10)
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, list) else value


def _upper_tail(z: float) -> float:
    from scipy.special import ndtr

    return float(ndtr(-z))
