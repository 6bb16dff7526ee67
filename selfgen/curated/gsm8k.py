"""GSM8K as canonical rows, from the Hub or from a folder of the original JSON lines, with the same bytes.

The row order is the original's; ids are `gsm8k-train-00000` onward. `answer` is what follows `####`, without
thousands separators, which is what the stock math environment grades against.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfgen.errors import DataError
from selfgen.records import CuratedRow, dumps, read_jsonl, to_dict


@dataclass(frozen=True)
class Original:
    """One line of the original files."""

    question: str
    answer: str


_FINAL = re.compile(r"^####\s*(\S.*?)\s*$", re.MULTILINE)


def canonical(rows: Iterable[dict[str, Any]], name: str, split: str, where: str) -> list[CuratedRow]:
    """Original rows {question, answer} as canonical ones.

    Raises:
        DataError: a row lacks a field or a final integer answer.
    """
    out = []
    for number, row in enumerate(rows):
        try:
            question, solution = row["question"], row["answer"]
        except (KeyError, TypeError):
            raise DataError(f"{where}: row {number}: needs the fields question and answer") from None
        found = _FINAL.findall(solution)
        answer = found[-1].replace(",", "") if found else ""
        if not re.fullmatch(r"-?\d+", answer):
            raise DataError(f"{where}: row {number}: field answer has no final line `#### <integer>`")
        out.append(CuratedRow(f"{name}-{split}-{number:05d}", question, solution, str(int(answer))))
    return out


def digest(rows: Iterable[CuratedRow]) -> str:
    """sha256 of the canonical JSON lines of `rows`: the bytes that the curated stage writes."""
    state = hashlib.sha256()
    for row in rows:
        state.update((dumps(to_dict(row)) + "\n").encode())
    return state.hexdigest()


def from_hub(where: str, source: str, config: str | None, split: str, revision: str | None, instead: str) -> Any:
    """One split of a Hub dataset; `where` names the params key and `instead` what to do without a network.

    Raises:
        DataError: it cannot be loaded.
    """
    import datasets

    try:
        return datasets.load_dataset(source, config, split=split, revision=revision)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        reason = " ".join(str(error).split())[:120]
        raise DataError(f"{where}: cannot be loaded ({reason}); check the network, or {instead}") from None


def load(source: str, config: str | None, revision: str | None) -> dict[str, list[CuratedRow]]:
    """Both splits, from a folder that holds train.jsonl and test.jsonl, or from the Hub through `datasets`.

    Raises:
        DataError: the folder lacks a split, a row is malformed, or the Hub cannot be reached.
    """
    folder = Path(source).expanduser()
    local = folder.is_dir()
    if not local and (source.startswith((".", "/", "~")) or not re.fullmatch(r"[\w.-]+/[\w.-]+", source)):
        raise DataError(
            f"curated.source {source}: no such folder; give one with train.jsonl and test.jsonl, or a Hub id"
        )
    import datasets

    out = {}
    for split in ("train", "test"):
        where = f"{source}/{split}"
        if local:
            path = folder / f"{split}.jsonl"
            if not path.is_file():
                raise DataError(f"{path}: no such file; curated.source must hold train.jsonl and test.jsonl")
            where = str(path)
            rows: Any = datasets.Dataset.from_list([to_dict(row) for row in read_jsonl(path, Original)])
        else:
            instead = "set curated.source to a folder"
            rows = from_hub(f"curated.source {source}", source, config, split, revision, instead)
        out[split] = canonical(rows, "gsm8k", split, where)
    return out
