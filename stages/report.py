"""Stage `report`: the page that shows the run, and the registered plan's file with its empty fields filled."""

from pathlib import Path

import click

from selfgen import report
from selfgen.cli import run
from selfgen.params import load


@click.command()
def main() -> None:
    """Write reports/index.html, experiment.json, curves.csv and pass_rate.csv."""
    report.build(Path("."), load())
    click.echo("report: reports/index.html")


if __name__ == "__main__":
    run(main)
