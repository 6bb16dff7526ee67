"""The projection is arithmetic that a reader can redo, and it stops a run that is over."""

import pytest

from selfgen import budget
from selfgen.errors import BudgetError
from selfgen.params import Price
from tests.training.conftest import make_params


def timing(step=2.0, overhead=3.0, items=10, eval_seconds=5.0):
    return {
        "step_seconds": [step, step + 2],
        "overhead_seconds": overhead,
        "rollout_prompt_tokens": 1000,
        "rollout_sampled_tokens": 500,
        "eval_items": items,
        "eval_seconds": eval_seconds,
        "eval_prompt_tokens": 100,
        "eval_sampled_tokens": 60,
    }


@pytest.fixture
def params():
    whole = make_params("selfgen/policy", steps=10, problems=20)
    return with_budget(whole, gpu_hours=2.0, wall_minutes=120, gpus=2)


def with_budget(params, **changes):
    return params.model_copy(update={"budget": params.budget.model_copy(update=changes)})


PILOTS = {"rl_gsm8k": timing(), "rl_selfgen": timing(step=4.0, eval_seconds=7.0)}


def test_it_is_the_linear_extrapolation_by_hand(params):
    found = budget.project(params, PILOTS, n_test=100)
    # Ten steps at a mean of 3 and 5 seconds, with 3 seconds of overhead; 0.6 seconds an item, three evaluations.
    assert found["phases"] == pytest.approx(
        {"train:rl_gsm8k": 33, "train:rl_selfgen": 53, "eval:base": 60, "eval:rl_gsm8k": 60, "eval:rl_selfgen": 60}
    )
    assert found["wall_seconds"] == pytest.approx(266)
    assert found["gpu_hours"] == pytest.approx(266 / 3600 * 2)
    # Five times the pilot's rollouts for two arms, and 10 + 6 tokens an item for 300 items.
    assert found["tokens"] == {"prefill": 10_000 + 3000, "sample": 5000 + 1800, "train": 15_000}
    assert found["status"] == "within_budget"
    assert found["problems"] == []


def test_a_repeated_evaluation_costs_twice(params):
    twice = params.model_copy(update={"eval": params.eval.model_copy(update={"repeat": True})})
    one, two = (budget.project(p, PILOTS, 100)["phases"]["eval:base"] for p in (params, twice))
    assert two == pytest.approx(2 * one)


def test_prices_turn_tokens_into_money_and_no_price_into_none(params):
    assert budget.project(params, PILOTS, 100)["money"] is None
    priced = with_budget(params, prices={params.model.name: Price(prefill=1.0, sample=10.0, train=2.0)})
    assert budget.project(priced, PILOTS, 100)["money"] == pytest.approx((13_000 + 68_000 + 30_000) / 1e6)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"wall_minutes": 4.0}, r"projected 4\.4 minutes of wall time, the budget is 4"),
        ({"gpu_hours": 0.1}, r"projected 0\.15 GPU-hours, the budget is 0\.1"),
    ],
)
def test_over_a_limit_means_stop_with_the_figures(params, limits, said):
    found = budget.project(with_budget(params, **limits), PILOTS, 100)
    assert found["status"] == "over_budget"
    with pytest.raises(BudgetError, match=said):
        budget.require(found)


def test_a_recorded_reason_overrides_and_stays_in_the_record(params):
    found = budget.project(with_budget(params, wall_minutes=1.0, override="the queue is ours"), PILOTS, 100)
    assert (found["status"], found["override"]) == ("overridden", "the queue is ours")
    assert found["problems"]
    budget.require(found)
    assert any("the queue is ours" in line for line in budget.lines(found))


def test_an_arm_without_a_pilot_cannot_be_projected(params):
    with pytest.raises(BudgetError, match="no pilot of arm rl_selfgen"):
        budget.project(params, {"rl_gsm8k": timing()}, 100)


def test_the_assumptions_are_part_of_the_result(params):
    assert budget.project(params, PILOTS, 100)["assumptions"] == list(budget.ASSUMPTIONS)
