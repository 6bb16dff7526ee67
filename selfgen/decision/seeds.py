"""Many seeds: the claim about the training procedure, not about one checkpoint.

The registered rule speaks of fixed checkpoints; its intervals hold no training-seed variance. Here each seed is one
replicate. Seeds are never pooled with items: a criterion's value over all items is ONE number per seed, and the
interval is Student's t over these numbers. Beside it stand the variance components of the seed-by-item table.

Sources: Student (1908), Biometrika 6:1-25. Components: two-way crossed random model without replication, estimated
from the mean squares (Searle, Casella and McCulloch 1992, "Variance Components", ch. 4), cut off at 0.
Assumes: independent seeds, values near normal over seeds; the items are fixed (the interval is about this test set).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from selfgen.decision import evidence
from selfgen.decision.pairing import Paired
from selfgen.decision.verdict import decide
from selfgen.errors import DataError
from selfgen.records import dumps

# Below this many seeds an interval is shown with a warning: a t interval of 4 seeds is already 3.2 standard errors.
ENOUGH = 5


@dataclass(frozen=True)
class SeedRun:
    """One trained seed: where it came from, the params it ran with (plain values), its rows and their sha256 by arm."""

    source: str
    seed: int
    params: Mapping[str, Any]
    rows: Paired
    digests: Mapping[str, str]


def distinct(runs: Sequence[SeedRun]) -> tuple[list[SeedRun], list[str]]:
    """One run a seed, by seed, and a line for each identical copy left out.

    Raises:
        DataError: there is no run; two runs differ in more than the seed, are of different items, or share a seed but
            not their rows. Never pooled silently: the message names both.
    """
    if not runs:
        raise DataError("no seeds: no experiment has evaluation rows; run `dvc exp run --queue -S 'seed=0,1,2,3,4'`")
    first = runs[0]
    by_seed: dict[int, SeedRun] = {}
    notes: list[str] = []
    for run in runs:
        if key := _difference(first.params, run.params):
            raise DataError(
                f"{first.source} and {run.source} differ in {key}, not only in seed; name the runs to compare"
            )
        if run.rows.digest() != first.rows.digest():
            raise DataError(
                f"{first.source} and {run.source} were evaluated on different items; name the runs to compare"
            )
        if set(run.digests) != set(first.digests):
            raise DataError(f"{first.source} and {run.source} have different arms; name the runs to compare")
        before = by_seed.setdefault(run.seed, run)
        if before is not run:
            if before.digests != run.digests:
                raise DataError(
                    f"{before.source} and {run.source} share seed {run.seed} but not their rows; name one of them"
                )
            notes.append(f"{run.source} repeats seed {run.seed} of {before.source} exactly; counted once")
    return [by_seed[seed] for seed in sorted(by_seed)], notes


def analyse(runs: Sequence[SeedRun], rule: Any) -> dict[str, Any]:
    """Per-seed results, variance components, the interval over seeds and e-values, as a JSON object.

    Args:
        runs: distinct seeds (see `distinct`).
        rule: the `decision` params.
    """
    m, count = len(rule.criteria), len(runs)
    decisions = [decide(run.rows, rule) for run in runs]
    result: dict[str, Any] = {
        "decides": False,
        "unit": "seeds",
        "seeds": [run.seed for run in runs],
        "n_items": runs[0].rows.n,
        "enough": count >= ENOUGH,
        "warning": warning(count),
        "per_seed": [
            {
                "seed": run.seed,
                "source": run.source,
                "accuracies": {arm: float(a) for arm, a in d.accuracies.items()},
                "criteria": {c.id: {"estimate": float(c.estimate), "verdict": c.verdict} for c in d.criteria},
                "verdict": d.verdict,
            }
            for run, d in zip(runs, decisions, strict=True)
        ],
        "criteria": [],
    }
    for k, c in enumerate(rule.criteria):
        values = [float(d.criteria[k].estimate) for d in decisions]
        table = np.stack([_in_order(run.rows, runs[0].rows.items, c.weights) for run in runs])
        lower, upper = seed_interval(values, rule.alpha / m)
        result["criteria"].append(
            {
                "id": c.id,
                "margin": float(c.margin),
                "mean": float(np.mean(values)),
                "lower": lower,
                "upper": upper,
                "level": 1 - rule.alpha / m,
                "between_seed_sd": float(np.std(values, ddof=1)) if count > 1 else None,
                "components": components(table) if count > 1 else None,
                "evidence": criterion_evidence(c, values, rule.alpha, m),
            }
        )
    return result


def seed_interval(values: Sequence[float], alpha: float) -> tuple[float | None, float | None]:
    """Student's t interval for the mean over seeds; (None, None) for fewer than two seeds."""
    from scipy.special import stdtrit

    n = len(values)
    if n < 2:
        return None, None
    half = float(stdtrit(n - 1, 1 - alpha / 2)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    mean = float(np.mean(values))
    return mean - half, mean + half


def components(table: np.ndarray) -> dict[str, float]:
    """Variance components of a (seeds, items) table of item values.

    `seed` is what training again changes about the mean, `item` how much items differ for every seed alike, and
    `seed_by_item` the rest: what training again changes item by item. `mean_by_seeds` and `mean_by_items` are their
    contributions to the variance of the overall mean, the second only where items are a sample too.
    """
    seeds, items = table.shape
    grand, rows, columns = table.mean(), table.mean(axis=1), table.mean(axis=0)
    rest = table - rows[:, None] - columns[None] + grand
    square_seed = items * ((rows - grand) ** 2).sum() / (seeds - 1)
    square_item = seeds * ((columns - grand) ** 2).sum() / max(items - 1, 1)
    square_rest = (rest**2).sum() / max((seeds - 1) * (items - 1), 1)
    seed, item = max(0.0, (square_seed - square_rest) / items), max(0.0, (square_item - square_rest) / seeds)
    return {
        "seed": float(seed),
        "item": float(item),
        "seed_by_item": float(square_rest),
        "mean_by_seeds": float(square_seed / items / seeds),
        "mean_by_items": float(item / items),
    }


def criterion_evidence(c: Any, values: Sequence[float], alpha: float, m: int) -> dict[str, Any]:
    """E-values of one criterion over seeds, in the order given."""
    least, most = value_range(c)
    target = 2 * m / alpha
    if not least < float(c.margin) < most:
        return {"against_not_above": None, "against_not_below": None, "target": target, "seeds_needed": None}
    above, below = evidence.e_values(values, float(c.margin), least, most)
    advantage = float(np.mean(values)) - float(c.margin)
    return {
        "against_not_above": above[-1],
        "against_not_below": below[-1],
        "largest_against_not_above": max(above),
        "largest_against_not_below": max(below),
        "target": target,
        "seeds_needed": evidence.seeds_needed(advantage, float(c.margin), least, target),
    }


def value_range(c: Any) -> tuple[float, float]:
    """The smallest and largest value a criterion's estimate can take."""
    low, high = (float(b) for b in c.bounds)
    least = math.fsum(float(w) * (low if w > 0 else high) for w in c.weights.values())
    most = math.fsum(float(w) * (high if w > 0 else low) for w in c.weights.values())
    return least, most


def warning(count: int) -> str | None:
    """What to say about this number of seeds; None when there are enough."""
    if count < 2:
        return "one seed: nothing can be said about the variance between seeds"
    if count < ENOUGH:
        return (
            f"{count} seeds are too few: the interval rests on {count - 1} degrees of freedom and on normality that "
            f"cannot be checked; use at least {ENOUGH}"
        )
    return None


def ledger_plan(runs: Sequence[SeedRun], rule: Any) -> dict[str, Any]:
    """The first line of a ledger: what every seed in it must share."""
    shared = {k: v for k, v in runs[0].params.items() if k not in _MAY_DIFFER}
    return {
        "alpha": float(rule.alpha),
        "criteria": [
            {"id": c.id, "margin": float(c.margin), "weights": dict(c.weights), "bounds": list(c.bounds)}
            for c in rule.criteria
        ],
        "items_sha256": runs[0].rows.digest(),
        "params_sha256": hashlib.sha256(dumps(shared).encode()).hexdigest(),
    }


def ledger_seed(run: SeedRun, rule: Any) -> dict[str, Any]:
    """A seed's line of a ledger."""
    estimates = {c.id: float(c.estimate) for c in decide(run.rows, rule).criteria}
    return {"seed": run.seed, "source": run.source, "estimates": estimates, "rows": dict(run.digests)}


# A service's address changes no row's meaning, and the budget and who watches none at all.
_MAY_DIFFER = frozenset({"seed", "service", "budget", "tracking"})


def _difference(a: Any, b: Any, name: str = "") -> str | None:
    """The dotted name of the first leaf in which two params differ, the seed left out."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in sorted(a.keys() | b.keys()):
            if not name and key in _MAY_DIFFER:
                continue
            where = f"{name}.{key}" if name else str(key)
            if key not in a or key not in b:
                return where
            if found := _difference(a[key], b[key], where):
                return found
        return None
    return None if a == b else name


def _in_order(rows: Paired, items: Sequence[str], weights: Mapping[str, Any]) -> np.ndarray:
    values = rows.values(weights)
    if list(rows.items) == list(items):
        return values
    place = {item: i for i, item in enumerate(rows.items)}
    return values[[place[item] for item in items]]


def lines(result: Mapping[str, Any]) -> list[str]:
    """The result for the screen."""
    ids = [c["id"] for c in result["criteria"]]
    out = [f"{len(result['seeds'])} seeds x {result['n_items']:,} items; points of accuracy; this does not decide", ""]
    out.append("seed  " + "  ".join(ids) + "  verdict at this seed  source")
    for row in result["per_seed"]:
        cells = "  ".join(f"{100 * row['criteria'][i]['estimate']:>+{len(i)}.2f}" for i in ids)
        out.append(f"{row['seed']:4}  {cells}  {row['verdict']:20}  {row['source']}")
    out.append("")
    for c in result["criteria"]:
        line = f"{c['id']}: mean {100 * c['mean']:+.2f}, margin {100 * c['margin']:+.2f}"
        if c["lower"] is not None:
            parts = c["components"]
            line += (
                f", {100 * c['level']:.1f} % interval over seeds [{100 * c['lower']:+.2f}, {100 * c['upper']:+.2f}]; "
                f"sd between seeds {100 * c['between_seed_sd']:.2f}; variance components seed {parts['seed']:.2e}, "
                f"item {parts['item']:.2e}, seed by item {parts['seed_by_item']:.2e}"
            )
        out.append(line)
        found = result.get("ledger", {}).get("evidence", {}).get(c["id"], c["evidence"])
        if found["against_not_above"] is not None:
            out.append(
                f"  e-value against 'not above the margin' {found['against_not_above']:.3g}, against 'not below' "
                f"{found['against_not_below']:.3g}; conclusive from {found['target']:g}"
                + (f", about {found['seeds_needed']} seeds like these" if found["seeds_needed"] else "")
            )
    if result["warning"]:
        out.append(f"warning: {result['warning']}")
    out += [f"note: {note}" for note in result.get("notes", ())]
    if book := result.get("ledger"):
        out.append(
            f"{book['file']}: {len(book['seeds'])} seeds, {book['new']} new, head {book['head'][:16]}; commit it"
        )
    return out
