"""What came out: accuracies, criteria, and the items on which two arms differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from selfgen.records import EvalRow, by_set
from selfgen.report import charts
from selfgen.report.claim import CURATED, TREATED, describe_arm
from selfgen.report.comparing import Comparison, clopper_pearson, compare
from selfgen.report.formats import weights
from selfgen.report.run import BASE, Run, draw_key

SHOWN_FLIPS = 20  # of each direction and pair of arms; `selfgen show item ID` shows any
ALPHA = 0.05
LEAST_DISCORDANCE = 0.01  # beyond the difference itself
DRAWS = 5_000
DIFFERENCES = (-0.05, 0.0, 0.03, 0.05, 0.08, 0.1)  # hypothetical true differences, treated minus curated


@dataclass(frozen=True)
class Flip:
    """One item that one of two arms gets right: the question (None where the curated rows are not here), and both completions."""

    question: str | None
    first: EvalRow
    second: EvalRow


@dataclass(frozen=True)
class Flips:
    """All items on which two arms differ, and the ones shown, drawn by hash."""

    comparison: Comparison
    gained: Sequence[Flip]
    lost: Sequence[Flip]


def colours(run: Run) -> dict[str, int]:
    """Each arm's index into the palette. Base is grey; the two registered arms keep theirs whatever else is run."""
    fixed = {BASE: 0, CURATED: 1, TREATED: 2}
    others = [arm for arm in run.arms if arm not in fixed]
    return fixed | {arm: 3 + i % (charts.ARM_COLOURS - 3) for i, arm in enumerate(others)}


def accuracies(run: Run) -> list[dict[str, Any]]:
    """One row an arm: accuracy with its own exact interval, and how answers failed."""
    palette, out = colours(run), []
    for arm in run.arms:
        rows = run.evaluations.get(arm)
        if not rows:
            continue
        n, correct = len(rows), sum(row.correct for row in rows)
        low, high = clopper_pearson(correct, n, ALPHA)
        out.append(
            {
                "arm": arm,
                "what": describe_arm(run, arm),
                "colour": palette[arm],
                "n": n,
                "correct": correct,
                "accuracy": correct / n,
                "low": low,
                "high": high,
                "no_box": sum(row.extracted is None for row in rows) / n,
                "truncated": sum(row.stop_reason == "length" for row in rows) / n,
                "mean_tokens": sum(row.n_tokens for row in rows) / n,
                "transfer": {name: _share_right(found) for name, found in by_set(run.transfers.get(arm, ())).items()},
            }
        )
    return out


def _share_right(rows: Sequence[EvalRow]) -> float:
    return sum(row.correct for row in rows) / len(rows)


def transfer_sizes(run: Run) -> dict[str, int]:
    """Transfer sets that some arm was evaluated on, with their numbers of items."""
    sizes: dict[str, int] = {}
    for rows in run.transfers.values():
        for name, found in by_set(rows).items():
            sizes[name] = max(len(found), sizes.get(name, 0))
    return sizes


def criteria(run: Run) -> list[dict[str, Any]]:
    """The registered criteria as decided, with their weighted sums in words."""
    if run.decision is None:
        return []
    return [dict(c) | {"sum": weights(c["weights"])} for c in run.decision["criteria"]]


def criteria_chart(found: Sequence[Mapping[str, Any]], name: str = "criteria") -> str:
    """The interval-against-margin plot, its rows named by the weighted sums."""
    return charts.criteria(found, [f"{c['sum']}: {c['verdict']}" for c in found], name)


def flips(run: Run) -> list[Flips]:
    """The treated arm against the curated arm and against base, and the curated arm against base."""
    pairs = [(TREATED, CURATED), (TREATED, BASE), (CURATED, BASE)]
    questions = {item.id: item.question for item in run.items}
    found = []
    for first, second in pairs:
        if first not in run.evaluations or second not in run.evaluations:
            continue
        ours, theirs = ({row.item_id: row for row in run.evaluations[arm]} for arm in (first, second))
        comparison = compare(run.evaluations, first, second)

        def shown(
            ids: Sequence[str], ours: Mapping[str, EvalRow] = ours, theirs: Mapping[str, EvalRow] = theirs
        ) -> list[Flip]:
            drawn = sorted(sorted(ids, key=draw_key)[:SHOWN_FLIPS])
            return [Flip(questions.get(i), ours[i], theirs[i]) for i in drawn]

        found.append(Flips(comparison, shown(comparison.gained), shown(comparison.lost)))
    return found


def thresholds(run: Run) -> list[dict[str, Any]]:
    """What each criterion needed to see, at this number of test items: its decisive observed values."""
    if not run.n_items:
        return []
    from selfgen.decision.power import describe

    rule = run.params.decision
    return [
        describe(c, run.n_items, rule.alpha, len(rule.criteria)) | {"sum": weights(c.weights)} for c in rule.criteria
    ]


def power(run: Run) -> dict[str, Any] | None:
    """The chance of each verdict if the true difference were this or that, and the items that 80 % would take.

    Reference accuracies are the observed ones. So is the share of discordant items, unless a difference needs more:
    two arms cannot differ by 5 points on 2 % of the items. True differences are hypothetical, so this is not the
    (circular) power at the observed one; those that these accuracies leave no room for are left out. None where the
    arms of the registered plan were not evaluated.
    """
    if run.decision is None or not {BASE, CURATED, TREATED} <= run.evaluations.keys():
        return None
    from selfgen.decision.power import power as ask
    from selfgen.errors import ParamsError

    known = {arm: entry["accuracy"] for arm, entry in run.decision["accuracies"].items() if arm != TREATED}
    pair = compare(run.evaluations, TREATED, CURATED)
    observed = (len(pair.gained) + len(pair.lost)) / pair.n
    found: dict[str, Any] = {}
    scenarios: list[dict[str, Any]] = []
    for difference in DIFFERENCES:
        discordance = max(observed, abs(difference) + LEAST_DISCORDANCE)
        try:
            found = ask(
                run.params.decision,
                pair.n,
                accuracies=known,
                differences=[difference],
                discordances=[discordance],
                draws=DRAWS,
            )
        except ParamsError:
            return None  # criteria without one treated and one reference arm: the question has no answer
        scenarios += [row for row in found["scenarios"] if row["feasible"]]
    return found | {"scenarios": scenarios, "observed_discordance": observed} if scenarios else None
