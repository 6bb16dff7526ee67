"""How the page and its Markdown twin write figures and foreign text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

NOT_RECORDED = "not recorded"
# Control characters, and the marks that reorder text on screen: model text must be shown as it is.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def percent(share: float | None, digits: int = 1) -> str:
    """A share of 1 as a percentage."""
    return NOT_RECORDED if share is None else f"{100 * share:.{digits}f} %"


def points(difference: float | None, digits: int = 1) -> str:
    """A difference of accuracies in percentage points, signed, without a negative zero."""
    if difference is None:
        return NOT_RECORDED
    text = f"{100 * difference:+.{digits}f}"
    return text.replace("-", "\u2212") if float(text) else f"{0:.{digits}f}"


def count(value: float | None) -> str:
    """A whole number with thousands separators."""
    return NOT_RECORDED if value is None else f"{value:,.0f}"


def number(value: Any) -> str:
    """A measured value in at most five significant digits; text as it is."""
    if value is None:
        return NOT_RECORDED
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.5g}"


def p_value(p: float) -> str:
    """Two significant digits; a very small one as a bound, because published values are rounded."""
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}"


def duration(seconds: float | None) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds is None:
        return NOT_RECORDED
    if seconds < 90:
        return f"{seconds:.1f} s"
    if seconds < 5400:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.2f} h"


def short(digest: str | None) -> str:
    """The first 12 digits of a hash."""
    return NOT_RECORDED if not digest else digest[:12]


def foreign(text: str, limit: int | None = None) -> str:
    """Text that a model wrote, safe to look at: hidden characters spelled out, very long text cut with a note."""
    shown = _HIDDEN.sub(lambda m: f"\\u{ord(m.group()):04x}", text.replace("\r\n", "\n"))
    if limit is not None and len(shown) > limit:
        return f"{shown[:limit]}\n[cut: {len(shown) - limit:,} more characters]"
    return shown


def plural(n: int, one: str, many: str | None = None) -> str:
    """`1 item`, `2 items`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def weights(terms: Mapping[str, float]) -> str:
    """A criterion's weighted sum as people write it, added arms first: `rl_selfgen - 0.5 base`."""
    parts: list[str] = []
    # Artifacts sort their keys, so the order of the params is lost: positive and large weights first, base last.
    for arm, weight in sorted(terms.items(), key=lambda term: (-term[1], term[0] == "base", term[0])):
        if not weight:
            continue
        size = "" if abs(weight) == 1 else f"{abs(weight):g} "
        sign = ("\u2212" if weight < 0 else "") if not parts else (" \u2212 " if weight < 0 else " + ")
        parts.append(f"{sign}{size}{arm}")
    return "".join(parts)


def plain(value: Any) -> str:
    """A params value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {plain(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(plain, value)) or "(none)"
    return "(none)" if value is None else str(value)


def cell(text: str) -> str:
    """Text for one cell of a Markdown table: no line break, no character that Markdown or HTML would act on."""
    flat = " ".join(foreign(text).split())
    return re.sub(r"([\\`*|<>\[\]])", r"\\\1", flat)
