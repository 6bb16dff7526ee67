"""Verification: an untouched run passes, every edit is caught, and a revision can be verified from git and the cache."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from selfgen import gates
from selfgen.errors import GateError, VerifyError
from selfgen.params import load
from selfgen.records import Task, read_json, read_jsonl, write_json, write_jsonl
from selfgen.tasks import repair
from selfgen.verify import claims
from selfgen.verify.cli import verify as command
from selfgen.verify.files import md5
from selfgen.verify.run import Run, expect
from tests.support import artifacts, edits, locking, mutations


def assert_clean(root: Path) -> None:
    found = claims.verify(root)
    assert [(claim.name, claim.detail) for claim in claims.failed(found)] == []
    verified = [claim for claim in found if claim.status == claims.VERIFIED]
    assert len(verified) >= 25
    assert sum(claim.seconds for claim in found) < 20


def test_an_untouched_run_passes(whole_run: Path) -> None:
    assert_clean(whole_run)


def test_a_run_whose_hashes_were_computed_again_passes(copy: Path) -> None:
    locking.reforge(copy)
    assert_clean(copy)


def test_a_run_without_its_volatile_files_passes(copy: Path) -> None:
    """timing.json, location.json and provenance.json may be left out of a publication."""
    for name in ("timing.json", "location.json", "provenance.json"):
        for path in copy.rglob(name):
            path.unlink()
    locking.lock(copy)
    assert_clean(copy)


def test_a_repaired_run_passes_and_its_rounds_are_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong labels come in; audits find them; repairs remove them; the run that follows verifies, rounds included."""
    honest = artifacts.story

    def careless(kind: str, i: int) -> tuple[str, str, int]:
        problem, code, answer = honest(kind, i)
        if kind == "model" and i % 3 == 1:
            return problem, code.replace("packed - ", "packed + "), answer
        return problem, code, answer

    monkeypatch.setattr(artifacts, "story", careless)
    rounds: list[set[str]] = []
    p = artifacts.params(tmp_path)
    artifacts.prepare(tmp_path, p)
    while True:
        artifacts.filter_tasks(tmp_path, p)
        artifacts.audit_tasks(tmp_path, p)
        verdict = read_json(tmp_path / "data/audit/audit.json")
        if verdict["passed"]:
            break
        rounds.append(set(verdict["flagged"]))
        data = tmp_path / "data"
        repair.quarantine_flagged(data / "audit", tmp_path / "review", data / "filter/tasks.jsonl")
        assert len(rounds) < 9
    assert len(rounds) >= 3
    assert verdict["round"] == len(rounds) + 1
    tasks = {task.id for task in read_jsonl(tmp_path / "data/filter/tasks.jsonl", Task)}
    assert len(tasks) == p.filter.n_accept
    assert tasks.isdisjoint(set().union(*rounds))
    artifacts.finish(tmp_path, p)
    assert_clean(tmp_path)
    # Throwing a round away, or letting a flagged task off, is noticed.
    shutil.rmtree(tmp_path / "review/audit_rounds/01")
    locking.lock(tmp_path)
    assert "audits.repairs" in {claim.name for claim in claims.failed(claims.verify(tmp_path))}


def test_a_failed_gate_leaves_evidence_where_dvc_does_not_delete_it(copy: Path) -> None:
    rollouts = edits.rows(copy, "data/pilot/rl_selfgen/rollouts.jsonl")
    write_jsonl(copy / "data/pilot/rl_selfgen/rollouts.jsonl", [row | {"reward": 1.0} for row in rollouts])
    bounds = load(copy / "params.yaml").gate
    report = gates.evaluate_and_write(bounds, copy)
    assert not report.passed
    (kept,) = (copy / gates.FAILED).iterdir()
    assert read_json(kept) == read_json(copy / "data/gate/gate.json")
    gates.evaluate_and_write(bounds, copy)
    assert len(list((copy / gates.FAILED).iterdir())) == 1


def test_the_gate_refuses_another_task_set_than_the_audited_one_and_a_failed_preflight(copy: Path) -> None:
    tasks = edits.rows(copy, "data/filter/tasks.jsonl")
    write_jsonl(copy / "data/filter/tasks.jsonl", [tasks[1], tasks[0], *tasks[2:]])
    preflight = read_json(copy / "data/preflight/preflight.json")
    preflight["checks"][1]["passed"] = False
    write_json(copy / "data/preflight/preflight.json", preflight)
    report = gates.from_files(load(copy / "params.yaml").gate, copy)
    assert [need.name for need in report.requirements if not need.passed] == ["audit", "preflight"]
    with pytest.raises(GateError, match=r"^gate: audit: the audited task set is not the one .* run `dvc repro`"):
        report.raise_if_failed()
    assert "start_shape[0]" in report.table()


def test_there_are_more_than_thirty_mutations_and_their_names_differ() -> None:
    assert len(mutations.MUTATIONS) >= 30
    assert len({mutation.name for mutation in mutations.MUTATIONS}) == len(mutations.MUTATIONS)


@pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=lambda m: m.name)
def test_every_single_edit_is_caught_as_it_is_and_with_all_hashes_forged(
    whole_run: Path, mutation: mutations.Mutation
) -> None:
    for mode, found in mutations.caught(whole_run, mutation):
        assert found is not None, f"{mode}: {mutation.name} was missed"
        assert "malformed artifact" not in found.detail
        assert "\n" not in found.detail


def test_a_missing_stage_is_not_checkable_rather_than_failed(copy: Path) -> None:
    """A run that stopped before training claims nothing about it."""
    for name in ("train", "eval", "decide"):
        shutil.rmtree(copy / "data" / name)
    for name in ("train", "eval"):
        shutil.rmtree(copy / "metrics" / name)
    (copy / "metrics/decision.json").unlink()
    locking.lock(copy)
    found = {claim.name: claim for claim in claims.verify(copy)}
    assert claims.failed(found.values()) == []
    for name in ("results.items", "results.verdict", "training.checkpoints"):
        assert found[name].status == claims.NOT_CHECKABLE
        assert "stage has not run" in found[name].detail
    assert found["tasks.labels"].status == claims.VERIFIED


def test_missing_artifacts_say_that_they_must_be_pulled(copy: Path) -> None:
    (copy / "data/eval/base/rows.jsonl").unlink()
    found = {claim.name: claim for claim in claims.verify(copy)}
    assert found["files.complete"].status == claims.FAILED
    assert found["results.items"].status == claims.NOT_CHECKABLE
    assert "dvc pull" in found["results.items"].detail


def test_every_claim_is_one_sentence_and_says_why_it_is_out_of_reach() -> None:
    for function in claims.CLAIMS:
        sentence = str(function.__doc__).strip().splitlines()[0]
        assert sentence.endswith("."), function
        assert 20 < len(sentence) < 140, function


def test_the_command_prints_the_table_and_fails_on_an_edit(copy: Path) -> None:
    clean = CliRunner().invoke(command, ["--root", str(copy)])
    assert clean.exit_code == 0, clean.output
    assert ", 0 failed, " in clean.output
    write_json(copy / "metrics/decision.json", {"verdict": "validated"})
    bad = CliRunner().invoke(command, ["--root", str(copy), "--json"])
    assert bad.exit_code == 1
    said = json.loads(bad.output)
    assert said["passed"] is False
    assert {row["status"] for row in said["claims"]} == set(said["counts"])


def test_without_dvc_lock_the_files_claims_fail_with_what_to_do(copy: Path) -> None:
    (copy / "dvc.lock").unlink()
    found = {claim.name: claim for claim in claims.verify(copy)}
    assert "dvc.lock: no such file; run `dvc repro`" in found["files.hashes"].detail


def _git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), "-c", "user.name=n", "-c", "user.email=e@e", *arguments], check=True)


def test_a_revision_is_verified_from_git_and_the_dvc_cache(copy: Path) -> None:
    """The hashes are DVC's own, and a later edit of the workspace changes nothing for the revision."""
    dvc = [sys.executable, "-m", "dvc"]
    before = {name: out["md5"] for name, out in Run(copy).locked_outs.items()}
    outs = {"filter": ["tasks.jsonl", "rejected.jsonl"], "train/rl_selfgen": ["adapter", "rollouts.jsonl"]}
    tracked = {
        f"kept-{folder.replace('/', '-')}": {"cmd": "true", "outs": [f"data/{folder}/{name}" for name in names]}
        for folder, names in outs.items()
    }
    (copy / "dvc.yaml").write_text(json.dumps({"stages": tracked}))
    _git(copy, "init", "-q")
    subprocess.run([*dvc, "init", "-q"], cwd=copy, check=True)
    subprocess.run([*dvc, "commit", "-q", "-f"], cwd=copy, check=True)
    after = {name: out["md5"] for name, out in Run(copy).locked_outs.items()}
    assert after == before, "DVC computes the hashes that stand in the lock already"
    assert md5(copy / "data/train/rl_selfgen/adapter").endswith(".dir")
    # DVC has put .gitignore files into the folders that some stages read whole: record those as they are now.
    kept = {name: stage for name, stage in Run(copy).lock.items() if name in tracked}
    locking.lock(copy, more=kept)
    _git(copy, "add", "-A", ".")
    _git(copy, "commit", "-q", "-m", "run")
    shown = subprocess.run(
        ["git", "-C", str(copy), "ls-files", "data/filter"], capture_output=True, text=True, check=True
    )
    assert "tasks.jsonl" not in shown.stdout
    (copy / "data/filter/tasks.jsonl").unlink()
    done = CliRunner().invoke(command, ["--root", str(copy), "--rev", "HEAD"])
    assert done.exit_code == 0, done.output
    gone = CliRunner().invoke(command, ["--root", str(copy), "--rev", "no-such-tag"])
    assert "no-such-tag" in str(gone.exception)


def test_comparison_names_the_first_place_that_differs() -> None:
    with pytest.raises(VerifyError, match=r"^f: a: \[1\] says 3, recomputed 2$"):
        expect({"a": [1, 3]}, {"a": (1, 2)}, "f")
    with pytest.raises(VerifyError, match="says true, recomputed 1"):
        expect({"a": True}, {"a": 1}, "f")
    with pytest.raises(VerifyError, match="b says nothing"):
        expect({}, {"b": 1}, "f")
    expect({"a": 1.0}, {"a": 1}, "f")
