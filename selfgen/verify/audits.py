"""Claims about the trust chain between tasks and training: the audit, the repairs before it, and the gate."""

from __future__ import annotations

from selfgen import gates
from selfgen.records import AuditRow, Rejection, read_json, read_jsonl
from selfgen.tasks import audit, quarantine, repair
from selfgen.tasks.filters import task_id
from selfgen.verify.run import NotHere, Run, broken, expect

ROWS, VERDICT = "data/audit/rows.jsonl", "data/audit/audit.json"


def audit_rows(run: Run) -> str:
    """The audit asked for the tasks its seed draws, and its outcomes follow from the stored worked solutions."""
    params, tasks = run.params.audit, run.tasks
    rows = run.rows(ROWS, AuditRow)
    drawn = [tasks[i] for i in audit.draw(len(tasks), params.sample, params.seed, _round(run))]
    expect([row.task_id for row in rows], [task.id for task in drawn], f"{ROWS}: sample")
    ruled = audit.read_adjudications(run.root / "review" / repair.ADJUDICATIONS)
    for row, task in zip(rows, drawn, strict=True):
        where = f"{ROWS}: {row.task_id}"
        expect([row.problem, row.label], [task.problem, task.label], f"{where}: problem and label")
        expect(row.solver, run.params.auditor.name, f"{where}: solver")
        expect(row.answer, _answer(row, params.votes, params.retries, where), f"{where}: answer")
        expect(row.outcome, audit.judge(row.answer, row.label), f"{where}: outcome")
        wanted = None if row.outcome == audit.AGREE else ruled.get(row.task_id)
        expect(row.adjudication, wanted, f"{where}: adjudication")
    return f"{len(rows)} of {len(tasks)} tasks, {sum(len(row.attempts) for row in rows)} worked solutions"


def audit_verdict(run: Run) -> str:
    """The audit's verdict, its bound and its counts follow from its rows, and it passed."""
    rows, said = run.rows(ROWS, AuditRow), run.json(VERDICT)
    wanted = audit.verdict(
        rows,
        run.tasks,
        run.params.audit,
        solver=run.params.auditor.name,
        past=repair.past_rounds(run.root / "review"),
        quarantined=quarantine.quarantined_ids(run.root / "review"),
        overlap=run.index.exact,
        counts=audit.count(run.tasks, run.rows("data/filter/rejected.jsonl", Rejection)),
    )
    expect(said, wanted, VERDICT)
    expect(run.json("data/audit/passed.json"), {"passed": wanted["passed"]}, "data/audit/passed.json")
    published = run.json("metrics/audit.json")
    expect(published, {k: v for k, v in wanted.items() if isinstance(v, int | float)}, "metrics/audit.json")
    if not wanted["passed"]:
        raise broken(f"the audit failed: {'; '.join(wanted['failures'])}")
    return (
        f"{wanted['label_errors']} errors in {wanted['sample']}, error rate at most "
        f"{wanted['error_rate_upper_bound']:.4f} (one-sided {wanted['confidence']:.0%})"
    )


def repairs(run: Run) -> str:
    """Every repaired round is on record, and everything it flagged is quarantined or adjudicated."""
    review = run.root / "review"
    past, kept = repair.past_rounds(review), {row.id: row for row in repair.read_quarantine(review)}
    ruled = audit.read_adjudications(review / repair.ADJUDICATIONS)
    for entry in kept.values():
        where = f"review/{repair.QUARANTINE}: {entry.id}"
        if entry.id != task_id(entry.problem, entry.label):
            raise broken(f"{where} is not the id of its problem and label")
        if not 1 <= entry.round <= len(past):
            raise broken(f"{where} names round {entry.round}, {len(past)} are on record")
    for number in (round.round for round in past):
        folder = review / repair.ROUNDS / f"{number:02d}"
        verdict = read_json(folder / "audit.json")
        rows = list(read_jsonl(folder / "rows.jsonl", AuditRow))
        expect(verdict["sample"], len(rows), f"round {number}: sample")
        for row in rows:
            where = f"round {number}: {row.task_id}"
            expect(row.outcome, audit.judge(row.answer, row.label), f"{where}: outcome")
            if row.outcome != audit.AGREE and row.task_id not in kept and row.task_id not in ruled:
                raise broken(f"{where} was flagged, but is neither quarantined nor adjudicated")
    if back := next((task.id for task in run.tasks if task.id in kept), None):
        raise broken(f"{back} is quarantined and in the task set")
    return f"{len(past)} repaired rounds, {len(kept)} quarantined, {len(ruled)} adjudicated"


def gate(run: Run) -> str:
    """The five activation checks, recomputed from rollouts, manifests and tasks, are as published and pass."""
    run.require(
        "data/gate/gate.json",
        "data/curated/train.jsonl",
        "data/curated/test.jsonl",
        *(f"data/pilot/{arm}/rollouts.jsonl" for arm in (gates.TREATMENT, gates.BASELINE)),
    )
    report = gates.from_files(run.params.gate, run.root)
    expect(run.json("data/gate/gate.json"), report.to_json(), "data/gate/gate.json")
    expect(run.json("metrics/gate.json"), report.metrics(), "metrics/gate.json")
    if failures := report.failures():
        raise broken(failures[0])
    return ", ".join(f"{check.value:.4g}" for check in report.checks)


def feasibility(run: Run) -> str:
    """The published cost follows from the pilots' timings, and is within the budget or overridden with a reason."""
    from selfgen import budget

    timings = {}
    for arm in run.arms:
        run.require(f"data/pilot/{arm}/pilot.json")
        name = f"data/pilot/{arm}/timing.json"
        if not (run.root / name).exists():
            raise NotHere(f"{name} is volatile and was left out")
        timings[arm] = run.json(name)
    found = budget.project(run.params, timings, len(run.test_rows))
    expect(run.json("metrics/feasibility.json"), found, "metrics/feasibility.json")
    expect(run.json("data/gate/passed.json"), {"passed": found["status"] != "over_budget"}, "data/gate/passed.json")
    if found["status"] == "over_budget":
        raise broken("; ".join(found["problems"]))
    return f"{found['wall_minutes']:.1f} minutes, {found['gpu_hours']:.2f} GPU-hours, {found['status']}"


def _round(run: Run) -> int:
    return len(repair.past_rounds(run.root / "review")) + 1


def _answer(row: AuditRow, votes: int, retries: int, where: str) -> str | None:
    """The answer that the stored attempts give; only an attempt that answered nothing may be followed by another."""
    asked, rest = divmod(len(row.attempts), votes)
    if rest or not 1 <= asked <= retries + 1 or len(row.stop_reasons) != len(row.attempts):
        raise broken(f"{where}: {len(row.attempts)} solutions cannot come from 1 to {retries + 1} attempts of {votes}")
    answers = [
        audit.vote(row.attempts[i : i + votes], row.stop_reasons[i : i + votes])
        for i in range(0, len(row.attempts), votes)
    ]
    said = [audit.judge(answer, row.label) for answer in answers]
    if any(outcome != audit.UNANSWERED for outcome in said[:-1]):
        raise broken(f"{where}: asked again after an answer")
    if said[-1] == audit.UNANSWERED and asked < retries + 1:
        raise broken(f"{where}: unanswered after {asked} attempts, {retries + 1} are due")
    return answers[-1]
