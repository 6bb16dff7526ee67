"""Evidence over seeds that may be looked at after every seed and continued later: e-values by betting.

One trained seed gives one value Y of a criterion (its estimate over the fixed items), in [least, most]. Against the
hypothesis that the mean of Y over seeds is at most the margin, a gambler who stakes the fraction lambda holds
prod(1 + lambda (Y_s - margin)); for 0 <= lambda <= 1 / (margin - least) that never goes negative and grows on
average only if the hypothesis is false. The e-value is the mean over a fixed grid of lambdas, so nothing is tuned
and the order of seeds does not matter. Under the hypothesis it ever reaches 1/a with probability at most a.

Source: Ville (1939); Waudby-Smith and Ramdas (2024), JRSS-B 86:1-27, section 5 (mixture over a grid of bets);
Ramdas et al. (2023), "Game-theoretic statistics and safe anytime-valid inference", Statistical Science 38.
Assumes: seeds are independent draws of one training procedure. Nothing about the law of Y, and that is the price:
with values bounded only by +-1, a real difference of a few points needs about a hundred seeds (`seeds_needed`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

# Fractions of the largest stake that cannot go bankrupt on one seed.
GRID = np.arange(1, 51) / 51


def e_values(values: Sequence[float], margin: float, least: float, most: float) -> tuple[list[float], list[float]]:
    """The running e-values against "mean <= margin" and against "mean >= margin", after each value.

    Raises:
        ValueError: a value lies outside [least, most], or the margin is not strictly inside.
    """
    if not least < margin < most:
        raise ValueError(f"margin {margin} must lie strictly between {least} and {most}")
    y = np.asarray(values, float)
    if y.size and (y.min() < least or y.max() > most):
        raise ValueError(f"a value lies outside [{least}, {most}]")
    above = _mixture(1 + np.outer((y - margin) / (margin - least), GRID))
    below = _mixture(1 + np.outer((margin - y) / (most - margin), GRID))
    return above, below


def seeds_needed(advantage: float, margin: float, least: float, target: float) -> int | None:
    """Seeds after which the largest stake reaches `target` if every seed gave margin + advantage; None if never."""
    if advantage <= 0:
        return None
    return math.ceil(math.log(target) / math.log1p(advantage / (margin - least)))


def _mixture(factors: np.ndarray) -> list[float]:
    return [float(x) for x in np.cumprod(factors, axis=0).mean(axis=1)] if factors.size else []
