"""Repair: flagged tasks leave for good, rounds stay on record, and a set cannot pass by being asked less."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path

import pytest
from click.testing import CliRunner

from selfgen.errors import DataError
from selfgen.params import AuditParams
from selfgen.records import AuditRow, Completion, Task, read_json, read_jsonl, write_json, write_jsonl
from selfgen.tasks import audit, quarantine, repair

PARAMS = AuditParams(
    sample=12, seed=3, compare="numeric_exact", max_label_errors=0, max_eval_overlaps=0, max_tokens=64,
    temperature=0.0, retries=0,
)  # fmt: skip
N_ACCEPT = 12
SEED_OF_THREE_ROUNDS = 1


def task(i: int) -> Task:
    # Every fifth candidate carries a wrong label.
    label = 2 * i + (1 if i % 5 == 0 else 0)
    problem = f"Twice {i} is what?"
    id = "task-" + hashlib.sha256(f"{problem}|{label}".encode()).hexdigest()[:16]
    return Task(id, f"cand-{i:06d}", i, problem, f"def solve():\n    return {label}", label, 3, 8)


CANDIDATES = [task(i) for i in range(40)]


def accept(quarantined: Collection[str]) -> list[Task]:
    """What the filter does with a quarantine: later candidates move up, in generation order."""
    return [t for t in CANDIDATES if t.id not in quarantined][:N_ACCEPT]


def solver(conversations, attempt):
    for messages in conversations:
        number = int("".join(c for c in messages[-1]["content"].split("is")[0] if c.isdigit()))
        yield [Completion(f"Twice {number}: \\boxed{{{2 * number}}}", 9, "stop")]


def audit_stage(root: Path, params: AuditParams = PARAMS) -> dict:
    """The audit stage over the filter's present output; writes what the stage writes."""
    tasks = accept(quarantine.quarantined_ids(root / "review"))
    write_jsonl(root / "data/filter/tasks.jsonl", tasks)
    rows, verdict = audit.run(
        tasks,
        solve=solver,
        params=params,
        solver="oracle",
        few_shot="none",
        past=repair.past_rounds(root / "review"),
        adjudications=audit.read_adjudications(root / "review/adjudications.jsonl"),
        quarantined=quarantine.quarantined_ids(root / "review"),
    )
    write_jsonl(root / "data/audit/rows.jsonl", rows)
    write_json(root / "data/audit/audit.json", verdict)
    return verdict


def fix(root: Path) -> repair.Repaired:
    return repair.quarantine_flagged(root / "data/audit", root / "review", root / "data/filter/tasks.jsonl")


def test_a_repair_ends_in_a_clean_audit_with_every_round_on_record(tmp_path: Path) -> None:
    rounds = []
    while not (verdict := audit_stage(tmp_path))["passed"]:
        flagged = set(verdict["flagged"])
        done = fix(tmp_path)
        assert {row.id for row in done.added} == flagged
        rounds.append(verdict)
        assert len(rounds) < 10
    # 0, 5 and 10 are wrong among the first 12; topping up brings in 12, 13 and 14, which are right.
    assert len(rounds) == 1
    assert verdict["round"] == len(rounds) + 1
    assert [r["round"] for r in rounds] == list(range(1, len(rounds) + 1))
    assert verdict["sample"] == PARAMS.sample
    tasks = list(read_jsonl(tmp_path / "data/filter/tasks.jsonl", Task))
    assert len(tasks) == N_ACCEPT
    quarantine = repair.read_quarantine(tmp_path / "review")
    assert {row.id for row in quarantine}.isdisjoint(t.id for t in tasks)
    assert all(row.solution.startswith("Twice") and row.reason == "label_error" for row in quarantine)
    for number, past in enumerate(rounds, start=1):
        folder = tmp_path / f"review/audit_rounds/{number:02d}"
        assert read_json(folder / "audit.json") == past
        assert len(list(read_jsonl(folder / "rows.jsonl", AuditRow))) == PARAMS.sample


def test_a_drive_over_three_rounds_when_each_sample_sees_only_part(tmp_path: Path) -> None:
    """A sample of 6 of 12 misses some wrong labels, so several rounds are needed; none may be skipped."""
    params = PARAMS.model_copy(update={"sample": 6, "seed": SEED_OF_THREE_ROUNDS})
    seen: list[dict] = []
    samples: list[list[str]] = []
    while not (verdict := audit_stage(tmp_path, params))["passed"]:
        seen.append(verdict)
        samples.append([row.task_id for row in read_jsonl(tmp_path / "data/audit/rows.jsonl", AuditRow)])
        fix(tmp_path)
    assert len(seen) == 3
    assert len({tuple(s) for s in samples}) == len(samples), "every round draws afresh"
    assert verdict["round"] == len(seen) + 1


def test_a_fully_adjudicated_audit_needs_no_repair(tmp_path: Path) -> None:
    verdict = audit_stage(tmp_path)
    rulings = [audit.Adjudication(id, "the solver dropped a unit") for id in verdict["flagged"]]
    write_jsonl(tmp_path / "review/adjudications.jsonl", rulings)
    with pytest.raises(DataError, match="every flagged task is adjudicated"):
        fix(tmp_path)
    assert audit_stage(tmp_path)["passed"] is True


def test_a_second_repair_of_the_same_round_is_refused(tmp_path: Path) -> None:
    audit_stage(tmp_path)
    fix(tmp_path)
    before = (tmp_path / "review/quarantine.jsonl").read_bytes()
    with pytest.raises(DataError, match="round 1 is repaired already"):
        fix(tmp_path)
    assert (tmp_path / "review/quarantine.jsonl").read_bytes() == before


def test_a_crash_between_quarantine_and_round_can_be_repaired_again(tmp_path: Path) -> None:
    verdict = audit_stage(tmp_path)
    fix(tmp_path)
    for file in sorted((tmp_path / "review/audit_rounds").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    done = fix(tmp_path)
    assert done.total == len(verdict["flagged"])
    assert len(repair.past_rounds(tmp_path / "review")) == 1


def test_asking_less_after_a_repair_never_passes(tmp_path: Path) -> None:
    audit_stage(tmp_path)
    fix(tmp_path)
    shrunk = audit_stage(tmp_path, PARAMS.model_copy(update={"sample": 1}))
    assert shrunk["label_errors"] == 0
    assert shrunk["passed"] is False
    assert "sample shrank" in shrunk["failures"][0]
    with pytest.raises(DataError, match="no task to remove"):
        fix(tmp_path)


def test_a_quarantined_task_that_is_back_fails_the_audit(tmp_path: Path) -> None:
    audit_stage(tmp_path)
    fix(tmp_path)
    back = repair.read_quarantine(tmp_path / "review")[0].id
    tasks = [t for t in CANDIDATES if t.id == back] + accept(quarantine.quarantined_ids(tmp_path / "review"))
    _, verdict = audit.run(
        tasks, solve=solver, params=PARAMS, solver="oracle", past=repair.past_rounds(tmp_path / "review"),
        quarantined=quarantine.quarantined_ids(tmp_path / "review"),
    )  # fmt: skip
    assert verdict["passed"] is False
    assert any(back in failure for failure in verdict["failures"])


def test_an_adjudicated_task_is_not_quarantined(tmp_path: Path) -> None:
    verdict = audit_stage(tmp_path)
    spared = verdict["flagged"][0]
    write_jsonl(tmp_path / "review/adjudications.jsonl", [audit.Adjudication(spared, "the solver dropped a unit")])
    fix(tmp_path)
    assert spared not in quarantine.quarantined_ids(tmp_path / "review")


def test_an_overlapping_task_outside_the_sample_is_quarantined_with_its_question(tmp_path: Path) -> None:
    tasks = [t for t in CANDIDATES if t.index % 5]
    write_jsonl(tmp_path / "data/filter/tasks.jsonl", tasks)
    unseen = next(t for i, t in enumerate(tasks) if i not in audit.draw(len(tasks), 12, 3))
    rows, verdict = audit.run(
        tasks, solve=solver, params=PARAMS, solver="oracle",
        overlap=lambda problem: "test-00007" if problem == unseen.problem else None,
    )  # fmt: skip
    write_jsonl(tmp_path / "data/audit/rows.jsonl", rows)
    write_json(tmp_path / "data/audit/audit.json", verdict)
    (row,) = fix(tmp_path).added
    assert (row.id, row.reason, row.solution) == (unseen.id, "eval_overlap", "equals test-00007")


def test_a_passed_audit_has_nothing_to_repair(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "data/audit/rows.jsonl", [])
    write_json(tmp_path / "data/audit/audit.json", {"passed": True, "round": 1})
    with pytest.raises(DataError, match="nothing to repair"):
        fix(tmp_path)


def test_a_verdict_on_other_tasks_repairs_nothing(tmp_path: Path) -> None:
    audit_stage(tmp_path)
    write_jsonl(tmp_path / "data/filter/tasks.jsonl", accept(())[1:])
    with pytest.raises(DataError, match="has changed since it was audited"):
        fix(tmp_path)
    assert not (tmp_path / "review").exists()


def test_a_lost_round_is_noticed(tmp_path: Path) -> None:
    write_json(tmp_path / "review/audit_rounds/02/audit.json", {"round": 2, "sample": 5, "population": 9})
    with pytest.raises(DataError, match="holds round 2, not 1"):
        repair.past_rounds(tmp_path / "review")


def test_the_command_says_what_it_did_and_what_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = audit_stage(tmp_path)
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(repair.repair, ["--show"])
    assert verdict["flagged"][0] in shown.output
    assert not (tmp_path / "review/quarantine.jsonl").exists()
    done = CliRunner().invoke(repair.repair, [])
    assert done.exit_code == 0, done.output
    assert f"{len(verdict['flagged'])} tasks quarantined" in done.output
    assert "dvc repro" in done.output
