"""The attention forms that GPUs use, checked on the CPU against the forms that the CPU uses."""

from __future__ import annotations

import torch

from selfgen.embedded.attention import PackedCausal, SlotAttention, SlotCache
from selfgen.embedded.decoder import Decoder


def test_the_fused_kernel_equals_chunks(decoder: Decoder) -> None:
    config = decoder.config
    cache = SlotCache(config, decoder.device, decoder.dtype)
    cache.reserve(8, 192)
    generator = torch.Generator().manual_seed(0)
    cache.store.copy_(torch.randn(cache.store.shape, generator=generator))
    positions = torch.tensor([5, 60, 63, 64, 100, 120, 0, 1])
    q = torch.randn(8, config.kv_heads, config.heads // config.kv_heads, config.head_dim, generator=generator)
    expected = SlotAttention(cache, positions)._chunked(q, cache.keys[0], cache.values[0])
    short = SlotAttention(cache, positions, span=128)
    torch.testing.assert_close(short._fused(q, cache.keys[0], cache.values[0]), expected, rtol=1e-5, atol=1e-5)


def test_one_padded_kernel_equals_one_kernel_a_sequence(decoder: Decoder) -> None:
    config = decoder.config
    generator = torch.Generator().manual_seed(0)
    lengths = [5, 1, 17]
    index = torch.tensor([*range(5), 0, *range(17)])
    for shared in (None, index):
        rows = 23 if shared is None else 17
        q = torch.randn(rows, config.heads, config.head_dim, generator=generator)
        k, v = (torch.randn(rows, config.kv_heads, config.head_dim, generator=generator) for _ in range(2))
        attend = PackedCausal(config, lengths, index=shared)
        torch.testing.assert_close(attend._padded(q, k, v), attend(0, q, k, v), rtol=1e-5, atol=1e-5)
