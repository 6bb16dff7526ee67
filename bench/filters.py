"""Labels and filters at scale: wall time and peak memory at 10,000 and at 100,000 candidates.

    python bench/filters.py                                # sizes 10,000 and 100,000, every detector rejects
    python bench/filters.py --sizes 1000,10000 --reject exact

Candidates are templated problems with their programs, as the embedded policy writes them; one in eight is spoiled so
that every kind of rejection occurs. They are read from a file, labelled in the sandbox, filtered by every rule, and
written to files. Only sampling is replayed: a survivor's right answers are derived from its text, as a warm journal
would give them. Each size runs in a process of its own, so that its peak memory is its own. Indexing the 1,319
evaluation questions is timed apart: it does not grow with the candidates. The smallest size runs once before and
once after the others, so that a load that changes meanwhile weighs less.
"""

from __future__ import annotations

import hashlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import jsonlines

from selfgen.curated import standin
from selfgen.curated.templates import draw
from selfgen.errors import YieldError
from selfgen.params import DecontaminateParams, FilterParams, SolveParams
from selfgen.records import Candidate, Completion, CuratedRow, Task, dumps, read_jsonl, to_dict, write_json, write_jsonl
from selfgen.tasks import filters
from selfgen.tasks.label import Labelled
from selfgen.tasks.overlap import DETECTORS, OverlapIndex

N_SAMPLES = 8
GOALS = {"time_ratio": (0.85, 1.15), "memory_growth_mib": 50.0}


def raw_answers(n: int, questions: list[CuratedRow]) -> Iterator[Candidate]:
    """n raw answers, each from its own random stream, so a longer file begins with the shorter one."""
    for index in range(n):
        rng = random.Random(f"bench:{index}")
        problem = draw(rng)
        text, code = problem.question, problem.program()
        spoiled = rng.randrange(8 * 8)
        if spoiled == 0:
            code = code.replace("return ", "return undefined + ")
        elif spoiled == 1:
            code = "print('no function')"
        elif spoiled == 2:
            code = code.replace("return ", "return 0.5 + ")
        elif spoiled == 3:
            text = "How many is it?"
        elif spoiled == 4:
            text = f"{text} The answer is {problem.answer}."
        elif spoiled == 5:
            text = questions[rng.randrange(len(questions))].question.upper()
        elif spoiled == 6:
            text = f"{text} " + "All of this happened on a long and sunny day. " * 12
        elif spoiled == 7:
            text = ""
        yield Candidate(f"cand-{index:06d}", index, f"Problem: {text}\n\n```python\n{code}\n```", 150, "stop")


def replay(batch: Iterable[Labelled]) -> Iterator[list[Completion]]:
    """N_SAMPLES completions a task; how many are right follows from its text, from 0 to all alike."""
    for row in batch:
        right = hashlib.sha256(row.problem.encode()).digest()[0] % (N_SAMPLES + 1)
        yield [Completion(str(row.label if k < right else -1), 100, "stop") for k in range(N_SAMPLES)]


def judge(path: Path, n: int, index: OverlapIndex, reject: tuple[str, ...], workers: int) -> Counter[str]:
    """The whole stage but sampling, to files beside `path`; counts by outcome."""
    rules = FilterParams(
        n_accept=n + 1,
        min_words=20,
        max_words=120,
        solve=SolveParams(n_samples=N_SAMPLES, min_correct=1, max_correct=6, temperature=1.0, max_tokens=512, seed=0),
        decontaminate=DecontaminateParams.model_validate({"reject": reject}),
    )
    counts: Counter[str] = Counter()
    rows = filters.run(
        read_jsonl(path, Candidate),
        rules=rules,
        overlap=index,
        solve=replay,
        grade=lambda text, label: text == str(label),
        workers=workers,
    )
    with (
        jsonlines.open(path.with_name("tasks.jsonl"), "w", dumps=dumps) as tasks,
        jsonlines.open(path.with_name("rejected.jsonl"), "w", dumps=dumps) as rejected,
    ):
        try:
            for row in rows:
                accepted = isinstance(row, Task)
                (tasks if accepted else rejected).write(to_dict(row))
                counts["accepted" if accepted else row.reason] += 1  # type: ignore[union-attr]
        except YieldError:  # more are wanted than there are candidates, so that all are judged
            pass
    return counts


def one_size(n: int, reject: tuple[str, ...], workers: int) -> dict[str, object]:
    """Run one size here and say what it took."""
    questions = standin.build(n_train=0, n_test=1319)["test"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidates.jsonl"
        write_jsonl(path, raw_answers(n, questions))
        started = time.perf_counter()
        index = OverlapIndex.build(questions)
        for detector in set(reject) & set(DETECTORS) - {"exact"}:
            index.index(detector)
        setup, started, cpu = time.perf_counter() - started, time.perf_counter(), time.process_time()
        counts = judge(path, n, index, reject, workers)
        wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    if counts.total() != n:
        raise SystemExit(f"{counts.total()} rows for {n} candidates")
    return {
        "candidates": n,
        "index_s": round(setup, 2),
        "wall_s": round(wall, 2),
        "cpu_s": round(cpu + resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, 2),
        "ms_per_candidate": round(1000 * wall / n, 3),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "outcomes": dict(sorted(counts.items())),
    }


@click.command()
@click.option(
    "--sizes", default="10000,100000", show_default=True, help="Candidates, comma-separated, the smallest first."
)
@click.option("--reject", default="exact,ngram,minhash,masked,self", show_default=True, help="Detectors that reject.")
@click.option("--workers", default=2, show_default=True, help="Sandbox processes.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Also write the figures as JSON.")
@click.option("--one", type=int, hidden=True)
def main(sizes: str, reject: str, workers: int, out: Path | None, one: int | None) -> None:
    """Print time and memory of every size, and their growth against GOALS; exit 1 when a goal is missed."""
    if one is not None:
        click.echo(json.dumps(one_size(one, tuple(reject.split(",")), workers)))
        return
    runs = []
    wanted = [int(size) for size in sizes.split(",")]
    for n in (*wanted, wanted[0]):
        command = [sys.executable, __file__, "--one", str(n), "--reject", reject, "--workers", str(workers)]
        runs.append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
        click.echo(json.dumps(runs[-1]))
    last, bases = runs[-2], (runs[0], runs[-1])

    def growth_of(key: str) -> float:
        """Per candidate, the largest size over the smallest; the mean of the smallest's two runs."""
        return last[key] / last["candidates"] / (sum(run[key] / run["candidates"] for run in bases) / 2)

    ratio, cpu_ratio = growth_of("wall_s"), growth_of("cpu_s")
    growth = last["peak_mib"] - max(run["peak_mib"] for run in bases)
    low, high = GOALS["time_ratio"]  # type: ignore[misc]
    met = low <= ratio <= high and growth <= GOALS["memory_growth_mib"]  # type: ignore[operator]
    found = {"time_ratio": round(ratio, 3), "cpu_ratio": round(cpu_ratio, 3), "memory_growth_mib": round(growth, 1)}
    click.echo(json.dumps({**found, "goals_met": met}))
    if out is not None:
        write_json(out, {"runs": runs, **found, "goals_met": met})
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
