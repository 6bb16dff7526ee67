"""A stated number is found in every spelling, and never inside another number or word."""

from __future__ import annotations

import itertools
import time
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from selfgen.tasks.folding import fold
from selfgen.tasks.numberwords import mentions

ONES = [
    *[
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
    ],
    *["sixteen", "seventeen", "eighteen", "nineteen"],
]
TENS = ["", "", *["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]]


def below_thousand(n: int, hyphen: str, joiner: str) -> str:
    """n in words, written independently of the code under test."""
    parts = []
    if n >= 100:
        parts.append(f"{ONES[n // 100]} hundred")
    rest = n % 100
    if rest >= 20:
        parts.append(TENS[rest // 10] + (hyphen + ONES[rest % 10] if rest % 10 else ""))
    elif rest or n == 0:
        parts.append(ONES[rest])
    return joiner.join(parts)


def in_words(n: int, hyphen: str = "-", joiner: str = " and ") -> str:
    """n < 10**15 in words: British with joiner " and ", American with " "."""
    groups = []
    for scale, name in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (10**3, "thousand")):
        if n >= scale:
            groups.append(f"{below_thousand(n // scale, hyphen, joiner)} {name}")
            n %= scale
    if n or not groups:
        last = below_thousand(n, hyphen, joiner)
        groups.append(("and " if groups and n < 100 and joiner == " and " else "") + last)
    return " ".join(groups)


def values(text: str) -> list[object]:
    """All readings of all numbers in a text."""
    return [value for mention in mentions(fold(text)) for value in mention.values]


LABELS = st.one_of(st.integers(0, 130), st.integers(0, 10**4), st.integers(0, 10**15 - 1))


def spellings(n: int) -> dict[str, str]:
    """Every spelling that the rule promises to see, of one non-negative integer."""
    return {
        "digits": str(n),
        "commas": f"{n:,}",
        "no-break spaces": f"{n:,}".replace(",", "\u00a0"),
        "narrow no-break spaces": f"{n:,}".replace(",", "\u202f"),
        "thin spaces": f"{n:,}".replace(",", "\u2009"),
        "blanks": f"{n:,}".replace(",", " "),
        "apostrophes": f"{n:,}".replace(",", "'"),
        "typographic apostrophes": f"{n:,}".replace(",", "\u2019"),
        "underscores": f"{n:_}",
        "full stops": f"{n:,}".replace(",", "."),
        "latex groups": f"{n:,}".replace(",", "{,}"),
        "one decimal": f"{n}.0",
        "two decimals": f"{n}.00",
        "commas and decimals": f"{n:,}.00",
        "dollars": f"${n:,}",
        "dollars and cents": f"${n:,}.00",
        "escaped dollars": f"\\${n}",
        "pounds": f"£{n}",
        "euros": f"{n}€",
        "rupees": f"Rs.{n}",
        "currency code": f"USD{n}",
        "percent": f"{n}%",
        "unit": f"{n}cm",
        "hyphenated unit": f"{n}-year-old",
        "hash": f"#{n}",
        "parentheses": f"({n})",
        "bold": f"**{n}**",
        "fullwidth": "".join(chr(ord(c) + 0xFEE0) for c in str(n)),
        "arabic-indic": "".join(chr(ord(c) - 48 + 0x660) for c in str(n)),
        "bold mathematical": "".join(chr(ord(c) - 48 + 0x1D7CE) for c in str(n)),
        "zero-width inside": "\u200b".join(str(n)),
        "words": in_words(n),
        "American words": in_words(n, joiner=" "),
        "unhyphenated words": in_words(n, hyphen=" "),
        "capitals": in_words(n).upper(),
        "all hyphens": in_words(n).replace(" ", "-"),
        "Unicode hyphens": in_words(n, hyphen="\u2011"),
        "line break": in_words(n).replace(" ", "\n"),
    }


@settings(max_examples=300, deadline=None)
@given(
    n=LABELS,
    before=st.sampled_from(["has ", "(", "is: ", '"', "-- ", "\n", ""]),
    after=st.sampled_from([" hens.", ".", "?", ", so", "; 3", '"']),
)
def test_every_spelling_is_seen(n: int, before: str, after: str):
    for name, spelling in spellings(n).items():
        text = f"Anna {before}{spelling}{after}"
        if name == "blanks" and n >= 1000 and before.endswith("\n"):
            continue
        assert n in values(text), (name, text)


@settings(max_examples=200, deadline=None)
@given(n=st.integers(1, 10**12))
def test_negative_labels_are_seen_with_any_minus(n: int):
    for text in (
        f"-{n}",
        f"\u2212{n}",
        f"minus {n}",
        f"negative {in_words(n)}",
        f"-${n}",
        f"$-{n:,}",
        f"it is \u2013{n} degrees",
    ):
        assert -n in values(text), text
    assert -n not in values(f"he has {n} left")
    assert -n not in values(f"{n + 5}-{n} is")


@settings(max_examples=300, deadline=None)
@given(n=st.integers(0, 10**6), other=st.integers(1, 999), part=st.integers(1, 999))
def test_a_number_is_not_seen_inside_another(n: int, other: int, part: int):
    assert n not in values(f"{other}{n:07d}")
    if len(str(part)) != 3:  # 5.125 may be a European 5125
        assert n not in values(f"{n}.{part}") or Fraction(f"{n}.{part}") == n
    assert other not in values(f"{other},{part:03d},{n % 1000:03d}")
    assert n not in values(f"{n}/{n + 1}") or n == 0
    assert n not in values(f"B{n}")
    assert n not in values(f"{n}th")
    assert n not in values(f"the {n}st, {n}ND and {n}rd")


@settings(max_examples=200, deadline=None)
@given(n=st.integers(1, 999_999))
def test_words_give_the_whole_number_only(n: int):
    spelled = in_words(n)
    found = mentions(fold(f"about {spelled} of them"))
    assert [m.values[0] for m in found] == [n]
    assert fold(f"about {spelled} of them")[found[0].start : found[0].end] == spelled


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("180", {180}),
        ("1.8", {Fraction(9, 5)}),
        ("18th", set()),
        ("eighteenth", set()),
        ("B18", set()),
        ("room A18b", set()),
        ("covid-19", {19}),
        ("3.4.18", set()),
        ("192.168.1.1", set()),
        ("12/25/2018", {12, 25, 2018}),
        ("10:30", {10, 30}),
        ("24/7", {Fraction(24, 7)}),
        ("84/2", {42}),
        ("1,2,3", {1, 2, 3}),
        ("1, 2, 3", {1, 2, 3}),
        ("12,34", {12, 34}),
        ("1,00,000", {100_000}),
        ("1.000.000", {1_000_000}),
        ("1.000", {1, 1000}),
        ("1.234,50", {Fraction("1234.5")}),
        ("6'2", {6, 2}),
        ("3x18", {3, 18}),
        ("3 x 18", {3, 18}),
        ("10-18", {10, 18}),
        ("10²", {10}),
        ("m²", set()),
        ("③", {3}),
        ("½", {Fraction(1, 2)}),
        ("3½", {Fraction(7, 2)}),
        ("3 1/2", {Fraction(7, 2), 3}),
        ("1 800 watts", {1800, 1, 800}),
        ("2k", {2000, 2}),
        ("2 m", {2}),
        ("2m", {2, 2_000_000}),
        ("1.5 million", {1_500_000}),
        ("18 hundred", {1800}),
        ("3 hundreds", {300}),
        ("2 dozen", {24, 2}),
        ("a dozen", {12}),
        ("per dozen", {12}),
        ("half a dozen", {6}),
        ("dozens of hens", set()),
        ("hundreds of hens", set()),
        ("a hundred", {100}),
        ("Really? Hundred hens; thousand, million", {100, 1000, 1_000_000}),
        ("half a million", {500_000}),
        ("a man", set()),
        ("half of them", set()),
        ("two and a half", {Fraction(5, 2)}),
        ("two and a half million", {2_500_000}),
        ("2 and 1/2", {Fraction(5, 2)}),
        ("one hundred and one half", {Fraction(201, 2)}),
        ("five point five", {Fraction(11, 2)}),
        ("three-quarters", {Fraction(3, 4)}),
        ("three quarters of", {Fraction(3, 4)}),
        ("three quarters", {Fraction(3, 4), 3}),
        ("two thirds", {Fraction(2, 3)}),
        ("one third of", {Fraction(1, 3)}),
        ("one third grader", {Fraction(1, 3), 1}),
        ("4 fourth graders, five fifth graders", {4, 5}),
        ("by 16:00 2/3 of them", {16, 0, Fraction(2, 3)}),
        ("two seconds", {2}),
        ("thirty-third", set()),
        ("twenty-first century", set()),
        ("twenty first graders", {20}),
        ("twenty third graders", {20}),
        ("twenty-one", {21}),
        ("twenty one-dollar bills", {21, 20, 1}),
        ("twenty ten-dollar bills", {20, 2010, 10}),
        ("nineteen eighty-four", {19, 84, 1984}),
        ("eighteen hundred", {1800}),
        ("one hundred and five", {105}),
        ("five hundred twelve thousand", {512_000}),
        ("ten and twenty", {10, 20}),
        ("five and six", {5, 6}),
        ("someone, anyone, no-one, none", {1}),
        ("ninety-nine", {99}),
        ("ninetynine", set()),
        ("often tender weight", set()),
        ("twice a couple", set()),
        ("zero", {0}),
        ("nought", {0}),
        ("007", {7}),
        ("No.18 and no. 19", {18, 19}),
        (".5", {Fraction(1, 2)}),
        ("1" * 41, set()),
        ("9" * 5000, set()),
        ("two" + " million" * 50, {2_000_000, 1_000_000}),
        ("", set()),
    ],
)
def test_readings(text: str, expected: set[object]):
    assert {v for v in values(text) if not isinstance(v, int) or v >= 0} == expected


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_read(text: str):
    folded = fold(text)
    found = mentions(folded)
    assert all(a.end <= b.start for a, b in itertools.pairwise(found))
    assert all(0 <= m.start < m.end <= len(folded) and m.values for m in found)


@settings(max_examples=500, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "one",
                "two",
                "twenty",
                "fifty-five",
                "hundred",
                "thousand",
                "million",
                "and",
                "a",
                "half",
                "quarter",
                "thirds",
                "third",
                "dozen",
                "dozens",
                "point",
                "minus",
                "-",
                "/",
                ",",
                ".",
                "$",
                "1",
                "2",
                "18",
                "1/2",
                "800",
                "1,000",
                "3.5",
                "k",
                "th",
                "and\u2064",
                "½",
                "first",
                "second",
                "percent",
                "of",
                "the",
            ]
        ),
        max_size=14,
    ),
    st.sampled_from([" ", "-", ""]),
)
def test_any_mix_of_number_words_is_read(words: list[str], joiner: str):
    found = mentions(fold(joiner.join(words)))
    assert all(a.end <= b.start for a, b in itertools.pairwise(found))
    assert all(m.values and all(isinstance(v, int | Fraction) for v in m.values) for m in found)
    assert not any(isinstance(v, Fraction) and v.denominator == 1 for m in found for v in m.values)


HARD_TO_FOLD = [
    *"**\u00d7\uff0a\ufe6112 ,{}\\.^-\u00bd\u00b2\u00a0\u2009\u0301\u200b\u2044\u00e9\u0130\u00df\uff10\u0663'`a",
    "{,}",
    "\\,",
    "000",
    "**",
]


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | st.lists(st.sampled_from(HARD_TO_FOLD), max_size=12).map("".join))
@example("\u00d7\u00d7")  # two signs that become markdown's bold
def test_folding_twice_changes_nothing(text: str):
    assert fold(fold(text)) == fold(text)


def test_folding_unifies_unicode():
    assert fold("Caf\u00e9 \u201cX\u201d \u2014 it\u2019s") == 'cafe "x" - it\'s'
    assert fold("Stra\u00dfe") == fold("STRASSE")
    assert fold("\ufb01ve") == "five"


@pytest.mark.parametrize(
    "piece",
    [
        "million ",
        "5 million ",
        "hundred ",
        "100 000 ",
        "000 ",
        "1,",
        "1,000,",
        "1.",
        "1/2 ",
        "dozen ",
        "two and a half ",
        "point five ",
        *("twenty ", "one-", "9", "minus ", "-", "$", "\u200b1", "\u00bd", "**", "thousand and one ", "5 k", "'1_"),
    ],
)
def test_endless_repetition_is_read_quickly_and_quietly(piece: str):
    text = "So " + piece * 3000
    started = time.perf_counter()
    found = mentions(fold(text))
    assert time.perf_counter() - started < 5  # a few hundredths of a second where nothing else runs
    assert all(len(str(value)) < 200 for mention in found for value in mention.values)


def test_a_long_list_without_blanks_hides_nothing():
    assert 77 in values(",".join(str(n) for n in range(60, 90)))
