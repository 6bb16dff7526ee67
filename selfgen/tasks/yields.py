"""What generation yields and what it costs: difficulty, length, answers, tokens, and how different the tasks are.

Everything here is a JSON value computed from the filter's rows alone, so equal rows give equal bytes; seconds are
measured elsewhere and only divided here. Two failures of self-generation should be visible in these numbers:
difficulty collapse (pass rates pile up at 0 or n) and narrowness (few distinct texts once numbers and names are
masked, near neighbours everywhere). `reference` gives the same numbers for curated questions, as a yardstick.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from selfgen.records import Completion, CuratedRow, Rejection, Task
from selfgen.tasks.filters import Solve, word_count
from selfgen.tasks.label import Labelled
from selfgen.tasks.normalise import Masker, normalise, tokens
from selfgen.tasks.overlap import SHINGLE, ShingleIndex, jaccard

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
WORD_BIN = 10
TOP = 5


def quantiles(values: Sequence[float]) -> dict[str, float] | None:
    """QUANTILES of a sample by the nearest rank (always a member of it), and the mean; None when it is empty."""
    if not values:
        return None
    ordered = sorted(values)
    last = len(ordered) - 1
    found = {f"p{round(100 * q):02d}": ordered[round(q * last)] for q in QUANTILES}
    return {**found, "mean": round(math.fsum(ordered) / len(ordered), 6)}


def difficulty(tasks: Iterable[Task], rejections: Iterable[Rejection], n_samples: int) -> dict[str, Any]:
    """How often the base model solves what reached it: candidates by number of right samples, 0 to n_samples.

    The rejected count too: a pile at either end is difficulty collapse, which the accepted alone cannot show.
    """
    histogram = [0] * (n_samples + 1)
    for rows in (tasks, rejections):
        for row in rows:
            if row.n_correct is not None:
                histogram[row.n_correct] += 1
    sampled = sum(histogram)
    return {
        "sampled": sampled,
        "right_of_n": histogram,
        "mean_pass_rate": round(sum(k * n for k, n in enumerate(histogram)) / (sampled * n_samples), 6)
        if sampled
        else None,
        "share_never": round(histogram[0] / sampled, 6) if sampled else None,
        "share_always": round(histogram[-1] / sampled, 6) if sampled else None,
    }


def lengths(problems: Sequence[str]) -> dict[str, Any]:
    """Words a problem: quantiles, and counts in bins of WORD_BIN words named by their lower edge."""
    words = [word_count(problem) for problem in problems]
    bins = Counter(n // WORD_BIN * WORD_BIN for n in words)
    return {"words": quantiles(words), "bins": {f"{edge:03d}": n for edge, n in sorted(bins.items())}}


def answers(labels: Sequence[int]) -> dict[str, Any]:
    """The answers: quantiles, how many differ, counts by number of digits, and the commonest."""
    digits = Counter(("-" if label < 0 else "") + str(len(str(abs(label)))) for label in labels)
    common = sorted(Counter(labels).items(), key=lambda item: (-item[1], item[0]))[:TOP]
    return {
        "value": quantiles(labels),
        "distinct": len(set(labels)),
        "by_digits": dict(sorted(digits.items())),
        "commonest": [{"answer": answer, "tasks": n} for answer, n in common],
    }


def diversity(problems: Sequence[str], masker: Masker) -> dict[str, Any]:
    """How different a set of problems is from itself.

    Returns:
        `distinct`: normal forms over problems; `distinct_masked`: the same after numbers and names are masked, so
        1 - it is the share that retells a story already there; `largest_stories`: the commonest masked texts;
        `nearest_other`: quantiles of each problem's largest Jaccard similarity (word 3-grams) to another one;
        `distinct_3grams`: distinct word 3-grams over all of them (distinct-n, Li et al. 2016).
    """
    n = len(problems)
    if n == 0:
        return {"problems": 0}
    stories = Counter(masker.mask(problem) for problem in problems)
    words = [tokens(problem) for problem in problems]
    grams = [gram for row in _shingle_index(words).sets for gram in row]
    common = sorted(stories.items(), key=lambda item: (-item[1], item[0]))[:TOP]
    return {
        "problems": n,
        "distinct": round(len({normalise(problem) for problem in problems}) / n, 6),
        "distinct_masked": round(len(stories) / n, 6),
        "largest_stories": [{"masked": text, "tasks": count} for text, count in common if count > 1],
        "nearest_other": quantiles(nearest_other(words)),
        "distinct_3grams": round(len(set(grams)) / len(grams), 6) if grams else None,
    }


def _shingle_index(words: Iterable[Sequence[str]]) -> ShingleIndex:
    return ShingleIndex(((str(i), w) for i, w in enumerate(words)), SHINGLE, jaccard)


def nearest_other(words: Sequence[Sequence[str]]) -> list[float]:
    """Each text's largest similarity to any other text of the same set, 0 to 1."""
    index = _shingle_index(words)
    return [round(index.nearest(text, skip=i)[1], 6) for i, text in enumerate(words)]


def nearest_curated(problems: Iterable[str], curated: Sequence[CuratedRow]) -> dict[str, float] | None:
    """Quantiles of each problem's largest Jaccard similarity (word 3-grams) to a curated question."""
    index = ShingleIndex(((row.id, tokens(row.question)) for row in curated), SHINGLE, jaccard)
    return quantiles([round(index.nearest(tokens(problem))[1], 6) for problem in problems])


@dataclass
class Spent:
    """What solving cost, counted as it streams by. Journaled samples count: they were paid for once."""

    requests: int = 0
    samples: int = 0
    tokens: int = 0
    truncated: int = 0

    def metered(self, solve: Solve) -> Callable[[Iterable[Labelled]], Iterator[list[Completion]]]:
        """The same solver, counted."""

        def counted(rows: Iterable[Labelled]) -> Iterator[list[Completion]]:
            for completions in solve(rows):
                self.requests += 1
                self.samples += len(completions)
                self.tokens += sum(c.n_tokens for c in completions)
                self.truncated += sum(c.stop_reason == "length" for c in completions)
                yield completions

        return counted


def cost(accepted: int, proposal_tokens: int, spent: Spent) -> dict[str, Any]:
    """Sampled tokens an accepted task: to propose the judged candidates, and to solve the survivors."""
    total = proposal_tokens + spent.tokens
    return {
        "proposal_tokens": proposal_tokens,
        "solve_tokens": spent.tokens,
        "solve_requests": spent.requests,
        "share_of_samples_truncated": round(spent.truncated / spent.samples, 6) if spent.samples else None,
        "tokens_per_accepted": round(total / accepted, 1) if accepted else None,
    }


def pace(accepted: int, seconds: dict[str, float]) -> dict[str, Any]:
    """Wall seconds an accepted task, by stage and together. Volatile: for timing files only."""
    per_task = {f"{stage}_seconds": round(s, 3) for stage, s in seconds.items()}
    return {**per_task, "seconds_per_accepted": round(math.fsum(seconds.values()) / accepted, 3) if accepted else None}


def summarise(
    tasks: Sequence[Task], rejections: Iterable[Rejection], n_samples: int, curated: Sequence[CuratedRow]
) -> dict[str, Any]:
    """All of the above but the cost, for the accepted tasks; `reference` is as many curated questions.

    Args:
        rejections: streamed; only the pass rates are kept.
        curated: the questions to compare with, in their order; also where the masker learns what a name is.
    """
    masker = Masker.learn(row.question for row in curated)
    problems = [task.problem for task in tasks]
    reference = [row.question for row in curated[: len(problems)]]
    return {
        "difficulty": difficulty(tasks, rejections, n_samples),
        "lengths": lengths(problems),
        "answers": answers([task.label for task in tasks]),
        "diversity": diversity(problems, masker),
        "nearest_curated": nearest_curated(problems, curated),
        "reference": {"lengths": lengths(reference), "diversity": diversity(reference, masker)},
    }


def headline(found: dict[str, Any]) -> dict[str, Any]:
    """The few numbers of `summarise` and `cost` worth comparing between runs, flat, for metrics/filter.json."""
    diversity, near = found["diversity"], found["nearest_curated"]
    return {
        "mean_pass_rate": found["difficulty"]["mean_pass_rate"],
        "share_never_solved": found["difficulty"]["share_never"],
        "share_always_solved": found["difficulty"]["share_always"],
        "tokens_per_accepted": found["cost"]["tokens_per_accepted"],
        "distinct": diversity.get("distinct"),
        "distinct_masked": diversity.get("distinct_masked"),
        "nearest_other_median": diversity["nearest_other"]["p50"] if diversity["problems"] else None,
        "nearest_curated_median": near["p50"] if near else None,
    }
