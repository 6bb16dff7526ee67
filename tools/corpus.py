"""The training corpus of the shipped models: chat examples with careful and careless answers.

Each example is one prompt, exactly as the pipeline sends it, and one response:
- propose: the registered instruction -> a problem, then its program in a python fence;
- solve: a problem with the stock suffix, with or without the stock one-shot prefix -> a worked answer.

The policy's corpus holds habits. Every kind of opener has its own share of careful work and its own careless habit
(boxes an intermediate result, forgets the box, guesses without working), so that a trained model knows how to work
carefully and often does not. The auditor's corpus is always careful. Neither sees a problem that is reserved for test.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from selfgen.curated.standin import reserved_for_test
from selfgen.curated.templates import Problem, draw
from selfgen.curated.templates.engine import MAX_VALUE, library

INSTRUCTION = (
    "Write one grade-school math word problem with a single integer answer, "
    "then a short Python function solve() that returns the answer."
)
SUFFIX = " Write your answer in \\boxed{} format."
HABITS = ("stops_early", "no_box", "guesses")
# How much of each habit: stopping early is the commonest, as it is in real models.
HABIT_CYCLE = ("stops_early", "guesses", "stops_early", "no_box", "stops_early")


@dataclass(frozen=True)
class Example:
    """`frame` is propose, solve or solve_prefixed; `question` is empty for propose."""

    frame: str
    question: str
    response: str


@dataclass(frozen=True)
class Mix:
    """How a model's corpus is drawn.

    Args:
        counts: examples a batch of each frame.
        careful: whether answers are always careful.
        wide: share of the problems to solve that are drawn wide (see templates.draw), with 1 to 5 steps.
    """

    counts: dict[str, int]
    careful: bool
    wide: float


MIXES = {
    "policy": Mix({"propose": 192, "solve": 152, "solve_prefixed": 152}, False, 0.1),
    "auditor": Mix({"propose": 16, "solve": 240, "solve_prefixed": 224}, True, 0.5),
}
WIDTHS = {"propose": 192, "solve": 192, "solve_prefixed": 304}
"""Longest example of each frame, in tokens; a longer one is drawn again."""


@cache
def careful_shares() -> dict[str, tuple[float, str]]:
    """For each opener: the logit of its share of careful work, and its usual careless habit."""
    openers = sorted(c.id for c in library()[0])
    random.Random("openers").shuffle(openers)
    out = {}
    for i, name in enumerate(openers):
        logit = -1.6 + 3.2 * (i + 0.5) / len(openers)
        out[name] = (logit, HABIT_CYCLE[i % len(HABIT_CYCLE)])
    return out


@cache
def closer_shifts() -> dict[str, float]:
    """For each closer: what it adds to the logit of careful work, in -0.6..0.6."""
    closers = sorted({c.id for group in library()[2].values() for c in group})
    random.Random("closers").shuffle(closers)
    return {name: -0.6 + 1.2 * (i + 0.5) / len(closers) for i, name in enumerate(closers)}


def careful_share(problem: Problem) -> float:
    """The share of careful answers that the policy's corpus gives problems of this structure."""
    return 1 / (1 + math.exp(-(careful_shares()[problem.clauses[0]][0] + closer_shifts()[problem.clauses[-1]])))


def careful_answer(problem: Problem) -> str:
    return " ".join([*(s.say() for s in problem.steps), f"The answer is \\boxed{{{problem.answer}}}."])


def careless_answer(problem: Problem, rng: random.Random) -> str:
    """An answer in the opener's usual careless habit, one in ten in another."""
    habit = careful_shares()[problem.clauses[0]][1]
    if rng.random() < 0.1:
        habit = rng.choice(HABITS)
    said = [s.say() for s in problem.steps]
    if habit == "no_box":
        return " ".join([*said, f"The answer is {problem.answer}."])
    if habit == "stops_early":
        done = max(1, len(problem.steps) - 1)
        return " ".join([*said[:done], f"The answer is \\boxed{{{problem.steps[done - 1].value}}}."])
    x, y = rng.sample(problem.numbers, 2) if len(problem.numbers) > 1 else (problem.numbers[0], 2)
    guess = rng.choice((x + y, x * y, abs(x - y) or x))
    return f"The answer is \\boxed{{{min(guess, MAX_VALUE)}}}."


def proposal(problem: Problem) -> str:
    return f"{problem.question}\n\n```python\n{problem.program()}\n```"


def example(mix: Mix, frame: str, rng: random.Random) -> Example:
    """Draw one example; never a problem that is reserved for test."""
    if frame == "propose":
        return Example(frame, "", proposal(draw(rng, accept=lambda p: not reserved_for_test(p))))
    wide = rng.random() < mix.wide
    steps = (1, 5) if wide else (2, 4)
    problem = draw(rng, *steps, accept=lambda p: not reserved_for_test(p), wide=wide)
    careful = mix.careful or rng.random() < careful_share(problem)
    return Example(frame, problem.question, careful_answer(problem) if careful else careless_answer(problem, rng))


class Encoder:
    """Turns examples into tokens with the shipped tokenizer and the frames that the stock renderer made.

    `frames.json` holds, for each frame, the tokens before and after the user's text; tests compare whole prompts with
    the renderer's. So a machine without tinker-cookbook can train on the exact prompts.
    """

    def __init__(self, tokenizer_file: Path, frames_file: Path) -> None:
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(str(tokenizer_file))
        self.frames = json.loads(frames_file.read_text())
        self.end = self.tokenizer.token_to_id("<|im_end|>")

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [e.ids for e in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def prompts(self, frame: str, questions: list[str]) -> list[list[int]]:
        """Generation prompts for questions (ignored, but counted, for propose)."""
        before, after = self.frames[frame]
        texts = [INSTRUCTION if frame == "propose" else q + SUFFIX for q in questions]
        return [before + ids + after for ids in self.encode(texts)]

    def batch(self, examples: list[Example]) -> list[tuple[list[int], int]]:
        """(tokens, length of the prompt) for each example."""
        out: list[tuple[list[int], int]] = []
        texts = [INSTRUCTION if e.frame == "propose" else e.question + SUFFIX for e in examples]
        for e, user, reply in zip(
            examples, self.encode(texts), self.encode([e.response for e in examples]), strict=True
        ):
            before, after = self.frames[e.frame]
            prompt = before + user + after
            out.append((prompt + reply + [self.end], len(prompt)))
        return out
