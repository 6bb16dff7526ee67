"""Stage `eval`: one arm on the evaluation set, greedy, one row per item."""

import time
from collections.abc import Iterator
from pathlib import Path

import click

from selfgen import manifest
from selfgen.cli import run
from selfgen.evaluation.eval import evaluate, metrics
from selfgen.params import SAMPLED, load
from selfgen.progress import Progress
from selfgen.records import CuratedRow, EvalRow, read_json, read_jsonl, write_json, write_jsonl
from selfgen.rendering import renderer
from selfgen.service import open_service

DATA = Path("data")


@click.command()
@click.argument("arm")
def main(arm: str) -> None:
    """Write data/eval/ARM/rows.jsonl and metrics/eval/ARM.json; `base` is the untrained model.

    With eval.repeat, rows_again.jsonl holds a second evaluation of the same checkpoint; otherwise it has no rows.
    """
    params, began = load(), time.monotonic()
    out, trained = DATA / "eval" / arm, DATA / "train" / arm
    files = {"rows": DATA / "curated/test.jsonl", "transfer": DATA / "curated/transfer.jsonl"}
    sets = {name: list(read_jsonl(path, CuratedRow)) for name, path in files.items()}
    checkpoint = digest = None
    if arm != "base":
        digest = read_json(trained / "checkpoint.json")["digest"]
        checkpoint = read_json(trained / "location.json")["sampler_path"]
    again = sets["rows"] if params.eval.repeat else []
    total = len(again) + sum(map(len, sets.values()))
    with (
        open_service(params, [params.model.name]) as service,
        Progress(f"eval {arm}", total, service.cost(params.model.name)) as bar,
    ):
        sampler = service.sampler(params.model.name, params.model.tokenizer, checkpoint, digest, trained / "adapter")
        found = renderer(params.model.renderer, params.model.tokenizer)

        def watched(items: list[CuratedRow], repetition: int = 0) -> Iterator[EvalRow]:
            for row in evaluate(items, sampler, arm=arm, renderer=found, params=params.eval, repetition=repetition):
                bar.update(tokens=row.n_tokens)
                yield row

        measured = {}
        for name, items in sets.items():
            write_jsonl(out / f"{name}.jsonl", watched(items))
            measured[name] = list(read_jsonl(out / f"{name}.jsonl", EvalRow))
        write_jsonl(out / "rows_again.jsonl", watched(again, repetition=1))
        write_json(f"metrics/eval/{arm}.json", metrics(measured["rows"], measured["transfer"]))
        write_json(out / "timing.json", {"seconds": time.monotonic() - began, **service.usage.tokens()})
        manifest.write(
            out / "manifest.json",
            stage=f"eval@{arm}",
            inputs=[
                DATA / "curated/test.jsonl",
                DATA / "curated/transfer.jsonl",
                *([trained / "checkpoint.json"] if digest else []),
            ],
            outputs=[out / f"{name}.jsonl" for name in ("rows", "rows_again", "transfer")],
            params=params.section("eval", *SAMPLED),
            service=service.describe(),
            tokens=service.usage.tokens(),
        )


if __name__ == "__main__":
    run(main)
