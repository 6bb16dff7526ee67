"""The GPU lane's logic, run without capture on the CPU: same tokens as the plain lane."""

from __future__ import annotations

import pytest
import torch

from selfgen.embedded.decoder import Decoder
from selfgen.embedded.graphs import GraphLane, bucket, choose_static
from selfgen.embedded.sampler import SampleJob, SampleParams, Sampler, choose
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
