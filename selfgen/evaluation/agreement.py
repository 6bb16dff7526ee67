"""A second, independent grader over the same completions: math-verify. It never decides.

math-verify parses the whole answer with its own grammar, so it shares no code with the stock extractor and grader.
Its own timeouts rest on signals, which do nothing outside a main thread and can be swallowed inside sympy; here it
runs without them in a worker process that is killed when it is late, and a late answer is reported as such instead
of counting as wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from selfgen.evaluation.worker import Worker
from selfgen.records import EvalRow

TIMEOUT = 5.0
"""Seconds math-verify may take for one completion."""

_worker = Worker("selfgen.evaluation.agreement:_verify", ["math_verify"])


@dataclass(frozen=True)
class Item:
    """One completion to grade again. `correct` is the stock grader's verdict, `extracted` what it read."""

    item_id: str
    completion: str
    answer: str
    extracted: str | None
    correct: bool


@dataclass(frozen=True)
class Disagreement:
    """An item on which the graders differ. `second` is None when math-verify ran out of time."""

    item_id: str
    answer: str
    extracted: str | None
    stock: bool
    second: bool | None
    second_extracted: str | None
    completion: str


def second_grader(completion: str, answer: str, timeout: float = TIMEOUT) -> tuple[bool | None, str]:
    """math-verify's verdict and what it read; (None, "") when it is late or dies."""
    result = _worker.call(timeout, completion, answer)
    if result is None:
        return None, ""
    return bool(result[0]), str(result[1])


def agreement(items: Iterable[Item], timeout: float = TIMEOUT) -> dict[str, Any]:
    """Grade every item a second time and list every disagreement.

    Returns:
        n, `agree` (share), `both_correct`, `both_wrong`, `only_stock`, `only_second`, `timeouts` (counts), `without_box`
        (disagreements where the stock extractor found no box, which is what the stock reward asks for) and
        `disagreements` (every one, in order, with both readings).
    """
    counts = {"both_correct": 0, "both_wrong": 0, "only_stock": 0, "only_second": 0, "timeouts": 0, "without_box": 0}
    found: list[Disagreement] = []
    n = 0
    for item in items:
        n += 1
        second, read = second_grader(item.completion, item.answer, timeout)
        if second is None:
            counts["timeouts"] += 1
        elif second and item.correct:
            counts["both_correct"] += 1
        elif not second and not item.correct:
            counts["both_wrong"] += 1
        else:
            counts["only_second" if second else "only_stock"] += 1
        if second is not item.correct:
            counts["without_box"] += item.extracted is None
            found.append(
                Disagreement(
                    item.item_id, item.answer, item.extracted, item.correct, second, read or None, item.completion
                )
            )
    agree = counts["both_correct"] + counts["both_wrong"]
    return {"n": n, "agree": agree / n if n else None, **counts, "disagreements": [asdict(d) for d in found]}


def of_rows(rows: Iterable[EvalRow], timeout: float = TIMEOUT) -> dict[str, Any]:
    """`agreement` over the rows of one evaluation (data/eval/ARM/rows.jsonl); published in data/decide/graders.json."""
    return agreement(
        (Item(row.item_id, row.completion, row.answer, row.extracted, row.correct) for row in rows), timeout
    )


def _verify(completion: str, answer: str) -> tuple[bool, str]:
    """math-verify's verdict on one completion; a completion it cannot read is wrong. Runs in the worker."""
    from math_verify import parse, verify
    from math_verify.parser import ExprExtractionConfig, LatexExtractionConfig

    configs = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
    gold = parse(f"${answer}$", extraction_config=configs, parsing_timeout=None)
    read = parse(completion, extraction_config=configs, parsing_timeout=None)
    if not gold or not read:
        return False, ""
    return bool(verify(gold, read, timeout_seconds=None)), str(read[-1])
