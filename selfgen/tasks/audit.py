"""The blind audit: a larger model re-solves sampled tasks from their text alone, and its answer meets the label.

Input is the whole accepted set; output one `AuditRow` a sampled task, with every worked solution, and a verdict
that anyone can recompute from those rows. The solver sees what `messages` builds, and `messages` is given a
problem's text: neither label nor code can reach it. The sample is drawn by position, so not even an id (which
hashes the label) touches the order of the requests.

A solution that is cut off, has no box, or whose box holds no single number is neither agreement nor
disagreement. It is asked again, `retries` times, and then counts as a label error: an audit that cannot answer
must not pass. A disagreement is never asked again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from selfgen.errors import DataError
from selfgen.evaluation import grading
from selfgen.evaluation.prompting import math_messages
from selfgen.numeric import numeric_exact, parse_number
from selfgen.params import AuditParams
from selfgen.progress import Progress
from selfgen.records import AuditRow, Completion, Rejection, Task, dumps, read_jsonl, to_dict
from selfgen.tasks.reasons import EXECUTION_REASONS

FewShot = Literal["standard", "none"]
Messages = list[dict[str, str]]
# (conversations, attempt number) -> for each conversation, in order, `votes` completions.
Solve = Callable[[Sequence[Messages], int], Iterable[Sequence[Completion]]]

AGREE, DISAGREE, UNANSWERED = "agree", "disagree", "unanswered"
CONFIDENCE = 0.95
# A greedy retry would repeat itself word for word, so retries of a greedy audit sample at this temperature.
RETRY_TEMPERATURE = 1.0


@dataclass(frozen=True)
class Adjudication:
    """A human's ruling, kept in git, that the solver and not the label of `task_id` was wrong, and why."""

    task_id: str
    reason: str
    by: str = ""


@dataclass(frozen=True)
class PastRound:
    """What a re-audit must know of an earlier round: it may not draw fewer tasks, nor from a smaller set."""

    round: int
    sample: int
    population: int


def messages(problem: str, few_shot: FewShot = "standard") -> Messages:
    """The conversation the solver gets: the stock math environment's, from the problem's text alone."""
    return math_messages(problem, few_shot)


def draw(population: int, sample: int, seed: int, round: int = 1) -> list[int]:
    """Positions of a uniform sample without replacement, ascending: those with the smallest sha256(seed:round:position).

    A later round draws afresh from everything. Hash order needs no random generator, so any tool can check it.

    Raises:
        DataError: `sample` is larger than `population`.
    """
    if sample > population:
        raise DataError(
            f"audit.sample is {sample} but only {population} tasks are accepted; lower audit.sample or raise filter.n_accept"
        )
    keys = sorted((hashlib.sha256(f"{seed}:{round}:{i}".encode()).digest(), i) for i in range(population))
    return sorted(i for _, i in keys[:sample])


def extract(text: str, stop_reason: str) -> str | None:
    """What the last box of a finished solution holds, by the stock extractor; None when cut off or without a box."""
    return grading.extract(text) if stop_reason == "stop" else None


def vote(texts: Sequence[str], stop_reasons: Sequence[str]) -> str | None:
    """The answer of one attempt: that of more than half of its completions, as first written; else None."""
    answers = [extract(text, reason) for text, reason in zip(texts, stop_reasons, strict=True)]
    counts = Counter(number for answer in answers if (number := parse_number(answer)) is not None)
    for number, count in counts.most_common(1):
        if 2 * count > len(texts):
            return next(answer for answer in answers if parse_number(answer) == number)
    # One vote keeps what it boxed as evidence, even when that is no number.
    return answers[0] if len(answers) == 1 else None


def judge(answer: str | None, label: int) -> str:
    """`numeric_exact` as an outcome: "agree", "disagree", or "unanswered" when `answer` states no single number."""
    equal = numeric_exact(answer, label)
    return UNANSWERED if equal is None else AGREE if equal else DISAGREE


def upper_bound(errors: int, n: int, confidence: float = CONFIDENCE) -> float:
    """Exact one-sided Clopper-Pearson upper bound of the set's label error rate, from `errors` in a sample of `n`.

    The rate p at which seeing at most `errors` has probability 1 - confidence: the `confidence` quantile of
    Beta(errors + 1, n - errors) (Clopper and Pearson, Biometrika 26, 1934). 0 of 100 gives 0.0295. It treats
    draws as independent; sampling without replacement from a finite set can only make the true bound smaller.
    """
    if not 0 <= errors <= n or n == 0:
        raise ValueError(f"needs 0 <= errors <= n and n > 0, got {errors} of {n}")
    if errors == n:
        return 1.0
    from scipy.special import betaincinv

    return float(betaincinv(errors + 1, n - errors, confidence))


def run(
    tasks: Sequence[Task],
    *,
    solve: Solve,
    params: AuditParams,
    solver: str,
    few_shot: FewShot = "standard",
    past: Sequence[PastRound] = (),
    adjudications: Mapping[str, str] | None = None,
    quarantined: Collection[str] = frozenset(),
    overlap: Callable[[str], str | None] = lambda problem: None,
    counts: Mapping[str, Any] | None = None,
) -> tuple[list[AuditRow], dict[str, Any]]:
    """Audit the accepted set; returns the rows and the verdict (see `verdict`). Never raises on a failed audit.

    Args:
        tasks: the whole accepted set, in generation order.
        solve: asks the solver; called once an attempt, with the conversations still unanswered.
        solver: the solver's identity, for the record.
        past: earlier rounds (`repair.past_rounds`); this is round `len(past) + 1`.
        adjudications: task id to recorded reason (`read_adjudications`).
        quarantined: ids that repair removed; one of them among `tasks` fails the audit.
        overlap: exact match of a problem among the evaluation questions, as an id (`OverlapIndex.exact`).
        counts: generated, accepted and rejected counts, from `count`.

    Raises:
        DataError: the sample is larger than the set, or `solve` broke its contract.
    """
    round = len(past) + 1
    sampled = [tasks[i] for i in draw(len(tasks), params.sample, params.seed, round)]
    conversations = [messages(task.problem, few_shot) for task in sampled]
    attempts: list[list[Completion]] = [[] for _ in sampled]
    answers: list[str | None] = [None] * len(sampled)
    open_items = list(range(len(sampled)))
    for attempt in range(params.retries + 1):
        if not open_items:
            break
        answered = list(solve([conversations[i] for i in open_items], attempt))
        if len(answered) != len(open_items) or any(len(votes) != params.votes for votes in answered):
            raise DataError(
                f"audit: the solver returned {len(answered)} answers for {len(open_items)} tasks, or not {params.votes} "
                "completions for each; re-run the audit stage"
            )
        for i, votes in zip(open_items, answered, strict=True):
            attempts[i].extend(votes)
            answers[i] = vote([c.text for c in votes], [c.stop_reason for c in votes])
        open_items = [i for i in open_items if parse_number(answers[i]) is None]
    reasons = adjudications or {}
    rows = []
    for task, tried, answer in zip(sampled, attempts, answers, strict=True):
        outcome = judge(answer, task.label)
        rows.append(
            AuditRow(
                task_id=task.id,
                problem=task.problem,
                label=task.label,
                solver=solver,
                attempts=tuple(c.text for c in tried),
                stop_reasons=tuple(c.stop_reason for c in tried),
                answer=answer,
                outcome=outcome,
                adjudication=None if outcome == AGREE else reasons.get(task.id),
            )
        )
    result = verdict(
        rows, tasks, params, solver=solver, past=past, quarantined=quarantined, overlap=overlap, counts=counts
    )
    return rows, result


def verdict(
    rows: Sequence[AuditRow],
    tasks: Sequence[Task],
    params: AuditParams,
    *,
    solver: str,
    past: Sequence[PastRound] = (),
    quarantined: Collection[str] = frozenset(),
    overlap: Callable[[str], str | None] = lambda problem: None,
    counts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The audit's verdict, a pure function of its rows and of the whole accepted set.

    `label_errors` counts disagreements and unanswered tasks that no human adjudicated. `flagged` lists what
    repair would quarantine: those tasks, and every accepted task that matches an evaluation question or was
    quarantined before. `failures` says why the audit did not pass, one line a reason.
    """
    outcomes = Counter(row.outcome for row in rows)
    wrong = [row for row in rows if row.outcome != AGREE and row.adjudication is None]
    overlaps = {task.id: match for task in tasks if (match := overlap(task.problem)) is not None}
    returned = sorted(task.id for task in tasks if task.id in quarantined)
    largest_sample = max((p.sample for p in past), default=0)
    largest_set = max((p.population for p in past), default=0)
    failures = []
    if len(wrong) > params.max_label_errors:
        failures.append(
            f"{len(wrong)} label errors in {len(rows)} audited tasks, at most {params.max_label_errors} allowed"
        )
    if len(overlaps) > params.max_eval_overlaps:
        failures.append(
            f"{len(overlaps)} accepted tasks equal an evaluation question, at most {params.max_eval_overlaps} allowed"
        )
    if returned:
        failures.append(f"{len(returned)} quarantined tasks are in the set again, first {returned[0]}")
    if len(rows) < largest_sample:
        failures.append(f"the sample shrank from {largest_sample} to {len(rows)} tasks after a repair")
    if len(tasks) < largest_set:
        failures.append(f"the accepted set shrank from {largest_set} to {len(tasks)} tasks after a repair")
    return {
        "round": len(past) + 1,
        "solver": solver,
        "compare": params.compare,
        "seed": params.seed,
        "votes": params.votes,
        "tasks_sha256": digest(tasks),
        "population": len(tasks),
        "sample": len(rows),
        "agree": outcomes[AGREE],
        "disagree": outcomes[DISAGREE],
        "unanswered": outcomes[UNANSWERED],
        "adjudicated": sum(row.adjudication is not None for row in rows),
        "label_errors": len(wrong),
        "max_label_errors": params.max_label_errors,
        "error_rate_upper_bound": upper_bound(len(wrong), len(rows)),
        "confidence": CONFIDENCE,
        "eval_overlaps": len(overlaps),
        "max_eval_overlaps": params.max_eval_overlaps,
        "flagged": sorted({row.task_id for row in wrong} | overlaps.keys() | set(returned)),
        "overlapping": dict(sorted(overlaps.items())),
        "counts": dict(counts or {}),
        "passed": not failures,
        "failures": failures,
    }


def digest(tasks: Iterable[Task]) -> str:
    """sha256 of the tasks as canonical JSON lines: of the very file they were read from."""
    state = hashlib.sha256()
    for task in tasks:
        state.update((dumps(to_dict(task)) + "\n").encode())
    return state.hexdigest()


def count(tasks: Sequence[Task], rejections: Iterable[Rejection]) -> dict[str, Any]:
    """Generated, accepted and rejected counts, and how many candidates failed to execute, for the evidence."""
    reasons = Counter(rejection.reason for rejection in rejections)
    return {
        "generated": len(tasks) + reasons.total(),
        "accepted": len(tasks),
        "rejected": dict(sorted(reasons.items())),
        "execution_errors": sum(n for reason, n in reasons.items() if reason in EXECUTION_REASONS),
    }


def service_solver(sampler: Any, renderer: Any, params: AuditParams, progress: Progress | None = None) -> Solve:
    """A `Solve` over `selfgen.service`'s sampler: attempt k has its own seed; greedy retries sample instead."""
    from selfgen import rendering
    from selfgen.service import SampleRequest

    def solve(conversations: Sequence[Messages], attempt: int) -> Iterable[Sequence[Completion]]:
        greedy_retry = attempt > 0 and params.temperature == 0
        requests = (
            SampleRequest(
                prompt=rendering.prompt_tokens(renderer, conversation),
                n=params.votes,
                max_tokens=params.max_tokens,
                temperature=RETRY_TEMPERATURE if greedy_retry else params.temperature,
                seed=params.seed + attempt,
                stop=rendering.stop(renderer),
            )
            for conversation in conversations
        )
        for completions in sampler.sample_stream(requests):
            if progress is not None:
                note = f"attempt {attempt + 1}" if attempt else None
                progress.update(attempt == 0, sum(c.n_tokens for c in completions), note)
            yield completions

    return solve


def read_adjudications(path: str | Path) -> dict[str, str]:
    """Task id to reason, from the git-tracked file; a missing file rules on nothing.

    Raises:
        DataError: a row has no reason, or two rows rule on one task.
    """
    if not Path(path).exists():
        return {}
    reasons: dict[str, str] = {}
    for number, row in enumerate(read_jsonl(path, Adjudication), start=1):
        if not row.reason.strip():
            raise DataError(f"{path}:{number}: field 'reason' is empty; say why the solver is wrong on {row.task_id}")
        if row.task_id in reasons:
            raise DataError(f"{path}:{number}: second ruling on {row.task_id}; keep one")
        reasons[row.task_id] = row.reason.strip()
    return reasons
