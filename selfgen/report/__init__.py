"""The report: one self-contained page that shows a run, its verdict and what they rest on.

`run` reads the artifacts, `views` turns them into what a section shows, `charts` draws, `claim` words the verdict,
`page` renders. Nothing here decides anything: every figure is read from an artifact or counted from its rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selfgen.params import Params

__all__ = ["build"]


def build(root: Path, params: Params) -> None:
    """Write reports/index.html, experiment.json and the tables of `dvc plots` under `root` from the finished run that stands there.

    Raises:
        DataError: an artifact is missing or malformed.
    """
    from selfgen import spec
    from selfgen.records import replace_file, write_json
    from selfgen.report import page, plots
    from selfgen.report.run import load

    run = load(root, params)
    plan = spec.fill(params, feasibility=run.feasibility, gate=run.gate, n_items=run.n_items)
    with replace_file(root / "reports/index.html") as temporary:
        temporary.write_text(page.render(run), encoding="utf-8")
    write_json(root / "reports/experiment.json", plan)
    plots.write(root, run)
