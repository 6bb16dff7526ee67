"""Tiny models and a running server, shared by the tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("TINKER_TELEMETRY", "0")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer Llama folder."""
    from tests.embedded.tiny import write_model

    return write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def decoder(tiny: Path):
    """The tiny model, loaded in float32."""
    import torch

    from selfgen.embedded.decoder import Decoder

    torch.set_num_threads(1)
    return Decoder.load(tiny, torch.device("cpu"), torch.float32)


@pytest.fixture(scope="session")
def server(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """A server process with the tiny model; `server.model` is its name."""
    from types import SimpleNamespace

    from selfgen.embedded.launch import running_server

    with running_server([str(tiny)], tmp_path_factory.mktemp("state"), seed=7) as info:
        yield SimpleNamespace(base_url=info.base_url, api_key=info.api_key, pid=info.pid, model=str(tiny))


@pytest.fixture
def client(server):
    """A fresh ServiceClient of the SDK."""
    import tinker

    with tinker.ServiceClient(base_url=server.base_url, api_key=server.api_key) as service:
        yield service
