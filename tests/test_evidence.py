"""A run's evidence as one file: what is in it, what may be left out, and what verification says of it."""

from __future__ import annotations

import html
import json
import shutil
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from selfgen.decision.run import decide_files
from selfgen.errors import DataError
from selfgen.export import evidence
from selfgen.gates import mean_reward
from selfgen.params import load
from selfgen.records import LEFT_OUT, CuratedRow, Rollout, read_json, read_jsonl
from selfgen.report.cli import report
from selfgen.training.results import mean
from selfgen.verify import claims
from selfgen.verify.cli import verify as command
from selfgen.verify.run import Run
from tests.support import locking


def status(root: Path, name: str) -> tuple[str, str]:
    found = {claim.name: (claim.status, claim.detail) for claim in claims.verify(root)}
    return found[name]


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


def test_the_archive_verifies_without_the_weights_and_says_what_was_left_out(whole_run: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one.tar.xz", tmp_path / "other.tar.xz"
    files, left = evidence.write(whole_run, one)
    evidence.write(whole_run, other)
    assert one.read_bytes() == other.read_bytes()
    arms = list(load(whole_run / "params.yaml").arms)
    assert left == sorted(f"data/train/{arm}/adapter" for arm in arms)
    with tarfile.open(one) as tar:
        names = tar.getnames()
    assert len(names) == files + 1
    assert not [name for name in names if "/adapter/" in name]

    answer = CliRunner().invoke(command, ["--root", str(one), "--json"])
    said = json.loads(answer.output)
    assert answer.exit_code == 0
    assert said["passed"]
    found = {claim["name"]: claim for claim in said["claims"]}
    assert found["files.complete"]["status"] == claims.NOT_CHECKABLE
    assert "left out of this archive" in found["files.complete"]["detail"]
    assert found["results.verdict"]["status"] == claims.VERIFIED


def test_only_weights_of_the_recorded_hash_may_be_left_out(whole_run: Path, tmp_path: Path) -> None:
    archive = tmp_path / "run.tar.xz"
    evidence.write(whole_run, archive)
    root = unpacked(archive, tmp_path / "run")
    said = read_json(root / LEFT_OUT)
    name = next(iter(said))
    (root / LEFT_OUT).write_text(json.dumps({**said, name: {**said[name], "md5": "0" * 32 + ".dir"}}))
    assert status(root, "files.complete")[0] == claims.FAILED

    root = unpacked(archive, tmp_path / "other")
    rows = "data/eval/base/rows.jsonl"
    lock = Run(root).lock
    entry = next(out for stage in lock.values() for out in stage["outs"] if out["path"] == rows)
    (root / LEFT_OUT).write_text(json.dumps({**said, rows: entry}))
    (root / rows).unlink()
    assert status(root, "files.complete")[0] == claims.FAILED


def test_a_run_that_lost_an_artifact_is_not_exported(copy: Path, tmp_path: Path) -> None:
    (copy / "data/filter/tasks.jsonl").unlink()
    with pytest.raises(DataError, match=r"tasks\.jsonl is missing .* `dvc pull`"):
        evidence.write(copy, tmp_path / "run.tar.xz")
    assert not (tmp_path / "run.tar.xz").exists()


def test_another_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.tar.xz").write_bytes(b"no archive")
    with pytest.raises(DataError, match="not an evidence archive"), evidence.opened(tmp_path / "x.tar.xz"):
        pass


def test_a_control_that_was_never_trained_is_named_and_the_rest_is_verified(copy: Path) -> None:
    params = load(copy / "params.yaml")
    compared = {arm for criterion in params.decision.criteria for arm in criterion.weights}
    control = next(arm for arm in params.arms if arm not in compared)
    for folder in ("train", "eval"):
        shutil.rmtree(copy / f"data/{folder}/{control}")
    (copy / f"metrics/train/{control}.json").unlink(missing_ok=True)
    (copy / f"metrics/eval/{control}.json").unlink()
    shutil.rmtree(copy / "data/decide")
    shutil.rmtree(copy / "reports", ignore_errors=True)
    locking.lock(copy)

    found = {claim.name: claim for claim in claims.verify(copy)}
    assert not claims.failed(found.values())
    for name in ("training.batches", "training.rewards", "training.optimizer", "training.checkpoints", "results.items"):
        assert found[name].status == claims.VERIFIED
        assert f"not yet trained and evaluated: {control}" in found[name].detail
    decision = decide_files(params, copy / "data", copy)
    assert decision["not_evaluated"] == [control]
    assert control not in decision["accuracies"]

    shutil.rmtree(copy / "data/eval/rl_selfgen")
    with pytest.raises(DataError, match="rl_selfgen"):
        decide_files(params, copy / "data", copy)


def test_published_sums_do_not_depend_on_the_python_version() -> None:
    """`sum` of floats rounds at every step before Python 3.12 and once at the end since."""
    values = [0.1] * 10
    assert mean(values) == 0.1
    rows = [Rollout(0, 0, i, "p", v, 1.0, 1.0, 5) for i, v in enumerate(values)]
    assert mean_reward(rows) == 0.1


def test_rows_of_a_public_set_may_stay_away_and_another_set_cannot_take_their_place(
    whole_run: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "run.tar.xz"
    _, left = evidence.write(whole_run, archive, curated=False)
    assert {"data/curated/train.jsonl", "data/curated/test.jsonl", "data/subset/rl_gsm8k.jsonl"} <= set(left)
    with evidence.opened(archive) as root:
        found = {claim.name: claim for claim in claims.verify(root)}
        assert not claims.failed(found.values())
        assert found["results.verdict"].status == found["audits.gate"].status == claims.NOT_CHECKABLE
        assert found["tasks.labels"].status == claims.VERIFIED
    with evidence.opened(archive, "anything") as root:  # the stand-in's own rows, which this run did not use
        assert (root / "data/curated/test.jsonl").is_file()
        assert status(root, "files.hashes")[0] == claims.FAILED


def test_a_report_without_the_curated_rows_quotes_none_of_them(copy: Path, tmp_path: Path) -> None:
    def build(root: Path, out: Path) -> str:
        answer = CliRunner().invoke(report, ["--params", str(root / "params.yaml"), "--out", str(out)])
        assert answer.exit_code == 0, answer.output
        assert "data/curated" not in answer.output
        return out.read_text(encoding="utf-8")

    rejected = (copy / "data/filter/rejected.jsonl").read_text(encoding="utf-8")  # one candidate is a test question
    rows = read_jsonl(copy / "data/curated/test.jsonl", CuratedRow)
    questions = [html.escape(row.question) for row in rows if row.question not in rejected]
    full = build(copy, copy / "reports/index.html")
    assert sum(question in full for question in questions) > 3
    evidence.write(copy, tmp_path / "run.tar.xz", curated=False)
    with evidence.opened(tmp_path / "run.tar.xz") as root:
        page = (root / "reports/index.html").read_text(encoding="utf-8")
        assert build(root, tmp_path / "page.html") == page
    assert not any(question in page for question in questions)
    assert "The question is left out" in page
    assert "The question is left out" not in full
