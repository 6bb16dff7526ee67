"""Finds the program with `solve()` in a model's answer and cuts away what only demonstrates it.

Nothing here parses Python with the interpreter's own parser: hostile source must not reach it outside the sandbox.
Lines and words are enough.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from selfgen.tasks import scan

_FENCE: Final = re.compile(r"^(?P<before>.*?)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[\w+#.-]*)[ \t]*$")
_SOLVE: Final = re.compile(r"^(?:async[ \t]+)?def[ \t]+solve[ \t]*\(")
_DEFINITION: Final = re.compile(r"^(?:async[ \t]+)?def[ \t]+\w+[ \t]*\(")
_CODE_LINE: Final = re.compile(
    r"""^(?:
      (?:async[ \t]+)?def[ \t]+\w+[ \t]*\( | class[ \t]+\w+[ \t]*[:(] | @\w
    | import[ \t]+[\w., ]+$ | from[ \t]+[\w.]+[ \t]+import\b
    | (?:if|for|while|with|elif|else|try|except|finally|match)\b.*:[ \t]*(?:\#.*)?$
    | (?:return|assert|raise|global|pass)\b
    | [A-Za-z_][\w.]*(?:\[[^\]]*\])?[ \t]*(?::[ \t]*[\w\[\], .]+)?[ \t]*[-+*/%]?/?=[^=]
    | [A-Za-z_][\w.]*[ \t]*\(.*\)[ \t]*(?:\#.*)?$
    | [A-Za-z_]\w*(?:[ \t]*,[ \t]*\w+)+[ \t]*=[^=]
    | [\])}] | \"\"\" | ''' | \#
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Region:
    """A run of lines of the answer, `start` inclusive and `end` exclusive, that holds code.

    `source` is its text without fences; `closed` is False when nothing but the end of the answer ended it.
    """

    start: int
    end: int
    source: str
    closed: bool


def regions(lines: list[str]) -> list[Region]:
    """All code in an answer: fenced blocks, and unfenced runs of code around a top-level function."""
    found: list[Region] = []
    index = 0
    while index < len(lines):
        fence = _FENCE.match(lines[index])
        if fence:
            region = _fenced(lines, index, fence["fence"])
            if not fence["info"] and not _looks_like_code(region.source):
                index += 1  # text in a fence is prose
                continue
        elif _DEFINITION.match(lines[index]):
            region = _unfenced(lines, index, found[-1].end if found else 0)
        else:
            index += 1
            continue
        found.append(region)
        index = region.end
    return found


def _fenced(lines: list[str], opening: int, fence: str) -> Region:
    """The block opened on line `opening`. An unclosed one ends where prose begins, or where another block opens."""
    mark = fence[0] * 3
    body: list[str] = []
    for index in range(opening + 1, len(lines)):
        line = lines[index]
        if line.strip().startswith(mark):
            again = bool(line.strip().strip(fence[0]))  # a closing fence has no info string
            return Region(opening, index if again else index + 1, _dedent(body), True)
        if line.rstrip().endswith(mark):
            body.append(line.rstrip().rstrip(fence[0]))
            return Region(opening, index + 1, _dedent(body), True)
        body.append(line)
    first = next((i for i, line in enumerate(body) if _DEFINITION.match(line)), None)
    end = len(body) if first is None else _code_end(body, first + 1)
    return Region(opening, opening + 1 + end, _dedent(body[:end]), False)


def _unfenced(lines: list[str], definition: int, floor: int) -> Region:
    """The code around the function on line `definition`: up over imports, helpers and constants, down to prose."""
    start = definition
    index = definition
    while index > floor:
        index -= 1
        line = lines[index]
        if not line.strip() or line[0] in " \t":
            continue
        if line[0] == "#" or not _CODE_LINE.match(line):
            break
        start = index
    end = _code_end(lines, definition + 1)
    closed = end < len(lines)
    source = "\n".join(lines[start:end])
    if closed and _FENCE.match(lines[end]):
        end += 1  # the closing fence of a block that was never opened
    return Region(start, end, source, closed)


def _code_end(lines: list[str], index: int) -> int:
    """First line at or after `index` that is not code; comments and blank lines at the end are left out."""
    depth = 0
    end = index
    while index < len(lines):
        line = lines[index]
        if line.strip():
            top = line[0] not in " \t"
            if _FENCE.match(line) or (top and depth <= 0 and not _CODE_LINE.match(line)):
                return end
            if not (top and line[0] == "#"):
                end = index + 1
            depth = max(0, depth + sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))) if depth or top else 0
        index += 1
    return len(lines)


def _looks_like_code(source: str) -> bool:
    first = next((line for line in source.split("\n") if line.strip()), "")
    return bool(_CODE_LINE.match(first.strip()))


def is_fence(line: str) -> bool:
    """True for a line that opens or closes a code block, whatever stands before the fence."""
    return _FENCE.match(line) is not None


def _dedent(lines: list[str]) -> str:
    return textwrap.dedent("\n".join(lines))


def solve_functions(source: str) -> list[str]:
    """The text of every top-level `def solve`, without blank lines, comments and trailing space."""
    lines = source.split("\n")
    found = []
    for index, line in enumerate(lines):
        if _SOLVE.match(line):
            body = [line]
            for later in lines[index + 1 :]:
                if later.strip() and later[0] not in " \t":
                    break
                body.append(later)
            kept = (text.rstrip() for text in body if text.strip() and not text.lstrip().startswith("#"))
            found.append("\n".join(kept))
    return found


_QUOTES: Final = {"“": '"', "”": '"', "„": '"', "‟": '"', "‘": "'", "’": "'", "‚": "'", "‛": "'"}
_SIGNS: Final = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": "*", "∗": "*", "⋅": "*", "·": "*", "÷": "/", "∕": "/",
    "（": "(", "）": ")", "，": ",", "：": ":", "＝": "=", "≤": "<=", "≥": ">=", "≠": "!=", "…": "...",
    "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u3000": " ",
}  # fmt: skip


def plain_operators(source: str) -> str:
    """Typographic quotes, signs and spaces as ASCII, outside comments and outside string literals."""
    if source.isascii():
        return source
    out: list[str] = []
    closing = ""  # characters that end the string we are in
    index = 0
    while index < len(source):
        char = source[index]
        if closing:
            if char == "\\" and index + 1 < len(source):
                out.append(source[index : index + 2])
                index += 2
                continue
            if len(closing) == 3:
                if source.startswith(closing, index):
                    out.append(closing)
                    closing, index = "", index + 3
                    continue
            elif char in closing or char == "\n":
                char, closing = _QUOTES.get(char, char), ""
            out.append(char)
        elif char == "#":
            end = source.find("\n", index)
            end = len(source) if end < 0 else end
            out.append(source[index:end])
            index = end
            continue
        elif source.startswith(('"""', "'''"), index):
            closing = source[index : index + 3]
            out.append(closing)
            index += 3
            continue
        elif char in "\"'":
            closing = char
            out.append(char)
        elif char in _QUOTES:
            plain = _QUOTES[char]
            closing = "".join(quote for quote, ascii_quote in _QUOTES.items() if ascii_quote == plain)
            out.append(plain)
        else:
            out.append(_SIGNS.get(char, char))
        index += 1
    return "".join(out)


@dataclass(frozen=True)
class _Statement:
    """One top-level statement: its lines (1-based, inclusive), its first word, the names in it and those it binds."""

    first: int
    last: int
    word: str
    names: frozenset[str]
    binds: frozenset[str]


_CLAUSES: Final = frozenset({"else", "elif", "except", "finally"})


def _statements(source: str) -> list[_Statement] | None:
    """Top-level statements; None when the source cannot be split into any."""
    lines = scan.logical_lines(source)
    if lines is None:
        return None
    found: list[_Statement] = []
    for _, group in itertools.groupby(_tops(lines), key=lambda pair: pair[0]):
        statement = _statement([word for _, line in group for word in line.words])
        if found and (statement.word in _CLAUSES or found[-1].word == "@"):
            before = found.pop()
            statement = _Statement(
                before.first,
                statement.last,
                statement.word if before.word == "@" else before.word,
                before.names | statement.names,
                before.binds | statement.binds,
            )
        found.append(statement)
    return found


def _tops(lines: list[scan.Line]) -> Iterator[tuple[int, scan.Line]]:
    """Each line with the number of the top-level statement it belongs to."""
    number = 0
    for line in lines:
        number += line.depth == 0
        yield number, line


def _statement(words: list[scan.Word]) -> _Statement:
    names = [word.text for word in words if word.kind == "name"]
    inside = frozenset(name for word in words if word.kind == "string" for name in _names_in_f_string(word.text))
    first = words[0].text
    binds = {a.text for a, b in itertools.pairwise(words) if a.kind == "name" and b.text == "="}
    if first in ("def", "class", "async") and len(names) > 1:
        binds = {names[2] if first == "async" and len(names) > 2 else names[1]}
    elif first == "for":
        binds |= set(names[1 : names.index("in")] if "in" in names else names[1:2])
    elif first in ("import", "from"):
        binds = set(names[names.index("import") + 1 :]) if "import" in names else set()
    return _Statement(words[0].first, words[-1].last, first, inside.union(names), frozenset(binds))


def _names_in_f_string(literal: str) -> list[str]:
    """An f-string is one word."""
    if "f" not in literal.partition(literal[-1])[0].lower():
        return []
    return [name for field in re.findall(r"\{([^{}]*)", literal) for name in re.findall(r"[A-Za-z_]\w*", field)]


_DEMONSTRATES: Final = frozenset({"solve", "print", "input", "__name__"})


def without_demonstration(source: str) -> tuple[str, bool]:
    """Drop what follows solve() only to show it off: prints, main guards, asserts, example calls, and what uses them.

    Statements before solve() stay, and so do later functions, imports and constants: solve() may need them.

    Returns:
        The source, and whether its last statement was dropped (so a cut there lost nothing that matters).
    """
    lines = source.split("\n")
    if not any(line[:1].strip() for line in lines[_last_solve(lines) + 1 :]):
        return source.strip("\n"), False  # nothing follows solve()
    statements = _statements(source)
    if statements is None:
        return source, False
    solves = [i for i, s in enumerate(statements) if s.word in ("def", "async") and "solve" in s.binds]
    if not solves:
        return source, False
    tainted = set(_DEMONSTRATES)
    dropped: list[_Statement] = []
    for statement in statements[solves[-1] + 1 :]:
        shows = bool(statement.names & tainted) or statement.word == "assert"
        if statement.word in ("def", "class", "async"):
            if shows:
                tainted |= statement.binds
        elif shows:
            tainted |= statement.binds
            dropped.append(statement)
    for statement in reversed(dropped):
        del lines[statement.first - 1 : statement.last]
    while dropped and lines and (not lines[-1].strip() or lines[-1].startswith("#")):
        lines.pop()  # "# Example usage"
    last_dropped = bool(dropped) and dropped[-1] is statements[-1]
    return "\n".join(lines).strip("\n"), last_dropped


def _last_solve(lines: list[str]) -> int:
    return max((i for i, line in enumerate(lines) if _SOLVE.match(line)), default=len(lines))


def helpers(source: str, others: list[str]) -> list[str]:
    """Those of `others` (code blocks without solve) that bind a name `source` uses and does not bind itself."""
    statements = _statements(source) if others else None
    if statements is None:
        return []
    used = frozenset[str]().union(*(s.names for s in statements))
    bound = frozenset[str]().union(*(s.binds for s in statements))
    needed = []
    for other in others:
        theirs = _statements(other)
        if theirs and (frozenset[str]().union(*(s.binds for s in theirs if s.word != "for")) & used) - bound:
            needed.append(other)
    return needed
