import copy
import json

import pytest

from selfgen import spec
from selfgen.errors import DataError
from selfgen.params import Params, load


@pytest.fixture(scope="session")
def registered_params(root, tmp_path_factory) -> Params:
    """The params composed at scale `spec`."""
    from dvc.utils.hydra import compose_and_dump

    out = tmp_path_factory.mktemp("composed") / "params.yaml"
    compose_and_dump(out, str(root / "conf"), None, "config", str(root / "conf"), ["scale=spec"])
    return load(out)


def statuses(fields):
    return {f.name: f.status for f in fields}


def test_scale_spec_is_the_registered_plan_to_the_letter(registered_params):
    fields = spec.check(spec.registered(), registered_params)
    assert [f for f in fields if f.status in ("different", "unknown")] == []
    assert spec.agrees(fields)
    assert sum(f.status == "same" for f in fields) > 110


def test_the_shipped_plan_is_the_registered_file(spec_json):
    assert spec.registered() == json.loads(spec_json.read_text(encoding="utf-8"))


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from leaves(inner, (*path, place))
    else:
        yield path, value


def changed(plan, path):
    plan = copy.deepcopy(plan)
    here = plan
    for key in path[:-1]:
        here = here[key]
    old = here[path[-1]]
    here[path[-1]] = (
        (not old) if isinstance(old, bool) else old + 1 if isinstance(old, (int, float)) else f"{old} changed"
    )
    return plan


def test_changing_any_value_of_the_plan_is_noticed_unless_it_is_prose_or_filled_by_the_run(registered_params):
    plan = spec.registered()
    prose = {f.name for f in spec.check(plan, registered_params) if f.status in ("prose", "empty")}
    unnoticed = []
    for path, _ in leaves(plan):
        if spec.agrees(spec.check(changed(plan, path), registered_params)):
            unnoticed.append(path)
    allowed = {"title", "hypothesis", "baseline", "command", "method", "success_criterion", "reason", "measures",
               "feasibility", "feasibility_check", "estimand"}  # fmt: skip
    assert {p for p in unnoticed if not allowed & set(p)} - {("dataset", "name")} <= {("max_seq_len",)}
    assert len(prose) < 30


@pytest.mark.parametrize(
    ("old", "new", "label"),
    [
        ("20 to 120 words", "20 to 130 words", "method: word limits"),
        ("in 1 to 6 of 8 samples", "in 1 to 7 of 8 samples", "method: solve band"),
        ("with a 2 s timeout", "with a 5 s timeout", "method: sandbox limit"),
        ("at T=1.0", "at T=0.7", "method: sampling temperature"),
        ("Write one grade-school", "Write two grade-school", "method: instruction"),
        ("The first 640 accepted", "The 640 best", "method: tasks kept"),
    ],
)
def test_figures_that_stand_only_in_prose_are_compared_and_lost_ones_count_as_different(
    registered_params, old, new, label
):
    plan = spec.registered()
    assert old in plan["method"]
    plan["method"] = plan["method"].replace(old, new)
    assert statuses(spec.check(plan, registered_params))[label] == "different"


def test_removed_and_invented_fields_are_reported(registered_params):
    plan = spec.registered()
    del plan["lora_rank"]
    plan["warmup_steps"] = 3
    found = statuses(spec.check(plan, registered_params))
    assert found["lora_rank"] == "different"
    assert found["warmup_steps"] == "unknown"


def test_another_number_of_items_is_different(registered_params):
    found = statuses(spec.check(spec.registered(), registered_params, n_items=1000))
    assert found["eval.n_examples"] == "different"


def test_a_plan_that_is_no_object_is_refused(registered_params):
    with pytest.raises(DataError, match="not a JSON object"):
        spec.check([], registered_params)


def test_filling_at_scale_spec_changes_only_the_empty_fields(registered_params):
    feasibility = {
        "gpu_hours": 1.5, "phases": {"train:rl_gsm8k": 60.0}, "problems": [], "status": "within_budget",
        "wall_seconds": 3600.0, "wall_minutes": 60.0,
    }  # fmt: skip
    gate = {"checks": [{"metric": "selfgen_mean_train_reward_pilot", "value": 0.4, "passed": True}]}
    filled = spec.fill(registered_params, feasibility=feasibility, gate=gate)
    assert filled["deviations"] == []
    assert filled["feasibility"] == feasibility
    assert filled["feasibility_check"]["gpu_hours"] == 1.5
    assert filled["feasibility_check"]["status"] == "within_budget"
    assert filled["activation_gate"]["metrics"] == {"selfgen_mean_train_reward_pilot": 0.4}
    measured = next(c for c in filled["activation_gate"]["checks"] if c["metric"] == "selfgen_mean_train_reward_pilot")
    assert (measured["value"], measured["passed"], measured["min"]) == (0.4, True, 0.15)
    assert spec.agrees(
        [f for f in spec.check(filled, registered_params) if "checks" not in f.name and "metrics" not in f.name]
    )
    assert {k: v for k, v in filled.items() if k in ("method", "arms", "decision_rule", "eval")} == {
        k: v for k, v in spec.registered().items() if k in ("method", "arms", "decision_rule", "eval")
    }


def test_filling_at_another_scale_lists_every_deviation_and_shows_the_run_s_own_values(root):
    params = load(root / "params.yaml")
    filled = spec.fill(params, n_items=300)
    named = {d["field"]: d for d in filled["deviations"]}
    assert named["base_model"] == {"field": "base_model", "registered": "Qwen/Qwen3.5-2B", "run": params.model.name}
    assert filled["base_model"] == params.model.name
    assert filled["eval"]["n_examples"] == 300
    assert filled["scale"] == params.scale
