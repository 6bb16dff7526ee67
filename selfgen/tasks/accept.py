"""From candidate rows on disk to accepted and rejected rows on disk, with the funnel as metrics."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonlines

from selfgen.evaluation.grading import grade
from selfgen.params import FilterParams
from selfgen.progress import Progress
from selfgen.records import Candidate, CuratedRow, Rejection, Task, dumps, read_jsonl, replace_file, to_dict, write_json
from selfgen.tasks import filters, overlap, yields


def accept(
    candidates: Iterable[Candidate],
    questions: Iterable[CuratedRow],
    out: Path,
    *,
    rules: FilterParams,
    solve: filters.Solve,
    progress: Progress,
    quarantined: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Filter candidates into `out`/{tasks,rejected}.jsonl, overlap.json and yields.json; returns the funnel.

    Args:
        candidates: in generation order; read lazily, and not further than needed.
        questions: the evaluation questions that no task may overlap.
        quarantined: task ids that an audit set aside.

    Rows are written as they are decided, so memory is flat. When the set cannot be filled, the rejected rows are
    written all the same, so that the reasons can be read, and no tasks file is.

    Raises:
        YieldError: fewer than `rules.n_accept` were accepted.
    """
    index = overlap.OverlapIndex.build(questions)
    spent, proposed = yields.Spent(), array("q")

    def counted() -> Iterator[Candidate]:
        for candidate in candidates:
            proposed.append(candidate.n_tokens)
            yield candidate

    rows = filters.run(
        counted(),
        rules=rules,
        overlap=index,
        solve=spent.metered(solve),
        grade=lambda text, label: grade(text, str(label)).correct,
        quarantined=quarantined,
    )
    with replace_file(out / "tasks.jsonl") as tasks:
        reasons = _split(rows, tasks, out / "rejected.jsonl", progress, spent)
    accepted = list(read_jsonl(out / "tasks.jsonl", Task))
    summary = overlap.summarise(accepted, index, rules.decontaminate.reject)
    write_json(out / "overlap.json", summary)
    judged = rules.n_accept + sum(reasons.values())
    made = {
        "cost": yields.cost(rules.n_accept, sum(proposed[:judged]), spent),
        **yields.summarise(accepted, read_jsonl(out / "rejected.jsonl", Rejection), rules.solve.n_samples, index.rows),
    }
    write_json(out / "yields.json", made)
    return {
        "candidates_judged": judged,
        "accepted": rules.n_accept,
        "yield": rules.n_accept / judged,
        "rejected": dict(sorted(reasons.items())),
        "generated_eval_exact_overlaps": summary["generated_eval_exact_overlaps"],
        "overlap_hits": summary["hits"],
        **yields.headline(made),
    }


def _split(
    rows: Iterator[Task | Rejection], tasks: Path, rejected: Path, progress: Progress, spent: yields.Spent
) -> Counter[str]:
    reasons: Counter[str] = Counter()
    told = 0
    with (
        replace_file(rejected) as temporary,
        jsonlines.open(tasks, "w", dumps=dumps) as accepted,
        jsonlines.open(temporary, "w", dumps=dumps) as refused,
    ):
        failure: Exception | None = None
        try:
            for row in rows:
                if isinstance(row, Task):
                    accepted.write(to_dict(row))
                else:
                    refused.write(to_dict(row))
                    reasons[row.reason] += 1
                kept, judged = isinstance(row, Task), progress.done + isinstance(row, Task) + reasons.total()
                progress.update(
                    int(kept), spent.tokens - told, note=f"yield {(progress.done + kept) / judged:.0%} of {judged:,}"
                )
                told = spent.tokens
        except filters.YieldError as error:
            failure = error
    if failure is not None:
        raise failure
    return reasons
