"""Training one arm: the stock `tinker_cookbook.rl.train` loop, started from a named checkpoint, resumable, recorded.

What differs from calling the recipe, and why:

- `load_checkpoint_path` names the seeded start checkpoint that preflight made, because the stock loop never passes a
  LoRA seed, and two arms that start from different weights cannot be compared.
- `loss_fn` is passed although it is today's default, because the default has differed between versions.
- The log folder lives in the user's cache, under a name made of everything that determines the run. DVC empties a
  stage's outputs before it starts, and a run killed with -9 must find its checkpoints again.
- Every optimizer request is recorded on its way to the service.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import logging
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chz

from selfgen.errors import GateError, ServiceError
from selfgen.records import Problem, Rollout, dumps, replace_file, write_json, write_jsonl
from selfgen.training import results, sent
from selfgen.training.checkpoints import export_adapter
from selfgen.training.loop import run_stock_loop

if TYPE_CHECKING:
    from selfgen.params import Params
    from selfgen.service import Service, Usage


_KEPT_SECONDS = 7 * 24 * 3600
"""How long the service keeps the checkpoints that a killed run resumes from."""


@dataclass(frozen=True)
class Start:
    """The start checkpoint of a seed: where the service keeps it, and the digest of its adapter."""

    seed: int
    path: str
    digest: str


@dataclass(frozen=True)
class Trained:
    """A finished run of one arm, read back from what the loop wrote and what was sent."""

    arm: str
    digest: str
    sampler_path: str
    state_path: str
    steps: int
    rollouts: list[Rollout]
    curve: list[dict[str, float | int]]
    sent: list[sent.Sent]
    timing: dict[str, Any]


def train_arm(
    params: Params,
    arm: str,
    problems: Sequence[Problem],
    start: Start,
    service: Service,
    *,
    adapter: Path,
    steps: int | None = None,
    rate: float = 0.5,
    on_step: Callable[[sent.Sent], None] | None = None,
    keep_log: bool = False,
) -> Trained:
    """Train one arm with the stock loop, or finish a run of it that was killed.

    Args:
        params: the composed params; `model`, `train` and the arm's own entry are used.
        arm: the arm's name in params.arms.
        problems: in training order (`subset.select`).
        start: the arm's start checkpoint (`preflight.run` makes it).
        service: an open service; the loop's own client meets the same one through TINKER_BASE_URL.
        adapter: folder that receives the trained adapter in PEFT format.
        steps: fewer steps than params.train.steps, for the pilot. Such a run is a throw-away copy: it starts from the
            same checkpoint and nothing is taken from it but measurements.
        rate: the coin's rate, for an arm with `reward: random`.
        on_step: called after each optimizer step is sent.
        keep_log: leave the loop's log folder in place, for debugging.

    Raises:
        ServiceError: the service failed; running the stage again resumes from the last checkpoint.
        GateError: the optimizer steps sent are not the ones params state.
    """
    total = params.train.steps if steps is None else steps
    began = time.monotonic()
    with _log_folder(_run_name(params, arm, problems, start, service, total, rate)) as log_dir:
        resumed_from = _prepare(log_dir, service)
        before = replace(service.usage)

        def stepped(record: sent.Sent) -> None:
            _count_tokens(service, before, log_dir)
            if on_step is not None:
                on_step(record)

        with sent.observing(log_dir / "sent.jsonl", first_step=resumed_from, on_step=stepped):
            config = _config(params, arm, problems, start, service, total, rate, log_dir)
            tracked = params.tracking.loggers if steps is None else ()
            if tracked:
                name = f"{params.scale} {arm} seed {params.arm_seed(arm)}"
                config = chz.replace(config, wandb_project=params.tracking.project, wandb_name=name)
            run_stock_loop(config, arm, service, tracked)
        _count_tokens(service, before, log_dir)
        records = sent.read_sent(log_dir / "sent.jsonl")
        kept = sent.effective(records, total)
        wrong = sent.mismatches(records, params.train.optimizer, params.train.loss_fn)
        if len(kept) != total:
            wrong.append(f"{len(kept)} optimizer steps were sent, {total} were planned")
        if wrong:
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            raise GateError(f"arm {arm}: {wrong[0]}{more}; the stock loop and params disagree")
        final = _final_checkpoint(log_dir, total)
        saved = [row[key] for row in results.checkpoint_rows(log_dir) for key in ("state_path", "sampler_path")]
        digest = export_adapter(service, final["state_path"], final["sampler_path"], adapter)
        trained = Trained(
            arm=arm,
            digest=digest,
            sampler_path=final["sampler_path"],
            state_path=final["state_path"],
            steps=total,
            rollouts=results.rollouts(log_dir, total),
            curve=results.curve(log_dir, total),
            sent=kept,
            timing={
                "wall_seconds": time.monotonic() - began,
                "resumed_from_step": resumed_from,
                "steps_sent_again": len(records) - len(kept),
                "steps": results.step_seconds(log_dir),
            },
        )
        if not keep_log:
            _keep_tracked(log_dir)
            shutil.rmtree(log_dir, ignore_errors=True)
            discard(service, [path for path in saved if path not in (trained.sampler_path, trained.state_path)])
    return trained


def checkpoint_record(params: Params, trained: Trained, start: Start) -> dict[str, Any]:
    """What names a trained arm: content hashes and settings, nothing volatile."""
    return {
        "arm": trained.arm,
        "data": params.arms[trained.arm].data,
        "reward": params.arms[trained.arm].reward,
        "digest": trained.digest,
        "steps": trained.steps,
        "seed": params.arm_seed(trained.arm),
        "start_digest": start.digest,
        "model": params.model.name,
        "lora_rank": params.model.lora_rank,
        "loss_fn": params.train.loss_fn,
        "optimizer": {"name": params.train.optimizer.name, **trained.sent[-1].params},
    }


def write(folder: Path, params: Params, trained: Trained, start: Start) -> dict[str, Any]:
    """Write an arm's artifacts beside its adapter; returns its metrics.

    Files: checkpoint.json, rollouts.jsonl, curve.jsonl, optim.jsonl, and the volatile location.json and timing.json.
    """
    write_jsonl(folder / "rollouts.jsonl", trained.rollouts)
    write_jsonl(folder / "curve.jsonl", trained.curve)
    _write_csv(folder / "curve.csv", trained.curve)
    write_jsonl(folder / "optim.jsonl", [asdict(record) for record in trained.sent])
    write_json(folder / "timing.json", trained.timing)
    write_json(folder / "location.json", {"sampler_path": trained.sampler_path, "state_path": trained.state_path})
    write_json(folder / "checkpoint.json", checkpoint_record(params, trained, start))
    return metrics(trained)


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The curve once more as CSV, the one tabular format that `dvc plots` reads."""
    with replace_file(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=sorted({name for row in rows for name in row}), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def metrics(trained: Trained) -> dict[str, Any]:
    """Metrics of a run: first and last step's reward and correctness, over all steps the mean reward and mixed groups."""
    first, last = trained.curve[0], trained.curve[-1]
    return {
        "steps": trained.steps,
        "reward_first": first["reward"],
        "reward_last": last["reward"],
        "correct_first": first["correct"],
        "correct_last": last["correct"],
        "reward_mean": round(results.mean([row.reward for row in trained.rollouts]), 6),
        "mixed_groups": round(results.mixed_share(trained.rollouts), 6),
        "problems": len({row.problem_id for row in trained.rollouts}),
    }


def _config(
    params: Params,
    arm: str,
    problems: Sequence[Problem],
    start: Start,
    service: Service,
    steps: int,
    rate: float,
    log_dir: Path,
) -> Any:
    from tinker_cookbook.rl.train import Config

    from selfgen import rendering
    from selfgen.training.dataset import ProblemDatasetBuilder

    rendering.register_tokenizer(params.model.name, params.model.tokenizer)
    builder = ProblemDatasetBuilder(
        problems=tuple(problems),
        groups_per_batch=params.train.groups_per_batch,
        group_size=params.train.group_size,
        tokenizer_name=params.model.tokenizer,
        renderer_name=params.model.renderer,
        few_shot=params.train.few_shot,
        reward=params.arms[arm].reward,
        rate=rate,
        seed=params.arm_seed(arm),
        name=arm,
    )
    return Config(
        learning_rate=params.train.optimizer.learning_rate,
        dataset_builder=builder,
        model_name=params.model.name,
        recipe_name="selfgen",
        renderer_name=params.model.renderer,
        max_tokens=params.train.max_tokens,
        log_path=str(log_dir),
        loss_fn=params.train.loss_fn,
        lora_rank=params.model.lora_rank,
        load_checkpoint_path=start.path,
        eval_every=0,
        save_every=params.train.save_every,
        max_steps=steps,
        num_groups_to_log=0,
        base_url=service.base_url,
    )


def _keep_tracked(log_dir: Path) -> None:
    """Move the folder of a W&B run out of a log folder that is about to go: offline, it is the only copy."""
    from selfgen.journal import cache_dir

    for run in log_dir.glob("wandb/*run-*"):
        target = cache_dir() / "wandb" / run.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        shutil.move(run, target)


def _run_name(
    params: Params, arm: str, problems: Sequence[Problem], start: Start, service: Service, steps: int, rate: float
) -> str:
    """A name made of all that determines a run: only an equal run may resume it."""
    whole = {
        "arm": arm,
        "entry": params.arms[arm].model_dump(mode="json"),
        "seed": params.arm_seed(arm),
        "rate": rate if params.arms[arm].reward == "random" else None,
        "model": params.model.model_dump(mode="json"),
        "train": params.train.model_dump(mode="json"),
        "steps": steps,
        "problems": [vars(problem) for problem in problems],
        "start": start.digest,
        "service": service.kind if service.kind == "embedded" else service.base_url,
    }
    return f"{arm}-{hashlib.sha256(dumps(whole).encode()).hexdigest()[:24]}"


@contextmanager
def _log_folder(name: str) -> Iterator[Path]:
    """The run's log folder, held by this process alone: a second equal run at the same time gets one of its own."""
    from selfgen.journal import cache_dir

    runs = cache_dir() / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    _prune(runs)
    with open(runs / f"{name}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=runs) as folder:
                yield Path(folder)
            return
        folder_path = runs / name
        folder_path.mkdir(exist_ok=True)
        yield folder_path
    (runs / f"{name}.lock").unlink(missing_ok=True)


def _prune(runs: Path) -> None:
    """Remove runs left behind for so long that the service has dropped the checkpoints they would resume from."""
    oldest = time.time() - _KEPT_SECONDS
    for path in runs.iterdir():
        newest = max((p.stat().st_mtime for p in (path, *path.glob("*"))), default=oldest)
        if newest < oldest:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def discard(service: Service, paths: Iterable[str]) -> None:
    """Delete checkpoints that nothing refers to any more; one that cannot be deleted is left to the service's expiry."""
    import tinker

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        rest = service.client.create_rest_client()
        for path in paths:
            try:
                rest.delete_checkpoint_from_tinker_path(path).result()
            except (tinker.TinkerError, OSError, ValueError):  # ValueError: a path of another form than the SDK's
                logging.getLogger(__name__).warning("%s: not deleted; the service's expiry will", path)


def _prepare(log_dir: Path, service: Service) -> int:
    """Make a killed run's folder fit to resume from; returns the step it resumes at, 0 for a fresh start."""
    results.mend(log_dir)
    rows = [row for row in results.checkpoint_rows(log_dir) if "state_path" in row]
    if rows and service.holds(rows[-1]["state_path"]):
        return int(rows[-1]["batch"])
    shutil.rmtree(log_dir)
    log_dir.mkdir()
    return 0


def _count_tokens(service: Service, before: Usage, log_dir: Path) -> None:
    """Bring the service's usage up to the steps the loop has finished; steps before a resume are counted again."""
    prompt, sampled = results.tokens(log_dir)
    usage = service.usage
    usage.prompt_tokens = before.prompt_tokens + prompt
    usage.sampled_tokens = before.sampled_tokens + sampled
    usage.trained_tokens = before.trained_tokens + prompt + sampled


def _final_checkpoint(log_dir: Path, steps: int) -> dict[str, str]:
    rows = [row for row in results.checkpoint_rows(log_dir) if row.get("name") == "final" and row.get("batch") == steps]
    if not rows:
        raise ServiceError(f"{log_dir}: the stock loop ended without its final checkpoint; run the stage again")
    return rows[-1]
