"""The one reader of numbers in prose: every number that a text states, in whatever spelling.

`mentions(fold("She bought twenty-one for $1,000.00"))` finds 21 and 1000. A mention is a whole number token: the 18
in "180", "1.8", "18th", "B18" or "m^18" is part of another number or word and is none. Where English leaves two
readings open ("twenty one-dollar bills", "1 000", "3 quarters"), the mention carries both values, because the
caller that asks "is the answer in the text?" loses one candidate by a false yes and leaks a label by a false no.

Not numbers here: ordinals (18th, eighteenth), "twice", "couple", "a", Roman numerals, digits spelled one by
one, expressions (36 / 2 with spaces), and vague plurals (hundreds of).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from selfgen.tasks.folding import GLUE

Value = int | Fraction


def _numbered(words: str, start: int = 0, step: int = 1) -> dict[str, int]:
    """Blank-separated words, numbered start, start + step, ..."""
    return {word: start + step * i for i, word in enumerate(words.split())}


UNITS = _numbered("zero one two three four five six seven eight nine") | {"nought": 0, "naught": 0}
TEENS = _numbered("ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen", start=10)
TENS = _numbered("twenty thirty forty fifty sixty seventy eighty ninety", start=20, step=10) | {"fourty": 40}
SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
DENOMINATORS = {"half": 2, "quarter": 4} | _numbered(
    "third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth", start=3
)
PLURALS = {f"{word}s": n for word, n in DENOMINATORS.items() if word != "half"} | {"halves": 2}
ORDINAL_UNITS = frozenset(_numbered("first second third fourth fifth sixth seventh eighth ninth"))
SUFFIXES = {"k": 10**3, "m": 10**6, "mn": 10**6, "bn": 10**9}
CURRENCIES = frozenset(_numbered("us usd rs inr eur gbp cad aud nzd sgd hk hkd nt chf jpy cny rmb php r"))
_STARTERS = frozenset({*UNITS, *TEENS, *TENS, *SCALES, "a", "an", "half", "quarter", "dozen"})
MAX_DIGITS = 40  # a longer run is no label, and int() on a very long one is slow or refused

_TOKEN = re.compile(r"(?:(?<![\w.])\.)?\d(?:[\d,.'_]*\d)?|[^\W\d_]+")
_JOIN = re.compile(r"[\s-]+")
_PLAIN = re.compile(r"\d+")
_GROUPED = re.compile(r"\d{1,3}([,'_])\d{3}(?:\1\d{3})*(\.\d+)?")
_INDIAN = re.compile(r"\d{1,2}(?:,\d{2})+,\d{3}(\.\d+)?")
_DECIMAL = re.compile(r"\d*\.\d+")
_EUROPEAN = re.compile(r"\d{1,3}(?:(?:\.\d{3})+(,\d{1,2})|(?:\.\d{3}){2,})")
_EUROPEAN_OR_DECIMAL = re.compile(r"\d{1,3}\.\d{3}")


@dataclass(frozen=True)
class Mention:
    """One number in a folded text: its span there, and each value it can be read as, the likeliest first."""

    start: int
    end: int
    values: tuple[Value, ...]


class _Token(NamedTuple):
    start: int
    end: int
    text: str
    digits: bool


@lru_cache(maxsize=8)  # one problem is read by several filters in a row
def mentions(folded: str) -> tuple[Mention, ...]:
    """All numbers of a folded text (folding.py), left to right, not overlapping."""
    tokens = [_Token(m.start(), m.end(), m[0], m[0][-1].isdigit()) for m in _TOKEN.finditer(folded)]
    found: list[Mention] = []
    reader = _Reader(folded, tokens)
    i = 0
    while i < len(tokens):
        if tokens[i].digits:
            here, i = reader.digits(i)
            found += here
        elif tokens[i].text in _STARTERS:
            mention, i = reader.words(i)
            if mention is not None:
                found.append(mention)
        else:
            i += 1
    return tuple(found)


class _Reader:
    """A cursor-free parser over one tokenised text; every method takes a token index and returns the next one."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self.text = text
        self.tokens = tokens

    def gap(self, i: int) -> str:
        """The text between token i-1 and token i."""
        return self.text[self.tokens[i - 1].end : self.tokens[i].start]

    def word(self, i: int) -> str | None:
        """Token i when it continues the phrase before it: a word, after blanks or a hyphen only."""
        if i >= len(self.tokens) or self.tokens[i].digits or (i and not _JOIN.fullmatch(self.gap(i))):
            return None
        return self.tokens[i].text

    def signed(self, i: int, values: Sequence[Value]) -> tuple[Value, ...]:
        """The values of a number that begins at token i, and their negatives where a minus stands before it."""
        start = self.tokens[i].start
        end = start - 1 if start and self.text[start - 1] in "$\u20ac\u00a3\u00a5" else start
        minus = end > 0 and self.text[end - 1] == "-" and (end < 2 or not (self.text[end - 2].isalnum()))
        spelled = i > 0 and self.tokens[i - 1].text in ("minus", "negative") and self.gap(i).strip("$ ") == ""
        if minus or spelled:
            values = [*values, *(-v for v in values)]
        return tuple(dict.fromkeys(values))

    # -- numbers in digits ------------------------------------------------------------------------------------

    def digits(self, i: int) -> tuple[list[Mention], int]:
        """The mentions that begin with the digit token i."""
        token, tokens = self.tokens[i], self.tokens
        if self.inside_word(i):
            return [], i + 1
        pieces = _read_digits(token.text)
        if len(pieces) != 1:  # a list such as "1,2,3", or a dotted sequence such as "3.4.18"
            found, at = [], token.start
            for text, readings in pieces:
                at = self.text.index(text, at)
                found.append(Mention(at, at + len(text), self.signed(i, readings) if at == token.start else readings))
                at += len(text)
            return found, i + 1
        values: Sequence[Value] = pieces[0][1]
        j, end = i + 1, token.end
        glued = tokens[j].text if j < len(tokens) and not tokens[j].digits and tokens[j].start == end else None
        if glued in ("st", "nd", "rd", "th"):
            return [], j + 1
        if glued in SUFFIXES:
            values = [*(_exact(v * SUFFIXES[glued]) for v in values), *values]
            return [Mention(token.start, tokens[j].end, self.signed(i, values))], j + 1
        if self.is_fraction(i):
            fraction = _ratio(values[0], _read_digits(tokens[j].text)[0][1][0])
            return [Mention(token.start, tokens[j].end, self.signed(i, [fraction]))], j + 1
        mixes = values[0] > 0 and j < len(tokens) and (self.gap(j).isspace() or self.gap(j) in ("-", GLUE))
        if mixes and self.is_fraction(j):
            whole, glue = values[0], self.gap(j) == GLUE
            part = _ratio(_read_digits(tokens[j].text)[0][1][0], _read_digits(tokens[j + 1].text)[0][1][0])
            values = [_exact(whole + part)] if glue else [_exact(whole + part), whole]
            return [Mention(token.start, tokens[j + 1].end, self.signed(i, values))], j + 2
        if _PLAIN.fullmatch(token.text) and len(token.text) <= 3 and token.text[0] != "0":
            joined, parts = token.text, list(values)
            while (
                j < len(tokens)
                and len(joined) <= MAX_DIGITS
                and re.fullmatch(r"\d{3}", tokens[j].text)
                and self.gap(j) == " "
            ):
                joined, parts, end, j = joined + tokens[j].text, [*parts, int(tokens[j].text)], tokens[j].end, j + 1
            if len(parts) > 1:
                return [Mention(token.start, end, self.signed(i, [int(joined), *parts]))], j
        values, end, j = self.tail(values, end, j, in_words=False)
        return [Mention(token.start, end, self.signed(i, values))], j

    def inside_word(self, i: int) -> bool:
        """Whether digit token i is an exponent or letters stand right before it, save a currency ("USD18") or "3x18"."""
        if self.text.endswith("^", 0, self.tokens[i].start):
            return True
        if i == 0 or self.tokens[i - 1].digits or self.tokens[i - 1].end != self.tokens[i].start:
            return False
        prefix = self.tokens[i - 1]
        times = prefix.text == "x" and i > 1 and self.tokens[i - 2].digits and self.tokens[i - 2].end == prefix.start
        return not (times or prefix.text in CURRENCIES)

    def is_fraction(self, i: int) -> bool:
        """Whether tokens i and i+1 read a/b: two plain integers around one slash, not part of a date a/b/c."""
        tokens = self.tokens
        return (
            i + 1 < len(tokens)
            and bool(_PLAIN.fullmatch(tokens[i].text) and _PLAIN.fullmatch(tokens[i + 1].text))
            and self.gap(i + 1) == "/"
            and tokens[i + 1].text.strip("0") != ""
            and max(len(tokens[i].text), len(tokens[i + 1].text)) <= MAX_DIGITS
            and self.text[tokens[i + 1].end : tokens[i + 1].end + 1] != "/"
            and self.text[max(0, tokens[i].start - 1) : tokens[i].start] != "/"
        )

    # -- numbers in words -------------------------------------------------------------------------------------

    def words(self, i: int) -> tuple[Mention | None, int]:
        """The mention that begins with word token i, if one does."""
        text = self.tokens[i].text
        start = self.tokens[i].start
        if i and self.tokens[i - 1].end == start and self.tokens[i - 1].digits:
            return None, i + 1  # a unit glued to digits: "5one" is no number word
        if text in ("half", "quarter"):
            j = i + 2 if self.word(i + 1) in ("a", "an") else i + 1
            whole = 12 if self.word(j) == "dozen" else SCALES.get(self.word(j) or "")
            if whole is None:
                return None, i + 1
            return Mention(start, self.tokens[j].end, (_ratio(whole, DENOMINATORS[text]),)), j + 1
        if text in TENS and self.word(i + 1) in ORDINAL_UNITS:
            if self.gap(i + 1) == "-":
                return None, i + 2  # thirty-first
            return Mention(start, self.tokens[i].end, (TENS[text],)), i + 1  # twenty first graders
        article = text in ("a", "an")
        first = self.word(i + 1) if article else text
        if first == "dozen":
            j = i + 2 if article else i + 1
            return Mention(start, self.tokens[j - 1].end, (12,)), j
        value, j = (1, i + 1) if article else self.below_hundred(i)
        if article and first not in SCALES:
            return None, i + 1
        if value is None:
            if text not in SCALES:
                return None, i + 1
            value, j = 1, i  # a bare "hundred"
        extra: list[Value] = []
        if j == i + 2 and text in TENS and "-" not in self.gap(i + 1) and self.hyphen_follows(j):
            extra = [TENS[text], UNITS[self.tokens[i + 1].text]]  # "twenty one-dollar bills"
        small, first_end = value, j
        value, j = self.scaled(value, j, bare=j == i)
        if j == first_end and 10 <= small < 100:
            second, k = self.below_hundred(j) if self.word(j) else (None, j)
            if second is not None and second >= 10 and (self.word(k) or "") not in SCALES:
                extra.append(100 * small + second)  # a year: "nineteen eighty-four"
        values, end, j = self.tail([value], self.tokens[j - 1].end, j, in_words=True)
        return Mention(start, end, self.signed(i, [*values, *extra])), j

    def hyphen_follows(self, j: int) -> bool:
        return j < len(self.tokens) and self.gap(j) == "-" and not self.tokens[j].digits

    def below_hundred(self, i: int) -> tuple[int | None, int]:
        """A cardinal from 0 to 99 at token i."""
        text = self.tokens[i].text
        if text in TENS:
            unit = self.word(i + 1)
            if unit is not None and UNITS.get(unit, 0) > 0:
                return TENS[text] + UNITS[unit], i + 2
            return TENS[text], i + 1
        value = UNITS.get(text, TEENS.get(text))
        return value, i + (value is not None)

    def scaled(self, value: int, i: int, bare: bool) -> tuple[int, int]:
        """Extend a small cardinal that ends before token i by hundreds, thousands, ... ("and" joins below them).

        `bare`: token i is itself the scale word that begins the number.
        """
        total, group, ceiling = 0, value, 10**18
        word: str | None = self.tokens[i].text if bare else self.word(i)
        while True:
            if word == "hundred" and group < 100 and group > 0:
                group, i = group * 100, i + 1
                extra, i = self.addend(i)
                group, word = group + extra, self.word(i)
            elif word in SCALES and word != "hundred" and SCALES[word] < ceiling and group > 0:
                ceiling = SCALES[word]
                total, i = total + group * ceiling, i + 1
                group, k = self.addend(i)
                if k == i or group == 0:
                    return total, i
                i, word = k, self.word(k)
            else:
                return total + group, i

    def addend(self, i: int) -> tuple[int, int]:
        """[and] 1..99 at token i, after a scale word; (0, i) when there is none."""
        k = i + 1 if self.word(i) == "and" else i
        if self.word(k) is None:
            return 0, i
        value, j = self.below_hundred(k)
        if value is None or value == 0:
            return 0, i
        if k > i and self.word(j) in (*DENOMINATORS, *PLURALS):
            return 0, i  # "one hundred and one half"
        return value, j

    # -- what may follow either -------------------------------------------------------------------------------

    def tail(self, values: Sequence[Value], end: int, j: int, in_words: bool) -> tuple[Sequence[Value], int, int]:
        """Scale words after digits, decimals in words, dozens and fractions after a number that ends before token j."""
        word = self.word(j)
        if not in_words:
            while (scale := SCALES.get((word or "").removesuffix("s"))) is not None and values[0] < 10**MAX_DIGITS:
                values, end, j = [_exact(v * scale) for v in values], self.tokens[j].end, j + 1
                word = self.word(j)
        if word == "point" and self.word(j + 1) in UNITS:
            digits, k = "", j + 1
            while self.word(k) in UNITS:
                digits, k = digits + str(UNITS[self.word(k) or ""]), k + 1
            part = _exact(Fraction(f"0.{digits[:MAX_DIGITS]}"))
            return self.point([v + part for v in values], k)
        if word in ("dozen", "dozens"):
            return [*(_exact(v * 12) for v in values), *values], self.tokens[j].end, j + 1
        if word == "and":
            part_and_next = self.and_fraction(j + 1)
            if part_and_next is not None:
                part, k = part_and_next
                return self.point([_exact(v + part) for v in values], k)
        if word in DENOMINATORS or word in PLURALS:
            denominator = DENOMINATORS.get(word) or PLURALS[word]
            sure = (
                self.gap(j) == "-"
                or self.word(j + 1) == "of"
                or denominator == 2
                or (word in PLURALS and denominator != 4)
            )
            if word in DENOMINATORS and values[0] != 1 and self.gap(j) != "-":
                return values, end, j  # "4 fourth graders"
            fractions = [_ratio(v, denominator) for v in values]
            if not sure:  # "3 quarters" may be coins: the word stays a word
                return [*values, *fractions], end, j
            return fractions, self.tokens[j].end, j + 1
        return values, end, j

    def point(self, values: Sequence[Value], j: int) -> tuple[Sequence[Value], int, int]:
        """After a broken number in words a scale may follow: "two and a half million"."""
        word = self.word(j)
        if word in SCALES:
            return [_exact(v * SCALES[word]) for v in values], self.tokens[j].end, j + 1
        return values, self.tokens[j - 1].end, j

    def and_fraction(self, j: int) -> tuple[Fraction, int] | None:
        """a half, one quarter, three fourths or 1/2 at token j, as in "two and a half"."""
        if j + 1 >= len(self.tokens):
            return None
        if self.is_fraction(j) and _JOIN.fullmatch(self.gap(j)):
            return Fraction(int(self.tokens[j].text), int(self.tokens[j + 1].text)), j + 2
        count = 1 if self.word(j) in ("a", "an") else UNITS.get(self.word(j) or "")
        word = self.word(j + 1)
        if count is None or (word not in DENOMINATORS and word not in PLURALS):
            return None
        return Fraction(count, DENOMINATORS.get(word or "") or PLURALS[word or ""]), j + 2


def _exact(value: Value) -> Value:
    """An int where the value is whole, so that it compares and prints like a label."""
    return value.numerator if isinstance(value, Fraction) and value.denominator == 1 else value


def _ratio(a: Value, b: Value) -> Value:
    return _exact(Fraction(a) / Fraction(b))


def _read_digits(text: str) -> list[tuple[str, tuple[Value, ...]]]:
    """The numbers in one cluster of digits and separators, each with its possible values.

    One entry for a number ("1,000.50", "18.0", "1.000"); several for a list without blanks ("1,2,3");
    none for what is no number ("192.168.1.1", or a run of more than MAX_DIGITS).
    """
    if len(text) > MAX_DIGITS:
        return [p for part in re.split("[,'_]+", text) if 0 < len(part) <= MAX_DIGITS for p in _read_digits(part)]
    if _PLAIN.fullmatch(text):
        return [(text, (int(text),))]
    if _GROUPED.fullmatch(text) or _INDIAN.fullmatch(text):
        plain = re.sub("[,'_]", "", text)
        return [(text, (_exact(Fraction(plain)),))]
    if _EUROPEAN.fullmatch(text):
        return [(text, (_exact(Fraction(text.replace(".", "").replace(",", "."))),))]
    if _DECIMAL.fullmatch(text):
        value = _exact(Fraction("0" + text if text[0] == "." else text))
        if _EUROPEAN_OR_DECIMAL.fullmatch(text):
            return [(text, (value, int(text.replace(".", ""))))]
        return [(text, (value,))]
    if "," in text or "'" in text or "_" in text:
        return [piece for part in re.split("[,'_]+", text) if part for piece in _read_digits(part)]
    return []
