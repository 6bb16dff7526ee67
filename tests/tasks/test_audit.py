"""The audit: blind, exact, never passing on what it could not answer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfgen.errors import DataError
from selfgen.params import AuditParams
from selfgen.records import Completion, Rejection, Task, write_jsonl
from selfgen.tasks import audit


def params(**changes: object) -> AuditParams:
    values: dict = {
        "sample": 10, "seed": 0, "compare": "numeric_exact", "max_label_errors": 0, "max_eval_overlaps": 0,
        "max_tokens": 64, "temperature": 0.0, "retries": 2, "votes": 1,
    }  # fmt: skip
    return AuditParams(**{**values, **changes})


def task(i: int, label: int | None = None, problem: str | None = None) -> Task:
    return Task(
        id=f"task-{i:04d}", candidate_id=f"cand-{i:06d}", index=i, problem=problem or f"Problem number {i}?",
        code=f"def solve():\n    return {i}", label=i if label is None else label, n_correct=3, n_samples=8,
        solutions=("SOLUTION",),
    )  # fmt: skip


TASKS = [task(i) for i in range(40)]


def boxed(answer: object, stop: str = "stop") -> Completion:
    return Completion(f"Let us see. \\boxed{{{answer}}}", 7, stop)


class Oracle:
    """A solver that reads the number in the problem's text; `wrong` and `mute` say where it fails."""

    def __init__(self, wrong: Sequence[int] = (), mute: Sequence[int] = (), cures_at: int | None = None) -> None:
        self.wrong, self.mute, self.cures_at = wrong, mute, cures_at
        self.seen: list[tuple[int, audit.Messages]] = []

    def __call__(self, conversations, attempt):
        for messages in conversations:
            self.seen.append((attempt, messages))
            number = int("".join(c for c in messages[-1]["content"] if c.isdigit()))
            if number in self.mute and (self.cures_at is None or attempt < self.cures_at):
                yield [Completion("I think that", 64, "length")]
            else:
                yield [boxed(number + 1 if number in self.wrong else number)]


def run(solve, tasks=TASKS, **kwargs):
    given_params = kwargs.pop("params", params())
    return audit.run(tasks, solve=solve, params=given_params, solver="the-solver", **kwargs)


def test_an_agreeing_solver_passes_and_is_on_record() -> None:
    rows, verdict = run(Oracle())
    assert verdict["passed"] is True
    assert verdict["failures"] == []
    assert {row.solver for row in rows} == {"the-solver"}
    assert all(row.outcome == "agree" and row.attempts == (f"Let us see. \\boxed{{{row.label}}}",) for row in rows)
    assert (verdict["sample"], verdict["population"], verdict["agree"]) == (10, 40, 10)


@settings(max_examples=30)
@given(labels=st.lists(st.integers(-(10**6), 10**6), min_size=40, max_size=40), code=st.text(max_size=30))
def test_neither_label_nor_code_nor_id_can_reach_the_solver(labels: list[int], code: str) -> None:
    honest, changed = Oracle(), Oracle()
    run(honest, params=params(retries=0))
    other = [
        dataclasses.replace(t, id=f"task-{label}", label=label, code=code, solutions=(code,), n_correct=1)
        for t, label in zip(TASKS, labels, strict=True)
    ]
    run(changed, tasks=other, params=params(retries=0))
    assert honest.seen == changed.seen


def test_the_prompt_is_the_math_environments() -> None:
    oracle = Oracle()
    run(oracle, few_shot="none")
    content = oracle.seen[0][1]
    assert [m["role"] for m in content] == ["user"]
    assert content[0]["content"].endswith("? Write your answer in \\boxed{} format.")


def test_rendered_requests_carry_no_secret_either() -> None:
    """Down to the token ids that leave the machine: a canary in label and code is nowhere in them."""
    sent = []

    class Renderer:
        def build_generation_prompt(self, messages, prefill=None):
            text = "".join(m["content"] for m in messages)
            return type("P", (), {"to_ints": lambda _: [ord(c) for c in text]})()

        def get_stop_sequences(self):
            return [0]

    class Sampler:
        def sample_stream(self, requests):
            for request in requests:
                sent.append(request)
                yield [boxed(1)] * request.n

    canary = [dataclasses.replace(task(i), label=987654321, code="CANARY") for i in range(10)]
    solve = audit.service_solver(Sampler(), Renderer(), params(votes=3, retries=1))
    _, verdict = run(solve, tasks=canary, params=params(votes=3, retries=1))
    wire = "".join(chr(token) for request in sent for token in request.prompt)
    assert "987654321" not in wire
    assert "CANARY" not in wire
    assert verdict["disagree"] == 10
    assert all(request.temperature == 0.0 and request.seed == 0 for request in sent)


@pytest.mark.parametrize(("n", "expected"), [(100, 0.029513), (10, 1 - 0.05**0.1), (1, 0.95)])
def test_zero_errors_bound_is_the_exact_one(n: int, expected: float) -> None:
    assert math.isclose(audit.upper_bound(0, n), expected, abs_tol=1e-6)


@pytest.mark.parametrize(("k", "n"), [(0, 100), (1, 100), (3, 50), (9, 10)])
def test_bound_is_where_so_few_errors_have_probability_five_percent(k: int, n: int) -> None:
    p = audit.upper_bound(k, n)
    tail = math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))
    assert math.isclose(tail, 0.05, rel_tol=1e-9)


def test_bound_with_only_errors_is_one_and_nonsense_is_refused() -> None:
    assert audit.upper_bound(5, 5) == 1.0
    for k, n in ((-1, 5), (6, 5), (0, 0)):
        with pytest.raises(ValueError, match="needs 0"):
            audit.upper_bound(k, n)


def test_one_wrong_label_fails_and_is_flagged() -> None:
    everything = params(sample=40)
    rows, verdict = run(Oracle(wrong=[7]), params=everything)
    assert verdict["passed"] is False
    assert verdict["label_errors"] == 1
    assert verdict["flagged"] == ["task-0007"]
    assert verdict["failures"] == ["1 label errors in 40 audited tasks, at most 0 allowed"]
    assert next(row for row in rows if row.task_id == "task-0007").outcome == "disagree"


def test_a_disagreement_is_never_asked_again() -> None:
    oracle = Oracle(wrong=range(40))
    run(oracle)
    assert {attempt for attempt, _ in oracle.seen} == {0}


def test_a_cut_off_solution_is_asked_again_and_its_attempts_are_kept() -> None:
    rows, verdict = run(Oracle(mute=[3], cures_at=2), params=params(sample=40))
    row = next(row for row in rows if row.task_id == "task-0003")
    assert verdict["passed"] is True
    assert row.stop_reasons == ("length", "length", "stop")
    assert row.outcome == "agree"


def test_a_solver_that_stays_silent_is_an_error_after_the_retries() -> None:
    oracle = Oracle(mute=[3])
    rows, verdict = run(oracle, params=params(sample=40, retries=2))
    assert (verdict["unanswered"], verdict["disagree"], verdict["label_errors"]) == (1, 0, 1)
    assert verdict["passed"] is False
    assert len(next(row for row in rows if row.task_id == "task-0003").attempts) == 3


@pytest.mark.parametrize("text", ["no box here", "\\boxed{84/2}", "\\boxed{}", "\\boxed{3 or 4}", "} \\boxed{4}"])
def test_a_box_without_one_number_is_no_answer(text: str) -> None:
    rows, _ = run(lambda conversations, attempt: [[Completion(text, 5, "stop")] for _ in conversations])
    assert {row.outcome for row in rows} == {"unanswered"}


def test_a_box_in_a_cut_off_solution_does_not_count() -> None:
    rows, _ = run(lambda conversations, attempt: [[boxed(1, "length")] for _ in conversations])
    assert {row.outcome for row in rows} == {"unanswered"}


@pytest.mark.parametrize("spelling", ["1,000", "1000", "1000.0", "\\$1{,}000"])
def test_spellings_of_the_label_agree(spelling: str) -> None:
    tasks = [task(i, label=1000) for i in range(10)]
    _, verdict = run(lambda conversations, attempt: [[boxed(spelling)] for _ in conversations], tasks=tasks)
    assert verdict["agree"] == 10


def test_votes_need_more_than_half() -> None:
    stop = ["stop"] * 4
    texts = ["\\boxed{5}", "\\boxed{5.0}", "\\boxed{6}", "\\boxed{5}"]
    assert audit.vote(texts, stop) == "5"
    assert audit.vote(["\\boxed{5}", "\\boxed{5}", "\\boxed{6}", "\\boxed{6}"], stop) is None
    assert audit.vote(texts, ["stop", "length", "stop", "length"]) is None


def test_the_sample_is_reproducible_differs_by_seed_and_round_and_can_hit_everything() -> None:
    assert audit.draw(40, 10, 0) == audit.draw(40, 10, 0)
    draws = {(seed, round): tuple(audit.draw(40, 10, seed, round)) for seed in range(3) for round in (1, 2)}
    assert len(set(draws.values())) == 6
    hits = {i for seed in range(60) for i in audit.draw(40, 10, seed)}
    assert hits == set(range(40))
    assert audit.draw(7, 7, 3) == list(range(7))


def test_drawing_is_uniform() -> None:
    counts = [0] * 20
    for seed in range(2000):
        for i in audit.draw(20, 5, seed):
            counts[i] += 1
    # Each position: binomial(2000, 1/4), standard deviation 19.4; five of those on either side.
    assert all(abs(count - 500) < 97 for count in counts)


def test_more_than_the_set_holds_is_an_error() -> None:
    with pytest.raises(DataError, match=r"audit\.sample is 41 but only 40"):
        run(Oracle(), params=params(sample=41))


def test_eval_overlaps_are_counted_over_the_whole_set() -> None:
    outside = next(i for i in range(40) if i not in audit.draw(40, 10, 0))
    _, verdict = run(Oracle(), overlap=lambda problem: "test-1" if problem == f"Problem number {outside}?" else None)
    assert verdict["eval_overlaps"] == 1
    assert verdict["overlapping"] == {f"task-{outside:04d}": "test-1"}
    assert verdict["passed"] is False
    assert verdict["flagged"] == [f"task-{outside:04d}"]


def test_an_adjudication_clears_its_task_and_shows() -> None:
    rows, verdict = run(Oracle(wrong=[7]), params=params(sample=40), adjudications={"task-0007": "solver misread"})
    assert verdict["passed"] is True
    assert (verdict["disagree"], verdict["adjudicated"], verdict["label_errors"]) == (1, 1, 0)
    assert next(row for row in rows if row.task_id == "task-0007").adjudication == "solver misread"
    assert all(row.adjudication is None for row in rows if row.task_id != "task-0007")


def test_a_smaller_sample_or_set_after_a_repair_never_passes() -> None:
    past = [audit.PastRound(1, sample=10, population=40)]
    assert run(Oracle(), past=past)[1]["passed"] is True
    _, shrunk = run(Oracle(), params=params(sample=9), past=past)
    assert shrunk["failures"] == ["the sample shrank from 10 to 9 tasks after a repair"]
    _, smaller = run(Oracle(), tasks=TASKS[:39], past=past)
    assert smaller["failures"] == ["the accepted set shrank from 40 to 39 tasks after a repair"]


def test_a_quarantined_task_in_the_set_fails_the_audit() -> None:
    _, verdict = run(Oracle(), quarantined={"task-0001"})
    assert verdict["passed"] is False
    assert verdict["flagged"] == ["task-0001"]


def test_a_solver_that_drops_a_task_is_an_error() -> None:
    with pytest.raises(DataError, match="9 answers for 10 tasks"):
        run(lambda conversations, attempt: [[boxed(1)] for _ in conversations[1:]])


def test_retries_of_a_greedy_audit_sample_with_their_own_seed() -> None:
    sent = []

    class Sampler:
        def sample_stream(self, requests):
            sent.extend(requests)
            return [[Completion("?", 1, "stop")] for _ in range(10)]

    class Renderer:
        def build_generation_prompt(self, messages, prefill=None):
            return type("P", (), {"to_ints": lambda _: [1]})()

        def get_stop_sequences(self):
            return [0]

    run(audit.service_solver(Sampler(), Renderer(), params(seed=5)), params=params(seed=5))
    assert [(r.temperature, r.seed) for r in sent[::10]] == [(0.0, 5), (1.0, 6), (1.0, 7)]


def test_counts_add_up_and_name_execution_errors() -> None:
    rejected = [Rejection(f"c{i}", i, reason, "", "") for i, reason in enumerate(
        ["execution_error", "execution_timeout", "too_long", "too_long"])]  # fmt: skip
    counts = audit.count(TASKS, rejected)
    assert (counts["generated"], counts["accepted"], counts["execution_errors"]) == (44, 40, 2)
    assert counts["rejected"] == {"execution_error": 1, "execution_timeout": 1, "too_long": 2}


def test_adjudications_need_a_reason_and_one_ruling_a_task(tmp_path) -> None:
    path = tmp_path / "adjudications.jsonl"
    assert audit.read_adjudications(path) == {}
    write_jsonl(path, [audit.Adjudication("t1", "misread the units", "ab")])
    assert audit.read_adjudications(path) == {"t1": "misread the units"}
    write_jsonl(path, [audit.Adjudication("t1", "  ")])
    with pytest.raises(DataError, match="reason"):
        audit.read_adjudications(path)
    write_jsonl(path, [audit.Adjudication("t1", "a"), audit.Adjudication("t1", "b")])
    with pytest.raises(DataError, match="second ruling"):
        audit.read_adjudications(path)
