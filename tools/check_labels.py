"""Check the labels of proposals without any model: read each problem back through the grammar that it imitates.

`python tools/check_labels.py proposals.json` takes a JSON list of raw proposals. A problem that is a chain of template
sentences has one meaning, so its answer is recomputed from the numbers in its text and compared with what its program
returns. Problems that mix or garble sentences are not read, and are counted as such.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from selfgen.curated.templates import words  # noqa: E402
from selfgen.curated.templates.engine import _STEP, Clause, compute, library  # noqa: E402
from tools.evaluate_models import FENCE, run_program  # noqa: E402

SLOT = re.compile(r"\\\{(\w+)\\\}")


def _pattern(text: str) -> re.Pattern[str]:
    """A regular expression for one wording: numbers are named groups, words any word, the tail any short phrase."""

    def slot(match: re.Match[str]) -> str:
        name = match.group(1)
        if name == "tail":
            return r"(?: [a-z ]+)?"
        return rf"(?P<{name}>\d+)" if len(name) == 1 and name.islower() else r"[A-Za-z]+"

    # Inside one wording a number may stand twice; only its first place is a group, the second a back-reference.
    seen: set[str] = set()
    out = re.sub(r"\(\?P<(\w)>\\d\+\)", lambda m: _once(m, seen), SLOT.sub(slot, re.escape(text)))
    return re.compile(out)


def _once(match: re.Match[str], seen: set[str]) -> str:
    name = match.group(1)
    if name in seen:
        return f"(?P={name})"
    seen.add(name)
    return match.group(0)


@cache
def _wordings() -> tuple[list[re.Pattern[str]], dict[str | None, list[tuple[Clause, re.Pattern[str]]]]]:
    """Patterns of the scenes, and of the clauses by the kind of quantity they continue (None for openers)."""
    openers, middles, closers = library()
    clauses = [*openers, *(c for g in middles.values() for c in g), *(c for g in closers.values() for c in g)]
    by_kind: dict[str | None, list[tuple[Clause, re.Pattern[str]]]] = {}
    for clause in clauses:
        by_kind.setdefault(clause.before, []).extend((clause, _pattern(text)) for text in clause.texts)
    return [_pattern(text) for text in words.SCENES], by_kind


def readings(problem: str) -> set[int]:
    """Every answer that some reading of the problem through the grammar gives; empty when there is none."""
    scenes, by_kind = _wordings()
    found: set[int] = set()

    def follow(at: int, kind: str | None, value: int | None, scene_left: bool) -> None:
        if scene_left:
            for scene in scenes:
                match = scene.match(problem, at)
                if match:
                    follow(match.end() + 1, kind, value, False)
        for clause, pattern in by_kind[kind]:
            match = pattern.match(problem, at)
            if not match:
                continue
            known = {k: int(v) for k, v in match.groupdict().items()}
            if value is not None:
                known["v"] = value
            result: int | None = value if value is not None else known.get("a")
            for line in clause.steps:
                name, left, op, right, _ = _STEP.fullmatch(line).groups()  # type: ignore[union-attr]
                x, y = (known[t] if t in known else int(t) for t in (left, right))
                result = compute(x, op, y)
                if result is None:
                    break
                known[name] = result
            if result is None:
                continue
            if clause.after is not None:
                follow(match.end() + 1, clause.after, result, scene_left)
            elif match.end() == len(problem):
                found.add(result)

    follow(0, None, None, True)
    return found


@click.command()
@click.argument("proposals", type=click.Path(path_type=Path))
def main(proposals: Path) -> None:
    """Print how many labelled proposals the grammar reads, and how many of their labels are right."""
    read = right = labelled = 0
    wrong: list[tuple[str, int, set[int]]] = []
    for text in json.loads(proposals.read_text()):
        match = FENCE.match(text)
        value = run_program(match.group(2)) if match else "no fence"
        if match is None or isinstance(value, str):
            continue
        labelled += 1
        meant = readings(match.group(1))
        read += bool(meant)
        right += value in meant
        if meant and value not in meant:
            wrong.append((match.group(1), value, meant))
    click.echo(f"{labelled} labelled, {read} read by the grammar, {right} of those labels right")
    for problem, value, meant in wrong:
        click.echo(f"label {value}, meant {sorted(meant)}: {problem}")


if __name__ == "__main__":
    main()
