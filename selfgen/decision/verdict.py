"""The pre-registered rule: paired rows in, one of three verdicts out.

A criterion is validated when its lower bound is strictly above its margin, failed when its upper bound is
strictly below it, else inconclusive. The claim is validated when every criterion is, failed when any failed,
else inconclusive. Comparisons are exact (see `hoeffding`), so no verdict hangs on a rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from selfgen.decision import hoeffding
from selfgen.decision.hoeffding import exact
from selfgen.decision.pairing import Paired, Rows, pair
from selfgen.errors import DataError, ParamsError

METHODS = ("paired_hoeffding",)
METRICS = ("accuracy",)
VALIDATED, FAILED, INCONCLUSIVE = "validated", "failed", "inconclusive"


@dataclass(frozen=True)
class CriterionResult:
    """One criterion's interval and verdict. `estimate`, `margin`, `width` are exact; bounds are in score units."""

    id: str
    metric: str
    weights: Mapping[str, Any]
    bounds: tuple[Any, Any]
    margin: Fraction
    estimate: Fraction
    width: Fraction
    half_width: float
    lower: float
    upper: float
    verdict: str

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; `estimate_exact` is the fraction the verdict was reached with."""
        return {
            "id": self.id,
            "metric": self.metric,
            "weights": dict(self.weights),
            "bounds": list(self.bounds),
            "margin": float(self.margin),
            "estimate": float(self.estimate),
            "estimate_exact": str(self.estimate),
            "item_range": float(self.width),
            "half_width": self.half_width,
            "lower": self.lower,
            "upper": self.upper,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Decision:
    """The verdict on the claim with everything needed to recompute it. `accuracies` are exact means by arm."""

    verdict: str
    method: str
    alpha: Fraction
    n: int
    items_sha256: str
    accuracies: Mapping[str, Fraction]
    criteria: tuple[CriterionResult, ...]

    def to_json(self) -> dict[str, Any]:
        """As a JSON object with nothing volatile in it."""
        return {
            "verdict": self.verdict,
            "method": self.method,
            "alpha": float(self.alpha),
            "n": self.n,
            "unit": "fixed_checkpoint_items",
            "items_sha256": self.items_sha256,
            "accuracies": {
                arm: {"accuracy": float(a), "correct": float(a * self.n)} for arm, a in self.accuracies.items()
            },
            "criteria": [c.to_json() for c in self.criteria],
        }


def decide(rows: Mapping[str, Rows] | Paired, params: Any, items: Iterable[str] | None = None) -> Decision:
    """Apply the registered rule to per-item rows.

    Args:
        rows: arm -> (item id, score) pairs in any order, or rows already paired.
        params: the `decision` params: `method`, `alpha` and `criteria`, each criterion with `id`, `metric`,
            `bounds`, `margin` and `weights` (arm -> number).
        items: the ids every arm must cover exactly, such as the test set's.

    Raises:
        ParamsError: the method, a metric or an arm is unknown; alpha, bounds or the criteria make no rule.
        DataError: rows cannot be paired, or a score lies outside its criterion's bounds.
    """
    check_rule(params)
    paired = rows if isinstance(rows, Paired) else pair(rows, items)
    m = len(params.criteria)
    results = tuple(_criterion(paired, c, params.alpha, m) for c in params.criteria)
    return Decision(
        verdict=overall(r.verdict for r in results),
        method=params.method,
        alpha=exact(params.alpha),
        n=paired.n,
        items_sha256=paired.digest(),
        accuracies={arm: paired.mean(arm) for arm in paired.scores},
        criteria=results,
    )


def classify(estimate: Fraction, margin: Fraction, n: int, width: Fraction, alpha: Any, m: int) -> str:
    """The verdict on one criterion, exactly: both comparisons are strict."""
    if hoeffding.compare(estimate - margin, n, width, alpha, m) > 0:
        return VALIDATED
    if hoeffding.compare(margin - estimate, n, width, alpha, m) > 0:
        return FAILED
    return INCONCLUSIVE


def overall(verdicts: Iterable[str]) -> str:
    """The verdict on the claim: all must validate; one failure fails it."""
    verdicts = list(verdicts)
    if FAILED in verdicts:
        return FAILED
    return VALIDATED if all(v == VALIDATED for v in verdicts) else INCONCLUSIVE


def check_rule(params: Any) -> None:
    """Refuse params that make no rule; called before any row is read.

    Raises:
        ParamsError: names the key and what it may be.
    """
    if params.method not in METHODS:
        raise ParamsError(f"decision.method: unknown method {params.method!r}; use one of: {', '.join(METHODS)}")
    if not 0 < params.alpha < 1:
        raise ParamsError(f"decision.alpha: {params.alpha} must lie strictly between 0 and 1")
    if not params.criteria:
        raise ParamsError("decision.criteria: empty; a decision needs at least one criterion")
    seen = set()
    for c in params.criteria:
        where = f"decision.criteria[{c.id}]"
        if c.id in seen:
            raise ParamsError(f"{where}: two criteria share this id; give each its own")
        seen.add(c.id)
        if c.metric not in METRICS:
            raise ParamsError(f"{where}.metric: unknown metric {c.metric!r}; use one of: {', '.join(METRICS)}")
        if len(c.bounds) != 2 or not c.bounds[0] < c.bounds[1]:
            raise ParamsError(f"{where}.bounds: {list(c.bounds)} must be [low, high] with low < high")
        if not c.weights or not any(c.weights.values()):
            raise ParamsError(f"{where}.weights: at least one arm needs a weight other than 0")
        if not all(math.isfinite(x) for x in (c.margin, *c.bounds, *c.weights.values())):
            raise ParamsError(f"{where}: margin, bounds and weights must be finite numbers")


def _criterion(paired: Paired, c: Any, alpha: Any, m: int) -> CriterionResult:
    for arm in c.weights:
        if arm not in paired.scores:
            known = ", ".join(sorted(paired.scores))
            raise ParamsError(f"decision.criteria[{c.id}].weights: no arm {arm!r} was evaluated; evaluated: {known}")
        low, high = float(paired.scores[arm].min()), float(paired.scores[arm].max())
        if low < c.bounds[0] or high > c.bounds[1]:
            raise DataError(
                f"arm {arm}: a score of {low if low < c.bounds[0] else high} lies outside the bounds "
                f"{list(c.bounds)} of criterion {c.id}; correct the bounds in params or re-run the eval"
            )
    estimate = sum((exact(w) * paired.mean(arm) for arm, w in c.weights.items()), Fraction(0))
    margin, width = exact(c.margin), hoeffding.item_range(c.weights.values(), c.bounds)
    half = hoeffding.half_width_digits(paired.n, width, alpha, m)
    return CriterionResult(
        id=c.id,
        metric=c.metric,
        weights=dict(c.weights),
        bounds=(c.bounds[0], c.bounds[1]),
        margin=margin,
        estimate=estimate,
        width=width,
        half_width=float(half),
        lower=float(estimate - half),
        upper=float(estimate + half),
        verdict=classify(estimate, margin, paired.n, width, alpha, m),
    )
