"""Stage `curated`: load the curated set and the transfer sets, check their pins, write canonical rows."""

from pathlib import Path

import click

from selfgen import manifest
from selfgen.cli import run
from selfgen.curated import transfer
from selfgen.curated.load import load as load_curated
from selfgen.params import load
from selfgen.records import write_jsonl

OUT = Path("data/curated")


@click.command()
def main() -> None:
    """Write data/curated/{train,test,transfer}.jsonl."""
    params = load()
    splits = load_curated(params.curated)
    splits["transfer"] = transfer.load(params.transfer, params.curated.seed or 0)
    for split, rows in splits.items():
        write_jsonl(OUT / f"{split}.jsonl", rows)
    manifest.write(
        OUT / "manifest.json",
        stage="curated",
        inputs=[],
        outputs=[OUT / f"{split}.jsonl" for split in splits],
        params=params.section("curated", "transfer"),
    )


if __name__ == "__main__":
    run(main)
