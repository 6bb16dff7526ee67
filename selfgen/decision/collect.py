"""Reading seeds from DVC: experiments, branches, tags or commits, through DVC's own file system.

Rows are read from each revision's dvc.lock, from the cache or the remote; nothing is checked out and the workspace
stays as it is. `workspace` names the files as they lie here.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfgen.decision.pairing import pair, read_arms
from selfgen.decision.seeds import SeedRun
from selfgen.errors import DataError

WORKSPACE = "workspace"


def experiments(root: Path) -> dict[str, str]:
    """{name: commit} of the DVC experiments that start from the current commit.

    Raises:
        DataError: this is no DVC project, or another DVC command holds its lock.
    """
    from dvc.exceptions import DvcException

    try:
        with _repo(root) as repo:
            found = repo.experiments.ls(rev="HEAD")
    except DvcException as error:
        raise DataError(f"{root}: cannot list experiments: {str(error).splitlines()[0]}") from None
    return {name: commit for runs in found.values() for name, commit in runs if name and commit}


def read_run(root: Path, revision: str, commit: str | None = None) -> SeedRun:
    """One revision's params and evaluation rows.

    Args:
        root: the checkout.
        revision: how the user calls it: an experiment, branch, tag, commit or `workspace`.
        commit: the commit it stands for, when known.

    Raises:
        DataError: the revision is unknown, or its rows are not there or cannot be fetched.
    """
    from selfgen.params import load
    from selfgen.records import CuratedRow, read_jsonl

    with tempfile.TemporaryDirectory(prefix="selfgen-seeds-") as scratch:
        if revision == WORKSPACE:
            folder = root
        else:
            folder = Path(scratch)
            _fetch(root, revision, commit or revision, folder, ["params.yaml", "data/curated/test.jsonl"])
        params = load(folder / "params.yaml")
        arms = ["base", *params.arms]
        files = {arm: f"data/eval/{arm}/rows.jsonl" for arm in arms}
        if revision != WORKSPACE:
            _fetch(root, revision, commit or revision, folder, list(files.values()))
        items = [row.id for row in read_jsonl(folder / "data/curated/test.jsonl", CuratedRow)]
        rows = pair(read_arms({arm: folder / file for arm, file in files.items()}), items)
        digests = {arm: hashlib.sha256((folder / file).read_bytes()).hexdigest() for arm, file in files.items()}
        return SeedRun(revision, params.seed, params.model_dump(mode="json"), rows, digests)


def collect(root: Path, revisions: Sequence[str]) -> list[SeedRun]:
    """The runs of these revisions; of all experiments on the current commit when none is named."""
    known = experiments(root)
    return [read_run(root, name, known.get(name)) for name in (revisions or sorted(known))]


def _fetch(root: Path, revision: str, commit: str, folder: Path, paths: Sequence[str]) -> None:
    from dvc.api import DVCFileSystem
    from dvc.exceptions import DvcException
    from scmrepo.exceptions import SCMError

    try:
        files = DVCFileSystem(str(root), rev=commit)
        for path in paths:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            files.get_file(path, str(target))
    except FileNotFoundError as error:
        raise DataError(
            f"{revision}: {error.filename or error} is not there; the run has not finished, or needs `dvc pull`"
        ) from None
    except (DvcException, SCMError) as error:
        raise DataError(f"{revision}: {str(error).splitlines()[0]}; see `dvc exp list` for names") from None


def _repo(root: Path) -> Any:
    from dvc.exceptions import NotDvcRepoError
    from dvc.repo import Repo

    try:
        return Repo(str(root))
    except NotDvcRepoError:
        raise DataError(f"{root}: not a DVC project; run from the project's folder") from None
