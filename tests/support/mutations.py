"""Single edits to a run's artifacts that change what they claim, and which claim must notice each.

A mutation is applied in two ways. As it is, the file no longer has the hash that dvc.lock records. Forged, every
manifest and dvc.lock are rewritten to fit (`locking.reforge`), and only the meaning of the artifacts is left to
give the edit away. `claim` names the check that must fail then; None where nothing but a hash can tell.

`python -m tests.support.mutations FOLDER` prints the table for any run.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfgen.records import read_json, write_json, write_jsonl
from selfgen.tasks.filters import task_id
from selfgen.verify import audits, claims, files, results, tasks, training
from selfgen.verify.run import Run
from tests.support import locking
from tests.support.edits import (
    Row,
    assign,
    cut,
    double,
    drop,
    edit_json,
    edit_lock,
    edit_params,
    edit_rows,
    empty,
    exchange,
    put,
    remove,
    rows,
    swap,
)

TREATMENT, BASELINE = "rl_selfgen", "rl_gsm8k"


@dataclass(frozen=True)
class Mutation:
    """One edit; `claim` is the check that must fail even when all hashes are forged to fit."""

    name: str
    apply: Callable[[Path], None]
    claim: Callable[[Run], str] | None


def relabel(found: list[Row]) -> None:
    """A wrong label with a fitting id."""
    found[1]["label"] += 1
    found[1]["id"] = task_id(found[1]["problem"], found[1]["label"])


def recode(found: list[Row]) -> None:
    """A wrong label with code that returns it and a fitting id."""
    relabel(found)
    found[1]["code"] = f"def solve():\n    return {found[1]['label']}\n"


def invent(found: list[Row]) -> None:
    """A task that no candidate proposed."""
    problem = found[2]["problem"] + " Everyone is happy about it."
    found[2] |= {"problem": problem, "id": task_id(problem, found[2]["label"])}


def promote(root: Path) -> None:
    """A candidate rejected by pass rate stands among the tasks, in place of the last one."""
    found, rejected = rows(root, tasks.TASKS), rows(root, tasks.REJECTED)
    place = next(i for i, row in enumerate(rejected) if row["reason"].startswith("pass_rate"))
    row = rejected.pop(place)
    found[-1] = found[-1] | {"candidate_id": row["candidate_id"], "index": row["index"], "problem": row["problem"],
                             "code": row["code"], "label": row["label"], "id": task_id(row["problem"], row["label"])}  # fmt: skip
    write_jsonl(root / tasks.TASKS, found)
    write_jsonl(root / tasks.REJECTED, rejected)


def contaminate(root: Path) -> None:
    """An evaluation question among the tasks."""
    found = rows(root, tasks.TASKS)
    question = rows(root, "data/curated/test.jsonl")[0]
    label = int(question["answer"])
    found[0] |= {"problem": question["question"], "label": label, "id": task_id(question["question"], label),
                 "code": f"def solve():\n    return {label}\n"}  # fmt: skip
    write_jsonl(root / tasks.TASKS, found)


def wrong_solution(found: list[Row]) -> None:
    """A right sample of an accepted task becomes a wrong one."""
    row = next(r for r in found if r["n_correct"])
    i = next(i for i, text in enumerate(row["solutions"]) if f"{{{row['label']}}}" in text)
    row["solutions"][i] = row["solutions"][i].replace(f"{{{row['label']}}}", f"{{{row['label'] + 1}}}")


def cherry_pick(root: Path) -> None:
    """An audited task is exchanged for one that was not drawn."""
    audited, found = rows(root, audits.ROWS), rows(root, tasks.TASKS)
    other = next(t for t in found if t["id"] not in {row["task_id"] for row in audited})
    audited[0] |= {"task_id": other["id"], "problem": other["problem"], "label": other["label"],
                   "answer": str(other["label"]), "attempts": [f"\\boxed{{{other['label']}}}"], "stop_reasons": ["stop"]}  # fmt: skip
    write_jsonl(root / audits.ROWS, audited)


def hide_disagreement(found: list[Row]) -> None:
    """The worked solution says another number than the row."""
    found[3]["attempts"][-1] = f"So the answer is \\boxed{{{found[3]['label'] + 7}}}"


def soften(found: list[Row]) -> None:
    """Solution and answer disagree with the label, the outcome still says they agree."""
    hide_disagreement(found)
    found[3]["answer"] = str(found[3]["label"] + 7)


def pardon(found: list[Row]) -> None:
    """A disagreement is adjudicated, but no ruling is on record."""
    soften(found)
    found[3] |= {"outcome": "disagree", "adjudication": "the solver misread the problem"}


def quarantine_present(root: Path) -> None:
    """A task that is still in the set is on the quarantine list."""
    row = rows(root, tasks.TASKS)[0]
    entry = {"id": row["id"], "problem": row["problem"], "label": row["label"], "reason": "label_error",
             "answer": "1", "solution": "", "round": 1}  # fmt: skip
    write_jsonl(root / "review/quarantine.jsonl", [entry])


def preflight_check(name: str, **changes: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        next(check for check in value["checks"] if check["name"].startswith(name)).update(changes)

    return change


def same_weights(root: Path) -> None:
    """Both compared arms have one checkpoint."""
    source, target = root / f"data/train/{BASELINE}", root / f"data/train/{TREATMENT}"
    shutil.rmtree(target / "adapter")
    shutil.copytree(source / "adapter", target / "adapter")
    digest = read_json(source / "checkpoint.json")["digest"]
    write_json(target / "checkpoint.json", read_json(target / "checkpoint.json") | {"digest": digest})


def untrained(root: Path) -> None:
    """The checkpoint's digest is that of the start."""
    path = root / f"data/train/{TREATMENT}/checkpoint.json"
    said = read_json(path)
    write_json(path, said | {"digest": said["start_digest"]})


def flip_weight(root: Path) -> None:
    """One bit of an adapter's weights."""
    path = root / f"data/train/{TREATMENT}/adapter/adapter_model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def plot(root: Path) -> None:
    """The curve that is drawn ends elsewhere than the curve that was measured."""
    path = root / f"data/train/{TREATMENT}/curve.csv"
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")


def rename_arm(root: Path) -> None:
    """The treatment's rows are the base model's, under the treatment's name."""
    found = [row | {"arm": TREATMENT} for row in rows(root, "data/eval/base/rows.jsonl")]
    write_jsonl(root / f"data/eval/{TREATMENT}/rows.jsonl", found)


def better_answer(found: list[Row]) -> None:
    """A wrong item gets a right completion and is marked right: consistent, so only a hash can tell."""
    row = next(r for r in found if not r["correct"])
    row |= {"completion": f"\\boxed{{{row['answer']}}}", "extracted": row["answer"], "correct": True}


def second_evaluation(root: Path) -> None:
    """A completion of the second evaluation is another one; where there was none, the first one's rows are called it."""
    found = rows(root, f"data/eval/{BASELINE}/rows_again.jsonl") or rows(root, _eval(BASELINE))
    found[4]["completion"] = "\\boxed{-98}"
    write_jsonl(root / f"data/eval/{BASELINE}/rows_again.jsonl", found)


def noisier(value: Any) -> None:
    """Greedy decoding flips more answers than were seen to flip."""
    value["noise_floor"]["evaluated_twice"]["base"] = {"n": 4, "flip_rate": 0.5, "net": 0.0}


def hide_second_grader(value: Any) -> None:
    """A completion that both graders call wrong is counted as right by both."""
    found = value[TREATMENT]
    found |= {"both_correct": found["both_correct"] + 1, "both_wrong": found["both_wrong"] - 1}


def _eval(arm: str) -> str:
    return f"data/eval/{arm}/rows.jsonl"


def _train(arm: str, name: str) -> str:
    return f"data/train/{arm}/{name}"


PREFLIGHT, GATE = "data/preflight/preflight.json", "data/gate/gate.json"

MUTATIONS: tuple[Mutation, ...] = (
    Mutation("label changed", edit_rows(tasks.TASKS, put(1, "label", lambda v: v + 1)), tasks.labels),
    Mutation("label changed, id fitted", edit_rows(tasks.TASKS, relabel), tasks.labels),
    Mutation("label and code changed, id fitted", edit_rows(tasks.TASKS, recode), tasks.filtering),
    Mutation("problem text changed", edit_rows(tasks.TASKS, put(2, "problem", lambda v: v + " Hurry!")), tasks.labels),
    Mutation("task invented", edit_rows(tasks.TASKS, invent), tasks.filtering),
    Mutation("task dropped", edit_rows(tasks.TASKS, drop(4)), tasks.filtering),
    Mutation("task duplicated", edit_rows(tasks.TASKS, double(4)), tasks.filtering),
    Mutation("tasks out of generation order", edit_rows(tasks.TASKS, swap(3, 4)), tasks.filtering),
    Mutation("rejected candidate promoted", promote, tasks.filtering),
    Mutation("evaluation question among the tasks", contaminate, tasks.overlaps),
    Mutation("pass count edited", edit_rows(tasks.TASKS, put(0, "n_correct", lambda v: v % 6 + 1)), tasks.filtering),
    Mutation("sampled solution edited", edit_rows(tasks.TASKS, wrong_solution), tasks.filtering),
    Mutation("rejection dropped", edit_rows(tasks.REJECTED, drop(2)), tasks.filtering),
    Mutation("rejection reason edited", edit_rows(tasks.REJECTED, put(0, "reason", "too_short")), tasks.filtering),
    Mutation("candidate text edited", edit_rows(tasks.CANDIDATES, put(1, "text", lambda v: "Note: " + v)), tasks.filtering),
    Mutation("candidate dropped", edit_rows(tasks.CANDIDATES, drop(1)), tasks.candidates),
    Mutation("overlap count edited", edit_json("data/filter/overlap.json", assign("hits.ngram", lambda v: v + 1)), tasks.overlaps),
    Mutation("description names another file", edit_json(tasks.DESCRIPTION, assign("distribution.0.sha256", "0" * 64)), tasks.description),
    Mutation("portrait of the set edited", edit_json(tasks.YIELDS, assign("difficulty.mean_pass_rate", 0.5)), tasks.funnel),
    Mutation("yield metric edited", edit_json("metrics/filter.json", assign("yield", 0.99)), tasks.funnel),
    Mutation("curated train answers edited", edit_rows("data/curated/train.jsonl", lambda f: [r.update(answer="7") for r in f]), training.problems),
    Mutation("evaluation answer edited", edit_rows("data/curated/test.jsonl", put(3, "answer", "7")), results.items),
    Mutation("evaluation item dropped", edit_rows("data/curated/test.jsonl", drop(5)), results.items),
    Mutation("audited task exchanged", cherry_pick, audits.audit_rows),
    Mutation("audit row dropped", edit_rows(audits.ROWS, drop(2)), audits.audit_rows),
    Mutation("audit row duplicated", edit_rows(audits.ROWS, double(2)), audits.audit_rows),
    Mutation("worked solution edited", edit_rows(audits.ROWS, hide_disagreement), audits.audit_rows),
    Mutation("disagreement called agreement", edit_rows(audits.ROWS, soften), audits.audit_rows),
    Mutation("adjudication without a ruling", edit_rows(audits.ROWS, pardon), audits.audit_rows),
    Mutation("auditor renamed", edit_rows(audits.ROWS, put(0, "solver", "a/larger-model")), audits.audit_rows),
    Mutation("audit bound edited", edit_json(audits.VERDICT, assign("error_rate_upper_bound", 0.001)), audits.audit_verdict),
    Mutation("audit of another task set", edit_json(audits.VERDICT, assign("tasks_sha256", "0" * 64)), audits.gate),
    Mutation("audit sample lowered in params", edit_params(assign("audit.sample", 3)), audits.audit_rows),
    Mutation("quarantined task still in the set", quarantine_present, audits.repairs),
    Mutation("preflight difference over tolerance", edit_json(PREFLIGHT, preflight_check("equal_after_step", measured=0.5)), training.starts),
    Mutation("preflight tolerance widened", edit_json(PREFLIGHT, preflight_check("equal_before", tolerance=9.0)), training.starts),
    Mutation("preflight check removed", edit_json(PREFLIGHT, lambda v: v["checks"].pop(2)), training.starts),
    Mutation("preflight optimizer edited", edit_json(PREFLIGHT, assign("optimizer.learning_rate", 0.5)), training.starts),
    Mutation("an arm's start edited", edit_json(f"data/preflight/starts/{TREATMENT}.json", assign("digest", "0" * 64)), training.starts),
    Mutation("start digest edited", edit_json("data/preflight/start.json", assign("0", "0" * 64)), training.starts),
    Mutation("training problems out of order", edit_rows(f"data/subset/{BASELINE}.jsonl", swap(0, 1)), training.problems),
    Mutation("foreign training problem", edit_rows(f"data/subset/{TREATMENT}.jsonl", put(0, "id", "task-0000000000000000")), training.problems),
    Mutation("training answer edited", edit_rows(f"data/subset/{TREATMENT}.jsonl", put(0, "answer", "1")), training.problems),
    Mutation("foreign id in a pilot batch", edit_rows(f"data/pilot/{TREATMENT}/rollouts.jsonl", put(0, "problem_id", "gsm8k-train-00001")), training.batches),
    Mutation("foreign id in a training batch", edit_rows(_train(TREATMENT, "rollouts.jsonl"), put(5, "problem_id", "gsm8k-train-00001")), training.batches),
    Mutation("arms' rollouts swapped", exchange(_train(TREATMENT, "rollouts.jsonl"), _train(BASELINE, "rollouts.jsonl")), training.sources),
    Mutation("reward edited", edit_rows(_train(TREATMENT, "rollouts.jsonl"), put(3, "reward", lambda v: v + 0.5)), training.rewards),
    Mutation("rollout dropped", edit_rows(_train(TREATMENT, "rollouts.jsonl"), drop(0)), training.batches),
    Mutation("last training step dropped", edit_rows(_train(BASELINE, "rollouts.jsonl"), lambda f: f.__delitem__(slice(-4, None))), training.batches),
    Mutation("training curve edited", edit_rows(_train(TREATMENT, "curve.jsonl"), put(-1, "reward", 0.99)), training.measured),
    Mutation("plotted curve edited", plot, training.measured),
    Mutation("pilot mean edited", edit_json(f"data/pilot/{TREATMENT}/pilot.json", assign("mean_reward", 0.51)), training.measured),
    Mutation("training metric edited", edit_json(f"metrics/train/{TREATMENT}.json", assign("reward_last", 0.99)), training.measured),
    Mutation("learning rate sent edited", edit_rows(_train(TREATMENT, "optim.jsonl"), lambda f: f[1]["params"].update(learning_rate=0.1)), training.optimizer),
    Mutation("loss sent edited", edit_rows(_train(TREATMENT, "optim.jsonl"), put(0, "loss_fn", "ppo")), training.optimizer),
    Mutation("optimizer step dropped", edit_rows(_train(TREATMENT, "optim.jsonl"), drop(1)), training.optimizer),
    Mutation("optimizer step duplicated", edit_rows(_train(BASELINE, "optim.jsonl"), double(1)), training.optimizer),
    Mutation("two arms with one checkpoint", same_weights, training.checkpoints),
    Mutation("checkpoint equals its start", untrained, training.checkpoints),
    Mutation("one bit of the weights", flip_weight, training.checkpoints),
    Mutation("checkpoint start edited", edit_json(_train(TREATMENT, "checkpoint.json"), assign("start_digest", "0" * 64)), training.checkpoints),
    Mutation("checkpoint steps edited", edit_json(_train(TREATMENT, "checkpoint.json"), assign("steps", 99)), training.checkpoints),
    Mutation("gate value edited", edit_json(GATE, assign("checks.2.value", 0.99)), audits.gate),
    Mutation("gate bound loosened in the report", edit_json(GATE, assign("checks.3.max", 0.99)), audits.gate),
    Mutation("gate bound loosened in params", edit_params(assign("gate.selfgen_mean_train_reward_pilot.max", 0.99)), audits.gate),
    Mutation("gate metric edited", edit_json("metrics/gate.json", assign("generated_eval_exact_overlaps", 1.0)), audits.gate),
    Mutation("projected cost edited", edit_json("metrics/feasibility.json", assign("gpu_hours", 0.001)), audits.feasibility),
    Mutation("item's grade flipped", edit_rows(_eval(TREATMENT), put(0, "correct", lambda v: not v)), results.items),
    Mutation("completion edited", edit_rows(_eval(TREATMENT), put(0, "completion", "\\boxed{-99}")), results.items),
    Mutation("completion, extraction and grade edited together", edit_rows(_eval(TREATMENT), better_answer), results.verdict),
    Mutation("evaluation row dropped", edit_rows(_eval(TREATMENT), drop(7)), results.items),
    Mutation("evaluation row duplicated", edit_rows(_eval("base"), double(7)), results.items),
    Mutation("evaluation rows out of order", edit_rows(_eval(BASELINE), swap(0, 1)), results.items),
    Mutation("arms' evaluations swapped", exchange(_eval(TREATMENT), _eval("base")), results.items),
    Mutation("base's rows under the treatment's name", rename_arm, results.verdict),
    Mutation("token count over the limit", edit_rows(_eval(BASELINE), put(0, "n_tokens", 10**6)), results.items),
    Mutation("transfer item's grade flipped", edit_rows(f"data/eval/{TREATMENT}/transfer.jsonl", put(0, "correct", lambda v: not v)), results.items),
    Mutation("accuracy metric edited", edit_json(f"metrics/eval/{TREATMENT}.json", assign("accuracy", 0.9)), results.items),
    Mutation("verdict edited", edit_json("data/decide/decision.json", assign("verdict", lambda v: "failed" if v == "validated" else "validated")), results.verdict),
    Mutation("margin edited in the decision", edit_json("data/decide/decision.json", assign("criteria.0.margin", -0.2)), results.verdict),
    Mutation("margin edited in params", edit_params(assign("decision.criteria.0.margin", -0.5)), results.verdict),
    Mutation("alpha edited in params", edit_params(assign("decision.alpha", 0.5)), results.verdict),
    Mutation("weight edited in params", edit_params(assign("decision.criteria.1.weights.base", -1.5)), results.verdict),
    Mutation("published verdict edited", edit_json("metrics/decision.json", assign("verdict", "proven")), results.verdict),
    Mutation("sensitivity analysis edited", edit_json("data/decide/decision.json", assign("sensitivity.criteria.0.estimate", 0.9)), results.sensitivity),
    Mutation("second evaluation's completion edited", second_evaluation, results.items),
    Mutation("flip rate edited", edit_json("data/decide/decision.json", noisier), results.sensitivity),
    Mutation("graders' disagreement hidden", edit_json(results.GRADERS, hide_second_grader), results.graders),
    Mutation("graders' agreement metric edited", edit_json("metrics/decision.json", assign("graders_agree.base", 0.5)), results.graders),
    Mutation("deviation from the plan hidden", edit_json("reports/experiment.json", lambda v: v["deviations"].pop()), results.report),
    Mutation("gate value edited in the filled plan", edit_json("reports/experiment.json", assign("activation_gate.checks.3.value", 0.5)), results.report),
    Mutation("arm's seed changed in params", edit_params(assign("seed", 5)), training.problems),
    Mutation("file cut off", cut(_eval(TREATMENT)), files.rows),
    Mutation("field removed from every row", edit_rows(_eval("base"), lambda f: [r.pop("extracted") for r in f]), files.rows),
    Mutation("field of the wrong type", edit_rows(tasks.TASKS, put(0, "label", lambda v: str(v))), files.rows),
    Mutation("file emptied", empty(_eval("base")), results.items),
    Mutation("file removed", remove("data/audit/rows.jsonl"), None),
    Mutation("manifest names another hash", edit_json("data/filter/manifest.json", assign("subject.0.digest.sha256", "0" * 64)), None),
    Mutation("manifest names other row count", edit_json("data/eval/base/manifest.json", assign("subject.0.annotations.rows", 9)), None),
    Mutation("manifest names other params", edit_json("data/filter/manifest.json", assign("predicate.params.filter.min_words", 1)), files.manifests),
    Mutation("manifest of another predicate", edit_json("data/audit/manifest.json", assign("predicateType", "urn:other")), files.manifests),
    Mutation("manifest without inputs", edit_json("data/audit/manifest.json", lambda v: v["predicate"].pop("inputs")), None),
    Mutation("dvc.lock hash edited", edit_lock(lambda s: s["filter"]["outs"][0].update(md5="0" * 32)), None),
    Mutation("dvc.lock input edited", edit_lock(lambda s: s["audit"]["deps"][0].update(md5="0" * 32)), None),
    Mutation("dvc.lock param edited", edit_lock(lambda s: s["filter"]["params"]["params.yaml"].update(filter={})), None),
)  # fmt: skip

FILE_CLAIMS = (files.complete, files.hashes, files.chain, files.params, files.rows, files.manifests, files.provenance)


def caught(root: Path, mutation: Mutation) -> Iterator[tuple[str, claims.Claim | None]]:
    """("plain", first failed claim) and, where the mutation has a claim, ("forged", it if failed), on a copy of `root`."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "run"
        shutil.copytree(root, copy)
        mutation.apply(copy)
        yield "plain", _first_failed(copy, FILE_CLAIMS)
        if mutation.claim is not None:
            locking.reforge(copy)
            yield "forged", _first_failed(copy, (mutation.claim,))


def _first_failed(root: Path, checks: Sequence[Callable[[Run], str]]) -> claims.Claim | None:
    return next((claim for claim in claims.check(Run(root), checks) if claim.status == claims.FAILED), None)


def evidence(root: Path, target: Path) -> Path:
    """A copy of a run's evidence alone, without checkout, cache and environment."""
    for name in ("params.yaml", "dvc.lock"):
        shutil.copy(root / name, target / name)
    for name in ("data", "metrics", "reports", "review", "prereg"):
        if (root / name).exists():
            shutil.copytree(root / name, target / name)
    return target


def main(root: Path) -> int:
    """Print the table; returns how many were missed."""
    missed = 0
    with tempfile.TemporaryDirectory() as name:
        run = evidence(root, Path(name))
        for number, mutation in enumerate(MUTATIONS, start=1):
            for mode, found in caught(run, mutation):
                missed += found is None
                how = f"{found.name}: {found.detail}" if found else "MISSED"
                print(f"{number:3} {mutation.name:48} {mode:6} {how[:140]}", flush=True)
    print(f"{len(MUTATIONS)} mutations, {missed} missed")
    return missed


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1])) else 0)
