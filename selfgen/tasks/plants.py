"""Altered copies of evaluation questions, made by rule, to measure what a detector finds.

A kind is one function `(question, rng, Names) -> altered text | None` in `KINDS`; None means that the question
offers nothing to alter in that way (no name to swap), and it is left out of that kind's count. The alterations
are written without the detectors' own normal forms, so a detector is not graded on its own rules.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_WORD = re.compile(r"[A-Za-z]+")
# Whole integers only: not a part of a decimal, a fraction, a mixed number, a grouped one, a date or a word.
_DIGITS = re.compile(r"(?<![\w.,/])(?<!\d[ \u00a0])(?:\d{1,3}(?:,\d{3})+|\d+)(?![\w/]|[., \u00a0]\d)")
_SMALL = tuple("zero one two three four five six seven eight nine ten eleven twelve".split())  # noqa: SIM905
_TEENS = tuple("thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split())  # noqa: SIM905
_TENS = tuple("twenty thirty forty fifty sixty seventy eighty ninety".split())  # noqa: SIM905
_SPELLED = (*_SMALL, *_TEENS, *(t + u for t in _TENS for u in ("", *(f"-{s}" for s in _SMALL[1:10]))))
_SPELLED_NUMBER = re.compile(r"(?<![\w-])(" + "|".join(_SMALL[2:]) + r")(?![\w-])")

# The last line's are also words, which a detector may take for words.
NEW_NAMES = (  # noqa: SIM905
    "Aditi Bjorn Camila Darius Elif Farrukh Greta Hamza Ingrid Jomo Katya Lucho Mireille Nkechi Oksana Paolo Quyen "
    "Rashid Sinead Tadeo Ulrike Vikram Wanjiru Ximena Yusuf Zainab "
    "Grace Hope June Mark Rose Will"
).split()

SYNONYMS = (
    (r"how many (\w+)(?= (?:are|were|is) (?:there|left))", r"what number of \1"),
    (r"how much money", "what amount of money"),
    (r"how many", "what number of"),
    (r"how long", "how much time"),
    (r"in total|in all|altogether", "all together"),
    (r"combined", "in sum"),
    (r"every (day|week|month|year|hour)", r"each \1"),
    (r"per (day|week|month|year|hour)", r"a \1"),
    (r"each", "every single"),
    (r"twice as many", "two times as many"),
    (r"half of", "one half of"),
    (r"bought", "purchased"),
    (r"buys", "purchases"),
    (r"buy", "purchase"),
    (r"sells", "is selling"),
    (r"costs", "is priced at"),
    (r"cost", "price"),
    (r"needs to", "has to"),
    (r"needs", "requires"),
    (r"wants to", "would like to"),
    (r"gets", "receives"),
    (r"gave", "handed"),
    (r"gives", "hands"),
    (r"makes", "produces"),
    (r"made", "produced"),
    (r"takes", "requires"),
    (r"left", "remaining"),
    (r"more than", "above"),
    (r"less than", "below"),
    (r"kids", "children"),
    (r"mom", "mother"),
    (r"dad", "father"),
    (r"also", "in addition"),
    (r"then", "after that"),
    (r"but", "yet"),
    (r"because", "since"),
    (r"big", "large"),
    (r"small", "little"),
    (r"house", "home"),
    (r"store", "shop"),
    (r"starts", "begins"),
    (r"finish", "complete"),
    (r"can't", "cannot"),
    (r"doesn't", "does not"),
    (r"didn't", "did not"),
    (r"it's", "it is"),
    (r"they're", "they are"),
)
_RULES = tuple((re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), new) for pattern, new in SYNONYMS)
_QUESTION_IF = re.compile(r"\bIf ([^.?!]+), ((?:how|what|which) [^.?!]+)\?")
_QUESTION_THEN_IF = re.compile(r"\b((?:How|What|Which) [^.?!]+?),? if ([^.?!]+)\?")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class Names:
    """People's names and the like, as a corpus that the detectors do not see writes them: never in lower case."""

    words: frozenset[str]

    @classmethod
    def learn(cls, texts: Iterable[str]) -> Names:
        """Words that stand with a capital inside a sentence at least once, and nowhere without one."""
        inside: set[str] = set()
        lower: set[str] = set()
        for text in texts:
            for sentence in _SENTENCE.split(text):
                for position, word in enumerate(_WORD.findall(sentence)):
                    if word.islower():
                        lower.add(word)
                    elif position and word.istitle() and len(word) > 2:
                        inside.add(word)
        return cls(frozenset(w for w in inside if w.lower() not in lower))


def exact(question: str, rng: random.Random, names: Names) -> str | None:
    """The question itself."""
    return question


def reformatted(question: str, rng: random.Random, names: Names) -> str | None:
    """Other typing, same words and values: two to four of case, blanks, quotes, punctuation, numbers, Unicode."""
    chosen = rng.sample(FORMATS, rng.randint(2, 4))
    for change in FORMATS:  # in a fixed order, so that case comes last
        if change in chosen:
            question = change(question, rng)
    return question


def _blanks(text: str, rng: random.Random) -> str:
    return "".join(rng.choice((" ", "  ", "\n", "\u00a0")) if c == " " and rng.random() < 0.3 else c for c in text)


def _quotes(text: str, rng: random.Random) -> str:
    return text.replace("'", "\u2019") if "'" in text else text.replace("\u2019", "'")


def _punctuation(text: str, rng: random.Random) -> str:
    return _SENTENCE.sub(rng.choice((" ", " - ", "; ")), re.sub(r",(?=\s)", rng.choice(("", " ,", ";")), text)).rstrip(
        "?."
    )


def _numbers(text: str, rng: random.Random) -> str:
    def rewrite(match: re.Match[str]) -> str:
        value = int(match[0].replace(",", ""))
        options = [f"{value:,}", f"{value}.0", f"**{value}**", str(value)]
        if 1 < value < len(_SPELLED):
            options.append(_SPELLED[value])
        return rng.choice(options)

    text = _DIGITS.sub(rewrite, text)
    return _SPELLED_NUMBER.sub(lambda m: str(_SMALL.index(m[1])) if rng.random() < 0.5 else m[0], text)


def _unicode(text: str, rng: random.Random) -> str:
    if rng.random() < 0.5:
        return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" and c not in "-_" else c for c in text)
    return "".join(c + ("\u200b" if c.isalpha() and rng.random() < 0.1 else "") for c in text)


def _case(text: str, rng: random.Random) -> str:
    return rng.choice((str.lower, str.upper, str.title))(text)


FORMATS = (_numbers, _quotes, _punctuation, _blanks, _unicode, _case)


def paraphrased(question: str, rng: random.Random, names: Names) -> str | None:
    """Synonyms (each with probability 0.7) and the condition moved to the other side of the question."""
    text = question
    for pattern, new in _RULES:
        text = pattern.sub(lambda m, new=new: _like(m, new) if rng.random() < 0.7 else m[0], text)  # type: ignore[misc]
    moved = _QUESTION_IF.sub(lambda m: f"{m[2][0].upper()}{m[2][1:]} if {m[1]}?", text)
    if moved == text:
        moved = _QUESTION_THEN_IF.sub(lambda m: f"If {m[2]}, {m[1][0].lower()}{m[1][1:]}?", text)
    return moved if moved != question else None


def _like(match: re.Match[str], new: str) -> str:
    """The replacement, with a capital where the replaced words had one."""
    text = match.expand(new)
    return text[0].upper() + text[1:] if match[0][0].isupper() else text


def number_swapped(question: str, rng: random.Random, names: Names) -> str | None:
    """Every integer, in digits or spelled out from two to twelve, replaced by another of its size."""

    def digits(match: re.Match[str]) -> str:
        value = int(match[0].replace(",", ""))
        new = value
        while new == value:
            new = rng.randint(2, 9) if value < 10 else rng.randint(max(2, value // 2), value * 2)
        return f"{new:,}" if "," in match[0] else str(new)

    def word(match: re.Match[str]) -> str:
        return rng.choice([w for w in _SMALL[2:] if w != match[1]])

    text = _SPELLED_NUMBER.sub(word, _DIGITS.sub(digits, question))
    return text if text != question else None


def name_swapped(question: str, rng: random.Random, names: Names) -> str | None:
    """Every name replaced by another one, the same throughout."""
    found = sorted({w for w in _WORD.findall(question) if w in names.words})
    if not found:
        return None
    others = [name for name in NEW_NAMES if name not in found]
    new = dict(zip(found, rng.sample(others, min(len(found), len(others))), strict=False))
    return _WORD.sub(lambda m: new.get(m[0], m[0]), question)


def both_swapped(question: str, rng: random.Random, names: Names) -> str | None:
    """Names and numbers replaced: the story alone is left."""
    text = name_swapped(question, rng, names)
    return None if text is None else number_swapped(text, rng, names)


Kind = Callable[[str, random.Random, Names], str | None]
KINDS: dict[str, Kind] = {
    "exact": exact,
    "reformatted": reformatted,
    "paraphrased by rule": paraphrased,
    "numbers swapped": number_swapped,
    "names swapped": name_swapped,
    "names and numbers swapped": both_swapped,
}


def plant(kind: str, row_id: str, question: str, seed: int, names: Names) -> str | None:
    """One altered copy; depends on (kind, row id, seed) only."""
    return KINDS[kind](question, random.Random(f"{seed}:{kind}:{row_id}"), names)
