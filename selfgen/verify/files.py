"""Claims about the files themselves: complete, unchanged since dvc.lock, well-formed, and named right by manifests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selfgen import closure, manifest, signing
from selfgen.records import (
    AuditRow,
    Candidate,
    CuratedRow,
    EvalRow,
    Problem,
    Rejection,
    Rollout,
    Task,
    read_json,
    read_jsonl,
)
from selfgen.verify.run import MISSING, NotHere, Run, broken, expect

# Rows of each artifact; an arm's name may stand for the star.
KINDS: dict[str, type] = {
    "data/curated/train.jsonl": CuratedRow,
    "data/curated/test.jsonl": CuratedRow,
    "data/curated/transfer.jsonl": CuratedRow,
    "data/generate/candidates.jsonl": Candidate,
    "data/filter/tasks.jsonl": Task,
    "data/filter/rejected.jsonl": Rejection,
    "data/audit/rows.jsonl": AuditRow,
    "data/subset/*.jsonl": Problem,
    "data/pilot/*/rollouts.jsonl": Rollout,
    "data/train/*/rollouts.jsonl": Rollout,
    "data/eval/*/*.jsonl": EvalRow,
}


def complete(run: Run) -> str:
    """Every artifact that dvc.lock records is here."""
    missing = [name for name in run.locked_outs if not (run.root / name).exists()]
    lost = [name for name in missing if not run.left_out_by_its_maker(name)]
    if lost:
        raise broken(f"{lost[0]} is missing ({len(lost)} of {len(run.locked_outs)}); run `dvc pull`")
    if missing:
        raise NotHere(
            f"{missing[0]} and {len(missing) - 1} more of {len(run.locked_outs)} were left out of this archive"
        )
    return f"{len(run.locked_outs)} artifacts of {len(run.lock)} stages"


def hashes(run: Run) -> str:
    """Every artifact has the size and hash that dvc.lock records."""
    present = [(name, out) for name, out in run.locked_outs.items() if (run.root / name).exists()]
    for name, out in present:
        found = md5(run.root / name)
        if found != out.get("md5"):
            raise broken(f"{name} has md5 {found[:12]}, dvc.lock records {str(out.get('md5'))[:12]}")
    return f"{len(present)} artifacts"


def chain(run: Run) -> str:
    """Every stage read exactly what the stages before it wrote."""
    checked = 0
    for stage, entry in run.lock.items():
        for dep in entry.get("deps", []):
            name, recorded = dep["path"], dep.get("md5")
            out = run.locked_outs.get(name)
            if out is not None:
                checked += 1
                if out.get("md5") != recorded:
                    raise broken(f"stage {stage} read {name} with md5 {str(recorded)[:12]}, its writer left another")
            elif any(left.startswith(f"{name}/") and run.left_out_by_its_maker(left) for left in run.left_out):
                continue  # a folder whose hash covers weights that are not in this archive
            elif (run.root / name).exists() and name.startswith(("data/", "review/", "prereg", "imports")):
                # A whole folder, or git-tracked rulings, plans and imports: compared with what stands here.
                checked += 1
                found = md5(run.root / name)
                if found != recorded:
                    raise broken(f"stage {stage} read {name} with md5 {str(recorded)[:12]}, here it has {found[:12]}")
    return f"{checked} inputs"


def code(run: Run) -> str:
    """The code in this checkout is the code that made the artifacts, stage by stage."""
    files = sorted(run.root.glob("data/code/*.json"))
    if not files:
        raise NotHere("no data/code: the stage `code` has not run")
    for path in files:
        script = Path("stages") / f"{path.stem}.py"
        if not (run.root / script).exists():
            raise NotHere(f"{script} is not here: these are artifacts without their checkout")
        recorded = read_json(path)
        wanted = [closure.describe(script, server=server, root=run.root) for server in (False, True)]
        if recorded not in wanted:
            raise broken(f"stage {path.stem} ran other code than stands here; run `dvc repro`, or check out its commit")
    return f"{len(files)} stages"


def params(run: Run) -> str:
    """Every stage ran with the values that params.yaml states now."""
    checked = 0
    run.params  # noqa: B018 -- an invalid params.yaml is reported as such, before any value is compared
    for stage, entry in run.lock.items():
        for key, recorded in entry.get("params", {}).get("params.yaml", {}).items():
            checked += 1
            expect(_lookup(run.raw_params, key), recorded, f"params.yaml {key} (stage {stage})")
    return f"{checked} values"


def rows(run: Run) -> str:
    """Every row parses as its record, with no field missing, unknown or of the wrong type."""
    files = count = 0
    for pattern, kind in KINDS.items():
        for path in sorted(run.root.glob(pattern)):
            files += 1
            count += sum(1 for _ in read_jsonl(path, kind))
    if not files:
        raise NotHere("no artifacts; run `dvc pull` or `dvc repro`")
    return f"{count} rows in {files} files"


def manifests(run: Run) -> str:
    """Every manifest is valid, and its hashes, row counts and params are those of the files and of params.yaml."""
    found = sorted(path for path in run.root.glob("data/**/manifest.json"))
    if not found:
        raise NotHere("no manifests; run `dvc pull` or `dvc repro`")
    described, unknown = 0, set()
    values = run.params.model_dump(mode="json")
    for path in found:
        name = path.relative_to(run.root).as_posix()
        statement = manifest.read(path)
        predicate = statement["predicate"]
        expect(predicate["stage"], _stage_of(path, run.root), f"{name}: stage")
        for entry in [*statement["subject"], *predicate["inputs"]]:
            if run.left_out_by_its_maker(entry["name"]):
                continue
            if not (run.root / entry["name"]).exists():
                raise broken(f"{name} describes {entry['name']}, which is missing; run `dvc pull`")
            expect(entry, manifest.resource(entry["name"], run.root), f"{name}: {entry['name']}")
            described += 1
        for key, recorded in _leaves(predicate["params"]):
            now = _at(values, key)
            if now is MISSING and (now := _at(run.raw_params, key)) is MISSING:
                unknown.add(".".join(key))  # the default of a key that this version no longer has
                continue
            expect(recorded, now, f"{name}: params {'.'.join(key)}")
    aside = f"; params this version does not know: {', '.join(sorted(unknown))}" if unknown else ""
    return f"{len(found)} manifests, {described} files described{aside}"


def provenance(run: Run) -> str:
    """Every provenance file belongs to the manifest beside it, and says which commit made it."""
    files = sorted(run.root.glob("data/**/provenance.json"))
    if not files:
        raise NotHere("no provenance files: they are volatile and may be left out of a publication")
    commits, dirty = set(), 0
    for path in files:
        name = path.relative_to(run.root).as_posix()
        said = run.json(name)
        expect(said.get("manifest_sha256"), manifest.sha256_file(path.with_name("manifest.json")), f"{name}: manifest")
        git = said.get("git") or {}
        commits.add(str(git.get("commit"))[:12])
        dirty += git.get("dirty") is True
    changed = f", {dirty} of {len(files)} with uncommitted changes" if dirty else ""
    return f"made at {', '.join(sorted(commits))}{changed}"


def signature(run: Run) -> str:
    """A signer listed in review/allowed_signers signed these very artifacts."""
    for name, why in (
        (signing.SIGNATURE, "this run is not signed; `selfgen sign --key KEY` would"),
        (signing.ALLOWED_SIGNERS, "nobody is named whose signature would count"),
    ):
        if not (run.root / name).exists():
            raise NotHere(f"no {name}: {why}")
    signer = signing.check_signature(run.root)
    said = manifest.read(run.path(signing.STATEMENT))
    wanted = signing.statement(run.locked_outs, run.root)
    expect(said["subject"], wanted["subject"], signing.STATEMENT)
    return f"{signer} signed {len(said['subject'])} files"


def md5(path: str | Path) -> str:
    """DVC's hash of a file (md5 of its bytes) or folder (md5 of its sorted listing, with the suffix `.dir`)."""
    path = Path(path)
    if not path.is_dir():
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "md5").hexdigest()
    entries = sorted(_entries(path), key=lambda entry: entry["relpath"])
    return hashlib.md5(json.dumps(entries, sort_keys=True).encode(), usedforsecurity=False).hexdigest() + ".dir"


def _entries(folder: Path) -> Iterator[dict[str, str]]:
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        # What .dvcignore leaves out.
        if path.is_file() and "__pycache__" not in relative.parts and path.suffix != ".pyc":
            yield {"md5": md5(path), "relpath": relative.as_posix()}


def _stage_of(path: Path, root: Path) -> str:
    """data/filter/manifest.json belongs to `filter`, data/train/rl_gsm8k/manifest.json to `train@rl_gsm8k`."""
    parts = path.parent.relative_to(root / "data").parts
    return "@".join(parts)


def _leaves(values: Any, key: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(key, value) of everything in nested mappings that is no mapping, or an empty one."""
    if isinstance(values, dict) and values:
        for name, value in values.items():
            yield from _leaves(value, (*key, name))
    else:
        yield key, values


def _lookup(values: Any, key: str) -> Any:
    """A dotted key of params.yaml, or MISSING."""
    return _at(values, tuple(key.split(".")))


def _at(values: Any, key: tuple[str, ...]) -> Any:
    for part in key:
        if not isinstance(values, dict) or part not in values:
            return MISSING
        values = values[part]
    return values
