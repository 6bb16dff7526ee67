"""From candidate rows to the stage's files: every byte follows from the rows, and the counts add up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from selfgen.errors import YieldError
from selfgen.params import DecontaminateParams, FilterParams, SolveParams
from selfgen.progress import Progress
from selfgen.records import Candidate, Completion, CuratedRow, Rejection, Task, read_json, read_jsonl
from selfgen.tasks.accept import accept
from selfgen.tasks.label import Labelled

QUESTION = "Janet has nine hens and four cows on her farm. How many animals does she have altogether on that farm?"


def rules(n_accept: int) -> FilterParams:
    return FilterParams(
        n_accept=n_accept,
        min_words=10,
        max_words=60,
        solve=SolveParams(n_samples=4, min_correct=1, max_correct=3, temperature=1.0, max_tokens=64, seed=0),
        decontaminate=DecontaminateParams(reject=("exact",)),
    )


def candidate(i: int, problem: str, code: str) -> Candidate:
    return Candidate(f"cand-{i:06d}", i, f"Problem: {problem}\n\n```python\n{code}\n```", 10 + i, "stop")


CANDIDATES = [
    candidate(0, QUESTION, "def solve():\n    return 9 + 4"),
    candidate(
        1,
        "Tom buys two pens and then buys six more pens in town. How many pens does Tom have?",
        "def solve():\n    return 2 + 6",
    ),
    candidate(
        2,
        "Tom buys three pens and then buys six more pens in town. How many pens does Tom have?",
        "def solve():\n    return 1 / 0",
    ),
    candidate(
        3,
        "Ann reads five pages and then reads nine more pages at night. How many pages did Ann read?",
        "def solve():\n    return 5 + 9",
    ),
    candidate(
        4,
        "Bo eats three figs and then eats five more figs at night. How many figs did Bo eat?",
        "def solve():\n    return 3 + 5",
    ),
]


def solve(batch: Iterable[Labelled]) -> Iterator[list[Completion]]:
    for row in batch:
        yield [Completion(f"So it is \\boxed{{{row.label + k % 2}}}", 20, "stop" if k else "length") for k in range(4)]


def run(out: Path, n_accept: int, bar: Progress | None = None) -> dict[str, object]:
    with bar or Progress("filter", n_accept) as bar:
        return accept(
            iter(CANDIDATES),
            [CuratedRow("q-0", QUESTION, "", "13")],
            out,
            rules=rules(n_accept),
            solve=solve,
            progress=bar,
        )


def test_the_files_hold_what_was_judged_and_the_counts_add_up(tmp_path: Path):
    found = run(tmp_path, 2)
    assert [t.index for t in read_jsonl(tmp_path / "tasks.jsonl", Task)] == [1, 3]
    rejected = {r.index: r.reason for r in read_jsonl(tmp_path / "rejected.jsonl", Rejection)}
    assert rejected == {0: "overlap_exact", 2: "execution_error"}
    assert (found["candidates_judged"], found["accepted"], found["yield"]) == (4, 2, 0.5)
    assert found["rejected"] == {"execution_error": 1, "overlap_exact": 1}
    made = read_json(tmp_path / "yields.json")
    assert made["difficulty"]["right_of_n"] == [0, 0, 2, 0, 0]
    # Only judged candidates count as proposed; the third survivor was sampled in the last window and is paid.
    assert made["cost"]["proposal_tokens"] == 10 + 11 + 12 + 13
    assert made["cost"]["solve_tokens"] == 3 * 80
    assert read_json(tmp_path / "overlap.json")["generated_eval_exact_overlaps"] == 0


def test_progress_tells_accepted_yield_and_sampled_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bar = Progress("filter", 2)
    run(tmp_path, 2, bar)
    assert (bar.done, bar.tokens, bar.note) == (2, 3 * 80, "yield 50% of 4")
    assert "filter: 2/2, yield 50% of 4, " in capsys.readouterr().err


def test_two_runs_write_the_same_bytes(tmp_path: Path):
    for name in ("a", "b"):
        run(tmp_path / name, 2)
    for name in ("tasks.jsonl", "rejected.jsonl", "overlap.json", "yields.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_too_few_leaves_the_reasons_and_no_tasks(tmp_path: Path):
    with pytest.raises(YieldError, match="accepted 3 of the 4 tasks wanted from 5 candidates"):
        run(tmp_path, 4)
    assert not (tmp_path / "tasks.jsonl").exists()
    assert len(list(read_jsonl(tmp_path / "rejected.jsonl", Rejection))) == 2
