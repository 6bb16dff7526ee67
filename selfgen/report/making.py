"""How the tasks were made: the funnel, what they look like, and what the audit found."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from selfgen.records import AuditRow, Rejection, Task
from selfgen.report import charts
from selfgen.report.run import Run, draw_key
from selfgen.tasks.filters import word_count
from selfgen.tasks.reasons import EXECUTION_REASONS, FILTER_REASONS, PARSE_REASONS, REASONS

SHOWN_TASKS = 20
_STEPS = (
    ("a problem and one solve()", tuple(PARSE_REASONS)),
    ("solve() returns an integer", tuple(EXECUTION_REASONS)),
    ("passes the text rules", tuple(r for r in FILTER_REASONS if not r.startswith(("overlap_", "pass_rate")))),
    ("no overlap with a test question", tuple(r for r in FILTER_REASONS if r.startswith("overlap_"))),
    ("base solves it sometimes", tuple(r for r in FILTER_REASONS if r.startswith("pass_rate"))),
)


@dataclass(frozen=True)
class Reason:
    """One reason: what it means, how many candidates it stopped, and a few of them."""

    reason: str
    meaning: str
    count: int
    share: float
    examples: Sequence[Rejection]


@dataclass(frozen=True)
class Funnel:
    """Candidates judged, how many were left after each step, and why the others went, in the order of the checks."""

    judged: int
    accepted: int
    left: Sequence[tuple[str, int]]
    reasons: Sequence[Reason]


def funnel(run: Run) -> Funnel | None:
    """Counted from the rows themselves; None before the filter stage."""
    if run.rejected is None:
        return None
    counts, accepted = run.rejected.counts, len(run.tasks)
    judged = accepted + sum(counts.values())
    left, remaining = [("candidates judged", judged)], judged
    for name, reasons in _STEPS:
        remaining -= sum(counts.get(reason, 0) for reason in reasons)
        left.append((name, remaining))
    order = [*REASONS, *sorted(set(counts) - set(REASONS))]
    found = [
        Reason(
            reason,
            REASONS.get(reason, "a reason of an older version"),
            counts[reason],
            counts[reason] / judged,
            run.rejected.examples.get(reason, ()),
        )
        for reason in order
        if counts.get(reason)
    ]
    return Funnel(judged, accepted, left, found)


def funnel_charts(found: Funnel) -> list[str]:
    """What is left after each step, and the candidates stopped by each reason."""
    drawn = [charts.bars("funnel", "Left after each step", "candidates", found.left, [found.left[-1][0]])]
    if found.reasons:
        rows = [(reason.reason, reason.count) for reason in found.reasons]
        drawn.append(charts.bars("reasons", "Rejected, by reason", "candidates", rows))
    return drawn


def operations(code: str) -> int:
    """Arithmetic operations written in a program; 0 for text that is not Python."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return 0
    return sum(isinstance(node, (ast.BinOp, ast.AugAssign)) for node in ast.walk(tree))


def histograms(tasks: Sequence[Task]) -> list[str]:
    """Four views of the accepted tasks: length, difficulty, size of the answer, steps of the program."""
    if not tasks:
        return []
    words = [word_count(task.problem) for task in tasks]
    steps = [operations(task.code) for task in tasks]
    n_samples = max(task.n_samples for task in tasks)
    labels = [abs(task.label) for task in tasks]
    cap = sorted(labels)[min(len(labels) - 1, int(0.95 * len(labels)))]
    step = max(1, round((cap + 1) / 24))
    edges = list(range(0, cap + step + 1, step))
    beyond = sum(label > edges[-1] for label in labels)
    note = f" ({beyond} above {edges[-1]:,} counted in the last bar)" if beyond else ""
    low, high = min(words) // 5 * 5, max(words) // 5 * 5 + 5
    return [
        charts.histogram("words", "Words in the problem", "words", words, range(low, high + 1, 5)),
        charts.histogram(
            "passrate",
            "Right attempts of the base model",
            f"right attempts of {n_samples}",
            [task.n_correct for task in tasks],
            [k - 0.5 for k in range(n_samples + 2)],
        ),
        charts.histogram(
            "labels", "Size of the answer", f"|label|{note}", [min(label, edges[-1]) for label in labels], edges
        ),
        charts.histogram(
            "steps",
            "Arithmetic operations in solve()",
            "operations",
            steps,
            [k - 0.5 for k in range(max(steps) + 2)],
        ),
    ]


def sample(tasks: Sequence[Task]) -> list[Task]:
    """SHOWN_TASKS accepted tasks, drawn by hash of their id, in generation order."""
    return sorted(sorted(tasks, key=lambda task: draw_key(task.id))[:SHOWN_TASKS], key=lambda task: task.index)


def overlaps(run: Run) -> list[tuple[str, int, bool]]:
    """Detector, accepted tasks it hits, and whether it rejects; the exact one first."""
    if run.overlap is None:
        return []
    rejecting = set(run.overlap["rejecting"])
    return [(name, hits, name in rejecting) for name, hits in run.overlap["hits"].items()]


def audit_rows(run: Run) -> list[AuditRow]:
    """The audited tasks, those that did not agree first."""
    return sorted(run.audit_rows, key=lambda row: row.outcome == "agree")


def audit_facts(verdict: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The audit's verdict as name and value pairs."""
    return [
        ("solver", str(verdict["solver"])),
        ("round", str(verdict["round"])),
        ("audited", f"{verdict['sample']:,} of {verdict['population']:,} tasks"),
        ("agree", str(verdict["agree"])),
        ("disagree", str(verdict["disagree"])),
        ("unanswered", str(verdict["unanswered"])),
        ("adjudicated by a person", str(verdict["adjudicated"])),
        ("label errors", f"{verdict['label_errors']} (at most {verdict['max_label_errors']} allowed)"),
        ("eval overlaps", f"{verdict['eval_overlaps']} (at most {verdict['max_eval_overlaps']} allowed)"),
        (
            "label error rate, upper bound",
            f"{100 * verdict['error_rate_upper_bound']:.2f} % ({100 * verdict['confidence']:.0f} % confidence, exact)",
        ),
    ]
