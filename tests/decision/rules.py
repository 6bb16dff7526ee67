"""Builders of decision params, unvalidated so that wrong ones can be built, and of rows; no test in here."""

from selfgen.params import CriterionParams, DecisionParams


def criterion(weights, margin=0.0, bounds=(0, 1), id="c", metric="accuracy"):
    return CriterionParams.model_construct(id=id, metric=metric, bounds=list(bounds), margin=margin, weights=weights)


def rule(*criteria, alpha=0.05, method="paired_hoeffding"):
    return DecisionParams.model_construct(method=method, alpha=alpha, criteria=list(criteria))


REGISTERED = rule(
    criterion({"rl_selfgen": 1, "rl_gsm8k": -1}, -0.03, id="noninferiority_vs_gsm8k_rl"),
    criterion({"rl_selfgen": 1, "rl_gsm8k": -0.5, "base": -0.5}, 0.0, id="recovered_half_gain"),
)


def rows(correct, total, start=0):
    """`total` rows of which `correct`, from place `start` on, are right."""
    return [(f"item-{i:05d}", start <= i < start + correct) for i in range(total)]
