"""Every arm's problems go through the stock environment; only the problems differ."""

import asyncio
import pickle
from collections import Counter

import pytest
import tinker
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.recipes.math_rl.math_env import Gsm8kDataset, MathEnv
from tinker_cookbook.rl.types import Trajectory, Transition

from selfgen import rendering
from selfgen.records import Problem
from selfgen.training.dataset import ProblemDatasetBuilder, coin

PROBLEMS = tuple(Problem(f"p{i}", f"What is {i} + {i}?", str(2 * i)) for i in range(11))


def builder(**changes):
    settings = {
        "problems": PROBLEMS,
        "groups_per_batch": 4,
        "group_size": 3,
        "tokenizer_name": "selfgen/policy",
        "renderer_name": "qwen3_instruct",
        "name": "arm",
    }
    return ProblemDatasetBuilder(**{**settings, **changes})


def dataset(**changes):
    train, test = asyncio.run(builder(**changes)())
    assert test is None
    return train


def envs(group):
    return asyncio.run(group.make_envs())


def answer(text, finished=True):
    tokenizer = rendering.tokenizer("selfgen/policy")
    stop = rendering.renderer("qwen3_instruct", "selfgen/policy").get_stop_sequences()
    return tokenizer.encode(text, add_special_tokens=False) + (stop[:1] if finished else [])


def step(env, text, finished=True):
    return asyncio.run(env.step(answer(text, finished)))


def test_batches_hold_the_rows_in_order_and_full_batches_only():
    data = dataset()
    assert len(data) == 2
    ids = [[envs(group)[0].problem_id for group in data.get_batch(i)] for i in range(2)]
    assert ids == [["p0", "p1", "p2", "p3"], ["p4", "p5", "p6", "p7"]]
    assert [len(envs(group)) for group in data.get_batch(0)] == [3] * 4
    assert data.get_batch(0)[0].logging_tags() == ["arm"]


@pytest.mark.parametrize("few_shot", ["standard", "none"])
def test_the_prompt_is_the_stock_datasets(few_shot):
    ours = envs(dataset(few_shot=few_shot).get_batch(0)[1])[0]
    renderer = rendering.renderer("qwen3_instruct", "selfgen/policy")
    stock = Gsm8kDataset.__new__(Gsm8kDataset)
    stock.renderer = renderer
    stock.convo_prefix = MathEnv.standard_fewshot_prefix() if few_shot == "standard" else None
    row = {"question": PROBLEMS[1].question, "answer": f"steps\n#### {PROBLEMS[1].answer}"}
    theirs = envs(stock._make_env_group_builder(row, 3))[0]
    (a, stop_a), (b, stop_b) = (asyncio.run(env.initial_observation()) for env in (ours, theirs))
    assert a.to_ints() == b.to_ints()
    assert stop_a == stop_b


@pytest.mark.parametrize("text", ["\\boxed{2}", "\\boxed{3}", "2", "\\boxed{2.0}", "\\boxed{1} \\boxed{2}"])
@pytest.mark.parametrize("finished", [True, False])
def test_reward_and_metrics_are_the_stock_ones_and_the_id_is_logged(text, finished):
    ours = envs(dataset().get_batch(0)[1])[0]
    stock = MathEnv(PROBLEMS[1].question, PROBLEMS[1].answer, ours.renderer)
    a, b = step(ours, text, finished), step(stock, text, finished)
    assert (a.reward, a.metrics, a.episode_done) == (b.reward, b.metrics, b.episode_done)
    assert a.logs == {"problem_id": "p1"}


def test_a_hanging_answer_does_not_hang_the_loop(monkeypatch):
    from selfgen.evaluation import grading

    monkeypatch.setattr(grading, "_SHORT", 0)  # no short cut: everything goes to the worker
    env = envs(dataset().get_batch(0)[1])[0]
    env.answer = "x+1"
    assert step(env, "\\boxed{((((((9**9)**9)**9)**9)**9)**9)**9}").metrics["correct"] == 0.0


@pytest.mark.parametrize("reward", ["stock", "random"])
def test_builders_survive_pickling_for_rollouts_in_other_processes(reward):
    group = pickle.loads(pickle.dumps(dataset(reward=reward, rate=0.3).get_batch(1)[2]))
    assert envs(group)[0].problem_id == "p6"
    again = pickle.loads(pickle.dumps(builder()))
    assert again.problems == PROBLEMS


def trajectories(texts):
    return [
        Trajectory(
            [Transition(tinker.ModelInput.from_ints([1]), TokensWithLogprobs(answer(t), None), 0.0, True)],
            tinker.ModelInput.empty(),
        )
        for t in texts
    ]


def flips(group, texts):
    return [reward for reward, _ in asyncio.run(group.compute_group_rewards(trajectories(texts), []))]


def test_the_random_reward_withholds_the_stock_reward_and_keeps_its_metrics():
    env = envs(dataset(reward="random").get_batch(0)[1])[0]
    result = step(env, "\\boxed{2}")
    assert result.reward == 0.0
    assert result.metrics == {"correct": 1.0, "format": 1.0}


def test_coin_flips_are_fixed_by_seed_step_group_and_sample():
    texts = ["\\boxed{2}", "\\boxed{4}", "nothing"]
    first, again = (dataset(reward="random", rate=0.5, seed=7).get_batch(1)[2] for _ in range(2))
    assert flips(first, texts) == flips(again, texts)
    assert {coin(0.5, 0, s, g, k) for s in range(3) for g in range(3) for k in range(3)} == {True, False}


def test_coin_flips_do_not_depend_on_the_order_in_which_a_service_answers():
    group = dataset(reward="random", rate=0.5, seed=3).get_batch(0)[0]
    texts = ["\\boxed{2}", "\\boxed{4}", "nothing"]
    by_text = dict(zip(texts, flips(group, texts), strict=True))
    turned = [texts[2], texts[0], texts[1]]
    assert flips(group, turned) == [by_text[t] for t in turned]


def test_coin_flips_come_at_the_measured_rate():
    n = 20_000
    shown = Counter(coin(0.3, 0, step, 0, 0) for step in range(n))
    assert abs(shown[True] / n - 0.3) < 4 * (0.3 * 0.7 / n) ** 0.5
    assert not any(coin(0.0, 0, step, 0, 0) for step in range(100))
    assert all(coin(1.0, 0, step, 0, 0) for step in range(100))
