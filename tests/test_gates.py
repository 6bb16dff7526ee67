"""The gate: five checks from what was recorded, each of which can fail and says what to do."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from selfgen import gates
from selfgen.errors import GateError, ParamsError
from selfgen.params import Bound
from selfgen.records import Rollout

TREATMENT_FRACTION = "treatment_fraction_batches_from_generated_set"
BASELINE_FRACTION = "baseline_fraction_batches_from_gsm8k_train"
MIXED_GROUPS = "selfgen_frac_groups_nonzero_reward_variance_pilot"
MEAN_REWARD = "selfgen_mean_train_reward_pilot"
OVERLAPS = "generated_eval_exact_overlaps"
BOUNDS = {
    TREATMENT_FRACTION: Bound(min=1.0, max=1.0),
    BASELINE_FRACTION: Bound(min=1.0, max=1.0),
    MIXED_GROUPS: Bound(min=0.3),
    MEAN_REWARD: Bound(min=0.15, max=0.85),
    OVERLAPS: Bound(min=0.0, max=0.0),
}


def rollouts(name: str, rewards: list[list[float]]) -> list[Rollout]:
    """One group a list, two groups a step."""
    return [
        Rollout(g // 2, g % 2, s, f"{name}-{g}", reward, reward, 1.0, 10)
        for g, group in enumerate(rewards)
        for s, reward in enumerate(group)
    ]


TASKS = rollouts("task", [[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
CURATED = rollouts("row", [[0.0, 1.0]] * 4)
GOOD: dict = {
    "treatment": TASKS,
    "baseline": CURATED,
    "task_ids": {f"task-{i}" for i in range(4)},
    "curated_ids": {f"row-{i}" for i in range(9)},
    "overlaps": 0,
}
AUDIT = gates.Requirement("audit", True, "0 label errors", "data/audit/audit.json", "run `selfgen repair`")


def evaluate(**changes: object) -> gates.GateReport:
    values = {**GOOD, "requirements": [AUDIT], **changes}
    needed = values.pop("requirements")
    return gates.evaluate(BOUNDS, gates.Evidence(**values), needed)


def test_values_are_what_was_recorded() -> None:
    report = evaluate()
    assert report.passed
    assert report.metrics() == {
        TREATMENT_FRACTION: 1.0,
        BASELINE_FRACTION: 1.0,
        MIXED_GROUPS: 0.5,
        MEAN_REWARD: 0.5,
        OVERLAPS: 0.0,
        "passed": True,
    }
    report.raise_if_failed()


def test_metric_names_and_bounds_are_the_registered_ones(spec_json) -> None:
    registered = json.loads(spec_json.read_text())["activation_gate"]["checks"]
    assert [check["metric"] for check in registered] == list(gates.evaluate(BOUNDS, gates.Evidence(**GOOD)).metrics())[
        :5
    ]
    for check in registered:
        assert (BOUNDS[check["metric"]].min, BOUNDS[check["metric"]].max) == (check.get("min"), check.get("max"))


FAILING = [
    (TREATMENT_FRACTION, {"task_ids": {"task-0", "task-1", "task-2"}}, 0.75, "re-run its pilot"),
    (BASELINE_FRACTION, {"curated_ids": {"row-0"}}, 0.25, "re-run its pilot"),
    (MIXED_GROUPS, {"treatment": rollouts("task", [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])}, 0.25,
     "too few groups"),
    (MEAN_REWARD, {"treatment": rollouts("task", [[0.0, 0.4], [0.0, 0.0], [0.0, 0.2], [0.0, 0.0]])}, 0.075,
     "too easy or too hard"),
    (MEAN_REWARD, {"treatment": rollouts("task", [[0.9, 1.0], [1.0, 1.0], [0.8, 1.0], [1.0, 1.0]])}, 0.9625,
     "too easy or too hard"),
    (OVERLAPS, {"overlaps": 1}, 1.0, "selfgen repair"),
]  # fmt: skip


@pytest.mark.parametrize(("metric", "changes", "value", "advice"), FAILING)
def test_each_check_fails_alone_and_says_what_to_do(metric: str, changes: dict, value: float, advice: str) -> None:
    report = evaluate(**changes)
    failed = [check for check in report.checks if not check.passed]
    assert [check.metric for check in failed] == [metric]
    assert failed[0].value == pytest.approx(value)
    with pytest.raises(GateError) as raised:
        report.raise_if_failed()
    message = str(raised.value)
    assert message.startswith(f"gate: {metric} is {value:.4g}, allowed ")
    assert advice in message
    assert "\n" not in message
    assert re.search(rf"{metric} .*FAILED", report.table())


@pytest.mark.parametrize("edge", [0.15, 0.85])
def test_bounds_are_inclusive(edge: float) -> None:
    report = evaluate(treatment=rollouts("task", [[edge, edge], [edge, edge], [edge, edge]]))
    assert next(c for c in report.checks if c.metric == MEAN_REWARD).passed


def test_nothing_trained_fails_rather_than_passes() -> None:
    report = evaluate(treatment=[], baseline=[])
    assert [check.metric for check in report.checks if not check.passed] == list(BOUNDS)[:4]


def test_a_failed_requirement_stops_the_run_first() -> None:
    failed = dataclasses.replace(AUDIT, passed=False, detail="2 label errors in 100 audited tasks")
    report = evaluate(requirements=[failed], overlaps=3)
    with pytest.raises(GateError, match=r"^gate: audit: 2 label errors .* \(and 1 more"):
        report.raise_if_failed()


def test_every_metric_needs_a_bound_and_no_other_has_one() -> None:
    missing = {k: v for k, v in BOUNDS.items() if k != MEAN_REWARD}
    with pytest.raises(ParamsError, match=f"gate.{MEAN_REWARD}: missing"):
        gates.evaluate(missing, gates.Evidence(**GOOD))
    with pytest.raises(ParamsError, match=r"gate\.my_metric: unknown"):
        gates.evaluate(BOUNDS | {"my_metric": Bound()}, gates.Evidence(**GOOD))


def test_a_group_is_mixed_by_reward_not_by_correctness() -> None:
    """The advantage comes from the reward: a group that differs only in format still trains."""
    group = [Rollout(0, 0, s, "task-0", reward, 1.0, 1.0, 5) for s, reward in enumerate((1.0, 0.9))]
    assert gates.mixed_fraction(group) == 1.0


def test_the_table_fits_a_terminal_page() -> None:
    lines = evaluate().table().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 160
    assert lines[-1] == "gate: passed, training may start"
