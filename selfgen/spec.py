"""The registered plan's own file, held against the composed params field by field, and filled after a run.

`registered.json` beside this module is the plan as it was registered; its field names are the ones other tools
read. `check` gives every leaf of such a file one status:

    same       the composed params, or what this program always does, say the same
    different  they say something else, or the file lacks what they say
    prose      free text; the figures that stand only there are compared apart
    empty      the run fills it
    unknown    a field this program knows nothing about

Figures that stand only in prose (the word limits, the solve band, the instruction) are read from it by pattern; a
pattern that no longer matches is `different`, never skipped.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from selfgen.errors import DataError

if TYPE_CHECKING:
    from selfgen.params import Params

STATUSES = ("same", "prose", "empty", "different", "unknown")
SANDBOX_SECONDS = 2.0
GSM8K_TEST_ITEMS = 1319


@dataclass(frozen=True)
class Field:
    """One leaf: where it stands, what the file and the params say, and the status (see above)."""

    name: str
    registered: Any
    composed: Any
    status: str


def registered() -> dict[str, Any]:
    """The registered plan that ships with the package."""
    import json

    return json.loads(resources.files("selfgen").joinpath("registered.json").read_text(encoding="utf-8"))


def check(plan: Any, params: Params, n_items: int | None = None) -> list[Field]:
    """Compare every leaf of a plan with the params.

    Args:
        plan: the parsed file.
        params: the composed params.
        n_items: evaluation items there are; default GSM8K's 1,319 for that loader, else the params' own count.

    Raises:
        DataError: `plan` is no JSON object.
    """
    if not isinstance(plan, dict):
        raise DataError("the plan is not a JSON object; give a file like selfgen/registered.json")
    composed = expected(params, n_items)
    leaves = dict(_leaves(plan))
    fields = []
    for name, value in leaves.items():
        if name in composed:
            fields.append(Field(name, value, composed[name], "same" if _equal(value, composed[name]) else "different"))
        elif name == "max_seq_len":
            fits = isinstance(value, int) and params.train.max_tokens < value
            fields.append(
                Field(name, value, f"more than {params.train.max_tokens} sampled", "same" if fits else "different")
            )
        elif name.split(".")[0] in _FILLED:
            fields.append(Field(name, value, None, "empty"))
        elif name in _FIXED:
            fields.append(Field(name, value, _FIXED[name], "same" if value == _FIXED[name] else "different"))
        elif name in _PROSE or name.rsplit(".", 1)[-1] in ("measures", "reason"):
            fields.append(Field(name, value, None, "prose"))
        else:
            fields.append(Field(name, value, None, "unknown"))
    fields += [Field(name, None, value, "different") for name, value in composed.items() if name not in leaves]
    for name, label, pattern, read in _IN_PROSE:
        found = re.search(pattern, str(leaves.get(name, "")))
        value = tuple(found.groups()) if found else None
        now = tuple(str(v) for v in read(params))
        same = value is not None and all(_equal(_number(a), _number(b)) for a, b in zip(value, now, strict=True))
        fields.append(Field(f"{name}: {label}", value, now, "same" if same else "different"))
    return fields


def agrees(fields: list[Field]) -> bool:
    """Whether nothing differs and nothing is unknown."""
    return not any(f.status in ("different", "unknown") for f in fields)


def expected(params: Params, n_items: int | None = None) -> dict[str, Any]:
    """Every structured leaf of the plan that params determine, by its dotted name."""
    train, rule, audit = params.train, params.decision, params.audit
    n = n_items if n_items is not None else params.curated.n_test or GSM8K_TEST_ITEMS
    optimizer = {"optimizer": train.optimizer.name}
    values: dict[str, Any] = {
        "base_model": params.model.name,
        "lora_rank": params.model.lora_rank,
        "steps": train.steps,
        "batch_size": train.groups_per_batch,
        "optimizer": {"name": train.optimizer.name, "lr": train.optimizer.learning_rate},
        "budget": {"gpu_hours": params.budget.gpu_hours, "max_wall_minutes": params.budget.wall_minutes},
        "dataset": {"hf_path": params.curated.source, "n_examples": train.problems},
        "eval": {
            "n_examples": n,
            "metric": f"exact-match accuracy, {_decoding(params)}, max_tokens={params.eval.max_tokens}",
        },
        "primary_endpoint": f"{params.curated.loader}_test_exact_match_accuracy_{_decoding(params)}_{n}",
        "arms[base]": {"name": "base", "trained": False, "data": "none", "seed": params.seed},
        "decision_rule": {
            "alpha": rule.alpha,
            "method": rule.method,
            "seeds[0]": params.seed,
        },
        "generation_audit": {
            "answer_comparison": audit.compare,
            "max_eval_overlaps": audit.max_eval_overlaps,
            "max_label_errors": audit.max_label_errors,
            "min_sample_size": audit.sample,
        },
        "experiment_features": {
            "generated_training_data": any(arm.data == "tasks" for arm in params.arms.values()),
            "paired_comparison": rule.method.startswith("paired_"),
            "paired_training_arms": len(params.arms) > 1,
            "custom_loss": train.loss_fn != "importance_sampling",
            "custom_optimizer": train.optimizer.name != "adam",
        },
    }
    for arm, own in params.arms.items():
        seed = params.arm_seed(arm)
        values[f"arms[{arm}]"] = optimizer | {
            "name": arm,
            "trained": True,
            "data": _data(params, own.data),
            "lr": train.optimizer.learning_rate,
            "seed": seed,
            "steps": train.steps,
        }
        values[f"restoration_preflight.groups[0].arms[{arm}]"] = optimizer | {
            "name": arm,
            "optimizer_config": {
                "beta1": train.optimizer.beta1,
                "beta2": train.optimizer.beta2,
                "eps": train.optimizer.eps,
                "learning_rate": train.optimizer.learning_rate,
                "lora_rank": params.model.lora_rank,
                "seed": seed,
            },
        }
    for c in rule.criteria:
        values[f"decision_rule.criteria[{c.id}]"] = {
            "id": c.id,
            "metric": c.metric,
            "margin": c.margin,
            "bounds[0]": c.bounds[0],
            "bounds[1]": c.bounds[1],
            "weights": dict(c.weights),
        }
    for metric, bound in params.gate.items():
        limits = {k: v for k, v in (("min", bound.min), ("max", bound.max)) if v is not None}
        values[f"activation_gate.checks[{metric}]"] = {"metric": metric, **limits}
    return dict(_leaves(values))


def fill(
    params: Params,
    *,
    feasibility: Mapping[str, Any] | None = None,
    gate: Mapping[str, Any] | None = None,
    n_items: int | None = None,
) -> dict[str, Any]:
    """The plan's file for a run, for reports/experiment.json.

    Starts from the registered plan; fields that params determine hold the run's own values, and each that differs
    from the registered one is listed in `deviations` (none at scale `spec`); prose stays as registered.

    Args:
        params: the run's params.
        feasibility: metrics/feasibility.json; fills `feasibility` and `feasibility_check`.
        gate: data/gate/gate.json; fills each check's `value` and `passed`, and `activation_gate.metrics` by name.
        n_items: evaluation items of the run.
    """
    plan = copy.deepcopy(registered())
    deviations = [
        {"field": f.name, "registered": list(f.registered) if isinstance(f.registered, tuple) else f.registered,
         "run": list(f.composed) if isinstance(f.composed, tuple) else f.composed}
        for f in check(plan, params, n_items)
        if f.status == "different"
    ]  # fmt: skip
    for name, value in expected(params, n_items).items():
        _set(plan, name, value)
    plan["scale"] = params.scale
    plan["deviations"] = deviations
    if feasibility is not None:
        plan["feasibility"] = dict(feasibility)
        plan["feasibility_check"] |= {
            key: feasibility[key] for key in ("gpu_hours", "phases", "problems", "status", "wall_seconds")
        }
    if gate is not None:
        found = {c["metric"]: c for c in gate["checks"]}
        for check_ in plan["activation_gate"]["checks"]:
            if measured := found.get(check_["metric"]):
                check_ |= {"value": measured["value"], "passed": measured["passed"]}
        plan["activation_gate"]["metrics"] = {metric: c["value"] for metric, c in found.items()}
    return plan


def _decoding(params: Params) -> str:
    return "greedy" if params.eval.temperature == 0 else f"temperature {params.eval.temperature:g}"


def _data(params: Params, kind: str) -> str:
    n, model = params.train.problems, params.model.name.rsplit("/", 1)[-1]
    curated = "GSM8K" if params.curated.loader == "gsm8k" else params.curated.loader
    return {"curated": f"{n} {curated} train problems", "tasks": f"{n} audited {model}-generated tasks"}.get(
        kind, f"{n} problems: {kind}"
    )


# Filled by the run; whatever stands there is not compared.
_FILLED = frozenset({"feasibility", "feasibility_check", "scale", "deviations"})
# What no param chooses because the program does exactly this.
_FIXED: Mapping[str, Any] = {
    "activation_gate.applicable": True,
    "arms[base].trained": False,
    "correctness_preflight.required": False,
    "dataset.split": "main/train for baseline, main/test for eval",
    "decision_rule.unit": "fixed_checkpoint_items",
    "decision_rule.version": 1,
    "eval.aggregation": None,
    "eval.benchmark": "GSM8K test (openai/gsm8k main/test)",
    "experiment_features.adaptive_selection": False,
    "experiment_features.checkpoint_restore": False,
    "experiment_features.heldout_loss": False,
    "experiment_features.learned_generator": False,
    "experiment_features.warmup_adaptation": False,
    "feasibility_required": True,
    "generation_audit.required": True,
    "restoration_preflight.applicable": True,
    "restoration_preflight.fixed_batch_required": True,
    "training_type": "rl",
}
_PROSE = frozenset(
    {"baseline", "command", "dataset.name", "decision_rule.estimand", "hypothesis", "method", "success_criterion",
     "title"}
)  # fmt: skip

_IN_PROSE: tuple[tuple[str, str, str, Callable[[Params], tuple[Any, ...]]], ...] = (
    ("method", "instruction", r"one fixed instruction: '(.+?)'", lambda p: (p.generate.instruction,)),
    ("method", "sampling temperature", r"at T=([\d.]+), is prompted", lambda p: (p.generate.temperature,)),
    ("method", "sandbox limit", r"with a ([\d.]+) s timeout", lambda p: (SANDBOX_SECONDS,)),
    ("method", "word limits", r"is (\d+) to (\d+) words long", lambda p: (p.filter.min_words, p.filter.max_words)),
    (
        "method",
        "solve band",
        r"in (\d+) to (\d+) of (\d+) samples at max_tokens=(\d+)",
        lambda p: (
            p.filter.solve.min_correct,
            p.filter.solve.max_correct,
            p.filter.solve.n_samples,
            p.filter.solve.max_tokens,
        ),
    ),
    ("method", "tasks kept", r"The first (\d+) accepted tasks", lambda p: (p.filter.n_accept,)),
    ("method", "audit sample", r"Draw (\d+) random accepted tasks", lambda p: (p.audit.sample,)),
    ("method", "auditor", r"problem text alone by (\S+), which is used", lambda p: (p.auditor.name,)),
    (
        "method",
        "loop settings",
        r"group_size=(\d+), groups_per_batch=(\d+), lr=(\S+) \(AdamW\), max_tokens=(\d+), (\d+) steps, seed (\d+)",
        lambda p: (
            p.train.group_size,
            p.train.groups_per_batch,
            p.train.optimizer.learning_rate,
            p.train.max_tokens,
            p.train.steps,
            p.seed,
        ),
    ),
    ("method", "evaluation tokens", r"greedy decoding, max_tokens=(\d+)", lambda p: (p.eval.max_tokens,)),
    (
        "command",
        "tasks and samples",
        r"--n_accept (\d+) --filter_samples (\d+)",
        lambda p: (p.filter.n_accept, p.filter.solve.n_samples),
    ),
    (
        "command",
        "solve band",
        r"--keep_band (\d+)-(\d+)",
        lambda p: (p.filter.solve.min_correct, p.filter.solve.max_correct),
    ),
    (
        "command",
        "overlap reference",
        r"--overlap_ref (\S+?):(\w+)/test",
        lambda p: (p.curated.source, p.curated.config),
    ),
    ("command", "auditor and sample", r"--solver (\S+) --sample (\d+)", lambda p: (p.auditor.name, p.audit.sample)),
    (
        "command",
        "pilot",
        r"pilot: (\d+) steps per arm plus (\d+) eval items",
        lambda p: (p.pilot.steps, p.pilot.eval_items),
    ),
    (
        "command",
        "rank and tokens",
        r"lora_rank=(\d+) max_tokens=(\d+)",
        lambda p: (p.model.lora_rank, p.train.max_tokens),
    ),
)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves with dotted names; list entries go by their name, id or metric where they have one, else by place."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and value:
        for place, inner in enumerate(value):
            yield from _leaves(inner, f"{name}[{_label(inner, place)}]")
    else:
        yield name, value


def _label(value: Any, place: int) -> Any:
    own = [value[k] for k in ("name", "id", "metric") if k in value] if isinstance(value, Mapping) else []
    return own[0] if own else place


def _set(plan: dict[str, Any], name: str, value: Any) -> None:
    """Set the leaf of this name, making what is missing on the way."""
    parts = re.findall(r"[^.\[\]]+|\[[^\]]*\]", name)
    here: Any = plan
    for part, after in zip(parts, [*parts[1:], None], strict=True):
        if part.startswith("["):
            label = part[1:-1]
            place = next((i for i, entry in enumerate(here) if str(_label(entry, i)) == label), None)
            if place is None:
                here.append({} if after else None)
                place = len(here) - 1
            key: Any = place
        else:
            key = part
            if after is not None:
                here.setdefault(key, [] if after.startswith("[") else {})
        if after is None:
            here[key] = value
        else:
            here = here[key]


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool) or not (isinstance(a, (int, float)) and isinstance(b, (int, float))):
        return bool(a == b)
    return math.isclose(a, b, rel_tol=1e-12, abs_tol=0.0)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
