import math

import numpy as np
import pytest

from selfgen.decision import bounded


def test_empirical_bernstein_by_hand():
    # n = 101, V = .09, width 2, alpha = .05: ln 80 = 4.382027
    # sqrt(2 * .09 * 4.382027 / 101) = .0883723; 7 * 2 * 4.382027 / 300 = .2044946
    lower, upper = bounded.empirical_bernstein(0.1, 0.09, 101, 2, 0.05)
    assert lower == pytest.approx(0.1 - 0.2928669, abs=1e-6)
    assert upper == pytest.approx(0.1 + 0.2928669, abs=1e-6)


def test_empirical_bernstein_of_one_value_says_no_more_than_the_bounds():
    assert bounded.empirical_bernstein(0.5, 0.0, 1, 1, 0.05) == (-0.5, 1.5)


# From confseq 0.0.11, the authors' own package: betting_ci(x, alpha=.05, breaks=20000, trunc_scale=.5, m_trunc=True),
# whose grid has a step of 5e-5.
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((np.arange(200) * 7919 % 10 < 6).astype(float), (0.50225, 0.68110)),
        (np.tile([0.5, 0.5, 1, 0.5, 0, 0.5, 0.5, 0.5, 1, 0.5], 60), (0.52070, 0.57995)),
    ],
)
def test_betting_interval_agrees_with_confseq(values, expected):
    assert bounded.betting(values, 0, 1, 0.05) == pytest.approx(expected, abs=1e-4)


def test_betting_stakes_by_hand():
    # n = 2, alpha = .05: first stake sqrt(2 ln 40 / (2 * 1/4)) = 3.841291. After x = 1: mean (1/2 + 1)/2 = 3/4,
    # s^2 = (1/4 + 1/16) / 2 = .15625; second stake sqrt(2 ln 40 / (2 * .15625)) = 4.858891
    assert bounded.bets(np.array([1.0, 0.0]), 0.05) == pytest.approx([3.841291, 4.858891], abs=1e-5)


def test_stakes_never_look_ahead():
    values = np.array([0.2, 0.9, 0.4, 0.7])
    changed = values.copy()
    changed[2:] = 0
    assert bounded.bets(values, 0.05)[:3] == pytest.approx(bounded.bets(changed, 0.05)[:3])


def test_betting_scales_with_the_bounds():
    values = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], 400, p=[0.1, 0.8, 0.1])
    lower, upper = bounded.betting(values, -1, 1, 0.05)
    scaled = bounded.betting((values + 1) / 2, 0, 1, 0.05)
    assert (lower, upper) == pytest.approx((2 * scaled[0] - 1, 2 * scaled[1] - 1), abs=1e-9)
    assert lower < values.mean() < upper


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_constant_values_give_an_interval_that_holds_them(value):
    lower, upper = bounded.betting(np.full(50, value), 0, 1, 0.05)
    assert 0 <= lower <= value <= upper <= 1


def test_capital_against_the_truth_rarely_reaches_the_limit():
    rng = np.random.default_rng(1)
    values = (rng.random((4000, 200)) < 0.3).astype(float)
    up, down = bounded.log_capital(values, bounded.bets(values, 0.1), 0.3)
    assert ((up >= math.log(20)) | (down >= math.log(20))).mean() <= 0.1
