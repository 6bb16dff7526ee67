"""Confidence intervals for the mean of bounded values that adapt to their variance.

Hoeffding's interval assumes the worst variance the bounds allow. Paired differences of two similar arms vary far
less, and these intervals notice. Both hold at every n, without a normal approximation.
Assume items are independent draws from one population (for betting: each item's mean given the earlier ones is
the population's).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def empirical_bernstein(mean: float, variance: float, n: int, width: float, alpha: float) -> tuple[float, float]:
    """Two-sided interval from the sample variance (divisor n - 1) of n values in an interval of `width`.

    mean -+ ( sqrt(2 V ln(4/alpha) / n) + 7 width ln(4/alpha) / (3 (n - 1)) ), each side at alpha / 2.

    Source: Maurer and Pontil (2009), "Empirical Bernstein Bounds and Sample-Variance Penalization", COLT, Theorem 4.
    """
    if n < 2:  # no variance to speak of: the bounds themselves
        return mean - width, mean + width
    log = math.log(4 / alpha)
    half = np.sqrt(2 * variance * log / n) + 7 * width * log / (3 * (n - 1))
    return mean - half, mean + half


# Stakes stay below half of what would risk ruin on one item.
_CAP = 0.5


def bets(values: np.ndarray, alpha: float) -> np.ndarray:
    """The stakes lambda_t of each step, from earlier values only; values in [0, 1] along the last axis.

    lambda_t = sqrt(2 ln(2/alpha) / (n s_{t-1}^2)), with s^2 and the running mean started at 1/4 and 1/2.
    """
    n = values.shape[-1]
    t = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(values, axis=-1)) / (t + 1)
    variances = (0.25 + np.cumsum((values - means) ** 2, axis=-1)) / (t + 1)
    before = np.concatenate([np.full((*values.shape[:-1], 1), 0.25), variances[..., :-1]], axis=-1)
    return np.sqrt(2 * math.log(2 / alpha) / (n * before))


def log_capital(values: np.ndarray, stakes: np.ndarray, mean: float) -> tuple[np.ndarray, np.ndarray]:
    """The largest log capital that betting against `mean` from above and from below ever reached."""
    up = np.minimum(stakes, _CAP / mean) if mean > 0 else stakes
    down = np.minimum(stakes, _CAP / (1 - mean)) if mean < 1 else stakes
    gain = values - mean
    return (
        np.cumsum(np.log1p(up * gain), axis=-1).max(axis=-1),
        np.cumsum(np.log1p(-down * gain), axis=-1).max(axis=-1),
    )


def betting(values: np.ndarray, low: float, high: float, alpha: float) -> tuple[float, float]:
    """The hedged-capital interval for the mean of values in [low, high], in their given order.

    A gambler who starts with half a unit and bets on the mean being above m has, if the mean is m, at most an
    alpha / 2 chance of ever holding 1 / alpha (Ville); m is excluded once that happens, likewise from below.
    The interval depends on the order of the items, which is fixed here by the evaluation set.

    Source: Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting", JRSS-B
    86:1-27, hedged capital with predictable plug-in stakes for a fixed n, stakes cut at 1/2, running intersection.
    """
    scaled = (np.asarray(values, float) - low) / (high - low)
    stakes = bets(scaled, alpha)
    limit = math.log(2 / alpha)
    centre = float(scaled.mean())

    def excluded(m: float, side: int) -> bool:
        return bool(log_capital(scaled, stakes, m)[side] >= limit)

    lower, upper = _boundary(excluded, 0, 0.0, centre), _boundary(excluded, 1, 1.0, centre)
    return low + (high - low) * lower, low + (high - low) * upper


def _boundary(excluded: Callable[[float, int], bool], side: int, outer: float, inner: float) -> float:
    # Capital against m falls monotonically from the outer end inward; stop on the safe (outer) side.
    if not excluded(outer, side):
        return outer
    if excluded(inner, side):
        # Capital once reached the limit even against the final mean: the boundary lies beyond it.
        return _boundary(excluded, side, inner, 1.0 - outer)
    for _ in range(50):
        middle = (outer + inner) / 2
        if excluded(middle, side):
            outer = middle
        else:
            inner = middle
    return outer
