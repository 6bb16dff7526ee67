"""`selfgen report`: the page, its Markdown twin, and two runs side by side, of whatever has been run so far."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Where to write; - is standard output.")
@click.option(
    "--markdown", is_flag=True, help="Write Markdown for a pull request comment. Default output: the terminal."
)
@click.option("--compare", metavar="REV", help="Show this run beside that of a git revision or DVC experiment.")
@click.option(
    "--params", "params_path", type=click.Path(path_type=Path), default=Path("params.yaml"), show_default=True
)
def report(out: Path | None, markdown: bool, compare: str | None, params_path: Path) -> None:
    """Write the report of what has been run so far, finished or not.

    `dvc repro` writes reports/index.html of a finished run by itself; this shows a stopped one too, and says what
    stopped it.

    \b
    Examples:
      selfgen report                            # reports/index.html
      selfgen report --markdown | gh pr comment --body-file -
      selfgen report --compare main             # reports/compare.html
    """
    from selfgen.params import load as load_params
    from selfgen.records import replace_file
    from selfgen.report import compare as comparing
    from selfgen.report import page
    from selfgen.report.run import load

    if compare and markdown:
        raise click.UsageError("--compare writes a page; leave out --markdown")
    root = params_path.parent
    run = load(root, load_params(params_path), partial=True)
    if compare:
        with comparing.at_revision(root.resolve(), compare) as other:
            text = comparing.render(other, run, (compare, "this run"))
    else:
        text = page.markdown(run) if markdown else page.render(run)
    if out is None:
        out = Path("-") if markdown else root / f"reports/{'compare' if compare else 'index'}.html"
    if str(out) == "-":
        click.echo(text, nl=False)
        return
    with replace_file(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    more = f" and {len(run.missing) - 1} more" if len(run.missing) > 1 else ""
    left = f"; not reached yet: {run.missing[0]}{more}" if run.missing else ""
    click.echo(f"report: {out}{left}", err=True)
