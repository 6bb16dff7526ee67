"""Each addition that docs/extending.md shows is made, as it stands there, in a copy of the project, and works."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

BLOCK = re.compile(r"<!-- (?P<file>[\w./]+): (?P<where>.+?) -->\n```\w+\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """The project's own files, without artifacts."""
    for name in ("conf", "selfgen", "stages", "tests", "review", "imports", "evalsets", "dvc.yaml", "params.yaml"):
        source = root / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, tmp_path / name)
    return tmp_path


def add(root: Path, copy: Path, section: str) -> None:
    """Make the edits of one section of the page in the copy."""
    page = (root / "docs/extending.md").read_text(encoding="utf-8")
    text = re.search(rf"^\*\*{section}\*\*(.*?)(?=^\*\*|\Z)", page, re.DOTALL | re.MULTILINE)
    assert text is not None, section
    edits = list(BLOCK.finditer(text[1]))
    assert edits, section
    for edit in edits:
        path = copy / edit["file"]
        if edit["where"] == "new":
            assert not path.exists()
            path.write_text(edit["text"])
        elif edit["where"] == "at the end":
            gap = "\n\n" if path.suffix == ".py" else "\n"
            path.write_text(path.read_text() + gap + edit["text"])
        else:
            before = path.read_text()
            line = edit["where"].removeprefix("below ")
            assert before.count(f"\n{line}") == 1, line
            start = before.index("\n", before.index(f"\n{line}") + 1) + 1
            path.write_text(before[:start] + edit["text"] + before[start:])


def run(copy: Path, *command: str) -> str:
    done = subprocess.run([sys.executable, *command], cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compose(copy: Path, *overrides: str) -> dict:
    run(copy, "-m", "selfgen.cli", "compose", *overrides)
    return yaml.safe_load((copy / "params.yaml").read_text())


def test_an_arm(root: Path, copy: Path) -> None:
    add(root, copy, "An arm.")
    arms = list(compose(copy)["arms"])
    assert len(arms) == 7
    run(copy, "-m", "dvc", "init", "--no-scm", "--quiet")
    listed = run(copy, "-m", "dvc", "stage", "list", "--name-only").split()
    for stage in ("subset", "pilot", "train", "eval"):
        assert [name.split("@")[1] for name in listed if name.startswith(f"{stage}@")] == arms


def test_a_dataset(root: Path, copy: Path) -> None:
    add(root, copy, "A dataset.")
    compose(copy, "curated.loader=sums", "curated.n_train=100", "curated.n_test=40")
    run(copy, "-m", "stages.curated")
    rows = [json.loads(line) for line in (copy / "data/curated/test.jsonl").read_text().splitlines()]
    assert len(rows) == 40
    assert rows[3] == {"id": "sums-00003", "question": "What is 3 plus 3?", "solution": "#### 6", "answer": "6"}


def test_a_transfer_set(root: Path, copy: Path) -> None:
    add(root, copy, "A transfer set.")
    assert list(compose(copy)["transfer"]) == ["mine", "outside"]
    run(copy, "-m", "stages.curated")
    rows = [json.loads(line) for line in (copy / "data/curated/transfer.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows[:3]] == ["mine-00000", "mine-00001", "outside-00000"]
    assert [row["answer"] for row in rows[:2]] == ["5", "6"]


def test_a_scale(root: Path, copy: Path) -> None:
    add(root, copy, "A model, or a scale.")
    values = compose(copy, "scale=tiny")
    assert (values["scale"], values["model"]["name"], values["train"]["steps"]) == ("tiny", "../my-model", 2)
    assert values["model"]["renderer"] == "qwen3_instruct"


def test_a_filter(root: Path, copy: Path) -> None:
    add(root, copy, "A filter.")
    program = """
from types import SimpleNamespace
from selfgen.tasks import filters
from selfgen.tasks.reasons import REASONS
row = SimpleNamespace(problem="Ana has 3 books.", code="", label=9, candidate=SimpleNamespace(id="c", index=0, text=""))
print(filters.RULES[-1](row, None).reason, "-", REASONS["asks_nothing"])
row.problem += " How many?"
print(filters.RULES[-1](row, None))
"""
    assert run(copy, "-c", program).splitlines() == ["asks_nothing - no question mark in the problem", "None"]


def test_a_gate_check(root: Path, copy: Path) -> None:
    add(root, copy, "A gate check.")
    assert list(compose(copy)["gate"])[-1] == "selfgen_distinct_labels"
    program = """
from pathlib import Path
from selfgen import gates
from selfgen.params import Bound
from tests.support import artifacts
params = artifacts.build(Path("."))
gate = {**params.gate, "selfgen_distinct_labels": Bound(min=0.2)}
print(gates.from_files(gate).passed, len(gates.from_files(gate).checks))
gate["selfgen_distinct_labels"] = Bound(max=0.5)
print(gates.from_files(gate).failures())
"""
    passed, failures = run(copy, "-c", program).splitlines()[-2:]
    assert passed == "True 6"
    assert "selfgen_distinct_labels is" in failures
    assert "raise generate.temperature" in failures


def test_a_check_that_params_do_not_name_is_not_asked(root: Path, copy: Path) -> None:
    add(root, copy, "A gate check.")
    program = "from selfgen import gates; print(len(gates.CHECKS), len(gates.REGISTERED))"
    assert run(copy, "-c", program) == "6 5\n"
