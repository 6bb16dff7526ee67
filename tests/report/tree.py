"""A finished run on disk, made up but whole: real records, and the product's own code for every verdict in it."""

from __future__ import annotations

import atexit
import functools
import random
import shutil
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from selfgen import budget, gates, manifest
from selfgen.decision.run import decide_files
from selfgen.evaluation.agreement import Disagreement
from selfgen.params import Params, load, parse
from selfgen.records import (
    Candidate,
    Completion,
    CuratedRow,
    EvalRow,
    Problem,
    Rejection,
    Rollout,
    Task,
    read_jsonl,
    write_json,
    write_jsonl,
)
from selfgen.tasks import audit, overlap, yields
from selfgen.tasks.filters import task_id
from selfgen.tasks.reasons import REASONS
from selfgen.training import subset

ACCURACY = {"base": 0.48, "rl_gsm8k": 0.84, "rl_selfgen": 0.87, "rl_random_reward": 0.50}


def params(root: Path, scale: str = "embedded", arms: dict[str, Any] | None = None, **changes: Any) -> Params:
    """The committed params at a scale of conf/, with other arms when given; the embedded scale in sizes of its own."""
    values = load(root / "params.yaml").model_dump(mode="json")
    if scale != "embedded":
        for name in ("config.yaml", f"scale/{scale}.yaml"):
            layer = yaml.safe_load((root / "conf" / name).read_text(encoding="utf-8"))
            layer.pop("defaults", None)
            values.update(layer)
    else:  # figures that tests state must not move with the default scale
        values["filter"] |= {"n_accept": 80}
        values["audit"] |= {"sample": 40}
        values["train"] |= {"problems": 80, "steps": 10, "groups_per_batch": 8, "group_size": 8}
        values["pilot"] |= {"steps": 2}
    if arms is not None:
        values["arms"] = arms
    values.update(changes)
    return parse(values)


def problem(rng: random.Random, words: int = 30) -> str:
    """A word problem's worth of words."""
    told = " ".join(rng.choices(["each", "day", "at", "the", "old", "market", "in", "town"], k=words))
    first, second = rng.randint(2, 60), rng.randint(2, 60)
    return f"Mara keeps {first} hens <b>&amp;</b> and sells {second} eggs {told}. How many are left?"


@functools.cache
def finished(root: Path) -> tuple[Path, Params]:
    """One finished run with a random-reward arm, made once a process. Read it; to change it, `copy` it."""
    arms = {
        "rl_gsm8k": {"data": "curated"},
        "rl_selfgen": {"data": "tasks"},
        "rl_random_reward": {"data": "tasks", "reward": "random"},
    }
    made = params(root, arms=arms)
    folder = tempfile.mkdtemp(prefix="selfgen-run-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    where = make(Path(folder), made, n_test=300)
    (where / "params.yaml").write_text(yaml.safe_dump(made.model_dump(mode="json"), sort_keys=False), encoding="utf-8")
    return where, made


@functools.cache
def html(root: Path) -> str:
    """The page of `finished`."""
    from selfgen.report import page
    from selfgen.report.run import load as read

    return page.render(read(*finished(root)))


def copy(root: Path, target: Path) -> Path:
    """A copy of `finished` that a test may change."""
    shutil.copytree(finished(root)[0], target)
    return target


def make(
    root: Path,
    params: Params,
    *,
    n_test: int = 60,
    n_train: int = 200,
    completion_words: int = 40,
    rejected: int = 120,
    audit_errors: int = 0,
    until: str = "decide",
    accuracy: dict[str, float] | None = None,
    seed: int = 0,
) -> Path:
    """Write a run's artifacts under `root`, up to the stage `until` (audit, gate or decide)."""
    rng, data = random.Random(seed), root / "data"
    train = [CuratedRow(f"x-train-{i:05d}", problem(rng), "#### 7", "7") for i in range(n_train)]
    test = [CuratedRow(f"x-test-{i:05d}", f"{problem(rng)} ({i})", "#### 7", "7") for i in range(n_test)]
    write_jsonl(data / "curated/train.jsonl", train)
    write_jsonl(data / "curated/test.jsonl", test)
    _tasks(data, params, rng, rejected, completion_words, test)
    _audit(data, params, rng, audit_errors, completion_words, test)
    (root / "review").mkdir(exist_ok=True)
    (root / "review/quarantine.jsonl").touch()
    _manifest(root, "curated", ["curated/train.jsonl", "curated/test.jsonl"])
    _manifest(root, "filter", ["filter/tasks.jsonl", "filter/rejected.jsonl"])
    if until == "audit":
        return root
    _before_training(root, params, rng, train)
    gates.evaluate_and_write(params.gate, root)
    timings = {arm: _timing(params) for arm in params.arms}
    write_json(root / "metrics/feasibility.json", budget.project(params, timings, n_test))
    if until == "gate":
        return root
    for index, arm in enumerate(params.arms, 1):
        _train(data, params, arm, index, rng)
    return evaluate(root, params, accuracy or ACCURACY, completion_words=completion_words, seed=seed)


def evaluate(
    root: Path, params: Params, accuracy: dict[str, float], *, completion_words: int = 40, seed: int = 0
) -> Path:
    """Write (again) the evaluations, with about these accuracies, and the decision on them."""
    rng, data = random.Random(seed), root / "data"
    test = list(read_jsonl(data / "curated/test.jsonl", CuratedRow))
    for arm in ("base", *params.arms):
        target = accuracy.get(arm, 0.6)
        write_jsonl(data / f"eval/{arm}/rows.jsonl", [_answer(rng, row, arm, target, completion_words) for row in test])
        write_json(data / f"eval/{arm}/timing.json", {"seconds": 12.5, "prompt": 1000, "sampled": 2000})
        _manifest(root, f"eval@{arm}", [f"eval/{arm}/rows.jsonl"])
    write_json(data / "decide/decision.json", decide_files(params, data, root))
    write_json(data / "decide/graders.json", {arm: _graders(n=len(test)) for arm in ("base", *params.arms)})
    return root


def _graders(n: int) -> dict[str, Any]:
    """What the second grader found: it reads one answer that the stock extractor does not."""
    found = Disagreement("x-test-00000", "7", None, False, True, "7", "The answer is <b>7</b>.")
    counts = {
        "both_correct": n - 2,
        "both_wrong": 1,
        "only_stock": 0,
        "only_second": 1,
        "timeouts": 0,
        "without_box": 1,
    }
    return {"n": n, "agree": (n - 1) / n, **counts, "disagreements": [asdict(found)]}


def _tasks(data: Path, params: Params, rng: random.Random, rejected: int, words: int, test: list[CuratedRow]) -> None:
    tasks, refused, candidates = [], [], []
    reasons = list(REASONS)
    for index in range(params.filter.n_accept + rejected):
        text, label = problem(rng), rng.randint(1, 400)
        code = f"def solve():\n    hens = {label} * 2\n    return hens - {label}\n"
        identity = f"cand-{index:06d}"
        whole = f"{text}\n\n```python\n{code}```"
        candidates.append(Candidate(identity, index, whole, 100, "stop"))
        if len(refused) * params.filter.n_accept < len(tasks) * rejected:
            reason = reasons[len(refused) % len(reasons)]
            refused.append(Rejection(identity, index, reason, f"because of {reason}", whole, text, code, label))
        else:
            right = rng.randint(1, 6)
            tasks.append(
                Task(
                    task_id(text, label), identity, index, text, code, label, right, 8,
                    tuple(f"It is \\boxed{{{label if k < right else 0}}}." for k in range(8)),
                )
            )  # fmt: skip
    write_jsonl(data / "generate/candidates.jsonl", candidates)
    write_jsonl(data / "filter/tasks.jsonl", tasks)
    write_jsonl(data / "filter/rejected.jsonl", refused)
    index = overlap.OverlapIndex.build(test[:20])  # enough to have the file's shape
    found = overlap.summarise(tasks[:20], index, params.filter.decontaminate.reject)
    write_json(data / "filter/overlap.json", found)
    judged = len(tasks) + len(refused)
    spent = yields.Spent(requests=len(tasks), samples=8 * len(tasks), tokens=4000, truncated=len(tasks))
    made = yields.summarise(tasks, refused, 8, test)
    write_json(data / "filter/yields.json", {"cost": yields.cost(len(tasks), 100 * judged, spent), **made})
    write_json(
        data.parent / "metrics/filter.json",
        {
            "candidates_judged": judged,
            "accepted": len(tasks),
            "yield": len(tasks) / judged,
            "rejected": dict(sorted(Counter(row.reason for row in refused).items())),
            "generated_eval_exact_overlaps": found["generated_eval_exact_overlaps"],
            "overlap_hits": found["hits"],
        },
    )


def _audit(data: Path, params: Params, rng: random.Random, errors: int, words: int, test: list[CuratedRow]) -> None:
    tasks = list(read_jsonl(data / "filter/tasks.jsonl", Task))
    labels = {audit.messages(task.problem)[-1]["content"]: task.label for task in tasks}
    wrong = iter([True] * errors + [False] * len(tasks))

    def solve(conversations: Any, attempt: int) -> list[list[Completion]]:
        said = [labels[c[-1]["content"]] + next(wrong) for c in conversations]
        return [[Completion(f"{_prose(rng, words)} So \\boxed{{{value}}}", 50, "stop")] for value in said]

    rows, verdict = audit.run(tasks, solve=solve, params=params.audit, solver=params.auditor.name)
    write_jsonl(data / "audit/rows.jsonl", rows)
    write_json(data / "audit/audit.json", verdict)
    write_json(data / "audit/passed.json", {"passed": verdict["passed"]})


def _before_training(root: Path, params: Params, rng: random.Random, train: list[CuratedRow]) -> None:
    data = root / "data"
    tasks = list(read_jsonl(data / "filter/tasks.jsonl", Task))
    check = {"name": "equal_before_update[0]", "passed": True, "measured": 0.0, "tolerance": 1e-4, "message": "equal"}
    optimizer = {"name": "adam", **params.train.optimizer.model_dump(exclude={"name"}), "loss_fn": params.train.loss_fn}
    write_json(
        data / "preflight/preflight.json",
        {"passed": True, "checks": [check], "starts": {"0": "ab" * 32}, "optimizer": optimizer,
         "optimizer_reported": "adamw", "fixed_batch_sha256": "cd" * 32},
    )  # fmt: skip
    for arm, own in params.arms.items():
        n = params.train.problems
        banded = [subset.Banded(row, 3, 8) for row in train] if own.data == "curated_banded" else []
        problems = subset.select(own.data, n, params.arm_seed(arm), curated=train, tasks=tasks, banded=banded)
        write_jsonl(data / f"subset/{arm}.jsonl", problems)
        write_json(data / f"subset/{arm}.json", {"arm": arm, "data": own.data, "seed": params.arm_seed(arm),
                   "reward": own.reward, "reward_rate": None, "rows": n})  # fmt: skip
        rows = _rollouts(params, [row.id for row in problems], params.pilot.steps, rng)
        write_jsonl(data / f"pilot/{arm}/rollouts.jsonl", rows)
        write_json(data / f"pilot/{arm}/pilot.json", {"mean_reward": 0.5, "mixed_groups": 0.8, "groups": 16,
                   "rollouts": len(rows)})  # fmt: skip
        write_json(data / f"pilot/{arm}/timing.json", _timing(params))


def _train(data: Path, params: Params, arm: str, index: int, rng: random.Random) -> None:
    problems = [row.id for row in read_jsonl(data / f"subset/{arm}.jsonl", Problem)]
    folder = data / f"train/{arm}"
    write_jsonl(folder / "rollouts.jsonl", _rollouts(params, problems, params.train.steps, rng))
    curve = [
        {"step": s, "reward": 0.4 + 0.04 * s / index, "correct": 0.45 + 0.04 * s / index, "mixed_groups": 0.8 - 0.03 * s,
         "response_tokens": 80 - s, "entropy": 0.5 - 0.02 * s, "kl_sample_train_v1": 0.001 * index}
        for s in range(params.train.steps)
    ]  # fmt: skip
    write_jsonl(folder / "curve.jsonl", curve)
    write_json(
        folder / "timing.json", {"wall_seconds": 31.4, "resumed_from_step": 0, "steps_sent_again": 0, "steps": []}
    )
    write_json(folder / "location.json", {"sampler_path": "tinker://x/sampler", "state_path": "tinker://x/state"})
    write_json(
        folder / "checkpoint.json",
        {"arm": arm, "data": params.arms[arm].data, "reward": params.arms[arm].reward, "digest": f"{index:02d}" * 32,
         "steps": params.train.steps, "seed": params.arm_seed(arm), "start_digest": "ab" * 32,
         "model": params.model.name, "lora_rank": params.model.lora_rank, "loss_fn": params.train.loss_fn,
         "optimizer": params.train.optimizer.model_dump()},
    )  # fmt: skip


def _rollouts(params: Params, problems: list[str], steps: int, rng: random.Random) -> list[Rollout]:
    size, groups = params.train.group_size, params.train.groups_per_batch
    return [
        Rollout(s, g, k, problems[s * groups + g], float(k % 2), float(k % 2), 1.0, rng.randint(20, 90))
        for s in range(steps) for g in range(groups) for k in range(size)
    ]  # fmt: skip


def _timing(params: Params) -> dict[str, Any]:
    return {
        "wall_seconds": 9.0,
        "step_seconds": [3.0] * params.pilot.steps,
        "overhead_seconds": 3.0,
        "rollout_prompt_tokens": 10_000.0,
        "rollout_sampled_tokens": 9_000,
        "eval_items": params.pilot.eval_items,
        "eval_seconds": 4.0,
        "eval_prompt_tokens": 8_000,
        "eval_sampled_tokens": 7_000,
        "steps": [],
    }


def _answer(rng: random.Random, row: CuratedRow, arm: str, target: float, words: int) -> EvalRow:
    right = rng.random() < target
    said = row.answer if right else "8"
    return EvalRow(row.id, arm, row.answer, f"{_prose(rng, words)} \\boxed{{{said}}}", words, "stop", said, right)


def _prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(["first", "we", "add", "the", "hens", "then", "<i>take</i>", "12"], k=words))


def _manifest(root: Path, stage: str, outputs: list[str]) -> None:
    folder = stage.replace("@", "/")
    manifest.write(
        f"data/{folder}/manifest.json",
        stage=stage,
        inputs=[],
        outputs=[f"data/{name}" for name in outputs],
        params={},
        service={"kind": "embedded", "models": ["selfgen/policy"]},
        root=root,
    )
