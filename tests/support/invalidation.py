"""Which stages run again when a param or a source file changes: computed from dvc.yaml and the code, running nothing.

`DIRECT` is what DVC runs for the change itself. What follows it runs only where the files in between come out
different; `followers` is the most that can be.

    python -m tests.support.invalidation > docs/invalidation.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from selfgen.closure import closure, describe

REPO = Path(__file__).resolve().parents[2]
LAST = ("decide", "report")  # offline, last, and run for nearly everything
ORDER = (
    "code", "curated", "generate", "filter", "audit", "preflight", "subset", "pilot", "gate", "train", "eval_base", "eval",
    "decide", "report",
)  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """One stage of the graph, `foreach` resolved."""

    name: str
    script: str
    params: tuple[str, ...]
    deps: tuple[str, ...]
    outs: tuple[str, ...]


def stages(root: Path = REPO, arms: Iterable[str] = ("rl_gsm8k", "rl_selfgen")) -> list[Stage]:
    """The graph of dvc.yaml for these arms."""
    graph = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    found = []
    for name, stage in graph.items():
        for key in arms if "foreach" in stage else (None,):
            body = yaml.safe_load(yaml.safe_dump(stage.get("do", stage)).replace("${key}", str(key)))
            outs = [next(iter(out)) if isinstance(out, dict) else out
                    for kind in ("outs", "metrics", "plots") for out in body.get(kind, [])]  # fmt: skip
            script = body["cmd"].split()[2].replace(".", "/") + ".py"
            full = name if key is None else f"{name}@{key}"
            found.append(Stage(full, script, tuple(body.get("params", ())), tuple(body.get("deps", ())), tuple(outs)))
    return found


def leaves(values: Any, key: str = "") -> Iterator[str]:
    """Dotted keys of everything in nested mappings that is no mapping."""
    if isinstance(values, dict) and values:
        for name, value in values.items():
            yield from leaves(value, f"{key}.{name}" if key else str(name))
    else:
        yield key


def touches(one: str, other: str, separator: str) -> bool:
    """Whether two keys or paths are equal, or one lies inside the other."""
    return one == other or one.startswith(other + separator) or other.startswith(one + separator)


def by_param(key: str, graph: Iterable[Stage]) -> set[str]:
    """Stages that DVC runs again because this key of params.yaml changed."""
    return {
        stage.name
        for stage in graph
        if "params.yaml" in stage.deps or any(touches(key, declared, ".") for declared in stage.params)
    }


@cache
def _code(script: str, server: bool, root: Path) -> frozenset[str]:
    return frozenset(describe(script, server=server, root=root))


def by_file(file: str, graph: Iterable[Stage], *, server: bool = True, root: Path = REPO) -> set[str]:
    """Stages that DVC runs again because this source file's code changed, `code` aside, which hashes them all."""
    found = set()
    for stage in graph:
        read = (Path(dep) for dep in stage.deps if dep.startswith("data/code/"))
        if any(_runs(file, f"stages/{path.stem}.py", server, root) for path in read):
            found.add(stage.name)
    return found


def _runs(file: str, script: str, server: bool, root: Path) -> bool:
    inside = server and Path("selfgen/service.py") in _closure(script, root)
    return file in _code(script, inside, root)


@cache
def _closure(script: str, root: Path) -> frozenset[Path]:
    return frozenset(closure(script, root))


def followers(names: Iterable[str], graph: list[Stage]) -> set[str]:
    """Stages that read, directly or not, what these write; `code` is left to `by_file`."""
    reached, queue = set(), [stage for stage in graph if stage.name in set(names)]
    while queue:
        outs = queue.pop().outs
        for stage in graph:
            if stage.name not in reached and any(touches(out, dep, "/") for out in outs for dep in stage.deps):
                reached.add(stage.name)
                queue.append(stage)
    return reached - set(names)


def families(names: Iterable[str]) -> tuple[str, ...]:
    """Stage names in the experiment's order, without arms."""
    found = {name.split("@")[0] for name in names}
    return tuple(name for name in ORDER if name in found)


def source_files(root: Path = REPO) -> list[str]:
    """Every source file of the pipeline, and the data that ships beside it."""
    found = [*(root / "selfgen").rglob("*"), *(root / "stages").glob("*.py")]
    return sorted(
        path.relative_to(root).as_posix()
        for path in found
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".md")
    )


def table(expected: dict[str, tuple[str, ...]], graph: list[Stage], root: Path = REPO) -> str:
    """The page: params as `expected` groups them, then source files grouped by what they re-run."""
    lines = [
        "# What re-runs when something changes",
        "",
        "Made by `python -m tests.support.invalidation > docs/invalidation.md`; `tests/test_invalidation.py` compares this",
        "page, the expectation written down there, and what DVC itself says.",
        "",
        "*Runs* is what DVC runs for the change itself. *May follow* runs only where a file in between comes out different:",
        "DVC compares contents, so a re-run that writes the same bytes ends there. Comments, docstrings and layout re-run `code`",
        "alone, which hashes. Two stages that ask no service are left out below, since they run again for nearly everything:",
        "`report`, for every param, and `decide`, which compares params (but `service`, `budget` and `tracking`) and code with the registered plan.",
        "",
        "## Params",
        "",
        "| key | runs | may follow |",
        "|---|---|---|",
    ]
    for pattern, direct in expected.items():
        follow = families(
            followers([s.name for s in graph if s.name != "code" and s.name.split("@")[0] in direct], graph)
        )
        follow = tuple(name for name in follow if name not in direct and name not in LAST)
        lines.append(f"| `{pattern}` | {_names(direct)} | {_names(follow)} |")
    lines += [
        "",
        "`arms.NAME.*` runs the subset, pilot and train of that arm alone. A new arm adds its own stages, and runs",
        "`preflight`, `gate`, `decide` and `report` again; the other arms stay as they are, whatever its seed.",
        "",
        "## Source files",
        "",
        "With `service.kind: remote` the embedded server's files (`selfgen/embedded/`) re-run nothing.",
        "",
        "| files | run |",
        "|---|---|",
    ]
    groups: dict[tuple[str, ...], list[str]] = {}
    for file in source_files(root):
        found = families(by_file(file, graph, root=root))
        groups.setdefault(tuple(name for name in found if name not in LAST) or found, []).append(file)
    for direct in sorted(groups, key=lambda names: (len(names), [ORDER.index(n) for n in names])):
        lines.append(f"| {_files(groups[direct])} | {_names(direct)} |")
    return "\n".join(lines) + "\n"


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


def _files(files: Iterable[str]) -> str:
    folders: dict[str, list[str]] = {}
    for file in files:
        path = Path(file)
        folders.setdefault(path.parent.as_posix(), []).append(path.name)
    return "; ".join(f"`{folder}/` {', '.join(sorted(names))}" for folder, names in sorted(folders.items()))


if __name__ == "__main__":
    from tests.test_invalidation import PARAMS

    sys.stdout.write(table(PARAMS, stages()))
