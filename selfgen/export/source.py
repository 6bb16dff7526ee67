"""What an export needs of a run: the tasks, and the figures that its card states."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from selfgen.errors import DataError
from selfgen.manifest import sha256_file
from selfgen.params import Params
from selfgen.records import Task, read_json, read_jsonl
from selfgen.report.formats import foreign


@dataclass(frozen=True)
class Source:
    """The accepted tasks with the funnel and the audit that vouch for them."""

    root: Path
    params: Params
    tasks: Sequence[Task]
    tasks_sha256: str
    funnel: Mapping[str, Any]
    audit: Mapping[str, Any]


def read(root: Path, params: Params, *, unaudited: bool = False) -> Source:
    """Read the accepted tasks under `root`.

    Args:
        root: the project's folder.
        params: the params of the run.
        unaudited: export a set whose audit failed all the same; the card says so.

    Raises:
        DataError: filter or audit have not run, the audit failed, or it was of another set.
    """
    path = root / "data/filter/tasks.jsonl"
    tasks = list(read_jsonl(path, Task))
    audit = read_json(root / "data/audit/audit.json")
    digest = sha256_file(path)
    if audit["tasks_sha256"] != digest:
        raise DataError(f"{path}: the audit was of another task set; run `dvc repro audit` first")
    if not audit["passed"] and not unaudited:
        raise DataError(
            f"{path}: the audit failed ({'; '.join(audit['failures'])}); run `selfgen repair` and `dvc repro`, or export it "
            "all the same with --unaudited"
        )
    return Source(root, params, tasks, digest, read_json(root / "metrics/filter.json"), audit)


def render(template: str, **values: Any) -> str:
    """A text file from one of the package's templates."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Any:
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("selfgen.export"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    made.filters["foreign"] = foreign
    made.filters["percent"] = lambda share, digits=1: f"{100 * share:.{digits}f} %"
    return made


def template_text(name: str) -> str:
    """A file of the package's templates as it is."""
    return resources.files("selfgen.export").joinpath("templates", name).read_text(encoding="utf-8")


def refuse_existing(out: Path, replace: bool) -> None:
    """Raise unless `out` is free or may be replaced.

    Raises:
        DataError: it exists and `replace` is False.
    """
    if out.exists() and not replace:
        raise DataError(f"{out}: exists; give another --out, or --replace to write it anew")


@contextmanager
def new_folder(out: Path, replace: bool) -> Iterator[Path]:
    """A folder under a temporary name, renamed to `out` when the block ends well and removed otherwise.

    Raises:
        DataError: `out` exists and is not to be replaced.
    """
    refuse_existing(out, replace)
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        yield folder
        folder.chmod(0o755)
        if out.is_dir():
            shutil.rmtree(out)
        elif out.exists():
            out.unlink()
        folder.rename(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
