"""Intervals and tests for the difference of two arms' accuracies on the same 0/1 items.

With n items, `wins` are those that only the first arm got right and `losses` those that only the second did.
The difference of accuracies is delta = p_win - p_loss, estimated by (wins - losses) / n; the items on which
both agree carry no information about its sign. All functions take arrays as well as numbers.
Assumes items are independent draws from one population.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Share of the error spent on the win share; the rest covers how many items are discordant at all.
_THETA_SHARE = 0.9


def clopper_pearson(k: Any, n: Any, alpha: float) -> tuple[Any, Any]:
    """The exact two-sided interval for a binomial proportion after k of n successes; [0, 1] when n is 0.

    Source: Clopper and Pearson (1934), "The use of confidence or fiducial limits", Biometrika 26:404-413.
    Covers with probability at least 1 - alpha for every n and p.
    """
    from scipy.special import betaincinv

    k, n = np.asarray(k, float), np.asarray(n, float)
    with np.errstate(invalid="ignore"):
        lower = np.where(k <= 0, 0.0, betaincinv(np.maximum(k, 1), n - k + 1, alpha / 2))
        upper = np.where(k >= n, 1.0, betaincinv(k + 1, np.maximum(n - k, 1), 1 - alpha / 2))
    return lower, upper


def discordant_interval(wins: Any, losses: Any, n: int, alpha: float) -> tuple[Any, Any]:
    """An exact interval for delta = psi (2 theta - 1) from two Clopper-Pearson intervals.

    psi is the probability that the arms disagree on an item, theta that the first wins a disagreement. Given the
    number of disagreements, wins are binomial(theta); the number itself is binomial(n, psi). The interval is the
    range of delta over the box of both, at 0.9 alpha and 0.1 alpha (union bound). Covers with probability at
    least 1 - alpha for every n and every (p_win, p_loss).
    """
    wins, losses = np.asarray(wins, float), np.asarray(losses, float)
    theta_low, theta_high = clopper_pearson(wins, wins + losses, _THETA_SHARE * alpha)
    psi_low, psi_high = clopper_pearson(wins + losses, n, (1 - _THETA_SHARE) * alpha)
    least, most = 2 * theta_low - 1, 2 * theta_high - 1
    return np.where(least >= 0, psi_low, psi_high) * least, np.where(most >= 0, psi_high, psi_low) * most


def tango_z(wins: Any, losses: Any, n: int, delta: Any) -> Any:
    """Tango's score statistic of the hypothesis that the difference is `delta`; standard normal for large n.

    At delta = a non-inferiority margin, large values speak for the first arm being above the margin.

    Source: Tango (1998), "Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design", Statistics in Medicine 17:891-908, eqs. 10-12. The loss probability is its maximum
    likelihood estimate under the hypothesis.
    """
    wins, losses, delta = (np.asarray(x, float) for x in (wins, losses, delta))
    b = -wins - losses + (2 * n - wins + losses) * delta
    c = -losses * delta * (1 - delta)
    loss = (np.sqrt(np.maximum(b * b - 8 * n * c, 0)) - b) / (4 * n)
    variance = n * (2 * loss + delta * (1 - delta))
    gap = wins - losses - n * delta
    with np.errstate(divide="ignore", invalid="ignore"):
        z = gap / np.sqrt(np.maximum(variance, 0))
    return np.where(np.abs(gap) < 1e-12 * n, 0.0, z)


def tango_interval(wins: Any, losses: Any, n: int, alpha: float) -> tuple[Any, Any]:
    """Tango's score interval: the differences whose score statistic stays within the normal's 1 - alpha/2 quantile.

    Approximate: coverage is near 1 - alpha, not guaranteed to reach it (see docs/statistics.md).
    """
    from scipy.special import ndtri

    z = float(ndtri(1 - alpha / 2))
    wins, losses = np.asarray(wins, float), np.asarray(losses, float)
    estimate = (wins - losses) / n
    return (
        _solve(wins, losses, n, z, np.full_like(estimate, -1.0), estimate),
        _solve(wins, losses, n, -z, estimate, np.full_like(estimate, 1.0)),
    )


def _solve(wins: Any, losses: Any, n: int, z: float, low: Any, high: Any) -> Any:
    # The statistic falls as delta rises, from +inf at -1 to -inf at +1.
    for _ in range(60):
        middle = (low + high) / 2
        above = tango_z(wins, losses, n, middle) > z
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return (low + high) / 2


def mcnemar(wins: int, losses: int) -> float:
    """The exact two-sided p-value of McNemar's test that the two arms have EQUAL accuracy.

    It answers another question than a margin does: a large value is no evidence of equality, and a small one may
    come from a difference that the margin allows. Reported because readers look for it.

    Source: McNemar (1947), Psychometrika 12:153-157; exact form: binomial(wins + losses, 1/2), both tails doubled.
    """
    from scipy.special import bdtr

    discordant = wins + losses
    if discordant == 0:
        return 1.0
    return float(min(1.0, 2 * bdtr(min(wins, losses), discordant, 0.5)))
