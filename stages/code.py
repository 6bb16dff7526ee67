"""Stage `code`: the hash of the code each stage runs, so that an edit re-runs what it can change and nothing else."""

from pathlib import Path

import click

from selfgen.cli import run
from selfgen.closure import closure, describe
from selfgen.params import load
from selfgen.records import write_json

OUT = Path("data/code")
SERVICE = Path("selfgen/service.py")


@click.command()
def main() -> None:
    """Write data/code/<stage>.json for every script in stages/."""
    embedded = load().service.kind == "embedded"
    for script in sorted(Path("stages").glob("*.py")):
        if script.stem != "code":
            server = embedded and SERVICE in closure(script)
            write_json(OUT / f"{script.stem}.json", describe(script, server=server))


if __name__ == "__main__":
    run(main)
