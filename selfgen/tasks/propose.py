"""What the model is asked, once per candidate: messages and a seed of its own. Pure; rendering to tokens is not here.

The registered plan sends the one fixed instruction alone (`style: instruction`). Other scales may show examples as
earlier chat turns (`style: chat_examples`): a small base model then keeps the format far more often, at the price
that its tasks lean on the examples, which is why copies of them are recognisable (`is_example`).
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from selfgen.tasks.examples import EXAMPLES, TOPICS, Example

SHOTS: Final = 3
PREFILL: Final = "Problem:"

Style = Literal["instruction", "chat_examples"]


@dataclass(frozen=True)
class Proposal:
    """One generation request. `messages` are {role, content} chat turns; the answer begins with `prefill`.

    `seed` (31 bits) depends on the generation seed and `index` alone, so raising the number of candidates keeps
    every earlier request as it was.
    """

    index: int
    messages: tuple[dict[str, str], ...]
    prefill: str
    seed: int

    @property
    def id(self) -> str:
        """The id of the candidate this request produces."""
        return f"cand-{self.index:06d}"

    def text(self, completion: str) -> str:
        """The model's whole answer: what it was given to start with and what it wrote."""
        return self.prefill + completion


def proposals(instruction: str, style: Style, seed: int, count: int, start: int = 0) -> Iterator[Proposal]:
    """Requests `start` to `count` - 1, in generation order.

    Args:
        instruction: the fixed instruction, sent as a user message without change.
        style: "instruction" (nothing else is sent) or "chat_examples".
        seed: `generate.seed`; fixes the example draws and every request's sampling seed.
        count: total number of candidates.
        start: first index to yield.
    """
    for index in range(start, count):
        if style == "instruction":
            messages: tuple[dict[str, str], ...] = ({"role": "user", "content": instruction},)
            prefill = ""
        else:
            messages = _with_examples(instruction, seed, index)
            prefill = PREFILL
        yield Proposal(index, messages, prefill, _digest("sample", seed, index) >> 225)


def is_example(problem: str) -> bool:
    """True for a problem that repeats one of the shown examples, up to case, spacing and punctuation."""
    return _words(problem) in _EXAMPLE_WORDS


def _with_examples(instruction: str, seed: int, index: int) -> tuple[dict[str, str], ...]:
    draw = random.Random(_digest("examples", seed, index))
    shown = draw.sample(EXAMPLES, SHOTS)
    topic = draw.choice(TOPICS)
    messages = []
    for example in shown:
        messages.append({"role": "user", "content": _ask(instruction, example.topic)})
        messages.append({"role": "assistant", "content": answer(example)})
    messages.append({"role": "user", "content": _ask(instruction, topic)})
    return tuple(messages)


def answer(example: Example) -> str:
    """An example as the model is meant to write it."""
    return f"{PREFILL} {example.problem}\nSolution:\n```python\n{example.code}\n```"


def _ask(instruction: str, topic: str) -> str:
    return f"{instruction} Topic: {topic}."


def _digest(purpose: str, seed: int, index: int) -> int:
    """256 bits from sha256, so that neighbouring seeds and indices share nothing."""
    return int.from_bytes(hashlib.sha256(f"{purpose}:{seed}:{index}".encode()).digest())


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


_EXAMPLE_WORDS: Final = frozenset(_words(example.problem) for example in EXAMPLES)
