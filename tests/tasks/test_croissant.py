"""The Croissant description: the standard's required fields, every field of a task, the file's own hash."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from selfgen.manifest import sha256_file
from selfgen.params import load
from selfgen.records import Task, write_json, write_jsonl
from selfgen.tasks import croissant

TASKS = [
    Task(f"task-{i}", f"cand-{i}", i, "Two and two?", "def solve():\n    return 4", 4, 3, 8, ("\\boxed{4}", "five"))
    for i in range(3)
]


@pytest.fixture
def described(tmp_path: Path, root: Path) -> Path:
    write_jsonl(tmp_path / "data/filter/tasks.jsonl", TASKS)
    write_json(tmp_path / "data/filter/croissant.json", croissant.describe(load(root / "params.yaml"), root=tmp_path))
    return tmp_path / "data/filter/croissant.json"


def test_it_has_the_fields_that_the_standard_requires(described: Path) -> None:
    said = json.loads(described.read_text())
    for field in ("@context", "@type", "name", "description", "license", "conformsTo", "distribution", "recordSet"):
        assert said[field], field
    assert said["@context"]["@vocab"] == "https://schema.org/"
    (file,) = said["distribution"]
    assert file["sha256"] == sha256_file(described.with_name("tasks.jsonl"))
    assert (described.parent / file["contentUrl"]).is_file()
    assert file["encodingFormat"] == "application/jsonlines"


def test_every_field_of_a_task_is_described_with_its_type_and_source(described: Path) -> None:
    (records,) = json.loads(described.read_text())["recordSet"]
    fields = {field["name"]: field for field in records["field"]}
    assert list(fields) == [field.name for field in dataclasses.fields(Task)]
    for name, field in fields.items():
        assert field["source"] == {"fileObject": {"@id": "tasks.jsonl"}, "extract": {"column": name}}
        assert field["dataType"] in ("sc:Text", "sc:Integer")
        assert field.get("repeated", False) is (name == "solutions")
        assert len(field["description"]) > 10


def test_equal_tasks_give_equal_bytes(described: Path, root: Path) -> None:
    before = described.read_bytes()
    folder = described.parents[2]
    write_json(described, croissant.describe(load(root / "params.yaml"), root=folder))
    assert described.read_bytes() == before
    assert str(folder) not in before.decode()


def test_the_reference_implementation_loads_the_tasks(described: Path) -> None:
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not a dependency of selfgen")
    dataset = mlcroissant.Dataset(described)
    rows = list(dataset.records("tasks"))
    assert len(rows) == len(TASKS)
    assert rows[0]["tasks/label"] == 4
