"""The cookbook's own recipes, unmodified, as command lines with `base_url` set."""

from __future__ import annotations

from pathlib import Path

import pytest

from selfgen.embedded.launch import running_server
from selfgen.embedded.store import Store
from tests.compat.conftest import MODEL, rows

pytestmark = pytest.mark.compat
SMALL = {"model_name": MODEL, "lora_rank": 4, "max_tokens": 8}


def test_rl_loop(recipe, served, tmp_path) -> None:
    recipe(
        "tinker_cookbook.recipes.rl_loop",
        served,
        **SMALL,
        batch_size=4,
        group_size=4,
        max_steps=2,
        log_path=tmp_path / "l",
    )
    assert [r["progress/batch"] for r in rows(tmp_path / "l" / "metrics.jsonl")] == [0, 1]


def test_sl_loop_lowers_the_loss(recipe, served, tmp_path) -> None:
    recipe(
        "tinker_cookbook.recipes.sl_loop", served, model_name=MODEL, lora_rank=4, batch_size=8, max_steps=4,
        learning_rate=1e-2, log_path=tmp_path / "l",
    )  # fmt: skip
    losses = [r["train_mean_nll"] for r in rows(tmp_path / "l" / "metrics.jsonl")]
    assert len(losses) == 4
    assert losses[-1] < losses[0]


def test_rl_basic(recipe, served, tmp_path) -> None:
    builder = {"batch_size": 4, "group_size": 4, "renderer_name": "qwen3_instruct", "model_name_for_tokenizer": MODEL}
    recipe(
        "tinker_cookbook.recipes.rl_basic",
        served,
        **SMALL,
        max_steps=1,
        log_path=tmp_path / "l",
        dataset_builder="tinker_cookbook.recipes.math_rl.math_env:Gsm8kDatasetBuilder",
        **{f"dataset_builder.{key}": value for key, value in builder.items()},
    )
    assert rows(tmp_path / "l" / "metrics.jsonl")


def math_rl(recipe, info, log: Path, env: str, **more) -> list[dict]:
    arguments = {"groups_per_batch": 4, "group_size": 4, "eval_every": 0, "save_every": 1, "max_steps": 2, **more}
    recipe(
        "tinker_cookbook.recipes.math_rl.train", info, **SMALL, env=env, learning_rate=1e-2, log_path=log,
        behavior_if_log_dir_exists="resume", **arguments,
    )  # fmt: skip
    return rows(log / "metrics.jsonl")


def test_math_rl_gsm8k_with_evaluation(recipe, served, tmp_path) -> None:
    metrics = math_rl(recipe, served, tmp_path / "l", "gsm8k", eval_every=1)
    assert len(metrics) == 2
    assert any("test/" in key for row in metrics for key in row)


def test_two_runs_of_math_rl_arithmetic_end_with_the_same_bits(recipe, served, tmp_path) -> None:
    digests = []
    for name in ("one", "other"):
        # Servers of their own: the recipe gives no LoRA seed, and the server counts unseeded clients.
        with running_server([MODEL], tmp_path / f"state-{name}", seed=3) as info:
            math_rl(recipe, info, tmp_path / name, "arithmetic")
        last = rows(tmp_path / name / "checkpoints.jsonl")[-1]
        digests.append(Store(tmp_path / f"state-{name}").entry(last["state_path"]).meta["digest"])
    assert digests[0] == digests[1]
