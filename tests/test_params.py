"""params.yaml: what each scale composes to, and what a bad key tells the user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from selfgen.commands import compose
from selfgen.errors import ParamsError
from selfgen.params import Params, load, parse


def composed(root: Path, tmp_path: Path, *overrides: str) -> Params:
    out = tmp_path / "params.yaml"
    result = CliRunner().invoke(
        compose, [*overrides, "--conf", str(root / "conf"), "--out", str(out)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return load(out)


def test_committed_params_are_what_the_default_composes_to(root: Path, tmp_path: Path) -> None:
    composed(root, tmp_path)
    assert yaml.safe_load((tmp_path / "params.yaml").read_text()) == yaml.safe_load((root / "params.yaml").read_text())


@pytest.mark.parametrize("scale", ["embedded", "local", "spec"])
def test_every_scale_composes_and_validates(root: Path, tmp_path: Path, scale: str) -> None:
    assert composed(root, tmp_path, f"scale={scale}").scale == scale


def test_spec_scale_is_the_registered_plan_to_the_letter(root: Path, tmp_path: Path, spec_json: Path) -> None:
    plan = json.loads(spec_json.read_text())
    p = composed(root, tmp_path, "scale=spec")
    arms = {arm["name"]: arm for arm in plan["arms"]}
    assert p.model.name == plan["base_model"] == "Qwen/Qwen3.5-2B"
    assert p.model.renderer == "qwen3_5_disable_thinking"
    assert p.auditor.name == "Qwen/Qwen3.5-397B-A17B"
    assert p.model.lora_rank == plan["lora_rank"] == 32
    assert p.generate.instruction == (
        "Write one grade-school math word problem with a single integer answer, "
        "then a short Python function solve() that returns the answer."
    )
    assert p.generate.instruction in plan["method"]
    assert p.generate.style == "instruction"
    assert p.generate.temperature == 1.0
    assert (p.filter.min_words, p.filter.max_words) == (20, 120)
    assert (p.filter.solve.n_samples, p.filter.solve.min_correct, p.filter.solve.max_correct) == (8, 1, 6)
    assert p.filter.solve.max_tokens == 512
    assert p.filter.n_accept == p.train.problems == plan["dataset"]["n_examples"] == 640
    assert p.audit.sample == plan["generation_audit"]["min_sample_size"] == 100
    assert p.audit.max_label_errors == plan["generation_audit"]["max_label_errors"] == 0
    assert p.audit.max_eval_overlaps == plan["generation_audit"]["max_eval_overlaps"] == 0
    assert p.audit.compare == plan["generation_audit"]["answer_comparison"] == "numeric_exact"
    assert p.train.group_size == 8
    assert p.train.groups_per_batch == plan["batch_size"] == 16
    assert p.train.steps == plan["steps"] == 40
    assert p.train.max_tokens == p.eval.max_tokens == 512
    assert p.train.loss_fn == "importance_sampling"
    assert p.train.few_shot == p.eval.few_shot == "standard"
    assert p.eval.temperature == 0.0
    assert p.curated.n_test is None, "all 1,319 items are evaluated"
    assert p.curated.source == plan["dataset"]["hf_path"]
    sent = plan["restoration_preflight"]["groups"][0]["arms"][0]["optimizer_config"]
    assert p.train.optimizer.name == plan["optimizer"]["name"] == "adam"
    assert p.train.optimizer.learning_rate == sent["learning_rate"] == 4e-5
    assert (p.train.optimizer.beta1, p.train.optimizer.beta2) == (sent["beta1"], sent["beta2"]) == (0.9, 0.95)
    assert p.train.optimizer.eps == sent["eps"] == 1e-8
    assert p.seed == sent["seed"] == arms["rl_gsm8k"]["seed"] == 0
    assert {"base", *p.arms} == set(arms)
    assert (p.pilot.steps, p.pilot.eval_items) == (2, 100)
    assert p.budget.gpu_hours == plan["budget"]["gpu_hours"] == 2.0
    assert p.budget.wall_minutes == plan["budget"]["max_wall_minutes"] == 120
    checks = {check["metric"]: check for check in plan["activation_gate"]["checks"]}
    assert set(p.gate) == set(checks)
    for metric, bound in p.gate.items():
        assert (bound.min, bound.max) == (checks[metric].get("min"), checks[metric].get("max")), metric
    rule = plan["decision_rule"]
    assert (p.decision.method, p.decision.alpha) == (rule["method"], rule["alpha"]) == ("paired_hoeffding", 0.05)
    for ours, theirs in zip(p.decision.criteria, rule["criteria"], strict=True):
        assert (ours.id, ours.margin, list(ours.bounds)) == (theirs["id"], theirs["margin"], theirs["bounds"])
        assert ours.weights == theirs["weights"]


def values(root: Path) -> dict:
    return yaml.safe_load((root / "params.yaml").read_text())


def test_an_unknown_key_is_named_with_what_is_accepted(root: Path) -> None:
    bad = values(root)
    bad["train"]["learning_rat"] = 1
    with pytest.raises(ParamsError, match=r"train\.learning_rat: unknown key; accepted here: few_shot, group_size"):
        parse(bad)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("train", "steps"), "ten", r"train\.steps: must be a valid integer.*not 'ten'"),
        (("train", "steps"), 10_000, r"train: needs steps \* groups_per_batch <= problems"),
        (("filter", "solve", "max_correct"), 9, r"filter\.solve: needs min_correct <= max_correct <= n_samples"),
        (("generate", "temperature"), 3, r"generate\.temperature: must be less than or equal to 2"),
        (("audit", "sample"), 10_000, r"audit\.sample is 10000 but filter\.n_accept"),
        (("service", "kind"), "cloud", r"service\.kind: must be 'embedded' or 'remote'"),
        (("eval", "temperature"), 0.7, r"eval\.temperature: must be less than or equal to 0"),
        (("tracking", "loggers"), ["tensorboard"], r"tracking\.loggers\.0: must be 'wandb', 'trackio' or 'neptune'"),
        (("arms", "rl_selfgen", "data"), "nowhere", r"arms\.rl_selfgen\.data: must be 'curated', 'tasks'"),
    ],
)
def test_a_bad_value_is_one_line_with_the_key(root: Path, path: tuple[str, ...], value: object, message: str) -> None:
    bad = values(root)
    inner = bad
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    with pytest.raises(ParamsError, match=message) as raised:
        parse(bad)
    assert "\n" not in str(raised.value)


def test_a_criterion_over_a_foreign_arm_is_refused(root: Path) -> None:
    bad = values(root)
    bad["decision"]["criteria"][0]["weights"]["rl_missing"] = 1
    with pytest.raises(ParamsError, match="weighs unknown arm 'rl_missing'; arms are base, rl_gsm8k"):
        parse(bad)


def test_missing_file_and_missing_key_say_what_to_do(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="no such file; run from the project's folder"):
        load(tmp_path / "params.yaml")
    bad = values(root)
    del bad["eval"]["max_tokens"]
    with pytest.raises(ParamsError, match=r"eval\.max_tokens: missing"):
        parse(bad)
