"""Which problems an arm trains on, and in which order.

The curated arms take the first N rows after the stock loader's shuffle: `datasets.Dataset.shuffle(seed)` permutes with
numpy's `default_rng(seed)`, so the order is known without loading `datasets` (GSM8K train at seed 0 begins with rows
5441, 2360, 5646, 1485). The task arms take the accepted tasks in generation order.

The control arms answer the obvious objections. `curated_banded`: the curated set under the tasks' own pass-rate rule,
since filtering is otherwise confounded with the source. `mixed`: half of each. `one_task`: one task again and again.
`imported`: another project's problems, from imports/<arm>.jsonl (`selfgen import`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfgen.errors import DataError, ParamsError, YieldError
from selfgen.records import CuratedRow, Problem, Task, read_jsonl

if TYPE_CHECKING:
    from selfgen.params import Params, SolveParams
    from selfgen.progress import Progress
    from selfgen.service import Sampler

IMPORTS = Path("imports")


@dataclass(frozen=True)
class Banded:
    """A curated row with the base model's pass count: `n_correct` of `n_samples`."""

    row: CuratedRow
    n_correct: int
    n_samples: int


def shuffled(n: int, seed: int) -> list[int]:
    """Row numbers 0..n-1 in the stock loader's order for `seed`."""
    import numpy

    return [int(i) for i in numpy.random.default_rng(seed).permutation(n)]


def curated_order(rows: Sequence[CuratedRow], seed: int) -> list[CuratedRow]:
    """The curated training set in the stock loader's order."""
    return [rows[i] for i in shuffled(len(rows), seed)]


def from_curated(row: CuratedRow) -> Problem:
    """A curated row as a training problem."""
    return Problem(row.id, row.question, row.answer)


def from_task(task: Task) -> Problem:
    """A task as a training problem: its text and its label, never its code."""
    return Problem(task.id, task.problem, str(task.label))


def select(
    data: str,
    n: int,
    seed: int,
    *,
    curated: Sequence[CuratedRow],
    tasks: Sequence[Task],
    banded: Iterable[Banded] = (),
    imported: Sequence[Problem] = (),
) -> list[Problem]:
    """The `n` problems of an arm, in training order.

    Args:
        data: the arm's `data` in params: curated, tasks, curated_banded, mixed, one_task or imported.
        n: problems needed, `train.problems`.
        seed: the arm's seed; it orders the curated rows and leaves the tasks alone.
        curated: the curated training set, in file order.
        tasks: the accepted tasks, in generation order.
        banded: for curated_banded, the rows that passed the band, in the stock order of `seed` (see `band`).
        imported: for imported, the problems of imports/<arm>.jsonl, in file order.

    Raises:
        YieldError: the source holds too few problems.
        ParamsError: `data` is none of the above.
    """
    if data == "curated":
        pool = [from_curated(row) for row in curated_order(curated, seed)]
    elif data == "tasks":
        pool = [from_task(task) for task in tasks]
    elif data == "curated_banded":
        pool = [from_curated(found.row) for found in banded]
    elif data == "mixed":
        half = n // 2
        ours, theirs = tasks[: n - half], curated_order(curated, seed)[:half]
        pool = _interleave([from_task(t) for t in ours], [from_curated(row) for row in theirs])
    elif data == "one_task":
        pool = [from_task(tasks[0])] * n if tasks else []
    elif data == "imported":
        pool = list(imported)
    else:
        raise ParamsError(
            f"arms: unknown data {data!r}; use curated, tasks, curated_banded, mixed, one_task or imported"
        )
    if len(pool) < n:
        raise YieldError(
            f"data {data!r} holds {len(pool)} problems but train.problems is {n}; raise generate.n_candidates or "
            "curated.n_train, or lower train.problems and train.steps"
        )
    return pool[:n]


def read_imported(arm: str, root: str | Path = ".") -> list[Problem]:
    """The problems that `selfgen import` stored for an arm.

    Raises:
        DataError: nothing was imported for this arm, or its file is malformed.
    """
    path = Path(root) / IMPORTS / f"{arm}.jsonl"
    if not path.exists():
        raise DataError(
            f"{path}: no such file; run `selfgen import FILE --arm {arm}`; a queued or --temp experiment sees what git "
            f"tracks: `git add {path}`, or `dvc exp run --copy-paths {path}`"
        )
    return list(read_jsonl(path, Problem))


def random_rate(tasks: Sequence[Task]) -> float:
    """The base model's measured pass rate over `tasks`: the rate of the random-reward arm's coin.

    Raises:
        YieldError: there are no tasks.
    """
    samples = sum(task.n_samples for task in tasks)
    if not samples:
        raise YieldError("the random-reward arm needs tasks with sampled pass counts; run `dvc repro filter`")
    return sum(task.n_correct for task in tasks) / samples


def band(
    rows: Iterable[CuratedRow],
    n: int,
    *,
    sampler: Sampler,
    renderer: Any,
    solve: SolveParams,
    few_shot: str,
    progress: Progress | None = None,
) -> Iterator[Banded]:
    """The first `n` of `rows` that the base model solves as often as the tasks' rule asks, with their pass counts.

    The mechanics are the filter's: same prompt, sample count, temperature, token limit and seed. Lazy: rows after the
    n-th accepted one are not paid for beyond what is in flight.

    Raises:
        YieldError: the rows run out first.
    """
    from selfgen.evaluation.grading import grade
    from selfgen.evaluation.prompting import math_messages
    from selfgen.rendering import prompt_tokens, stop
    from selfgen.service import SampleRequest

    sent: list[CuratedRow] = []

    def requests() -> Iterator[SampleRequest]:
        for row in rows:
            sent.append(row)
            yield SampleRequest(
                prompt=prompt_tokens(renderer, math_messages(row.question, few_shot)),  # type: ignore[arg-type]
                n=solve.n_samples,
                max_tokens=solve.max_tokens,
                temperature=solve.temperature,
                seed=solve.seed,
                stop=stop(renderer),
            )

    found = 0
    for index, completions in enumerate(sampler.sample_stream(requests())):
        if found == n:
            return
        row = sent[index]
        correct = sum(grade(completion.text, row.answer).correct for completion in completions)
        kept = solve.min_correct <= correct <= solve.max_correct
        if progress is not None:
            note = f"yield {(found + kept) / (index + 1):.0%} of {index + 1:,}"
            progress.update(int(kept), sum(completion.n_tokens for completion in completions), note)
        if kept:
            found += 1
            yield Banded(row, correct, len(completions))
            if found == n:
                return
    if found < n:
        raise YieldError(
            f"data 'curated_banded': only {found} curated rows are solved in {solve.min_correct} to {solve.max_correct} "
            f"of {solve.n_samples} samples, {n} are needed; drop the arm or widen filter.solve"
        )


def _interleave(first: list[Problem], second: list[Problem]) -> list[Problem]:
    out = [problem for pair in zip(first, second, strict=False) for problem in pair]
    return out + first[len(second) :] + second[len(first) :]


def build(
    params: Params, arm: str, *, curated: Sequence[CuratedRow], tasks: Sequence[Task]
) -> tuple[list[Problem], dict]:
    """An arm's problems and what they are: {arm, data, seed, reward, reward_rate, rows}.

    Opens the service for `curated_banded` alone, which asks the base model for pass counts.

    Raises:
        YieldError: the source holds too few problems.
    """
    own, seed, n = params.arms[arm], params.arm_seed(arm), params.train.problems
    if own.data == "curated_banded":
        from selfgen.progress import Progress
        from selfgen.rendering import renderer
        from selfgen.service import open_service

        with (
            open_service(params, [params.model.name]) as service,
            Progress(f"subset {arm}", n, service.cost(params.model.name)) as bar,
        ):
            rows = band(
                curated_order(curated, seed),
                n,
                sampler=service.sampler(params.model.name, params.model.tokenizer),
                renderer=renderer(params.model.renderer, params.model.tokenizer),
                solve=params.filter.solve,
                few_shot=params.train.few_shot,
                progress=bar,
            )
            problems = select(own.data, n, seed, curated=curated, tasks=tasks, banded=rows)
    else:
        imported = read_imported(arm) if own.data == "imported" else ()
        problems = select(own.data, n, seed, curated=curated, tasks=tasks, imported=imported)
    return problems, {
        "arm": arm,
        "data": own.data,
        "seed": seed,
        "reward": own.reward,
        "reward_rate": random_rate(tasks) if own.reward == "random" else None,
        "rows": len(problems),
    }
