"""How often each interval covers the truth, measured on the grid where the registered plan lives.

`python -m selfgen.decision.coverage` rewrites the tables in docs/statistics.md. Items are drawn as the plan
assumes: independently, the first arm alone right with p_win = (discordance + difference) / 2, the second alone
with p_loss. Every interval but the betting one depends on (wins, losses) only, so its coverage is the exact sum
over all pairs of counts with probability above 1e-12; the betting interval depends on the items' order and is
simulated, with its standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from selfgen.decision import bounded, hoeffding, paired

ALPHA = 0.05
GRID = tuple((d, q) for q in (0.05, 0.1, 0.2, 0.4) for d in (0.0, -0.03, 0.05) if abs(d) <= q)
SIZES = (100, 1319)
SIMULATIONS = 4_000

Interval = Callable[[np.ndarray, np.ndarray, int, float], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Coverage:
    """One cell: the two-sided coverage, both tails' misses (truth below, above) and the mean width."""

    coverage: float
    below: float
    above: float
    width: float
    standard_error: float = 0.0


def hoeffding_interval(wins: np.ndarray, losses: np.ndarray, n: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """The registered rule's interval for one criterion."""
    half, estimate = hoeffding.half_width(n, 2, alpha, 1), (wins - losses) / n
    return estimate - half, estimate + half


def bernstein_interval(wins: np.ndarray, losses: np.ndarray, n: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """The empirical Bernstein interval from discordant counts."""
    estimate = (wins - losses) / n
    variance = ((wins + losses) / n - estimate**2) * n / (n - 1)
    log = math.log(4 / alpha)
    half = np.sqrt(2 * variance * log / n) + 7 * 2 * log / (3 * (n - 1))
    return estimate - half, estimate + half


INTERVALS: dict[str, Interval] = {
    "hoeffding (decides)": hoeffding_interval,
    "empirical_bernstein": bernstein_interval,
    "clopper_pearson_discordant": paired.discordant_interval,
    "tango": paired.tango_interval,
}


def exact_coverage(interval: Interval, difference: float, discordance: float, n: int, alpha: float) -> Coverage:
    """Coverage of an interval by enumeration of (wins, losses)."""
    wins, losses, probability = count_law(difference, discordance, n)
    lower, upper = interval(wins, losses, n, alpha)
    slack = 1e-12  # a bound that equals the truth up to rounding covers it
    below, above = (lower > difference + slack) @ probability, (upper < difference - slack) @ probability
    return Coverage(float(1 - below - above), float(below), float(above), float((upper - lower) @ probability))


def count_law(difference: float, discordance: float, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All (wins, losses) with probability above 1e-12, and their trinomial probabilities."""
    from scipy.special import gammaln, xlogy

    win, loss = (discordance + difference) / 2, (discordance - difference) / 2
    k = np.arange(n + 1)
    wins, losses = np.meshgrid(*(k[_plausible(n, p)] for p in (win, loss)), indexing="ij")
    wins, losses = wins.ravel(), losses.ravel()
    keep = wins + losses <= n
    wins, losses = wins[keep], losses[keep]
    rest = n - wins - losses
    log = gammaln(n + 1) - gammaln(wins + 1) - gammaln(losses + 1) - gammaln(rest + 1)
    log += xlogy(wins, win) + xlogy(losses, loss) + xlogy(rest, 1 - discordance)
    keep = log > math.log(1e-12)
    return wins[keep].astype(float), losses[keep].astype(float), np.exp(log[keep])


def _plausible(n: int, p: float) -> slice:
    spread = 9 * math.sqrt(n * p * (1 - p)) + 12
    return slice(max(0, int(n * p - spread)), min(n, int(n * p + spread)) + 1)


def betting_coverage(difference: float, discordance: float, n: int, alpha: float, draws: int, seed: int) -> Coverage:
    """Coverage of the betting interval by simulation; the width is the mean over the first 40 draws."""
    rng = np.random.default_rng(seed)
    win, loss = (discordance + difference) / 2, (discordance - difference) / 2
    truth, limit = (difference + 1) / 2, math.log(2 / alpha)
    below = above = 0
    widths: list[float] = []
    for start in range(0, draws, 500):
        size = min(500, draws - start)
        u = rng.random((size, n))
        values = np.where(u < win, 1.0, np.where(u < win + loss, 0.0, 0.5))
        up, down = bounded.log_capital(values, bounded.bets(values, alpha), truth)
        below += int((up >= limit).sum())
        above += int((down >= limit).sum())
        while len(widths) < 40:
            lower, upper = bounded.betting(2 * values[len(widths)] - 1, -1, 1, alpha)
            widths.append(upper - lower)
    missed = (below + above) / draws
    return Coverage(
        1 - missed, below / draws, above / draws, float(np.mean(widths)), math.sqrt(missed * (1 - missed) / draws)
    )


def false_validation(n: int, alpha: float, m: int, margin: float) -> Iterator[tuple[float, float]]:
    """(discordance, exact probability) that the registered rule validates at true difference = margin."""
    half = hoeffding.half_width(n, 2, alpha, m)
    for discordance in (abs(margin), 0.1, 0.2, 0.4, 0.6, 0.8, 1.0):
        wins, losses, probability = count_law(margin, discordance, n)
        yield discordance, float(((wins - losses) / n - half > margin) @ probability)


def tables() -> str:
    """The measured tables as Markdown."""
    lines = []
    for n in SIZES:
        lines += [
            f"#### n = {n:,}, nominal {1 - ALPHA:.0%}, one criterion",
            "",
            "| difference | discordance | method | coverage | misses below / above | mean width |",
            "|---:|---:|---|---:|---:|---:|",
        ]
        for k, (difference, discordance) in enumerate(GRID):
            cells = {
                name: exact_coverage(interval, difference, discordance, n, ALPHA)
                for name, interval in INTERVALS.items()
            }
            cells["betting"] = betting_coverage(difference, discordance, n, ALPHA, SIMULATIONS, seed=k)
            for name, cell in cells.items():
                error = f" ± {cell.standard_error:.4f}" if name == "betting" else ""
                lines.append(
                    f"| {difference:+.2f} | {discordance:.2f} | {name} | {cell.coverage:.4f}{error} "
                    f"| {cell.below:.4f} / {cell.above:.4f} | {cell.width:.4f} |"
                )
        lines.append("")
    lines += [
        "#### False validation of the registered criterion 1 at the edge of its null (exact)",
        "",
        "n = 1,319, alpha = 0.05, two criteria, true difference = margin = -0.03. Allowed: 0.0125 for this criterion's",
        "lower side.",
        "",
        "| discordance | probability of validating |",
        "|---:|---:|",
    ]
    lines += [f"| {q:.2f} | {p:.2e} |" for q, p in false_validation(1319, 0.05, 2, -0.03)]
    return "\n".join(lines) + "\n"


BEGIN, END = "<!-- measured tables: begin -->", "<!-- measured tables: end -->"


def main(page: Path = Path("docs/statistics.md")) -> None:
    """Replace what stands between the two marks of the page."""
    from selfgen.records import replace_file

    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    with replace_file(page) as temporary:
        temporary.write_text(f"{before}{BEGIN}\n\n{tables()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
