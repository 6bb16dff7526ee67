"""What the task stages ask of the service: proposals, and the base model's own attempts at a task."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from selfgen.records import Candidate, Completion
from selfgen.tasks.label import Labelled

if TYPE_CHECKING:
    from selfgen.params import GenerateParams, SolveParams
    from selfgen.service import Sampler


def candidate_seed(seed: int, index: int) -> int:
    """The sampling seed of candidate `index`: its own, so that more candidates leave the earlier ones as they are."""
    return int.from_bytes(hashlib.sha256(f"candidate:{seed}:{index}".encode()).digest()[:4], "big") >> 1


def propose(
    sampler: Sampler, renderer: Any, params: GenerateParams, start: int = 0, count: int | None = None
) -> Iterator[Candidate]:
    """Candidates `start` onward in generation order, `params.n_candidates` of them unless `count` says otherwise."""
    from selfgen.rendering import prompt_tokens, stop
    from selfgen.service import SampleRequest
    from selfgen.tasks.propose import proposal

    indices = range(start, start + (params.n_candidates if count is None else count))
    stops = stop(renderer)
    prefills: list[str] = []

    def requests() -> Iterator[SampleRequest]:
        for index in indices:
            asked = proposal(params, index)
            prefills.append(asked.prefill)
            yield SampleRequest(
                prompt=prompt_tokens(renderer, asked.messages, asked.prefill),
                n=1,
                max_tokens=params.max_tokens,
                temperature=params.temperature,
                seed=candidate_seed(params.seed, index),
                stop=stops,
            )

    for position, completions in enumerate(sampler.sample_stream(requests())):
        found, index = completions[0], indices[position]
        yield Candidate(
            id=f"cand-{index:06d}",
            index=index,
            text=prefills[position] + found.text,
            n_tokens=found.n_tokens,
            stop_reason=found.stop_reason,
        )


def attempts(
    sampler: Sampler, renderer: Any, solve: SolveParams, few_shot: Literal["standard", "none"]
) -> Callable[[Iterable[Labelled]], Iterator[list[Completion]]]:
    """The base model's `solve.n_samples` attempts at each task, from its text alone, with the training prompt."""
    from selfgen.evaluation.prompting import math_messages
    from selfgen.rendering import prompt_tokens, stop
    from selfgen.service import SampleRequest

    def ask(tasks: Iterable[Labelled]) -> Iterator[list[Completion]]:
        return sampler.sample_stream(
            SampleRequest(
                prompt=prompt_tokens(renderer, math_messages(task.problem, few_shot)),
                n=solve.n_samples,
                max_tokens=solve.max_tokens,
                temperature=solve.temperature,
                seed=solve.seed,
                stop=stop(renderer),
            )
            for task in tasks
        )

    return ask
