"""Stage `pilot`: two training steps of an arm and some evaluation items, on a copy that is thrown away."""

from pathlib import Path

import click

from selfgen import manifest
from selfgen.cli import run
from selfgen.errors import GateError
from selfgen.params import STEP, load
from selfgen.progress import Progress
from selfgen.records import CuratedRow, Problem, read_json, read_jsonl, write_json
from selfgen.service import open_service
from selfgen.training import pilot
from selfgen.training.starts import read_start, start_here

DATA = Path("data")


@click.command()
@click.argument("arm")
def main(arm: str) -> None:
    """Write data/pilot/ARM: rollouts, pilot.json, timing.json. Refuses a task set whose audit failed."""
    params = load()
    if not read_json(DATA / "audit/passed.json")["passed"]:
        raise GateError(
            "data/audit/audit.json: the audit failed, so nothing is trained; run `selfgen repair`, then `dvc repro`"
        )
    seed, out = params.arm_seed(arm), DATA / "pilot" / arm
    with (
        open_service(params, [params.model.name], seed=seed) as service,
        Progress(f"pilot {arm}", params.pilot.steps, service.cost(params.model.name)) as bar,
    ):
        found = pilot.run(
            params,
            arm,
            list(read_jsonl(DATA / f"subset/{arm}.jsonl", Problem)),
            start_here(params, service, read_start(DATA / "preflight", arm)),
            list(read_jsonl(DATA / "curated/test.jsonl", CuratedRow)),
            service,
            rate=read_json(DATA / f"subset/{arm}.json")["reward_rate"] or 0.5,
            on_step=lambda sent: bar.update(tokens=service.usage.sampled_tokens - bar.tokens),
        )
        write_json(f"metrics/pilot/{arm}.json", pilot.write(out, found))
        manifest.write(
            out / "manifest.json",
            stage=f"pilot@{arm}",
            inputs=[DATA / f"subset/{arm}.jsonl", DATA / f"preflight/starts/{arm}.json", DATA / "audit/passed.json"],
            outputs=[out / "rollouts.jsonl", out / "pilot.json"],
            params=params.section("pilot", "model", "seed", f"arms.{arm}", *STEP),
            service=service.describe(),
            tokens=service.usage.tokens(),
        )


if __name__ == "__main__":
    run(main)
