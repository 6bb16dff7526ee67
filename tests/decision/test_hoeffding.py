import math
from fractions import Fraction

import pytest

from selfgen.decision import hoeffding


def test_half_width_of_the_registered_rule_is_the_hand_worked_number():
    # R = 2, m = 2, alpha = .05: 2 * sqrt(ln 80 / 2638) = 2 * sqrt(4.382026635 / 2638) = 0.0815136
    assert hoeffding.half_width(1319, 2, 0.05, 2) == pytest.approx(0.081514, abs=5e-7)
    assert hoeffding.half_width(1319, 2, 0.05, 2) == pytest.approx(2 * math.sqrt(math.log(80) / 2638), rel=1e-15)


def test_one_criterion_one_arm_is_the_textbook_two_sided_bound():
    # sqrt(ln(2/.05) / (2 * 100)) = sqrt(3.688879 / 200) = 0.135810
    assert hoeffding.half_width(100, 1, 0.05, 1) == pytest.approx(0.135810, abs=5e-7)


def test_range_counts_every_arm_and_scales_with_the_score_bounds():
    assert hoeffding.item_range([1, -1]) == 2
    assert hoeffding.item_range([1, -0.5, -0.5]) == 2
    assert hoeffding.item_range([1, -1], [-1, 3]) == 8
    assert hoeffding.item_range([0.1, -0.3], [0, 1]) == Fraction(2, 5)


def test_a_float_stands_for_the_decimal_that_was_written():
    assert hoeffding.exact(-0.03) == Fraction(-3, 100)
    assert hoeffding.exact(0.1) + hoeffding.exact(0.2) == hoeffding.exact(0.3)


def test_comparison_sees_gaps_far_below_float_resolution():
    half = hoeffding.half_width_digits(1319, 2, 0.05, 2, digits=60)
    nudge = Fraction(1, 10**45)
    assert float(half + nudge) == float(half - nudge)
    assert hoeffding.compare(half + nudge, 1319, 2, 0.05, 2) == 1
    assert hoeffding.compare(half - nudge, 1319, 2, 0.05, 2) == -1


@pytest.mark.parametrize("gap", [Fraction(-1), Fraction(0)])
def test_a_gap_of_zero_or_less_never_exceeds_a_positive_half_width(gap):
    assert hoeffding.compare(gap, 10, 1, 0.05, 1) == -1


def test_zero_range_is_compared_rationally():
    assert hoeffding.compare(Fraction(0), 10, 0, 0.05, 1) == 0
    assert hoeffding.compare(Fraction(1, 3), 10, 0, 0.05, 1) == 1


def test_smaller_alpha_more_criteria_and_fewer_items_widen_the_interval():
    h = hoeffding.half_width(1000, 2, 0.05, 2)
    assert hoeffding.half_width(1000, 2, 0.01, 2) > h
    assert hoeffding.half_width(1000, 2, 0.05, 3) > h
    assert hoeffding.half_width(999, 2, 0.05, 2) > h
