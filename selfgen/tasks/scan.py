"""Splits Python source into logical lines of words, without Python.

The standard library's tokenizer was pure Python up to 3.11 and is the interpreter's own from 3.12 on: what a model
wrote must not reach that outside the sandbox, and the two disagree about broken source, of which there is plenty. This
one reads what it can: a character that begins no word is passed over, as a quote without its partner is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["name", "number", "string", "op"]

_PREFIX: Final = r"(?:[rR][bBfF]?|[bBfF][rR]?|[uU])?"
_WORD: Final = re.compile(
    rf"""
      (?P<blank>[ \t\f]+ | \#[^\n]* | \\\r?\n)
    | (?P<newline>\r?\n)
    | (?P<string>{_PREFIX}(?: \"\"\"(?:[^\\]|\\.)*?\"\"\" | '''(?:[^\\]|\\.)*?'''
                            | "(?!"")(?:[^"\\\n]|\\.)*" | '(?!'')(?:[^'\\\n]|\\.)*' | ""(?!") | ''(?!') ))
    | (?P<open>{_PREFIX}(?: \"\"\" | ''' ))
    | (?P<number>0[xX][\da-fA-F_]+ | (?:\d[\d_]*(?:\.[\d_]*)? | \.\d[\d_]*)(?:[eE][-+]?\d[\d_]*)?[jJ]?)
    | (?P<name>\w+)
    | (?P<op>\*\*=|//=|>>=|<<=|\.\.\.|->|:=|\*\*|//|>>|<<|[-+*/%&|^@=!<>]=|[-+*/%@&|^~<>()\[\]{{}},:;.=])
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSES: Final = {"(": ")", "[": "]", "{": "}"}
_TAB: Final = 8


@dataclass(frozen=True)
class Word:
    """A name, number, string or operator, and the lines (1-based, inclusive) it stands on."""

    kind: Kind
    text: str
    first: int
    last: int


@dataclass(frozen=True)
class Line:
    """A logical line: brackets closed, continuations joined. `depth` counts the indentations it is under."""

    depth: int
    words: tuple[Word, ...]


def logical_lines(source: str) -> list[Line] | None:
    """The logical lines of `source` that hold a word; None where a string, a bracket or an indentation does not close."""
    found: list[Line] = []
    words: list[Word] = []
    indents = [0]
    brackets: list[str] = []  # what closes those that are open
    number, at, start = 1, 0, 0

    def finish() -> bool:
        """End the line that holds `words`; False where it goes back to an indentation that there was not."""
        if words:
            column = _column(source[start : start + _leading(source, start)])
            if column > indents[-1]:
                indents.append(column)
            while column < indents[-1]:
                indents.pop()
            if column != indents[-1]:
                return False
            found.append(Line(len(indents) - 1, tuple(words)))
            words.clear()
        return True

    while at < len(source):
        match = _WORD.match(source, at)
        if match is None:
            at += 1
            continue
        kind, text = match.lastgroup, match.group()
        at = match.end()
        last = number + text.count("\n")
        if kind == "open":
            return None
        if kind == "newline" and not brackets:
            if not finish():
                return None
            start = at
        elif kind in ("name", "number", "string", "op"):
            if text in _CLOSES:
                brackets.append(_CLOSES[text])
            elif text in _CLOSES.values() and (not brackets or brackets.pop() != text):
                return None
            words.append(Word(kind, text, number, last))  # type: ignore[arg-type]
        number = last
    if brackets or not finish():
        return None
    return found


def _leading(source: str, start: int) -> int:
    end = start
    while end < len(source) and source[end] in " \t\f":
        end += 1
    return end - start


def _column(blank: str) -> int:
    column = 0
    for char in blank:
        column = {" ": column + 1, "\t": (column // _TAB + 1) * _TAB}.get(char, 0)
    return column
