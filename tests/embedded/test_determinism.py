"""Through the SDK: what is sampled depends on the request, not on when or with whom it came."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import tinker
from tinker import types

from selfgen.embedded.launch import running_server
from selfgen.embedded.sessions import SamplingSession


def outcome(response: types.SampleResponse) -> list:
    return [(list(s.tokens), list(s.logprobs), s.stop_reason) for s in response.sequences]


def test_two_hundred_requests_in_two_orders_and_two_processes(client, server, tiny, tmp_path) -> None:
    rng = random.Random(0)
    requests = []
    for i in range(200):
        prompt = [3 + i % 90, 3 + i // 90, *(rng.randrange(3, 100) for _ in range(rng.choice([2, 40, 70])))]
        params = types.SamplingParams(max_tokens=rng.choice([3, 20]), temperature=rng.choice([0.0, 0.7, 1.0]))
        requests.append((prompt, params, rng.choice([1, 1, 4])))

    def collect(service, order: list[int], threads: int) -> dict[int, list]:
        sampler = service.create_sampling_client(base_model=server.model).result()

        def one(i: int) -> tuple[int, list]:
            prompt, params, count = requests[i]
            return i, outcome(sampler.sample(types.ModelInput.from_ints(prompt), count, params).result())

        with ThreadPoolExecutor(threads) as pool:
            return dict(pool.map(one, order))

    order = list(range(200))
    first = collect(client, order, 64)
    rng.shuffle(order)
    assert collect(client, order, 5) == first
    with running_server([str(tiny)], tmp_path, seed=7) as info:
        with tinker.ServiceClient(base_url=info.base_url, api_key=info.api_key) as other:
            assert collect(other, order, 16) == first
    with running_server([str(tiny)], tmp_path, seed=8) as info:
        with tinker.ServiceClient(base_url=info.base_url, api_key=info.api_key) as other:
            assert collect(other, order, 16) != first


def test_identical_requests_differ_and_repeat_by_occurrence(client, server) -> None:
    prompt, params = types.ModelInput.from_ints([5, 6, 7]), types.SamplingParams(max_tokens=12)

    def group() -> list:
        sampler = client.create_sampling_client(base_model=server.model).result()
        futures = [sampler.sample(prompt, 1, params) for _ in range(8)]
        return [outcome(f.result()) for f in futures]

    one, other = group(), group()
    assert one == other
    assert len({str(o) for o in one}) > 1


def test_requests_are_released_by_sequence_number_whatever_their_arrival() -> None:
    session = SamplingSession("s", "c", "m", None, None)
    released: list[int] = []
    for number in (2, 1, 4):
        assert not session.arrive(number, lambda n=number: released.append(n))
    assert session.arrive(0, lambda: released.append(0))
    assert released == [0, 1, 2]
    session.skip(4)
    assert released == [0, 1, 2, 4]
    assert session.arrive(3, lambda: released.append(3))
    assert session.arrive(5, lambda: released.append(5))
    assert released == [0, 1, 2, 4, 3, 5]
    assert session.arrive(1_000_000_000, lambda: released.append(-1)), "a clone counts for itself"
