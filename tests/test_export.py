"""Exports load in the tools they are for, carry their evidence, and refuse what was not audited."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from selfgen.errors import DataError
from selfgen.evaluation.grading import grade
from selfgen.evaluation.prompting import SUFFIX
from selfgen.export import adapters, cli, source, tasks
from selfgen.export.source import Source
from selfgen.params import Params
from selfgen.records import Task, read_json, read_jsonl, write_json
from selfgen.training.checkpoints import adapter_digest
from tests.report import tree


@pytest.fixture(scope="module")
def params(root: Path) -> Params:
    return tree.finished(root)[1]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    return tree.copy(root, tmp_path_factory.mktemp("export") / "run")


@pytest.fixture(scope="module")
def found(finished: Path, params: Params) -> Source:
    return source.read(finished, params)


def test_the_dataset_folder_loads_with_datasets(found: Source, tmp_path: Path) -> None:
    import datasets

    tasks.write_hf(found, tmp_path / "hf")
    loaded = datasets.load_dataset(str(tmp_path / "hf"), split="train", cache_dir=str(tmp_path / "cache"))
    assert len(loaded) == len(found.tasks)
    assert loaded[0]["problem"] == found.tasks[0].problem
    assert loaded[0]["label"] == found.tasks[0].label
    assert loaded[0]["solutions"] == list(found.tasks[0].solutions)


def test_the_card_states_the_figures_of_the_run(found: Source) -> None:
    text = tasks.card(found)
    head = yaml.safe_load(text.split("---")[1])
    assert head["configs"][0]["data_files"] == [{"split": "train", "path": "data/train.jsonl"}]
    for wanted in (
        found.tasks_sha256,
        "0 label errors",
        "at most 7.22 %",
        found.params.generate.instruction,
        "toy model",
    ):
        assert wanted in text


def test_plain_rows_are_id_question_answer(found: Source, tmp_path: Path) -> None:
    assert tasks.write_plain(found, tmp_path / "tasks.jsonl") == len(found.tasks)
    first = json.loads((tmp_path / "tasks.jsonl").read_text(encoding="utf-8").splitlines()[0])
    task = found.tasks[0]
    assert first == {"id": task.id, "question": task.problem, "answer": str(task.label)}


def test_the_croissant_hash_is_that_of_the_file_beside_it(found: Source, tmp_path: Path) -> None:
    from selfgen.manifest import sha256_file

    tasks.write_croissant(found, tmp_path / "croissant")
    described = read_json(tmp_path / "croissant/croissant.json")["distribution"][0]
    assert described["sha256"] == sha256_file(tmp_path / "croissant" / described["contentUrl"])
    assert list(read_jsonl(tmp_path / "croissant/tasks.jsonl", Task)) == list(found.tasks)


def test_an_existing_folder_is_kept_unless_told(found: Source, tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf/mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(DataError, match="--replace"):
        tasks.write_hf(found, tmp_path / "hf")
    assert (tmp_path / "hf/mine.txt").exists()
    tasks.write_hf(found, tmp_path / "hf", replace=True)
    assert not (tmp_path / "hf/mine.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


def test_a_failed_audit_is_refused_or_told(tmp_path: Path, params: Params) -> None:
    tree.make(tmp_path, params, n_test=20, until="audit", audit_errors=2)
    with pytest.raises(DataError, match="the audit failed"):
        source.read(tmp_path, params)
    assert "**FAILED: 2 label errors" in tasks.card(source.read(tmp_path, params, unaudited=True))


def test_tasks_that_are_not_the_audited_ones_are_refused(finished: Path, params: Params, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    with (tmp_path / "run/data/filter/tasks.jsonl").open("a", encoding="utf-8") as file:
        file.write((finished / "data/filter/tasks.jsonl").read_text(encoding="utf-8").splitlines()[0] + "\n")
    with pytest.raises(DataError, match="another task set"):
        source.read(tmp_path / "run", params)


def exported_grader() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(source.template_text("verifiers_grading.py.j2"), names)
    return names


@pytest.mark.parametrize(
    "box",
    [
        "42", "42.0", "1,000", "$18", r"\$18", "42 hours", "42 apples", "84/2", "-5", "+5", "42.", r"42\%", r"\text{42}",
        r"42\text{ hours}", r"42 \text{ apples}", "1{,}000", "12,34", "0042", "4 2", "x=42", r"\frac{84}{2}", r"42^\circ",
        "", "forty-two", "42cm", "1e3", "1,000,000", ".5", "42.5", "$1,000.00", "42 miles per hour", "(42)", "{42}",
        r"\text{42 hours}", "$42$", "42,", "6*7", "-0", "1 000", "$-5", "5.0 dollars", "42 years old",
    ],
)  # fmt: skip
def test_the_exported_grader_agrees_with_the_stock_one(box: str) -> None:
    ours = exported_grader()["correct"]
    for answer in ("42", "1000", "18", "-5", "5", "0", "1000000"):
        reply = f"So it is \\boxed{{{box}}}"
        assert bool(ours(reply, answer)) == grade(reply, answer).correct, answer


@pytest.mark.parametrize(
    "reply", ["none", r"\boxed 42", r"\boxed{4} \boxed{42}", r"\boxed{42} \boxed{4}", r"\boxed{42"]
)
def test_the_exported_grader_finds_the_box_the_stock_one_finds(reply: str) -> None:
    assert bool(exported_grader()["correct"](reply, "42")) == grade(reply, "42").correct


def test_the_environment_package_asks_what_training_asks(found: Source, tmp_path: Path) -> None:
    tasks.write_verifiers(found, tmp_path / "environment")
    text = (tmp_path / "environment/selfgen_tasks/taskset.py").read_text(encoding="utf-8")
    compile(text, "taskset.py", "exec")
    assert f"SUFFIX = {json.dumps(SUFFIX)}" in text
    rows = (tmp_path / "environment/selfgen_tasks/tasks.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(rows) == len(found.tasks)


def test_the_environment_package_installs_and_validates_with_verifiers(found: Source, tmp_path: Path) -> None:
    python = os.environ.get("SELFGEN_VERIFIERS_PYTHON")
    if not python:
        pytest.skip("needs the Python of an environment with verifiers>=0.4 in SELFGEN_VERIFIERS_PYTHON")
    tasks.write_verifiers(found, tmp_path / "environment")
    packages = tmp_path / "packages"
    install = [
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(packages),
        str(tmp_path / "environment"),
    ]
    subprocess.run(install, check=True)
    command = [str(Path(python).parent / "vf-validate"), "selfgen-tasks", "--runtime.type", "subprocess", "-o", "out"]
    environment = os.environ | {"PYTHONPATH": str(packages)}
    subprocess.run(command, check=True, cwd=tmp_path, env=environment, capture_output=True)
    summary = read_json(next((tmp_path / "out").glob("*/summary.json")))
    assert (summary["valid_rate"], summary["total"]) == (1.0, len(found.tasks))


def adapter(folder: Path) -> str:
    """A tiny adapter on disk; returns its digest."""
    import numpy
    from safetensors.numpy import save_file

    folder.mkdir(parents=True)
    save_file({"base_model.model.q.lora_A.weight": numpy.ones((2, 4), "float32")}, folder / "adapter_model.safetensors")
    write_json(folder / "adapter_config.json", {"peft_type": "LORA", "r": 2})
    return adapter_digest(folder)


def test_adapters_come_with_a_card_and_only_if_they_are_the_recorded_ones(
    finished: Path, params: Params, tmp_path: Path
) -> None:
    shutil.copytree(finished, tmp_path / "run")
    trained = tmp_path / "run/data/train/rl_selfgen"
    digest = adapter(trained / "adapter")
    with pytest.raises(DataError, match="not the adapter of checkpoint"):
        adapters.write_adapter(tmp_path / "run", params, "rl_selfgen", tmp_path / "out")
    write_json(trained / "checkpoint.json", read_json(trained / "checkpoint.json") | {"digest": digest})
    write_json(tmp_path / "run/metrics/eval/base.json", {"accuracy": 0.5, "correct": 15, "n": 30})
    adapters.write_adapter(tmp_path / "run", params, "rl_selfgen", tmp_path / "out")
    card = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    assert digest in card
    assert "| base: 50.00 % | 15 | 30 |" in card
    assert adapter_digest(tmp_path / "out") == digest


def test_the_command_writes_every_format(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(finished)
    for form, place in (("hf", "tasks-hf"), ("verifiers", "tasks-verifiers"), ("croissant", "tasks-croissant"),
                        ("jsonl", "tasks.jsonl")):  # fmt: skip
        done = CliRunner().invoke(cli.export, ["tasks", "--format", form])
        assert done.exit_code == 0, done.output
        assert (finished / "exports" / place).exists()
    refused = CliRunner().invoke(cli.export, ["adapters", "--arm", "nobody"])
    assert "no such arm" in str(refused.exception)
