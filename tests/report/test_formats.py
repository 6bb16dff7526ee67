"""How figures and foreign text are written."""

from __future__ import annotations

import pytest

from selfgen.report import formats


@pytest.mark.parametrize(
    ("difference", "text"),
    [(0.0519, "+5.2"), (-0.0815, "\u22128.2"), (0.0, "0.0"), (-0.0001, "0.0"), (None, "not recorded")],
)
def test_points_are_signed_and_never_minus_zero(difference: float | None, text: str) -> None:
    assert formats.points(difference) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3.21, "3.2 s"), (89.9, "89.9 s"), (600, "10.0 min"), (7200, "2.00 h"), (None, "not recorded")],
)
def test_durations_pick_their_unit(seconds: float | None, text: str) -> None:
    assert formats.duration(seconds) == text


def test_a_p_value_is_never_zero() -> None:
    expected = ["1", "0.84", "0.021", "0.0001", "< 0.0001", "< 0.0001"]
    assert [formats.p_value(p) for p in (1.0, 0.84, 0.0213, 0.0001, 0.00009, 0.0)] == expected


def test_weighted_sums_read_like_the_registered_ones_whatever_order_an_artifact_has_them_in() -> None:
    assert formats.weights({"rl_gsm8k": -1, "rl_selfgen": 1}) == "rl_selfgen \u2212 rl_gsm8k"
    told = "rl_selfgen \u2212 0.5 rl_gsm8k \u2212 0.5 base"
    assert formats.weights({"base": -0.5, "rl_gsm8k": -0.5, "rl_selfgen": 1, "other": 0}) == told


def test_hidden_characters_of_foreign_text_are_spelled_out() -> None:
    assert formats.foreign("a\x00b\u202ec\nd\te") == "a\\u0000b\\u202ec\nd\te"
    assert formats.foreign("\ud800") == "\\ud800"


def test_long_foreign_text_says_how_much_was_cut() -> None:
    assert formats.foreign("x" * 1500, 100) == "x" * 100 + "\n[cut: 1,400 more characters]"
