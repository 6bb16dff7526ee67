"""Stage `gate`: stop a bad run, or one over the budget, before the arms are trained."""

from pathlib import Path

import click

from selfgen import budget, gates
from selfgen.cli import run
from selfgen.decision.power import describe
from selfgen.params import load
from selfgen.records import CuratedRow, read_json, read_jsonl, write_json

DATA = Path("data")


@click.command()
def main() -> None:
    """Write data/gate/gate.json, passed.json and metrics/{gate,feasibility}.json; exit 1 when anything fails."""
    params = load()
    report = gates.evaluate_and_write(params.gate)
    n_test = sum(1 for _ in read_jsonl(DATA / "curated/test.jsonl", CuratedRow))
    pilots = {arm: read_json(DATA / f"pilot/{arm}/timing.json") for arm in params.arms}
    feasibility = budget.project(params, pilots, n_test)
    write_json("metrics/feasibility.json", feasibility)
    write_json(DATA / "gate/passed.json", {"passed": report.passed and feasibility["status"] != "over_budget"})
    click.echo(report.table())
    for line in budget.lines(feasibility):
        click.echo(line)
    rule = params.decision
    for criterion in rule.criteria:
        click.echo(f"power: {describe(criterion, n_test, rule.alpha, len(rule.criteria))['sentence']}")
    report.raise_if_failed()
    budget.require(feasibility)


if __name__ == "__main__":
    run(main)
