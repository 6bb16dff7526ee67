"""The decoder computes what transformers computes."""

from __future__ import annotations

import pytest
import torch

from selfgen.embedded.attention import PackedCausal, SlotAttention, SlotCache
from selfgen.embedded.config import DecoderConfig, Unsupported, content_digest, end_tokens
from selfgen.embedded.decoder import Decoder
from selfgen.embedded.errors import RequestError
from selfgen.embedded.lora import no_lora
from tests.embedded.tiny import write_model

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
VARIANTS = {
    "llama": ("llama", {}),
    "llama untied": ("llama", {"tie_word_embeddings": False}),
    "llama multi-head": ("llama", {"num_key_value_heads": 4}),
    "llama3 rope": ("llama", {"rope_parameters": LLAMA3}),
    "linear rope": ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {}),
}


def packed_logits(decoder: Decoder, sequences: list[list[int]]) -> list[torch.Tensor]:
    lengths = [len(s) for s in sequences]
    tokens = torch.tensor([t for s in sequences for t in s])
    positions = torch.cat([torch.arange(n) for n in lengths])
    hidden = decoder.forward(tokens, decoder.rope(positions), PackedCausal(decoder.config, lengths))
    return list(decoder.logits(hidden).split(lengths))


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_equal_transformers(variant: str, tmp_path) -> None:
    from transformers import AutoModelForCausalLM

    family, overrides = VARIANTS[variant]
    folder = write_model(tmp_path / "m", family, **overrides)
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    decoder = Decoder.load(folder, torch.device("cpu"), torch.float32)
    sequences = [[5, 9, 11, 40, 3], list(range(3, 100)), [7]]
    with torch.no_grad():
        for sequence, logits in zip(sequences, packed_logits(decoder, sequences), strict=True):
            expected = reference(torch.tensor([sequence])).logits[0]
            torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


def test_decoding_with_the_cache_equals_the_whole_forward_pass(decoder: Decoder) -> None:
    sequences = [list(range(3, 3 + n)) for n in (5, 70, 12)]
    steps = 4
    cache = SlotCache(decoder.config, decoder.device, decoder.dtype)
    cache.reserve(4, 80)
    with torch.no_grad():
        whole = packed_logits(decoder, [s + [4] * steps for s in sequences])
        for slot, sequence in enumerate(sequences):
            ((kept, _),) = decoder.prompts([sequence], no_lora)
            cache.fill(slot, slot + 1, kept)
        for step in range(steps):
            positions = torch.tensor([len(s) + step for s in sequences])
            attend = SlotAttention(cache, positions)
            hidden = decoder.forward(torch.tensor([4] * 3), decoder.rope(positions), attend)
            for row, logits in enumerate(decoder.logits(hidden)):
                torch.testing.assert_close(logits, whole[row][positions[row]], rtol=1e-4, atol=1e-4)


def test_other_architectures_are_told_apart(tmp_path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(Unsupported, match="gpt2"):
        DecoderConfig.read(tmp_path)
    with pytest.raises(RequestError, match=r"no config\.json"):
        DecoderConfig.read(tmp_path / "nowhere")


def test_missing_weights_are_named(tiny) -> None:
    with pytest.raises(RequestError, match="embed_tokens"):
        Decoder(DecoderConfig.read(tiny), {}, torch.device("cpu"), torch.float32)


def test_digest_is_the_content(tmp_path) -> None:
    one, same = write_model(tmp_path / "a"), write_model(tmp_path / "b")
    other = write_model(tmp_path / "c", seed=1)
    assert content_digest(one) == content_digest(same) != content_digest(other)
    assert end_tokens(one) == frozenset({2})
