"""`selfgen export`: the tasks and adapters in the forms other tools load."""

from __future__ import annotations

from pathlib import Path

import click

_FOLDER = click.Path(path_type=Path)


@click.group()
def export() -> None:
    """Export the task set or the trained adapters.

    \b
    Examples:
      selfgen export tasks --format hf          # exports/tasks-hf, a Hugging Face dataset folder
      selfgen export tasks --format verifiers   # exports/tasks-verifiers, an installable environment
      selfgen export tasks --format jsonl --out tasks.jsonl
      selfgen export adapters                   # exports/adapters/<arm>, PEFT folders
      selfgen export evidence                   # one file that `selfgen verify --root FILE` checks
    """


@export.command()
@click.option("--format", "form", type=click.Choice(["hf", "verifiers", "jsonl", "croissant"]), required=True)
@click.option("--out", type=_FOLDER, help="Folder (a file for jsonl). Default: exports/tasks-FORMAT.")
@click.option("--replace", is_flag=True, help="Write over what stands there.")
@click.option("--unaudited", is_flag=True, help="Export a set whose audit failed; its card says so.")
def tasks(form: str, out: Path | None, replace: bool, unaudited: bool) -> None:
    """Export the audited task set.

    \b
    Examples:
      selfgen export tasks --format hf
      selfgen export tasks --format jsonl --out mine.jsonl
    """
    from selfgen.export import source
    from selfgen.export import tasks as writing
    from selfgen.params import load

    found = source.read(Path("."), load(), unaudited=unaudited)
    if form == "jsonl":
        out = out or Path("exports/tasks.jsonl")
        source.refuse_existing(out, replace)
        writing.write_plain(found, out)
    else:
        out = out or Path(f"exports/tasks-{form}")
        write = {"hf": writing.write_hf, "verifiers": writing.write_verifiers, "croissant": writing.write_croissant}[
            form
        ]
        write(found, out, replace=replace)
    click.echo(f"{out}: {len(found.tasks)} tasks")


@export.command()
@click.option("--arm", "arms", multiple=True, help="Arm to export; may be repeated. Default: every trained arm.")
@click.option("--out", type=_FOLDER, default=Path("exports/adapters"), show_default=True)
@click.option("--replace", is_flag=True, help="Write over what stands there.")
def adapters(arms: tuple[str, ...], out: Path, replace: bool) -> None:
    """Export trained adapters in PEFT format, with model cards.

    \b
    Examples:
      selfgen export adapters
      selfgen export adapters --arm rl_selfgen --out /models
    """
    from selfgen.errors import ParamsError
    from selfgen.export.adapters import write_adapter
    from selfgen.params import load

    params = load()
    unknown = sorted(set(arms) - set(params.arms))
    if unknown:
        raise ParamsError(f"--arm {unknown[0]}: no such arm; arms are {', '.join(params.arms)}")
    for arm in arms or params.arms:
        write_adapter(Path("."), params, arm, out / arm, replace=replace)
        click.echo(f"{out / arm}: LoRA adapter of {params.model.name}")


@export.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Default: exports/SCALE-evidence.tar.xz.")
@click.option("--root", type=click.Path(file_okay=False, path_type=Path), default=Path("."), help="The run's folder.")
@click.option("--without-curated", is_flag=True, help="Leave out the curated rows too: a public set is loaded anew.")
def evidence(out: Path | None, root: Path, without_curated: bool) -> None:
    """Export what verification needs, without the trained weights, as one small file.

    \b
    Examples:
      selfgen export evidence --out results/mine/evidence.tar.xz
      selfgen verify --root results/mine/evidence.tar.xz
    """
    from selfgen.export import evidence as archive

    out = out or archive.default_name(root)
    files, left = archive.write(root, out, curated=not without_curated)
    click.echo(f"{out}: {files} files, {out.stat().st_size / 1e6:.1f} MB, {len(left)} artifacts left out")
