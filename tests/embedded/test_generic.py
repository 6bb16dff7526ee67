"""Architectures beyond the Llama family, through transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from selfgen.embedded.decoder import Decoder
from selfgen.embedded.generic import GenericDecoder
from selfgen.embedded.lanes import GenericLane
from selfgen.embedded.lora import Layout, LoraSpec
from selfgen.embedded.packing import pack
from selfgen.embedded.sampler import Adapter, SampleParams, Sampler
from selfgen.embedded.trainer import AdamParams, Datum, TrainingRun
from tests.embedded.test_sampler import job, run


def tiny_gpt2(folder) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=103, n_positions=128, n_embd=32, n_layer=2, n_head=4)
    GPT2LMHeadModel(config).save_pretrained(folder)


def tiny_hybrid(folder) -> None:
    """Linear attention with a recurrent state in three layers of four, as Qwen3.5 has."""
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    torch.manual_seed(0)
    config = Qwen3_5TextConfig(
        vocab_size=103,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        max_position_embeddings=256,
    )
    Qwen3_5ForCausalLM(config).save_pretrained(folder)


@pytest.fixture(scope="module", params=["gpt2", "qwen3.5"])
def model(request, tmp_path_factory) -> GenericDecoder:
    folder = tmp_path_factory.mktemp(request.param)
    {"gpt2": tiny_gpt2, "qwen3.5": tiny_hybrid}[request.param](folder)
    return GenericDecoder.load(folder, torch.device("cpu"), torch.float32)


def adapter(model: GenericDecoder) -> Adapter:
    layout = Layout.of(model, LoraSpec(4, 0))
    return Adapter("a", layout, torch.randn(layout.size, generator=torch.Generator().manual_seed(1)) * 0.05)


def test_sampled_logprobs_equal_the_training_pass(model: GenericDecoder) -> None:
    on = adapter(model)
    jobs = [job([5, 6, 7], SampleParams(12), 3, on), job(list(range(3, 30)), SampleParams(9), 2, on)]
    run(Sampler(model, [GenericLane(model, str)]), jobs)
    trainer = TrainingRun(model, on.layout, on.flat)
    for each in jobs:
        for sequence in each.sequences:
            whole = np.array(each.prompt + sequence.tokens)
            datum = Datum(whole[:-1], whole[1:], {})
            _, (logps,) = trainer.forward_backward([datum], "cross_entropy", {}, backward=False)
            np.testing.assert_allclose(logps[len(each.prompt) - 1 :], sequence.logps, atol=1e-4)


def test_results_do_not_depend_on_other_requests(model: GenericDecoder) -> None:
    on = adapter(model)

    def tokens(company: bool) -> list[list[int]]:
        mine = job([5, 6, 7], SampleParams(20), 4, on)
        others = [job([9, 8], SampleParams(15), 2), job([3, 4, 5, 6], SampleParams(5), 1, on)] if company else []
        run(Sampler(model, [GenericLane(model, str)]), [*others, mine])
        return [s.tokens for s in mine.sequences]

    assert tokens(True) == tokens(False)


def test_training_lowers_the_loss(model: GenericDecoder) -> None:
    layout = Layout.of(model, LoraSpec(4, 0))
    trainer = TrainingRun(model, layout, layout.initial("base"))
    rng = np.random.default_rng(0)
    data = [Datum(t[:-1], t[1:], {}) for t in (rng.integers(3, 100, n) for n in (9, 20, 14))]
    losses = []
    for _ in range(8):
        losses.append(trainer.forward_backward(data, "cross_entropy", {}, backward=True)[0])
        trainer.optim_step(AdamParams(learning_rate=1e-2))
    assert losses[-1] < 0.8 * losses[0]


def test_it_agrees_with_the_packed_decoder(tiny, decoder: Decoder) -> None:
    generic = GenericDecoder.load(tiny, torch.device("cpu"), torch.float32)
    names = {m.name for m in Layout.of(decoder, LoraSpec(4, 0)).matrices}
    layout = Layout.of(generic, LoraSpec(4, 0))
    assert {m.name for m in layout.matrices} == names
    flat = torch.randn(layout.size, generator=torch.Generator().manual_seed(1)) * 0.05
    native = Layout.of(decoder, LoraSpec(4, 0))
    rng = np.random.default_rng(0)
    data = [Datum(t[:-1], t[1:], {}) for t in (rng.integers(3, 100, n) for n in (9, 20, 14))]
    one = TrainingRun(generic, layout, flat)
    other = TrainingRun(decoder, native, native.flatten(layout.named(flat)))
    losses = [r.forward_backward(data, "cross_entropy", {}, backward=True)[0] for r in (one, other)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert one.grad is not None
    assert other.grad is not None
    torch.testing.assert_close(native.flatten(layout.named(one.grad)), other.grad, rtol=1e-3, atol=1e-3)
    assert len(pack([d.tokens for d in data], 10)) == 3
