"""The rules fixed before training, cheapest first; the base model's own samples are asked for survivors only.

A rule is one function `(Labelled, Context) -> Rejection | None` under `@rule`, with its reason in reasons.py: to add
one, add both. `run` streams: memory is flat in the number of candidates, rows come out in generation order, and
it stops at the first candidate that fills the set, so the rows do not depend on how far ahead samples were asked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeVar

from selfgen.errors import DataError, YieldError
from selfgen.params import FilterParams
from selfgen.records import Candidate, Completion, Rejection, Task
from selfgen.tasks.folding import fold
from selfgen.tasks.label import Labelled, label_all
from selfgen.tasks.normalise import normalise
from selfgen.tasks.numberwords import mentions
from selfgen.tasks.overlap import DETECTORS, OverlapIndex
from selfgen.tasks.reasons import REASONS
from selfgen.tasks.sandbox import Sandbox

# Candidates whose samples are asked for together. Asking for as many as are still missing never pays for one that
# is not needed; the floor trades at most MIN_WINDOW - 1 unneeded ones for fewer, fuller rounds at the end.
MIN_WINDOW, MAX_WINDOW = 16, 256
MAX_PENDING = 2048  # rows held back behind an unsampled survivor

Solve = Callable[[Iterable[Labelled]], Iterable[list[Completion]]]
Grade = Callable[[str, int], bool]


@dataclass
class Context:
    """What a rule may look at besides the candidate: the params, the curated questions, what is already accepted."""

    rules: FilterParams
    overlap: OverlapIndex
    quarantined: frozenset[str] = frozenset()
    accepted_ids: set[str] = field(default_factory=set)
    accepted_texts: set[bytes] = field(default_factory=set)
    out_of_band: dict[str, int] = field(default_factory=dict)  # right samples of tasks already sampled and rejected


Rule = Callable[[Labelled, Context], Rejection | None]


def task_id(problem: str, label: int) -> str:
    """`task-` and the first 16 hex digits of sha256 over the problem, a NUL and the label; it survives re-runs."""
    return "task-" + sha256(f"{problem}\0{label}".encode()).hexdigest()[:16]


def reject(
    row: Labelled, reason: str, detail: str, n_correct: int | None = None, n_samples: int | None = None
) -> Rejection:
    """The rejection of a labelled candidate. `reason` must be in the closed list: anything else is a bug here."""
    if reason not in REASONS:
        raise ValueError(f"{reason!r} is not a reason of selfgen.tasks.reasons")
    c = row.candidate
    return Rejection(c.id, c.index, reason, detail, c.text, row.problem, row.code, row.label, n_correct, n_samples)


def word_count(problem: str) -> int:
    """Words as a reader counts them: runs between blanks that hold a letter or a digit."""
    return sum(any(ch.isalnum() for ch in piece) for piece in problem.split())


RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    """Make a function one of RULES, asked in the order of definition."""
    RULES.append(function)
    return function


@rule
def answer_in_text(row: Labelled, context: Context) -> Rejection | None:
    """The label stands in the problem, in any spelling of numberwords.py, as a number of its own."""
    folded = fold(row.problem)
    for mention in mentions(folded):
        if row.label in mention.values:
            around = folded[max(0, mention.start - 20) : mention.end + 20].strip()
            return reject(
                row, "answer_in_text", f"{row.label} as '{folded[mention.start : mention.end]}' in '{around}'"
            )
    return None


@rule
def length(row: Labelled, context: Context) -> Rejection | None:
    """Within min_words and max_words, both included."""
    words, rules = word_count(row.problem), context.rules
    if words < rules.min_words:
        return reject(row, "too_short", f"{words} words, at least {rules.min_words} wanted")
    if words > rules.max_words:
        return reject(row, "too_long", f"{words} words, at most {rules.max_words} wanted")
    return None


@rule
def quarantined(row: Labelled, context: Context) -> Rejection | None:
    """An audit set this very task aside."""
    own = task_id(row.problem, row.label)
    return reject(row, "quarantined", own) if own in context.quarantined else None


@rule
def overlaps(row: Labelled, context: Context) -> Rejection | None:
    """One of the rejecting detectors hits a curated question; strict detectors are asked first."""
    for detector in DETECTORS:
        if detector in context.rules.decontaminate.reject:
            hit = context.overlap.match(detector, row.problem)
            if hit is not None:
                return reject(row, f"overlap_{detector}", hit.explain())
    return None


@rule
def duplicate(row: Labelled, context: Context) -> Rejection | None:
    """The task is already in the set: the same text and label always, the same normal form when `self` rejects."""
    own = task_id(row.problem, row.label)
    if own in context.accepted_ids:
        return reject(row, "duplicate", f"same text and label as accepted {own}")
    if "self" in context.rules.decontaminate.reject and text_key(row.problem) in context.accepted_texts:
        return reject(row, "duplicate", "same text after normalisation as an accepted task")
    return None


def pass_rate(row: Labelled, correct: int, solutions: Sequence[str], rules: FilterParams) -> Task | Rejection:
    """Accept what the base model solves in min_correct to max_correct of n_samples attempts."""
    n, solve = rules.solve.n_samples, rules.solve
    if correct < solve.min_correct:
        return reject(row, "pass_rate_low", f"{correct} of {n} right, at least {solve.min_correct} wanted", correct, n)
    if correct > solve.max_correct:
        return reject(row, "pass_rate_high", f"{correct} of {n} right, at most {solve.max_correct} wanted", correct, n)
    return Task(
        id=task_id(row.problem, row.label),
        candidate_id=row.candidate.id,
        index=row.candidate.index,
        problem=row.problem,
        code=row.code,
        label=row.label,
        n_correct=correct,
        n_samples=n,
        solutions=tuple(solutions),
    )


def first_rejection(row: Labelled, context: Context) -> Rejection | None:
    """The objection of the first of RULES that has one, or None."""
    for objects in RULES:
        rejection = objects(row, context)
        if rejection is not None:
            return rejection
    return None


def run(
    candidates: Iterable[Candidate],
    *,
    rules: FilterParams,
    overlap: OverlapIndex,
    solve: Solve,
    grade: Grade,
    quarantined: frozenset[str] = frozenset(),
    label: Callable[[Iterable[Candidate]], Iterable[Labelled | Rejection]] | None = None,
    workers: int = 2,
) -> Iterator[Task | Rejection]:
    """Label and filter candidates in generation order until `rules.n_accept` are accepted.

    Args:
        candidates: in generation order; read lazily, a bounded number ahead.
        solve: for a finite batch of survivors, `rules.solve.n_samples` completions each, in order. A batch is as
            large as the number still missing, within MIN_WINDOW and MAX_WINDOW, so at most MIN_WINDOW - 1
            candidates past the last accepted one are sampled.
        grade: whether a completion's answer equals a label.
        quarantined: task ids an audit set aside.
        label: replaces parsing and the sandbox (tests, replays); by default `workers` sandbox processes.

    Yields:
        One Task or Rejection a candidate. Candidates after the last accepted one are not judged and yield nothing.

    Raises:
        YieldError: the candidates ended first. Every row was yielded before.
    """
    if label is None:
        with Sandbox(workers) as sandbox:
            yield from _run(label_all(candidates, sandbox), Context(rules, overlap, quarantined), solve, grade)
    else:
        yield from _run(label(candidates), Context(rules, overlap, quarantined), solve, grade)


def _run(
    rows: Iterable[Labelled | Rejection], context: Context, solve: Solve, grade: Grade
) -> Iterator[Task | Rejection]:
    wanted = context.rules.n_accept
    funnel: Counter[str] = Counter()
    pending: list[Labelled | Rejection] = []
    survivors = 0
    for batch_end, row in _mark_last(rows):
        if row is not None:
            judged = row if isinstance(row, Rejection) else first_rejection(row, context) or row
            pending.append(judged)
            survivors += isinstance(judged, Labelled) and _unsampled(judged, context)
        missing = wanted - len(context.accepted_ids)
        full = survivors >= min(MAX_WINDOW, max(MIN_WINDOW, missing)) or len(pending) >= MAX_PENDING
        if not (full or batch_end or survivors == 0):
            continue
        for result in _settle(pending, context, solve, grade):
            funnel["accepted" if isinstance(result, Task) else result.reason] += 1
            yield result
            if len(context.accepted_ids) == wanted:
                return
        pending, survivors = [], 0
    raise YieldError(shortfall(funnel, wanted))


def _settle(
    pending: Sequence[Labelled | Rejection], context: Context, solve: Solve, grade: Grade
) -> Iterator[Task | Rejection]:
    """Sample a window's survivors, each text once, and judge its rows in order."""
    unique = {row.problem: row for row in reversed(pending) if isinstance(row, Labelled) and _unsampled(row, context)}
    asked = tuple(sorted(unique.values(), key=lambda row: row.candidate.index))
    samples = dict(zip((row.problem for row in asked), solve(asked), strict=True)) if asked else {}
    for row in pending:
        if isinstance(row, Rejection):
            yield row
            continue
        # Asked again in order: an earlier row of this window may have been accepted meanwhile.
        result: Task | Rejection | None = duplicate(row, context)
        if result is None:
            own, solutions = task_id(row.problem, row.label), tuple(c.text for c in samples.get(row.problem, ()))
            correct = context.out_of_band.get(own)
            if correct is None:
                correct = _count_right(row, solutions, context.rules, grade)
            result = pass_rate(row, correct, solutions, context.rules)
            if isinstance(result, Task):
                context.accepted_ids.add(own)
                context.accepted_texts.add(text_key(result.problem))
            else:
                context.out_of_band[own] = correct
        yield result


def _unsampled(row: Labelled, context: Context) -> bool:
    """Whether samples must be asked for: a task that fell outside the band before falls outside it again."""
    return task_id(row.problem, row.label) not in context.out_of_band


def _count_right(row: Labelled, solutions: Sequence[str], rules: FilterParams, grade: Grade) -> int:
    n = rules.solve.n_samples
    if len(solutions) != n:
        raise DataError(
            f"{row.candidate.id}: {len(solutions)} samples came back where filter.solve.n_samples is {n}; "
            "check that the service honours the number of samples asked for"
        )
    return sum(grade(text, row.label) for text in solutions)


def text_key(problem: str) -> bytes:
    """16 bytes that stand for a problem's normal form."""
    return sha256(normalise(problem).encode()).digest()[:16]


T = TypeVar("T")


def _mark_last(rows: Iterable[T]) -> Iterator[tuple[bool, T | None]]:
    """(False, row) for each row, then (True, None)."""
    for row in rows:
        yield False, row
    yield True, None


def shortfall(funnel: Counter[str], wanted: int) -> str:
    """What to do about too few accepted tasks, in one line."""
    judged, accepted = funnel.total(), funnel["accepted"]
    if judged == 0:
        return "no candidates to filter; run the generate stage, or raise generate.n_candidates"
    top = ", ".join(f"{reason} {n}" for reason, n in funnel.most_common(4) if reason != "accepted")
    if accepted == 0:
        return (
            f"none of {judged} candidates was accepted ({top}), so no number of candidates can be named; "
            "read data/filter/rejected.jsonl, then change the model, generate.instruction or the filter.* bounds"
        )
    more = math.ceil((wanted - accepted) * judged / accepted)
    return (
        f"accepted {accepted} of the {wanted} tasks wanted from {judged} candidates, a yield of {accepted / judged:.2%} "
        f"(rejected: {top}); at that yield about {more} more are needed: raise generate.n_candidates to at least "
        f"{judged + more}; candidates and samples already paid for are re-used"
    )
