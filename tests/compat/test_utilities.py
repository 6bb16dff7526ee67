"""Cookbook utilities against the server: evaluator, checkpoint helpers, download of weights that PEFT loads."""

from __future__ import annotations

import asyncio

import pytest
import tinker
import torch
from tinker import types

pytestmark = pytest.mark.compat


@pytest.fixture
def service(served, monkeypatch) -> tinker.ServiceClient:
    monkeypatch.setenv("TINKER_API_KEY", served.api_key)
    monkeypatch.setenv("TINKER_BASE_URL", served.base_url)
    return tinker.ServiceClient()


@pytest.fixture
def trained(service, served):
    client = service.create_lora_training_client(served.model, rank=4, seed=0).result()
    datum = types.Datum(
        model_input=types.ModelInput.from_ints([5, 6, 7, 8]), loss_fn_inputs={"target_tokens": [6, 7, 8, 9]}
    )
    for _ in range(3):
        client.forward_backward([datum], "cross_entropy").result()
        client.optim_step(types.AdamParams(learning_rate=1e-2)).result()
    return client


def test_rl_test_set_evaluator(service, served) -> None:
    from tinker_cookbook.recipes.math_rl.math_env import Gsm8kDatasetBuilder
    from tinker_cookbook.rl.metric_util import RLTestSetEvaluator

    builder = Gsm8kDatasetBuilder(
        batch_size=4, group_size=1, renderer_name="qwen3_instruct", model_name_for_tokenizer=served.model
    )
    _, test = asyncio.run(builder())
    test.ds = test.ds.select(range(6))
    evaluator = RLTestSetEvaluator(test, max_tokens=8)
    metrics = asyncio.run(evaluator(service.create_sampling_client(base_model=served.model).result()))
    assert any(key.endswith("reward/total") for key in metrics)


def test_checkpoint_utilities(trained, tmp_path) -> None:
    from tinker_cookbook import checkpoint_utils

    checkpoint_utils.save_checkpoint(
        training_client=trained, name="000001", log_path=str(tmp_path), kind="both", loop_state={"batch": 1}
    )
    last = checkpoint_utils.get_last_checkpoint(str(tmp_path))
    assert last is not None
    assert last.batch == 1
    assert last.state_path.endswith("/weights/000001")


@pytest.mark.parametrize("kind", ["external", "training"])
def test_downloaded_weights_load_in_peft_and_give_the_servers_logprobs(
    kind, trained, served, workplace, tmp_path
) -> None:
    from peft import PeftModel
    from tinker_cookbook.weights import download
    from transformers import AutoModelForCausalLM

    saved = trained.save_weights_external("peft") if kind == "external" else trained.save_state("peft", overwrite=True)
    folder = download(tinker_path=saved.result().path, output_dir=str(tmp_path / "adapter"))
    base = AutoModelForCausalLM.from_pretrained(workplace / served.model, dtype=torch.float32)
    model = PeftModel.from_pretrained(base, folder)
    tokens = [5, 6, 7, 8, 9, 10]
    with torch.no_grad():
        table = torch.log_softmax(model(torch.tensor([tokens])).logits[0], dim=-1)
    expected = table[:-1].gather(1, torch.tensor(tokens[1:]).unsqueeze(1)).squeeze(1).tolist()
    datum = types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs={"target_tokens": tokens[1:]}
    )
    given = trained.forward([datum], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data
    assert list(given) == pytest.approx(expected, abs=1e-4)
