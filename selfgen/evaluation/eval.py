"""Greedy evaluation of one arm: one row per item, in the set's order.

The cookbook's own evaluator samples at temperature 1, so this loop asks the service itself, with the prompt of the
stock environment and its extractor. Requests go through the journal: an evaluation killed at 90 % resumes at 90 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from selfgen.errors import DataError
from selfgen.evaluation.grading import grade
from selfgen.evaluation.prompting import math_messages
from selfgen.records import Completion, CuratedRow, EvalRow, by_set

if TYPE_CHECKING:
    from selfgen.params import EvalParams
    from selfgen.service import Sampler, SampleRequest


def evaluate(
    rows: Sequence[CuratedRow],
    sampler: Sampler,
    *,
    arm: str,
    renderer: Any,
    params: EvalParams,
    repetition: int = 0,
) -> Iterator[EvalRow]:
    """Ask the sampler each row's problem once, greedily, and grade the answer.

    Args:
        rows: the test set; ids must be unique.
        sampler: of the arm's checkpoint, or of the base model.
        arm: the arm's name, written to each row.
        renderer: the model's cookbook renderer.
        params: token limit, temperature 0 and prompt style.
        repetition: 0 for the evaluation that counts. A repetition differs in its request seed alone, which greedy
            decoding ignores, so that the journal cannot answer it from the first.

    Yields:
        One `EvalRow` per row, in order.

    Raises:
        DataError: an id stands twice.
        ServiceError: the service fails a request after its retries.
    """
    ids = [row.id for row in rows]
    if len(set(ids)) != len(ids):
        twice = next(i for i in ids if ids.count(i) > 1)
        raise DataError(f"evaluation set: item {twice} stands twice; rebuild it with `dvc repro curated`")
    requests = (request(row, renderer, params, repetition) for row in rows)
    for row, completions in zip(rows, sampler.sample_stream(requests), strict=True):
        yield graded(row, arm, completions[0])


def request(row: CuratedRow, renderer: Any, params: EvalParams, repetition: int = 0) -> SampleRequest:
    """The greedy request for one item."""
    from selfgen.rendering import prompt_tokens, stop
    from selfgen.service import SampleRequest

    return SampleRequest(
        prompt=prompt_tokens(renderer, math_messages(row.question, params.few_shot)),
        n=1,
        max_tokens=params.max_tokens,
        temperature=params.temperature,
        seed=repetition,
        stop=stop(renderer),
    )


def graded(row: CuratedRow, arm: str, completion: Completion) -> EvalRow:
    """One completion as an evaluation row."""
    found = grade(completion.text, row.answer)
    return EvalRow(
        item_id=row.id,
        arm=arm,
        answer=row.answer,
        completion=completion.text,
        n_tokens=completion.n_tokens,
        stop_reason=completion.stop_reason,
        extracted=found.extracted,
        correct=found.correct,
    )


def metrics(rows: Iterable[EvalRow], transfer: Iterable[EvalRow]) -> dict[str, Any]:
    """An arm's metrics file: the summary of the deciding set, and of each transfer set under its name."""
    beside = {name: summary(found) for name, found in by_set(transfer).items()}
    return {**summary(rows), **({"transfer": beside} if beside else {})}


def summary(rows: Iterable[EvalRow]) -> dict[str, float | int]:
    """Metrics of one arm: n, correct, accuracy, share without a box, share cut at the limit, mean tokens.

    Raises:
        DataError: there are no rows.
    """
    rows = list(rows)
    if not rows:
        raise DataError("evaluation: no rows; the test set is empty, check curated in params")
    n = len(rows)
    correct = sum(row.correct for row in rows)
    return {
        "n": n,
        "correct": correct,
        "accuracy": correct / n,
        "no_box": sum(row.extracted is None for row in rows) / n,
        "truncated": sum(row.stop_reason == "length" for row in rows) / n,
        "mean_tokens": sum(row.n_tokens for row in rows) / n,
    }
