import itertools

import numpy as np
import pytest

from selfgen.decision.evidence import GRID, e_values, seeds_needed


def test_one_seed_by_hand():
    # margin 0 in [-1, 1], Y = .5: mean over k of 1 + .5 k/51 for k = 1..50 = 1 + .5 * 25.5/51 = 1.25
    above, below = e_values([0.5], 0.0, -1.0, 1.0)
    assert above == pytest.approx([1.25])
    assert below == pytest.approx([0.75])


def test_running_value_multiplies_within_each_stake_before_averaging():
    above, _ = e_values([0.5, -0.2], 0.0, -1.0, 1.0)
    assert above[1] == pytest.approx(np.mean((1 + 0.5 * GRID) * (1 - 0.2 * GRID)))


def test_final_value_does_not_depend_on_the_order_of_seeds():
    values = [0.1, -0.05, 0.2, 0.0]
    finals = {round(e_values(order, -0.03, -1, 1)[0][-1], 12) for order in itertools.permutations(values)}
    assert len(finals) == 1


def test_expected_value_is_one_at_the_margin_by_enumeration():
    # Y is +1 or -1 with mean equal to the margin: E[e] = 1 exactly, for every number of seeds.
    margin = -0.2
    for n in (1, 2, 5):
        total = 0.0
        for signs in itertools.product((1.0, -1.0), repeat=n):
            weight = np.prod([0.4 if s > 0 else 0.6 for s in signs])
            total += weight * e_values(signs, margin, -1, 1)[0][-1]
        assert total == pytest.approx(1.0)


def test_false_claims_rarely_reach_the_target_however_often_one_looks():
    rng = np.random.default_rng(0)
    reached = sum(max(e_values(rng.choice([1.0, -1.0], 60, p=[0.5, 0.5]), 0.0, -1, 1)[0]) >= 10 for _ in range(2000))
    assert reached / 2000 <= 0.1


def test_a_true_claim_is_found_in_time():
    above, below = e_values([0.4] * 20, 0.0, -1, 1)
    assert above[-1] > 80 > 1 > below[-1]


def test_seeds_needed_says_how_dear_it_is_to_assume_nothing():
    # advantage .03 over margin -.03 in [-1, 1]: ln 80 / ln(1 + .03/.97) = 4.382 / .030459 = 143.9
    assert seeds_needed(0.03, -0.03, -1, 80) == 144
    assert seeds_needed(0.0, -0.03, -1, 80) is None


def test_no_value_is_an_empty_list_and_values_outside_the_bounds_are_refused():
    assert e_values([], 0.0, -1, 1) == ([], [])
    with pytest.raises(ValueError):
        e_values([1.5], 0.0, -1, 1)
    with pytest.raises(ValueError):
        e_values([0.5], 1.0, -1, 1)


def test_stakes_are_scaled_by_the_distance_from_the_margin_to_the_far_bound():
    # margin -.5 in [-1, 1], Y = .5: above: 1 + mean(g) * 1 / .5 = 2; below: 1 - mean(g) * 1 / 1.5 = 2/3
    above, below = e_values([0.5], -0.5, -1.0, 1.0)
    assert above == pytest.approx([2.0])
    assert below == pytest.approx([2 / 3])
