"""One question has one normal form however it is typed, and two questions have two."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfgen.tasks.normalise import Masker, normalise

QUESTION = "Janet’s ducks lay 1,600 eggs per day. She eats three, and sells 50% at $2 each (or ½). How many are left?"


@pytest.mark.parametrize(
    "variant",
    [
        QUESTION.upper(),
        QUESTION.replace(" ", "  \n"),
        QUESTION.replace(" ", "\u00a0"),
        QUESTION.replace("’", "'"),
        QUESTION.replace("’", ""),
        QUESTION.replace("?", "").replace(".", "").replace(",", ""),
        QUESTION.replace("1,600", "1600"),
        QUESTION.replace("1,600", "1 600"),
        QUESTION.replace("1,600", "1600.0"),
        QUESTION.replace("1,600", "sixteen hundred"),
        QUESTION.replace("1,600", "one thousand six hundred"),
        QUESTION.replace("three", "3"),
        QUESTION.replace("three", "**3**"),
        QUESTION.replace("$2", "$2.00"),
        QUESTION.replace("½", "1/2"),
        QUESTION.replace("½", "one half"),
        QUESTION.replace("50%", "fifty percent"),
        QUESTION.replace("day.", "day –"),
        QUESTION.replace("eggs", "e\u200bggs"),
        QUESTION.replace("a", "\uff41"),
        "\ufeff" + QUESTION + "  ",
    ],
)
def test_formatting_does_not_matter(variant: str):
    assert normalise(variant) == normalise(QUESTION)


def test_the_normal_form_is_readable():
    assert normalise(QUESTION) == (
        "janets ducks lay 1600 eggs per day she eats 3 and sells 50 percent at 2 each or 1/2 how many are left"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("He has 12 hens", "He has 1.2 hens"),
        ("He has 1 2 hens", "He has 12 hens"),
        ("Scores of 92, 100 and 7", "Scores of 92 and 100 and 7"),
        ("He has 1/2 a hen", "He has 12 hens"),
        ("He has 1/2 a hen", "He has 1 2 a hen"),
        ("He has 3½ hens", "He has 33/4 hens"),
        ("He has 10² hens", "He has 102 hens"),
        ("He has 1.5 hens", "He has 15 hens"),
        ("He has 18 hens", "He has 18th hens"),
        ("He has 50% more", "He has 50 more"),
        ("a b", "ab"),
    ],
)
def test_numbers_are_not_blurred(one: str, other: str):
    assert normalise(one) != normalise(other)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=80))
def test_any_text_has_a_normal_form_that_ignores_case_and_blanks(text: str):
    normal = normalise(text)
    assert normal == " ".join(normal.split())
    assert normalise(f"  {text}\n") == normal


def test_all_gsm8k_test_questions_stay_apart(gsm8k_dir: Path):
    questions = [json.loads(line)["question"] for line in (gsm8k_dir / "test.jsonl").open()]
    assert len({normalise(q) for q in questions}) == len(questions) == 1319


def test_a_list_of_numbers_may_lose_its_commas():
    assert normalise("Scores: 89, 92, 100, and 86.") == normalise("scores 89 92 100 and 86")


CORPUS = [
    "Janet has 3 ducks. On Monday she sells one duck to Tom.",
    "How many ducks does Tom have? The market is open on Monday. In the evening Janet rests.",
]


def test_a_story_keeps_its_shape_under_other_numbers_names_and_pronouns():
    masker = Masker.learn(CORPUS)
    told = masker.mask("Janet has 3 ducks. On Monday she sells one duck to Tom.")
    assert told == "@ has # ducks on @ % sells # duck to @"
    assert masker.mask("Peter has twelve ducks. On Friday he sells 1,000.5 duck to Mary Ann.") == told


def test_names_are_found_in_any_case_and_words_at_a_sentence_start_are_kept():
    masker = Masker.learn(CORPUS)
    assert masker.mask("JANET HAS 3 DUCKS") == masker.mask("janet has 3 ducks") == "@ has # ducks"
    assert masker.mask("How many ducks? The market") == "how many ducks the market"
    assert masker.mask("Janet's duck and Peter’s duck and James' duck") == "@ duck and @ duck and @ duck"


def test_masking_does_not_confuse_the_marks_with_the_text():
    assert Masker.learn(CORPUS).mask("# @ % 5%") == "percent # percent"
