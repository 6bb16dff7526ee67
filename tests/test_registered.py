"""The registered plan's two command lines, as a user types them, against a server that `selfgen serve` started."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from selfgen.curated import standin
from selfgen.records import Task, read_json, read_jsonl, write_jsonl

KEY = "tml-test-key"
N = 3

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def base_url(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`selfgen serve`, which needs no option but here a free port and a folder of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "selfgen.cli", "serve", "--port", str(port), "--key", KEY]
    state = tmp_path_factory.mktemp("server")
    process = subprocess.Popen(
        [*command, "--state-dir", str(state)], cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            try:
                urllib.request.urlopen(f"{url}/api/v1/healthz", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


@pytest.fixture(scope="module")
def folder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project folder with params.yaml, and evaluation questions in GSM8K's own format."""
    folder = tmp_path_factory.mktemp("project")
    text = (root / "params.yaml").read_text(encoding="utf-8")
    (folder / "params.yaml").write_text(text, encoding="utf-8")
    for split, n in (("train", 4), ("test", 8)):
        rows = standin.build(4, 8)[split]
        lines = [json.dumps({"question": row.question, "answer": row.solution}) for row in rows[:n]]
        (folder / f"questions/{split}.jsonl").parent.mkdir(exist_ok=True)
        (folder / f"questions/{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def selfgen(root: Path, folder: Path) -> Command:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(root), "TINKER_API_KEY": KEY}
        environment.pop("TINKER_BASE_URL", None)
        return subprocess.run(
            [sys.executable, "-m", "selfgen.cli", *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )

    return run


@pytest.fixture(scope="module")
def generated(selfgen: Command, base_url: str, folder: Path) -> Path:
    done = selfgen(
        "generate", "--base-url", base_url, "--generator", "selfgen/policy", "--n-accept", str(N), "--filter-samples", "8",
        "--keep-band", "1-6", "--overlap-ref", "questions:main/test", "--out", "tasks.jsonl",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"tasks.jsonl: {N} tasks of " in done.stdout
    return folder / "tasks.jsonl"


def audit(selfgen: Command, base_url: str, out: str, *more: str) -> subprocess.CompletedProcess[str]:
    return selfgen(
        "audit", "--base-url", base_url, "--solver", "selfgen/auditor", "--sample", str(N), "--compare", "numeric_exact",
        "--max-label-errors", "0", "--overlap-ref", "questions:main/test", "--out", out, *more,
    )  # fmt: skip


def test_generate_writes_tasks_in_the_band_and_counts_every_candidate(generated: Path) -> None:
    tasks = list(read_jsonl(generated, Task))
    assert len(tasks) == N
    assert all(1 <= task.n_correct <= 6 and len(task.solutions) == 8 for task in tasks)
    counts = read_json(generated.with_name("counts.json"))
    assert counts["accepted"] == N
    assert counts["candidates_judged"] == N + sum(counts["rejected"].values())
    assert counts["generator"] == "selfgen/policy"


def test_audit_passes_sound_tasks_and_keeps_every_worked_solution(
    generated: Path, selfgen: Command, base_url: str, folder: Path
) -> None:
    done = audit(selfgen, base_url, "audit.json")
    assert done.returncode == 0, done.stderr
    verdict = read_json(folder / "audit.json")
    assert (verdict["passed"], verdict["sample"], verdict["label_errors"]) == (True, N, 0)
    assert len((folder / "audit_rows.jsonl").read_text().splitlines()) == N


def test_audit_of_a_wrong_label_and_of_an_evaluation_question_exits_1_with_one_line(
    generated: Path, selfgen: Command, base_url: str, folder: Path
) -> None:
    first, second, *others = [vars(task) for task in read_jsonl(generated, Task)]
    question = json.loads((folder / "questions/test.jsonl").read_text().splitlines()[0])["question"]
    bad = [first | {"label": first["label"] + 1}, second | {"problem": question}, *others]
    write_jsonl(folder / "bad.jsonl", bad)
    done = audit(selfgen, base_url, "bad.json", "--tasks", "bad.jsonl")
    assert (done.returncode, done.stderr.splitlines()[-1].startswith("error: bad.json: the audit failed: ")) == (
        1,
        True,
    )
    verdict = read_json(folder / "bad.json")
    assert (verdict["passed"], verdict["eval_overlaps"]) == (False, 1)
    assert set(verdict["flagged"]) == {first["id"], second["id"]}
    assert verdict["label_errors"] >= 1


def test_too_few_candidates_and_a_sample_over_the_set_are_one_line(
    generated: Path, selfgen: Command, base_url: str
) -> None:
    few = selfgen(
        "generate", "--base-url", base_url, "--n-accept", "99", "--max-candidates", "4", "--out", "few/tasks.jsonl"
    )
    assert (few.returncode, few.stderr.splitlines()[-1].startswith("error: ")) == (1, True)
    many = audit(selfgen, base_url, "many.json", "--sample", str(N + 1))
    assert (many.returncode, many.stderr.count("\n")) == (1, 1)
