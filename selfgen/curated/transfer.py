"""Transfer sets: questions of another kind than the test set's, evaluated beside it and never deciding.

Each entry of `transfer` in params is one set: a Hub dataset, a folder or a JSON lines file, with the names of its fields;
`source: standin` is the shipped problems outside the templates. Their rows share one file, and an id names the set
that a row belongs to: `svamp-00012`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jsonlines

from selfgen.curated import gsm8k, standin
from selfgen.errors import DataError
from selfgen.numeric import parse_number
from selfgen.params import TransferParams
from selfgen.records import CuratedRow


def load(sets: Mapping[str, TransferParams], seed: int) -> list[CuratedRow]:
    """The rows of every set, in params' order. `seed` is that of the stand-in's problems.

    Raises:
        DataError: a source cannot be read, a row lacks a field, or the bytes are not the pinned ones.
    """
    out = []
    for name, params in sets.items():
        rows = _standin(name, params, seed) if params.source == "standin" else _rows(name, params)
        found = gsm8k.digest(rows)
        if params.sha256 is not None and found != params.sha256:
            raise DataError(
                f"transfer.{name}.source {params.source}: rows have sha256 {found[:16]}..., pinned is "
                f"{params.sha256[:16]}...; use the pinned source, or edit transfer.{name}.sha256"
            )
        out += rows
    return out


def _standin(name: str, params: TransferParams, seed: int) -> list[CuratedRow]:
    if params.items is None:
        raise DataError(f"transfer.{name}.items: missing; say how many of the stand-in's problems")
    rows = standin.build(0, 0, params.items, seed)["outside"]
    return [CuratedRow(f"{name}-{i:05d}", row.question, row.solution, row.answer) for i, row in enumerate(rows)]


def _rows(name: str, params: TransferParams) -> list[CuratedRow]:
    where = f"transfer.{name}.source {params.source}"
    out = []
    for number, raw in enumerate(_raw(where, params)):
        if params.items is not None and number == params.items:
            break
        try:
            question = " ".join(str(raw[field]).strip() for field in params.questions)
            solution = raw[params.answer]
        except (KeyError, TypeError):
            fields = ", ".join([*params.questions, params.answer])
            raise DataError(
                f"{where}: row {number} lacks one of the fields {fields}; name them in transfer.{name}.question and .answer"
            ) from None
        answer = final_answer(solution)
        if not question or not answer:
            raise DataError(f"{where}: row {number} has an empty question or answer")
        out.append(CuratedRow(f"{name}-{number:05d}", question, str(solution), answer))
    if not out or (params.items is not None and len(out) < params.items):
        raise DataError(f"{where}: {len(out)} rows, {params.items or 'some'} asked for; edit transfer.{name}.items")
    return out


def final_answer(solution: Any) -> str:
    """What the grader compares with: the text after the last `####` if there is one; 145.0 is 145, 1,000 is 1000."""
    text = str(solution).rpartition("####")[2].strip()
    plain = re.fullmatch(r"[-\d,.]+", text)
    number = parse_number(text) if plain else None
    return str(number) if number is not None and number.denominator == 1 else text


def _raw(where: str, params: TransferParams) -> Iterable[Mapping[str, Any]]:
    """Rows as the source has them."""
    source = Path(params.source).expanduser()
    file = source / f"{params.split}.jsonl" if source.is_dir() else source
    if file.is_file():
        return _lines(file)
    if source.is_dir() or source.suffix == ".jsonl" or not re.fullmatch(r"[\w.-]+/[\w.-]+", params.source):
        raise DataError(
            f"{where}: no such file; give a JSON lines file, a folder with {params.split}.jsonl, or a Hub id"
        )
    return gsm8k.from_hub(where, params.source, params.config, params.split, params.revision, "name a file")


def _lines(file: Path) -> Iterable[Mapping[str, Any]]:
    with jsonlines.open(file) as reader:
        try:
            yield from reader.iter(type=dict, skip_empty=True)
        except jsonlines.InvalidLineError as error:
            raise DataError(f"{file}:{error.lineno}: not a JSON object; mend the line") from None
