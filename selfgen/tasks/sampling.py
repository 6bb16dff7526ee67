"""What the task stages ask of the service: proposals, and the base model's own attempts at a task."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from selfgen.records import Candidate, Completion

if TYPE_CHECKING:
    from selfgen.params import GenerateParams, SolveParams
    from selfgen.service import Sampler
    from selfgen.tasks.label import Labelled
    from selfgen.tasks.propose import Proposal


def propose(
    sampler: Sampler, renderer: Any, params: GenerateParams, start: int = 0, count: int | None = None
) -> Iterator[Candidate]:
    """Candidates `start` onward in generation order, `params.n_candidates` of them unless `count` says otherwise."""
    from selfgen.rendering import prompt_tokens, stop
    from selfgen.service import SampleRequest
    from selfgen.tasks.propose import proposals

    n = params.n_candidates if count is None else count
    stops = stop(renderer)
    asked: deque[Proposal] = deque()

    def requests() -> Iterator[SampleRequest]:
        for proposal in proposals(params.instruction, params.style, params.seed, n, start):
            asked.append(proposal)
            yield SampleRequest(
                prompt=prompt_tokens(renderer, proposal.messages, proposal.prefill),
                n=1,
                max_tokens=params.max_tokens,
                temperature=params.temperature,
                seed=proposal.seed,
                stop=stops,
            )

    for completions in sampler.sample_stream(requests()):
        found, proposal = completions[0], asked.popleft()
        yield Candidate(
            id=f"cand-{proposal.index:06d}",
            index=proposal.index,
            text=proposal.prefill + found.text,
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
