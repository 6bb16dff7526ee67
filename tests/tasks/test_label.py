"""Labelling: every raw candidate becomes a labelled problem or a rejection with one reason and its evidence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from selfgen.records import Candidate, Rejection
from selfgen.tasks.examples import EXAMPLES
from selfgen.tasks.label import Labelled, label, label_all
from selfgen.tasks.propose import answer
from selfgen.tasks.reasons import EXECUTION_REASONS, PARSE_REASONS
from selfgen.tasks.sandbox import Outcome, Sandbox

JUDGED = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "judged_generations.jsonl").read_text(encoding="utf-8").splitlines()
]

ANSWER = (
    "Problem: A box holds 6 eggs. How many eggs do 7 boxes hold?\n```python\ndef solve():\n    return {value}\n```\n"
)


def candidate(index: int, text: str, stop_reason: str = "stop") -> Candidate:
    return Candidate(f"cand-{index:06d}", index, text, 50, stop_reason)


def judged_candidates() -> list[Candidate]:
    return [candidate(i, case["text"], "stop" if case["finished"] else "length") for i, case in enumerate(JUDGED)]


def test_the_return_value_is_the_label() -> None:
    row = candidate(3, ANSWER.format(value="6 * 7"))
    assert label(row) == Labelled(
        row, "A box holds 6 eggs. How many eggs do 7 boxes hold?", "def solve():\n    return 6 * 7\n", 42
    )


def test_a_zero_label_is_a_label() -> None:
    result = label(candidate(0, ANSWER.format(value="6 * 7 - 42")))
    assert isinstance(result, Labelled)
    assert result.label == 0


def test_a_parse_failure_keeps_the_raw_text_and_runs_nothing() -> None:
    def run(code: str) -> Outcome:
        raise AssertionError("nothing to run")

    row = candidate(5, "I cannot help with that.")
    result = label(row, run)
    assert result == Rejection(row.id, 5, "no_code", "no code at all", row.text)


def test_an_execution_failure_keeps_the_raw_text_the_problem_and_the_code() -> None:
    row = candidate(6, ANSWER.format(value="6 / 7"))
    result = label(row)
    assert isinstance(result, Rejection)
    assert (result.reason, result.text, result.label) == ("execution_bad_type", row.text, None)
    assert result.problem == "A box holds 6 eggs. How many eggs do 7 boxes hold?"
    assert result.code == "def solve():\n    return 6 / 7\n"
    assert "float" in result.detail


def test_a_copy_of_a_worked_example_is_not_the_models_own_task() -> None:
    copied = label(candidate(0, answer(EXAMPLES[3])))
    assert isinstance(copied, Rejection)
    assert (copied.reason, copied.problem) == ("copied_example", EXAMPLES[3].problem)
    assert isinstance(label(candidate(0, answer(EXAMPLES[3]).replace("15 tomatoes", "16 tomatoes"))), Labelled)


def test_a_completion_cut_at_max_tokens_is_not_finished() -> None:
    text = ANSWER.format(value="6 * 7").removesuffix("```\n")
    assert isinstance(label(candidate(0, text, "stop")), Labelled)
    cut = label(candidate(0, text, "length"))
    assert isinstance(cut, Rejection)
    assert cut.reason == "truncated"


@pytest.fixture(scope="module")
def labelled() -> list[Labelled | Rejection]:
    with Sandbox(2) as sandbox:
        return list(label_all(judged_candidates(), sandbox))


def test_judged_answers_get_their_judged_labels(labelled: list[Labelled | Rejection]) -> None:
    for case, result in zip(JUDGED, labelled, strict=True):
        if isinstance(result, Labelled):
            got = ("accept", "ok", result.label)
        elif result.reason in PARSE_REASONS:
            got = (result.reason, None, None)
        else:
            got = ("accept", result.reason.removeprefix("execution_"), None)
        assert got == (case["verdict"], case["outcome"], case["label"]), case["id"]


def test_reasons_add_up_to_the_candidates(labelled: list[Labelled | Rejection]) -> None:
    counts = Counter(row.reason if isinstance(row, Rejection) else "labelled" for row in labelled)
    assert sum(counts.values()) == len(JUDGED)
    assert set(counts) <= {"labelled", *PARSE_REASONS, *EXECUTION_REASONS}
    for row in labelled:
        if isinstance(row, Rejection):
            assert row.detail
            assert row.text == JUDGED[row.index]["text"]


def test_a_stream_keeps_its_order_and_gives_the_same_rows_on_one_worker_and_on_two(
    labelled: list[Labelled | Rejection],
) -> None:
    with Sandbox(1) as sandbox:
        alone = list(label_all(judged_candidates(), sandbox))
    assert alone == labelled


def test_the_stream_is_lazy() -> None:
    taken = []

    def endless() -> Iterator[Candidate]:
        index = 0
        while True:
            taken.append(index)
            yield candidate(index, ANSWER.format(value=index))
            index += 1

    with Sandbox(2) as sandbox:
        rows = label_all(endless(), sandbox)
        first = [next(rows) for _ in range(20)]
        rows.close()  # type: ignore[attr-defined]
    assert [row.label for row in first] == list(range(20))
    assert len(taken) <= 20 + 8
