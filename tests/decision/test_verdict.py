import json
import time
from fractions import Fraction

import numpy as np
import pytest

from selfgen.decision import decide, hoeffding, pair
from selfgen.decision.verdict import classify, overall
from selfgen.errors import DataError, ParamsError
from tests.decision.rules import REGISTERED, criterion, rows, rule

N = 1319


def registered(selfgen, gsm8k, base):
    return decide({"rl_selfgen": rows(selfgen, N), "rl_gsm8k": rows(gsm8k, N), "base": rows(base, N)}, REGISTERED)


def test_hand_worked_decision():
    # 900, 800, 600 of 1319: (900-800)/1319 = .075815; (900 - 400 - 300)/1319 = .151630; h = .081514
    decision = registered(900, 800, 600)
    first, second = decision.criteria
    assert first.estimate == Fraction(100, 1319)
    assert first.lower == pytest.approx(0.075815 - 0.081514, abs=1e-6)
    assert first.upper == pytest.approx(0.075815 + 0.081514, abs=1e-6)
    assert second.estimate == Fraction(200, 1319)
    assert (first.verdict, second.verdict, decision.verdict) == ("validated",) * 3


def test_criterion_one_needs_68_more_right_items_and_67_do_not_do():
    assert registered(768, 700, 400).criteria[0].verdict == "validated"
    assert registered(767, 700, 400).criteria[0].verdict == "inconclusive"


def test_criterion_one_fails_at_148_fewer_and_not_at_147():
    assert registered(552, 700, 400).criteria[0].verdict == "failed"
    assert registered(553, 700, 400).criteria[0].verdict == "inconclusive"


def test_one_failed_criterion_fails_the_claim_even_when_another_is_validated():
    assert overall(["validated", "failed"]) == "failed"
    assert overall(["inconclusive", "failed"]) == "failed"
    assert overall(["validated", "inconclusive"]) == "inconclusive"
    assert overall(["validated", "validated"]) == "validated"


def test_a_bound_equal_to_the_margin_decides_nothing():
    # R = 0 makes h = 0, the only way a bound can equal a rational margin exactly.
    assert classify(Fraction(3, 100), Fraction(3, 100), 10, Fraction(0), 0.05, 1) == "inconclusive"
    h = hoeffding.half_width_digits(N, 2, 0.05, 2, digits=60)
    for nudge, verdict in ((Fraction(1, 10**50), "validated"), (-Fraction(1, 10**50), "inconclusive")):
        assert classify(Fraction(-3, 100) + h + nudge, Fraction(-3, 100), N, Fraction(2), 0.05, 2) == verdict


def test_verdict_does_not_depend_on_row_order_or_extra_arms():
    arms = {"rl_selfgen": rows(900, N), "rl_gsm8k": rows(800, N), "base": rows(600, N)}
    shuffled = arms | {"base": arms["base"][::-1], "another": rows(5, N)}
    first, second = decide(arms, REGISTERED).to_json(), decide(shuffled, REGISTERED).to_json()
    assert first["criteria"] == second["criteria"]
    assert first["items_sha256"] == second["items_sha256"]


def test_scores_on_any_bounds_are_scaled_by_their_range():
    params = rule(criterion({"a": 1, "b": -1}, margin=0.0, bounds=(-2, 3)))
    values = {"a": [(str(i), 3.0) for i in range(200)], "b": [(str(i), -2.0) for i in range(200)]}
    result = decide(values, params).criteria[0]
    assert result.width == 10
    assert result.half_width == pytest.approx(10 * np.sqrt(np.log(40) / 400))
    assert result.verdict == "validated"
    with pytest.raises(DataError, match="outside the bounds"):
        decide(values, rule(criterion({"a": 1, "b": -1}, bounds=(-1, 3))))


def test_json_is_complete_and_plain():
    decision = json.loads(json.dumps(registered(900, 800, 600).to_json(), allow_nan=False))
    assert decision["n"] == N
    assert decision["criteria"][0]["estimate_exact"] == "100/1319"
    assert decision["accuracies"]["base"] == {"accuracy": 600 / 1319, "correct": 600.0}
    assert decision["method"] == "paired_hoeffding"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (rule(criterion({"a": 1}), method="bootstrap"), "unknown method 'bootstrap'"),
        (rule(criterion({"a": 1}), alpha=0.0), "decision.alpha"),
        (rule(criterion({"a": 1}), alpha=1), "decision.alpha"),
        (rule(), "at least one criterion"),
        (rule(criterion({"a": 1}), criterion({"a": 1})), "share this id"),
        (rule(criterion({"a": 1}, metric="f1")), "unknown metric 'f1'"),
        (rule(criterion({"a": 1}, bounds=(1, 0))), "low < high"),
        (rule(criterion({"a": 0})), "other than 0"),
        (rule(criterion({"a": 1}, margin=float("nan"))), "finite"),
        (rule(criterion({"a": 1, "rl_gsm9k": -1})), "no arm 'rl_gsm9k' was evaluated; evaluated: a"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_naming_the_key(params, message):
    with pytest.raises(ParamsError, match=message):
        decide({"a": rows(1, 4)}, params)


@pytest.mark.parametrize(("discordance", "draws"), [(0.2, 4000), (1.0, 20_000)])
def test_false_validation_rate_at_the_edge_of_the_null_is_far_below_alpha(discordance, draws):
    """The registered rule at true difference = margin; discordance 1 has the largest variance the null allows.

    Criterion 2 is put far on its true side, so criterion 1 alone decides the claim: the worst point of its null.
    """
    first, m = REGISTERED.criteria[0], len(REGISTERED.criteria)
    win, lose = (discordance + first.margin) / 2, (discordance - first.margin) / 2
    rng = np.random.default_rng(0)
    wins, losses, _ = rng.multinomial(N, [win, lose, max(0.0, 1 - win - lose)], size=draws).T
    gaps, counts = np.unique(wins - losses, return_counts=True)
    validated = sum(
        int(count)
        for gap, count in zip(gaps, counts, strict=True)
        if classify(Fraction(int(gap), N), Fraction(-3, 100), N, Fraction(2), REGISTERED.alpha, m) == "validated"
    )
    assert validated / draws <= 0.05 / 10  # exactly 0.00153 at discordance 1; 0.0125 would be allowed


def test_a_million_items_and_ten_arms_are_decided_within_five_seconds():
    ids = [f"item-{i:07d}" for i in range(1_000_000)]
    rng = np.random.default_rng(0)
    arms = {f"arm{k}": list(zip(ids, (rng.random(len(ids)) < 0.6).tolist(), strict=True)) for k in range(10)}
    params = rule(*(criterion({f"arm{k}": 1, "arm0": -1}, -0.03, id=f"c{k}") for k in range(1, 10)))
    start = time.process_time()
    assert decide(arms, params, items=ids).verdict == "validated"
    assert time.process_time() - start < 5


def test_paired_rows_can_be_decided_directly():
    paired = pair({"a": rows(3, 4), "b": rows(1, 4)})
    assert decide(paired, rule(criterion({"a": 1, "b": -1}))).criteria[0].estimate == Fraction(1, 2)
