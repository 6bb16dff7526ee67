"""dvc.lock for a folder of artifacts, without running DVC, and manifests made to fit whatever the files hold now."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from selfgen import manifest
from selfgen.records import read_json, write_json
from selfgen.verify.files import md5

REPO = Path(__file__).resolve().parents[2]


def lock(root: Path, more: dict[str, Any] | None = None) -> None:
    """A dvc.lock for the files under `root`, from the project's own dvc.yaml; what no file stands for is left out."""
    values = yaml.safe_load((root / "params.yaml").read_text(encoding="utf-8"))
    stages: dict[str, Any] = dict(more or {})
    for name, stage in _graph().items():
        keys = list(values["arms"]) if "foreach" in stage else [None]
        for key in keys:
            body = _filled(stage.get("do", stage), str(key))
            paths = [next(iter(o)) if isinstance(o, dict) else o
                     for kind in ("outs", "metrics", "plots") for o in body.get(kind, [])]  # fmt: skip
            entry = {
                "cmd": body["cmd"],
                "deps": [_entry(root, path) for path in body.get("deps", []) if (root / path).exists()],
                "params": {"params.yaml": {path: _dotted(values, path) for path in body.get("params", [])}},
                "outs": [_entry(root, path) for path in paths if (root / path).exists()],
            }
            if entry["outs"]:
                stages[name if key is None else f"{name}@{key}"] = entry
    (root / "dvc.lock").write_text(
        yaml.dump(
            {"schema": "2.0", "stages": stages}, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False
        )
    )


@cache
def _graph() -> dict[str, Any]:
    return dict(yaml.safe_load((REPO / "dvc.yaml").read_text(encoding="utf-8"))["stages"])


def _filled(value: Any, key: str) -> Any:
    """A stage's template with its arm's name in it."""
    if isinstance(value, dict):
        return {_filled(name, key): _filled(inner, key) for name, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, key) for inner in value]
    return value.replace("${key}", key) if isinstance(value, str) else value


def _entry(root: Path, path: str) -> dict[str, Any]:
    return {"path": path, "hash": "md5", "md5": md5(root / path)}


def _dotted(values: Any, key: str) -> Any:
    for part in key.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values


def reforge(root: Path) -> None:
    """Rewrite every manifest and dvc.lock to fit the files as they are now, keeping what each manifest describes."""
    for path in sorted(root.glob("data/**/manifest.json")):
        statement = read_json(path)
        for section in (statement["subject"], statement["predicate"]["inputs"]):
            section[:] = [manifest.resource(r["name"], root) for r in section if (root / r["name"]).exists()]
        write_json(path, statement)
        provenance = path.with_name("provenance.json")
        if provenance.exists():
            write_json(provenance, read_json(provenance) | {"manifest_sha256": manifest.sha256_file(path)})
    lock(root)
