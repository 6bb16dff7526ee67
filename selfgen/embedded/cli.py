"""`selfgen serve`: the embedded server in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from selfgen.embedded.models import SHIPPED


@click.command()
@click.option(
    "--model",
    "models",
    multiple=True,
    default=tuple(SHIPPED),
    show_default=True,
    help="Model folder, NAME=FOLDER, or Hugging Face id; repeatable.",
)
@click.option("--port", default=8787, show_default=True, help="Port on 127.0.0.1.")
@click.option("--state-dir", type=click.Path(path_type=Path), default=Path(".selfgen-server"), show_default=True)
@click.option("--seed", default=0, show_default=True, help="Seed of all sampling streams.")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option("--dtype", type=click.Choice(["auto", "float32", "bfloat16"]), default="auto", show_default=True)
@click.option("--threads", default=None, type=int, help="Threads that compute on the CPU  [default: up to 2].")
@click.option("--key", envvar="TINKER_API_KEY", default=None, help="API key to require; a new one when not given.")
def serve(
    models: tuple[str, ...],
    port: int,
    state_dir: Path,
    seed: int,
    device: str,
    dtype: str,
    threads: int | None,
    key: str | None,
) -> None:
    """Serve models over the Tinker protocol on this machine, for training and sampling.

    \b
    Examples:
      selfgen serve                                    # the shipped models
      selfgen serve --model Qwen/Qwen3-0.6B --device cuda --port 8787
    """
    from selfgen.embedded import launch

    launch.serve(models, state_dir, seed=seed, device=device, dtype=dtype, port=port, key=key, threads=threads)
