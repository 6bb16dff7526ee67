"""Small commands that belong to no stage: composing params, the journal, where the run stands."""

from __future__ import annotations

import json
from pathlib import Path

import click

from selfgen.errors import ParamsError


@click.command()
@click.argument("overrides", nargs=-1)
@click.option(
    "--conf", type=click.Path(exists=True, file_okay=False, path_type=Path), default=Path("conf"), show_default=True
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("params.yaml"), show_default=True)
def compose(overrides: tuple[str, ...], conf: Path, out: Path) -> None:
    """Compose params.yaml from conf/ with Hydra OVERRIDES, as `dvc exp run -S` does, and validate it.

    Example: selfgen compose scale=local model.name=Qwen/Qwen2.5-0.5B-Instruct
    """
    from dvc.utils.hydra import compose_and_dump
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from selfgen.params import load
    from selfgen.records import replace_file

    with replace_file(out) as temporary:
        composed = temporary.with_suffix(".yaml")
        try:
            compose_and_dump(composed, str(conf.resolve()), None, "config", str(conf.resolve()), list(overrides))
            load(composed)
            composed.replace(temporary)
        except (HydraException, OmegaConfBaseException) as error:
            first = str(error).strip().splitlines()[0]
            raise ParamsError(f"{conf}: cannot compose {' '.join(overrides)}: {first}; groups are in {conf}/") from None
        except ParamsError as error:
            raise ParamsError(str(error).replace(str(composed), "composed params")) from None
        finally:
            composed.unlink(missing_ok=True)
    click.echo(f"{out}: composed from {conf}/ {' '.join(overrides)}".rstrip())


@click.command()
@click.option("--prune", "unused_days", type=click.FloatRange(min=0), help="Delete rows not used for this many days.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def journal(unused_days: float | None, as_json: bool) -> None:
    """Show the request journal: size, hits, tokens saved; prune it. Switch it off with SELFGEN_JOURNAL=off.

    \b
    Examples:
      selfgen journal
      selfgen journal --prune 30    # drop what nothing has asked for in 30 days
    """
    from selfgen.journal import Journal

    with Journal() as book:
        pruned = book.prune(unused_days) if unused_days is not None else None
        stats = book.stats()
    if pruned is not None:
        stats["pruned"] = pruned
    if as_json:
        click.echo(json.dumps(stats, indent=2, sort_keys=True))
        return
    click.echo(f"{stats['path']}: {stats['requests']:,} requests, {stats['bytes'] / 1e6:.1f} MB")
    click.echo(
        f"hits {stats['hits']:,}; sampled tokens held {stats['sampled_tokens']:,}, saved {stats['sampled_tokens_saved']:,}"
    )
    for name, row in stats["models"].items():
        click.echo(
            f"  {name}: {row['requests']:,} requests, {row['hits']:,} hits, {row['sampled_tokens_saved']:,} tokens saved"
        )
    if pruned is not None:
        click.echo(f"pruned {pruned:,} requests")
