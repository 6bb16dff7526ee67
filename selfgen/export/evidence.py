"""A run's evidence as one small file: everything `selfgen verify` reads but the trained weights.

The archive holds params.yaml, dvc.yaml, dvc.lock, metrics/, review/, prereg/, reports/ and every output in dvc.lock
that is not under data/train/*/adapter. Those are named in `left_out.json` with the hash that dvc.lock records, so
that a reader can tell what the maker left out from what was lost.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from selfgen.errors import DataError
from selfgen.records import LEFT_OUT, replace_file, write_jsonl
from selfgen.verify.run import LARGE, PUBLIC, Run

FILES = ("params.yaml", "dvc.yaml", "dvc.lock")
FOLDERS = ("metrics", "review", "prereg", "reports", "data")
SUFFIX = ".tar.xz"
PAGE = "reports/index.html"


def write(root: Path, out: Path, *, curated: bool = True) -> tuple[int, list[str]]:
    """Write the archive; returns the number of files in it and the artifacts left out. Equal runs give equal bytes.

    `curated=False` leaves out the rows of the curated set as well, from the report too: a public set need not be
    published again.

    Raises:
        DataError: no dvc.lock, or an artifact is neither here nor among those that may be left out.
    """
    run = Run(root)
    patterns = (LARGE,) if curated else (LARGE, *PUBLIC)
    left = {n: entry for n, entry in run.locked_outs.items() if any(fnmatch(n, pattern) for pattern in patterns)}
    lost = [name for name in run.locked_outs if name not in left and not (root / name).exists()]
    if lost:
        raise DataError(f"{root / lost[0]} is missing ({len(lost)} of {len(run.locked_outs)}); run `dvc pull`")
    names = sorted({*(name for name in FILES if (root / name).is_file()), *_inside(root)} - left.keys())
    other = {PAGE: _page_without_items(run)} if not curated and PAGE in names else {}
    with replace_file(out) as temporary, tarfile.open(temporary, mode="w:xz", preset=9) as tar:
        _add(tar, LEFT_OUT, (json.dumps(left, indent=2, sort_keys=True) + "\n").encode())
        for name in names:
            _add(tar, name, other.get(name) or (root / name).read_bytes())
    return len(names), sorted(left)


def _page_without_items(run: Run) -> bytes:
    """The report without the evaluation questions that it quotes."""
    from selfgen.report import page
    from selfgen.report.run import load

    return page.render(replace(load(run.root, run.params, partial=True), items=())).encode()


def _inside(root: Path) -> Iterator[str]:
    for folder in FOLDERS:
        for path in (root / folder).rglob("*"):
            name = path.relative_to(root).as_posix()
            if path.is_file() and not fnmatch(name, f"{LARGE}/*"):
                yield name


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o644
    tar.addfile(info, io.BytesIO(content))


def put_back(root: Path, source: str) -> None:
    """Write the curated rows that an archive leaves out, and the problems that arms select from them, from `source`.

    Verification compares their hashes with dvc.lock, so another set cannot pass for them.
    """
    from selfgen.curated.load import load
    from selfgen.training.subset import select

    run = Run(root)
    splits = load(run.params.curated.model_copy(update={"source": source}))
    for split in ("train", "test"):
        if not (root / f"data/curated/{split}.jsonl").exists():
            write_jsonl(root / f"data/curated/{split}.jsonl", splits[split])
    for arm, own in run.params.arms.items():
        path = root / f"data/subset/{arm}.jsonl"
        if not path.exists() and own.data in ("curated", "tasks", "mixed", "one_task"):
            n, seed = run.params.train.problems, run.params.arm_seed(arm)
            write_jsonl(path, select(own.data, n, seed, curated=splits["train"], tasks=run.tasks))


@contextmanager
def opened(path: Path, curated: str | None = None) -> Iterator[Path]:
    """An evidence archive unpacked for the length of a block; a folder is given back as it is.

    `curated` is a folder or Hub id to load the curated rows from that the archive leaves out.

    Raises:
        DataError: not an evidence archive.
    """
    if not path.is_file():
        yield path
        return
    with TemporaryDirectory(prefix="selfgen-evidence-") as name:
        try:
            with tarfile.open(path) as tar:
                tar.extractall(name, filter="data")
        except (tarfile.TarError, OSError, EOFError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataError(
                f"{path}: not an evidence archive ({reason}); `selfgen export evidence` makes one"
            ) from None
        if not (Path(name) / "dvc.lock").is_file():
            raise DataError(f"{path}: holds no dvc.lock; `selfgen export evidence` makes an archive that does")
        if curated is not None:
            put_back(Path(name), curated)
        yield Path(name)


def default_name(root: Path) -> Path:
    """exports/<scale>-evidence.tar.xz"""
    return Path("exports") / PurePosixPath(f"{Run(root).params.scale}-evidence{SUFFIX}")
