"""From candidate rows on disk to accepted and rejected rows on disk, with the funnel as metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jsonlines

from selfgen.evaluation.grading import grade
from selfgen.params import FilterParams
from selfgen.progress import Progress
from selfgen.records import Candidate, CuratedRow, Rejection, Task, dumps, read_jsonl, replace_file, to_dict, write_json
from selfgen.tasks import filters, overlap
from selfgen.tasks.repair import quarantined_ids


def accept(
    candidates: Path,
    curated: Path,
    review: Path,
    out: Path,
    *,
    rules: FilterParams,
    solve: filters.Solve,
    progress: Progress,
) -> dict[str, Any]:
    """Filter a candidates file into `out`/tasks.jsonl, rejected.jsonl and overlap.json; returns the funnel.

    Rows are written as they are decided, so memory is flat. When the set cannot be filled, the rejected rows are
    written all the same, so that the reasons can be read, and no tasks file is.

    Raises:
        YieldError: fewer than `rules.n_accept` were accepted.
    """
    index = overlap.OverlapIndex.build(read_jsonl(curated / "test.jsonl", CuratedRow))
    rows = filters.run(
        read_jsonl(candidates, Candidate),
        rules=rules,
        overlap=index,
        solve=solve,
        grade=lambda text, label: grade(text, str(label)).correct,
        quarantined=quarantined_ids(review),
    )
    with ExitStack() as stack:
        tasks = stack.enter_context(replace_file(out / "tasks.jsonl"))
        reasons = _split(rows, tasks, out / "rejected.jsonl", progress)
    summary = overlap.summarise(read_jsonl(out / "tasks.jsonl", Task), index, rules.decontaminate.reject)
    write_json(out / "overlap.json", summary)
    judged = rules.n_accept + sum(reasons.values())
    return {
        "candidates_judged": judged,
        "accepted": rules.n_accept,
        "yield": rules.n_accept / judged,
        "rejected": dict(sorted(reasons.items())),
        "generated_eval_exact_overlaps": summary["generated_eval_exact_overlaps"],
        "overlap_hits": summary["hits"],
    }


def _split(rows: Iterator[Task | Rejection], tasks: Path, rejected: Path, progress: Progress) -> Counter[str]:
    reasons: Counter[str] = Counter()
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
                    progress.update()
                else:
                    refused.write(to_dict(row))
                    reasons[row.reason] += 1
                    progress.update(0, note=f"{sum(reasons.values())} rejected")
        except filters.YieldError as error:
            failure = error
    if failure is not None:
        raise failure
    return reasons
