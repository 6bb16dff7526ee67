"""What the rest of the run will cost, projected from the pilots, and the budget that may stop it.

Three figures: wall time, GPU-hours and, for services that bill by token, money. All are linear extrapolations; the
assumptions they rest on are part of the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from selfgen.errors import BudgetError

if TYPE_CHECKING:
    from selfgen.params import Params, Price

ASSUMPTIONS = (
    "arms are trained and evaluated one after the other, as `dvc repro` runs them",
    "a training step takes the mean of the pilot's steps; responses keep the pilot's length",
    "every arm and the base model are evaluated at the mean rate of the pilots' evaluation items",
    "start-up, checkpoints and export take per arm what they took in its pilot",
    "budget.gpus GPUs are held for the whole wall time; a service that bills by token holds none of ours",
    "each sampled sequence pays its prompt again (no prefix discount); training pays prompt and response tokens",
)


def project(params: Params, pilots: Mapping[str, Mapping[str, Any]], n_test: int) -> dict[str, Any]:
    """Project what remains after the pilots.

    Args:
        params: `train`, `arms`, `model`, `budget` and `eval.repeat` are used.
        pilots: the pilots' timing.json contents, by arm; every arm of params must be there.
        n_test: test items that each evaluation answers.

    Returns:
        `wall_seconds`, `wall_minutes`, `gpu_hours`, `tokens` {prefill, sample, train}, `money` (None without a price for
        the model), `currency`, `phases` (seconds by phase), `limits`, `problems` (one line per limit exceeded),
        `override` (the recorded reason, or None), `status` ("within_budget", "overridden" or "over_budget") and
        `assumptions`.

    Raises:
        BudgetError: an arm has no pilot.
    """
    missing = sorted(set(params.arms) - set(pilots))
    if missing:
        raise BudgetError(f"no pilot of arm {missing[0]}: the cost cannot be projected; run `dvc repro`")
    phases: dict[str, float] = {}
    tokens = {"prefill": 0.0, "sample": 0.0, "train": 0.0}
    rates = []
    for arm in params.arms:
        timing = pilots[arm]
        steps = timing["step_seconds"]
        scale = params.train.steps / len(steps)
        phases[f"train:{arm}"] = math.fsum(steps) * scale + timing["overhead_seconds"]
        prompt, sampled = timing["rollout_prompt_tokens"] * scale, timing["rollout_sampled_tokens"] * scale
        tokens["prefill"] += prompt
        tokens["sample"] += sampled
        tokens["train"] += prompt + sampled
        items = timing["eval_items"]
        rates.append([timing[key] / items for key in ("eval_seconds", "eval_prompt_tokens", "eval_sampled_tokens")])
    seconds, prompt, sampled = (math.fsum(column) / len(column) for column in zip(*rates, strict=True))
    passes = 2 if params.eval.repeat else 1
    for arm in ("base", *params.arms):
        phases[f"eval:{arm}"] = seconds * n_test * passes
        tokens["prefill"] += prompt * n_test * passes
        tokens["sample"] += sampled * n_test * passes
    wall = math.fsum(phases.values())
    gpu_hours = wall / 3600 * params.budget.gpus
    problems = []
    if wall / 60 > params.budget.wall_minutes:
        problems.append(f"projected {wall / 60:.1f} minutes of wall time, the budget is {params.budget.wall_minutes:g}")
    if gpu_hours > params.budget.gpu_hours:
        problems.append(f"projected {gpu_hours:.2f} GPU-hours, the budget is {params.budget.gpu_hours:g}")
    status = "within_budget" if not problems else "overridden" if params.budget.override else "over_budget"
    return {
        "status": status,
        "wall_seconds": wall,
        "wall_minutes": wall / 60,
        "gpu_hours": gpu_hours,
        "gpus": params.budget.gpus,
        "tokens": {name: round(value) for name, value in tokens.items()},
        "money": money(tokens, params.budget.prices.get(params.model.name)),
        "currency": params.budget.currency,
        "phases": phases,
        "limits": {"gpu_hours": params.budget.gpu_hours, "wall_minutes": params.budget.wall_minutes},
        "problems": problems,
        "override": params.budget.override,
        "assumptions": list(ASSUMPTIONS),
    }


def money(tokens: Mapping[str, float], price: Price | None) -> float | None:
    """Tokens at a service's published prices (per million), None where no price is known."""
    return None if price is None else price.money(**tokens)


def require(feasibility: Mapping[str, Any]) -> None:
    """Stop when the projection is over the budget and no reason to go on is recorded.

    Raises:
        BudgetError: says by how much, and what to do.
    """
    if feasibility["status"] == "over_budget":
        raise BudgetError(
            f"budget: {'; '.join(feasibility['problems'])}; raise the budget in params, use a faster service, or record a "
            "reason in budget.override"
        )


def lines(feasibility: Mapping[str, Any]) -> list[str]:
    """The projection for the screen, one fact a line."""
    out = [
        f"projected: {feasibility['wall_minutes']:.1f} of {feasibility['limits']['wall_minutes']:g} minutes, "
        f"{feasibility['gpu_hours']:.2f} of {feasibility['limits']['gpu_hours']:g} GPU-hours: {feasibility['status']}"
    ]
    if feasibility["money"] is not None:
        out.append(f"at published prices: {feasibility['money']:.2f} {feasibility['currency']}")
    if feasibility["override"]:
        out.append(f"budget.override: {feasibility['override']}")
    return out
