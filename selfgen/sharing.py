"""The command `selfgen push`: what `dvc push --run-cache` sends, and what it leaves behind.

DVC's run-cache restores a stage from records of earlier runs, on any machine that has them: a sweep's point that a
colleague computed costs nothing here, even where no dvc.lock names it. `dvc push --run-cache` sends the records but not
the outputs that they alone name, nor outputs with `cache: false`, as all metrics here are; a stage with metrics then runs
again. This command sends those, too. Pulling needs nothing special: `dvc fetch --run-cache`, then `dvc repro --pull`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from selfgen.errors import DataError

if TYPE_CHECKING:
    from dvc.repo import Repo


@click.command("push")
@click.option("--remote", help="A remote of `dvc remote list`; the default one unless named.")
def push(remote: str | None) -> None:
    """Push the run and the run-cache, with all that restoring from it needs.

    \b
    Example:
      selfgen push && git push
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo() as repo:
            sent = repo.push(remote=remote, run_cache=True)
            sent += _push_recorded(repo, remote)
    except DvcException as error:
        raise DataError(f"push: {' '.join(str(error).split())}; see `dvc remote list`, then run it again") from None
    click.echo(f"{sent} files pushed" if sent else "everything is up to date")


def _push_recorded(repo: Repo, remote: str | None) -> int:
    """Push the outputs that run-cache records name and that are in the local cache; returns how many went."""
    from pathlib import Path

    records = [(path.parent.name, path.name) for path in Path(repo.stage_cache.cache_dir).glob("??/*/*")]
    sent = 0
    for found in repo.stage_cache.get_used_objs(records).values():
        held = [item for item in found if repo.cache.local.exists(item.value)]
        done = repo.cloud.push(held, remote=remote)
        sent += len(done.transferred)
        if done.failed:
            print(f"{len(done.failed)} files were not pushed", file=sys.stderr)
            sys.exit(1)
    return sent
