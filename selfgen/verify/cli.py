"""The command `selfgen verify`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from selfgen.export.evidence import opened
from selfgen.verify import claims
from selfgen.verify.revision import checkout
from selfgen.verify.run import Run


@click.command("verify")
@click.option("--rev", help="Verify a git revision's artifacts (from git, the DVC cache or remote), not the workspace.")
@click.option(
    "--root", default=".", type=click.Path(exists=True, path_type=Path), help="Project folder or evidence archive."
)
@click.option("--curated", help="Folder or Hub id of the curated set, where an archive leaves its rows out.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(rev: str | None, root: Path, curated: str | None, as_json: bool) -> None:
    """Recompute every published claim from the artifacts alone: no service, no key. Exit 1 when one fails.

    \b
    Examples:
      selfgen verify
      selfgen verify --rev v1.0 --json
    """
    with opened(root, curated) as here, checkout(here, rev) as folder:
        found = list(claims.check(Run(folder)))
    if as_json:
        click.echo(json.dumps(claims.to_json(found), indent=2, ensure_ascii=False))
    else:
        click.echo(claims.table(found))
    if claims.failed(found):
        sys.exit(1)
