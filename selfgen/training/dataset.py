"""The training data of every arm, as the stock loop's own dataset type.

All arms go through this builder, so that the problems are the only thing that can differ between them: rows in order
through the cookbook's `MathEnv`, its stock worked example and its stock reward. Two things are added. `step` writes the
problem's id to the step's `logs`, so that the loop's rollout summaries say what each batch was trained on; and the
answer check runs under a timeout that is enforced (the stock one waits for its thread, and with it the whole loop).

The random-reward control replaces the reward by a coin and keeps everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import chz
from tinker_cookbook.recipes.math_rl.math_env import MathEnv
from tinker_cookbook.renderers import Renderer
from tinker_cookbook.rl.problem_env import ProblemGroupBuilder
from tinker_cookbook.rl.types import (
    Action,
    ActionExtra,
    Env,
    EnvGroupBuilder,
    Metrics,
    RLDataset,
    RLDatasetBuilder,
    StepResult,
    Trajectory,
)

from selfgen import rendering
from selfgen.evaluation.grading import equal, extract
from selfgen.records import Problem
from selfgen.training.coin import coin


class IdentifiedMathEnv(MathEnv):
    """The stock math environment, which also names the problem in the step's logs."""

    def __init__(
        self, problem_id: str, problem: str, answer: str, renderer: Renderer, convo_prefix: list | None = None
    ) -> None:
        super().__init__(problem, answer, renderer, convo_prefix=convo_prefix)
        self.problem_id = problem_id

    def check_answer(self, sample_str: str) -> bool:
        """The stock extractor and sympy grader, with the stock second as a limit that holds."""
        found = extract(sample_str)
        return found is not None and equal(found, self.answer)

    async def step(self, action: Action, *, extra: ActionExtra | None = None) -> StepResult:
        """The stock step, plus `logs["problem_id"]`."""
        result = await super().step(action, extra=extra)
        result.logs["problem_id"] = self.problem_id
        return result


class UnrewardedMathEnv(IdentifiedMathEnv):
    """The same environment with its reward withheld; its metrics still tell what the stock reward would have been."""

    async def step(self, action: Action, *, extra: ActionExtra | None = None) -> StepResult:
        """The stock step with reward 0."""
        result = await super().step(action, extra=extra)
        result.reward = 0.0
        return result


@dataclass(frozen=True)
class CoinGroupBuilder(ProblemGroupBuilder):
    """A group whose rewards are coin flips: 1 with probability `rate`, else 0, whatever was answered.

    The flips depend on (seed, step, group, sample) alone. Samples are numbered in the order of their tokens, so that
    the order in which a service happens to answer does not decide who gets which flip.
    """

    rate: float = 0.5
    seed: int = 0
    step: int = 0
    group: int = 0

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Env]
    ) -> list[tuple[float, Metrics]]:
        """One flip per trajectory."""
        tokens = [[token for turn in t.transitions for token in turn.ac.tokens] for t in trajectory_group]
        rank = {index: place for place, index in enumerate(sorted(range(len(tokens)), key=tokens.__getitem__))}
        return [
            (float(coin(self.rate, self.seed, self.step, self.group, rank[i])), {})
            for i in range(len(trajectory_group))
        ]


class ProblemDataset(RLDataset):
    """Batch i holds problems [i * groups_per_batch, (i + 1) * groups_per_batch), in order."""

    def __init__(self, builder: ProblemDatasetBuilder) -> None:
        self._builder = builder
        tokenizer = rendering.tokenizer(builder.tokenizer_name)
        self._renderer = rendering.renderer(builder.renderer_name, tokenizer)
        self._prefix = MathEnv.standard_fewshot_prefix() if builder.few_shot == "standard" else None

    def __len__(self) -> int:
        """Full batches: a short last batch would be a different optimizer step."""
        return len(self._builder.problems) // self._builder.groups_per_batch

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        """Group builders of batch `index`."""
        size = self._builder.groups_per_batch
        problems = self._builder.problems[index * size : (index + 1) * size]
        return [self._group(problem, index, group) for group, problem in enumerate(problems)]

    def _group(self, problem: Problem, step: int, group: int) -> EnvGroupBuilder:
        b = self._builder
        kind = IdentifiedMathEnv if b.reward == "stock" else UnrewardedMathEnv
        thunk = partial(kind, problem.id, problem.question, problem.answer, self._renderer, convo_prefix=self._prefix)
        if b.reward == "stock":
            return ProblemGroupBuilder(thunk, b.group_size, dataset_name=b.name)
        return CoinGroupBuilder(
            thunk, b.group_size, dataset_name=b.name, rate=b.rate, seed=b.seed, step=step, group=group
        )


@chz.chz
class ProblemDatasetBuilder(RLDatasetBuilder):
    """Builds an arm's dataset from its problems.

    Attributes:
        problems: in training order (see `selfgen.training.subset.select`).
        groups_per_batch: problems in one training step.
        group_size: samples per problem.
        tokenizer_name, renderer_name: as in params.model.
        few_shot: the stock worked example, or none.
        reward: "stock", or "random" for coin flips at `rate`, fixed by `seed`.
        name: tag of every group in the rollout summaries.
    """

    problems: tuple[Problem, ...]
    groups_per_batch: int
    group_size: int
    tokenizer_name: str
    renderer_name: str
    few_shot: Literal["standard", "none"] = "standard"
    reward: Literal["stock", "random"] = "stock"
    rate: float = 0.5
    seed: int = 0
    name: str = "problems"

    async def __call__(self) -> tuple[ProblemDataset, None]:
        """The training set, and no test set: evaluation is greedy and a stage of its own."""
        return ProblemDataset(self), None
