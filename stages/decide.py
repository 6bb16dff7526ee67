"""Stage `decide`: the pre-registered rule on the paired items, and sensitivity analyses that do not decide."""

from pathlib import Path

import click

from selfgen.cli import run
from selfgen.decision.run import decide_files
from selfgen.evaluation.agreement import of_rows
from selfgen.params import load
from selfgen.records import EvalRow, read_jsonl, write_json

DATA = Path("data")


@click.command()
def main() -> None:
    """Write decision.json and graders.json to data/decide, and metrics/decision.json."""
    params = load()
    decision = decide_files(params, DATA)
    rows = {arm: read_jsonl(DATA / "eval" / arm / "rows.jsonl", EvalRow) for arm in decision["accuracies"]}
    graders = {arm: of_rows(found) for arm, found in rows.items()}
    write_json(DATA / "decide/decision.json", decision)
    write_json(DATA / "decide/graders.json", graders)
    metrics = {
        "verdict": decision["verdict"],
        "n": decision["n"],
        "accuracy": {arm: row["accuracy"] for arm, row in decision["accuracies"].items()},
        "criteria": {
            row["id"]: {key: row[key] for key in ("estimate", "lower", "upper", "margin", "verdict")}
            for row in decision["criteria"]
        },
        "graders_agree": {arm: found["agree"] for arm, found in graders.items()},
    }
    write_json("metrics/decision.json", metrics)
    click.echo(f"verdict: {decision['verdict']}")


if __name__ == "__main__":
    run(main)
