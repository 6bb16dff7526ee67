"""Stage manifests: content hashes of what a stage read and wrote, with the params and packages that made it.

A manifest is an in-toto Statement v1 (https://github.com/in-toto/attestation/tree/main/spec/v1): `subject`
holds the outputs, the predicate holds inputs, params, package versions and the service met. The predicate
type is ours because none of the published ones fits: SLSA Provenance wants a builder identity and times
(ours must stay equal between equal runs), and Link records a shell command instead of params and rows.

Two files come out of one `write`. `manifest.json` is a function of content alone, so that DVC may hash it
and equal runs give equal bytes. `provenance.json`, beside it, holds what may differ between equal runs: git
commit and dirty flag, times, token counts, a server's process and port. No data stage depends on it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from selfgen import __version__
from selfgen.errors import DataError
from selfgen.records import read_json, write_json

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:selfgen:predicate:stage-manifest:v1"

# Packages whose version can change a byte of some output.
PACKAGES = (
    "datasets",
    "numpy",
    "peft",
    "pydantic-monty",
    "safetensors",
    "scipy",
    "sympy",
    "tinker",
    "tinker-cookbook",
    "torch",
    "transformers",
)
# What a service says of itself that may differ between equal runs.
VOLATILE_SERVICE_FIELDS = frozenset({"session_id", "pid", "port", "started"})

# Time zero of a stage script: the package is imported before any work is done.
_IMPORTED = time.time()


def sha256_file(path: str | Path) -> str:
    """Lowercase hex sha256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def dir_hash(path: str | Path) -> str:
    """in-toto's `dirHash`: sha256 over the lines `sha256  name`, in byte order of the names, of all files inside."""
    root = Path(path)
    names = sorted((file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file()), key=str.encode)
    lines = "".join(f"{sha256_file(root / name)}  {name}\n" for name in names)
    return hashlib.sha256(lines.encode()).hexdigest()


def count_rows(path: str | Path) -> int:
    """Lines of a JSONL file that are not empty."""
    with open(path, "rb") as file:
        return sum(1 for line in file if line.strip())


def resource(path: str | Path, root: str | Path = ".") -> dict[str, Any]:
    """in-toto ResourceDescriptor of a file (sha256, bytes, rows when it is JSONL) or of a folder (dirHash).

    `path` is relative to `root`; the name in the descriptor is `path` itself, so it never leaks a machine's folders.

    Raises:
        DataError: `path` is absolute or does not exist.
    """
    name, full = Path(path), Path(root) / path
    if name.is_absolute() or ".." in name.parts:
        raise DataError(f"{path}: a manifest names files relative to the project's folder; pass a relative path")
    if full.is_dir():
        return {"name": name.as_posix(), "digest": {"dirHash": dir_hash(full)}}
    if not full.is_file():
        raise DataError(f"{path}: no such file; run `dvc repro` for the stage that writes it")
    annotations = {"bytes": full.stat().st_size}
    if name.suffix == ".jsonl":
        annotations["rows"] = count_rows(full)
    return {"name": name.as_posix(), "digest": {"sha256": sha256_file(full)}, "annotations": annotations}


def packages(names: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Installed versions of the packages that can change an output; one that is not installed is left out."""
    versions = {"python": platform.python_version(), "selfgen": __version__}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def build(
    *,
    stage: str,
    inputs: Iterable[str | Path],
    outputs: Iterable[str | Path],
    params: Mapping[str, Any] | None = None,
    service: Mapping[str, Any] | None = None,
    root: str | Path = ".",
) -> dict[str, Any]:
    """The statement itself, validated; equal content gives an equal value."""
    stable = None if service is None else {k: v for k, v in service.items() if k not in VOLATILE_SERVICE_FIELDS}
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": sorted((resource(path, root) for path in outputs), key=lambda r: r["name"]),
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "stage": stage,
            "inputs": sorted((resource(path, root) for path in inputs), key=lambda r: r["name"]),
            "params": dict(params or {}),
            "packages": packages(),
            "service": stable,
        },
    }
    validate(statement, f"manifest of stage {stage}")
    return statement


def write(
    path: str | Path,
    *,
    stage: str,
    inputs: Iterable[str | Path],
    outputs: Iterable[str | Path],
    params: Mapping[str, Any] | None = None,
    service: Mapping[str, Any] | None = None,
    tokens: Mapping[str, int] | None = None,
    started: float | None = None,
    root: str | Path = ".",
) -> dict[str, Any]:
    """Write `manifest.json` (at `path`) and the volatile `provenance.json` beside it; returns the statement.

    Args:
        path: where the manifest goes, relative to `root`.
        inputs, outputs: files and folders, relative to `root`; JSONL files get row counts.
        params: the params used, as `params.section("filter", ...)` gives them.
        service: `service.describe()`, or None for a stage that met none.
        tokens: token counts by use, e.g. {"prompt": 1200, "sampled": 5100}.
        started: seconds since the epoch; default the import of this module.
    """
    statement = build(stage=stage, inputs=inputs, outputs=outputs, params=params, service=service, root=root)
    began = _IMPORTED if started is None else started
    ended = time.time()
    volatile = {} if service is None else {k: v for k, v in service.items() if k in VOLATILE_SERVICE_FIELDS}
    target = Path(root) / path
    write_json(target, statement)
    write_json(
        target.with_name("provenance.json"),
        {
            "stage": stage,
            "manifest_sha256": sha256_file(target),
            "git": git_state(root),
            "started": _utc(began),
            "finished": _utc(ended),
            "seconds": round(ended - began, 3),
            "tokens": dict(tokens or {}),
            "service": volatile,
            "machine": {"system": platform.system(), "arch": platform.machine()},
        },
    )
    return statement


def read(path: str | Path) -> dict[str, Any]:
    """A manifest, validated against the schema that ships with the package.

    Raises:
        DataError: missing, not JSON, or not a manifest.
    """
    statement = read_json(path)
    validate(statement, str(path))
    return statement


def validate(statement: Any, where: str) -> None:
    """Check a statement against the shipped JSON schema.

    Raises:
        DataError: naming the first field that is wrong.
    """
    error = next(iter(sorted(_validator().iter_errors(statement), key=lambda e: list(map(str, e.absolute_path)))), None)
    if error is not None:
        field = ".".join(str(part) for part in error.absolute_path) or "(whole file)"
        message = error.message if len(error.message) < 120 else error.message[:117] + "..."
        raise DataError(f"{where}: not a stage manifest: {field}: {message}; re-run the stage that writes it")


@cache
def _validator() -> Any:
    import jsonschema

    text = resources.files("selfgen").joinpath("schemas/manifest.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def git_state(root: str | Path = ".") -> dict[str, Any]:
    """Commit and dirty flag of the working tree, or nulls outside a repository."""
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(_git(root, "status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None}


def _git(root: str | Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
