"""From a raw candidate to a labelled problem: parse the answer, run its `solve()`, keep the evidence either way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from selfgen.records import Candidate, Rejection
from selfgen.tasks.parse import ParseFailure, parse_candidate
from selfgen.tasks.propose import is_example
from selfgen.tasks.reasons import execution_reason
from selfgen.tasks.sandbox import Outcome, Sandbox, run_solve


@dataclass(frozen=True)
class Labelled:
    """A candidate whose code ran: `label` is what `solve()` returned, an int."""

    candidate: Candidate
    problem: str
    code: str
    label: int


def label(candidate: Candidate, run: Callable[[str], Outcome] = run_solve) -> Labelled | Rejection:
    """Parse one candidate and run its code with `run` (default: this process's shared sandbox).

    The rejection's reason is one of `reasons.PARSE_REASONS` or `reasons.EXECUTION_REASONS`; it keeps the raw text.
    """
    parsed = parse_candidate(candidate.text, candidate.stop_reason == "stop")
    if isinstance(parsed, ParseFailure):
        return Rejection(candidate.id, candidate.index, parsed.reason, parsed.detail, candidate.text)
    if is_example(parsed.problem):
        detail = "the model repeated a worked example of the prompt"
        return Rejection(
            candidate.id, candidate.index, "copied_example", detail, candidate.text, parsed.problem, parsed.code
        )
    outcome = run(parsed.code)
    if outcome.value is not None:
        return Labelled(candidate, parsed.problem, parsed.code, outcome.value)
    return Rejection(
        candidate.id,
        candidate.index,
        execution_reason(outcome.status),
        outcome.detail,
        candidate.text,
        problem=parsed.problem,
        code=parsed.code,
    )


def label_all(candidates: Iterable[Candidate], sandbox: Sandbox) -> Iterator[Labelled | Rejection]:
    """Label a stream, `sandbox.workers` programs at a time: same order as `candidates`, lazy, flat memory."""
    yield from sandbox.map(partial(label, run=sandbox.run), candidates)
