"""What was sent is what is recorded: repeats, resumes and torn lines included."""

import asyncio
from types import SimpleNamespace

import pytest
import tinker
from tinker.resources.training import AsyncTrainingResource
from tinker.types import OptimStepRequest

from selfgen.training import sent
from selfgen.training.sent import Sent


def record(step, **changes):
    return Sent(step, "adam", {"learning_rate": 0.1, **changes}, "importance_sampling", 4)


@pytest.fixture
def wire(monkeypatch):
    """The SDK's last step before the wire, without a wire."""

    async def accept(self, *, request, forward_only=False):
        return "accepted"

    monkeypatch.setattr(AsyncTrainingResource, "optim_step", accept)
    monkeypatch.setattr(AsyncTrainingResource, "forward_backward", accept)
    return AsyncTrainingResource.__new__(AsyncTrainingResource)


def gradient(wire, seq, loss="importance_sampling", datums=4, forward_only=False, model="m"):
    request = SimpleNamespace(
        model_id=model, seq_id=seq, forward_backward_input=SimpleNamespace(loss_fn=loss, data=[None] * datums)
    )
    return asyncio.run(wire.forward_backward(request=request, forward_only=forward_only))


def step(wire, seq, model="m", **params):
    request = OptimStepRequest(optim_params=tinker.AdamParams(**params), model_id=model, seq_id=seq)
    return asyncio.run(wire.optim_step(request=request))


def test_a_step_carries_its_parameters_and_the_gradients_before_it(wire, tmp_path):
    seen = []
    with sent.observing(tmp_path / "sent.jsonl", first_step=5, on_step=seen.append):
        assert gradient(wire, 1, datums=3) == "accepted"
        gradient(wire, 2, datums=5)
        gradient(wire, 3, forward_only=True)
        assert step(wire, 4, learning_rate=0.25, eps=1e-8) == "accepted"
    assert seen == sent.read_sent(tmp_path / "sent.jsonl")
    assert (seen[0].step, seen[0].loss_fn, seen[0].datums) == (5, "importance_sampling", 8)
    assert seen[0].params["learning_rate"] == 0.25
    assert seen[0].params["eps"] == 1e-8


def test_a_request_sent_again_after_a_lost_answer_is_one_step(wire):
    with sent.observing() as observer:
        gradient(wire, 1)
        gradient(wire, 1)
        step(wire, 2)
        step(wire, 2)
        step(wire, 3)
    assert [(r.step, r.datums) for r in observer.sent] == [(0, 4), (1, 0)]


def test_two_models_keep_their_gradients_apart(wire):
    with sent.observing() as observer:
        gradient(wire, 1, datums=1, model="a")
        gradient(wire, 1, datums=2, loss="ppo", model="b")
        step(wire, 2, model="b")
        step(wire, 2, model="a")
    assert [(r.loss_fn, r.datums) for r in observer.sent] == [("ppo", 2), ("importance_sampling", 1)]


def test_a_request_that_the_service_refuses_is_not_a_step(wire, monkeypatch):
    async def refuse(self, *, request):
        raise ValueError("refused")

    monkeypatch.setattr(AsyncTrainingResource, "optim_step", refuse)
    with sent.observing() as observer, pytest.raises(ValueError, match="refused"):
        step(wire, 1)
    assert observer.sent == []


def test_observing_leaves_the_sdk_as_it_was(wire):
    before = AsyncTrainingResource.optim_step
    with sent.observing():
        assert AsyncTrainingResource.optim_step is not before
    assert AsyncTrainingResource.optim_step is before


def test_of_a_step_sent_again_after_a_resume_the_last_one_counts():
    runs = [record(0), record(1), record(2, learning_rate=0.2), record(1, learning_rate=0.3), record(2), record(3)]
    kept = sent.effective(runs, 3)
    assert [r.step for r in kept] == [0, 1, 2]
    assert kept[1].params["learning_rate"] == 0.3
    assert kept[2].params["learning_rate"] == 0.1


def test_a_torn_line_is_dropped_and_no_file_is_no_steps(tmp_path, wire):
    path = tmp_path / "sent.jsonl"
    assert sent.read_sent(path) == []
    with sent.observing(path):
        step(wire, 1)
    path.write_text(path.read_text() + '{"step": 1, "fam')
    assert [r.step for r in sent.read_sent(path)] == [0]
