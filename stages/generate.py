"""Stage `generate`: the frozen base model writes candidates."""

from collections.abc import Iterator
from pathlib import Path

import click

from selfgen import capabilities, manifest
from selfgen.cli import run
from selfgen.params import SAMPLED, load
from selfgen.progress import Progress
from selfgen.records import Candidate, write_jsonl
from selfgen.rendering import renderer
from selfgen.service import open_service
from selfgen.tasks.sampling import propose

OUT = Path("data/generate")


@click.command()
def main() -> None:
    """Write data/generate/candidates.jsonl."""
    params = load()
    with (
        open_service(params, [params.model.name]) as service,
        Progress("generate", params.generate.n_candidates, service.cost(params.model.name)) as bar,
    ):
        if service.kind == "remote":
            capabilities.require(params, service)
        sampler = service.sampler(params.model.name, params.model.tokenizer)

        def watched() -> Iterator[Candidate]:
            for candidate in propose(sampler, renderer(params.model.renderer, params.model.tokenizer), params.generate):
                bar.update(tokens=candidate.n_tokens)
                yield candidate

        write_jsonl(OUT / "candidates.jsonl", watched())
        manifest.write(
            OUT / "manifest.json",
            stage="generate",
            inputs=[],
            outputs=[OUT / "candidates.jsonl"],
            params=params.section("generate", *SAMPLED),
            service=service.describe(),
            tokens=service.usage.tokens(),
        )


if __name__ == "__main__":
    run(main)
