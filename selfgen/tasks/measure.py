"""`selfgen overlap`: what the detectors find in a set of tasks, and, with --measure, how well they find it.

Recall: every kind of altered copy (plants.py) of every evaluation question is looked up; a find is a hit on the very
question it was made from. False positives: training questions of the same corpus and templated stand-ins are looked
up; each hit counts, save the pairs of `JUDGED`. Intervals are Clopper-Pearson, exact, two-sided, 95 %.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from selfgen.errors import DataError
from selfgen.records import CuratedRow, Task, read_jsonl, replace_file, write_json
from selfgen.tasks.overlap import DETECTORS, OverlapIndex, summarise
from selfgen.tasks.plants import KINDS, Names, plant

ALPHA = 0.05
STANDINS = 2000

# GSM8K training questions that do tell a test question's story, judged by reading every pair that any detector
# scored high, also below its threshold. They are not clean, so they are not counted as false positives.
JUDGED = {
    "gsm8k-train-05162": "gsm8k-test-00602",
    "gsm8k-train-01314": "gsm8k-test-00602",
    "gsm8k-train-00020": "gsm8k-test-00632",
    "gsm8k-train-03726": "gsm8k-test-00824",
    "gsm8k-train-02600": "gsm8k-test-00974",
    "gsm8k-train-06679": "gsm8k-test-01114",
    "gsm8k-train-01781": "gsm8k-test-00448",
    "gsm8k-train-06624": "gsm8k-test-00168",
}

START, END = "<!-- table: selfgen overlap --measure -->", "<!-- end of table -->"


@dataclass(frozen=True)
class Rate:
    """`hits` of `n` looked-up texts, with the exact 95 % interval of the rate."""

    hits: int
    n: int
    low: float
    high: float

    @classmethod
    def of(cls, hits: int, n: int) -> Rate:
        """The Clopper-Pearson interval at ALPHA."""
        from selfgen.decision.paired import clopper_pearson

        low, high = clopper_pearson(hits, n, ALPHA)
        return cls(hits, n, round(float(low), 6), round(float(high), 6))

    def show(self, digits: int = 1) -> str:
        """`98.5 [97.7, 99.1]`, in per cent."""
        if self.n == 0:
            return "n/a"
        rate, low, high = (f"{100 * x:.{digits}f}" for x in (self.hits / self.n, self.low, self.high))
        return f"{rate} [{low}, {high}]"


Table = dict[str, dict[str, Rate]]


def recall(index: OverlapIndex, names: Names, seed: int, detectors: Sequence[str] = DETECTORS) -> Table:
    """For each kind of altered copy and each detector, how many are traced to the question they were made from."""
    table: Table = {}
    for kind in KINDS:
        texts = [(row.id, text) for row in index.rows if (text := plant(kind, row.id, row.question, seed, names))]
        hits = dict.fromkeys(detectors, 0)
        for row_id, text in texts:
            for detector in detectors:
                match = index.match(detector, text)
                hits[detector] += match is not None and match.row == row_id
        table[kind] = {detector: Rate.of(n, len(texts)) for detector, n in hits.items()}
    return table


def false_positives(
    index: OverlapIndex, clean: Mapping[str, Sequence[CuratedRow]], detectors: Sequence[str] = DETECTORS
) -> tuple[Table, list[dict[str, Any]]]:
    """For each clean set and each detector, how many texts hit any question; and every such hit, to be judged."""
    table: Table = {}
    found: list[dict[str, Any]] = []
    for name, rows in clean.items():
        rows = [row for row in rows if row.id not in JUDGED]
        hits = dict.fromkeys(detectors, 0)
        for row in rows:
            for detector in detectors:
                match = index.match(detector, row.question)
                if match is not None:
                    hits[detector] += 1
                    found.append({"set": name, "text_id": row.id, **asdict(match)})
        table[name] = {detector: Rate.of(n, len(rows)) for detector, n in hits.items()}
    return table, found


def markdown(recalls: Table, false: Table) -> str:
    """Both tables for the docs, in per cent with intervals."""
    detectors = list(next(iter(recalls.values())))
    head = f"| {{}} | n | {' | '.join(detectors)} |\n|---|---:|{'---:|' * len(detectors)}\n"
    out = ["Recall, % [95 % interval]:\n\n", head.format("planted copy")]
    for kind, rates in recalls.items():
        cells = " | ".join(rates[d].show() for d in detectors)
        out.append(f"| {kind} | {rates[detectors[0]].n} | {cells} |\n")
    out += ["\nFalse positives, % [95 % interval]:\n\n", head.format("clean set")]
    for name, rates in false.items():
        cells = " | ".join(rates[d].show(2) for d in detectors)
        out.append(f"| {name} | {rates[detectors[0]].n} | {cells} |\n")
    return "".join(out)


def into_docs(path: Path, table: str) -> None:
    """Replace what stands between the two marks of a page.

    Raises:
        DataError: the page lacks the marks.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; give --docs a page with the line {START}") from None
    pattern = re.compile(f"(?<={re.escape(START)}\n).*?(?={re.escape(END)})", re.DOTALL)
    if not pattern.search(text):
        raise DataError(f"{path}: needs the lines {START} and {END}, with the table between them")
    with replace_file(path) as temporary:
        temporary.write_text(pattern.sub(lambda _: f"\n{table}\n", text, count=1), encoding="utf-8")


def _digest(rows: Iterable[CuratedRow]) -> str:
    return hashlib.sha256("\0".join(row.question for row in rows).encode()).hexdigest()


def _splits(folder: Path | None) -> tuple[list[CuratedRow], list[CuratedRow]]:
    """Training and test rows: of original GSM8K files in `folder`, or of the curated stage."""
    if folder is None:
        return tuple(list(read_jsonl(f"data/curated/{s}.jsonl", CuratedRow)) for s in ("train", "test"))  # type: ignore[return-value]
    from selfgen.curated.gsm8k import load

    splits = load(str(folder), None, None)
    return splits["train"], splits["test"]


def _standins(n: int) -> list[CuratedRow]:
    """Templated problems that have nothing to do with GSM8K."""
    from selfgen.curated import standin

    return standin.build(n_train=n, n_test=0)["train"]


def measure(train: Sequence[CuratedRow], test: Sequence[CuratedRow], seed: int, standins: int) -> dict[str, Any]:
    """Everything `selfgen overlap --measure` reports, as JSON values; depends on the arguments only."""
    index = OverlapIndex.build(test)
    recalls = recall(index, Names.learn(row.question for row in train), seed)
    clean = {"training questions": train}
    if standins:
        clean["templated stand-ins"] = _standins(standins)
    false, hits = false_positives(index, clean)
    return {
        "seed": seed,
        "alpha": ALPHA,
        "test_sha256": _digest(test),
        "train_sha256": _digest(train),
        "judged_same_story": {k: v for k, v in JUDGED.items() if any(row.id == k for row in train)},
        "recall": {k: {d: asdict(r) for d, r in v.items()} for k, v in recalls.items()},
        "false_positives": {k: {d: asdict(r) for d, r in v.items()} for k, v in false.items()},
        "false_positive_hits": hits,
        "markdown": markdown(recalls, false),
    }


@click.command()
@click.option("--measure", "measuring", is_flag=True, help="Measure recall and false positives on planted copies.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Folder with GSM8K's train.jsonl and test.jsonl. Default: the curated stage's.",
)
@click.option("--tasks", type=click.Path(path_type=Path), default=Path("data/filter/tasks.jsonl"), show_default=True)
@click.option("--seed", default=0, show_default=True, help="Of the planted alterations.")
@click.option("--standins", default=STANDINS, show_default=True, help="Templated problems among the clean texts.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Also write everything as JSON.")
@click.option(
    "--docs", type=click.Path(dir_okay=False, path_type=Path), help="Also put the tables between the marks of a page."
)
def overlap(
    measuring: bool, data: Path | None, tasks: Path, seed: int, standins: int, out: Path | None, docs: Path | None
) -> None:
    """Show how accepted tasks overlap the evaluation questions, match by match; or measure the detectors.

    \b
    Examples:
      selfgen overlap                       # the accepted tasks
      selfgen overlap --tasks mine.jsonl    # any file of tasks
      selfgen overlap --measure             # recall and false positives of every detector
    """
    train, test = _splits(data)
    if measuring:
        result = measure(train, test, seed, standins)
        click.echo(result["markdown"], nl=False)
        for hit in result["false_positive_hits"]:
            click.echo(f"{hit['detector']}: {hit['text_id']} ~ {hit['row']} ({hit['score']:.2f}) {hit['evidence'][:1]}")
        if docs is not None:
            into_docs(docs, result["markdown"])
    else:
        result = summarise(read_jsonl(tasks, Task), OverlapIndex.build(test), ())
        for match in result["matches"]:
            click.echo(
                f"{match['task_id']} {match['detector']} {match['row']} ({match['score']:.2f}) {match['evidence']}"
            )
        click.echo(json.dumps({"accepted": result["accepted"], **result["hits"]}))
    if out is not None:
        write_json(out, result)
