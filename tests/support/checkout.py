"""Checkouts of the project in folders of their own: bare, or with a complete run that DVC has cached."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import artifacts

# Seconds that one command may take; a busy machine needs more.
LIMIT = float(os.environ.get("SELFGEN_TEST_LIMIT", "600"))


@dataclass(frozen=True)
class Checkout:
    """A git and DVC checkout of the project with its own cache folder."""

    path: Path
    cache: Path
    extra: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """This environment's programs first on PATH, the checkout's own cache, and `extra`."""
        return {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "SELFGEN_CACHE": str(self.cache),
            "DVC_NO_ANALYTICS": "1",
            **self.extra,
        }

    def run(self, *command: str, check: bool = True, timeout: float = LIMIT) -> subprocess.CompletedProcess[str]:
        """Run a command there."""
        done = subprocess.run(
            command,
            cwd=self.path,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
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
        self.run("git", "commit", "-qm", message)

    def identify(self) -> None:
        """Give git an author, which commits and DVC experiments need."""
        self.run("git", "config", "user.name", "t")
        self.run("git", "config", "user.email", "t@example.com")

    def branch_off(self, path: Path) -> Checkout:
        """A clone that shares this checkout's DVC cache, with all artifacts in place."""
        found = self.clone(path)
        link = path.parent / f"cache-of-{path.name.encode('ascii', 'ignore').decode()}"
        link.symlink_to(self.path / ".dvc/cache")  # DVC's config takes no letters beyond ASCII
        found.dvc("cache", "dir", "--local", str(link))
        found.dvc("checkout")
        return found

    def clone(self, path: Path, cache: Path | None = None, **extra: str) -> Checkout:
        """A git clone in `path`, without artifacts; its selfgen cache is `cache`, or an empty one beside it."""
        self.run("git", "clone", "-q", str(self.path), str(path))
        found = Checkout(path, cache or path.with_name(f"{path.name}-cache"), {**self.extra, **extra})
        found.identify()
        return found


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
    checkout.run("git", "init", "-q", "-b", "main")
    checkout.identify()
    return checkout


def publish(root: Path, path: Path, cache: Path) -> Checkout:
    """A checkout with a complete run that DVC has recorded and cached, made in seconds and without any service.

    Its conf/ composes the params of that run, so that `dvc exp run -S` changes what it names and nothing else.
    """
    checkout = make_checkout(root, path, cache)
    artifacts.build(path)
    shutil.rmtree(path / "conf/scale")
    shutil.copy2(path / "params.yaml", path / "conf/config.yaml")
    checkout.run(sys.executable, "-m", "stages.code")
    checkout.run(sys.executable, "-m", "stages.report")
    checkout.dvc("commit", "--force")
    checkout.commit("a run")
    return checkout
