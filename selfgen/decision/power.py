"""What the registered rule can say at this n, before money is spent on finding out.

Three answers: the observed difference a criterion needs in order to validate (or fail), which is arithmetic;
the probability of each verdict under assumed accuracies and discordance, exact for each criterion and simulated
with its error for the claim as a whole; and the number of items that would give 80 % power.

Source of the exact law: items are independent, so the sum of item values has the n-fold convolution of the
item's law, computed on its lattice by FFT (absolute error below 1e-8 up to ten million items).
Assumes scores of 0 or 1, the metric of the registered plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from selfgen.decision import hoeffding
from selfgen.decision.hoeffding import exact
from selfgen.decision.outcomes import Outcomes, copula
from selfgen.decision.verdict import check_rule
from selfgen.errors import ParamsError

DIFFERENCES = (-0.15, -0.05, -0.03, 0.0, 0.03, 0.05, 0.08, 0.10)
DISCORDANCES = (0.1, 0.2, 0.3)
TARGET = 0.8
_Z_TARGET = 0.8416212335729143  # the standard normal's 80 % quantile
# Above this many items the needed n is the normal approximation's, which is then within a part in a thousand.
_EXACT_UP_TO = 10_000_000


@dataclass(frozen=True)
class Thresholds:
    """A criterion's decisive observed values at n items, on the lattice of attainable ones.

    `step` is the lattice spacing of the sum of item values. `validates` is the smallest sum that validates and
    `fails` the largest that fails; None where no attainable sum does.
    """

    n: int
    half_width: float
    step: Fraction
    validates: Fraction | None
    fails: Fraction | None


def thresholds(criterion: Any, n: int, alpha: Any, m: int) -> Thresholds:
    """The decisive observed values of one criterion for 0/1 scores, exactly."""
    if n < 1:
        raise ParamsError(f"n: {n} items; a decision needs at least one")
    weights = [exact(w) for w in criterion.weights.values() if w]
    width, margin = hoeffding.item_range(weights, criterion.bounds), exact(criterion.margin)
    step = _gcd(weights)
    half = hoeffding.half_width_digits(n, width, alpha, m)
    validates = (math.floor((margin + half) * n / step) + 1) * step
    fails = (math.ceil((margin - half) * n / step) - 1) * step
    most = n * sum((w for w in weights if w > 0), Fraction(0))
    least = n * sum((w for w in weights if w < 0), Fraction(0))
    return Thresholds(n, float(half), step, validates if validates <= most else None, fails if fails >= least else None)


def verdict_probabilities(criterion: Any, outcomes: Outcomes, n: int, alpha: Any, m: int) -> tuple[float, float]:
    """The exact probabilities that a criterion validates and that it fails, for items drawn from `outcomes`."""
    limits = thresholds(criterion, n, alpha, m)
    values, probabilities = item_law(criterion.weights, outcomes)
    least = min(values)
    steps = np.array([int((v - least) / limits.step) for v in values])
    start, law = _sum_law(steps, probabilities, n)

    def place(total: Fraction) -> int:
        return int(np.clip(int((total - n * least) / limits.step) - start, -1, len(law)))

    above = law[max(place(limits.validates), 0) :].sum() if limits.validates is not None else 0.0
    below = law[: place(limits.fails) + 1].sum() if limits.fails is not None else 0.0
    return float(np.clip(above, 0, 1)), float(np.clip(below, 0, 1))


def _sum_law(steps: np.ndarray, probabilities: np.ndarray, n: int) -> tuple[int, np.ndarray]:
    """(start, law): law[k] is the probability that n independent draws of `steps` sum to start + k.

    The characteristic function's n-th power is inverted on a window of 40 standard deviations around the mean;
    what lies outside (below 1e-15 by Bernstein's inequality) folds back into it.
    """
    mean = float(steps @ probabilities)
    deviation = math.sqrt(n * max(float((steps - mean) ** 2 @ probabilities), 0.0))
    size = n * int(steps.max()) + 1
    length = 1 << (min(size, int(40 * deviation) + 128) - 1).bit_length()
    angles = -2j * np.pi * np.arange(length // 2 + 1) / length
    characteristic = sum(p * np.exp(angles * k) for k, p in zip(steps, probabilities, strict=True))
    folded = np.fft.irfft(characteristic**n, length) if length > 1 else np.ones(1)
    start = max(0, int(n * mean) - length // 2) if length < size else 0
    return start, np.roll(folded, -(start % length))


def item_law(weights: Mapping[str, Any], outcomes: Outcomes) -> tuple[list[Fraction], np.ndarray]:
    """The values one item can take under `weights` (sorted) and their probabilities."""
    by_value: dict[Fraction, float] = {}
    for pattern, p in zip(outcomes.patterns, outcomes.probabilities, strict=True):
        right = dict(zip(outcomes.arms, pattern, strict=True))
        value = sum((exact(w) * int(right[arm]) for arm, w in weights.items()), Fraction(0))
        by_value[value] = by_value.get(value, 0.0) + float(p)
    values = sorted(by_value)
    return values, np.array([by_value[v] for v in values])


def claim_probabilities(
    criteria: Sequence[Any], outcomes: Outcomes, n: int, alpha: Any, *, draws: int = 20_000, seed: int = 0
) -> dict[str, float]:
    """The probability of each verdict on the whole claim by simulation, with the largest standard error.

    Draws the counts of each pattern of right and wrong among n items, which is all the rule depends on.
    """
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, outcomes.probabilities, size=draws)
    validated, failed = np.ones(draws, bool), np.zeros(draws, bool)
    for c in criteria:
        limits = thresholds(c, n, alpha, len(criteria))
        column = np.array([int(sum(exact(w) * int(p[outcomes.arms.index(a)]) for a, w in c.weights.items()) / limits.step)
                           for p in outcomes.patterns])  # fmt: skip
        total = counts @ column
        validated &= total >= int(limits.validates / limits.step) if limits.validates is not None else False
        failed |= total <= int(limits.fails / limits.step) if limits.fails is not None else False
    shares = {"validated": validated.mean(), "failed": failed.mean(), "inconclusive": (~validated & ~failed).mean()}
    error = max(math.sqrt(p * (1 - p) / draws) for p in shares.values())
    return {k: float(v) for k, v in shares.items()} | {"standard_error": error}


def needed_n(criterion: Any, outcomes: Outcomes, alpha: Any, m: int, target: float = TARGET) -> dict[str, Any] | None:
    """The number of items at which a criterion validates with probability `target`; None when its truth never can.

    Power rises with n but for a saw-tooth of the lattice, so the exact search is right to about one step of it.
    """
    from scipy.special import ndtri

    values, probabilities = item_law(criterion.weights, outcomes)
    points = np.array([float(v) for v in values])
    truth = float(points @ probabilities)
    gap = truth - float(criterion.margin)
    if gap <= 1e-9:
        return None
    deviation = math.sqrt(max(float((points - truth) ** 2 @ probabilities), 0.0))
    width = float(hoeffding.item_range(criterion.weights.values(), criterion.bounds))
    unit = width * math.sqrt(math.log(2 * m / alpha) / 2)
    n = math.ceil(((unit + float(ndtri(target)) * deviation) / gap) ** 2)
    if n > _EXACT_UP_TO:
        return {"n": n, "method": "normal approximation"}
    low, high = max(1, int(n * 0.9) - 50), int(n * 1.1) + 50
    while high - low > 1:
        middle = (low + high) // 2
        if verdict_probabilities(criterion, outcomes, middle, alpha, m)[0] >= target:
            high = middle
        else:
            low = middle
    return {"n": high, "method": "exact"}


def power(
    params: Any,
    n: int,
    *,
    accuracies: Mapping[str, float] | None = None,
    differences: Sequence[float] = DIFFERENCES,
    discordances: Sequence[float] = DISCORDANCES,
    draws: int = 20_000,
    seed: int = 0,
) -> dict[str, Any]:
    """The whole account as a JSON object.

    Args:
        params: the `decision` params.
        n: the number of evaluation items.
        accuracies: assumed accuracy of each reference arm (default: `base` 0.5, every other arm 0.6); arms that no
            criterion weighs are ignored. The
            treated arms, those with a positive weight in every criterion, are placed `difference` above the
            first criterion's reference arm.
        differences: true differences between treated and reference arm, in accuracy (0.01 is a point).
        discordances: shares of items on which exactly one of treated and reference arm is right.
    """
    check_rule(params)
    m = len(params.criteria)
    treated, reference = treated_arms(params), reference_arm(params)
    arms = list(params.compared)
    for arm, accuracy in (accuracies or {}).items():
        if arm in arms and not 0 < accuracy < 1:
            raise ParamsError(f"accuracy of {arm}: {accuracy} must lie strictly between 0 and 1")
    assumed = {arm: (accuracies or {}).get(arm, 0.5 if arm == "base" else 0.6) for arm in arms}
    scenarios = []
    for k, (difference, discordance) in enumerate((d, q) for d in differences for q in discordances):
        here = assumed | dict.fromkeys(treated, assumed[reference] + difference)
        outcomes = copula(here, discordance, (treated[0], reference))
        row: dict[str, Any] = {"difference": difference, "discordance": discordance, "feasible": outcomes is not None}
        if outcomes is not None:
            row["criteria"] = [_criterion_row(c, outcomes, n, params.alpha, m) for c in params.criteria]
            row["claim"] = claim_probabilities(
                params.criteria, outcomes, n, params.alpha, draws=draws, seed=seed * 100_003 + k
            )
        scenarios.append(row)
    return {
        "n": n,
        "alpha": float(params.alpha),
        "method": params.method,
        "assumed": {arm: a for arm, a in assumed.items() if arm not in treated},
        "treated": treated,
        "reference": reference,
        "target": TARGET,
        "criteria": [describe(c, n, params.alpha, m) for c in params.criteria],
        "scenarios": scenarios,
        "draws": draws,
        "seed": seed,
    }


def describe(criterion: Any, n: int, alpha: Any, m: int) -> dict[str, Any]:
    """A criterion's decisive observed values at n items, with the sentence that says them plainly."""
    limits = thresholds(criterion, n, alpha, m)

    def mean(total: Fraction | None) -> float | None:
        return None if total is None else float(total / n)

    def say(total: Fraction | None, direction: str, verb: str) -> str:
        if total is None:
            return f"no observation can {verb} it"
        return f"{float(100 * total / n):+.1f} points observed ({float(total):+g} items) or {direction} {verb} it"

    width = hoeffding.item_range(criterion.weights.values(), criterion.bounds)
    return {
        "id": criterion.id,
        "margin": float(criterion.margin),
        "item_range": float(width),
        "half_width": limits.half_width,
        "smallest_validating": mean(limits.validates),
        "largest_failing": mean(limits.fails),
        "sentence": (
            f"at {n:,} items {criterion.id} (margin {100 * criterion.margin:+.1f} points, half-width "
            f"{100 * limits.half_width:.2f}): {say(limits.validates, 'more', 'validate')}, "
            f"{say(limits.fails, 'less', 'fail')}"
        ),
    }


def treated_arms(params: Any) -> list[str]:
    """The arms with a positive weight in every criterion: those the claim is about."""
    sets = [{a for a, w in c.weights.items() if w > 0} for c in params.criteria]
    common = set.intersection(*sets)
    arms = [a for a in params.criteria[0].weights if a in common]
    if not arms:
        raise ParamsError(
            "decision.criteria: no arm has a positive weight in all of them, so no arm is the treated one"
        )
    return arms


def reference_arm(params: Any) -> str:
    """The arm with the most negative weight in the first criterion."""
    weights = params.criteria[0].weights
    arm = min(weights, key=lambda a: weights[a])
    if weights[arm] >= 0:
        raise ParamsError(
            f"decision.criteria[{params.criteria[0].id}].weights: no arm has a negative weight to compare with"
        )
    return arm


def _criterion_row(c: Any, outcomes: Outcomes, n: int, alpha: Any, m: int) -> dict[str, Any]:
    values, probabilities = item_law(c.weights, outcomes)
    validated, failed = verdict_probabilities(c, outcomes, n, alpha, m)
    return {
        "id": c.id,
        "truth": float(np.array([float(v) for v in values]) @ probabilities),
        "validated": validated,
        "failed": failed,
        "inconclusive": max(0.0, 1 - validated - failed),
        "needed": needed_n(c, outcomes, alpha, m),
    }


def _gcd(values: Sequence[Fraction]) -> Fraction:
    denominator = math.lcm(*(v.denominator for v in values))
    return Fraction(math.gcd(*(int(v * denominator) for v in values)), denominator)


def lines(account: dict[str, Any]) -> list[str]:
    """The account for the screen: what the rule needs, then a table of verdict probabilities."""
    out = [c["sentence"][0].upper() + c["sentence"][1:] + "." for c in account["criteria"]]
    assumed = ", ".join(f"{arm} {100 * a:.1f} %" for arm, a in account["assumed"].items())
    out += [
        "",
        f"Probability of each verdict if {', '.join(account['treated'])} truly differs from {account['reference']} by the "
        f"first column (assumed: {assumed}; {account['draws']:,} draws, seed {account['seed']}).",
        f"The last columns: items each criterion would need to validate with probability {account['target']:.0%}.",
        "",
    ]
    ids = [c["id"] for c in account["criteria"]]
    out.append(
        "difference  discordance  validated   failed  inconclusive  (+-)     " + "  ".join(f"n: {i}" for i in ids)
    )
    for s in account["scenarios"]:
        left = f"{100 * s['difference']:+8.1f} p  {s['discordance']:11.2f}  "
        if not s["feasible"]:
            out.append(
                left + "impossible: two arms this far apart or this accurate cannot disagree on that share of items"
            )
            continue
        claim = s["claim"]
        needed = ["never" if c["needed"] is None else f"{c['needed']['n']:,}" for c in s["criteria"]]
        out.append(
            left + f"{claim['validated']:9.3f}  {claim['failed']:7.3f}  {claim['inconclusive']:12.3f}  "
            f"{claim['standard_error']:.4f}  "
            + "  ".join(f"{n:>{len(i) + 3}}" for n, i in zip(needed, ids, strict=True))
        )
    return out
