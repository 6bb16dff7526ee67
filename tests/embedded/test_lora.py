"""Adapters: reproducible starts, and one result whichever way they are applied."""

from __future__ import annotations

import torch

from selfgen.embedded.attention import PackedCausal
from selfgen.embedded.decoder import Decoder
from selfgen.embedded.lora import ALPHA, AdapterStack, Layout, LoraSpec, TrainingLora, digest


def random_adapter(decoder: Decoder, rank: int, seed: int, **flags) -> tuple[Layout, torch.Tensor]:
    layout = Layout.of(decoder, LoraSpec(rank, seed, **flags))
    return layout, torch.randn(layout.size, generator=torch.Generator().manual_seed(seed)) * 0.1


def logits(decoder: Decoder, tokens: list[int], lora) -> torch.Tensor:
    attend = PackedCausal(decoder.config, [len(tokens)])
    hidden = decoder.forward(torch.tensor(tokens), decoder.rope(torch.arange(len(tokens))), attend, lora)
    return decoder.logits(hidden, lora)


def merged(decoder: Decoder, layout: Layout, flat: torch.Tensor) -> Decoder:
    """The same model with the adapter added into its weights; modules rebuilt from the fused ones."""
    import copy

    result = copy.copy(decoder)
    result.layers = [copy.copy(layer) for layer in decoder.layers]
    named = layout.named(flat)
    for (site, index), group in layout.places.items():
        half = len(group) // 2
        delta = torch.cat([named[b.name] @ named[a.name] for a, b in zip(group[:half], group[half:], strict=True)]) * (
            ALPHA / layout.spec.rank
        )
        if site == "unembed":
            result.unembed = decoder.unembed + delta
        else:
            setattr(result.layers[index], site, getattr(decoder.layers[index], site) + delta)
    return result


def test_training_and_stacked_forms_equal_merged_weights(decoder: Decoder) -> None:
    layout, flat = random_adapter(decoder, 4, 1)
    tokens = list(range(3, 40))
    with torch.no_grad():
        expected = logits(merged(decoder, layout, flat), tokens, lambda s, i, x, y: y)
        torch.testing.assert_close(
            logits(decoder, tokens, TrainingLora(layout, flat, torch.float32)), expected, rtol=1e-4, atol=1e-4
        )
        stack = AdapterStack([layout], [flat], decoder.device, decoder.dtype)
        torch.testing.assert_close(
            logits(decoder, tokens, stack.bind([0] * len(tokens))), expected, rtol=1e-4, atol=1e-4
        )


def test_each_row_of_a_mixed_batch_sees_only_its_own_adapter(decoder: Decoder) -> None:
    adapters = [random_adapter(decoder, 4, 1), random_adapter(decoder, 8, 2, mlp=False, unembed=False)]
    stack = AdapterStack([a[0] for a in adapters], [a[1] for a in adapters], decoder.device, decoder.dtype)
    tokens = list(range(3, 40))
    with torch.no_grad():
        for owner in (0, 1, -1):
            mixed = logits(decoder, tokens, stack.bind([owner] * len(tokens)))
            if owner < 0:
                alone = logits(decoder, tokens, lambda s, i, x, y: y)
            else:
                layout, flat = adapters[owner]
                alone = logits(decoder, tokens, TrainingLora(layout, flat, torch.float32))
            torch.testing.assert_close(mixed, alone, rtol=1e-4, atol=1e-4)


def test_initial_values_depend_on_base_rank_and_seed_alone(decoder: Decoder) -> None:
    def start(rank: int, seed: int, base: str = "base") -> str:
        return digest(Layout.of(decoder, LoraSpec(rank, seed)).initial(base))

    assert start(4, 0) == start(4, 0)
    assert len({start(4, 0), start(8, 0), start(4, 1), start(4, 0, "other")}) == 4


def test_a_fresh_adapter_changes_nothing_and_b_is_zero(decoder: Decoder) -> None:
    layout = Layout.of(decoder, LoraSpec(4, 0))
    flat = layout.initial("base")
    for name, matrix in layout.named(flat).items():
        if ".lora_B." in name:
            assert not matrix.any()
        else:
            assert 0 < matrix.abs().max() <= matrix.shape[1] ** -0.5
    tokens = [5, 6, 7]
    with torch.no_grad():
        fresh = logits(decoder, tokens, TrainingLora(layout, flat, torch.float32))
        assert torch.equal(fresh, logits(decoder, tokens, lambda s, i, x, y: y))


def test_flags_choose_the_layers(decoder: Decoder) -> None:
    def names(**flags) -> set[str]:
        return {m.name.split(".")[-3] for m in Layout.of(decoder, LoraSpec(2, 0, **flags)).matrices}

    attention, mlp = {"q_proj", "k_proj", "v_proj", "o_proj"}, {"gate_proj", "up_proj", "down_proj"}
    assert names(mlp=False, unembed=False) == attention
    assert names(attn=False, unembed=False) == mlp
    assert names(attn=False, mlp=False) == {"lm_head"}
    assert names() == attention | mlp | {"lm_head"}


def test_named_and_flatten_are_inverse(decoder: Decoder) -> None:
    layout, flat = random_adapter(decoder, 3, 5)
    assert torch.equal(layout.flatten(layout.named(flat)), flat)
