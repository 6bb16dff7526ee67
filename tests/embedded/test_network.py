"""A request that a network delivers twice, late or never is carried out once, and changes no result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import tinker
from tinker import types

from selfgen.embedded.errors import RequestError
from selfgen.embedded.server import Server
from selfgen.embedded.sessions import ClientSession, SamplingSession
from tests.support.faulty import FaultyProxy

ADAM = {"learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8}
STEP = {"model_id": "s:train:0", "seq_id": 2, "adam_params": ADAM}
SAMPLE = {"sampling_session_id": "s:sample:0", "seq_id": 0, "prompt": {"chunks": [{"tokens": [5, 6]}]},
          "num_samples": 1, "sampling_params": {"max_tokens": 4, "seed": 1}}  # fmt: skip


@pytest.fixture
def waiting() -> SimpleNamespace:
    """A server whose engine only notes what it is given."""
    calls: list[Any] = []
    config = SimpleNamespace(context=64, vocab_size=100)
    model = SimpleNamespace(end_tokens=frozenset(), config=config, decoder=SimpleNamespace(config=config))
    engine = SimpleNamespace(models={}, seed=0, submit=lambda call, done: calls.append(done), model=lambda name: model)
    server = Server(engine, "key")  # type: ignore[arg-type]
    server.sessions["s"] = ClientSession("s", None, None)
    server.sampling["s:sample:0"] = SamplingSession("s:sample:0", "s", "m", None, None)
    return SimpleNamespace(server=server, calls=calls)


@pytest.mark.parametrize(("name", "body"), [("optim_step", STEP), ("asample", SAMPLE)])
def test_a_copy_of_a_request_is_not_carried_out_again(waiting, monkeypatch, name: str, body: dict) -> None:
    send = getattr(waiting.server, name)
    first = send(body)
    assert send(body) == first
    promise = waiting.server.promises.get(first["request_id"])
    promise.set_json({})
    waiting.server.promises.retrieved(promise)
    assert send(body) == first
    promise.expires = 0.0
    waiting.server.promises.sweep()
    with pytest.raises(RequestError, match="carried out before") as refused:  # minutes late
        send(body)
    assert refused.value.status == 410
    assert len(waiting.calls) == 1
    send({**body, "seq_id": 3})
    assert len(waiting.calls) == 2


def test_what_a_session_sent_is_forgotten_with_it(waiting) -> None:
    waiting.server.optim_step(STEP)
    assert waiting.server.queued["s"] == {"s:train:0:2"}
    waiting.server.end_session(waiting.server.sessions["s"])
    assert waiting.server.queued == {}


def test_an_id_that_was_not_waited_for_may_still_come_once() -> None:
    session, released = SamplingSession("s", "c", "m", None, None), []
    session.arrive(0, lambda: released.append(0))
    session.arrive(3, lambda: released.append(3))
    session.skip(3)
    assert [session.came_before(number) for number in range(5)] == [True, False, False, True, False]
    session.arrive(1, lambda: released.append(1))
    assert released == [0, 3, 1]


def train_and_sample(base_url: str, server) -> tuple[list[float], list[list[int]]]:
    """Logprobs after three steps, and a group of unseeded samples of the trained weights."""
    with tinker.ServiceClient(base_url=base_url, api_key=server.api_key) as service:
        client = service.create_lora_training_client(server.model, rank=4, seed=3).result()
        prompt = types.ModelInput.from_ints([5, 6, 7, 8])
        fields = {"target_tokens": [6, 7, 8, 9], "weights": [1.0] * 4}
        data = [types.Datum(model_input=prompt, loss_fn_inputs=fields)]
        for _ in range(3):
            step = client.forward_backward(data, "cross_entropy")
            moved = client.optim_step(types.AdamParams(learning_rate=1e-2))
            step.result(), moved.result()
        after = client.forward(data, "cross_entropy").result().loss_fn_outputs[0]["logprobs"].tolist()
        sampler = client.save_weights_and_get_sampling_client()
        sampler = sampler.result() if hasattr(sampler, "result") else sampler
        futures = [sampler.sample(prompt, 1, types.SamplingParams(max_tokens=8)) for _ in range(12)]
        return after, [list(future.result().sequences[0].tokens) for future in futures]


def test_a_bad_network_changes_no_weight_and_no_sample(server) -> None:
    calm = train_and_sample(server.base_url, server)
    with FaultyProxy(server.base_url, faults=0.25, seed=1, kinds=("reset", "half", "twice", "503")) as proxy:
        assert train_and_sample(proxy.url, server) == calm
    assert len(proxy.broken) == 4
