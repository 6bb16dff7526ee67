"""A small complete run, from curated rows to the verdict, made by the library's own functions without any service.

`build(root)` writes what the stages write. Samples are made up, deterministically; everything computed from them
(labels, filters, audit, gate, grades, verdict, manifests) goes through the code under test.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import yaml

from selfgen import budget, gates, manifest, spec
from selfgen.decision.run import decide_files
from selfgen.evaluation.agreement import of_rows
from selfgen.evaluation.eval import graded, metrics
from selfgen.params import SAMPLED, STEP, Params, load
from selfgen.progress import Progress
from selfgen.records import (
    Candidate,
    Completion,
    CuratedRow,
    EvalRow,
    Problem,
    Rejection,
    Rollout,
    Task,
    read_json,
    read_jsonl,
    write_json,
    write_jsonl,
)
from selfgen.tasks import audit, croissant, overlap, quarantine, repair
from selfgen.tasks.accept import accept
from selfgen.training import arms, pilot, preflight, results, starts, subset
from selfgen.training.checkpoints import adapter_digest
from selfgen.training.coin import coin
from selfgen.training.sent import Sent
from tests.support.locking import REPO, lock

N_CANDIDATES, N_TRAIN, N_TEST, N_TRANSFER = 90, 40, 60, 12
THINGS = ["pencils", "apples", "marbles", "stickers", "cookies", "books", "shells", "stamps", "coins", "cards"]
NAMES = ["Maya", "Omar", "Lena", "Piotr", "Ana", "Kofi", "Yuki", "Ines", "Tariq", "Nadia"]


def noise(*parts: object) -> int:
    """A number that looks random and depends on `parts` alone."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")


def story(kind: str, i: int) -> tuple[str, str, int]:
    """A word problem, a program for it and its answer; problems of different `kind` never coincide."""
    boxes, each, gone = 13 + noise(kind, i, 1) % 29, 12 + noise(kind, i, 2) % 37, 11 + noise(kind, i, 3) % 50
    name, thing = NAMES[noise(kind, i, 4) % 10], THINGS[noise(kind, i, 5) % 10]
    problem = (
        f"{name} from the {kind} club packs {boxes} boxes with {each} {thing} each for the school fair, case {i + 1000}. "
        f"On the way {gone} of the {thing} get lost. How many {thing} arrive at the fair?"
    )
    code = f"def solve():\n    packed = {boxes} * {each}\n    return packed - {gone}"
    return problem, code, boxes * each - gone


def params(root: Path) -> Params:
    """The project's own params, made small, with control arms; written to root/params.yaml."""
    values = yaml.safe_load((REPO / "params.yaml").read_text(encoding="utf-8"))
    values["filter"] |= {"n_accept": 24}
    values["filter"]["solve"] |= {"n_samples": 8, "min_correct": 1, "max_correct": 6}
    values["filter"]["decontaminate"] = {"reject": ["exact"]}
    values["audit"] |= {"sample": 12, "seed": 0, "retries": 1, "votes": 1, "max_tokens": 256}
    values["train"] |= {"problems": 8, "steps": 4, "groups_per_batch": 2, "group_size": 4, "max_tokens": 160}
    values["pilot"] |= {"steps": 2, "eval_items": 5}
    values["eval"] |= {"repeat": True}
    values["arms"] = {
        "rl_gsm8k": {"data": "curated"},
        "rl_selfgen": {"data": "tasks"},
        "rl_random_reward": {"data": "tasks", "reward": "random"},
        "rl_gsm8k_aa": {"data": "curated", "seed": 1},
        "rl_mixed": {"data": "mixed"},
    }
    (root / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return load(root / "params.yaml")


def build(root: Path) -> Params:
    """Write a whole run under `root`; returns its params."""
    p = params(root)
    prepare(root, p)
    filter_tasks(root, p)
    audit_tasks(root, p)
    finish(root, p)
    return p


def prepare(root: Path, p: Params) -> None:
    """What comes before the filter, and the git-tracked rulings, empty."""
    (root / "review" / repair.ROUNDS).mkdir(parents=True, exist_ok=True)
    (root / "review" / repair.ROUNDS / "README.md").write_text("rounds\n")
    for name in (repair.QUARANTINE, repair.ADJUDICATIONS):
        (root / "review" / name).touch()
    for name in yaml.safe_load((REPO / "dvc.yaml").read_text(encoding="utf-8"))["stages"]["code"]["outs"]:
        write_json(root / name, {})
    curated(root, p)
    generate(root, p)


def finish(root: Path, p: Params) -> None:
    """What comes after a passed audit."""
    check_starts(root, p)
    for arm in p.arms:
        select(root, p, arm)
        run_pilot(root, p, arm)
    gate(root, p)
    for arm in p.arms:
        train(root, p, arm)
    for place, arm in enumerate(("base", *p.arms)):
        evaluate(root, p, arm, 0.3 + 0.1 * place)
    decide(root, p)
    report(root, p)
    lock(root)


SERVICE = {"kind": "embedded", "base_url_sha256": None, "models": ["selfgen/policy"]}


def _manifest(root: Path, p: Params, folder: str, stage: str, inputs: list, outputs: list, sections: list[str]) -> None:
    manifest.write(
        f"{folder}/manifest.json", stage=stage, inputs=inputs, outputs=[f"{folder}/{name}" for name in outputs],
        params=p.section(*sections), service=SERVICE, root=root, started=0.0,
    )  # fmt: skip


def curated(root: Path, p: Params) -> None:
    """Stage `curated`."""
    for split, n in (("train", N_TRAIN), ("test", N_TEST), ("transfer", N_TRANSFER)):
        stories = [story(split, i) for i in range(n)]
        name = "outside" if split == "transfer" else f"standin-{split}"
        rows = [CuratedRow(f"{name}-{i:05d}", t, f"#### {a}", str(a)) for i, (t, _, a) in enumerate(stories)]
        write_jsonl(root / f"data/curated/{split}.jsonl", rows)
    _manifest(
        root, p, "data/curated", "curated", [], ["train.jsonl", "test.jsonl", "transfer.jsonl"], ["curated", "transfer"]
    )


def generate(root: Path, p: Params) -> None:
    """Stage `generate`: mostly sound candidates, and one of every kind that must be rejected."""
    rows = []
    for i in range(N_CANDIDATES):
        problem, code, answer = story("model", i)
        if i == 3:
            code = "def solve():\n    return 1 / 0"
        elif i == 5:
            code = code.replace("return packed", "return (packed")
        elif i == 7:
            problem = problem.replace("get lost", f"get lost, so {answer} arrive")
        elif i == 9:
            problem = "Short problem about apples. How many?"
        elif i == 11:
            problem, code, answer = story("test", 4)
        elif i == 13:
            problem, code, answer = story("model", 12)
        text = f"{problem}\n\n```python\n{code}\n```"
        rows.append(Candidate(f"cand-{i:06d}", i, text, len(text) // 4, "stop"))
    write_jsonl(root / "data/generate/candidates.jsonl", rows)
    _manifest(root, p, "data/generate", "generate", [], ["candidates.jsonl"], ["generate", *SAMPLED])


def boxed(answer: object) -> Completion:
    """A finished solution."""
    return Completion(f"We multiply and subtract. \\boxed{{{answer}}}", 12, "stop")


def filter_tasks(root: Path, p: Params) -> None:
    """Stage `filter`."""

    def solve(batch: Iterable[Any]) -> Iterator[list[Completion]]:
        for row in batch:
            right = noise("right", row.problem) % 9
            yield [boxed(row.label if s < right else row.label + 1 + s) for s in range(p.filter.solve.n_samples)]

    found = accept(
        read_jsonl(root / "data/generate/candidates.jsonl", Candidate),
        read_jsonl(root / "data/curated/test.jsonl", CuratedRow),
        root / "data/filter",
        rules=p.filter,
        solve=solve,
        progress=Progress("filter", None),
        quarantined=quarantine.quarantined_ids(root / "review"),
    )
    write_json(root / "metrics/filter.json", found)
    write_json(root / "data/filter/croissant.json", croissant.describe(p, root=root))
    _manifest(
        root, p, "data/filter", "filter",
        ["data/generate/candidates.jsonl", "data/curated/test.jsonl", "review/quarantine.jsonl"],
        ["tasks.jsonl", "rejected.jsonl", "overlap.json", "yields.json", "croissant.json"], ["filter", "train.few_shot", *SAMPLED],
    )  # fmt: skip


def audit_tasks(root: Path, p: Params) -> None:
    """Stage `audit`: a solver that works the problem out; one task takes it two attempts."""

    def solve(conversations: Any, attempt: int) -> Iterator[list[Completion]]:
        for place, messages in enumerate(conversations):
            numbers = [int(n) for n in re.findall(r"\d+", messages[-1]["content"])]
            answer = numbers[0] * numbers[1] - numbers[3]
            yield [Completion("Hmm", 256, "length")] if place == 2 and attempt == 0 else [boxed(f"{answer:,}")]

    tasks = list(read_jsonl(root / "data/filter/tasks.jsonl", Task))
    index = overlap.OverlapIndex.build(read_jsonl(root / "data/curated/test.jsonl", CuratedRow))
    rows, verdict = audit.run(
        tasks,
        solve=solve,
        params=p.audit,
        solver=p.auditor.name,
        few_shot=p.train.few_shot,
        past=repair.past_rounds(root / "review"),
        quarantined=quarantine.quarantined_ids(root / "review"),
        overlap=index.exact,
        counts=audit.count(tasks, read_jsonl(root / "data/filter/rejected.jsonl", Rejection)),
    )
    write_jsonl(root / "data/audit/rows.jsonl", rows)
    write_json(root / "data/audit/audit.json", verdict)
    write_json(root / "data/audit/passed.json", {"passed": verdict["passed"]})
    write_json(root / "metrics/audit.json", {k: v for k, v in verdict.items() if isinstance(v, (int, float))})
    _manifest(
        root, p, "data/audit", "audit",
        ["data/filter/tasks.jsonl", "data/curated/test.jsonl", "review/adjudications.jsonl"],
        ["rows.jsonl", "audit.json"], ["audit", "auditor", "train.few_shot"],
    )  # fmt: skip


def _sent(p: Params, step: int) -> Sent:
    o = p.train.optimizer
    values = {"beta1": o.beta1, "beta2": o.beta2, "eps": o.eps, "grad_clip_norm": 0.0,
              "learning_rate": o.learning_rate, "weight_decay": 0.0}  # fmt: skip
    return Sent(step, o.name, values, p.train.loss_fn, p.train.group_size * p.train.groups_per_batch)


def check_starts(root: Path, p: Params) -> None:
    """Stage `preflight`, with the checks' own functions on made-up logprobs."""
    batch = preflight.fixed_batch()
    before = [[-1.0 for _ in row[1:]] for row in batch]
    after = [[-0.9 for _ in row[1:]] for row in batch]
    tolerance = p.preflight.logprob_tolerance
    found = {s: arms.Start(s, f"tinker://start-{s}", hashlib.sha256(f"start {s}".encode()).hexdigest())
             for s in sorted({p.arm_seed(arm) for arm in p.arms})}  # fmt: skip
    info = SimpleNamespace(
        is_lora=True, lora_rank=p.model.lora_rank, model_data=SimpleNamespace(model_name=p.model.name)
    )
    checks = [preflight.check_batch(batch)]
    for seed in found:
        checks += [
            preflight.check_shape(p, info, seed),
            preflight.check_equal(f"equal_before_update[{seed}]", before, before, tolerance, "two fresh clients"),
            preflight.check_equal(f"equal_after_step[{seed}]", after, after, tolerance, "two clients after a step"),
            preflight.check_moved(f"step_moved_weights[{seed}]", before, after),
        ]
    sent = [_sent(p, 0), _sent(p, 1)]
    checks += [preflight.check_optimizer(p, sent), preflight.check_family(p, None), preflight.check_starts(p, found)]
    optimizer = {"name": sent[0].family, "loss_fn": sent[0].loss_fn, **sent[0].params}
    result = preflight.Preflight(tuple(checks), found, optimizer, None)
    assert result.passed
    write_json(root / "data/preflight/preflight.json", result.to_json())
    starts.write_starts(root / "data/preflight", found, {arm: p.arm_seed(arm) for arm in p.arms})
    _manifest(
        root,
        p,
        "data/preflight",
        "preflight",
        [],
        ["preflight.json", "start.json", "starts"],
        ["preflight", "model.name", "model.lora_rank", "seed", "arms", "train.optimizer", "train.loss_fn"],
    )


def select(root: Path, p: Params, arm: str) -> None:
    """Stage `subset`."""
    problems, about = subset.build(
        p,
        arm,
        curated=list(read_jsonl(root / "data/curated/train.jsonl", CuratedRow)),
        tasks=list(read_jsonl(root / "data/filter/tasks.jsonl", Task)),
    )
    write_jsonl(root / f"data/subset/{arm}.jsonl", problems)
    write_json(root / f"data/subset/{arm}.json", about)


def _rollouts(root: Path, p: Params, arm: str, steps: int, tag: str) -> list[Rollout]:
    problems = list(read_jsonl(root / f"data/subset/{arm}.jsonl", Problem))
    rate = read_json(root / f"data/subset/{arm}.json")["reward_rate"]
    out = []
    for step in range(steps):
        for group in range(p.train.groups_per_batch):
            id = problems[step * p.train.groups_per_batch + group].id
            rows = []
            for s in range(p.train.group_size):
                n = noise(tag, arm, step, group, s)
                correct, format_ = float(n % 2), float(n % 7 > 0)
                reward = correct + 0.1 * (format_ - 1)
                if rate is not None:
                    reward = float(coin(rate, p.arm_seed(arm), step, group, s))
                rows.append(Rollout(step, group, s, id, round(reward, 6), correct, format_, 20 + n % 100))
            rows.sort(key=lambda r: (r.n_tokens, r.correct, r.format, r.reward))
            out += [replace(row, sample=s) for s, row in enumerate(rows)]
    return out


def _trained(root: Path, p: Params, arm: str, steps: int, digest: str) -> arms.Trained:
    rollouts = _rollouts(root, p, arm, steps, f"{steps} steps")
    curve = []
    for step in range(steps):
        rows = [r for r in rollouts if r.step == step]
        figures = {"reward": [r.reward for r in rows], "correct": [r.correct for r in rows],
                   "format": [r.format for r in rows], "response_tokens": [float(r.n_tokens) for r in rows]}  # fmt: skip
        means = {name: round(results.mean(values), 6) for name, values in figures.items()}
        curve.append({"step": step, "prompt_tokens": 90.0, "mixed_groups": round(results.mixed_share(rows), 6),
                      "learning_rate": p.train.optimizer.learning_rate, **means})  # fmt: skip
    sent = [_sent(p, step) for step in range(steps)]
    timing = {"wall_seconds": 3.0, "steps": [{"step": s, "time/total": 1.0} for s in range(steps)]}
    return arms.Trained(arm, digest, "tinker://s", "tinker://t", steps, rollouts, curve, sent, timing)


def run_pilot(root: Path, p: Params, arm: str) -> None:
    """Stage `pilot`."""
    trained = _trained(root, p, arm, p.pilot.steps, "")
    rows = trained.rollouts
    measured = {
        "arm": arm,
        "steps": trained.steps,
        "start_digest": starts.read_start(root / "data/preflight", arm).digest,
        "rollouts": len(rows),
        "groups": len({(r.step, r.group) for r in rows}),
        "mean_reward": round(results.mean([r.reward for r in rows]), 6),
        "mean_correct": round(results.mean([r.correct for r in rows]), 6),
        "mean_format": round(results.mean([r.format for r in rows]), 6),
        "mixed_groups": round(results.mixed_share(rows), 6),
        "problem_ids": list(dict.fromkeys(r.problem_id for r in rows)),
        "mean_prompt_tokens": 90.0,
        "mean_response_tokens": results.mean([float(r.n_tokens) for r in rows]),
    }
    timing = {"wall_seconds": 4.0, "step_seconds": [1.0] * trained.steps, "overhead_seconds": 0.5,
              "rollout_prompt_tokens": 90.0 * len(rows), "rollout_sampled_tokens": sum(r.n_tokens for r in rows),
              "eval_items": 5, "eval_seconds": 1.0, "eval_prompt_tokens": 450, "eval_sampled_tokens": 200}  # fmt: skip
    folder = f"data/pilot/{arm}"
    write_json(root / f"metrics/pilot/{arm}.json", pilot.write(root / folder, pilot.Pilot(trained, measured, timing)))
    _manifest(
        root, p, folder, f"pilot@{arm}",
        [f"data/subset/{arm}.jsonl", f"data/preflight/starts/{arm}.json", "data/audit/passed.json"],
        ["rollouts.jsonl", "pilot.json"], ["pilot", "model", "seed", f"arms.{arm}", *STEP],
    )  # fmt: skip


def gate(root: Path, p: Params) -> None:
    """Stage `gate`."""
    report = gates.evaluate_and_write(p.gate, root)
    timings = {arm: read_json(root / f"data/pilot/{arm}/timing.json") for arm in p.arms}
    feasibility = budget.project(p, timings, N_TEST)
    write_json(root / "metrics/feasibility.json", feasibility)
    write_json(root / "data/gate/passed.json", {"passed": report.passed and feasibility["status"] != "over_budget"})
    report.raise_if_failed()


def train(root: Path, p: Params, arm: str) -> None:
    """Stage `train`, with an adapter of made-up weights."""
    from safetensors.numpy import save_file

    folder = root / f"data/train/{arm}"
    (folder / "adapter").mkdir(parents=True, exist_ok=True)
    weights = numpy.array([noise(arm, i) % 1000 for i in range(16)], numpy.float32).reshape(4, 4)
    save_file({"base_model.model.layer.lora_A.weight": weights}, folder / "adapter/adapter_model.safetensors")
    write_json(folder / "adapter/adapter_config.json", {"r": p.model.lora_rank, "peft_type": "LORA"})
    start = starts.read_start(root / "data/preflight", arm)
    trained = _trained(root, p, arm, p.train.steps, adapter_digest(folder / "adapter"))
    write_json(root / f"metrics/train/{arm}.json", arms.write(folder, p, trained, start))
    _manifest(
        root, p, f"data/train/{arm}", f"train@{arm}",
        [f"data/subset/{arm}.jsonl", f"data/subset/{arm}.json", f"data/preflight/starts/{arm}.json"],
        ["checkpoint.json", "rollouts.jsonl", "curve.jsonl", "optim.jsonl", "adapter"], ["model", "seed", f"arms.{arm}", "train.steps", *STEP],
    )  # fmt: skip


def evaluate(root: Path, p: Params, arm: str, skill: float) -> None:
    """Stage `eval`, twice: the second time one answer comes out differently."""
    folder, measured = root / f"data/eval/{arm}", {}
    for name, split in (("rows", "test"), ("transfer", "transfer")):
        rows = []
        for item in read_jsonl(root / f"data/curated/{split}.jsonl", CuratedRow):
            n = noise("eval", arm, item.id) % 100
            text = Completion("I do not know", 5, "stop") if n == 99 else boxed(int(item.answer) + (n >= 100 * skill))
            rows.append(graded(item, arm, text))
        write_jsonl(folder / f"{name}.jsonl", rows)
        measured[name] = rows
        if name == "rows":
            other = graded(next(iter(read_jsonl(root / "data/curated/test.jsonl", CuratedRow))), arm, boxed(-1))
            write_jsonl(folder / "rows_again.jsonl", [other, *rows[1:]])
    write_json(folder / "timing.json", {"seconds": 1.0})
    write_json(root / f"metrics/eval/{arm}.json", metrics(measured["rows"], measured["transfer"]))
    trained = [] if arm == "base" else [f"data/train/{arm}/checkpoint.json"]
    _manifest(
        root, p, f"data/eval/{arm}", f"eval@{arm}", ["data/curated/test.jsonl", "data/curated/transfer.jsonl", *trained], ["rows.jsonl", "rows_again.jsonl", "transfer.jsonl"],
        ["eval", *SAMPLED],
    )  # fmt: skip


def decide(root: Path, p: Params) -> None:
    """Stage `decide`."""
    decision = decide_files(p, root / "data", root)
    write_json(root / "data/decide/decision.json", decision)
    paths = {arm: root / f"data/eval/{arm}/rows.jsonl" for arm in ("base", *p.arms)}
    graders = {arm: of_rows(read_jsonl(path, EvalRow)) for arm, path in paths.items()}
    write_json(root / "data/decide/graders.json", graders)
    kept = ("estimate", "lower", "upper", "margin", "verdict")
    write_json(
        root / "metrics/decision.json",
        {
            "verdict": decision["verdict"],
            "n": decision["n"],
            "accuracy": {arm: row["accuracy"] for arm, row in decision["accuracies"].items()},
            "criteria": {row["id"]: {key: row[key] for key in kept} for row in decision["criteria"]},
            "graders_agree": {arm: found["agree"] for arm, found in graders.items()},
        },
    )


def report(root: Path, p: Params) -> None:
    """The part of stage `report` that makes claims."""
    plan = spec.fill(
        p,
        feasibility=read_json(root / "metrics/feasibility.json"),
        gate=read_json(root / "data/gate/gate.json"),
        n_items=N_TEST,
    )
    write_json(root / "reports/experiment.json", plan)
