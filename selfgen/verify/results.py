"""Claims about the result: per-item rows graded again from their completions, the rule applied again, the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from selfgen import spec
from selfgen.decision import decide, prereg
from selfgen.decision.run import decide_files
from selfgen.evaluation.agreement import of_rows
from selfgen.evaluation.eval import metrics
from selfgen.evaluation.grading import grade
from selfgen.records import CuratedRow, EvalRow
from selfgen.verify.run import NotHere, Run, broken, expect

DECISION = "data/decide/decision.json"
GRADERS = "data/decide/graders.json"
# Rows of an evaluation -> split of the curated set. Only the first evaluation of the test split decides.
SETS = {"rows": "test", "rows_again": "test", "transfer": "transfer"}


def items(run: Run) -> str:
    """Every arm has one row for every evaluation item, in order, graded as its stored completion deserves."""
    regraded = 0
    for arm in ("base", *run.finished):
        measured = {}
        for name, split in SETS.items():
            rows = run.rows(f"data/eval/{arm}/{name}.jsonl", EvalRow)
            asked = run.rows(f"data/curated/{split}.jsonl", CuratedRow)
            if name == "rows_again" and not run.params.eval.repeat:
                asked = []
            _graded(run, rows, asked, arm, f"data/eval/{arm}/{name}.jsonl")
            measured[name] = rows
            regraded += len(rows)
        wanted = metrics(measured["rows"], measured["transfer"])
        expect(run.json(f"metrics/eval/{arm}.json"), wanted, f"metrics/eval/{arm}.json")
    return f"{regraded} completions of {len(run.finished) + 1} arms{run.unfinished}"


def _graded(run: Run, rows: Sequence[EvalRow], items: Sequence[CuratedRow], arm: str, name: str) -> None:
    """One arm's rows against one set's items."""
    limit = run.params.eval.max_tokens
    expect([row.item_id for row in rows], [item.id for item in items], f"{name}: items")
    for row, item in zip(rows, items, strict=True):
        where = f"{name}: {row.item_id}"
        expect([row.arm, row.answer], [arm, item.answer], f"{where}: arm and answer")
        found = grade(row.completion, item.answer)
        expect([row.extracted, row.correct], [found.extracted, found.correct], f"{where}: grade")
        if row.stop_reason not in ("stop", "length") or not 0 < row.n_tokens <= limit:
            raise broken(f"{where}: {row.n_tokens} tokens, stopped by {row.stop_reason!r}; eval.max_tokens is {limit}")
        if row.stop_reason == "length" and row.n_tokens != limit:
            raise broken(f"{where}: cut at {row.n_tokens} tokens, eval.max_tokens is {limit}")


def verdict(run: Run) -> str:
    """Both criteria and the verdict follow from the per-item rows by the registered rule."""
    said = run.json(DECISION)
    scores = {
        arm: [(row.item_id, row.correct) for row in run.rows(f"data/eval/{arm}/rows.jsonl", EvalRow)]
        for arm in ("base", *run.finished)
    }
    decision = decide(scores, run.params.decision, [item.id for item in run.test_rows])
    wanted = decision.to_json()
    expect({key: said.get(key) for key in wanted}, wanted, DECISION)
    _by_hand(run, wanted)
    published = run.json("metrics/decision.json")
    expect([published["verdict"], published["n"]], [wanted["verdict"], wanted["n"]], "metrics/decision.json")
    for row in wanted["criteria"]:
        kept = {key: row[key] for key in ("estimate", "lower", "upper", "margin", "verdict")}
        expect(published["criteria"].get(row["id"]), kept, f"metrics/decision.json: {row['id']}")
    for arm, row in wanted["accuracies"].items():
        expect(published["accuracy"].get(arm), row["accuracy"], f"metrics/decision.json: accuracy of {arm}")
    parts = "; ".join(f"{row['id']} {row['lower']:+.4f} to {row['upper']:+.4f}" for row in wanted["criteria"])
    return f"{wanted['verdict']} at n = {wanted['n']}: {parts}"


def sensitivity(run: Run) -> str:
    """The analyses beside the verdict, which do not decide, follow from the per-item rows."""
    said = run.json(DECISION)
    run.require("data/curated/test.jsonl")
    again = decide_files(run.params, run.root / "data", run.root)
    for part in ("sensitivity", "noise_floor"):
        if part not in said:
            raise NotHere(f"{DECISION} has no {part}")
        expect(said[part], again[part], f"{DECISION}: {part}")
    return f"{len(said['sensitivity'])} analyses"


def graders(run: Run) -> str:
    """The second grader's agreement with the stock one, and every disagreement, follow from the stored completions."""
    said, late, n = run.json(GRADERS), 0, 0
    expect(sorted(said), sorted(("base", *run.finished)), f"{GRADERS}: arms")
    for arm, published in said.items():
        again = of_rows(run.rows(f"data/eval/{arm}/rows.jsonl", EvalRow))
        if published["timeouts"] or again["timeouts"]:
            late += published["timeouts"] + again["timeouts"]
            continue  # a slower machine grades fewer items: nothing to compare
        expect(published, again, f"{GRADERS}: {arm}")
        n += again["n"]
    published = run.json("metrics/decision.json")["graders_agree"]
    expect(published, {arm: found["agree"] for arm, found in said.items()}, "metrics/decision.json: graders_agree")
    if late:
        raise NotHere(f"{late} completions took the second grader too long; {n} others agree with what is published")
    worst = min(found["agree"] for found in said.values())
    return f"{n} completions graded a second time; agreement at least {worst:.4f}"


def registration(run: Run) -> str:
    """The run followed a plan that stood in git before its first evaluation row, and changed nothing in it."""
    said = run.json(DECISION).get("registration")
    if not said or not said["registered"]:
        raise NotHere("no plan is registered for this scale: the verdict is exploratory")
    again = prereg.registration(
        run.params, [item.id for item in run.test_rows], ("base", *run.finished), run.root / "data", run.root
    )
    expect(said["sha256"], again["sha256"], f"{DECISION}: registered plan")
    if again["changes"]:
        change = again["changes"][0]
        raise broken(f"{change['what']} was registered as {change['registered']}, the run used {change['now']}")
    if again["before_first_row"] is False:
        raise broken(again["reason"])
    return again["statement"]


def _by_hand(run: Run, wanted: dict[str, Any]) -> None:
    """The rule once more from its formula, without the library: h = R sqrt(ln(2m / alpha) / (2n))."""
    rule, n = run.params.decision, len(run.test_rows)
    accuracy = {
        arm: sum(row.correct for row in run.rows(f"data/eval/{arm}/rows.jsonl", EvalRow)) / n
        for arm in ("base", *run.finished)
    }
    for criterion, row in zip(rule.criteria, wanted["criteria"], strict=True):
        spread = (criterion.bounds[1] - criterion.bounds[0]) * sum(abs(w) for w in criterion.weights.values())
        half = spread * math.sqrt(math.log(2 * len(rule.criteria) / rule.alpha) / (2 * n))
        estimate = sum(weight * accuracy[arm] for arm, weight in criterion.weights.items())
        for field, value in (("estimate", estimate), ("lower", estimate - half), ("upper", estimate + half)):
            if not math.isclose(row[field], value, abs_tol=1e-9):
                raise broken(f"{criterion.id}: {field} {row[field]:.9f}, the formula gives {value:.9f}")


def report(run: Run) -> str:
    """The filled plan (reports/experiment.json) holds the run's own params, gate values and cost, deviations listed."""
    name = "reports/experiment.json"
    filled = spec.fill(
        run.params,
        feasibility=run.json("metrics/feasibility.json"),
        gate=run.json("data/gate/gate.json"),
        n_items=len(run.test_rows),
    )
    expect(run.json(name), filled, name)
    return f"{len(filled['deviations'])} deviations from the registered plan at scale {run.params.scale}"


def provenance_of_samples(run: Run) -> str:
    """Candidates, worked solutions and completions were written by the models named."""
    raise NotHere("sampling again needs the service; the manifests record which one was met")


def rejected_pass_rates(run: Run) -> str:
    """Pass counts of candidates rejected by pass rate are those of their samples."""
    raise NotHere("the samples of rejected candidates stay in the request journal, only their counts are published")


def rollout_grades(run: Run) -> str:
    """The rollouts' `correct` and `format` are those of their texts."""
    raise NotHere("rollout texts are not published; rewards are checked against `correct` and `format`")


def weights(run: Run) -> str:
    """The trained weights come from exactly these batches and optimizer steps."""
    raise NotHere("needs training again; on the embedded server `dvc repro --force` gives equal digests")


def blindness(run: Run) -> str:
    """The auditor saw neither label nor code."""
    raise NotHere("a property of the code, not of its output: tests/tasks/test_audit.py compares every request")
