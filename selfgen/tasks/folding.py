"""One form for every way that Unicode, typography and markup write the same text; what every text rule reads."""

from __future__ import annotations

import re
import unicodedata

_QUOTES = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u02b9\u00b4`\u2032", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\ufe58\ufe63\uff0d", "-")
    | {"\u2044": "/", "\u2215": "/", "\u066b": ".", "\u066c": ",", "\u00d7": "*"}
)
_SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
GLUE = "\ue000"  # private use: keeps "3\u00bd" apart from "33/4" and from "3 1/2"
_FIXED_SPACE_GROUP = re.compile(r"(?<=\d)[\u00a0\u2000-\u200a\u202f\u205f\u3000](?=\d{3}(?!\d))")
_BOLD = re.compile(r"(?<!\d)\*\*|\*\*(?!\d)")  # markdown, not the power in 2**3
_LATEX_GROUP = re.compile(r"(?<=\d)(?:\{,\}|\\,|\\ )(?=\d{3}(?!\d))")


def fold(text: str) -> str:
    """One form for every way Unicode writes the same text: NFKC, lower case, plain digits, quotes, dashes, no accents.

    Invisible characters go; a no-break or thin space inside a number becomes the thousands comma it stands for.
    """
    if "**" in text:
        text = _BOLD.sub("", text)
    if text.isascii():
        return _LATEX_GROUP.sub(",", text).casefold() if "\\" in text or "{" in text else text.casefold()
    text = _FIXED_SPACE_GROUP.sub(",", text)
    out = []
    for char in text:
        category = unicodedata.category(char)
        if category == "Cf":
            continue
        if category == "No":
            if char in _SUPERSCRIPTS:
                out.append("^")
            elif out and out[-1].isdecimal() and "\u2044" in unicodedata.normalize("NFKC", char):
                out.append(GLUE)
        elif category == "Nd":
            char = str(unicodedata.decimal(char))
        out.append(char)
    text = unicodedata.normalize("NFKD", "".join(out).translate(_QUOTES))
    text = "".join(c for c in text if unicodedata.category(c) != "Mn").translate(_QUOTES)
    text = unicodedata.normalize("NFKC", text)
    if "**" in text:  # of other asterisks, or joined by what has gone
        text = _BOLD.sub("", text)
    return _LATEX_GROUP.sub(",", text.casefold())
