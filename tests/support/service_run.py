"""The pipeline's stages in the current folder, one after another in this process, as `dvc repro` would run them.

    python -m tests.support.service_run [STAGE...]

Without DVC and without a Python start per stage: a test of what the service does to a run needs neither.
"""

from __future__ import annotations

import importlib

import click

from selfgen.cli import run
from selfgen.params import load


def steps() -> list[tuple[str, ...]]:
    """Stage scripts with their arguments, in an order that the graph allows."""
    arms = list(load().arms)
    out: list[tuple[str, ...]] = [("curated",), ("generate",), ("filter",), ("audit",), ("preflight",)]
    out += [(stage, arm) for stage in ("subset", "pilot") for arm in arms]
    out += [("gate",), *(("train", arm) for arm in arms), *(("eval", arm) for arm in ("base", *arms)), ("decide",)]
    return out


@click.command()
@click.argument("wanted", nargs=-1)
def main(wanted: tuple[str, ...]) -> None:
    """Run the named stages, or all."""
    for stage, *arguments in steps():
        if not wanted or stage in wanted:
            script = importlib.import_module(f"stages.{stage}").main
            script.main(arguments, standalone_mode=False)


if __name__ == "__main__":
    run(main)
