"""One greedy row per item, in order, and the noise floor."""

import pytest

from selfgen import rendering
from selfgen.errors import DataError
from selfgen.evaluation import eval as evaluation
from selfgen.evaluation.noise import flips
from selfgen.params import EvalParams
from selfgen.records import Completion, CuratedRow, EvalRow

PARAMS = EvalParams(max_tokens=64, temperature=0.0, few_shot="none")
ROWS = [CuratedRow(f"t-{i}", f"What is {i} + 1?", "", str(i + 1)) for i in range(5)]


class Oracle:
    """Answers i + 1 for the i-th request, or 0 for the numbers in `wrong`."""

    def __init__(self, wrong=()):
        self.wrong = wrong
        self.seen = []

    def sample_stream(self, requests):
        for number, request in enumerate(requests):
            self.seen.append(request)
            value = 0 if number in self.wrong else number + 1
            yield [Completion(f"It is \\boxed{{{value}}}", 7, "stop")]


@pytest.fixture(scope="module")
def renderer():
    return rendering.renderer("qwen3_instruct", "selfgen/policy")


def test_rows_follow_the_set_and_carry_completion_extraction_and_verdict(renderer):
    oracle = Oracle(wrong={2})
    rows = list(evaluation.evaluate(ROWS, oracle, arm="a", renderer=renderer, params=PARAMS))
    assert [row.item_id for row in rows] == [row.id for row in ROWS]
    assert [row.correct for row in rows] == [True, True, False, True, True]
    assert rows[2].extracted == "0"
    assert all(request.temperature == 0.0 and request.n == 1 for request in oracle.seen)
    assert evaluation.summary(rows) == {
        "n": 5, "correct": 4, "accuracy": 0.8, "no_box": 0.0, "truncated": 0.0, "mean_tokens": 7.0
    }  # fmt: skip


def test_a_repetition_asks_anew_instead_of_reading_the_journal(renderer):
    first, second = Oracle(), Oracle()
    list(evaluation.evaluate(ROWS, first, arm="a", renderer=renderer, params=PARAMS))
    list(evaluation.evaluate(ROWS, second, arm="a", renderer=renderer, params=PARAMS, repetition=1))
    assert [r.prompt for r in first.seen] == [r.prompt for r in second.seen]
    assert {r.seed for r in first.seen} != {r.seed for r in second.seen}


def test_an_item_that_stands_twice_is_refused(renderer):
    with pytest.raises(DataError, match="t-0 stands twice"):
        list(evaluation.evaluate([*ROWS, ROWS[0]], Oracle(), arm="a", renderer=renderer, params=PARAMS))


def row(item, correct, text="x"):
    return EvalRow(item, "a", "1", text, 1, "stop", "1", correct)


def test_flips_are_counted_by_verdict_and_listed():
    first = [row("i0", True), row("i1", False), row("i2", True)]
    second = [row("i0", False), row("i1", False, "y"), row("i2", True)]
    found = flips(first, second)
    assert found["changed_verdict"] == ["i0"]
    assert found["changed_text"] == ["i1"]
    assert found["flip_rate"] == pytest.approx(1 / 3)
    assert found["net"] == pytest.approx(-1 / 3)


def test_flips_of_different_items_are_refused():
    with pytest.raises(DataError, match="not of the same items"):
        flips([row("i0", True)], [row("i1", True)])
