import json

import numpy as np
import pytest

from selfgen.decision import pair
from selfgen.decision.bounded import betting
from selfgen.decision.paired import tango_interval
from selfgen.decision.sensitivity import difference_arms, discordant_counts, sensitivity, would_say
from selfgen.errors import DataError
from tests.decision.rules import REGISTERED, rows

N = 1319


@pytest.fixture(scope="module")
def paired():
    rng = np.random.default_rng(0)
    difficulty = rng.random(N)
    arms = {"base": 0.5, "rl_gsm8k": 0.6, "rl_selfgen": 0.62}
    return pair(
        {
            arm: [(f"i{k:04d}", bool(d + 0.2 * rng.standard_normal() < a)) for k, d in enumerate(difficulty)]
            for arm, a in arms.items()
        }
    )


def test_result_is_marked_as_not_deciding_and_names_sources_and_assumptions(paired):
    result = json.loads(json.dumps(sensitivity(paired, REGISTERED), allow_nan=False))
    assert result["decides"] is False
    assert all(about["source"] and about["assumes"] for about in result["methods"].values())
    used = {i["method"] for c in result["criteria"] for i in c["intervals"]}
    assert used == result["methods"].keys()


def test_methods_for_two_arms_are_left_out_where_a_criterion_has_three(paired):
    first, second = sensitivity(paired, REGISTERED)["criteria"]
    assert {i["method"] for i in first["intervals"]} > {"tango", "clopper_pearson_discordant"}
    assert {i["method"] for i in second["intervals"]} == {"betting", "empirical_bernstein"}
    assert "mcnemar" not in second
    assert "equality" in first["mcnemar"]["tests"]


def test_every_interval_holds_the_estimate_and_levels_are_simultaneous(paired):
    result = sensitivity(paired, REGISTERED)
    assert result["level"] == 0.975
    for c in result["criteria"]:
        for interval in c["intervals"]:
            assert interval["lower"] < c["estimate"] < interval["upper"]


def test_discordant_counts_and_noninferiority_z(paired):
    wins, losses = discordant_counts(paired, "rl_selfgen", "rl_gsm8k")
    entry = sensitivity(paired, REGISTERED)["criteria"][0]
    assert entry["discordant"]["wins"] == wins
    assert entry["estimate"] == pytest.approx((wins - losses) / N)
    z = entry["tango_noninferiority"]["z"]
    assert entry["tango_noninferiority"]["margin"] == -0.03
    assert (entry["tango_noninferiority"]["p_one_sided"] < 0.0125) == (z > 2.2414)


def test_accuracies_without_listed_items(paired):
    result = sensitivity(paired, REGISTERED, exclude=["i0000", "i0007"])["without_listed_items"]
    assert result["n"] == N - 2
    assert result["excluded"] == ["i0000", "i0007"]
    keep = [k for k in range(N) if k not in (0, 7)]
    assert result["accuracies"]["base"] == pytest.approx(paired.scores["base"][keep].mean())
    with pytest.raises(DataError, match="'i9999'"):
        sensitivity(paired, REGISTERED, exclude=["i9999"])


def test_a_difference_is_recognised_whatever_the_order_of_its_weights():
    assert difference_arms({"b": -1, "a": 1.0}) == ("a", "b")
    assert difference_arms({"a": 1, "b": -1, "c": 0}) == ("a", "b")
    assert difference_arms({"a": 1, "b": -0.5, "c": -0.5}) is None
    assert difference_arms({"a": 1}) is None


def test_equal_arms_and_a_single_item_do_not_break_it():
    same = pair({arm: rows(3, 5) for arm in ("base", "rl_gsm8k", "rl_selfgen")})
    assert sensitivity(same, REGISTERED)["criteria"][0]["mcnemar"]["p_two_sided"] == 1.0
    one = pair({arm: rows(1, 1) for arm in ("base", "rl_gsm8k", "rl_selfgen")})
    sensitivity(one, REGISTERED)


def test_intervals_are_the_library_s_at_the_simultaneous_level(paired):
    first = sensitivity(paired, REGISTERED)["criteria"][0]
    wins, losses = discordant_counts(paired, "rl_selfgen", "rl_gsm8k")
    shown = {i["method"]: (i["lower"], i["upper"]) for i in first["intervals"]}
    assert shown["tango"] == pytest.approx(tango_interval(wins, losses, N, 0.025), abs=1e-9)
    values = paired.values({"rl_selfgen": 1, "rl_gsm8k": -1})
    assert shown["betting"] == pytest.approx(betting(values, -1, 1, 0.025), abs=1e-9)


@pytest.mark.parametrize(
    ("lower", "upper", "said"),
    [(0.1, 0.2, "validated"), (-0.2, -0.1, "failed"), (-0.1, 0.1, "inconclusive"), (0.0, 0.1, "inconclusive"),
     (0.2, 0.1, "inconclusive")],
)  # fmt: skip
def test_an_interval_says_what_the_rule_would_and_an_empty_one_nothing(lower, upper, said):
    assert would_say(lower, upper, 0.0) == said
