"""A small DVC project whose evaluation rows depend on the seed: what the stages leave behind, made in a second."""

import json
import subprocess
import sys
from pathlib import Path

import yaml

from selfgen.records import CuratedRow, EvalRow, write_json, write_jsonl

N = 60
ARMS = ("base", "rl_gsm8k", "rl_selfgen")


def git(root: Path, *arguments: str) -> str:
    """Run git as a nameless author."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def dvc(root: Path, *arguments: str) -> None:
    """Run dvc in the project."""
    subprocess.run([sys.executable, "-m", "dvc", *arguments], cwd=root, check=True, capture_output=True, text=True)


def write_rows(root: Path, seed: int) -> None:
    """Evaluation rows of three arms; the treated arm is right on 40 + seed items."""
    items = [f"item-{k:03d}" for k in range(N)]
    write_jsonl(root / "data/curated/test.jsonl", [CuratedRow(i, f"q {i}", "s", "1") for i in items])
    for arm, right in zip(ARMS, (20, 35, 40 + seed), strict=True):
        rows = [EvalRow(i, arm, "1", "", 1, "stop", "1", k < right) for k, i in enumerate(items)]
        write_jsonl(root / "data/eval" / arm / "rows.jsonl", rows)


def write_provenance(root: Path, commit: str | None) -> None:
    """What each evaluation records about the commit it ran from."""
    for arm in ARMS:
        write_json(root / "data/eval" / arm / "provenance.json", {"git": {"commit": commit, "dirty": False}})


def make(root: Path, params: Path) -> None:
    """A git repository with params, one stage script and rows of seed 0."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "params.yaml").write_text(params.read_text())
    (root / "stages").mkdir()
    (root / "stages/eval.py").write_text("print('evaluate')\n")
    (root / ".gitignore").write_text("/data\n")
    git(root, "init", "-q")
    write_rows(root, 0)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "project")


def make_dvc(root: Path, params: Path) -> None:
    """The same as a DVC project whose one stage writes the rows of params' seed."""
    make(root, params)
    repository = Path(__file__).resolve().parents[2]
    (root / "evaluate.py").write_text(
        f"import sys, yaml, pathlib\nsys.path.insert(0, {str(repository)!r})\n"
        "from tests.decision.project import write_rows\n"
        "write_rows(pathlib.Path('.'), yaml.safe_load(open('params.yaml'))['seed'])\n"
    )
    stage = {"cmd": f"{sys.executable} evaluate.py", "params": ["seed"], "outs": ["data/curated", "data/eval"]}
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"eval": stage}}))
    (root / ".gitignore").write_text("")
    git(root, "config", "user.name", "t")  # `dvc exp run` commits as the user of the checkout
    git(root, "config", "user.email", "t@example.com")
    dvc(root, "init", "-q")
    dvc(root, "config", "core.analytics", "false")
    dvc(root, "repro", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "rows of seed 0")


def plan_text(root: Path, scale: str) -> dict:
    """The registered plan as it lies in the project."""
    return json.loads((root / "prereg" / f"{scale}.json").read_text())
