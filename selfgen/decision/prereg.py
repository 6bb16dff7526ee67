"""Pre-registration: the plan as a file in git, and what can be said about it once rows exist.

`selfgen prereg` writes prereg/<scale>.json: the rule, the items, the seeds, every param that can change a row, and
the hashes of the code that makes them. Committed, it has a place in history. Each evaluation records the commit it
ran from (provenance.json beside its rows), so afterwards two facts can be read off: whether the plan stood in that
commit, that is, before the first row existed; and what differs between the plan and the run.

What this cannot show: that nobody evaluated elsewhere first. It fixes the order of what is recorded.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfgen.decision.pairing import items_digest
from selfgen.errors import DataError
from selfgen.records import dumps, read_json, write_json

if TYPE_CHECKING:
    from selfgen.params import Params

FOLDER = Path("prereg")
# Where samples come from, what they may cost and who watches change no row's meaning; the seed is planned as a list.
# `transfer` sets stand beside the result and never decide.
_NOT_PLANNED = frozenset({"service", "budget", "tracking", "seed", "transfer"})
# Stages whose code cannot change a row or the verdict.
_NOT_CODE = frozenset({"code", "report"})


def plan_path(scale: str) -> Path:
    """Where the plan of a scale stands, relative to the checkout."""
    return FOLDER / f"{scale}.json"


def plan(params: Params, items: Sequence[str], seeds: Iterable[int], code: Mapping[str, str]) -> dict[str, Any]:
    """The plan with its own hash; equal content gives an equal plan."""
    from selfgen.decision.power import describe

    rule = params.decision
    content = {
        "format": 1,
        "scale": params.scale,
        "items": {"n": len(items), "sha256": items_digest(items)},
        "seeds": sorted(set(seeds)),
        "params": {k: v for k, v in params.model_dump(mode="json").items() if k not in _NOT_PLANNED},
        "code": dict(sorted(code.items())),
        "power": [describe(c, len(items), rule.alpha, len(rule.criteria))["sentence"] for c in rule.criteria],
    }
    return content | {"sha256": _digest(content)}


def read_plan(path: Path) -> dict[str, Any]:
    """A plan from a file.

    Raises:
        DataError: missing, not a plan, or edited by hand (its hash does not match).
    """
    return _checked(read_json(path), str(path))


def current_code(root: Path, *, embedded: bool) -> dict[str, str]:
    """{file: hash} of all that the stages up to the decision run, computed from the checkout."""
    from selfgen.closure import closure, hashes

    # The union of what `closure.describe` says of each stage, with every file hashed once.
    modules: set[Path] = set()
    for script in sorted((root / "stages").glob("*.py")):
        if script.stem not in _NOT_CODE:
            modules |= set(closure(script.relative_to(root), root))
    return hashes(modules, server=embedded and Path("selfgen/service.py") in modules, root=root)


def recorded_code(data: Path) -> dict[str, str]:
    """{file: hash} as the `code` stage recorded it for this run; empty where it has not run."""
    files: dict[str, str] = {}
    for path in sorted((data / "code").glob("*.json")):
        if path.stem not in _NOT_CODE:
            files |= read_json(path)
    return files


def changes(registered: Mapping[str, Any], now: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What differs between two plans, leaf by leaf: {what, registered, now}; None stands for absent.

    The seeds of the run must be among the registered ones; the derived power sentences are not compared.
    """
    found = []
    for name in ("scale", "items", "params", "code"):
        before, after = dict(_leaves(registered[name], name)), dict(_leaves(now[name], name))
        for key in sorted(before.keys() | after.keys()):
            if before.get(key) != after.get(key):
                found.append({"what": key, "registered": before.get(key), "now": after.get(key)})
    foreign = sorted(set(now["seeds"]) - set(registered["seeds"]))
    if foreign:
        found.append({"what": "seeds", "registered": registered["seeds"], "now": foreign})
    return found


def registration(params: Params, items: Sequence[str], arms: Iterable[str], data: Path, root: Path) -> dict[str, Any]:
    """What can be said about the plan of this run, for decision.json.

    Returns:
        `registered` (a plan of this scale exists), `plan` (its file), `sha256`, `before_first_row` (True, False, or
        None where git cannot tell), `reason`, `changes` (see `changes`) and `statement`, the sentence for readers.
    """
    path = plan_path(params.scale)
    if not (root / path).is_file():
        return {
            "registered": False,
            "plan": str(path),
            "sha256": None,
            "before_first_row": False,
            "reason": "there is no plan",
            "changes": [],
            "statement": f"No plan was registered for scale {params.scale}: read the verdict as exploratory.",
        }
    registered = read_plan(root / path)
    now = plan(params, items, [params.seed], recorded_code(data))
    if not now["code"]:
        now["code"] = current_code(root, embedded=params.service.kind == "embedded")
    differences = changes(registered, now)
    before, reason = registered_before_rows(registered["sha256"], path, arms, data, root)
    when = {
        True: "was registered before the first evaluation row existed",
        False: "was NOT registered before the first evaluation row existed",
        None: "cannot be dated against the evaluation rows",
    }[before]
    what = "nothing in it changed" if not differences else f"{len(differences)} of its entries changed since"
    return {
        "registered": True,
        "plan": str(path),
        "sha256": registered["sha256"],
        "before_first_row": before,
        "reason": reason,
        "changes": differences,
        "statement": f"The plan {registered['sha256'][:12]} {when} ({reason}); {what}.",
    }


def registered_before_rows(
    sha256: str, path: Path, arms: Iterable[str], data: Path, root: Path
) -> tuple[bool | None, str]:
    """Whether the commit that each arm was evaluated from already held the plan with this hash, and why."""
    for arm in arms:
        provenance = data / "eval" / arm / "provenance.json"
        commit = (read_json(provenance).get("git") or {}).get("commit") if provenance.is_file() else None
        if commit is None:
            return None, f"the evaluation of {arm} recorded no git commit"
        if _git(root, "cat-file", "-e", f"{commit}^{{commit}}") is None:
            return None, f"the commit that {arm} was evaluated from is not in this clone"
        text = _git(root, "show", f"{commit}:./{path.as_posix()}")
        if text is None:
            return False, f"the commit that {arm} was evaluated from holds no plan"
        try:
            held = json.loads(text).get("sha256")
        except (ValueError, AttributeError):
            held = None
        if held != sha256:
            return False, f"the commit that {arm} was evaluated from holds another plan"
    return True, "every arm was evaluated from a commit that holds it"


def committed(path: Path, root: Path) -> dict[str, str] | None:
    """{commit, date} of the commit that last changed the plan file; None when it is not committed as it stands."""
    if _git(root, "status", "--porcelain", "--", str(path)) != "":
        return None
    line = _git(root, "log", "-1", "--format=%H %cI", "--", str(path))
    if not line:
        return None
    commit, date = line.split()
    return {"commit": commit, "date": date}


def register(content: Mapping[str, Any], root: Path, *, replace: bool) -> tuple[Path, str]:
    """Write a plan; returns its path and "written", "unchanged" or "replaced".

    Raises:
        DataError: another plan stands there and `replace` is False.
    """
    path = plan_path(content["scale"])
    state = "written"
    if (root / path).is_file():
        try:
            before = read_plan(root / path)
        except DataError:
            if not replace:
                raise
            before = {"sha256": None}
        if before["sha256"] == content["sha256"]:
            return path, "unchanged"
        if not replace:
            different = changes(before, content)
            what = different[0]["what"] if different else "seeds"
            raise DataError(
                f"{path}: another plan is registered ({max(len(different), 1)} entries differ, first {what}); "
                "go by it, or register anew with --replace: rows that exist by then count as earlier than the new plan"
            )
        state = "replaced"
    write_json(root / path, dict(content))
    return path, state


def _checked(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not {"params", "items", "seeds", "code", "scale", "sha256"} <= value.keys():
        raise DataError(f"{where}: not a registered plan; write it with `selfgen prereg`")
    content = {k: v for k, v in value.items() if k != "sha256"}
    if _digest(content) != value["sha256"]:
        raise DataError(f"{where}: the plan was edited after it was registered; restore it with `git checkout {where}`")
    return value


def _digest(content: Any) -> str:
    return hashlib.sha256(dumps(content).encode()).hexdigest()


def _leaves(value: Any, name: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}")
    else:
        yield name, list(value) if isinstance(value, tuple) else value


def _git(root: Path, *arguments: str) -> str | None:
    """Output of a git command, or None where it fails or git is absent."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
