"""Stage `preflight`: the arms' shared start checkpoints, and the checks they rest on."""

from pathlib import Path

import click

from selfgen import manifest
from selfgen.cli import run
from selfgen.params import load
from selfgen.records import write_json
from selfgen.service import open_service
from selfgen.training import preflight
from selfgen.training.starts import write_starts

OUT = Path("data/preflight")


@click.command()
def main() -> None:
    """Write data/preflight/preflight.json, start.json, starts/ARM.json and location.json; fail when a check fails."""
    params = load()
    with open_service(params, [params.model.name], seed=params.seed) as service:
        found = preflight.run(params, service)
        write_json(OUT / "preflight.json", found.to_json())
        write_starts(OUT, found.starts, {arm: params.arm_seed(arm) for arm in params.arms})
        manifest.write(
            OUT / "manifest.json",
            stage="preflight",
            inputs=[],
            outputs=[OUT / "preflight.json", OUT / "start.json", OUT / "starts"],
            params=params.section(
                "preflight", "model.name", "model.lora_rank", "seed", "arms", "train.optimizer", "train.loss_fn"
            ),
            service=service.describe(),
            tokens=service.usage.tokens(),
        )
    preflight.require(found)


if __name__ == "__main__":
    run(main)
