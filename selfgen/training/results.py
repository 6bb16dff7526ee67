"""The stock loop's log folder, read back as records.

Everything an arm claims about its training is read from what the loop itself wrote: rollout summaries, metric rows and
the requests observed on the wire. A 0.5.8 run that was killed and resumed leaves metric rows of the same step twice;
the last one is of the step that counts. Rollout summaries are one file a step and overwritten whole.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from selfgen.errors import DataError
from selfgen.records import Rollout

CURVE = {
    "reward": "env/all/reward/total",
    "correct": "env/all/correct",
    "format": "env/all/format",
    "mixed_groups": "env/all/by_group/frac_mixed",
    "all_good_groups": "env/all/by_group/frac_all_good",
    "all_bad_groups": "env/all/by_group/frac_all_bad",
    "response_tokens": "env/all/ac_tokens_per_turn",
    "prompt_tokens": "env/all/ob_tokens_per_turn",
    "entropy": "optim/entropy",
    "kl_sample_train_v1": "optim/kl_sample_train_v1",
    "kl_sample_train_v2": "optim/kl_sample_train_v2",
    "learning_rate": "optim/lr",
}
"""Step metrics kept, by the loop's own keys. All are functions of samples and weights; times go elsewhere."""

TIMES = ("time/total", "time/sampling", "time/train_step", "time/save_checkpoint")
"""Seconds kept of each step: all of it, its rollouts, its gradient and update, its checkpoint."""

_DIGITS = 6


def metric_rows(log_dir: Path) -> list[dict[str, Any]]:
    """The loop's metric rows, one a step in step order; of a repeated step the last, torn lines dropped."""
    rows: dict[int, dict[str, Any]] = {}
    for row in _json_lines(log_dir / "metrics.jsonl"):
        if isinstance(row.get("step"), int):
            rows[row["step"]] = row
    return [rows[step] for step in sorted(rows)]


def curve(log_dir: Path, steps: int) -> list[dict[str, float | int]]:
    """Non-volatile metrics of each step: {"step", ...CURVE}. Rounded to six digits, so that the noise of parallel sums
    below that does not change the file.

    Raises:
        DataError: a step is missing.
    """
    rows = [row for row in metric_rows(log_dir) if row["step"] < steps]
    _complete([row["step"] for row in rows], steps, log_dir)
    return [
        {"step": row["step"], **{name: _rounded(row[key]) for name, key in CURVE.items() if key in row}} for row in rows
    ]


def tokens(log_dir: Path) -> tuple[int, int]:
    """Prompt and response tokens of all rollouts of the steps finished so far."""
    rows = metric_rows(log_dir)
    prompt, sampled = (sum(int(row.get(f"env/all/total_{kind}_tokens", 0)) for row in rows) for kind in ("ob", "ac"))
    return prompt, sampled


def step_seconds(log_dir: Path) -> list[dict[str, float]]:
    """Volatile: seconds of each step and of its parts, as the loop timed them."""
    return [{"step": row["step"], **{key: row[key] for key in TIMES if key in row}} for row in metric_rows(log_dir)]


def rollouts(log_dir: Path, steps: int) -> list[Rollout]:
    """Every training rollout of steps 0..steps-1, in canonical order.

    Samples of a group are independent draws that a service may answer in any order; they are numbered by content
    (tokens, reward), so that equal training gives equal files.

    Raises:
        DataError: a step's summaries are missing, or a rollout does not name its problem.
    """
    out: list[Rollout] = []
    for step in range(steps):
        path = log_dir / f"iteration_{step:06d}" / "train_rollout_summaries.jsonl"
        groups: dict[int, list[dict[str, Any]]] = {}
        for row in _json_lines(path):
            groups.setdefault(row["group_idx"], []).append(row)
        if not groups:
            raise DataError(f"{path}: no rollout summaries of step {step}; train the arm again")
        for group in sorted(groups):
            rows = sorted((_rollout(row, step, group, path) for row in groups[group]), key=_content)
            out += [Rollout(**{**vars(row), "sample": sample}) for sample, row in enumerate(rows)]
    return out


def mixed_share(rows: Iterable[Rollout]) -> float:
    """Share of groups whose rewards are not all equal; only those give importance sampling any advantage."""
    groups: dict[tuple[int, int], set[float]] = {}
    for row in rows:
        groups.setdefault((row.step, row.group), set()).add(row.reward)
    return sum(len(rewards) > 1 for rewards in groups.values()) / len(groups) if groups else 0.0


def mean(values: Sequence[float]) -> float:
    """The mean, 0.0 of nothing."""
    return math.fsum(values) / len(values) if values else 0.0


def checkpoint_rows(log_dir: Path) -> list[dict[str, Any]]:
    """The loop's checkpoint records, in the order written."""
    return list(_json_lines(log_dir / "checkpoints.jsonl"))


def mend(log_dir: Path) -> None:
    """Drop a last line that a kill tore, from the files the loop appends to: it would not start over one."""
    for name in ("checkpoints.jsonl", "metrics.jsonl", "timing_spans.jsonl"):
        path = log_dir / name
        if path.exists():
            good = [line for line in path.read_bytes().split(b"\n") if _parses(line)]
            path.write_bytes(b"".join(line + b"\n" for line in good))


def _rollout(row: dict[str, Any], step: int, group: int, path: Path) -> Rollout:
    turns = row["steps"]
    ids = {turn["logs"].get("problem_id") for turn in turns}
    if len(ids) != 1 or None in ids:
        raise DataError(f"{path}: a rollout of group {group} does not name one problem; train with selfgen's dataset")
    return Rollout(
        step=step,
        group=group,
        sample=row["traj_idx"],
        problem_id=str(ids.pop()),
        reward=_rounded(row["total_reward"]),
        correct=float(turns[-1]["metrics"]["correct"]),
        format=float(turns[-1]["metrics"]["format"]),
        n_tokens=sum(turn["ac_len"] for turn in turns),
    )


def _rounded(value: float) -> float:
    """Six digits, and no negative zero."""
    return round(float(value), _DIGITS) + 0.0


def _content(row: Rollout) -> tuple[int, float, float, float]:
    return row.n_tokens, row.correct, row.format, row.reward


def _complete(found: list[int], steps: int, log_dir: Path) -> None:
    missing = sorted(set(range(steps)) - set(found))
    if missing:
        raise DataError(f"{log_dir}/metrics.jsonl: no metrics of step {missing[0]}; train the arm again")


def _json_lines(path: Path) -> Iterable[dict[str, Any]]:
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        if _parses(line):
            yield json.loads(line)


def _parses(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
