"""Repair after a failed audit: quarantine what it flagged, keep the round as evidence, let the next run top up.

Everything here is tracked by git, under `review/`, and is an input of the stages, never an output:

    review/quarantine.jsonl        one `Quarantined` a task that may never be trained on again
    review/adjudications.jsonl     one `Adjudication` a case where a human found the solver wrong
    review/audit_rounds/01/        audit.json and rows.jsonl of a failed audit, as they were

The filter reads the quarantine (`quarantined_ids`), rejects those ids and accepts later candidates instead, in
generation order. The audit counts the rounds, so the next one draws a fresh sample of the same size from the
whole set; `verdict` fails a smaller sample, a smaller set and a quarantined task that is back.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from selfgen.errors import DataError
from selfgen.manifest import sha256_file
from selfgen.records import AuditRow, Task, read_json, read_jsonl, write_jsonl
from selfgen.tasks.audit import AGREE, PastRound, read_adjudications
from selfgen.tasks.quarantine import QUARANTINE, Quarantined, read_quarantine

ADJUDICATIONS = "adjudications.jsonl"
ROUNDS = "audit_rounds"

LABEL_ERROR = "label_error"
UNANSWERED = "unanswered"
EVAL_OVERLAP = "eval_overlap"


@dataclass(frozen=True)
class Repaired:
    """What one repair did."""

    round: int
    added: tuple[Quarantined, ...]
    total: int


def past_rounds(review: str | Path) -> list[PastRound]:
    """Failed rounds on record, oldest first.

    Raises:
        DataError: the numbers of the recorded rounds have a gap.
    """
    folder = Path(review) / ROUNDS
    rounds = []
    for number, path in enumerate(sorted(folder.glob("*/audit.json")), start=1):
        verdict = read_json(path)
        if verdict.get("round") != number:
            raise DataError(f"{path}: holds round {verdict.get('round')}, not {number}; restore {folder} from git")
        rounds.append(PastRound(number, verdict["sample"], verdict["population"]))
    return rounds


def quarantine_flagged(audit: str | Path, review: str | Path, tasks: str | Path) -> Repaired:
    """Quarantine every task that the audit in folder `audit` flagged, and record the round under `review`.

    Args:
        audit: folder with audit.json and rows.jsonl of a failed audit.
        tasks: the accepted set that was audited; overlapping tasks outside the sample are read from it.

    Raises:
        DataError: the audit passed, flagged nothing that repair could remove, was repaired before, or is of other tasks.
    """
    audit, review = Path(audit), Path(review)
    verdict = read_json(audit / "audit.json")
    rows = {row.task_id: row for row in read_jsonl(audit / "rows.jsonl", AuditRow)}
    round = verdict["round"]
    if verdict["passed"]:
        raise DataError(f"{audit}/audit.json: the audit passed, there is nothing to repair")
    if round <= len(past_rounds(review)):
        raise DataError(f"{audit}/audit.json: round {round} is repaired already; run `dvc repro` for the next audit")
    if verdict["tasks_sha256"] != sha256_file(tasks):
        raise DataError(f"{audit}/audit.json: {tasks} has changed since it was audited; run `dvc repro` first")
    kept = read_quarantine(review)
    known = {row.id for row in kept}
    ruled = read_adjudications(review / ADJUDICATIONS)
    accepted = {task.id: task for task in read_jsonl(tasks, Task)}
    removable = [id for id in verdict["flagged"] if id in verdict["overlapping"] or id not in ruled]
    if not removable:
        why = (
            "every flagged task is adjudicated; run `dvc repro`"
            if verdict["flagged"]
            else (f"no task to remove ({'; '.join(verdict['failures'])}); restore the params it names")
        )
        raise DataError(f"{audit}/audit.json: {why}")
    added = tuple(_quarantined(id, rows, accepted, verdict, round) for id in removable if id not in known)
    # The quarantine first: a crash in between leaves a round that can be repaired again, not one that lost its tasks.
    write_jsonl(review / QUARANTINE, [*kept, *added])
    folder = review / ROUNDS / f"{round:02d}"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(audit / "rows.jsonl", folder / "rows.jsonl")
    shutil.copyfile(audit / "audit.json", folder / "audit.json")
    return Repaired(round, added, len(kept) + len(added))


def _quarantined(
    id: str, rows: dict[str, AuditRow], accepted: dict[str, Task], verdict: dict[str, Any], round: int
) -> Quarantined:
    row = rows.get(id)
    if id in verdict["overlapping"]:
        task = accepted[id]
        match = verdict["overlapping"][id]
        return Quarantined(id, task.problem, task.label, EVAL_OVERLAP, None, f"equals {match}", round)
    if row is None:
        raise DataError(f"audit of round {round}: flagged task {id} has no row; re-run the audit stage")
    reason = UNANSWERED if row.outcome == UNANSWERED else LABEL_ERROR
    return Quarantined(id, row.problem, row.label, reason, row.answer, row.attempts[-1] if row.attempts else "", round)


def summary(done: Repaired) -> str:
    """What a user sees after a repair."""
    lines = [f"round {done.round}: {len(done.added)} tasks quarantined, {done.total} in all"]
    lines += [f"  {row.id}  label {row.label}, solver {row.answer}  ({row.reason})" for row in done.added]
    lines.append(
        "Next: commit review/quarantine.jsonl and review/audit_rounds/, then `dvc repro`: the filter tops up and the audit draws a fresh sample."
    )
    return "\n".join(lines)


def disputed(audit: str | Path) -> list[AuditRow]:
    """Rows of an audit that a human may look at: every one that did not agree."""
    return [row for row in read_jsonl(Path(audit) / "rows.jsonl", AuditRow) if row.outcome != AGREE]


@click.command("repair")
@click.option("--audit", default="data/audit", show_default=True, help="Folder of the failed audit.")
@click.option("--review", default="review", show_default=True, help="Git-tracked folder of quarantine and rulings.")
@click.option("--tasks", default="data/filter/tasks.jsonl", show_default=True, help="The set that was audited.")
@click.option("--show", is_flag=True, help="Only list the disputed tasks, with worked solutions, and change nothing.")
def repair(audit: str, review: str, tasks: str, show: bool) -> None:
    """Quarantine the tasks a failed audit flagged, so that the next `dvc repro` replaces and re-audits them.

    \b
    Examples:
      selfgen repair --show    # the disputed tasks with worked solutions; changes nothing
      selfgen repair
    """
    if show:
        for row in disputed(audit):
            ruling = f"adjudicated: {row.adjudication}" if row.adjudication else row.outcome
            last = row.attempts[-1] if row.attempts else ""
            click.echo(
                f"{row.task_id}  label {row.label}, solver {row.answer}  ({ruling})\n{row.problem}\n---\n{last}\n"
            )
        return
    click.echo(summary(quarantine_flagged(audit, review, tasks)))
