"""The one number parser: what a final answer says, as an exact rational, and `numeric_exact` on top of it.

Integers are equal as numbers, never as strings and never by tolerance: `1,000`, `1000` and `1000.0` are one
answer, `999.9999999` is another. A text that holds no number, or more than one (`84/2`, `3 or 4`), says
nothing: the caller must treat it as unanswered rather than guess.
"""

from __future__ import annotations

import re
from fractions import Fraction

_LATEX_TEXT = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox|boldsymbol)\s*\{([^{}]*)\}")
_GROUPED = re.compile(r"(?<=[0-9])(?:,\\!|\\[,!]|\{,\}(?:\\!)?)(?=[0-9]{3}(?![0-9]))")
_SPACING = re.compile(r"\\[,;:! ]|\\quad|~|\u00a0")
_NUMBER = re.compile(
    r"(?:[A-Za-z][A-Za-z ]*[=:]\s*)?"  # a name: `x = 42`
    r"(?P<sign>[-+]?)\s*[$€£¥]?\s*(?P<inner>-?)"
    r"(?P<whole>[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?P<part>\.[0-9]*)?(?P<power>[eE][-+]?[0-9]{1,2})?"
    r"(?:\s*[%°¢]|(?:\s+(?P<unit>[A-Za-z][A-Za-z .'/()-]*)))?\.?"
)
# A unit that changes the number is not a unit.
_SCALES = frozenset(
    {"hundred", "thousand", "million", "billion", "trillion", "dozen", "half", "k", "m", "pi", "or", "and"}
)


def parse_number(text: str | None) -> Fraction | None:
    """The single number that `text` states, or None when it states none, several, or an expression.

    Accepts a sign, thousands separators in groups of three, decimals, an exponent of up to two digits, a
    currency sign, a percent sign, units after a space and the LaTeX that models wrap these in.
    """
    if text is None or len(text) > 200:
        return None
    text = text.strip().strip("$").strip().replace("\u2212", "-").removeprefix("\\(").removesuffix("\\)")
    text = _LATEX_TEXT.sub(r" \1 ", text)
    text = _GROUPED.sub(",", text).replace("\\$", "$").replace("\\%", "%")
    text = _SPACING.sub(" ", text).strip()
    match = _NUMBER.fullmatch(text)
    if match is None or (match["sign"] and match["inner"]):
        return None
    if match["unit"] and _SCALES & set(re.findall(r"[a-z]+", match["unit"].lower())):
        return None
    part = match["part"] if match["part"] not in (None, ".") else ""
    number = Fraction(match["whole"].replace(",", "") + part + (match["power"] or ""))
    return -number if "-" in (match["sign"], match["inner"]) else number


def numeric_exact(answer: str | None, label: int) -> bool | None:
    """Whether `answer` states exactly `label`; None when it states no single number."""
    number = parse_number(answer)
    return None if number is None else number == label
