"""The charts, as inline SVG: text stays text, colours are the page's CSS variables, equal data gives equal bytes.

Matplotlib draws with placeholder colours that are then replaced by `var(--...)`, so that one drawing serves the light
and the dark page. Sizes are in inches at 72 units an inch; a chart is at most WIDE wide, so that its text stays
readable when a phone shrinks it to 350 px.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

WIDE, NARROW = 4.8, 3.4
# Placeholder -> CSS variable. Any colour no chart draws with by itself would do.
_THEME = {"#010101": "--ink", "#020202": "--soft", "#030303": "--line", "#040404": "--panel"}
ARM_COLOURS = 7
_THEME |= {f"#0500{i:02x}": f"--arm{i}" for i in range(ARM_COLOURS)}
_THEME |= {"#060601": "--good", "#060602": "--bad", "#060603": "--open"}
INK, SOFT, LINE, PANEL = list(_THEME)[:4]
ARMS = [f"#0500{i:02x}" for i in range(ARM_COLOURS)]
VERDICTS = {"validated": "#060601", "failed": "#060602", "inconclusive": "#060603"}
DASHES: list[Any] = [
    "-",
    (0, (5, 1.5)),
    (0, (1.5, 1.2)),
    (0, (6, 1.5, 1.5, 1.5)),
    (0, (3, 1)),
    (0, (8, 2)),
    (0, (1, 2)),
]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "selfgen",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "figure.facecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "axes.unicode_minus": True,
}


def criteria(found: Sequence[Mapping[str, Any]], labels: Sequence[str], name: str = "criteria") -> str:
    """Each criterion's simultaneous interval against its margin, in percentage points, on one axis."""
    with _Figure(WIDE, 0.6 + 0.8 * len(found), left=0.12, top=0.02) as (figure, axes):
        low = 100 * min(min(c["lower"], c["margin"]) for c in found)
        high = 100 * max(max(c["upper"], c["margin"]) for c in found)
        pad = 0.06 * (high - low)
        axes.set_xlim(low - pad, high + pad)
        axes.set_ylim(len(found) - 0.4, -0.6)
        for y, (c, label) in enumerate(zip(found, labels, strict=True)):
            colour, margin = VERDICTS[c["verdict"]], 100 * c["margin"]
            axes.fill_betweenx([y - 0.28, y + 0.28], margin, high + pad, color=SOFT, alpha=0.12, linewidth=0)
            axes.plot([margin, margin], [y - 0.28, y + 0.28], color=INK, linewidth=2)
            axes.plot([100 * c["lower"], 100 * c["upper"]], [y, y], color=colour, linewidth=3, solid_capstyle="butt")
            axes.plot([100 * c["estimate"]], [y], "o", color=colour, markersize=8)
            axes.text(low - pad, y - 0.36, label, va="bottom", fontsize=9)
            axes.plot([0, 0], [y - 0.28, y + 0.28], color=SOFT, linewidth=0.8, linestyle=(0, (2, 2)))
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("difference in accuracy (percentage points)")
        return _svg(figure, name, "Interval of each criterion against its margin, in percentage points")


def accuracies(rows: Sequence[Mapping[str, Any]]) -> str:
    """Arms' accuracies in per cent with their own intervals; `rows` hold arm, accuracy, low, high, colour index."""
    with _Figure(WIDE, 0.55 + 0.36 * len(rows), left=_room(row["arm"] for row in rows), top=0.02) as (figure, axes):
        for y, row in enumerate(rows):
            style = row["colour"] % ARM_COLOURS
            axes.plot([100 * row["low"], 100 * row["high"]], [y, y], color=ARMS[style], linewidth=2.5)
            axes.plot([100 * row["accuracy"]], [y], MARKERS[style], color=ARMS[style], markersize=8)
        axes.set_yticks(range(len(rows)), [row["arm"] for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("accuracy (%)")
        return _svg(figure, "accuracies", "Accuracy of each arm in per cent with its interval")


def curves(
    name: str,
    title: str,
    unit: str,
    series: Mapping[str, tuple[int, Sequence[float], Sequence[float]]],
    legend: bool = False,
) -> str:
    """One step metric of all arms on one axis; `series` maps arm to (colour index, steps, values)."""
    with _Figure(NARROW, 2.1) as (figure, axes):
        from matplotlib.ticker import MaxNLocator

        for label, (index, steps, values) in series.items():
            style = index % ARM_COLOURS
            axes.plot(
                steps,
                values,
                color=ARMS[style],
                linestyle=DASHES[style],
                marker=MARKERS[style],
                markersize=3.5 if len(steps) <= 20 else 0,
                label=label,
            )
        axes.set_title(title)
        axes.set_xlabel("training step")
        axes.set_ylabel(unit)
        if legend:
            axes.legend(loc="lower right")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        return _svg(figure, name, f"{title} by training step, {unit}, of {', '.join(series)}")


def bars(name: str, title: str, unit: str, rows: Sequence[tuple[str, float]], highlight: Sequence[str] = ()) -> str:
    """Horizontal bars with their counts; labels in `highlight` are drawn in the treated arm's colour."""
    with _Figure(WIDE, 0.8 + 0.27 * len(rows), left=_room(label for label, _ in rows)) as (figure, axes):
        from matplotlib.ticker import MaxNLocator

        colours = [ARMS[2] if label in highlight else SOFT for label, _ in rows]
        axes.barh(range(len(rows)), [value for _, value in rows], color=colours, height=0.68)
        top = max([value for _, value in rows], default=1) or 1
        for y, (_, value) in enumerate(rows):
            axes.text(value + 0.01 * top, y, f"{value:,.0f}", va="center", fontsize=9)
        axes.set_xlim(0, 1.12 * top)
        axes.set_yticks(range(len(rows)), [label for label, _ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.set_title(title)
        axes.set_xlabel(unit)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        return _svg(figure, name, f"{title}: " + ", ".join(f"{label} {value:,.0f}" for label, value in rows))


def histogram(name: str, title: str, unit: str, values: Sequence[float], bins: Sequence[float], note: str = "") -> str:
    """Counts of values in half-open bins [a, b); the last bin includes its right edge."""
    with _Figure(NARROW, 2.0) as (figure, axes):
        from matplotlib.ticker import MaxNLocator

        axes.hist(values, bins=list(bins), color=ARMS[2], edgecolor=PANEL, linewidth=0.8)
        axes.set_title(title)
        axes.set_xlabel(unit)
        axes.set_ylabel("tasks")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        axes.grid(axis="x", visible=False)
        return _svg(figure, name, f"Histogram of {title.lower()}, {len(values):,} tasks{note}")


def columns(name: str, title: str, unit: str, counts: Sequence[int], band: range, note: str) -> str:
    """Counts of the integers 0, 1, 2, ...; those in `band` are drawn in the treated arm's colour, `note` says what it is."""
    with _Figure(NARROW, 2.0) as (figure, axes):
        from matplotlib.ticker import MaxNLocator

        colours = [ARMS[2] if k in band else SOFT for k in range(len(counts))]
        axes.bar(range(len(counts)), counts, color=colours, edgecolor=PANEL, linewidth=0.8)
        axes.set_xticks(range(len(counts)))
        axes.set_title(title)
        axes.set_xlabel(unit)
        axes.set_ylabel("candidates")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        axes.grid(axis="x", visible=False)
        said = ", ".join(f"{k}: {n:,}" for k, n in enumerate(counts))
        return _svg(figure, name, f"{title}, {unit} ({note}): {said}")


def _room(labels: Iterable[str]) -> float:
    """Inches that the longest label takes beside the axis: 9 point text."""
    return 0.15 + 0.077 * max(map(len, labels), default=0)


def legend_line(index: int) -> str:
    """A short sample of an arm's line, for a legend in the page's text."""
    style = index % ARM_COLOURS
    dash = DASHES[style]
    pattern = "" if isinstance(dash, str) else f' stroke-dasharray="{" ".join(str(2 * part) for part in dash[1])}"'
    return (
        '<svg viewBox="0 0 36 12" aria-hidden="true"><line x1="0" y1="6" x2="36" y2="6" stroke-width="2.5" '
        f'stroke="var(--arm{style})"{pattern}/></svg>'
    )


class _Figure:
    """A figure with one pair of axes under the page's style. Margins are in inches: measuring text takes seconds."""

    def __init__(self, width: float, height: float, left: float = 0.62, top: float = 0.3) -> None:
        self.size = (width, height)
        self.place = (left / width, 0.48 / height, 1 - (left + 0.12) / width, 1 - (0.48 + top) / height)

    def __enter__(self) -> tuple[Any, Any]:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        self._context = matplotlib.rc_context(_STYLE)
        self._context.__enter__()
        # A Figure of its own, not pyplot's: no global state, no window system.
        figure = Figure(figsize=self.size)
        FigureCanvasSVG(figure)
        return figure, figure.add_axes(self.place)

    def __exit__(self, *exc: Any) -> None:
        self._context.__exit__(*exc)


def _svg(figure: Any, name: str, label: str) -> str:
    """The drawing as an inline element: no XML header, no metadata, ids of its own, theme colours."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r' width="[\d.]+pt"| height="[\d.]+pt"', "", text, count=2)
    text = re.sub(r" ?font-family: [^;\"]*;?", "", text)
    # A style element inside an inline drawing would apply to the whole page.
    text = re.sub(r"<style .*?</style>\s*", "", text, flags=re.DOTALL)
    for prefix in ('id="', 'href="#', "url(#"):
        text = text.replace(prefix, f"{prefix}{name}-")
    for colour, variable in _THEME.items():
        text = text.replace(colour, f"var({variable})")
    start, _, rest = text.partition(">")
    return f'{start} role="img">\n<title>{escape(label)}</title>{rest}'.strip()
