"""Stage `filter`: label the candidates in the sandbox, apply the rules, keep the first n_accept."""

from pathlib import Path

import click

from selfgen import manifest
from selfgen.cli import run
from selfgen.params import SAMPLED, load
from selfgen.progress import Progress
from selfgen.records import Candidate, CuratedRow, read_jsonl, write_json
from selfgen.rendering import renderer
from selfgen.service import open_service
from selfgen.tasks.accept import accept
from selfgen.tasks.croissant import describe
from selfgen.tasks.quarantine import quarantined_ids
from selfgen.tasks.sampling import attempts

CANDIDATES, CURATED, OUT = Path("data/generate/candidates.jsonl"), Path("data/curated"), Path("data/filter")


@click.command()
def main() -> None:
    """Write data/filter/{tasks,rejected}.jsonl, overlap.json, yields.json, croissant.json and metrics/filter.json."""
    params = load()
    with (
        open_service(params, [params.model.name]) as service,
        Progress("filter", params.filter.n_accept, service.cost(params.model.name)) as bar,
    ):
        sampler = service.sampler(params.model.name, params.model.tokenizer)
        solve = attempts(
            sampler, renderer(params.model.renderer, params.model.tokenizer), params.filter.solve, params.train.few_shot
        )
        found = accept(
            read_jsonl(CANDIDATES, Candidate),
            read_jsonl(CURATED / "test.jsonl", CuratedRow),
            OUT,
            rules=params.filter,
            solve=solve,
            progress=bar,
            quarantined=quarantined_ids("review"),
        )
        write_json("metrics/filter.json", found)
        write_json(OUT / "croissant.json", describe(params))
        manifest.write(
            OUT / "manifest.json",
            stage="filter",
            inputs=[CANDIDATES, CURATED / "test.jsonl", Path("review/quarantine.jsonl")],
            outputs=[
                OUT / name
                for name in ("tasks.jsonl", "rejected.jsonl", "overlap.json", "yields.json", "croissant.json")
            ],
            params=params.section("filter", "train.few_shot", *SAMPLED),
            service=service.describe(),
            tokens=service.usage.tokens(),
        )


if __name__ == "__main__":
    run(main)
