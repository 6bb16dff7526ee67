"""A git revision's whole project in a temporary folder: tracked files from git, artifacts from the DVC cache or remote."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from selfgen.errors import DataError


@contextmanager
def checkout(root: Path, rev: str | None) -> Iterator[Path]:
    """`root` itself without a revision, else a temporary folder with the project as it was at `rev`.

    An artifact that neither cache nor remote holds is left out; its claims then say so.

    Raises:
        DataError: no such revision, or `root` is no git repository.
    """
    if rev is None:
        yield root
        return
    with tempfile.TemporaryDirectory(prefix="selfgen-verify-") as name:
        folder = Path(name)
        with tarfile.open(fileobj=BytesIO(_archive(root, rev))) as tar:
            tar.extractall(folder, filter="data")
        _fetch(root, rev, folder)
        yield folder


def _archive(root: Path, rev: str) -> bytes:
    done = subprocess.run(["git", "-C", str(root), "archive", "--format=tar", rev], capture_output=True, check=False)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise DataError(f"--rev {rev}: {reason[0] if reason else 'git failed'}; give a commit, branch or tag")
    return done.stdout


def _fetch(root: Path, rev: str, folder: Path) -> None:
    """Every output of the revision's dvc.lock that git does not hold, through DVC's own file system."""
    from dvc.api import DVCFileSystem
    from dvc.exceptions import DvcException

    from selfgen.verify.run import Run

    if not (folder / "dvc.lock").is_file():
        raise DataError(f"--rev {rev}: holds no dvc.lock, so nothing was recorded there; give a revision after a run")
    missing = [name for name in Run(folder).locked_outs if not (folder / name).exists()]
    try:
        source = DVCFileSystem(str(root.resolve()), rev=rev)
    except DvcException as error:
        raise DataError(f"{root}: DVC cannot open it ({str(error)[:80]}); run from the project's folder") from None
    for name in missing:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        try:
            source.get(name, str(folder / name), recursive=source.isdir(name))
        except (OSError, ValueError, DvcException):
            continue  # its claims say that it is missing
