"""Shared prompt chunks: the same bits whether computed or found, computed once, the busiest kept longest."""

from __future__ import annotations

import pytest
import torch

from selfgen.embedded import sampler as sampling
from selfgen.embedded.decoder import Decoder
from selfgen.embedded.lora import no_lora
from selfgen.embedded.sampler import CHUNK, PrefixCache


@pytest.fixture
def extended(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lengths of the chunks that were really computed."""
    lengths: list[int] = []
    real = decoder.extend

    def spy(tokens, past, lora):
        lengths.append(len(tokens))
        return real(tokens, past, lora)

    monkeypatch.setattr(decoder, "extend", spy)
    return lengths


def prompt(head: int, tail: int, length: int = 2 * CHUNK + 7) -> tuple[str, tuple[int, ...]]:
    """A prompt whose first chunk depends on `head` alone."""
    tokens = [3 + (head * 7 + i) % 80 for i in range(CHUNK)] + [3 + (tail * 5 + i) % 80 for i in range(length - CHUNK)]
    return ("", tuple(tokens))


def test_a_found_chunk_gives_the_bits_of_a_computed_one(decoder: Decoder, extended: list[int]) -> None:
    warm, cold = PrefixCache(decoder), PrefixCache(decoder)
    warm.prompt(prompt(0, 1), no_lora)
    extended.clear()
    found = warm.prompt(prompt(0, 2), no_lora)
    assert extended == [CHUNK, 7], "the first chunk is shared, the rest is not"
    for ours, theirs in zip(found, cold.prompt(prompt(0, 2), no_lora), strict=True):
        assert torch.equal(ours, theirs)


def test_chunks_agree_with_the_prompt_computed_whole(decoder: Decoder) -> None:
    key = prompt(1, 1)
    ((kept, hidden),) = decoder.prompts([list(key[1])], no_lora)
    ours_kept, ours_hidden = PrefixCache(decoder).prompt(key, no_lora)
    torch.testing.assert_close(ours_kept, kept, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours_hidden, hidden, rtol=1e-5, atol=1e-5)


def test_an_adapter_does_not_find_anothers_chunks(decoder: Decoder, extended: list[int]) -> None:
    cache = PrefixCache(decoder)
    cache.prompt(("one", prompt(0, 1)[1]), no_lora)
    extended.clear()
    cache.prompt(("two", prompt(0, 1)[1]), no_lora)
    assert extended == [CHUNK, CHUNK, 7]


def test_the_chunk_in_use_outlives_the_others(
    decoder: Decoder, extended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "PREFIX_CACHE_TOKENS", 4 * CHUNK)
    cache = PrefixCache(decoder)
    for tail in range(10):
        cache.prompt(prompt(0, tail), no_lora)
        cache.trim()
    assert extended.count(CHUNK) == 1 + 10, "the shared first chunk once, each second chunk once"
    assert len(cache._chunks) == 4


def test_what_is_left_over_at_a_prompts_end_is_not_kept(decoder: Decoder) -> None:
    cache = PrefixCache(decoder)
    for tail in range(5):
        cache.prompt(prompt(0, tail, CHUNK + tail), no_lora)
    cache.prompt(("", (5, 6, 7)), no_lora)
    assert [len(tokens) for _, tokens in cache._chunks] == [CHUNK]
