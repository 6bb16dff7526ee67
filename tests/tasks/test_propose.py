"""Proposals: the registered instruction alone, or examples drawn per request; each request fixed by seed and index."""

from __future__ import annotations

import pytest

from selfgen.tasks.examples import EXAMPLES, TOPICS
from selfgen.tasks.parse import Parsed, parse_candidate
from selfgen.tasks.propose import SHOTS, answer, is_example, proposals
from selfgen.tasks.sandbox import run_solve

INSTRUCTION = (
    "Write one grade-school math word problem with a single integer answer, then a short Python function solve() "
    "that returns the answer."
)


def test_the_registered_style_sends_the_instruction_and_nothing_else() -> None:
    for proposal in proposals(INSTRUCTION, "instruction", seed=0, count=5):
        assert proposal.messages == ({"role": "user", "content": INSTRUCTION},)
        assert proposal.prefill == ""
        assert proposal.text("Problem: x") == "Problem: x"


def test_ids_and_indices_follow_generation_order() -> None:
    rows = list(proposals(INSTRUCTION, "instruction", seed=0, count=3))
    assert [(row.index, row.id) for row in rows] == [(0, "cand-000000"), (1, "cand-000001"), (2, "cand-000002")]


@pytest.mark.parametrize("style", ["instruction", "chat_examples"])
def test_more_candidates_keep_every_earlier_request(style) -> None:
    few = list(proposals(INSTRUCTION, style, seed=3, count=20))
    many = list(proposals(INSTRUCTION, style, seed=3, count=60))
    assert many[:20] == few
    assert list(proposals(INSTRUCTION, style, seed=3, count=60, start=20)) == many[20:]


def test_sampling_seeds_are_distinct_31_bit_numbers_that_move_with_the_generation_seed() -> None:
    seeds = [row.seed for row in proposals(INSTRUCTION, "instruction", seed=0, count=2000)]
    assert len(set(seeds)) == 2000
    assert all(0 <= seed < 2**31 for seed in seeds)
    others = [row.seed for row in proposals(INSTRUCTION, "instruction", seed=1, count=2000)]
    assert not set(seeds) & set(others)


def test_chat_examples_are_turns_with_a_topic_and_a_prefilled_start() -> None:
    rows = list(proposals(INSTRUCTION, "chat_examples", seed=0, count=200))
    for row in rows:
        assert [m["role"] for m in row.messages] == ["user", "assistant"] * SHOTS + ["user"]
        assert all(m["content"].startswith(INSTRUCTION) for m in row.messages[::2])
        assert len({m["content"] for m in row.messages[1::2]}) == SHOTS
        assert row.text(" Ann has 2 pens.") == "Problem: Ann has 2 pens."
    assert len({str(row.messages) for row in rows}) == len(rows)
    assert len({row.messages[-1]["content"] for row in rows}) > len(TOPICS) / 2


def test_every_example_is_sound_by_our_own_parser_and_sandbox() -> None:
    for example in EXAMPLES:
        parsed = parse_candidate(answer(example), finished=True)
        assert parsed == Parsed(example.problem, example.code + "\n")
        assert run_solve(example.code).status == "ok"
        assert 15 <= len(example.problem.split()) <= 60


def test_examples_do_not_state_their_answer() -> None:
    for example in EXAMPLES:
        value = run_solve(example.code).value
        numbers = example.problem.replace(",", "").replace("$", "").replace("%", "").replace(".", " ").split()
        assert str(value) not in numbers, example.problem


def test_copies_of_an_example_are_recognised() -> None:
    assert is_example(EXAMPLES[0].problem)
    assert is_example("  " + EXAMPLES[0].problem.upper().replace(",", " ,"))
    assert not is_example(EXAMPLES[0].problem.replace("14", "15"))
