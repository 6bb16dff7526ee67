"""Stage `train`: one arm through the stock RL loop."""

from pathlib import Path

import click

from selfgen import manifest
from selfgen.cli import run
from selfgen.errors import GateError
from selfgen.params import STEP, load
from selfgen.progress import Progress
from selfgen.records import Problem, read_json, read_jsonl, write_json
from selfgen.service import open_service
from selfgen.training import arms
from selfgen.training.starts import read_start, start_here

DATA = Path("data")


@click.command()
@click.argument("arm")
def main(arm: str) -> None:
    """Write data/train/ARM: checkpoint, adapter, rollouts, curve, optimizer log."""
    params = load()
    if not read_json(DATA / "gate/passed.json")["passed"]:
        raise GateError("data/gate/passed.json: the gate did not pass, nothing is trained; see data/gate/gate.json")
    start = read_start(DATA / "preflight", arm)
    problems = list(read_jsonl(DATA / f"subset/{arm}.jsonl", Problem))
    about, out = read_json(DATA / f"subset/{arm}.json"), DATA / "train" / arm
    seed = params.arm_seed(arm)
    with (
        open_service(params, [params.model.name], seed=seed) as service,
        Progress(f"train {arm}", params.train.steps, service.cost(params.model.name)) as bar,
    ):
        start = start_here(params, service, start)
        trained = arms.train_arm(
            params,
            arm,
            problems,
            start,
            service,
            adapter=out / "adapter",
            rate=about["reward_rate"] or 0.5,
            on_step=lambda sent: bar.update(tokens=service.usage.sampled_tokens - bar.tokens),
        )
        arms.write(out, params, trained, start)
        write_json(f"metrics/train/{arm}.json", arms.metrics(trained))
        manifest.write(
            out / "manifest.json",
            stage=f"train@{arm}",
            inputs=[DATA / f"subset/{arm}.jsonl", DATA / f"subset/{arm}.json", DATA / f"preflight/starts/{arm}.json"],
            outputs=[
                out / name for name in ("checkpoint.json", "rollouts.jsonl", "curve.jsonl", "optim.jsonl", "adapter")
            ],
            params=params.section("model", "seed", f"arms.{arm}", "train.steps", *STEP),
            service=service.describe(),
            tokens=service.usage.tokens(),
        )


if __name__ == "__main__":
    run(main)
