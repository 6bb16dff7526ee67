"""Sandbox calls per second, beside what one would use instead, measured in turns in the same run.

    python bench/sandbox.py                      # throughput on 1 and 2 workers
    python bench/sandbox.py --differential 20000 # wrong integers, with our layer and without it

Each round gives every contender a short block, so a busy machine slows them alike; figures are medians over rounds and
ratios are medians of the rounds' own ratios. The programs are the worked examples in selfgen/tasks/examples.py.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import pydantic_monty

from selfgen.records import write_json
from selfgen.tasks.examples import EXAMPLES
from selfgen.tasks.sandbox import MEMORY_LIMIT, TIME_LIMIT_S, Sandbox

CODES = [example.code for example in EXAMPLES]
LIMITS: pydantic_monty.ResourceLimits = {"max_feed_duration_secs": TIME_LIMIT_S, "max_memory": MEMORY_LIMIT}
GOALS = {"selfgen / python -I": 50.0, "selfgen / raw monty": 0.7}


def fresh_python(code: str) -> int:
    """A new isolated interpreter per call, as a plain harness would run it."""
    command = [sys.executable, "-I", "-c", code + "\nprint(solve())"]
    return int(subprocess.run(command, capture_output=True, timeout=60, check=True).stdout)


def raw_monty(pool: pydantic_monty.Monty, code: str) -> int:
    """The interpreter alone: one session and one feed per program, the same two main limits, no checks."""
    with pool.checkout(limits=LIMITS) as session:
        return session.feed_run(code + "\nsolve()")


def rate(run: Callable[[str], object], calls: int, threads: ThreadPoolExecutor | None) -> float:
    """Calls per second over `calls` calls, from this thread or from a pool of them."""
    codes = [CODES[i % len(CODES)] for i in range(calls)]
    started = time.perf_counter()
    for _ in map(run, codes) if threads is None else threads.map(run, codes):
        pass
    return calls / (time.perf_counter() - started)


def throughput(workers: int, rounds: int, calls: int) -> dict[str, dict[str, float]]:
    """Median, lowest and highest calls/s of each contender, and the ratios."""
    rates: dict[str, list[float]] = {"selfgen": [], "raw monty": [], "python -I": []}
    threads = ThreadPoolExecutor(workers) if workers > 1 else None
    with Sandbox(workers) as sandbox, pydantic_monty.Monty(max_processes=workers) as pool:
        contenders: dict[str, tuple[Callable[[str], object], int]] = {
            "selfgen": (lambda code: sandbox.run(code).value, calls),
            "raw monty": (lambda code: raw_monty(pool, code), calls),
            "python -I": (fresh_python, max(4, calls // 50)),
        }
        answers = {name: [run(code) for code in CODES] for name, (run, _) in contenders.items()}  # also warms all up
        if len({str(values) for values in answers.values()}) != 1:
            raise SystemExit("the contenders disagree about the answers")
        for turn in range(rounds):
            order = list(contenders.items())
            for name, (run, count) in order[turn % 3 :] + order[: turn % 3]:
                rates[name].append(rate(run, count, threads))
    if threads is not None:
        threads.shutdown()
    rates["selfgen / python -I"] = [a / b for a, b in zip(rates["selfgen"], rates["python -I"], strict=True)]
    rates["selfgen / raw monty"] = [a / b for a, b in zip(rates["selfgen"], rates["raw monty"], strict=True)]
    return {
        name: {"median": statistics.median(values), "min": min(values), "max": max(values)}
        for name, values in rates.items()
    }


def differential(programs: int) -> dict[str, int]:
    """How many of the seeded random programs come back with another integer than CPython returns."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.tasks.arithmetic import program, reference

    counts = {
        "programs": programs,
        "cpython returns an int": 0,
        "selfgen wrong": 0,
        "selfgen refused": 0,
        "raw monty wrong": 0,
    }
    with Sandbox() as sandbox, pydantic_monty.Monty(max_processes=1) as pool:
        for seed in range(programs):
            source = program(seed)
            kind, value = reference(source)
            outcome = sandbox.run(source)
            counts["cpython returns an int"] += kind == "int"
            counts["selfgen wrong"] += outcome.status == "ok" and (kind, value) != ("int", outcome.value)
            counts["selfgen refused"] += kind == "int" and outcome.status not in ("ok", "out_of_range")
            try:
                raw = raw_monty(pool, source)
            except Exception:  # a refusal, or an int too long to convert
                continue
            counts["raw monty wrong"] += type(raw) is int and (kind, value) != ("int", raw)
    return counts


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=25, show_default=True, help="Turns of every contender.")
@click.option("--calls", default=250, show_default=True, help="Calls per turn (python -I: a fiftieth).")
@click.option("--differential", "programs", default=0, help="Compare this many random programs with CPython instead.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Also write the figures here.")
def main(rounds: int, calls: int, programs: int, path: Path | None) -> None:
    """Measure the sandbox."""
    if programs:
        result: dict[str, object] = dict(differential(programs))
        for name, value in result.items():
            click.echo(f"{name:28}{value:>10}")
    else:
        result = {}
        for workers in (1, 2):
            figures = throughput(workers, rounds, calls)
            result[f"{workers} workers"] = figures
            click.echo(f"{workers} worker{'s' if workers > 1 else ''}: median (lowest to highest) of {rounds} rounds")
            for name, row in figures.items():
                unit = f"x  goal {GOALS[name]:g}x" if name in GOALS else "calls/s"
                click.echo(f"  {name:22}{row['median']:>9.2f} ({row['min']:.2f} to {row['max']:.2f}) {unit}")
    if path is not None:
        write_json(path, result)


if __name__ == "__main__":
    main()
