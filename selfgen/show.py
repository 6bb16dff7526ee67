"""`selfgen show`: one row's whole life, from the model's raw text to the rewards it earned.

Everything is looked up in the artifacts by id; nothing is computed again. `as_json` of a life is what `--json` prints.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from selfgen.errors import DataError
from selfgen.records import (
    AuditRow,
    Candidate,
    CuratedRow,
    EvalRow,
    Rejection,
    Rollout,
    Task,
    read_json,
    read_jsonl,
    to_dict,
)

T = TypeVar("T")


def task_life(root: Path, name: str) -> dict[str, Any]:
    """All that is recorded of a task or candidate.

    Args:
        root: the project's folder.
        name: a task id (`task-...`), or a candidate id (`cand-...`) for one that may have been rejected.

    Raises:
        DataError: no such id, or the filter stage has not run.
    """
    data = root / "data"
    task = _find(data / "filter/tasks.jsonl", Task, lambda row: name in (row.id, row.candidate_id))
    rejection = None
    if task is None:
        rejection = _find(data / "filter/rejected.jsonl", Rejection, lambda row: row.candidate_id == name)
    candidate_id = task.candidate_id if task else rejection.candidate_id if rejection else name
    candidate = _find(data / "generate/candidates.jsonl", Candidate, lambda row: row.id == candidate_id, optional=True)
    quarantined = _quarantined(root / "review", name)
    if task is None and rejection is None and candidate is None and quarantined is None:
        raise DataError(
            f"{name}: neither an accepted task nor a candidate; ids stand in data/filter/tasks.jsonl (task-...) and "
            "data/generate/candidates.jsonl (cand-...)"
        )
    problem_id = task.id if task else name
    return {
        "id": problem_id,
        "candidate": to_dict(candidate) if candidate else None,
        "task": to_dict(task) if task else None,
        "rejection": to_dict(rejection) if rejection else None,
        "overlaps": _overlaps(data, "task_id", problem_id),
        "audits": _audits(root, problem_id),
        "quarantine": quarantined,
        "training": training(data, problem_id),
    }


def item_life(root: Path, name: str) -> dict[str, Any]:
    """All that is recorded of a curated row: a test item with every arm's answer, or a train row with its batches.

    Raises:
        DataError: no such id, or the curated stage has not run.
    """
    data = root / "data"
    for split in ("test", "train"):
        row = _find(data / f"curated/{split}.jsonl", CuratedRow, lambda row: row.id == name)
        if row is not None:
            break
    else:
        raise DataError(f"{name}: no such curated row; ids stand in data/curated/test.jsonl and train.jsonl")
    answers = {}
    for path in sorted((data / "eval").glob("*/rows.jsonl")):
        found = _find(path, EvalRow, lambda row: row.item_id == name)
        if found is not None:
            answers[path.parent.name] = to_dict(found)
    return {
        "item": to_dict(row),
        "split": split,
        "answers": answers,
        "resembling_tasks": _overlaps(data, "row", name),
        "training": training(data, name),
    }


def training(data: Path, problem_id: str) -> list[dict[str, Any]]:
    """Where a problem was trained on: one entry for each arm, stage and group, with the rewards of its samples."""
    found = []
    for stage in ("pilot", "train"):
        for path in sorted((data / stage).glob("*/rollouts.jsonl")):
            groups: dict[tuple[int, int], list[Rollout]] = defaultdict(list)
            for row in read_jsonl(path, Rollout):
                if row.problem_id == problem_id:
                    groups[row.step, row.group].append(row)
            found += [
                {
                    "stage": stage,
                    "arm": path.parent.name,
                    "step": step,
                    "group": group,
                    "rewards": [row.reward for row in rows],
                    "n_tokens": [row.n_tokens for row in rows],
                }
                for (step, group), rows in groups.items()
            ]
    return found


def _find(path: Path, kind: type[T], wanted: Any, optional: bool = False) -> T | None:
    if optional and not path.exists():
        return None
    return next((row for row in read_jsonl(path, kind) if wanted(row)), None)


def _overlaps(data: Path, key: str, value: str) -> list[dict[str, Any]]:
    path = data / "filter/overlap.json"
    return [match for match in read_json(path)["matches"] if match[key] == value] if path.exists() else []


def _audits(root: Path, task_id: str) -> list[dict[str, Any]]:
    """Rows of this and earlier audit rounds about a task, oldest first."""
    found = []
    for folder in [*sorted((root / "review/audit_rounds").glob("[0-9]*")), root / "data/audit"]:
        if (folder / "rows.jsonl").exists():
            round_ = read_json(folder / "audit.json")["round"]
            rows = (row for row in read_jsonl(folder / "rows.jsonl", AuditRow) if row.task_id == task_id)
            found += [{"round": round_, **to_dict(row)} for row in rows]
    return found


def _quarantined(review: Path, task_id: str) -> dict[str, Any] | None:
    from selfgen.tasks.repair import read_quarantine

    return next((to_dict(row) for row in read_quarantine(review) if row.id == task_id), None)


def describe_task(life: Mapping[str, Any]) -> str:
    """A task's life as text."""
    task, rejection, candidate = life["task"], life["rejection"], life["candidate"]
    out = [life["id"], ""]
    if candidate:
        how = "cut off at max_tokens" if candidate["stop_reason"] == "length" else "finished"
        out += _block(f"raw text: {candidate['id']}, {candidate['n_tokens']} tokens, {how}", candidate["text"])
    if task:
        out += _block("problem", task["problem"])
        out += _block("code", task["code"])
        out += [f"label: {task['label']}"]
        out += [
            f"filter: accepted; the base model solves it in {task['n_correct']} of {task['n_samples']} attempts",
            "",
        ]
        for number, text in enumerate(task["solutions"], 1):
            out += _block(f"base attempt {number}", text)
    elif rejection:
        out += [f"filter: rejected as {rejection['reason']}: {rejection['detail']}", ""]
    elif candidate:
        out += ["filter: never judged; enough tasks were accepted before it", ""]
    for match in life["overlaps"]:
        out.append(
            f"resembles {match['row']} by {match['detector']} ({match['score']:.2f}): {_quote(match['evidence'])}"
        )
    if life["quarantine"]:
        row = life["quarantine"]
        out += _block(f"quarantined after audit round {row['round']} as {row['reason']}", row["solution"])
    if not life["audits"]:
        out.append("audit: not in the sample")
    for row in life["audits"]:
        said = row["answer"] if row["answer"] is not None else "no number"
        out.append(
            f"audit round {row['round']}: {row['outcome']}; {row['solver']} says {said}, the label is {row['label']}"
        )
        for number, attempt in enumerate(row["attempts"], 1):
            out += _block(f"worked solution {number}", attempt)
        if row["adjudication"]:
            out.append(f"adjudicated by a person: {row['adjudication']}")
    return "\n".join([*out, *_training_lines(life["training"])]).rstrip() + "\n"


def describe_item(life: Mapping[str, Any]) -> str:
    """A curated row's life as text."""
    item = life["item"]
    out = [f"{item['id']} ({life['split']} split)", ""]
    out += _block("question", item["question"])
    out += _block("solution", item["solution"])
    out += [f"answer: {item['answer']}", ""]
    for arm, row in life["answers"].items():
        said = row["extracted"] if row["extracted"] is not None else "nothing in a box"
        cut = ", cut off" if row["stop_reason"] == "length" else ""
        verdict = "right" if row["correct"] else "WRONG"
        out += _block(f"{arm}: {verdict}, says {said} ({row['n_tokens']} tokens{cut})", row["completion"])
    if life["split"] == "test" and not life["answers"]:
        out.append("evaluation: not run yet")
    for match in life["resembling_tasks"]:
        out.append(
            f"{match['task_id']} resembles it by {match['detector']} ({match['score']:.2f}): {_quote(match['evidence'])}"
        )
    lines = _training_lines(life["training"]) if life["split"] == "train" else []
    return "\n".join([*out, *lines]).rstrip() + "\n"


def _training_lines(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    if not entries:
        return ["training: not trained on"]
    return [
        f"{entry['stage']} {entry['arm']}: step {entry['step']}, group {entry['group']}, rewards "
        f"{' '.join(f'{reward:g}' for reward in entry['rewards'])}"
        for entry in entries
    ]


def _block(title: str, text: str) -> list[str]:
    from selfgen.report.formats import foreign

    return [f"--- {title}", foreign(text), ""]


def _quote(evidence: Iterable[str]) -> str:
    return "; ".join(f"'{passage}'" for passage in evidence)


@click.group()
def show() -> None:
    """Show one row's whole life.

    \b
    Examples:
      selfgen show task task-0f3a5b7c9d1e2f40   # raw text, code, label, verdicts, audit, batches, rewards
      selfgen show task cand-000017             # a candidate, rejected or not
      selfgen show item gsm8k-test-00042        # a test item with every arm's answer
    """


@show.command("task")
@click.argument("name", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_task(name: str, as_json: bool) -> None:
    """A task (task-...) or candidate (cand-...): raw text, code, label, filter, audit, training.

    \b
    Examples:
      selfgen show task task-0f3a5b7c9d1e2f40
      selfgen show task cand-000017 --json
    """
    life = task_life(Path("."), name)
    click.echo(_json(life) if as_json else describe_task(life), nl=False)


@show.command("item")
@click.argument("name", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_item(name: str, as_json: bool) -> None:
    """A curated row: question, answer, and every arm's completion (test) or the batches it was in (train).

    \b
    Examples:
      selfgen show item gsm8k-test-00042
      selfgen show item gsm8k-train-05441
    """
    life = item_life(Path("."), name)
    click.echo(_json(life) if as_json else describe_item(life), nl=False)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
