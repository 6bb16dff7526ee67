import itertools
import json
import math
import time
from fractions import Fraction

import numpy as np
import pytest

from selfgen.decision.outcomes import copula, observed
from selfgen.decision.power import (
    claim_probabilities,
    describe,
    needed_n,
    power,
    thresholds,
    verdict_probabilities,
)
from selfgen.decision.verdict import classify
from selfgen.errors import ParamsError
from tests.decision.rules import REGISTERED, criterion, rule

FIRST, SECOND = REGISTERED.criteria


def test_the_registered_rule_says_it_needs_5_2_points():
    told = describe(FIRST, 1319, 0.05, 2)
    assert told["smallest_validating"] == 68 / 1319
    assert told["largest_failing"] == -148 / 1319
    assert "+5.2 points observed (+68 items) or more validate it" in told["sentence"]


def test_thresholds_are_where_the_rule_itself_changes_its_verdict():
    for c, n in itertools.product(REGISTERED.criteria, (200, 1319, 5000)):
        limits = thresholds(c, n, 0.05, 2)
        margin = Fraction(str(c.margin))
        for total, verdict in ((limits.validates, "validated"), (limits.fails, "failed")):
            inward = -limits.step if verdict == "validated" else limits.step
            assert classify(total / n, margin, n, Fraction(2), 0.05, 2) == verdict
            assert classify((total + inward) / n, margin, n, Fraction(2), 0.05, 2) == "inconclusive"


def test_too_few_items_cannot_validate_whatever_is_observed():
    told = describe(FIRST, 8, 0.05, 2)
    assert told["smallest_validating"] is None
    assert "no observation can validate it" in told["sentence"]


def brute_force(c, outcomes, n, alpha, m):
    """Enumerate every sequence of n item patterns."""
    probability = {"validated": 0.0, "failed": 0.0, "inconclusive": 0.0}
    for picks in itertools.product(range(len(outcomes.patterns)), repeat=n):
        p = math.prod(outcomes.probabilities[k] for k in picks)
        total = sum(
            Fraction(str(w)) * int(outcomes.patterns[k][outcomes.arms.index(a)])
            for k in picks
            for a, w in c.weights.items()
        )
        probability[classify(total / n, Fraction(str(c.margin)), n, Fraction(2), alpha, m)] += p
    return probability


@pytest.mark.parametrize("margin", [-0.5, 0.25])
@pytest.mark.parametrize("weights", [{"a": 1, "b": -1}, {"a": 1, "b": -0.5, "c": -0.5}])
def test_verdict_probabilities_agree_with_enumeration_of_every_outcome(weights, margin):
    outcomes = copula({"a": 0.8, "b": 0.4, "c": 0.3} if "c" in weights else {"a": 0.8, "b": 0.4}, 0.5, ("a", "b"))
    c = criterion(weights, margin=margin)
    n = 4 if "c" in weights else 6
    expected = brute_force(c, outcomes, n, 0.7, 1)
    validated, failed = verdict_probabilities(c, outcomes, n, 0.7, 1)
    assert validated == pytest.approx(expected["validated"], abs=1e-12)
    assert failed == pytest.approx(expected["failed"], abs=1e-12)
    assert 0 < (validated if margin < 0 else failed) < 1


def test_two_arm_probability_agrees_with_the_binomial_formula():
    from scipy.stats import binom

    n, difference, discordance = 1319, 0.06, 0.2
    outcomes = copula({"rl_gsm8k": 0.6, "rl_selfgen": 0.66}, discordance, ("rl_selfgen", "rl_gsm8k"))
    k = np.arange(n + 1)
    share = (discordance + difference) / 2 / discordance
    # wins - losses >= 68 given k discordant items: wins >= (k + 68) / 2
    expected = binom.pmf(k, n, discordance) @ binom.sf(np.ceil((k + 68) / 2) - 1, k, share)
    assert verdict_probabilities(FIRST, outcomes, n, 0.05, 2)[0] == pytest.approx(expected, abs=1e-6)


def test_claim_simulation_agrees_with_the_exact_law_when_there_is_one_criterion():
    outcomes = copula({"rl_gsm8k": 0.6, "rl_selfgen": 0.66}, 0.2, ("rl_selfgen", "rl_gsm8k"))
    one = rule(FIRST)
    exact = verdict_probabilities(FIRST, outcomes, 1319, 0.05, 1)[0]
    simulated = claim_probabilities(one.criteria, outcomes, 1319, 0.05, draws=40_000, seed=3)
    assert abs(simulated["validated"] - exact) < 5 * simulated["standard_error"]


def test_the_copula_has_the_accuracies_and_discordance_asked_for():
    accuracies = {"base": 0.5, "rl_gsm8k": 0.62, "rl_selfgen": 0.66}
    outcomes = copula(accuracies, 0.18, ("rl_selfgen", "rl_gsm8k"))
    for arm, accuracy in accuracies.items():
        assert outcomes.accuracy(arm) == pytest.approx(accuracy, abs=1e-9)
    assert outcomes.discordance("rl_selfgen", "rl_gsm8k") == pytest.approx(0.18, abs=1e-9)


def test_impossible_discordance_is_recognised():
    assert copula({"a": 0.5, "b": 0.8}, 0.2, ("a", "b")) is None  # accuracies alone differ by 0.3
    assert copula({"a": 0.5, "b": 0.5}, 0.7, ("a", "b")) is None  # more than independent arms show


def test_observed_outcomes_are_the_items_own_shares():
    outcomes = observed({"a": np.array([1, 1, 0, 0]), "b": np.array([1, 0, 0, 0])}, ["a", "b"])
    assert outcomes.accuracy("a") == 0.5
    assert outcomes.discordance("a", "b") == 0.25


def test_needed_items_reach_the_target_and_a_few_less_do_not():
    outcomes = copula({"rl_gsm8k": 0.6, "rl_selfgen": 0.6}, 0.2, ("rl_selfgen", "rl_gsm8k"))
    needed = needed_n(FIRST, outcomes, 0.05, 2)
    assert needed["method"] == "exact"
    assert verdict_probabilities(FIRST, outcomes, needed["n"], 0.05, 2)[0] >= 0.8
    assert verdict_probabilities(FIRST, outcomes, int(needed["n"] * 0.98), 0.05, 2)[0] < 0.8
    # closed form by hand: ((2 sqrt(ln80/2) + .8416 sqrt(.2)) / .03)^2 = ((2.9604 + .3764) / .03)^2 = 12,371
    assert needed["n"] == pytest.approx(12_371, rel=0.005)


def test_no_number_of_items_validates_a_false_claim():
    outcomes = copula({"rl_gsm8k": 0.6, "rl_selfgen": 0.57}, 0.2, ("rl_selfgen", "rl_gsm8k"))
    assert needed_n(FIRST, outcomes, 0.05, 2) is None


def test_the_account_is_reproducible_plain_json_and_fast():
    start = time.process_time()
    first = power(REGISTERED, 1319)
    assert time.process_time() - start < 5
    json.dumps(first, allow_nan=False)
    again = power(REGISTERED, 1319, differences=[0.05], discordances=[0.2], seed=1)
    assert again == power(REGISTERED, 1319, differences=[0.05], discordances=[0.2], seed=1)
    row = next(s for s in first["scenarios"] if (s["difference"], s["discordance"]) == (0.0, 0.2))
    assert row["criteria"][0]["validated"] < 1e-4, "the rule cannot validate equality at this n"
    assert not any(s["feasible"] for s in first["scenarios"] if (s["difference"], s["discordance"]) == (-0.15, 0.1))


def test_a_plan_without_a_treated_or_reference_arm_is_refused():
    with pytest.raises(ParamsError, match="no arm has a positive weight in all"):
        power(rule(criterion({"a": 1, "b": -1}, id="x"), criterion({"b": 1, "a": -1}, id="y")), 100)
    with pytest.raises(ParamsError, match="no arm has a negative weight"):
        power(rule(criterion({"a": 1})), 100)
