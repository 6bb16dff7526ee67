"""Stage `decide`: the pre-registered rule on the paired items, and sensitivity analyses that do not decide."""

from pathlib import Path

import click

from selfgen.cli import run
from selfgen.decision.run import decide_files
from selfgen.params import load
from selfgen.records import write_json

DATA = Path("data")


@click.command()
def main() -> None:
    """Write data/decide/decision.json and metrics/decision.json."""
    params = load()
    decision = decide_files(params, DATA)
    write_json(DATA / "decide/decision.json", decision)
    metrics = {
        "verdict": decision["verdict"],
        "n": decision["n"],
        "accuracy": {arm: row["accuracy"] for arm, row in decision["accuracies"].items()},
        "criteria": {
            row["id"]: {key: row[key] for key in ("estimate", "lower", "upper", "margin", "verdict")}
            for row in decision["criteria"]
        },
    }
    write_json("metrics/decision.json", metrics)
    click.echo(f"verdict: {decision['verdict']}")


if __name__ == "__main__":
    run(main)
