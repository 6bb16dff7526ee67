"""Checkpoints are whole or absent, stay in their folder, and expire."""

from __future__ import annotations

import os

import pytest
import torch

from selfgen.embedded import store as stores
from selfgen.embedded.errors import RequestError
from selfgen.embedded.store import Store, parse, write_atomic


@pytest.fixture
def store(tmp_path) -> Store:
    result = Store(tmp_path / "state")
    result.create_run("run", {"base_model": "m"})
    return result


TENSORS = {"a": torch.arange(6.0).view(2, 3)}


def test_a_checkpoint_comes_back_with_its_metadata(store: Store) -> None:
    path = store.save("run", "weights", "one", TENSORS, {"step": 3})
    assert path == "tinker://run/weights/one"
    meta, tensors = store.load(path)
    assert meta["step"] == 3
    assert torch.equal(tensors["a"], TENSORS["a"])
    assert [e.path for e in store.entries("run")] == [path]


def test_names_are_taken_once_unless_overwritten(store: Store) -> None:
    store.save("run", "weights", "one", TENSORS, {"step": 1}, overwrite=False)
    with pytest.raises(RequestError, match="overwrite=True"):
        store.save("run", "weights", "one", TENSORS, {"step": 2}, overwrite=False)
    store.save("run", "weights", "one", TENSORS, {"step": 2}, overwrite=True)
    assert store.load("tinker://run/weights/one")[0]["step"] == 2


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".hidden", "", "a" * 201, "x\0y", "-x", "a b", "@0/../x"])
def test_names_cannot_leave_the_folder(store: Store, name: str) -> None:
    with pytest.raises(RequestError, match="checkpoint name"):
        store.save("run", "weights", name, TENSORS, {})
    with pytest.raises(RequestError):
        store.entry(f"tinker://run/weights/{name}")
    with pytest.raises(RequestError):
        store.entry(f"tinker://{name}/weights/x")


@pytest.mark.parametrize(
    "path", ["weights/x", "tinker://run/x", "tinker://run/other/x", "tinker://a/b/c/d", "http://x"]
)
def test_malformed_paths_are_refused(path: str) -> None:
    with pytest.raises(RequestError, match="not a checkpoint path"):
        parse(path)


def test_a_missing_checkpoint_is_404(store: Store) -> None:
    for action in (store.entry, store.load, store.delete):
        with pytest.raises(RequestError) as caught:
            action("tinker://run/weights/none")
        assert caught.value.status == 404


def test_expired_checkpoints_are_gone(store: Store, monkeypatch) -> None:
    path = store.save("run", "sampler_weights", "one", TENSORS, {}, ttl=100)
    kept = store.save("run", "sampler_weights", "two", TENSORS, {}, ttl=100)
    store.set_side(kept, ttl=None)
    now = stores.time.time()
    monkeypatch.setattr(stores.time, "time", lambda: now + 101)
    with pytest.raises(RequestError, match="expired"):
        store.load(path)
    assert [e.path for e in store.entries("run")] == [kept]
    assert not store.file("run", "sampler_weights", "one").exists()


def test_a_crash_before_the_rename_leaves_the_old_content(store: Store, monkeypatch) -> None:
    path = store.save("run", "weights", "one", TENSORS, {"step": 1})

    def crash(_: int) -> None:
        raise OSError("power cut")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(OSError, match="power cut"):
        store.save("run", "weights", "one", TENSORS, {"step": 2})
    monkeypatch.undo()
    assert store.load(path)[0]["step"] == 1
    assert [f.name for f in store.file("run", "weights", "one").parent.iterdir()] == ["one.safetensors"]


def test_write_atomic_replaces(tmp_path) -> None:
    write_atomic(tmp_path / "x", b"1")
    write_atomic(tmp_path / "x", b"22", durable=False)
    assert (tmp_path / "x").read_bytes() == b"22"


def test_unnamed_sampler_weights_are_not_listed(store: Store) -> None:
    store.save("run", "sampler_weights", "@0", TENSORS, {})
    assert store.entries("run") == []
    assert store.entry("tinker://run/sampler_weights/@0").size > 0


def test_two_stores_over_one_folder_see_each_other(store: Store) -> None:
    other = Store(store.root)
    path = other.save("run", "weights", "from-other", TENSORS, {})
    assert torch.equal(store.load(path)[1]["a"], TENSORS["a"])
    assert [run for run, _ in store.runs()] == ["run"]
