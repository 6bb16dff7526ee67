"""How often each pattern of right and wrong answers occurs across the arms on one item: the model behind power.

Arms that answer the same item succeed and fail together, because items differ in difficulty. The model is a
one-factor Gaussian copula: arm a is right on an item of difficulty z ~ N(0,1) iff sqrt(rho) z + sqrt(1-rho) e_a
stays below Phi^-1(accuracy_a), with independent e_a ~ N(0,1). One number, rho, sets how alike the arms are; it
is solved for from the discordance of two arms, the share of items on which exactly one of them is right.

Source: Vasicek (2002), "The distribution of loan portfolio value", for the one-factor form. Assumes every two
arms share the same rho; a two-arm difference needs no such assumption, its law is fixed by discordance alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

# Trapezoid nodes over +-9 standard deviations; spacing 0.0045 resolves the step of width 0.01 at MAX_RHO.
_NODES = np.linspace(-9.0, 9.0, 4001)
_DENSITY = np.exp(-(_NODES**2) / 2)
_DENSITY /= _DENSITY.sum()
MAX_RHO = 0.9999


@dataclass(frozen=True)
class Outcomes:
    """The law of one item. `patterns` is (2^k, k) of 0/1, one column an arm; `probabilities` sums to 1."""

    arms: tuple[str, ...]
    patterns: np.ndarray
    probabilities: np.ndarray

    def accuracy(self, arm: str) -> float:
        """The probability that `arm` is right."""
        return float(self.probabilities @ self.patterns[:, self.arms.index(arm)])

    def discordance(self, first: str, second: str) -> float:
        """The probability that exactly one of two arms is right."""
        a, b = (self.patterns[:, self.arms.index(arm)] for arm in (first, second))
        return float(self.probabilities @ (a != b))


def copula(accuracies: Mapping[str, float], discordance: float, pair: tuple[str, str]) -> Outcomes | None:
    """The one-factor law with these accuracies and this discordance between the two arms of `pair`.

    Returns None where no such law exists: accuracies lie strictly between 0 and 1, discordance is at least the
    difference of the two, and at most what independent arms show.
    """
    from scipy.special import ndtri

    if not all(0 < accuracy < 1 for accuracy in accuracies.values()):
        return None
    arms = tuple(accuracies)
    limits = np.array([ndtri(accuracies[a]) for a in arms])
    i, j = arms.index(pair[0]), arms.index(pair[1])
    low, high = 0.0, MAX_RHO
    if not _discordance(limits, i, j, high) <= discordance <= _discordance(limits, i, j, low):
        return None
    for _ in range(60):
        middle = (low + high) / 2
        if _discordance(limits, i, j, middle) > discordance:
            low = middle
        else:
            high = middle
    right = _right(limits, (low + high) / 2)
    patterns = np.array(list(itertools.product((0, 1), repeat=len(arms))))
    given_z = np.prod(np.where(patterns[:, :, None] == 1, right[None], 1 - right[None]), axis=1)
    probabilities = given_z @ _DENSITY
    return Outcomes(arms, patterns, probabilities / probabilities.sum())


def observed(scores: Mapping[str, np.ndarray], arms: Sequence[str]) -> Outcomes:
    """The law found in evaluated items (a pilot's, say): each pattern's share of them."""
    table = np.stack([np.asarray(scores[a]).astype(int) for a in arms], axis=1)
    patterns, counts = np.unique(table, axis=0, return_counts=True)
    return Outcomes(tuple(arms), patterns, counts / counts.sum())


def _right(limits: np.ndarray, rho: float) -> np.ndarray:
    from scipy.special import ndtr

    return ndtr((limits[:, None] - np.sqrt(rho) * _NODES) / np.sqrt(1 - rho))


def _discordance(limits: np.ndarray, i: int, j: int, rho: float) -> float:
    a, b = _right(limits[[i, j]], rho)
    return float((a * (1 - b) + b * (1 - a)) @ _DENSITY)
