"""Sharing a run: what one pushes, another pulls, verifies and goes on with, whatever the remote is."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sharing.conftest import Remote
from tests.support.checkout import Checkout


def ran(output: str) -> list[str]:
    """Names of the stages that a `dvc repro` ran."""
    return re.findall(r"^Running stage '([^']+)'", output, re.MULTILINE)


def clean(checkout: Checkout) -> None:
    """Nothing to do for DVC, nothing changed for git."""
    assert "up to date" in checkout.dvc("status").stdout
    assert checkout.run("git", "status", "--porcelain").stdout == ""


def verified(checkout: Checkout) -> None:
    """Every claim that can be checked holds."""
    claims = json.loads(checkout.selfgen("verify", "--json").stdout)
    assert sum(claim["status"] == "verified" for claim in claims["claims"]) > 25


SLOW = pytest.mark.slow


@pytest.mark.parametrize("kind", ["folder", pytest.param("http", marks=SLOW), pytest.param("s3", marks=SLOW)])
def test_a_fresh_clone_pulls_all_that_verify_needs(
    published: Checkout, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    remote: Remote = request.getfixturevalue(kind)
    ours = published.clone(tmp_path / "our clone é", **remote.extra)
    remote.add_to(ours)
    ours.dvc("pull")
    clean(ours)
    verified(ours)
    assert ran(ours.dvc("repro").stdout) == []


def test_a_read_only_remote_refuses_a_push_and_stays_whole(published: Checkout, http: Remote, tmp_path: Path) -> None:
    ours = published.clone(tmp_path / "ours")
    http.add_to(ours)
    ours.dvc("pull", "data/decide/decision.json")
    new = ours.path / "extra.txt"
    new.write_text("ours\n")
    ours.dvc("add", "extra.txt")
    done = ours.dvc("push", "extra.txt.dvc", check=False)
    assert done.returncode != 0
    again = published.clone(tmp_path / "again")
    http.add_to(again)
    again.dvc("pull")
    clean(again)


def test_repro_with_pull_fetches_instead_of_running(published: Checkout, folder: Remote, tmp_path: Path) -> None:
    ours = published.clone(tmp_path / "ours")
    folder.add_to(ours)
    assert ran(ours.dvc("repro", "--pull").stdout) == []
    clean(ours)


@SLOW
def test_the_run_cache_restores_a_run_that_no_lock_file_records(
    published: Checkout, folder: Remote, tmp_path: Path
) -> None:
    """A colleague's commit was never merged: same code and params here, no dvc.lock, no metrics."""
    ours = published.clone(tmp_path / "ours")
    folder.add_to(ours)
    theirs = (ours.path / "dvc.lock").read_text()
    ours.run("git", "rm", "-rq", "dvc.lock", "metrics")
    ours.dvc("fetch", "--run-cache")
    done = ours.dvc("repro", "--pull")
    assert ran(done.stdout) == []
    assert done.stdout.count("is cached - skipping run") == theirs.count("cmd: ")
    assert (ours.path / "dvc.lock").read_text() == theirs
    ours.run("git", "add", "-A")
    assert ours.run("git", "status", "--porcelain").stdout == "", "metrics are back, as they were"
    verified(ours)


def killed(checkout: Checkout, *arguments: str, when: Callable[[], bool]) -> bool:
    """Start DVC there and end it with kill -9 as soon as `when`; False when it was done before."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dvc", *arguments],
        cwd=checkout.path,
        env=checkout.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not when():
        if process.poll() is not None:
            return False
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return True


def objects(folder: Path) -> list[Path]:
    """Stored objects, by their final names."""
    return [path for path in folder.glob("files/md5/??/*") if re.fullmatch(r"[0-9a-f]{30}(\.dir)?", path.name)]


def whole(folder: Path) -> None:
    """Every stored object holds what its name says."""
    for path in objects(folder):
        found = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        assert found == path.parent.name + path.name.removesuffix(".dir"), path


def test_pushing_without_a_remote_is_one_line(published: Checkout, tmp_path: Path) -> None:
    done = published.clone(tmp_path / "ours").selfgen("push", check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("error: push: ")
    assert "see `dvc remote list`" in done.stderr


@SLOW
def test_a_push_that_was_killed_leaves_whole_objects_and_is_finished_by_the_next(
    published: Checkout, folder: Remote, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    store.mkdir()
    ours = published.clone(tmp_path / "ours")
    folder.add_to(ours)
    ours.dvc("pull")
    ours.dvc("remote", "add", "--local", "other", str(store))
    assert killed(ours, "push", "--jobs", "1", "--remote", "other", when=lambda: len(objects(store)) > 20)
    assert 20 < len(objects(store)) < len(objects(Path(folder.url)))
    whole(store)
    ours.dvc("push", "--remote", "other")
    whole(store)
    theirs = published.clone(tmp_path / "theirs")
    Remote(str(store)).add_to(theirs)
    theirs.dvc("pull")
    clean(theirs)


@SLOW
def test_a_pull_that_was_killed_is_finished_by_the_next(published: Checkout, folder: Remote, tmp_path: Path) -> None:
    for number, stop in enumerate(
        (lambda path: len(objects(path / ".dvc/cache")) > 20, lambda path: (path / "data/train").exists())
    ):
        ours = published.clone(tmp_path / f"ours{number}")
        folder.add_to(ours)
        assert killed(ours, "pull", "--jobs", "1", when=lambda ours=ours, stop=stop: stop(ours.path))
        whole(ours.path / ".dvc/cache")
        ours.dvc("pull")
        clean(ours)
        verified(ours)
