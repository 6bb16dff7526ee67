"""One small run of the whole pipeline in a checkout of its own, shared by the tests of this folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

# Enough of everything for every stage to do its real work in seconds.
SMALL = (
    "curated.n_train=60",
    "curated.n_test=12",
    "curated.n_transfer=2",
    "generate.n_candidates=24",
    "filter.n_accept=8",
    "audit.sample=4",
    "pilot.eval_items=2",
    "train.problems=8",
    "train.steps=2",
    "train.save_every=2",
    "eval.repeat=true",
)


@dataclass(frozen=True)
class Checkout:
    """A git and DVC checkout of the project with its own cache folder."""

    path: Path
    cache: Path

    def run(self, *command: str, check: bool = True, timeout: float = 280) -> subprocess.CompletedProcess[str]:
        """Run a command there, with this environment's programs first on PATH."""
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "SELFGEN_CACHE": str(self.cache),
            "DVC_NO_ANALYTICS": "1",
        }
        done = subprocess.run(
            command, cwd=self.path, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def dvc(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run DVC there."""
        return self.run(sys.executable, "-m", "dvc", *arguments, check=check)

    def selfgen(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the selfgen command there, on the checkout's own code."""
        return self.run(sys.executable, "-m", "selfgen.cli", *arguments, check=check)

    def commit(self, message: str) -> None:
        """Commit everything that git tracks or would."""
        self.run("git", "add", "-A")
        self.run("git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", message)


def make_checkout(root: Path, path: Path, cache: Path) -> Checkout:
    """A copy of the working tree's own files (not its artifacts) as a fresh repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        source = root / name
        if (
            source.is_file()
            and name not in ("dvc.lock",)
            and not name.startswith(("data/", "metrics/", "reports/", "results/"))
        ):
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, path / name)
    (path / "review/audit_rounds").mkdir(parents=True, exist_ok=True)
    checkout = Checkout(path, cache)
    checkout.run("git", "init", "-q")
    return checkout


@pytest.fixture(scope="session")
def small_run(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The pipeline run to its verdict at a small size, by a plan registered before it."""
    checkout = make_checkout(root, tmp_path_factory.mktemp("run") / "check out é", tmp_path_factory.mktemp("cache"))
    checkout.selfgen("compose", *SMALL)
    checkout.dvc("repro", "curated")
    checkout.selfgen("prereg", "--seed", "0", "--seed", "1")
    checkout.commit("small")
    checkout.dvc("repro")
    checkout.commit("run")
    return checkout
