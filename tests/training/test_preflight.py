"""Preflight: every check passes on a sound service, and each fails when what it guards is broken."""

import json
from types import SimpleNamespace

import pytest
import tinker
from tinker.resources.training import AsyncTrainingResource

from selfgen.errors import GateError, ServiceError
from selfgen.training import preflight
from selfgen.training.arms import Start
from selfgen.training.sent import Sent, mismatches


def named(found, name):
    """The check called `name`, or name[seed]."""
    return next(check for check in found.checks if check.name.split("[")[0] == name)


@pytest.fixture(scope="module")
def sound(small, service):
    return preflight.run(small, service)


def test_a_sound_service_passes_every_check_and_says_by_how_much(sound, small):
    assert sound.passed
    assert [check.name for check in sound.checks] == [
        "fixed_batch",
        "start_shape[0]",
        "equal_before_update[0]",
        "equal_after_step[0]",
        "step_moved_weights[0]",
        "optimizer_as_sent",
        "optimizer_family",
        "start_checkpoints",
    ]
    for name in ("equal_before_update", "equal_after_step"):
        check = named(sound, name)
        assert 0 <= check.measured <= check.tolerance == small.preflight.logprob_tolerance
    preflight.require(sound)


def test_the_record_names_the_optimizer_as_sent_and_holds_no_path(sound):
    record = sound.to_json()
    assert record["optimizer"] == {
        "name": "adam",
        "loss_fn": "importance_sampling",
        "learning_rate": 0.003,
        "beta1": 0.9,
        "beta2": 0.95,
        "eps": 1e-8,
        "weight_decay": 0.0,
        "grad_clip_norm": 0.0,
    }
    assert "tinker://" not in json.dumps(record)


def test_a_start_checkpoint_is_a_function_of_its_seed(sound, small, service):
    again = preflight.make_start(small, service, 0)
    other = preflight.make_start(small, service, 1)
    assert again.digest == sound.starts[0].digest != other.digest
    assert again.path != sound.starts[0].path


def with_seeds(params, **seeds):
    arms = {name: entry.model_copy(update={"seed": seeds.get(name)}) for name, entry in params.arms.items()}
    return params.model_copy(update={"arms": arms})


def test_arms_of_different_seeds_get_starts_of_their_own(small, service):
    found = preflight.run(with_seeds(small, rl_gsm8k=1), service)
    assert found.passed
    assert sorted(found.starts) == [0, 1]
    assert len({start.digest for start in found.starts.values()}) == 2


# Each check, made to fail ---------------------------------------------------------------------------------------------


def test_fails_fixed_batch_when_the_batch_was_edited(monkeypatch, small, service):
    edited = preflight.fixed_batch()
    edited[0][0] += 1
    monkeypatch.setattr(preflight, "fixed_batch", lambda: edited)
    check = named(preflight.run(small, service), "fixed_batch")
    assert not check.passed
    assert "git checkout" in check.message


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ({"lora_rank": 8}, "has rank 8, params say 4"),
        ({"is_lora": False}, "is not a LoRA"),
        ({"model_data": SimpleNamespace(model_name="other/model")}, "is other/model"),
    ],
)
def test_fails_start_shape_when_the_service_made_something_else(info, said, small):
    sound = {
        "is_lora": True,
        "lora_rank": 4,
        "model_data": SimpleNamespace(model_name=small.model.name),
    }
    assert preflight.check_shape(small, SimpleNamespace(**sound), 0).passed
    check = preflight.check_shape(small, SimpleNamespace(**{**sound, **info}), 0)
    assert not check.passed
    assert said in check.message


def test_fails_equality_before_the_update_when_the_second_client_starts_elsewhere(monkeypatch, small, service):
    # A LoRA with a trained B: loaded for one client, missing for the other.
    client = preflight._client(service, preflight.make_start(small, service, 0).path)
    batch = preflight.fixed_batch()
    preflight._step(small, client, batch, preflight.logprobs(client, batch))
    trained = client.save_state("trained").result().path
    real, calls = preflight._client, []

    def client_of(service, path):
        calls.append(path)
        return real(service, trained if len(calls) == 2 else path)

    monkeypatch.setattr(preflight, "_client", client_of)
    found = preflight.run(small, service)
    check = named(found, "equal_before_update")
    assert not check.passed
    assert check.measured > check.tolerance
    with pytest.raises(GateError, match="equal_before_update"):
        preflight.require(found)


def test_fails_equality_after_a_step_when_the_seed_differs_which_the_first_check_cannot_see(
    monkeypatch, small, service
):
    other = preflight.make_start(small, service, 1)
    real, calls = preflight._client, []

    def client_of(service, path):
        calls.append(path)
        return real(service, other.path if len(calls) == 2 else path)

    monkeypatch.setattr(preflight, "_client", client_of)
    found = preflight.run(small, service)
    assert named(found, "equal_before_update").passed  # B is zero: any A gives the base model
    check = named(found, "equal_after_step")
    assert not check.passed
    assert check.measured > check.tolerance


def test_fails_step_moved_weights_when_optim_step_does_nothing(monkeypatch, small, service):
    real = AsyncTrainingResource.optim_step

    async def still(self, *, request):
        params = request.optim_params.model_copy(update={"learning_rate": 0.0})
        return await real(self, request=request.model_copy(update={"optim_params": params}))

    monkeypatch.setattr(AsyncTrainingResource, "optim_step", still)
    check = named(preflight.run(small, service), "step_moved_weights")
    assert not check.passed
    assert check.measured == 0.0
    assert "nothing usable" in check.message


def test_fails_optimizer_as_sent_when_the_loop_sends_other_parameters(monkeypatch, small, service):
    real = tinker.AdamParams
    monkeypatch.setattr(tinker, "AdamParams", lambda **given: real(**{**given, "eps": 1e-12}))
    check = named(preflight.run(small, service), "optimizer_as_sent")
    assert not check.passed
    assert "eps sent is 1e-12, params say 1e-08" in check.message


def test_fails_optimizer_as_sent_when_no_step_was_seen(small):
    assert not preflight.check_optimizer(small, []).passed


@pytest.mark.parametrize(("reported", "passes"), [("adamw", True), ("adam", True), (None, True), ("dimuon", False)])
def test_fails_optimizer_family_when_the_service_runs_another(reported, passes, small):
    assert preflight.check_family(small, reported).passed is passes


def test_fails_start_checkpoints_when_two_seeds_give_the_same_weights(small):
    params = with_seeds(small, rl_gsm8k=1)
    same = {seed: Start(seed, f"tinker://{seed}", "ab" * 32) for seed in (0, 1)}
    check = preflight.check_starts(params, same)
    assert not check.passed
    assert "ignores the LoRA seed" in check.message


def test_fails_start_checkpoints_when_an_arm_has_none(small):
    check = preflight.check_starts(with_seeds(small, rl_gsm8k=1), {0: Start(0, "tinker://0", "ab" * 32)})
    assert not check.passed
    assert "rl_gsm8k has none" in check.message


def test_logprobs_that_are_not_numbers_or_do_not_fit_are_no_equality():
    nan, inf = float("nan"), float("inf")
    assert preflight.difference([[0.0]], [[0.5]]) == 0.5
    for first, second in (([[nan]], [[nan]]), ([[0.0]], [[0.0, 1.0]]), ([], []), ([[-inf]], [[-inf]])):
        check = preflight.check_equal("x", first, second, 1.0, "two")
        assert not check.passed
        assert check.measured is None


def test_a_service_that_fails_a_call_is_an_error_with_one_line(small):
    class Broken:
        def create_lora_training_client(self, *args, **kwargs):
            raise tinker.APIConnectionError(request=None)

    with pytest.raises(ServiceError):
        preflight.make_start(small, SimpleNamespace(client=Broken()), 0)


def test_each_parameter_and_the_loss_are_compared(small):
    good = {
        "learning_rate": 0.003,
        "beta1": 0.9,
        "beta2": 0.95,
        "eps": 1e-8,
        "weight_decay": 0.0,
        "grad_clip_norm": 0.0,
    }
    optimizer = small.train.optimizer

    def wrong(family="adam", loss="importance_sampling", **changes):
        return mismatches([Sent(3, family, {**good, **changes}, loss, 8)], optimizer, "importance_sampling")

    assert wrong() == []
    for name in good:
        assert wrong(**{name: 0.123}) == [f"step 3: {name} sent is 0.123, params say {good[name]}"]
    assert wrong(family="dimuon") == ["step 3: optimizer sent is dimuon, params say adam"]
    assert wrong(loss="ppo") == ["step 3: loss sent is ppo, params say importance_sampling"]
