"""The task set as JSON lines, Hugging Face dataset, Croissant description or `verifiers` environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from selfgen.evaluation.prompting import SUFFIX
from selfgen.export.source import Source, new_folder, render, template_text
from selfgen.records import Task, to_dict, write_json, write_jsonl

FORMATS = ("hf", "verifiers", "jsonl", "croissant")


def plain_row(task: Task) -> dict[str, Any]:
    """The three fields that every trainer knows: id, question, and the answer as text."""
    return {"id": task.id, "question": task.problem, "answer": str(task.label)}


def write_plain(source: Source, out: Path) -> int:
    """One JSON line a task, `plain_row`, in generation order; returns the number of rows."""
    return write_jsonl(out, map(plain_row, source.tasks))


def write_hf(source: Source, out: Path, *, replace: bool = False) -> None:
    """A dataset folder with its card: `datasets.load_dataset(out)` gives split `train` with every `Task` field."""
    with new_folder(out, replace) as folder:
        write_jsonl(folder / "data/train.jsonl", source.tasks)
        write_json(folder / "croissant.json", _croissant(source, "data/train.jsonl"))
        (folder / "README.md").write_text(card(source), encoding="utf-8")


def write_croissant(source: Source, out: Path, *, replace: bool = False) -> None:
    """A folder that the Croissant loaders read: croissant.json beside tasks.jsonl."""
    with new_folder(out, replace) as folder:
        write_jsonl(folder / "tasks.jsonl", source.tasks)
        write_json(folder / "croissant.json", _croissant(source, "tasks.jsonl"))


def write_verifiers(source: Source, out: Path, *, replace: bool = False) -> None:
    """An installable package `selfgen_tasks` for the `verifiers` library, graded like the stock math environment."""
    with new_folder(out, replace) as folder:
        package = folder / "selfgen_tasks"
        package.mkdir()
        rows = [plain_row(task) | {"n_correct": task.n_correct, "n_samples": task.n_samples} for task in source.tasks]
        write_jsonl(package / "tasks.jsonl", rows)
        (package / "__init__.py").write_text(template_text("verifiers_init.py.j2"), encoding="utf-8")
        (package / "taskset.py").write_text(render("verifiers_taskset.py.j2", suffix=SUFFIX), encoding="utf-8")
        (package / "grading.py").write_text(template_text("verifiers_grading.py.j2"), encoding="utf-8")
        (folder / "pyproject.toml").write_text(render("verifiers_pyproject.toml.j2", source=source), encoding="utf-8")
        (folder / "README.md").write_text(render("verifiers_readme.md.j2", **_facts(source)), encoding="utf-8")


def card(source: Source) -> str:
    """The dataset card: what the tasks are, how they were made, and what vouches for them."""
    first = to_dict(source.tasks[0]) if source.tasks else None
    return render("dataset_card.md.j2", **_facts(source), example=first)


def _facts(source: Source) -> dict[str, Any]:
    size = next(limit for limit, top in _SIZES if len(source.tasks) < top)
    return {"source": source, "params": source.params, "n": len(source.tasks), "audit": source.audit, "size": size}


def _croissant(source: Source, name: str) -> dict[str, Any]:
    from selfgen.tasks.croissant import describe

    found = describe(source.params, "data/filter/tasks.jsonl", source.root)
    found["distribution"][0] |= {"contentUrl": name}
    return found


_SIZES = (("n<1K", 1_000), ("1K<n<10K", 10_000), ("10K<n<100K", 100_000), ("100K<n<1M", 10**12))
