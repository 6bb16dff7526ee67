"""What DVC users trip over: each of these is met once, and ends in a message or in the right state."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.support.checkout import Checkout

pytestmark = pytest.mark.slow


def ran(output: str) -> list[str]:
    """Names of the stages that a `dvc repro` ran."""
    return re.findall(r"^Running stage '([^']+)'", output, re.MULTILINE)


@pytest.fixture(scope="module")
def work(published: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A clone with all artifacts, in a folder with a space and a letter beyond ASCII."""
    return published.branch_off(tmp_path_factory.mktemp("traps") / "some wörk")


@pytest.fixture(autouse=True)
def _restored(work: Checkout):
    yield
    work.run("git", "checkout", "-q", "--", ".")
    work.run("git", "clean", "-qfd", "data", "imports")
    work.dvc("checkout", "--force")


def test_an_untracked_file_that_a_queued_run_needs_is_named_with_both_cures(work: Checkout) -> None:
    """Queued and --temp experiments run in a copy that holds what git tracks."""
    problems = [json.loads(line) for line in (work.path / "data/subset/rl_selfgen.jsonl").read_text().splitlines()]
    file = work.path / "imports/rl_other.jsonl"
    file.write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    run = ("exp", "run", "--temp", "--set-param", "+arms.rl_other.data=imported")
    done = work.dvc(*run, "subset@rl_other", check=False)
    assert done.returncode != 0
    assert "error: imports/rl_other.jsonl: no such file" in done.stdout + done.stderr
    assert "--copy-paths imports/rl_other.jsonl" in done.stdout + done.stderr
    done = work.dvc(*run, "--copy-paths", "imports/rl_other.jsonl", "--name", "other", "subset@rl_other")
    assert ran(done.stdout) == ["subset@rl_other"]


def test_a_file_in_the_place_of_an_output_is_replaced_by_the_cached_one(work: Checkout) -> None:
    page = work.path / "reports/index.html"
    before = page.read_bytes()
    page.unlink()
    page.write_text("mine\n")
    assert "reports/index.html" in work.dvc("status").stdout
    assert ran(work.dvc("repro").stdout) == []
    assert page.read_bytes() == before


def test_what_a_removed_arm_left_behind_changes_no_verdict(work: Checkout) -> None:
    before = (work.path / "data/decide/decision.json").read_bytes()
    gone = work.path / "data/eval/rl_gone"
    shutil.copytree(work.path / "data/eval/rl_mixed", gone)
    try:
        assert ran(work.dvc("repro").stdout) == ["decide", "report"]
        assert (work.path / "data/decide/decision.json").read_bytes() == before
    finally:
        shutil.rmtree(gone)


def test_ctrl_c_in_a_stage_is_one_line_stops_the_server_and_leaves_nothing_half_written(work: Checkout) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "dvc", "repro", "--force", "--single-item", "generate"],
        cwd=work.path,
        env={**work.environment(), "SELFGEN_JOURNAL": "off"},  # answered from the journal it would be over too soon
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # A shell's background job, as CI may be, ignores SIGINT, and so would all that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )

    def children() -> list[psutil.Process]:
        return [
            child
            for child in psutil.Process(process.pid).children(recursive=True)
            if "selfgen.embedded.child" in " ".join(child.cmdline())
        ]

    deadline = time.monotonic() + 120
    while not (servers := children()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "interrupted; what was finished is kept, run the same command again to go on" in said
    assert "Traceback" not in said
    assert psutil.wait_procs(servers, timeout=30)[1] == []
    assert [path.name for path in (work.path / "data/generate").glob("*") if path.name != ".gitignore"] == []
    assert "up to date" not in work.dvc("status").stdout
    work.dvc("checkout")
    assert "up to date" in work.dvc("status").stdout


def test_a_moved_checkout_stays_up_to_date(published: Checkout, tmp_path: Path) -> None:
    before = published.branch_off(tmp_path / "before")
    (tmp_path / "other").mkdir()
    before.path.rename(tmp_path / "other/after wörds")
    after = Checkout(tmp_path / "other/after wörds", before.cache)
    after.dvc("cache", "dir", "--local", str(published.path / ".dvc/cache"))
    assert "up to date" in after.dvc("status").stdout
    assert ran(after.dvc("repro").stdout) == []
    claims = json.loads(after.selfgen("verify", "--json").stdout)["claims"]
    assert not [claim for claim in claims if claim["status"] == "failed"]


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv (util-linux) to give up root's rights")
def test_a_read_only_cache_serves_and_its_refusal_of_writes_is_one_line(published: Checkout, tmp_path: Path) -> None:
    ours = published.clone(tmp_path / "ours")
    shutil.copytree(published.path / ".dvc/cache", tmp_path / "cache")
    ours.dvc("cache", "dir", "--local", str(tmp_path / "cache"))
    subprocess.run(["chmod", "-R", "a-w", str(tmp_path / "cache")], check=True)
    bound = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner") if os.geteuid() == 0 else ()
    dvc = (*bound, sys.executable, "-m", "dvc")
    try:
        ours.run(*dvc, "checkout")
        assert "up to date" in ours.run(*dvc, "status").stdout
        assert ran(ours.run(*dvc, "repro").stdout) == []
        done = ours.run(*dvc, "repro", "--force", "--single-item", "report", check=False)
        assert done.returncode != 0
        assert "Permission denied" in done.stderr or "Read-only" in done.stderr
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(tmp_path / "cache")], check=True)
    ours.dvc("repro", "report")
    assert "up to date" in ours.dvc("status").stdout


def test_two_experiments_at_once_use_two_servers_and_one_journal_and_do_not_collide(
    published: Checkout, tmp_path: Path
) -> None:
    """The same proposals, sampled by two experiments at a time and by one alone."""
    work = published.branch_off(tmp_path / "work")

    def change(seed: int) -> tuple[str, ...]:
        return ("--set-param", f"generate.seed={seed}", "--set-param", "generate.n_candidates=8", "generate")

    for name, seed in (("one", 1), ("two", 2)):
        work.dvc("exp", "run", "--queue", "--name", name, *change(seed))
    work.dvc("exp", "run", "--run-all", "--jobs", "2")
    alone = Checkout(work.path, tmp_path / "empty cache")
    alone.dvc("exp", "run", "--temp", "--name", "alone", *change(2))
    found = {}
    for name in ("one", "two", "alone"):
        lock = work.run("git", "show", f"{exp(work, name)}:dvc.lock").stdout
        found[name] = re.search(r"path: data/generate/candidates.jsonl\s+hash: md5\s+md5: ([0-9a-f]{32})", lock)[1]  # type: ignore[index]
    assert found["two"] == found["alone"] != found["one"]


def exp(checkout: Checkout, name: str) -> str:
    """The git revision of an experiment."""
    refs = checkout.run("git", "for-each-ref", "--format=%(refname)", "refs/exps").stdout.split()
    return next(ref for ref in refs if ref.endswith(f"/{name}"))
