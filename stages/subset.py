"""Stage `subset`: the problems an arm trains on, in order."""

from pathlib import Path

import click

from selfgen.cli import run
from selfgen.params import load
from selfgen.records import CuratedRow, Task, read_jsonl, write_json, write_jsonl
from selfgen.training import subset

DATA, OUT = Path("data"), Path("data/subset")


@click.command()
@click.argument("arm")
def main(arm: str) -> None:
    """Write data/subset/ARM.jsonl (problems) and ARM.json (what they are)."""
    params = load()
    problems, about = subset.build(
        params,
        arm,
        curated=list(read_jsonl(DATA / "curated/train.jsonl", CuratedRow)),
        tasks=list(read_jsonl(DATA / "filter/tasks.jsonl", Task)),
    )
    write_jsonl(OUT / f"{arm}.jsonl", problems)
    write_json(OUT / f"{arm}.json", about)


if __name__ == "__main__":
    run(main)
