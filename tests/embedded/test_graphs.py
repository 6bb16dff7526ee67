"""The GPU lane's logic, run without capture on the CPU: same tokens as the plain lane."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from selfgen.embedded.decoder import Decoder
from selfgen.embedded.graphs import GraphLane, bucket, choose_static
from selfgen.embedded.lora import no_lora
from selfgen.embedded.sampler import SampleJob, SampleParams, Sampler, Sequence, choose
from selfgen.embedded.streams import UniformStream
from tests.embedded.test_sampler import adapter, job, run, sampler_of


def test_buckets_have_room() -> None:
    assert [bucket(n) for n in (1, 8, 9, 200, 3000)] == [8, 8, 16, 256, 3072]


@pytest.mark.parametrize("vocabulary", [7, 640, 1024, 3000])
def test_static_choice_equals_choice(vocabulary: int) -> None:
    table = torch.log_softmax(torch.randn(64, vocabulary, generator=torch.Generator().manual_seed(0)) * 3, dim=-1)
    heat = [0.0, 0.5, 1.0, 2.0] * 16
    expected = choose(table, [SampleParams(1, h) for h in heat], [UniformStream(i) for i in range(64)])
    uniforms = torch.tensor([UniformStream(i).draw() for i in range(64)], dtype=torch.float64)
    hot = torch.tensor(heat)
    assert choose_static(table, hot, hot == 0, uniforms).tolist() == expected.tolist()


def test_the_gpu_lane_gives_the_plain_lanes_tokens(decoder: Decoder) -> None:
    on = adapter(decoder, 1)

    def jobs() -> list[SampleJob]:
        each = [
            job(list(range(3, 3 + n)), SampleParams(t, h, stop_tokens=frozenset([7])), 3, on)
            for n, t, h in ((5, 30, 1.0), (60, 9, 0.0), (20, 90, 0.7), (9, 8, 1.0))
        ]
        return [*each, job([4, 4], SampleParams(12, top_k=5), 2, on)]

    one, other = jobs(), jobs()
    run(sampler_of(decoder), one)
    run(Sampler(decoder, [GraphLane(decoder, str, capture=False)]), other)
    for a, b in zip(one, other, strict=True):
        assert [s.tokens for s in a.sequences] == [s.tokens for s in b.sequences]
        assert [s.stop_reason for s in a.sequences] == [s.stop_reason for s in b.sequences]
        for s, t in zip(a.sequences, b.sequences, strict=True):
            assert s.logps == pytest.approx(t.logps, abs=1e-4)


def test_a_grid_of_prompts_gives_what_each_prompt_alone_gives(decoder: Decoder) -> None:
    lane = GraphLane(decoder, str, capture=False)
    sampler = Sampler(decoder, [lane])
    sequences = [list(range(3, 3 + n)) for n in (5, 64, 65, 1, 30)]
    for on in (None, adapter(decoder, 1, scale=0.3), adapter(decoder, 2, scale=0.3)):
        stack = sampler.stack([on]) if on is not None else None
        together = lane.prompts(sequences, on, stack)
        other = [9] * 40
        again = lane.prompts([other], on, stack)  # in the buffers of the first five: their results are copies
        for tokens, (kept, hidden) in zip([*sequences, other], together + again, strict=True):
            [(alone_kept, alone_hidden)] = decoder.prompts([tokens], stack.bind([0]) if stack is not None else no_lora)
            torch.testing.assert_close(kept, alone_kept, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(hidden, alone_hidden, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stop", [frozenset[int](), frozenset({12}), frozenset({18})])
@pytest.mark.parametrize("limit", [5, 8, 9, 20])
def test_a_visits_tokens_are_taken_as_one_by_one(decoder: Decoder, stop: frozenset[int], limit: int) -> None:
    lane = GraphLane(decoder, str, capture=False)
    tokens, logps = list(range(11, 19)), [-0.5 * n for n in range(8)]
    one, many = (
        Sequence(job([3], SampleParams(limit, stop_tokens=stop)), UniformStream(0), [5], [-1.0]) for _ in range(2)
    )
    for token, logp in zip(tokens, logps, strict=True):
        if one.stop_reason is None:
            lane.accept(one, token, logp)
    lane._accept_all(many, tokens, logps)
    assert (many.tokens, many.logps, many.stop_reason) == (one.tokens, one.logps, one.stop_reason)


def test_a_grid_ends_with_the_context(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "config", replace(decoder.config, context=70))
    lane = GraphLane(decoder, str, capture=False)
    widths = []
    monkeypatch.setattr(lane._prefill, "_compute", lambda prompts, length, lora: widths.append(length))
    lane.prompts([[5] * 66], None, None)
    assert widths == [70]


def test_long_or_many_prompts_are_computed_without_a_grid(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    lane = GraphLane(decoder, str, capture=False)
    monkeypatch.setattr(lane, "_prefill", None)  # calling it would fail
    monkeypatch.setattr("selfgen.embedded.prefill.GRID_LENGTH", 200)
    for sequences in ([[5] * 201], [[5, n] for n in range(17)]):
        assert [len(hidden) for _, hidden in lane.prompts(sequences, None, None)] == [len(s) for s in sequences]


def test_one_place_on_the_gpu_serves_one_adapter_after_another(decoder: Decoder) -> None:
    """Graphs keep the addresses of the first adapter; the values there must be those of the present one."""
    lane = GraphLane(decoder, str, capture=False)
    sampler = Sampler(decoder, [lane])
    addresses = set()
    for seed in (1, 2, 1):
        on = adapter(decoder, seed, scale=0.3)
        one, other = [[job([5, 6, 7], SampleParams(40), 3, on)] for _ in range(2)]
        run(sampler_of(decoder), one)
        run(sampler, other)
        assert [s.tokens for s in one[0].sequences] == [s.tokens for s in other[0].sequences]
        _, stack = lane._slots[on.layout.spec.shape]
        addresses.add(next(iter(stack._parts.values()))[0][0].data_ptr())
    assert len(lane._slots) == len(addresses) == 1
