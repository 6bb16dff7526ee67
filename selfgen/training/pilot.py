"""The pilot: a few training steps of an arm and a few evaluation items, on a copy that is thrown away.

It answers two questions before money is spent: does the arm's data give importance sampling any signal (mixed groups,
mean reward), and what will the rest cost. Its checkpoint is never evaluated for accuracy, and nothing is selected on
it: the evaluation items are only timed.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfgen.evaluation.eval import request
from selfgen.records import CuratedRow, Problem, write_json, write_jsonl
from selfgen.training import results
from selfgen.training.arms import Start, Trained, discard, train_arm

if TYPE_CHECKING:
    from selfgen.params import Params
    from selfgen.service import Service
    from selfgen.training.sent import Sent


@dataclass(frozen=True)
class Pilot:
    """A pilot of one arm: what its steps measured, and (volatile) what they took."""

    trained: Trained
    measured: dict[str, Any]
    timing: dict[str, Any]


def run(
    params: Params,
    arm: str,
    problems: Sequence[Problem],
    start: Start,
    test: Sequence[CuratedRow],
    service: Service,
    *,
    rate: float = 0.5,
    on_step: Callable[[Sent], None] | None = None,
) -> Pilot:
    """Train `pilot.steps` steps on the arm's first problems, time `pilot.eval_items` test items, throw the copy away.

    Raises:
        ServiceError, GateError: as `train_arm`.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        trained = train_arm(
            params,
            arm,
            problems,
            start,
            service,
            adapter=Path(folder) / "adapter",
            steps=params.pilot.steps,
            rate=rate,
            on_step=on_step,
        )
    trained_at = time.monotonic()
    evaluation = _time_evaluation(params, trained, test[: params.pilot.eval_items], service)
    discard(service, [trained.sampler_path, trained.state_path])
    rows = trained.rollouts
    prompt = math.fsum(row["prompt_tokens"] for row in trained.curve) / len(trained.curve)
    measured = {
        "arm": arm,
        "steps": trained.steps,
        "start_digest": start.digest,
        "rollouts": len(rows),
        "groups": len({(row.step, row.group) for row in rows}),
        "mean_reward": round(results.mean([row.reward for row in rows]), 6),
        "mean_correct": round(results.mean([row.correct for row in rows]), 6),
        "mean_format": round(results.mean([row.format for row in rows]), 6),
        "mixed_groups": round(results.mixed_share(rows), 6),
        "problem_ids": list(dict.fromkeys(row.problem_id for row in rows)),
        "mean_prompt_tokens": prompt,
        "mean_response_tokens": results.mean([float(row.n_tokens) for row in rows]),
    }
    steps = [row["time/total"] for row in trained.timing["steps"] if "time/total" in row]
    timing = {
        "wall_seconds": time.monotonic() - began,
        "step_seconds": steps,
        "overhead_seconds": max(trained_at - began - math.fsum(steps), 0.0),
        "rollout_prompt_tokens": prompt * len(rows),
        "rollout_sampled_tokens": sum(row.n_tokens for row in rows),
        **evaluation,
        "steps": trained.timing["steps"],
    }
    return Pilot(trained, measured, timing)


def write(folder: Path, pilot: Pilot) -> dict[str, Any]:
    """Write rollouts.jsonl, pilot.json and the volatile timing.json; returns the arm's pilot metrics."""
    write_jsonl(folder / "rollouts.jsonl", pilot.trained.rollouts)
    write_json(folder / "pilot.json", pilot.measured)
    write_json(folder / "timing.json", pilot.timing)
    kept = ("mean_reward", "mean_correct", "mean_format", "mixed_groups", "groups", "rollouts")
    return {name: pilot.measured[name] for name in kept}


def _time_evaluation(
    params: Params, trained: Trained, rows: Sequence[CuratedRow], service: Service
) -> dict[str, float | int]:
    """Seconds and tokens of greedy answers, past the journal: an answer read from it would cost nothing."""
    from selfgen import rendering

    renderer = rendering.renderer(params.model.renderer, params.model.tokenizer)
    requests = [request(row, renderer, params.eval) for row in rows]
    journal, service.journal = service.journal, None
    began = time.monotonic()
    try:
        sampler = service.sampler(params.model.name, params.model.tokenizer, trained.sampler_path, trained.digest)
        sampled = sum(found[0].n_tokens for found in sampler.sample_stream(requests))
    finally:
        service.journal = journal
    return {
        "eval_items": len(requests),
        "eval_seconds": time.monotonic() - began,
        "eval_prompt_tokens": sum(len(r.prompt) for r in requests),
        "eval_sampled_tokens": sampled,
    }
