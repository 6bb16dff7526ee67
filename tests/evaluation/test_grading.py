"""Grades equal the stock environment's, and a hanging grader is stopped."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tinker_cookbook.recipes.math_rl import math_grading
from tinker_cookbook.recipes.math_rl.math_env import safe_grade

from selfgen.evaluation import grading
from selfgen.evaluation.worker import Worker

RIGHT = ["42", "42.0", "1,000", "$18", "42 hours", "\\text{42}", "42\\%", "\\$42", " 42 ", "042", "+42", "(42)", "4 2"]
ANSWERS = ["42", "1000", "18", "-3", "0"]


@pytest.mark.parametrize(
    "extracted", [*RIGHT, "42 apples", "84/2", "", "x", "\\frac{84}{2}", "1e2", "nan", "inf", "1_000"]
)
@pytest.mark.parametrize("answer", ANSWERS)
def test_named_forms_grade_as_the_stock_grader_does(extracted, answer):
    assert grading.equal(extracted, answer) == safe_grade(extracted, answer)


def test_the_forms_that_the_plan_names_grade_as_it_says():
    accepted = {"42.0": "42", "1,000": "1000", "$18": "18", "42 hours": "42"}
    assert all(grading.equal(form, answer) for form, answer in accepted.items())
    assert not grading.equal("42 apples", "42")
    assert not grading.equal("84/2", "42")


@settings(max_examples=300, deadline=None)
@given(st.from_regex(r"-?[0-9]{1,18}", fullmatch=True), st.from_regex(r"-?[0-9]{1,18}", fullmatch=True))
def test_plain_integers_compare_as_the_stock_grader_compares_them(extracted, answer):
    assert grading.equal(extracted, answer) == math_grading.grade_answer(extracted, answer)
    assert grading.equal(answer, answer) == math_grading.grade_answer(answer, answer)


@settings(max_examples=400, deadline=None)
@given(
    st.text(alphabet="0123456789 ,.$%{}()[]\\/-+*^abfrcdehourstx_", max_size=40), st.integers(-(10**6), 10**6).map(str)
)
def test_with_an_integer_gold_answer_sympy_gets_nothing_but_integers(extracted, answer):
    # This is why such answers may be graded in place: sympy cannot hang on the difference of two integers.
    given_to_sympy = []
    stock = math_grading.are_equal_under_sympy

    def spy(gold, found):
        given_to_sympy.append((gold, found))
        return stock(gold, found)

    math_grading.are_equal_under_sympy = spy
    try:
        grading._stock_grade(extracted, answer)
    finally:
        math_grading.are_equal_under_sympy = stock
    for pair in given_to_sympy:
        assert all(float(side.replace(",", "")).is_integer() for side in pair)


def test_the_last_box_counts_and_no_box_is_none():
    assert grading.grade("\\boxed{1} then \\boxed{2}", "2") == grading.Grade("2", True)
    assert grading.grade("no box, 2", "2") == grading.Grade(None, False)
    assert grading.grade("unmatched } \\boxed{2}", "2") == grading.Grade(None, False)


def test_an_expression_that_hangs_the_stock_grader_is_wrong_within_the_limit():
    hanging = "((((((9**9)**9)**9)**9)**9)**9)**9"
    grading.equal("x+1", "1+x")  # the worker is up
    began = time.monotonic()
    assert grading.equal(hanging, "x+1") is False
    assert time.monotonic() - began < grading.TIMEOUT + 2
    assert grading.equal("x+1", "1+x") is True  # a new worker answers


def test_a_worker_that_dies_or_prints_does_not_disturb_the_answers():
    worker = Worker("tests.evaluation.misbehaving:misbehave")
    try:
        assert worker.call(20, "print") == "done"
        assert worker.call(20, "die") is None
        assert worker.call(20, "raise") is None
        assert worker.call(20, "print") == "done"
        assert worker.call(0.5, "hang") is None
        assert worker.call(20, "print") == "done"
        assert worker.starts == 3
    finally:
        worker.close()


def test_real_completions_grade_as_the_stock_environment_grades_them(root):
    path = root.parent / "shared" / "samples" / "solutions.jsonl"
    if not path.is_file():
        pytest.skip(f"needs raw model solutions at {path}")
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        try:
            stock = safe_grade(math_grading.extract_boxed(row["text"]), row["gold"])
        except ValueError:
            stock = False
        assert grading.grade(row["text"], row["gold"]).correct == stock
