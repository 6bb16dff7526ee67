"""The math environment's prompt, as messages, without importing the environment.

`tinker_cookbook.recipes.math_rl.math_env.MathEnv` appends its suffix to the problem and prefixes one worked example
when its prefix is "standard". Filter, audit-free solving and evaluation must send the same prompt as training; a test
compares these messages with `MathEnv.initial_observation`, token for token.
"""

from __future__ import annotations

from typing import Literal

SUFFIX = " Write your answer in \\boxed{} format."

STANDARD_PREFIX: tuple[dict[str, str], ...] = (
    {"role": "user", "content": "How many r's are in strawberry?" + SUFFIX},
    {
        "role": "assistant",
        "content": (
            "Let's spell the word out and number all the letters: "
            "1) s 2) t 3) r 4) a 5) w 6) b 7) e 8) r 9) r 10) y. "
            "We have r's at positions 3, 8, and 9. \\boxed{3}"
        ),
    },
)


def math_messages(problem: str, few_shot: Literal["standard", "none"]) -> list[dict[str, str]]:
    """Messages that ask for `problem` the way the stock math environment does.

    Args:
        problem: the problem's text alone; neither a label nor code can enter here.
        few_shot: "standard" puts the stock worked example first, "none" does not.
    """
    prefix = [dict(message) for message in STANDARD_PREFIX] if few_shot == "standard" else []
    return [*prefix, {"role": "user", "content": problem + SUFFIX}]
