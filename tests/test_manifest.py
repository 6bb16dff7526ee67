"""Stage manifests: equal content gives equal bytes, and what is not a manifest is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from selfgen import manifest
from selfgen.errors import DataError
from selfgen.records import read_json, write_json

SERVICE = {"kind": "embedded", "models": ["selfgen/policy"], "base_url_sha256": None, "pid": 7}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "data/filter").mkdir(parents=True)
    (tmp_path / "data/filter/tasks.jsonl").write_text('{"a":1}\n{"a":2}\n')
    (tmp_path / "data/candidates.jsonl").write_text('{"b":1}\n')
    (tmp_path / "data/adapter/deep").mkdir(parents=True)
    (tmp_path / "data/adapter/deep/w.bin").write_bytes(b"weights")
    (tmp_path / "data/adapter/config.json").write_text("{}")
    return tmp_path


def write(root: Path, **changes: object) -> dict:
    arguments: dict = {
        "stage": "filter",
        "inputs": ["data/candidates.jsonl"],
        "outputs": ["data/filter/tasks.jsonl", "data/adapter"],
        "params": {"filter": {"n_accept": 2}},
        "service": SERVICE,
        "root": root,
    }
    return manifest.write("data/filter/manifest.json", **{**arguments, **changes})


def test_manifest_is_an_in_toto_statement_with_hashes_and_rows(project: Path) -> None:
    write(project)
    statement = manifest.read(project / "data/filter/manifest.json")
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    by_name = {r["name"]: r for r in statement["subject"]}
    tasks = by_name["data/filter/tasks.jsonl"]
    assert tasks["digest"]["sha256"] == manifest.sha256_file(project / "data/filter/tasks.jsonl")
    assert tasks["annotations"] == {"rows": 2, "bytes": 16}
    assert statement["predicate"]["inputs"][0]["annotations"]["rows"] == 1
    assert statement["predicate"]["packages"]["tinker-cookbook"]


def test_equal_content_gives_equal_bytes_whatever_is_volatile(project: Path) -> None:
    write(project, started=1.0, tokens={"sampled": 1})
    first = (project / "data/filter/manifest.json").read_bytes()
    write(project, started=2.0, tokens={"sampled": 9}, service=SERVICE | {"pid": 8})
    assert (project / "data/filter/manifest.json").read_bytes() == first
    provenance = read_json(project / "data/filter/provenance.json")
    assert provenance["tokens"] == {"sampled": 9}
    assert provenance["service"] == {"pid": 8}
    assert provenance["manifest_sha256"] == manifest.sha256_file(project / "data/filter/manifest.json")
    assert str(project) not in first.decode()


def test_provenance_names_the_commit_and_the_dirty_flag(project: Path) -> None:
    assert manifest.git_state(project) == {"commit": None, "dirty": None}
    git = ["git", "-C", str(project), "-c", "user.name=n", "-c", "user.email=e@e"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "m"], check=True)
    state = manifest.git_state(project)
    assert len(state["commit"]) == 40
    assert state["dirty"] is False
    (project / "data/candidates.jsonl").write_text("changed\n")
    assert manifest.git_state(project)["dirty"] is True


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs coreutils' sha256sum")
def test_folder_hash_is_the_one_the_standard_defines_in_shell(project: Path) -> None:
    script = "find . -type f | cut -c3- | LC_ALL=C sort | xargs -r sha256sum | sha256sum | cut -f1 -d' '"
    folder = project / "data/adapter"
    expected = subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert manifest.dir_hash(folder) == expected.strip()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda m: m.pop("subject"), "subject"),
        (lambda m: m.update(_type="https://in-toto.io/Statement/v0.1"), "_type"),
        (lambda m: m.update(predicateType="https://slsa.dev/provenance/v1"), "predicateType"),
        (lambda m: m["subject"][0]["digest"].update(sha256="xyz"), "subject.0.digest"),
        (lambda m: m["subject"].clear(), "subject"),
        (lambda m: m["predicate"].pop("params"), "params"),
        (lambda m: m["predicate"].update(time="now"), "time"),
        (lambda m: m["subject"][0].update(name="/etc/passwd"), "name"),
        (lambda m: m["predicate"]["inputs"][0].update(name="../x"), "name"),
        (lambda m: m["predicate"]["packages"].clear(), "packages"),
    ],
)
def test_what_is_not_a_manifest_is_refused_by_field(project: Path, change, field: str) -> None:
    path = project / "data/filter/manifest.json"
    write(project)
    statement = json.loads(path.read_text())
    change(statement)
    write_json(path, statement)
    with pytest.raises(DataError, match=field.replace(".", r"\.")) as raised:
        manifest.read(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("bad", ["/abs/file", "../outside", "data/none.jsonl"])
def test_a_missing_or_outside_file_is_named(project: Path, bad: str) -> None:
    with pytest.raises(DataError, match=bad):
        write(project, outputs=[bad])
    assert not (project / "data/filter/manifest.json").exists()
