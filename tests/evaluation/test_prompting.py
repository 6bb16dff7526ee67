"""The prompt of filter and evaluation is the training environment's, token for token."""

import asyncio

import pytest
from tinker_cookbook.recipes.math_rl.math_env import MathEnv

from selfgen import rendering
from selfgen.evaluation import prompting

PROBLEMS = ["Ann has 3 apples and buys 4 more. How many has she?", "Ünïcode “quotes” 3 × 4 = ?", ""]


@pytest.mark.parametrize("few_shot", ["standard", "none"])
@pytest.mark.parametrize("renderer_name", ["qwen3_instruct", "role_colon"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_messages_give_the_stock_environments_prompt(few_shot, renderer_name, problem):
    renderer = rendering.renderer(renderer_name, "selfgen/policy")
    prefix = MathEnv.standard_fewshot_prefix() if few_shot == "standard" else None
    stock, stop = asyncio.run(MathEnv(problem, "7", renderer, convo_prefix=prefix).initial_observation())
    ours = rendering.prompt_tokens(renderer, prompting.math_messages(problem, few_shot))
    assert ours == tuple(stock.to_ints())
    assert rendering.stop(renderer) == tuple(stop)


def test_suffix_and_example_are_the_stock_ones():
    assert MathEnv.question_suffix() == prompting.SUFFIX
    assert MathEnv.standard_fewshot_prefix() == list(prompting.STANDARD_PREFIX)


def test_messages_are_fresh_objects_so_that_no_caller_changes_the_next_prompt():
    prompting.math_messages("a", "standard")[0]["content"] = "changed"
    assert prompting.math_messages("a", "standard")[0]["content"].startswith("How many r's")
