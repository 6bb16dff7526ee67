"""The number parser: one number or nothing, equal as numbers and never by tolerance."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfgen.numeric import numeric_exact, parse_number


@pytest.mark.parametrize(
    "text",
    ["1000", "1,000", "1000.0", "1000.", "+1000", "$1,000", "\\$1{,}000", "1\\,000", "1,\\!000", "1e3", "1000 apples",
     "\\text{1000 dollars}", "1000\\text{ km/h}", "x = 1000", "\\(1000\\)", "1000\\%", " 1000 ", "\\mathbf{1000}"],
)  # fmt: skip
def test_spellings_of_one_number_are_equal(text: str) -> None:
    assert numeric_exact(text, 1000) is True


@pytest.mark.parametrize("text", ["999.9999999999", "1000.0000001", "-1000", "100", "10000", "1001"])
def test_near_misses_are_not_equal(text: str) -> None:
    assert numeric_exact(text, 1000) is False


@pytest.mark.parametrize(
    "text",
    [None, "", "none", "84/2", "\\frac{84}{2}", "3 or 4", "1,00", "10,00,000", "1 000", "4x", "3^2", "2 + 2", "2 dozen",
     "5 thousand", "--5", "-$-5", "12:30", "x", "1" * 300, "٣", "1.2.3", "1,000,00"],
)  # fmt: skip
def test_texts_without_one_plain_number_say_nothing(text: str | None) -> None:
    assert parse_number(text) is None
    assert numeric_exact(text, 4) is None


@pytest.mark.parametrize("text", ["-5", "\u22125", "-$5", "$-5", "- 5"])
def test_negative_numbers(text: str) -> None:
    assert parse_number(text) == -5


@given(st.integers(-(10**15), 10**15))
def test_every_integer_survives_every_spelling(value: int) -> None:
    for text in (str(value), f"{value:,}", f"{value}.0", f"{value:,}.00", f"{value} units"):
        assert numeric_exact(text, value) is True
    assert numeric_exact(str(value), value + 1) is False


@given(st.text(max_size=60))
def test_any_text_gives_a_number_or_nothing(text: str) -> None:
    assert parse_number(text) is None or isinstance(parse_number(text), Fraction)
