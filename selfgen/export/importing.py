"""`selfgen import`: another project's problems as the data of an arm.

Rows are brought into the one form that training reads (id, question, integer answer as text) and stored in imports/,
which git tracks. What equals a question of the evaluation set is never stored: an arm trained on it would win for the
wrong reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from selfgen.errors import DataError, ParamsError
from selfgen.numeric import parse_number
from selfgen.records import CuratedRow, Problem, read_jsonl, write_jsonl
from selfgen.tasks.overlap import OverlapIndex
from selfgen.training.subset import IMPORTS

QUESTION = ("question", "problem", "prompt")
ANSWER = ("answer", "label", "final_answer", "target")


@dataclass(frozen=True)
class Imported:
    """What an import kept and what it left out, and why."""

    problems: tuple[Problem, ...]
    overlapping: tuple[tuple[int, str], ...]
    repeated: int


def read(rows: Iterable[Mapping[str, Any]], questions: OverlapIndex, where: str) -> Imported:
    """Canonical problems from rows of a foreign file.

    Args:
        rows: JSON objects with a question under one of QUESTION and an integer answer under one of ANSWER; GSM8K's
            `... #### 42` is read as 42.
        questions: the evaluation questions that no problem may equal.
        where: the file's name, for messages.

    Returns:
        The problems in file order, each text once; ids are `import-` and 16 hex digits of sha256(question, answer).

    Raises:
        DataError: a row has no question, or no integer answer.
    """
    kept: dict[str, Problem] = {}
    overlapping: list[tuple[int, str]] = []
    repeated = 0
    for number, row in enumerate(rows, start=1):
        question = _field(row, QUESTION, f"{where}:{number}")
        answer = _integer(_field(row, ANSWER, f"{where}:{number}"), f"{where}:{number}")
        match = questions.exact(question)
        if match is not None:
            overlapping.append((number, match))
        elif question in kept:
            repeated += 1
        else:
            digest = hashlib.sha256(f"{question}\0{answer}".encode()).hexdigest()[:16]
            kept[question] = Problem(f"import-{digest}", question, answer)
    return Imported(tuple(kept.values()), tuple(overlapping), repeated)


def _field(row: Mapping[str, Any], names: tuple[str, ...], where: str) -> str:
    found = next((row[name] for name in names if row.get(name) is not None), None)
    if not isinstance(found, (str, int)) or isinstance(found, bool) or not str(found).strip():
        raise DataError(f"{where}: no text under any of {', '.join(names)}; rename the field")
    return str(found).strip()


def _integer(text: str, where: str) -> str:
    number = parse_number(text.rsplit("####", 1)[-1])
    if number is None or number != int(number):
        raise DataError(f"{where}: the answer {text[:40]!r} is not an integer; this experiment's answers are")
    return str(int(number))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    import jsonlines

    try:
        with jsonlines.open(path) as reader:
            yield from reader.iter(type=dict)
    except jsonlines.InvalidLineError as error:
        raise DataError(f"{path}:{error.lineno}: not a JSON object; give a file of JSON lines") from None


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--arm", required=True, help="Name of the arm that trains on them.")
@click.option("--replace", is_flag=True, help="Write over what was imported for this arm before.")
def import_(file: Path, arm: str, replace: bool) -> None:
    """Take another project's FILE of problems (JSON lines) as the data of an arm.

    Writes imports/ARM.jsonl. Problems that equal a question of the evaluation set are left out and counted.

    \b
    Example:
      selfgen import ../other/tasks.jsonl --arm rl_other
      dvc exp run -S '+arms.rl_other.data=imported'
    """
    from selfgen.export.source import refuse_existing
    from selfgen.params import load

    if not arm.isidentifier() or arm == "base":
        raise ParamsError(f"--arm {arm}: must be a name of letters, digits and _, and not `base`")
    out = IMPORTS / f"{arm}.jsonl"
    refuse_existing(out, replace)
    needed = load().train.problems
    index = OverlapIndex.build(read_jsonl(Path("data/curated/test.jsonl"), CuratedRow))
    found = read(_rows(file), index, str(file))
    if len(found.problems) < needed:
        raise DataError(
            f"{file}: {len(found.problems)} usable problems ({len(found.overlapping)} equal a test question, {found.repeated} "
            f"stand twice), but train.problems is {needed}; give more, or lower train.problems and train.steps"
        )
    write_jsonl(out, found.problems)
    click.echo(
        f"{out}: {len(found.problems)} problems; left out {len(found.overlapping)} that equal a test question, "
        f"{found.repeated} repeated. Next: add `{arm}: {{data: imported}}` to arms in conf/config.yaml, `selfgen compose`, commit "
        f"{out}, `dvc repro`"
    )
