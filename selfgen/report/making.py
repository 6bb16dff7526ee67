"""How the tasks were made: the funnel, what they look like, and what the audit found."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from selfgen import budget
from selfgen.records import AuditRow, Rejection, Task
from selfgen.report import charts
from selfgen.report.formats import count, duration, percent
from selfgen.report.run import Run, draw_key
from selfgen.tasks.filters import word_count
from selfgen.tasks.reasons import EXECUTION_REASONS, FILTER_REASONS, PARSE_REASONS, REASONS
from selfgen.tasks.yields import pace

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


def histograms(run: Run) -> list[str]:
    """Four views: difficulty of every candidate that was sampled; length, answer and program of the accepted tasks."""
    tasks = run.tasks
    if not tasks:
        return []
    words = [word_count(task.problem) for task in tasks]
    steps = [operations(task.code) for task in tasks]
    labels = [abs(task.label) for task in tasks]
    cap = sorted(labels)[min(len(labels) - 1, int(0.95 * len(labels)))]
    step = max(1, round((cap + 1) / 24))
    edges = list(range(0, cap + step + 1, step))
    beyond = sum(label > edges[-1] for label in labels)
    note = f" ({beyond} above {edges[-1]:,} counted in the last bar)" if beyond else ""
    low, high = min(words) // 5 * 5, max(words) // 5 * 5 + 5
    solve = run.params.filter.solve
    drawn = []
    if run.yields is not None:
        counts = run.yields["difficulty"]["right_of_n"]
        drawn.append(
            charts.columns(
                "passrate",
                "Right attempts of the base model",
                f"right of {len(counts) - 1}; accepted: {solve.min_correct} to {solve.max_correct}",
                counts,
                range(solve.min_correct, solve.max_correct + 1),
                "the accepted band is coloured",
            )
        )
    return [
        *drawn,
        charts.histogram("words", "Words in the problem", "words", words, range(low, high + 1, 5)),
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


def variety(run: Run) -> list[tuple[str, str, str]]:
    """How different the tasks are: measure, its value for the tasks, and for as many curated questions as a yardstick."""
    found = run.yields
    if found is None or not found["diversity"]["problems"]:
        return []
    own, other = found["diversity"], found["reference"]["diversity"]
    length, usual = found["lengths"]["words"], found["reference"]["lengths"]["words"]
    near = found["nearest_curated"]
    answers = found["answers"]
    return [
        ("problems", count(own["problems"]), count(other["problems"])),
        ("distinct after normalisation", percent(own["distinct"]), percent(other.get("distinct"))),
        (
            "distinct after masking numbers and names",
            percent(own["distinct_masked"]),
            percent(other.get("distinct_masked")),
        ),
        (
            "similarity to the nearest other one",
            _spread(own["nearest_other"], ".2f"),
            _spread(other.get("nearest_other"), ".2f"),
        ),
        ("similarity to the nearest curated question", _spread(near, ".2f"), ""),
        ("distinct word 3-grams", percent(own["distinct_3grams"]), percent(other.get("distinct_3grams"))),
        ("words", _spread(length), _spread(usual)),
        ("answers", _spread(answers["value"]), ""),
        ("distinct answers", count(answers["distinct"]), ""),
    ]


def _spread(values: Mapping[str, float] | None, form: str = ",.0f") -> str:
    """Quantiles in one cell: median, and the middle nine tenths."""
    if values is None:
        return ""
    return f"{values['p50']:{form}} ({values['p05']:{form}} to {values['p95']:{form}})"


def repeated(run: Run) -> list[tuple[str, int]]:
    """Stories told more than once (numbers and names masked), the commonest first."""
    if run.yields is None or not run.yields["diversity"]["problems"]:
        return []
    return [(row["masked"], row["tasks"]) for row in run.yields["diversity"]["largest_stories"]]


def effort(run: Run) -> list[tuple[str, str]]:
    """What an accepted task took: tokens (however often the run was repeated), and the seconds of this run."""
    if run.yields is None:
        return []
    cost, accepted = run.yields["cost"], len(run.tasks)
    facts = [
        ("tokens sampled to propose", count(cost["proposal_tokens"])),
        ("tokens sampled to solve", count(cost["solve_tokens"])),
        ("attempts cut off at the limit", percent(cost["share_of_samples_truncated"])),
        ("sampled tokens an accepted task", count(cost["tokens_per_accepted"])),
    ]
    stages = {stage: run.provenance[stage] for stage in ("generate", "filter") if stage in run.provenance}
    if len(stages) == 2:
        took = pace(accepted, {stage: entry["seconds"] for stage, entry in stages.items()})
        facts += [(f"time of {stage} in this run", duration(took[f"{stage}_seconds"])) for stage in stages]
        facts += [("time an accepted task", duration(took["seconds_per_accepted"]))]
        spent = [entry.get("tokens") or {} for entry in stages.values()]
        hits = sum(tokens.get("journal_hits", 0) for tokens in spent)
        asked = hits + sum(tokens.get("requests", 0) for tokens in spent)
        facts += [("answered from the journal", f"{hits:,} of {asked:,} requests, which took no time again")]
        paid = budget.money(
            {
                "prefill": sum(tokens.get("prompt_tokens", 0) for tokens in spent),
                "sample": sum(tokens.get("sampled_tokens", 0) for tokens in spent),
                "train": 0,
            },
            run.params.budget.prices.get(run.params.model.name),
        )
        if paid is not None:
            facts += [("paid in this run", f"{paid:.2f} {run.params.budget.currency} at the params' prices")]
    return facts


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
