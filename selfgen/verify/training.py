"""Claims about training: where the arms start, what every batch held, what the optimizer was sent, what came out."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from typing import Any

from selfgen import gates
from selfgen.records import Problem, Rollout
from selfgen.training import preflight, sent, subset
from selfgen.training.checkpoints import adapter_digest
from selfgen.training.results import mean, mixed_share
from selfgen.verify.run import NotHere, Run, broken, expect

# The stock environment: reward = correct + 0.1 * (format - 1).
FORMAT_COEFFICIENT = 0.1
# Rewards and step means are rounded to six digits when they are written.
ROUNDING = 1e-6


def starts(run: Run) -> str:
    """Preflight: the arms' start checkpoints compute equal logprobs before and after a step, within the tolerance."""
    said = run.json("data/preflight/preflight.json")
    seeds = sorted({run.params.arm_seed(arm) for arm in run.arms})
    needed = {"fixed_batch", "optimizer_as_sent", "optimizer_family", "start_checkpoints"}
    for name in ("equal_before_update", "equal_after_step", "step_moved_weights", "start_shape"):
        needed |= {f"{name}[{seed}]" for seed in seeds}
    checks = {check["name"]: check for check in said["checks"]}
    if absent := sorted(needed - checks.keys()):
        raise broken(f"preflight.json: no check {absent[0]}")
    tolerance = run.params.preflight.logprob_tolerance
    for name, check in checks.items():
        value = check["measured"]
        if name.startswith("equal_"):
            expect(check["tolerance"], tolerance, f"preflight.json: {name}: tolerance")
            expect(check["passed"], value is not None and value <= tolerance, f"preflight.json: {name}: passed")
        elif name.startswith("step_moved_weights"):
            expect(check["passed"], value is not None and value > 0, f"preflight.json: {name}: passed")
        if not check["passed"]:
            raise broken(f"preflight check {name} failed: {check['message']}")
    expect(said["passed"], True, "preflight.json: passed")
    expect(said["fixed_batch_sha256"], preflight.batch_sha256(preflight.fixed_batch()), "preflight.json: fixed batch")
    recorded = run.json("data/preflight/start.json")
    expect(recorded, said["starts"], "start.json")
    expect(sorted(recorded), sorted(map(str, seeds)), "start.json: seeds")
    if len(set(recorded.values())) != len(recorded):
        raise broken("start.json: two seeds share one start checkpoint")
    for arm in run.params.arms:
        seed = run.params.arm_seed(arm)
        name = f"data/preflight/starts/{arm}.json"
        if name not in run.locked_outs and not (run.root / name).exists():
            continue  # made before arms had a file each; start.json holds the same
        expect(run.json(name), {"seed": seed, "digest": recorded[str(seed)]}, name)
    expect(said["optimizer"], _optimizer_as_sent(run), "preflight.json: optimizer")
    return f"{len(checks)} checks, seeds {', '.join(map(str, seeds))}"


def problems(run: Run) -> str:
    """Every arm's training problems are those its entry in params selects, in order, text and answer included."""
    kinds: dict[str, int] = {}
    for arm in run.arms:
        rows, about = run.rows(f"data/subset/{arm}.jsonl", Problem), run.json(f"data/subset/{arm}.json")
        own, seed, n = run.params.arms[arm], run.params.arm_seed(arm), run.params.train.problems
        if own.data == "curated_banded":
            _in_order(rows, subset.curated_order(run.train_rows, seed), n, arm)
        else:
            imported = subset.read_imported(arm, run.root) if own.data == "imported" else ()
            wanted = subset.select(own.data, n, seed, curated=run.train_rows, tasks=run.tasks, imported=imported)
            expect(rows, wanted, f"data/subset/{arm}.jsonl")
        expect(
            about,
            {
                "arm": arm,
                "data": own.data,
                "seed": seed,
                "reward": own.reward,
                "reward_rate": subset.random_rate(run.tasks) if own.reward == "random" else None,
                "rows": n,
            },
            f"data/subset/{arm}.json",
        )
        kinds[own.data] = len(rows)
    return ", ".join(f"{data}: {n} problems" for data, n in kinds.items())


def batches(run: Run) -> str:
    """Every training batch, in pilot and training, held the arm's own problems, in order, in full groups."""
    train, counted = run.params.train, 0
    for arm in run.arms:
        order = [problem.id for problem in run.rows(f"data/subset/{arm}.jsonl", Problem)]
        for name, steps in ((f"data/pilot/{arm}", run.params.pilot.steps), (f"data/train/{arm}", train.steps)):
            if name == f"data/train/{arm}" and arm not in run.finished:
                continue
            found = gates.groups(run.rows(f"{name}/rollouts.jsonl", Rollout))
            wanted = [(step, group) for step in range(steps) for group in range(train.groups_per_batch)]
            expect([list(key) for key in found], [list(key) for key in wanted], f"{name}/rollouts.jsonl: groups")
            for index, ((step, group), members) in enumerate(found.items()):
                where = f"{name}/rollouts.jsonl: step {step} group {group}"
                expect([r.sample for r in members], list(range(train.group_size)), f"{where}: samples")
                for rollout in members:
                    if rollout.problem_id != order[index]:
                        raise broken(f"{where} trained on {rollout.problem_id}, the arm's plan has {order[index]}")
                counted += 1
    return f"{counted} groups of {train.group_size}{run.unfinished}"


def sources(run: Run) -> str:
    """Every id trained on by the two compared arms is in the audited task set, or in the curated train set."""
    task_ids, curated_ids = {task.id for task in run.tasks}, {row.id for row in run.train_rows}
    for arm, ids in ((gates.TREATMENT, task_ids), (gates.BASELINE, curated_ids)):
        if arm not in run.arms:
            raise NotHere(f"params has no arm {arm}")
        for folder in ("pilot", "train"):
            rollouts = run.rows(f"data/{folder}/{arm}/rollouts.jsonl", Rollout)
            share = gates.fraction_from(rollouts, ids)
            if share != 1.0:
                foreign = next(r.problem_id for r in rollouts if r.problem_id not in ids)
                raise broken(f"{folder} of {arm}: {share:.4f} of the problems are in the manifest; {foreign} is not")
    return f"{len(task_ids)} tasks and {len(curated_ids)} curated rows"


def rewards(run: Run) -> str:
    """Every reward is correct + 0.1 * (format - 1), or for a random-reward arm the registered coin."""
    checked = 0
    for arm in run.arms:
        coins = run.params.arms[arm].reward == "random"
        rate = run.json(f"data/subset/{arm}.json")["reward_rate"]
        for folder in ("pilot", "train") if arm in run.finished else ("pilot",):
            rollouts = run.rows(f"data/{folder}/{arm}/rollouts.jsonl", Rollout)
            for r in rollouts:
                where = f"data/{folder}/{arm}/rollouts.jsonl: step {r.step} group {r.group} sample {r.sample}"
                if r.correct not in (0.0, 1.0) or r.format not in (0.0, 1.0):
                    raise broken(f"{where}: correct {r.correct}, format {r.format} cannot be")
                if not 0 < r.n_tokens <= run.params.train.max_tokens:
                    raise broken(f"{where}: {r.n_tokens} tokens, train.max_tokens is {run.params.train.max_tokens}")
                stock = r.correct + FORMAT_COEFFICIENT * (r.format - 1.0)
                if not coins and not math.isclose(r.reward, stock, abs_tol=ROUNDING):
                    raise broken(f"{where}: reward {r.reward}, correct and format give {stock:.6g}")
                checked += 1
            if coins:
                _coins(rollouts, rate, run.params.arm_seed(arm), f"data/{folder}/{arm}/rollouts.jsonl")
    return f"{checked} rollouts{run.unfinished}"


def measured(run: Run) -> str:
    """Pilot figures and training curves are those of the rollouts."""
    for arm in run.arms:
        pilot = run.rows(f"data/pilot/{arm}/rollouts.jsonl", Rollout)
        said = run.json(f"data/pilot/{arm}/pilot.json")
        wanted = {
            "arm": arm,
            "steps": run.params.pilot.steps,
            "start_digest": _start_digest(run, arm),
            "rollouts": len(pilot),
            "groups": len(gates.groups(pilot)),
            "mean_reward": round(mean([r.reward for r in pilot]), 6),
            "mean_correct": round(mean([r.correct for r in pilot]), 6),
            "mean_format": round(mean([r.format for r in pilot]), 6),
            "mixed_groups": round(mixed_share(pilot), 6),
            "problem_ids": list(dict.fromkeys(r.problem_id for r in pilot)),
            "mean_response_tokens": mean([float(r.n_tokens) for r in pilot]),
        }
        expect({key: said.get(key) for key in wanted}, wanted, f"data/pilot/{arm}/pilot.json")
        published = run.json(f"metrics/pilot/{arm}.json")
        expect(published, {key: said.get(key) for key in published}, f"metrics/pilot/{arm}.json")
        if arm in run.finished:
            _curve(run, arm)
    return f"{len(run.arms)} pilots and {len(run.finished)} curves"


def optimizer(run: Run) -> str:
    """Every optimizer step was sent with the optimizer, the loss and the number of steps that params state."""
    total = 0
    for arm in run.finished:
        name = f"data/train/{arm}/optim.jsonl"
        records = run.rows(name, sent.Sent)
        expect([record.step for record in records], list(range(run.params.train.steps)), f"{name}: steps")
        if wrong := sent.mismatches(records, run.params.train.optimizer, run.params.train.loss_fn):
            raise broken(f"{name}: {wrong[0]}")
        rollouts = run.params.train.group_size * run.params.train.groups_per_batch
        for record in records:
            if not 0 < record.datums <= rollouts:
                raise broken(f"{name}: step {record.step} carried {record.datums} sequences of {rollouts} rollouts")
        total += len(records)
    return f"{total} optimizer steps{run.unfinished}"


def checkpoints(run: Run) -> str:
    """Each trained adapter hashes to its checkpoint's digest, starts where its seed starts, and is nobody else's."""
    seen: dict[str, str] = {digest: f"start {seed}" for seed, digest in run.json("data/preflight/start.json").items()}
    for arm in run.finished:
        name = f"data/train/{arm}/checkpoint.json"
        said, own = run.json(name), run.params.arms[arm]
        adapter = run.path(f"data/train/{arm}/adapter")
        expect(said["digest"], adapter_digest(adapter), f"{name}: digest")
        config = run.json(f"data/train/{arm}/adapter/adapter_config.json")
        expect(config.get("r"), run.params.model.lora_rank, f"data/train/{arm}/adapter: rank")
        wanted = {
            "arm": arm,
            "data": own.data,
            "reward": own.reward,
            "digest": said["digest"],
            "steps": run.params.train.steps,
            "seed": run.params.arm_seed(arm),
            "start_digest": _start_digest(run, arm),
            "model": run.params.model.name,
            "lora_rank": run.params.model.lora_rank,
            "loss_fn": run.params.train.loss_fn,
            "optimizer": {k: v for k, v in _optimizer_as_sent(run).items() if k != "loss_fn"},
        }
        expect(said, wanted, name)
        if said["digest"] in seen:
            raise broken(f"{name}: the weights of {arm} are those of {seen[said['digest']]}")
        seen[said["digest"]] = arm
    return f"{len(run.finished)} adapters{run.unfinished}"


def _optimizer_as_sent(run: Run) -> dict[str, Any]:
    """params.train.optimizer as the SDK puts it on the wire."""
    own = run.params.train.optimizer
    return {
        "name": own.name,
        "loss_fn": run.params.train.loss_fn,
        "learning_rate": own.learning_rate,
        "beta1": own.beta1,
        "beta2": own.beta2,
        "eps": own.eps,
        "weight_decay": 0.0,
        "grad_clip_norm": 0.0,
    }


def _start_digest(run: Run, arm: str) -> str:
    digest = run.json("data/preflight/start.json").get(str(run.params.arm_seed(arm)))
    if digest is None:
        raise broken(f"start.json: no start checkpoint for seed {run.params.arm_seed(arm)} of arm {arm}")
    return str(digest)


def _in_order(rows: Sequence[Problem], order: Sequence[Any], n: int, arm: str) -> None:
    """Banded rows are a subsequence of the stock order; their pass counts would need the model."""
    rest = iter([subset.from_curated(row) for row in order])
    for row in rows:
        if row not in rest:
            raise broken(f"data/subset/{arm}.jsonl: {row.id} is no curated row, or not in the stock loader's order")
    expect(len(rows), n, f"data/subset/{arm}.jsonl: rows")


def _coins(rollouts: Sequence[Rollout], rate: float, seed: int, where: str) -> None:
    """Flips are numbered by the order of the rollouts' tokens, which is not kept: compare each group's multiset."""
    from selfgen.training.coin import coin

    for (step, group), members in gates.groups(rollouts).items():
        flips = sorted(float(coin(rate, seed, step, group, sample)) for sample in range(len(members)))
        expect(sorted(r.reward for r in members), flips, f"{where}: step {step} group {group}: coin flips")


def _curve(run: Run, arm: str) -> None:
    """Step means in curve.jsonl and metrics/train against the rollouts of each step."""
    name = f"data/train/{arm}/curve.jsonl"
    rollouts = run.rows(f"data/train/{arm}/rollouts.jsonl", Rollout)
    rows = run.loose(name)
    expect([row.get("step") for row in rows], list(range(run.params.train.steps)), f"{name}: steps")
    rate = round(run.params.train.optimizer.learning_rate, 6)
    for row in rows:
        members = [r for r in rollouts if r.step == row["step"]]
        wanted = {
            "reward": mean([r.reward for r in members]),
            "correct": mean([r.correct for r in members]),
            "format": mean([r.format for r in members]),
            "response_tokens": mean([float(r.n_tokens) for r in members]),
            "mixed_groups": mixed_share(members),
            "learning_rate": rate,
        }
        for field, value in wanted.items():
            if not math.isclose(row.get(field, math.nan), value, abs_tol=2 * ROUNDING):
                raise broken(f"{name}: step {row['step']}: {field} {row.get(field)}, recomputed {value:.6g}")
    with open(run.path(f"data/train/{arm}/curve.csv"), encoding="utf-8", newline="") as file:
        drawn = [{field: float(value) for field, value in row.items()} for row in csv.DictReader(file)]
    expect(drawn, rows, f"data/train/{arm}/curve.csv")
    said = run.json(f"metrics/train/{arm}.json")
    wanted = {
        "steps": run.params.train.steps,
        "reward_first": rows[0]["reward"],
        "reward_last": rows[-1]["reward"],
        "correct_first": rows[0]["correct"],
        "correct_last": rows[-1]["correct"],
        "reward_mean": round(mean([r.reward for r in rollouts]), 6),
        "mixed_groups": round(mixed_share(rollouts), 6),
        "problems": len({r.problem_id for r in rollouts}),
    }
    expect(said, wanted, f"metrics/train/{arm}.json")
