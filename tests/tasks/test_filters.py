"""Filters keep the registered order, pay for no sample they do not need, and stop at the last accepted task."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfgen.errors import DataError, YieldError
from selfgen.params import DecontaminateParams, FilterParams, SolveParams
from selfgen.records import Candidate, Completion, CuratedRow, Rejection, Task
from selfgen.tasks import filters
from selfgen.tasks.label import Labelled
from selfgen.tasks.overlap import OverlapIndex
from selfgen.tasks.reasons import FILTER_REASONS, REASONS

TEST_QUESTION = (
    "Janet's ducks lay 16 eggs per day. She eats three for breakfast. How many eggs are left for the market?"
)
INDEX = OverlapIndex.build([CuratedRow("gsm8k-test-00000", TEST_QUESTION, "", "13")])


def params(n_accept: int = 5, reject: tuple[str, ...] = ("exact",), min_words: int = 5) -> FilterParams:
    return FilterParams(
        n_accept=n_accept,
        min_words=min_words,
        max_words=120,
        solve=SolveParams(n_samples=8, min_correct=1, max_correct=6, temperature=1.0, max_tokens=512, seed=0),
        decontaminate=DecontaminateParams.model_validate({"reject": reject}),
    )


def labelled(index: int, problem: str | None = None, label: int = 7) -> Labelled:
    problem = (
        problem
        if problem is not None
        else f"In village v{index}x a farmer counts all of his sheep. How many are there?"
    )
    candidate = Candidate(f"cand-{index:06d}", index, f"raw {index}", 10, "stop")
    return Labelled(candidate, problem, "def solve(): ...", label)


def candidates(rows: Iterable[Labelled | Rejection]) -> list[Candidate]:
    return [
        r.candidate if isinstance(r, Labelled) else Candidate(r.candidate_id, r.index, r.text, 1, "stop") for r in rows
    ]


class Solver:
    """Answers with the number of right samples that `right` gives a problem, and counts what it was asked."""

    def __init__(self, right: dict[str, int] | int) -> None:
        self.right = right
        self.asked: list[int] = []
        self.windows: list[int] = []

    def __call__(self, rows: Iterable[Labelled]) -> Iterator[list[Completion]]:
        batch = list(rows)
        self.windows.append(len(batch))
        for row in batch:
            self.asked.append(row.candidate.index)
            right = self.right if isinstance(self.right, int) else self.right.get(row.problem, 3)
            yield [Completion(str(row.label) if k < right else "wrong", 5, "stop") for k in range(8)]


def grade(text: str, label: int) -> bool:
    return text == str(label)


def run(
    rows: list[Labelled | Rejection], rules: FilterParams, solver: Solver, **more: object
) -> Iterator[Task | Rejection]:
    by_id = {r.candidate.id if isinstance(r, Labelled) else r.candidate_id: r for r in rows}
    return filters.run(
        candidates(rows),
        rules=rules,
        overlap=INDEX,
        solve=solver,
        grade=grade,
        label=lambda stream: (by_id[c.id] for c in stream),
        **more,  # type: ignore[arg-type]
    )


def until_short(results: Iterator[Task | Rejection]) -> list[Task | Rejection]:
    """The rows that come before YieldError, which must come."""
    out: list[Task | Rejection] = []
    with pytest.raises(YieldError):
        out.extend(results)
    return out


def reason_of(row: Labelled, rules: FilterParams, right: int = 3) -> str:
    """The reason for which a single row is rejected, or "accepted"."""
    try:
        (result,) = list(run([row], rules, Solver(right)))
    except YieldError:
        (result,) = list(itertools.islice(run([row], rules, Solver(right)), 1))
    return "accepted" if isinstance(result, Task) else result.reason


def test_rows_come_in_generation_order_and_end_with_the_last_accepted_one():
    rows = [labelled(i) for i in range(40)]
    out = list(run(rows, params(n_accept=5), Solver({rows[i].problem: 8 for i in range(0, 40, 2)})))
    assert [r.index for r in out] == list(range(10))
    assert [r.index for r in out if isinstance(r, Task)] == [1, 3, 5, 7, 9]
    assert {r.reason for r in out if isinstance(r, Rejection)} == {"pass_rate_high"}


def test_an_accepted_task_carries_its_evidence():
    row = labelled(0)
    (task,) = run([row], params(n_accept=1), Solver(2))
    assert task == Task(
        filters.task_id(row.problem, 7), "cand-000000", 0, row.problem, row.code, 7, 2, 8, ("7",) * 2 + ("wrong",) * 6
    )


@pytest.mark.parametrize(
    ("right", "verdict"),
    [(0, "pass_rate_low"), (1, "accepted"), (6, "accepted"), (7, "pass_rate_high"), (8, "pass_rate_high")],
)
def test_the_band_of_one_to_six_right_is_inclusive(right: int, verdict: str):
    assert reason_of(labelled(0), params(n_accept=1), right) == verdict


@pytest.mark.parametrize(
    ("n_words", "verdict"), [(19, "too_short"), (20, "accepted"), (120, "accepted"), (121, "too_long")]
)
def test_twenty_to_a_hundred_and_twenty_words_are_inclusive(n_words: int, verdict: str):
    row = labelled(0, " ".join(["word"] * n_words))
    assert reason_of(row, params(n_accept=1, min_words=20)) == verdict


@pytest.mark.parametrize(
    ("text", "label", "leaks"),
    [
        ("A farm has eighteen hens and 180 cows.", 18, True),
        ("A farm has 180 hens and 1.8 tons of hay on the 18th day.", 18, False),
        ("A pen costs $18.00 in this shop, a book twice that.", 18, True),
        ("One thousand eight hundred fans came, half of them by bus.", 1800, True),
        ("A pen costs 1,800 crowns in this shop, a book twice that.", 800, False),
        ("It was −5 degrees at noon and nine degrees more at night.", -5, True),
        ("It was 5 degrees at noon and nine degrees less at night.", -5, False),
    ],
)
def test_the_label_may_not_stand_in_the_text_in_any_spelling(text: str, label: int, leaks: bool):
    assert (reason_of(labelled(0, text, label), params(n_accept=1)) == "answer_in_text") == leaks


def test_punctuation_standing_alone_is_no_word():
    assert filters.word_count("Tom - who is 5 - has $3 ... How much ?") == 8


def test_only_survivors_of_the_cheap_rules_are_sampled():
    rows: list[Labelled | Rejection] = [
        labelled(0, "too short"),
        labelled(1, "A farmer has 7 sheep and all of them are white."),
        Rejection("cand-000002", 2, "no_code", "", "raw 2"),
        labelled(3, TEST_QUESTION, 13),
        labelled(4),
    ]
    solver = Solver(3)
    out = list(run(rows, params(n_accept=1), solver))
    assert [r.reason if isinstance(r, Rejection) else "accepted" for r in out] == [
        "too_short",
        "answer_in_text",
        "no_code",
        "overlap_exact",
        "accepted",
    ]
    assert solver.asked == [4]


@settings(max_examples=60, deadline=None)
@given(
    right=st.lists(st.integers(0, 8), min_size=1, max_size=120),
    n_accept=st.integers(1, 30),
    floor=st.integers(1, 40),
    ceiling=st.integers(40, 300),
    held=st.integers(1, 50),
)
def test_results_do_not_depend_on_the_window(right: list[int], n_accept: int, floor: int, ceiling: int, held: int):
    rows: list[Labelled | Rejection] = [
        labelled(i, f"A story s{n % 50}x with sheep and cows and hens.") for i, n in enumerate(right)
    ]
    solver = {r.problem: n for r, n in zip(rows, right, strict=True) if isinstance(r, Labelled)}

    def outcome() -> tuple[list[Task | Rejection], str]:
        out: list[Task | Rejection] = []
        try:
            out.extend(run(rows, params(n_accept, reject=("exact", "self")), Solver(solver)))
        except YieldError as error:
            return out, str(error)
        return out, ""

    expected = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filters, "MIN_WINDOW", floor)
        patch.setattr(filters, "MAX_WINDOW", ceiling)
        patch.setattr(filters, "MAX_PENDING", held)
        assert outcome() == expected


@pytest.mark.parametrize("accepted_in_ten", [1, 3, 7, 10])
def test_fewer_than_a_small_window_of_samples_is_paid_past_the_last_accepted_task(accepted_in_ten: int):
    rows: list[Labelled | Rejection] = [labelled(i) for i in range(4000)]
    solver = Solver(
        {r.problem: 3 if i % 10 < accepted_in_ten else 0 for i, r in enumerate(rows) if isinstance(r, Labelled)}
    )
    out = list(run(rows, params(n_accept=320), solver))
    assert sum(isinstance(r, Task) for r in out) == 320
    assert max(solver.asked) - out[-1].index < filters.MIN_WINDOW
    assert max(solver.windows) == filters.MAX_WINDOW


def test_candidates_are_read_lazily():
    read = 0

    def stream() -> Iterator[Candidate]:
        nonlocal read
        for i in range(100_000):
            read += 1
            yield labelled(i).candidate

    out = filters.run(
        stream(),
        rules=params(n_accept=20),
        overlap=INDEX,
        solve=Solver(3),
        grade=grade,
        label=lambda rows: (labelled(c.index) for c in rows),
    )
    assert sum(isinstance(r, Task) for r in out) == 20
    assert read <= 20 + filters.MIN_WINDOW


def test_too_few_accepted_says_how_many_more_candidates_the_yield_asks_for():
    rows: list[Labelled | Rejection] = [labelled(i) for i in range(100)]
    solver = Solver({r.problem: 3 if i % 4 == 0 else 8 for i, r in enumerate(rows) if isinstance(r, Labelled)})
    out = []
    with pytest.raises(YieldError) as error:
        out.extend(run(rows, params(n_accept=40), solver))
    message = str(error.value)
    assert "\n" not in message
    assert "accepted 25 of the 40 tasks wanted from 100 candidates" in message
    assert "about 60 more" in message
    assert "generate.n_candidates to at least 160" in message


def test_too_few_accepted_yields_every_row_first():
    rows: list[Labelled | Rejection] = [labelled(i) for i in range(30)]
    assert len(until_short(run(rows, params(n_accept=40), Solver(3)))) == 30


def test_nothing_accepted_names_no_number_but_the_reasons():
    rows: list[Labelled | Rejection] = [labelled(i, "short") for i in range(3)]
    with pytest.raises(YieldError, match=r"none of 3 candidates was accepted \(too_short 3\)"):
        list(run(rows, params(), Solver(3)))


def test_a_quarantined_task_is_replaced_by_a_later_one_and_nothing_else_moves():
    rows: list[Labelled | Rejection] = [labelled(i) for i in range(60)]
    before = [r for r in run(rows, params(n_accept=5), Solver(3)) if isinstance(r, Task)]
    out = list(run(rows, params(n_accept=5), Solver(3), quarantined=frozenset({before[2].id})))
    after = [r for r in out if isinstance(r, Task)]
    assert [t.index for t in after] == [0, 1, 3, 4, 5]
    assert [(r.index, r.reason) for r in out if isinstance(r, Rejection)] == [(2, "quarantined")]


def test_the_same_task_is_accepted_once_and_sampled_once():
    rows: list[Labelled | Rejection] = [labelled(i, labelled(0).problem) for i in range(3)] + [labelled(3)]
    solver = Solver(3)
    out = list(run(rows, params(n_accept=2), solver))
    assert [r.reason if isinstance(r, Rejection) else "accepted" for r in out] == [
        "accepted",
        "duplicate",
        "duplicate",
        "accepted",
    ]
    assert solver.asked == [0, 3]


def test_a_task_outside_the_band_is_sampled_once_however_often_it_comes_back():
    easy = labelled(999).problem
    rows: list[Labelled | Rejection] = [labelled(i, easy if i % 2 else None) for i in range(200)]
    solver = Solver({easy: 8})
    out = list(run(rows, params(n_accept=90), solver))
    assert {(r.reason, r.n_correct) for r in out if isinstance(r, Rejection)} == {("pass_rate_high", 8)}
    assert [i for i in solver.asked if i % 2] == [1]


def test_self_extends_duplicates_to_the_normal_form():
    other = labelled(0).problem.upper().replace(".", " !")
    rows: list[Labelled | Rejection] = [labelled(0), labelled(1, other), labelled(2)]
    kept = [r.index for r in run(rows, params(n_accept=2), Solver(3)) if isinstance(r, Task)]
    assert kept == [0, 1]
    kept = [r.index for r in run(rows, params(n_accept=2, reject=("exact", "self")), Solver(3)) if isinstance(r, Task)]
    assert kept == [0, 2]


def test_a_duplicate_of_a_rejected_row_is_judged_on_its_own_label():
    text = labelled(0).problem
    rows: list[Labelled | Rejection] = [labelled(0, text, 5), labelled(1, text, 7)]

    def solve(batch: Iterable[Labelled]) -> Iterator[list[Completion]]:
        for _ in batch:
            yield [Completion("7", 1, "stop")] * 4 + [Completion("?", 1, "stop")] * 4

    by_id = {r.candidate.id: r for r in rows if isinstance(r, Labelled)}
    out = list(
        filters.run(
            candidates(rows),
            rules=params(n_accept=1, reject=("exact", "self")),
            overlap=INDEX,
            solve=solve,
            grade=grade,
            label=lambda stream: (by_id[c.id] for c in stream),
        )
    )
    assert [type(r) for r in out] == [Rejection, Task]


def test_overlap_is_explained_by_row_and_passage():
    row = labelled(0, TEST_QUESTION.lower().replace("16", "16.0").replace("three", "3"), 13)
    (out,) = itertools.islice(run([row], params(n_accept=1), Solver(3)), 1)
    assert isinstance(out, Rejection)
    assert out.reason == "overlap_exact"
    assert "gsm8k-test-00000" in out.detail
    assert "ducks lay 16 eggs" in out.detail


def test_a_looser_detector_rejects_only_when_named():
    row = labelled(0, TEST_QUESTION.replace("16", "21").replace("Janet", "Maria"), 13)
    assert reason_of(row, params(n_accept=1)) == "accepted"
    assert reason_of(row, params(n_accept=1, reject=("exact", "masked"))) == "overlap_masked"


def test_a_wrong_number_of_samples_is_an_error_not_a_score():
    def solve(batch: Iterable[Labelled]) -> Iterator[list[Completion]]:
        for _ in batch:
            yield [Completion("7", 1, "stop")] * 7

    row = labelled(0)
    with pytest.raises(DataError, match="7 samples came back"):
        list(
            filters.run([row.candidate], rules=params(), overlap=INDEX, solve=solve, grade=grade, label=lambda _: [row])
        )


def test_a_filter_is_one_function_and_its_reason(monkeypatch: pytest.MonkeyPatch):
    def mentions_sheep(row: Labelled, context: filters.Context) -> Rejection | None:
        return filters.reject(row, "sheep", "a story about sheep") if "sheep" in row.problem else None

    monkeypatch.setitem(REASONS, "sheep", "the story is about sheep")
    monkeypatch.setattr(filters, "RULES", (*filters.RULES, mentions_sheep))
    rows: list[Labelled | Rejection] = [labelled(0), labelled(1, "A story of cows and hens and horses on a farm.")]
    solver = Solver(3)
    out = list(run(rows, params(n_accept=1), solver))
    assert [r.reason if isinstance(r, Rejection) else "accepted" for r in out] == ["sheep", "accepted"]
    assert solver.asked == [1]


def test_a_reason_outside_the_closed_list_is_refused():
    with pytest.raises(ValueError, match="not a reason"):
        filters.reject(labelled(0), "looks_bad", "")


def test_every_filter_reason_can_occur():
    near = TEST_QUESTION.replace("are left for the market", "are then left over for the big market")
    swapped = TEST_QUESTION.replace("16", "21").replace("Janet", "Maria")
    rows = {
        "answer_in_text": labelled(1, "A farmer has seven sheep on his farm."),
        "too_short": labelled(2, "short"),
        "too_long": labelled(3, "word " * 121),
        "quarantined": labelled(4),
        "overlap_exact": labelled(5, TEST_QUESTION),
        "overlap_ngram": labelled(6, near),
        "overlap_minhash": labelled(7, near),
        "overlap_masked": labelled(8, swapped),
        "duplicate": labelled(9, labelled(0).problem),
        "pass_rate_low": labelled(10, "A hard story about hens and geese and ducks."),
        "pass_rate_high": labelled(11, "An easy story about hens and geese and ducks."),
    }
    seen: Counter[str] = Counter()
    for reason, row in rows.items():
        detector = reason.removeprefix("overlap_")
        reject = (detector,) if reason.startswith("overlap_") else ()
        right = {rows["pass_rate_low"].problem: 0, rows["pass_rate_high"].problem: 8}
        quarantined = frozenset({filters.task_id(row.problem, row.label)} if reason == "quarantined" else ())
        out = until_short(run([labelled(0), row], params(2, reject), Solver(right), quarantined=quarantined))
        seen.update(r.reason for r in out if isinstance(r, Rejection))
    assert set(seen) == set(FILTER_REASONS)


def test_rules_look_at_the_record_and_change_nothing():
    row = labelled(0)
    context = filters.Context(params(), INDEX)
    for rule in filters.RULES:
        assert rule(row, context) is None
    assert row == replace(row)
    assert context.accepted_ids == set()
