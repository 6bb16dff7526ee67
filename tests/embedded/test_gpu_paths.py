"""The attention forms that GPUs use, checked on the CPU against the forms that the CPU uses."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest
import torch

from selfgen.embedded.attention import PackedCausal, SlotAttention, SlotCache
from selfgen.embedded.decoder import Decoder
from selfgen.embedded.server import Server


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
    keys, values = cache.keys[0][:, :, :128], cache.values[0][:, :, :128]
    torch.testing.assert_close(short._fused(q, keys, values), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(short._chunked(q, keys, values), expected, rtol=1e-5, atol=1e-5)


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


def test_the_event_loop_stands_still_while_prompts_are_computed() -> None:
    server = Server(SimpleNamespace(models={}), "key")  # type: ignore[arg-type]
    loop, ticks = asyncio.new_event_loop(), [0]

    async def count() -> None:
        while True:
            ticks[0] += 1
            await asyncio.sleep(0)

    def run() -> None:
        loop.create_task(count())
        loop.run_forever()

    thread = threading.Thread(target=run)
    thread.start()
    server.loop = loop
    try:
        for _ in range(3):
            with server.standing_still():
                before = ticks[0]
                time.sleep(0.02)
                assert ticks[0] == before
            deadline = time.monotonic() + 5
            while ticks[0] == before:
                assert time.monotonic() < deadline
                time.sleep(0.001)
        with pytest.raises(ValueError, match="inside"), server.standing_still():
            raise ValueError("inside")
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    with server.standing_still():  # a stopped server's loop is not waited for
        pass
