"""The stand-in curated set: what its rows promise."""

from __future__ import annotations

import random
import re

import pytest

from selfgen.curated import standin
from selfgen.curated.templates import Problem, draw, draw_outside
from selfgen.curated.templates.engine import compute, library, numbers_for
from selfgen.errors import DataError
from selfgen.records import dumps


def key_sets(n_train=400, n_test=200, seed=0):
    return {split: {p.key for p in standin._draw_split(split, n, seed)} for split, n in
            (("train", n_train), ("test", n_test))}  # fmt: skip


def test_equal_arguments_give_equal_rows_and_other_seeds_other_rows():
    assert standin.build(30, 20, 10, seed=3) == standin.build(30, 20, 10, seed=3)
    assert standin.build(30, 20, 10, seed=3)["train"] != standin.build(30, 20, 10, seed=4)["train"]


def test_rows_are_pinned_across_python_versions_and_machines():
    import hashlib

    text = "\n".join(dumps(r.__dict__) for rows in standin.build(200, 100, 40).values() for r in rows)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "f2856f341b7e8ed2"


def test_a_larger_set_extends_a_smaller_one_and_splits_do_not_interact():
    small, large = standin.build(10, 10, 5), standin.build(25, 40, 5)
    assert large["train"][:10] == small["train"]
    assert large["test"][:10] == small["test"]
    assert large["outside"] == small["outside"]


def test_train_and_test_share_no_structure_with_its_numbers():
    keys = key_sets()
    assert not keys["train"] & keys["test"]


def test_train_of_one_seed_never_meets_test_of_another():
    assert not key_sets(seed=0)["train"] & key_sets(seed=1)["test"]


def test_test_problems_are_reserved_whatever_the_seed():
    assert all(standin.reserved_for_test(p) for p in standin._draw_split("test", 100, 7))
    assert not any(standin.reserved_for_test(p) for p in standin._draw_split("train", 100, 7))


def test_an_overlap_is_refused_with_the_question_in_the_message():
    problem = draw(random.Random(0))
    with pytest.raises(DataError, match="share a problem"):
        standin.check_disjoint({"train": [problem], "test": [problem]})
    reworded = Problem(problem.clauses, problem.numbers, "Other words.", problem.steps)
    with pytest.raises(DataError, match="train and test share"):
        standin.check_disjoint({"train": [problem], "test": [reworded]})


def test_a_negative_size_is_refused_by_name():
    with pytest.raises(DataError, match="size of test is -1"):
        standin.build(1, -1)


def test_solutions_have_the_form_of_gsm8k_and_every_calculator_mark_is_right():
    for rows in standin.build(150, 50, 50).values():
        for row in rows:
            *lines, last = row.solution.splitlines()
            assert last == f"#### {row.answer}"
            assert str(int(row.answer)) == row.answer
            assert int(row.answer) > 0
            for line in lines:
                (mark,) = re.findall(r"<<(\d+)([-+*/])(\d+)=(\d+)>>", line)
                assert compute(int(mark[0]), mark[1], int(mark[2])) == int(mark[3])


def test_programs_return_the_answer_and_assert_exact_division():
    rng = random.Random(5)
    for problem in [draw(rng) for _ in range(300)] + [draw_outside(rng) for _ in range(100)]:
        scope: dict = {}
        exec(problem.program(), scope)
        assert scope["solve"]() == problem.answer
        assert problem.program().count(" % ") == sum(s.op == "/" for s in problem.steps)


def test_every_number_of_a_problem_stands_in_its_text():
    rng = random.Random(6)
    for _ in range(300):
        problem = draw(rng)
        for number in problem.numbers:
            assert str(number) in re.findall(r"\d+", problem.question)


def test_most_problems_have_20_to_120_words_and_two_to_four_steps():
    rows = standin._draw_split("train", 500, 1)
    lengths = [len(p.question.split()) for p in rows]
    assert sum(20 <= n <= 120 for n in lengths) / len(lengths) > 0.99
    assert {len(p.steps) for p in rows} == {2, 3, 4}


def test_problems_are_wide_hundreds_of_structures_and_no_repeated_question():
    rows = standin._draw_split("train", 1000, 2)
    assert len({p.clauses for p in rows}) > 600
    assert len({p.question for p in rows}) == 1000
    openers, middles, closers = library()
    assert len(openers) > 24
    assert sum(map(len, middles.values())) > 24
    assert sum(map(len, closers.values())) > 24


def test_outside_problems_use_none_of_the_template_clauses():
    inside = {c.id for c in library()[0]} | {c.id for group in library()[2].values() for c in group}
    rng = random.Random(0)
    assert not {draw_outside(rng).clauses[0] for _ in range(200)} & inside


def test_wide_draws_keep_every_step_a_positive_integer():
    rng = random.Random(8)
    for _ in range(300):
        problem = draw(rng, 1, 5, wide=True)
        assert all(compute(s.left, s.op, s.right) == s.value for s in problem.steps)


@pytest.mark.parametrize(
    ("spec", "value", "allowed"),
    [
        ("a=3..5", None, {"a": {3, 4, 5}}),
        ("a=10..20/5", None, {"a": {10, 15, 20}}),
        ("b=2..3 a=b*4..5", None, {"b": {2, 3}, "a": {8, 10, 12, 15}}),
        ("d|v", 12, {"d": {2, 3, 4, 6}}),
        ("c<v", 5, {"c": {2, 3, 4}}),
    ],
)
def test_number_specs_draw_what_they_say(spec, value, allowed):
    rng = random.Random(0)
    seen = {name: set() for name in allowed}
    for _ in range(400):
        for name, number in numbers_for(spec, value, rng).items():
            seen[name].add(number)
    assert seen == allowed


def test_a_number_spec_without_a_choice_gives_none():
    assert numbers_for("d|v", 13, random.Random(0)) is None
    assert numbers_for("c<v", 3, random.Random(0)) is None
