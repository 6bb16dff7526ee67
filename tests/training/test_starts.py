"""What a colleague's artifacts need of the service here: start checkpoints and trained adapters that it lacks."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from selfgen.errors import DataError, ServiceError
from selfgen.params import Params
from selfgen.service import SampleRequest, Service
from selfgen.training import arms, checkpoints, preflight, starts


def test_each_arm_reads_its_own_start(tmp_path: Path) -> None:
    found = {0: arms.Start(0, "tinker://a", "aa"), 7: arms.Start(7, "tinker://b", "bb")}
    starts.write_starts(tmp_path, found, {"one": 0, "other": 7})
    assert starts.read_start(tmp_path, "other") == found[7]
    before = (tmp_path / "starts/one.json").read_bytes()
    found[8] = arms.Start(8, "tinker://c", "cc")
    starts.write_starts(tmp_path, found, {"one": 0, "other": 7, "new": 8})
    assert (tmp_path / "starts/one.json").read_bytes() == before
    with pytest.raises(DataError, match="no start checkpoint of arm absent; run `dvc repro preflight`"):
        starts.read_start(tmp_path, "absent")


def test_a_start_that_the_service_holds_is_used_as_it_is(small: Params, service: Service) -> None:
    start = starts.make_start(small, service, 3)
    assert starts.start_here(small, service, start) == start


def test_a_start_that_the_service_lacks_is_made_again_from_its_seed(small: Params, service: Service) -> None:
    start = starts.make_start(small, service, 3)
    away = replace(start, path="tinker://elsewhere:train:0/weights/start-3")
    again = starts.start_here(small, service, away)
    assert (again.seed, again.digest) == (3, start.digest)
    assert service.holds(again.path)


def test_a_start_that_cannot_be_made_again_is_no_start(small: Params, service: Service) -> None:
    other = arms.Start(3, "tinker://elsewhere:train:0/weights/start-3", "0" * 64)
    with pytest.raises(ServiceError, match=r"makes another LoRA from seed 3 .*; run `dvc repro --force preflight`"):
        starts.start_here(small, service, other)


@pytest.fixture
def trained(small: Params, service: Service, tmp_path: Path) -> tuple[str, str, Path]:
    """A stepped adapter: its sampler path, its digest, its PEFT folder."""
    client = service.client.create_training_client_from_state(starts.make_start(small, service, 5).path).result()
    batch = preflight.fixed_batch()
    preflight._step(small, client, batch, preflight.logprobs(client, batch))
    state, sampler = client.save_state("stepped").result(), client.save_weights_for_sampler("stepped").result()
    return sampler.path, checkpoints.export_adapter(service, state.path, sampler.path, tmp_path / "a"), tmp_path / "a"


def sample(small: Params, service: Service, path: str, digest: str, adapter: Path | None) -> list[str]:
    journal, service.journal = service.journal, None
    try:
        sampler = service.sampler(small.model.name, small.model.tokenizer, path, digest, adapter)
        requests = [SampleRequest(tuple(tokens), 2, 8, 1.0, 1) for tokens in preflight.fixed_batch()]
        return [found.text for row in sampler.sample_stream(requests) for found in row]
    finally:
        service.journal = journal


def test_an_adapter_that_the_service_lacks_is_brought_back_and_samples_the_same(
    small: Params, service: Service, trained: tuple[str, str, Path]
) -> None:
    path, digest, adapter = trained
    before = sample(small, service, path, digest, None)
    arms.discard(service, [path])
    assert not service.holds(path)
    assert sample(small, service, path, digest, adapter) == before
    assert service.holds(path)


def test_a_foreign_adapter_is_refused(small: Params, service: Service, trained: tuple[str, str, Path]) -> None:
    path, _, adapter = trained
    rows = [
        (name, kind, shape[::-1], data)
        for name, kind, shape, data in checkpoints.tensors(adapter / "adapter_model.safetensors")
    ]
    checkpoints.write_tensors(adapter / "adapter_model.safetensors", rows)
    with pytest.raises(ServiceError, match="the adapter does not fit"):
        service.bring_back(path.replace("stepped", "other"), small.model.name, adapter)
    (adapter / "adapter_model.safetensors").write_bytes(b"no adapter")
    with pytest.raises(ServiceError, match="not a safetensors file"):
        service.bring_back(path.replace("stepped", "other"), small.model.name, adapter)
    with pytest.raises(ServiceError, match="only sampler weights"):
        service.bring_back(path.replace("sampler_weights", "weights"), small.model.name, adapter)
    shutil.rmtree(adapter)


def test_a_remote_service_takes_no_weights_in(small: Params, service: Service, trained: tuple[str, str, Path]) -> None:
    path, _, adapter = trained
    kind, service.kind = service.kind, "remote"
    try:
        with pytest.raises(ServiceError, match="Tinker services take no weights in"):
            service.bring_back(path, small.model.name, adapter)
    finally:
        service.kind = kind
