"""Finds the problem in the prose of a model's answer: drops greetings, labels, titles, answers and explanations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_DECORATION: Final = " \t>#*_-•–—|`"
_WIDE_SPACES: Final = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_INVISIBLE: Final = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad"))

# A label such as "Problem:", "**Question 2:**", "### Grade-School Math Word Problem", "Word Problem (1) -".
_LABEL_WORDS: Final = (
    r"(?:(?:the|a|an|your|my|new|simple|sample|example|short|original)\s+)*"
    r"(?:grade[- ]?(?:school|\d+|level)?\s+|elementary(?:[- ]school)?\s+|\d+(?:st|nd|rd|th)[- ]grade\s+)?"
    r"(?:math(?:s|ematics|ematical)?\s+)?(?:word\s+|story\s+)?"
    r"(?P<kind>problem|question|task|puzzle|exercise|scenario|q)(?:\s+(?:statement|description|text))?"
    r"\s*(?:\(?\#?\d{1,2}\)?)?"
)
_LABEL: Final = re.compile(
    rf"^{_LABEL_WORDS}\s*[*_]*\s*(?:[:：]|\s[-–—]|(?<=\d)[.)])\s*[*_]*\s*(?P<rest>.*)$", re.IGNORECASE
)
_BARE_LABEL: Final = re.compile(rf"^{_LABEL_WORDS}\s*[*_.]*$", re.IGNORECASE)

# What ends a problem: a label of something else (a colon before a digit is a time of day) ...
_OTHER_LABEL: Final = re.compile(
    r"^(?:a\s*[:：]|"
    r"(?:(?:the|a|my|your|short|simple|python|final|correct|expected|sample|single|integer|numeric|full|sought|solve)\s+)*"
    r"(?:solution|answer(?! the\b)|ans|explanation|approach|python(?:\s?3)?|code|function|solve|implementation|reasoning)\b"
    r"(?:[^.?!:：]{0,60}[:：](?!\d)|\W*(?:\w+\W*){0,3}$))",
    re.IGNORECASE,
)
# ... or a sentence about code or about solving ...
_ABOUT_CODE: Final = re.compile(
    r"^(?:to solve(?:[,:]| (?:this|it|the (?:problem|question|equation|task)|for)\b)|to answer (?:this|the)\b|"
    r"(?:now,? )?(?:here'?s|here is|below is|the following is|and here'?s)\b"
    r".*\b(?:python|function|code|solution|program|script|answer)\b|"
    r"(?:the|this) (?:short |simple |following |above |correct |final |python )*(?:function|code|script|answer|python)\b|"
    r"an? (?:short |simple |python )*function (?:to|that|called|named|which|for)\b|"
    r"the solution (?:to|uses|works|involves)\b|(?:short )?python (?:function|code|solution|program)\b|"
    r"(?:we|you) can (?:solve|write)\b|step 1\b|import [a-z_]+$|def \w+\()",
    re.IGNORECASE,
)
# ... or, once the question was put, a label or sentence that could also belong to a story.
_AFTER_QUESTION: Final = re.compile(
    r"^(?:(?:working|calculation|steps?|hints?|output|result|note|options?|choices|example|usage|program)\b"
    r"(?:[^.?!:：]{0,60}[:：](?!\d)|\W*$)|(?:we|you) can use\b)",
    re.IGNORECASE,
)
_SOLVES: Final = re.compile(
    r"^(?:now,? )?(?:let'?s|let us|i will|i'll|we will|we'll) (?:now )?(?:solve|write|define|break|refine|implement|first|use)\b",
    re.IGNORECASE,
)
# ... or talk before it, which is skipped.
_TALK: Final = re.compile(
    r"^(?:sure|certainly|of course|okay|ok|alright|absolutely|great|yes|here'?s|here is|here are|below is|"
    r"i'?m|i am|i will|i'll|i can|let'?s (?:start|begin|create|write|make|solve)|let me|welcome|hello|hi|hey|howdy|"
    r"write|open|create|generate|provide|give)\b",
    re.IGNORECASE,
)
_META: Final = re.compile(
    r"^(?:topic|grade|grade level|level|difficulty|title|subject|category|theme)\s*[:：]", re.IGNORECASE
)
# A request without a question mark: "Find the ...", "We need to find out how many ...".
_ASKS: Final = re.compile(
    r"\?|(?:^|[.!;:,]\s+)(?:then\s+)?(?:find|calculate|determine|compute|evaluate|work out|figure out|how|what)\b|"
    r"\b(?:find out|to (?:find|determine|calculate))\b",
    re.IGNORECASE,
)
_ENDS_IN_REQUEST: Final = re.compile(
    r"(?:^|[.!;,]\s+)(?:then\s+)?(?:find|calculate|determine|compute|evaluate|work out|figure out)\b[^.!]*[.!]\W*$",
    re.IGNORECASE,
)
_NAMES_PROBLEM: Final = re.compile(r"\b(?:problem|question|puzzle|exercise)\b", re.IGNORECASE)
_ANNOUNCED: Final = re.compile(r"\b(?:problem|question|function|python|code|solution)\b", re.IGNORECASE)
_NAMES_CODE: Final = re.compile(r"\b(?:function|code|solution|solve[sd]?|python|program|answer)\b", re.IGNORECASE)


HEADING: Final = "heading"


# An empty label at the end of the question's own line: "... are left? Solution:".
_TAIL: Final = re.compile(r"(?<=[.?!])[\s*_]*(?:solution|answer)[\s*_]*[:：][\s*_]*$", re.IGNORECASE)


@dataclass(frozen=True)
class Body:
    """One stretch of problem text; `lines` are stripped.

    `kind` is the word that labels it ("problem", "question", ...), HEADING after a sentence that announces a problem,
    or empty.
    """

    kind: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return _join(self.lines)


def tidy(text: str) -> str:
    """Line ends as \\n, no invisible characters, ordinary spaces, no thinking aloud; otherwise as the model wrote it."""
    text = text.rpartition("</think>")[2]
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    return text if text.isascii() else _WIDE_SPACES.sub(" ", text.translate(_INVISIBLE))


def bodies(prose: list[str]) -> list[Body]:
    """The problem texts in `prose` (lines without code), in order; labelled ones if there is any label."""
    found: list[tuple[str, list[str]]] = [("", [])]
    reading = True
    for raw in prose:
        line = _TAIL.sub("", raw).strip()
        bare = _bare(line)
        lines = found[-1][1]
        label = _LABEL.match(bare) or (_BARE_LABEL.match(bare) if bare else None)
        if label is not None:
            rest = (label.groupdict().get("rest") or "").strip()
            found.append((label["kind"].lower(), [rest] if rest else []))
            reading = True
        elif _heads_problem(bare):
            found.append((HEADING, []))
            reading = True
        elif not reading or (bare and _META.match(bare)):
            continue
        elif not bare:
            lines.append("")
        elif _ends_problem(bare, lines):
            reading = False
        elif not _content(lines) and _is_talk(bare):
            continue
        elif _asked(lines) and not _continues(line, lines[-1]):
            reading = False
        else:
            lines.append(line)
    result = [Body(kind, tuple(_trim(lines))) for kind, lines in found]
    result = [body for body in result if any(not line.endswith((":", "：")) for line in body.lines if line)]
    labelled = [body for body in result if body.kind]
    exact = [body for body in labelled if body.kind != HEADING or "?" in body.text]
    if any(body.kind != HEADING for body in exact):
        return exact
    return labelled or result


def merge(found: list[Body]) -> list[str]:
    """Distinct problem texts: restatements are dropped, and a story and its separately labelled question joined."""
    joined: list[Body] = []
    for body in found:
        if joined and joined[-1].kind != body.kind and "?" not in joined[-1].text and "?" in body.text:
            joined[-1] = Body(body.kind, (*joined[-1].lines, *body.lines))
        else:
            joined.append(body)
    texts: list[str] = []
    for body in joined:
        words = _words(body.text)
        if not words or any(words in _words(text) for text in texts):
            continue
        texts = [text for text in texts if _words(text) not in words]
        texts.append(body.text)
    return texts


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _bare(line: str) -> str:
    """A line without Markdown decoration and list numbers in front of it."""
    line = line.lstrip(_DECORATION)
    return re.sub(r"^\(?\d{1,2}[.)]\s+(?=[*_A-Za-z])", "", line).lstrip("*_ ")


def _heads_problem(bare: str) -> bool:
    """A line such as "Sure, here's a word problem and a Python function to solve it:"."""
    text = bare.rstrip("*_ ")
    if not text.endswith((":", "：")) or len(text.split()) > 40 or _SOLVES.match(bare):
        return False
    problem, code = _NAMES_PROBLEM.search(text), _NAMES_CODE.search(text)
    return problem is not None and (code is None or problem.start() < code.start())


def _ends_problem(bare: str, lines: list[str]) -> bool:
    if _is_question(bare):
        return False
    bare = bare.lstrip("([")
    if _OTHER_LABEL.match(bare) or _ABOUT_CODE.match(bare) or _SOLVES.match(bare):
        return True
    return bool(_AFTER_QUESTION.match(bare) and _ASKS.search(" ".join(lines)))


def _is_talk(bare: str) -> bool:
    """Talk that leads to a problem. First-person stories start like it, so it must also sound like an announcement."""
    return bool(_TALK.match(bare)) and (bare.rstrip("*_ ").endswith((":", "!")) or bool(_ANNOUNCED.search(bare)))


def _is_question(bare: str) -> bool:
    return bare.rstrip('*_ "”').endswith("?")


def _content(lines: list[str] | tuple[str, ...]) -> bool:
    return any(line.strip(_DECORATION) for line in lines)


def _asked(lines: list[str]) -> bool:
    """True once the question was put: with a question mark, or as a request that ends its line or its paragraph."""
    if not lines or any("?" in line for line in lines):
        return bool(lines)
    return bool(_ASKS.search(" ".join(lines)) if not lines[-1] else _ENDS_IN_REQUEST.search(lines[-1]))


def _continues(line: str, before: str) -> bool:
    """After the question was asked, only another question or a wrapped line still belongs to the problem."""
    return "?" in line or (line[:1].islower() and bool(before) and not re.search(r"[.?!]\W*$", before))


def _trim(lines: list[str]) -> list[str]:
    """Without blank ends, without a title line in front, without quotes or emphasis around it all."""
    while lines and not lines[0].strip(_DECORATION):
        lines = lines[1:]
    while lines and not lines[-1].strip(_DECORATION):
        lines = lines[:-1]
    if len(lines) > 1 and lines[0].endswith(":") and next(filter(None, lines[1:]))[0] in '"“':
        lines = lines[1:]
        return _trim(lines)
    if len(lines) > 2 and not lines[1] and len(lines[0].split()) <= 8 and not re.search(r"[.?!:,]\W*$|\d", lines[0]):
        lines = lines[2:]
    return lines


_ITEM: Final = re.compile(r"^(?:[-•*]|\d{1,2}[.)])\s")


def _join(lines: tuple[str, ...]) -> str:
    """One text: Markdown emphasis removed, wrapped lines joined, paragraphs and list items kept on lines of their own."""
    out: list[str] = []
    blank = True
    for line in lines:
        line = re.sub(r"^[>#]+\s*", "", line)
        line = " ".join(re.sub(r"\*\*|__|\\(?=[$%#_*&])", "", line).split())
        if not line:
            blank = True
        elif blank or _ITEM.match(line) or out[-1].endswith(":") or (_ITEM.match(out[-1]) and not line[0].islower()):
            out.append(line)
            blank = False
        else:
            out[-1] += " " + line
    text = "\n".join(out).strip()
    for left, right in ('""', "“”", "''", "‘’", "**", "__", "``"):
        inner = text[1:-1]
        if len(text) > 2 and text[0] == left and text[-1] == right and left not in inner and right not in inner:
            text = inner.strip()
    if text.count("*") % 2 and text.endswith("*"):
        text = text[:-1].rstrip()
    return text
