"""A complete run in a checkout of its own, and remotes of three kinds that hold it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.checkout import Checkout, publish


@dataclass(frozen=True)
class Remote:
    """A DVC remote: its address, its settings, what its clients need in the environment."""

    url: str
    settings: dict[str, str] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)

    def add_to(self, checkout: Checkout) -> None:
        """Make it the default remote of this checkout alone."""
        checkout.dvc("remote", "add", "--local", "--default", "store", self.url)
        for name, value in self.settings.items():
            checkout.dvc("remote", "modify", "--local", "store", name, value)


@contextmanager
def server(*command: str, port: int) -> Iterator[str]:
    """A local HTTP server in a child process, once it answers."""
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(url, timeout=5).close()
                break
            except OSError:
                assert process.poll() is None, f"{command} ended with {process.returncode}"
                assert time.monotonic() < deadline, f"{command} does not answer"
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def published(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Somebody's finished run, committed, its artifacts in their DVC cache."""
    return publish(root, tmp_path_factory.mktemp("theirs") / "run", tmp_path_factory.mktemp("their-cache"))


@pytest.fixture(scope="session")
def folder(published: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Remote:
    """A folder that holds the run, run-cache included."""
    remote = Remote(str(tmp_path_factory.mktemp("store")))
    remote.add_to(published)
    published.selfgen("push")
    return remote


@pytest.fixture(scope="session")
def http(folder: Remote) -> Iterator[Remote]:
    """The same folder, to be read over HTTP."""
    port = free_port()
    command = (sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", folder.url)
    with server(*command, port=port) as url:
        yield Remote(url)


@pytest.fixture(scope="session")
def s3(published: Checkout, folder: Remote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    """A bucket behind a real S3 API that holds the run; the published checkout keeps its folder remote."""
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    port = free_port()
    with server(sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port), port=port) as url:
        request = urllib.request.Request(f"{url}/bucket", method="PUT")
        urllib.request.urlopen(request, timeout=30).close()
        remote = Remote("s3://bucket/selfgen", {"endpointurl": url}, keys)
        writer = Checkout(published.path, published.cache, keys)
        writer.dvc("remote", "add", "--local", "bucket", remote.url)
        writer.dvc("remote", "modify", "--local", "bucket", "endpointurl", url)
        writer.dvc("push", "--remote", "bucket")
        yield remote
