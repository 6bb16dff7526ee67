import numpy as np
import pytest

from selfgen.decision import coverage, hoeffding, paired


def test_count_law_is_the_trinomial_law():
    wins, losses, probability = coverage.count_law(0.05, 0.2, 50)
    assert probability.sum() == pytest.approx(1, abs=1e-9)
    assert (wins - losses) @ probability == pytest.approx(50 * 0.05, abs=1e-8)
    assert (wins + losses) @ probability == pytest.approx(50 * 0.2, abs=1e-8)


@pytest.mark.parametrize("n", [30, 400])
@pytest.mark.parametrize(("difference", "discordance"), [(0.0, 0.1), (-0.03, 0.2), (0.1, 0.5)])
def test_guaranteed_intervals_cover_at_least_as_often_as_they_promise(n, difference, discordance):
    for name in ("hoeffding (decides)", "empirical_bernstein", "clopper_pearson_discordant"):
        assert coverage.exact_coverage(coverage.INTERVALS[name], difference, discordance, n, 0.05).coverage >= 0.95


def test_tango_covers_within_a_point_at_the_registered_size():
    for difference, discordance in ((0.0, 0.1), (-0.03, 0.05), (0.05, 0.2)):
        found = coverage.exact_coverage(paired.tango_interval, difference, discordance, 1319, 0.05)
        assert abs(found.coverage - 0.95) < 0.01


def test_betting_covers_in_simulation():
    found = coverage.betting_coverage(-0.03, 0.2, 300, 0.05, draws=1500, seed=0)
    assert found.coverage + 3 * found.standard_error >= 0.95
    assert found.coverage == pytest.approx(1 - found.below - found.above)
    assert found.below > 0
    assert found.above > 0
    assert 0.02 < found.width < 0.3


def test_the_registered_rule_validates_a_false_claim_far_less_often_than_it_may():
    worst = max(p for _, p in coverage.false_validation(1319, 0.05, 2, -0.03))
    assert worst == pytest.approx(0.00153, abs=2e-5)  # at discordance 1, the largest variance the null allows
    assert worst <= 0.05 / 4


def test_bernstein_shortcut_is_the_interval_of_the_library():
    from selfgen.decision.bounded import empirical_bernstein

    values = np.repeat([1.0, -1.0, 0.0], [14, 5, 59])
    expected = empirical_bernstein(values.mean(), values.var(ddof=1), 78, 2, 0.05)
    assert coverage.bernstein_interval(np.array(14.0), np.array(5.0), 78, 0.05) == pytest.approx(expected)
    half = hoeffding.half_width(78, 2, 0.05, 1)
    assert coverage.hoeffding_interval(np.array(14.0), np.array(5.0), 78, 0.05)[0] == pytest.approx(9 / 78 - half)
