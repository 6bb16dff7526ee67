"""Sampling: right distribution, right stops, and results that do not depend on company or order."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from selfgen.embedded.decoder import Decoder
from selfgen.embedded.lanes import Lane
from selfgen.embedded.lora import Layout, LoraSpec
from selfgen.embedded.sampler import Adapter, SampleJob, SampleParams, Sampler, choose
from selfgen.embedded.streams import UniformStream, stream_key
from selfgen.embedded.trainer import Datum, TrainingRun


def adapter(decoder: Decoder, seed: int, rank: int = 4, scale: float = 0.1) -> Adapter:
    layout = Layout.of(decoder, LoraSpec(rank, seed))
    flat = torch.randn(layout.size, generator=torch.Generator().manual_seed(seed)) * scale
    return Adapter(f"adapter-{seed}", layout, flat)


def job(prompt: list[int], params: SampleParams, n: int = 1, on: Adapter | None = None, **options) -> SampleJob:
    def done(_: SampleJob, error: Exception | None) -> None:
        if error is not None:
            raise error

    name = on.digest if on else ""
    keys = [stream_key(0, name, prompt, options.pop("occurrence", 0), None, i) for i in range(n)]
    return SampleJob(prompt, params, n, keys, on, done, **options)


def run(sampler: Sampler, jobs: list[SampleJob]) -> None:
    for each in jobs:
        sampler.submit(each)
    while sampler.busy:
        sampler.step()


def sampler_of(decoder: Decoder, lanes: int = 1, **options) -> Sampler:
    def text(tokens: list[int]) -> str:
        return "".join(chr(60 + t) for t in tokens)

    return Sampler(decoder, [Lane(decoder, text) for _ in range(lanes)], **options)


def results(jobs: list[SampleJob]) -> list:
    return [[(s.tokens, s.logps, s.stop_reason) for s in j.sequences] for j in jobs]


def test_two_hundred_requests_give_the_same_bits_in_any_order_and_company(decoder: Decoder) -> None:
    rng = random.Random(0)
    specs = []
    adapters = [None, adapter(decoder, 1), adapter(decoder, 2, rank=8)]
    for number in range(200):
        prompt = [rng.randrange(3, 100) for _ in range(rng.choice([1, 5, 30, 64, 90]))]
        heat = rng.choice([0.0, 0.7, 1.0, 1.0, 2.0])
        params = SampleParams(rng.choice([1, 7, 40, 70]), heat, stop_tokens=frozenset([7, 9]))
        specs.append((prompt, params, rng.choice([1, 1, 3]), rng.choice(adapters), number))

    def collect(order: list[int], **options) -> dict[int, list]:
        jobs = {i: job(*specs[i][:4], occurrence=specs[i][4]) for i in order}
        run(sampler_of(decoder, **options), [jobs[i] for i in order])
        return {i: results([jobs[i]])[0] for i in order}

    order = list(range(200))
    first = collect(order)
    rng.shuffle(order)
    assert collect(order, max_rows=16) == first
    with ThreadPoolExecutor(2) as pool:
        assert collect(order, lanes=2, map=pool.map) == first
    alone = order[:20]
    for i in alone:
        assert collect([i]) == {i: first[i]}


def test_sampled_logprobs_equal_the_training_forward_pass(decoder: Decoder) -> None:
    on = adapter(decoder, 1)
    jobs = [job(list(range(3, 3 + n)), SampleParams(40), 4, on) for n in (5, 60)]
    run(sampler_of(decoder), jobs)
    trainer = TrainingRun(decoder, on.layout, on.flat)
    worst = 0.0
    for each in jobs:
        for sequence in each.sequences:
            whole = np.array(each.prompt + sequence.tokens)
            datum = Datum(whole[:-1], whole[1:], {})
            _, (logps,) = trainer.forward_backward([datum], "cross_entropy", {}, backward=False)
            worst = max(worst, float(np.abs(logps[len(each.prompt) - 1 :] - sequence.logps).max()))
    assert worst < 5e-5


def test_prompt_logprobs_have_no_value_for_the_first_token(decoder: Decoder) -> None:
    on = adapter(decoder, 1)
    each = job([5, 6, 7, 8], SampleParams(1), 1, on, prompt_logprobs=True, topk_prompt=3)
    run(sampler_of(decoder), [each])
    assert each.prompt_logps is not None
    assert np.isnan(each.prompt_logps[0])
    trainer = TrainingRun(decoder, on.layout, on.flat)
    datum = Datum(np.array([5, 6, 7]), np.array([6, 7, 8]), {})
    _, (logps,) = trainer.forward_backward([datum], "cross_entropy", {}, backward=False)
    np.testing.assert_allclose(each.prompt_logps[1:], logps, atol=5e-5)
    assert each.prompt_topk is not None
    ids, values = each.prompt_topk
    assert ids.shape == (4, 3)
    assert (values[1:, 0] >= values[1:, 1]).all()


def test_greedy_takes_the_largest_and_ends_at_max_tokens(decoder: Decoder) -> None:
    jobs = [job([5, 6], SampleParams(9, 0.0), 2), job([5, 6], SampleParams(9, 0.0, top_k=1))]
    run(sampler_of(decoder), jobs)
    assert jobs[0].sequences[0].tokens == jobs[0].sequences[1].tokens == jobs[1].sequences[0].tokens
    assert [s.stop_reason for s in jobs[0].sequences] == ["length", "length"]
    assert len(jobs[0].sequences[0].tokens) == 9


def test_stop_tokens_and_stop_strings_are_kept_and_end_the_sequence(decoder: Decoder) -> None:
    free = job([5, 6], SampleParams(60), 4)
    run(sampler_of(decoder), [free])
    stop = free.sequences[0].tokens[10]
    text = "".join(chr(60 + t) for t in free.sequences[0].tokens[20:22])
    tokens = job([5, 6], SampleParams(60, stop_tokens=frozenset([stop])), 4)
    strings = job([5, 6], SampleParams(60, stop_strings=(text, "never")), 4)
    run(sampler_of(decoder), [tokens, strings])
    first = free.sequences[0].tokens
    assert tokens.sequences[0].tokens == first[: first.index(stop) + 1]
    assert tokens.sequences[0].stop_reason == "stop"
    whole = "".join(chr(60 + t) for t in first)
    assert strings.sequences[0].tokens == first[: whole.index(text) + 2]
    assert strings.sequences[0].stop_reason == "stop"


def test_draws_are_the_same_one_by_one_and_many_at_a_time() -> None:
    one, many = UniformStream(7), UniformStream(7)
    sizes = [1, 8, 8, 120, 3, 128, 5, 127, 1]
    assert [many.take(n) for n in sizes] == [[one.draw() for _ in range(n)] for n in sizes]
    assert len(set(UniformStream(7).take(128))) == 128


def test_samples_follow_the_distribution() -> None:
    table = torch.log_softmax(torch.tensor([[0.0, 1.0, 2.0, -1.0]]), dim=-1)
    stream = UniformStream(1)
    draws = 20000

    def counts(params: SampleParams) -> torch.Tensor:
        rows = choose(table.expand(draws, -1), [params] * draws, [stream] * draws)
        return torch.bincount(rows, minlength=4) / draws

    # 20,000 draws: standard error at most 0.0035, so 0.02 is over five of them.
    assert (counts(SampleParams(1)) - table.exp()).abs().max() < 0.02
    hot = torch.softmax(torch.tensor([0.0, 0.5, 1.0, -0.5]), dim=-1)
    assert (counts(SampleParams(1, 2.0)) - hot).abs().max() < 0.02
    top = torch.tensor([0.0, 1.0, 2.0]).softmax(dim=-1)[1:]
    assert (counts(SampleParams(1, 1.0, top_k=2))[1:3] - top / top.sum()).abs().max() < 0.02
    assert counts(SampleParams(1, 1.0, top_p=0.5)).tolist() == [0, 0, 1, 0]
    assert counts(SampleParams(1, 1.0, top_p=0.7))[3] == 0


def test_a_prompt_is_computed_once_for_identical_requests(decoder: Decoder, monkeypatch) -> None:
    calls = []
    forward = Decoder.forward
    monkeypatch.setattr(
        Decoder, "forward", lambda self, tokens, *rest: calls.append(len(tokens)) or forward(self, tokens, *rest)
    )
    run(sampler_of(decoder), [job(list(range(3, 53)), SampleParams(3), 2, occurrence=i) for i in range(8)])
    assert calls.count(50) == 1


def test_a_cancelled_job_frees_its_rows(decoder: Decoder) -> None:
    sampler = sampler_of(decoder)
    long, short = job([5], SampleParams(400)), job([6], SampleParams(3))
    sampler.submit(long)
    sampler.submit(short)
    sampler.step()
    long.cancelled = True
    while sampler.busy:
        sampler.step()
    assert len(long.sequences[0].tokens) < 5
    assert short.sequences[0].stop_reason == "length"


def test_a_failing_job_does_not_harm_the_others(decoder: Decoder, monkeypatch) -> None:
    sampler = sampler_of(decoder)
    errors = []
    bad = job([5], SampleParams(4))
    bad.done = lambda _, error: errors.append(error)
    bad.adapter = Adapter("broken", Layout.of(decoder, LoraSpec(4, 0)), torch.zeros(3))
    good = job([6], SampleParams(4))
    run(sampler, [bad, good])
    assert errors[0] is not None
    assert good.sequences[0].stop_reason == "length"


def test_after_a_failed_step_its_jobs_fail_and_the_next_ones_run(decoder: Decoder, monkeypatch) -> None:
    sampler = sampler_of(decoder)
    errors = []
    running, waiting, later = (job([t], SampleParams(6)) for t in (5, 6, 7))
    for each in (running, waiting):
        each.done = lambda _, error: errors.append(str(error))
        sampler.submit(each)
    sampler.step()
    monkeypatch.setattr(Decoder, "forward", lambda *_: (_ for _ in ()).throw(MemoryError("out of memory")))
    with pytest.raises(MemoryError):
        sampler.step()
    sampler.abort(MemoryError("out of memory"))
    monkeypatch.undo()
    assert errors == ["out of memory"] * 2
    run(sampler, [later])
    assert len(later.sequences[0].tokens) <= 6


@pytest.mark.parametrize("field", ["server", "weights", "prompt", "occurrence", "seed", "index"])
def test_every_part_of_the_key_changes_the_stream(field: str) -> None:
    base = {"server_seed": 0, "weights": "w", "prompt": [1, 2], "occurrence": 0, "seed": None, "index": 0}
    other = {"server": {"server_seed": 1}, "weights": {"weights": "v"}, "prompt": {"prompt": [1, 3]}}
    other |= {"occurrence": {"occurrence": 1}, "seed": {"seed": 0}, "index": {"index": 1}}
    assert stream_key(**base) == stream_key(**base) != stream_key(**{**base, **other[field]})
