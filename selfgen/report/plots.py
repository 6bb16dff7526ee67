"""The tables that `dvc plots` draws, all arms in one file each: its built-in reader takes CSV, and knows no arms."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from selfgen.records import replace_file
from selfgen.report.run import Run

CURVES = ("reward", "correct", "mixed_groups", "response_tokens", "entropy", "kl_sample_train_v1")


def write(root: Path, run: Run) -> None:
    """Write reports/curves.csv (arm, step, CURVES) and reports/pass_rate.csv (right of n samples, tasks)."""
    steps = [{"arm": arm, **row} for arm, training in run.trainings.items() for row in training.curve]
    _write(root / "reports/curves.csv", ("arm", "step", *CURVES), steps)
    counts = (run.yields or {}).get("difficulty", {}).get("right_of_n", ())
    _write(root / "reports/pass_rate.csv", ("right", "tasks"), [{"right": r, "tasks": n} for r, n in enumerate(counts)])


def _write(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    with replace_file(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
