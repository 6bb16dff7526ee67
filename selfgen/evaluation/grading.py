"""The stock extractor and grader, with the timeout that the stock one only announces.

`extract_boxed` and `grade_answer` are the cookbook's own functions: the last `\\boxed{}` counts, and an answer is right
when it normalises to the same text as the gold answer or when sympy finds their difference to be 0. The stock wrapper
(`run_with_timeout_signal`) waits for its thread even after its 1 s timeout, so one hanging simplification hangs the
training loop. Here the grader runs in a worker process that is killed when it is late.

Most answers never need the worker. Two plain integers are compared as numbers (normalisation can do no more to them),
and with an integer gold answer `grade_answer` hands sympy nothing but integers, so it runs in place. Tests hold both
shortcuts against the stock grader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from selfgen.evaluation.worker import Worker

TIMEOUT = 1.0
"""Seconds one comparison may take: the stock environment's figure."""

# Up to 15 digits an integer survives the float that the stock normalisation passes it through.
_PLAIN = re.compile(r"-?[0-9]{1,15}")
_SHORT = 200

_worker = Worker("selfgen.evaluation.grading:_stock_grade", ["tinker_cookbook.recipes.math_rl.math_grading"])


@dataclass(frozen=True)
class Grade:
    """What the extractor found (None without a box) and whether the grader accepts it."""

    extracted: str | None
    correct: bool


def extract(text: str) -> str | None:
    """The content of the last `\\boxed{}` by the stock extractor, or None where it raises."""
    from tinker_cookbook.recipes.math_rl.math_grading import extract_boxed

    try:
        return extract_boxed(text)
    except ValueError:
        return None


def equal(extracted: str, answer: str) -> bool:
    """Whether the stock sympy grader accepts `extracted` for `answer`; False when it fails or takes over a second."""
    if _PLAIN.fullmatch(extracted) and _PLAIN.fullmatch(answer):
        return int(extracted) == int(answer)
    if _PLAIN.fullmatch(answer) and len(extracted) <= _SHORT:
        return _stock_grade(extracted, answer)
    return bool(_worker.call(TIMEOUT, extracted, answer))


def grade(completion_text: str, answer: str) -> Grade:
    """Grade one completion against the gold `answer`, exactly as the stock math environment does.

    Args:
        completion_text: the model's text without its stop token.
        answer: the gold answer as text.
    """
    found = extract(completion_text)
    return Grade(found, found is not None and equal(found, answer))


def grade_many(pairs: Iterable[tuple[str, str]]) -> list[Grade]:
    """`grade` over (completion text, answer) pairs, in order."""
    return [grade(text, answer) for text, answer in pairs]


def _stock_grade(extracted: str, answer: str) -> bool:
    from tinker_cookbook.recipes.math_rl.math_grading import grade_answer

    try:
        return bool(grade_answer(extracted, answer))
    except Exception:
        # The stock wrapper logs any exception of the grader and counts the answer as wrong.
        return False
