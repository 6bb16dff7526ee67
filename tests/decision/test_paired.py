import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binomtest, norm
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.proportion import proportion_confint

from selfgen.decision import paired


@pytest.mark.parametrize(("k", "n"), [(0, 10), (10, 10), (3, 17), (60, 131), (0, 0)])
@pytest.mark.parametrize("alpha", [0.05, 0.0125])
def test_clopper_pearson_agrees_with_scipy_and_statsmodels(k, n, alpha):
    lower, upper = paired.clopper_pearson(k, n, alpha)
    if n == 0:
        assert (lower, upper) == (0, 1)
        return
    expected = binomtest(k, n).proportion_ci(1 - alpha, method="exact")
    assert (lower, upper) == pytest.approx((expected.low, expected.high), abs=1e-10)
    assert (lower, upper) == pytest.approx(proportion_confint(k, n, alpha, method="beta"), abs=1e-10)


def test_clopper_pearson_of_no_success_is_the_rule_of_three_s_exact_form():
    # 1 - (alpha/2)^(1/n): for n = 100, alpha = .05: 1 - .025^.01 = 0.036217
    assert paired.clopper_pearson(0, 100, 0.05)[1] == pytest.approx(0.036217, abs=1e-6)


# Published: Fagerland, Lydersen and Laake (2014), Statistics in Medicine 33:2850-2875, airway hyper-responsiveness and
# complete response data: Tango's interval (-0.517, -0.026) and (-0.124, -0.005).
@pytest.mark.parametrize(
    ("wins", "losses", "n", "published"), [(1, 7, 21, (-0.517, -0.026)), (6, 16, 161, (-0.124, -0.005))]
)
def test_tango_interval_gives_the_published_examples(wins, losses, n, published):
    assert paired.tango_interval(wins, losses, n, 0.05) == pytest.approx(published, abs=5e-4)


@pytest.mark.parametrize("delta", [-0.3, -0.03, 0.0, 0.05, 0.4])
@pytest.mark.parametrize(("wins", "losses"), [(14, 5), (5, 14), (0, 3), (20, 0)])
def test_tango_z_uses_the_constrained_maximum_likelihood_estimate(wins, losses, delta):
    n = 78

    def minus_log_likelihood(loss):
        win, rest = loss + delta, 1 - 2 * loss - delta
        terms = ((wins, win), (losses, loss), (n - wins - losses, rest))
        return -sum(k * math.log(max(p, 1e-300)) for k, p in terms if k)

    low, high = max(0.0, -delta), (1 - delta) / 2
    loss = minimize_scalar(minus_log_likelihood, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
    expected = (wins - losses - n * delta) / math.sqrt(n * (2 * loss + delta - delta**2))
    assert float(paired.tango_z(wins, losses, n, delta)) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_tango_z_of_no_difference_is_the_uncorrected_mcnemar_statistic():
    # (14 - 5) / sqrt(19) = 2.064742
    assert float(paired.tango_z(14, 5, 78, 0.0)) == pytest.approx(2.064742, abs=1e-6)


def test_tango_interval_ends_where_its_z_reaches_the_quantile():
    lower, upper = paired.tango_interval(40, 20, 160, 0.05)
    z = norm.ppf(0.975)
    assert float(paired.tango_z(40, 20, 160, lower)) == pytest.approx(z, abs=1e-6)
    assert float(paired.tango_z(40, 20, 160, upper)) == pytest.approx(-z, abs=1e-6)


def test_intervals_turn_around_when_the_arms_change_places():
    for interval in (paired.tango_interval, paired.discordant_interval):
        lower, upper = interval(14, 5, 78, 0.05)
        assert interval(5, 14, 78, 0.05) == pytest.approx((-upper, -lower), abs=1e-9)


@pytest.mark.parametrize(("wins", "losses", "n"), [(0, 0, 30), (30, 0, 30), (0, 30, 30), (1, 0, 1)])
def test_extreme_counts_give_finite_intervals_around_the_estimate(wins, losses, n):
    for interval in (paired.tango_interval, paired.discordant_interval):
        lower, upper = (float(x) for x in interval(wins, losses, n, 0.05))
        assert -1 <= lower <= (wins - losses) / n <= upper <= 1


@pytest.mark.parametrize(("wins", "losses"), [(14, 5), (0, 6), (3, 3), (1, 0)])
def test_mcnemar_agrees_with_statsmodels(wins, losses):
    expected = statsmodels_mcnemar([[50, wins], [losses, 20]], exact=True).pvalue
    assert paired.mcnemar(wins, losses) == pytest.approx(expected, abs=1e-12)


def test_mcnemar_by_hand():
    # 2 P(Bin(4, 1/2) <= 0) = 2/16
    assert paired.mcnemar(4, 0) == 0.125
    assert paired.mcnemar(0, 0) == 1.0


def test_discordant_interval_is_never_below_its_level_by_full_enumeration():
    n, alpha = 12, 0.2
    counts = np.array([(w, x) for w, x in itertools.product(range(n + 1), repeat=2) if w + x <= n])
    wins, losses = counts.T
    lower, upper = paired.discordant_interval(wins, losses, n, alpha)
    ways = np.array([math.comb(n, w) * math.comb(n - w, x) for w, x in counts], float)
    for win, loss in itertools.product(np.linspace(0.0, 1.0, 21), repeat=2):
        if win + loss > 1:
            continue
        law = ways * win**wins * loss**losses * np.maximum(1 - win - loss, 0) ** (n - wins - losses)
        truth = win - loss
        covered = law[(lower <= truth + 1e-12) & (upper >= truth - 1e-12)].sum()
        assert law.sum() == pytest.approx(1)
        assert covered >= 1 - alpha - 1e-12


@pytest.mark.parametrize(("wins", "losses"), [(14, 5), (5, 14), (10, 9), (30, 1)])
def test_discordant_interval_is_the_range_over_the_box_of_both_exact_intervals(wins, losses):
    n, alpha = 78, 0.05
    theta = binomtest(wins, wins + losses).proportion_ci(1 - 0.9 * alpha, method="exact")
    psi = binomtest(wins + losses, n).proportion_ci(1 - 0.1 * alpha, method="exact")
    corners = [p * (2 * t - 1) for p in psi for t in theta]
    assert paired.discordant_interval(wins, losses, n, alpha) == pytest.approx((min(corners), max(corners)), abs=1e-9)
