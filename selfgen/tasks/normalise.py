"""Two canonical forms of a problem: `normalise` for exact matching, `Masker.mask` for same-story matching.

`normalise` ignores case, spacing, punctuation, Unicode variants, accents and how a number is written, so
"She paid $1,000.00!" equals "she paid one thousand". Two texts with one normal form are the same question.
`mask` also hides every number and name, so what is left is the story.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from selfgen.tasks.folding import GLUE, fold
from selfgen.tasks.numberwords import mentions

_APOSTROPHES = re.compile(f"['{GLUE}]")
_WORDS = re.compile(r"[^\W_]+(?:[./][0-9]+)?")
_CAPITALISED = re.compile(r"[^\W\d_]+")
_PRONOUNS = frozenset({"he", "she", "him", "her", "his", "hers", "himself", "herself"})
# Sentence openers, which a small corpus may show only with their capital.
_OPENERS = frozenset(
    {"how", "what", "when", "where", "which", "who", "why", "if", "the", "a", "an", "in", "on", "at", "for", "each"}
    | {"there", "this", "after", "it", "they", "his", "her", "he", "she", "one", "then", "find", "write", "calculate"}
)
NUMBER, NAME, PRONOUN = "#", "@", "%"


@lru_cache(maxsize=8)  # several filters in a row ask for the same problem
def _tokens(text: str, number: str | None) -> tuple[str, ...]:
    """Words of a text in normal form; each number as its likeliest value, or as `number` when that is given."""
    folded = fold(text)
    out: list[str] = []
    at = 0
    for mention in mentions(folded):
        words = _words(folded[at : mention.start])
        shown = str(mention.values[0]) if number is None else number
        # "92, 100" without its comma reads as 92100 and "1 000" as 1000: adjacent numbers are joined alike.
        if out and not words and mention.start > 0 and _joins(out[-1], shown):
            out[-1] = NUMBER if number is not None else out[-1] + shown
        else:
            out += [*words, shown]
        at = mention.end
    return (*out, *_words(folded[at:]))


def _joins(left: str, right: str) -> bool:
    """Whether two neighbouring numbers may be one number written in groups, or two masked ones."""
    return left == right == NUMBER or (left.isdecimal() and len(right) == 3 and right.isdecimal())


def _words(folded: str) -> list[str]:
    return _WORDS.findall(_APOSTROPHES.sub("", folded).replace("%", " percent "))


def tokens(text: str) -> tuple[str, ...]:
    """The words and numbers of a text in normal form, in order."""
    return _tokens(text, None)


def normalise(text: str) -> str:
    """The normal form for exact matching: `tokens` joined by single spaces."""
    return " ".join(tokens(text))


@dataclass(frozen=True)
class Masker:
    """Hides numbers, names and gendered pronouns. What is a name is learned from a reference corpus.

    A capitalised word is a name when the corpus never writes it in lower case; a word of any case is one when
    the corpus writes it only with a capital. So no list of first names is needed, and days and months go too.
    """

    common: frozenset[str]
    names: frozenset[str]

    @classmethod
    def learn(cls, texts: Iterable[str]) -> Masker:
        """Learn common words and names from a corpus of ordinary prose."""
        lower: set[str] = set()
        capital: set[str] = set()
        for text in texts:
            for word in _CAPITALISED.findall(text):
                (lower if word.islower() else capital).add(fold(word))
        common = lower | _OPENERS
        return cls(frozenset(common), frozenset(w for w in capital - common if len(w) > 1))

    def tokens(self, text: str) -> list[str]:
        """The words of a text in normal form, numbers as `#`, names as `@`, gendered pronouns as `%`."""
        named = {fold(w) for w in _CAPITALISED.findall(text) if not w.islower()} - self.common
        # A possessive loses its apostrophe in normal form: "janet's" becomes "janets".
        hidden = {w for name in named for w in (name, name + "s")}
        out: list[str] = []
        for token in _tokens(text, NUMBER):
            if token in hidden or token in self.names or (token.endswith("s") and token[:-1] in self.names):
                if not out or out[-1] != NAME:  # "Mary Ann" and "Mary" are one name each
                    out.append(NAME)
            else:
                out.append(PRONOUN if token in _PRONOUNS else token)
        return out

    def mask(self, text: str) -> str:
        """`tokens` joined by single spaces."""
        return " ".join(self.tokens(text))
