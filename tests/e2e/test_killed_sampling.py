"""`generate` and `filter` killed with -9 ten times at random moments: the files of an undisturbed run, nothing paid twice."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from selfgen.embedded.launch import running_server
from tests.e2e.test_bad_network import artifacts, environment, project
from tests.support.faulty import FaultyProxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
KILLS = 10
AHEAD = 4
SIZES = (f"service.concurrency={AHEAD}", "generate.n_candidates=100", "filter.n_accept=36")


class Run:
    """A project folder in which single stages are started, and killed."""

    def __init__(self, root: Path, folder: Path, proxy: FaultyProxy, key: str) -> None:
        self.folder = project(root, folder, *SIZES)
        self.proxy = proxy
        self._environment = environment(root, folder, proxy.url, key)

    def start(self, *stages: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.support.service_run", *stages]
        with open(self.folder / "errors.log", "wb") as errors:
            return subprocess.Popen(command, cwd=self.folder, env=self._environment, stderr=errors)

    def finish(self, *stages: str) -> None:
        assert self.start(*stages).wait(timeout=200) == 0, (self.folder / "errors.log").read_text()[-3000:]

    def killed_after(self, stage: str, deliveries: int, pause: float) -> None:
        """Start a stage; kill it a moment after so many of its samples came."""
        enough = threading.Event()
        wanted = self.proxy.delivered + deliveries
        self.proxy.on_delivered = lambda number: enough.set() if number >= wanted else None
        process = self.start(stage)
        try:
            if deliveries:
                assert enough.wait(timeout=60), f"{stage} ended, or hangs, before {deliveries} samples came"
            time.sleep(pause)
            assert process.poll() is None, f"{stage} ended before it was killed"
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.proxy.on_delivered = None

    def journaled(self) -> int:
        """Requests whose answer is written down."""
        path = self.folder / "cache/journal.sqlite"
        if not path.exists():
            return 0
        with closing(sqlite3.connect(path)) as database:
            (table,) = database.execute("SELECT COUNT(*) FROM sqlite_master WHERE name = 'samples'").fetchone()
            return database.execute("SELECT COUNT(*) FROM samples").fetchone()[0] if table else 0


@pytest.fixture(scope="module")
def place(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, Run]]:
    """An undisturbed run of both stages, and a project to be killed in, on one server and one address."""
    folder = tmp_path_factory.mktemp("killed")
    with (
        running_server(["selfgen/policy", "selfgen/auditor"], folder / "state", seed=0) as info,
        FaultyProxy(info.base_url) as proxy,
    ):
        calm, killed = (Run(root, folder / name, proxy, info.api_key) for name in ("calm", "killed"))
        calm.finish("curated", "generate", "filter")
        killed.finish("curated")
        yield calm, killed


@pytest.mark.parametrize("stage", ["generate", "filter"])
def test_killed_ten_times_it_ends_as_if_undisturbed(place: tuple[Run, Run], stage: str) -> None:
    calm, killed = place
    proxy, rng = killed.proxy, random.Random(stage)
    if stage == "filter":
        shutil.copytree(calm.folder / "data/generate", killed.folder / "data/generate", dirs_exist_ok=True)
    lost = 0
    proxy.asked.clear()
    for _ in range(KILLS):
        asked, kept = sum(proxy.asked.values()), killed.journaled()
        killed.killed_after(stage, rng.randrange(3), rng.random() * 0.05)
        in_flight = sum(proxy.asked.values()) - asked - (killed.journaled() - kept)
        assert 0 <= in_flight <= AHEAD
        lost += in_flight
        assert not list((killed.folder / "data" / stage).glob("*.jsonl")), "nothing half-written is left"
    killed.finish(stage)
    twice = sum(count - 1 for count in proxy.asked.values())
    assert twice <= lost, "a sample that was written down was asked for again"
    assert lost, "no kill met a request in flight: the sizes are too small to show anything"
    expected, found = (
        {path: body for path, body in artifacts(run.folder).items() if path.startswith(f"data/{stage}/")}
        for run in (calm, killed)
    )
    assert expected
    assert found == expected
