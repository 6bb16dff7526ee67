"""How long `dvc repro` takes with nothing to do, against equal graphs that only say `true`; exit 1 above LIMIT.

Three checkouts of one finished run, taken in turns: this graph; the same graph with every command `true`, so that what
remains is DVC's own work; and one file per stage with the same arrows and no params, which is the least that DVC takes.
The limit is on processor seconds against the second; the third says what params and many small files cost.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.checkout import Checkout, publish
from tests.support.invalidation import Stage, stages, touches

LIMIT = 1.2
ROUNDS = 7
ROOT = Path(__file__).resolve().parent.parent


def with_true(run: Checkout, path: Path) -> Checkout:
    """The same run, recorded as the work of `true`."""
    shutil.copytree(run.path, path, symlinks=True)
    for name in ("dvc.yaml", "dvc.lock"):
        lines = (path / name).read_text(encoding="utf-8").splitlines()
        made = [line.split("cmd:")[0] + "cmd: 'true'" if line.lstrip().startswith("cmd:") else line for line in lines]
        (path / name).write_text("\n".join(made) + "\n", encoding="utf-8")
    return Checkout(path, run.cache)


def bare(run: Checkout, path: Path, graph: list[Stage]) -> Checkout:
    """One file a stage, the same arrows."""
    path.mkdir()
    found = Checkout(path, run.cache)
    found.run("git", "init", "-q")
    found.dvc("init", "-q")
    made = {}
    for stage in graph:
        name = stage.name.replace("@", "-")
        before = [
            other.name.replace("@", "-")
            for other in graph
            if other is not stage and any(touches(out, dep, "/") for out in other.outs for dep in stage.deps)
        ]
        (path / name).write_text(name)
        made[name] = {"cmd": "true", "outs": [name], **({"deps": before} if before else {})}
    (path / "dvc.yaml").write_text(yaml.safe_dump({"stages": made}), encoding="utf-8")
    found.dvc("commit", "--force", "-q")
    return found


def seconds(checkout: Checkout) -> tuple[float, float]:
    """Wall and processor seconds of one `dvc repro` that must find nothing to do."""
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "repro"],
        cwd=checkout.path,
        env=checkout.environment(),
        capture_output=True,
        text=True,
    )
    wall, after = time.perf_counter() - began, os.times()
    if done.returncode != 0 or "Running stage" in done.stdout:
        raise SystemExit(f"{checkout.path}: not a repro with nothing to do:\n{done.stdout}{done.stderr}")
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = publish(ROOT, folder / "run", folder / "cache")
        graph = stages(run.path, yaml.safe_load((run.path / "params.yaml").read_text(encoding="utf-8"))["arms"])
        checkouts = {
            "this graph": run,
            "its commands `true`": with_true(run, folder / "true"),
            "one file a stage": bare(run, folder / "bare", graph),
        }
        for checkout in checkouts.values():
            seconds(checkout)
        found: dict[str, list[tuple[float, float]]] = {what: [] for what in checkouts}
        for _ in range(ROUNDS):
            for what, checkout in checkouts.items():
                found[what].append(seconds(checkout))
    print(f"`dvc repro` with nothing to do, {len(graph)} stages, median of {ROUNDS}")
    medians = {what: [statistics.median(column) for column in zip(*rows, strict=True)] for what, rows in found.items()}
    for what, (wall, cpu) in medians.items():
        print(f"  {what:22} {wall:6.2f} s wall  {cpu:6.2f} s processor")
    ratio = medians["this graph"][1] / medians["its commands `true`"][1]
    print(f"  ratio to `true`: {ratio:.2f} (limit {LIMIT})")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
