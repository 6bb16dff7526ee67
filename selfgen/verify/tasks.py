"""Claims about the tasks: labels are executed again, filters applied again, overlaps counted again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator

from selfgen.errors import YieldError
from selfgen.evaluation.grading import grade
from selfgen.records import Candidate, Completion, Rejection, Task, dumps, to_dict
from selfgen.tasks import croissant, filters, overlap, quarantine, yields
from selfgen.tasks.label import Labelled
from selfgen.tasks.sandbox import Sandbox
from selfgen.verify.run import Run, broken, expect

CANDIDATES, TASKS, REJECTED, DESCRIPTION, YIELDS = (
    "data/generate/candidates.jsonl",
    "data/filter/tasks.jsonl",
    "data/filter/rejected.jsonl",
    "data/filter/croissant.json",
    "data/filter/yields.json",
)
# Opens the text of a sample that was taken but not kept; what follows are the labels it answers.
_STAND_IN = "\0selfgen:"
# Reasons whose evidence names a time or a size that another machine measures differently.
_MEASURED = frozenset({"execution_timeout", "execution_memory", "execution_crash"})


def candidates(run: Run) -> str:
    """Candidates are numbered in generation order, each once."""
    rows = run.rows(CANDIDATES, Candidate)
    for index, row in enumerate(rows):
        if (row.id, row.index) != (f"cand-{index:06d}", index):
            raise broken(f"{CANDIDATES}: row {index} is {row.id} with index {row.index}")
    return f"{len(rows)} candidates"


def labels(run: Run) -> str:
    """Every accepted label is what solve() returns in the sandbox, and every task id is the hash of text and label."""
    tasks = run.tasks
    with Sandbox(2) as sandbox:
        outcomes = list(sandbox.map(lambda task: sandbox.run(task.code), tasks))
    for task, outcome in zip(tasks, outcomes, strict=True):
        if outcome.status != "ok" or outcome.value != task.label:
            got = outcome.value if outcome.status == "ok" else outcome.status
            raise broken(f"{task.id}: label {task.label}, but solve() gives {got}")
        if task.id != filters.task_id(task.problem, task.label):
            raise broken(f"{task.id}: not the id of its problem and label")
    return f"{len(tasks)} programs run again"


def filtering(run: Run) -> str:
    """Applying the filters again to the candidates gives exactly the accepted and rejected rows, in order."""
    tasks, rejected = run.tasks, run.rows(REJECTED, Rejection)
    if len(tasks) != run.params.filter.n_accept:
        raise broken(f"{TASKS} holds {len(tasks)} tasks, filter.n_accept is {run.params.filter.n_accept}")
    replayed = filters.run(
        run.rows(CANDIDATES, Candidate),
        rules=run.params.filter,
        overlap=run.index,
        solve=_recorded_samples(tasks, rejected, run.params.filter.solve.n_samples),
        grade=_grade,
        quarantined=quarantine.quarantined_ids(run.root / "review"),
    )
    waiting: dict[type, Iterator[Task | Rejection]] = {Task: iter(tasks), Rejection: iter(rejected)}
    judged = 0
    try:
        for row in replayed:
            judged += 1
            kind = type(row)
            recorded = next(waiting[kind], None)
            if recorded is None:
                other = "accepted" if kind is Task else f"rejected ({row.reason})"  # type: ignore[union-attr]
                raise broken(f"candidate {row.index}: {other} when filtered again, but no row says so")
            _same(recorded, row)
    except YieldError as error:
        raise broken(f"filtered again, the candidates do not fill the set: {error}") from None
    for kind, rest in waiting.items():
        if (extra := next(rest, None)) is not None:
            raise broken(f"{TASKS if kind is Task else REJECTED}: {extra.candidate_id} is a row too many")
    return f"{judged} candidates judged again, {len(tasks)} accepted"


def overlaps(run: Run) -> str:
    """No accepted task equals an evaluation question, and every detector finds what overlap.json says."""
    found = overlap.summarise(run.tasks, run.index, run.params.filter.decontaminate.reject)
    expect(run.json("data/filter/overlap.json"), found, "data/filter/overlap.json")
    if found["generated_eval_exact_overlaps"] > run.params.audit.max_eval_overlaps:
        raise broken(f"{found['generated_eval_exact_overlaps']} accepted tasks equal an evaluation question")
    return f"{found['accepted']} tasks against {found['curated_questions']} questions"


def funnel(run: Run) -> str:
    """The counts and the portrait of the set that the filter published are those of its rows."""
    tasks, rejected = run.tasks, run.rows(REJECTED, Rejection)
    made = run.json(YIELDS)
    portrait = yields.summarise(tasks, rejected, run.params.filter.solve.n_samples, run.test_rows)
    expect({key: made.get(key) for key in portrait}, portrait, YIELDS)
    judged = len(tasks) + len(rejected)
    proposed = sum(row.n_tokens for row in run.rows(CANDIDATES, Candidate)[:judged])
    expect(made["cost"]["proposal_tokens"], proposed, f"{YIELDS}: cost")
    exact = run.json("data/filter/overlap.json")
    wanted = {
        "candidates_judged": judged,
        "accepted": len(tasks),
        "yield": len(tasks) / judged,
        "rejected": dict(Counter(row.reason for row in rejected)),
        "generated_eval_exact_overlaps": exact["generated_eval_exact_overlaps"],
        "overlap_hits": exact["hits"],
        **yields.headline(made),
    }
    expect(run.json("metrics/filter.json"), wanted, "metrics/filter.json")
    return f"{judged} candidates, {len(rejected)} rejected for {len(wanted['rejected'])} reasons"


def description(run: Run) -> str:
    """The Croissant description of the task set names this file, its hash and its fields."""
    said = run.json(DESCRIPTION)
    expect(said, croissant.describe(run.params, TASKS, run.root), DESCRIPTION)
    return f"{len(said['recordSet'][0]['field'])} fields"


def _recorded_samples(tasks: list[Task], rejected: list[Rejection], n: int) -> filters.Solve:
    """Samples as they were recorded, by problem: the filter samples equal texts of one window once.

    An accepted task kept its samples' texts. A rejected candidate kept only its count, so its samples are stood in
    for by the labels that they answer. One past the last accepted candidate may be asked for too; its answer does
    not matter.
    """
    kept = {task.problem: list(task.solutions) for task in reversed(tasks)}
    own = {task.candidate_id: list(task.solutions) for task in tasks}
    counts: dict[str, dict[int, int]] = {}
    for row in rejected:
        if row.n_correct is not None and row.problem is not None and row.label is not None:
            counts.setdefault(row.problem, {})[row.label] = row.n_correct

    def solve(batch: Iterable[Labelled]) -> Iterator[list[Completion]]:
        for row in batch:
            texts = own.get(row.candidate.id) or kept.get(row.problem)
            if texts is None:
                right = counts.get(row.problem, {})
                texts = [_STAND_IN + dumps([label for label, k in right.items() if i < k]) for i in range(n)]
            yield [Completion(text, 0, "stop") for text in texts]

    return solve


def _grade(text: str, label: int) -> bool:
    if text.startswith(_STAND_IN):
        return label in json.loads(text.removeprefix(_STAND_IN))
    return grade(text, str(label)).correct


def _same(recorded: Task | Rejection, again: Task | Rejection) -> None:
    if recorded == again:
        return
    where = f"candidate {again.index} ({recorded.candidate_id})"
    says, should = to_dict(recorded), to_dict(again)
    if isinstance(again, Rejection) and again.reason in _MEASURED and says["reason"] == again.reason:
        should["detail"] = says["detail"]
    for field in says:
        if dumps(says[field]) != dumps(should[field]):
            expect(says[field], should[field], f"{where}: {field}")
