"""Builders of decision params and rows for these tests; no test in here."""

from types import SimpleNamespace


def criterion(weights, margin=0.0, bounds=(0, 1), id="c", metric="accuracy"):
    return SimpleNamespace(id=id, metric=metric, bounds=list(bounds), margin=margin, weights=weights)


def rule(*criteria, alpha=0.05, method="paired_hoeffding"):
    return SimpleNamespace(method=method, alpha=alpha, criteria=list(criteria))


REGISTERED = rule(
    criterion({"rl_selfgen": 1, "rl_gsm8k": -1}, -0.03, id="noninferiority_vs_gsm8k_rl"),
    criterion({"rl_selfgen": 1, "rl_gsm8k": -0.5, "base": -0.5}, 0.0, id="recovered_half_gain"),
)


def rows(correct, total, start=0):
    """`total` rows of which `correct`, from place `start` on, are right."""
    return [(f"item-{i:05d}", start <= i < start + correct) for i in range(total)]
