"""A run through a network that breaks a tenth of all calls ends with the artifacts of a run on a calm one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from selfgen.embedded.launch import running_server
from tests.support.faulty import KINDS, FaultyProxy
from tests.support.sizes import SMALL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
VOLATILE = ("timing.json", "location.json", "provenance.json", "feasibility.json")


def project(root: Path, folder: Path, *sizes: str) -> Path:
    """A small project whose service is wherever TINKER_BASE_URL says."""
    for name in ("conf", "review", "imports"):
        shutil.copytree(root / name, folder / name)
    (folder / "review/audit_rounds").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "selfgen.cli", "compose", *SMALL, "service.kind=remote", *sizes]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def artifacts(folder: Path) -> dict[str, bytes]:
    """Path -> content of everything a run wrote that two equal runs must share."""
    paths = [path for part in ("data", "metrics") for path in (folder / part).rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.name not in VOLATILE}


def environment(root: Path, folder: Path, url: str, key: str) -> dict[str, str]:
    """The code under test, the service, and a journal of the run's own."""
    named = {"PYTHONPATH": str(root), "TINKER_BASE_URL": url, "TINKER_API_KEY": key}
    return {**os.environ, **named, "SELFGEN_CACHE": str(folder / "cache")}


def test_a_tenth_of_all_calls_broken_changes_nothing(root: Path, tmp_path: Path) -> None:
    found, port = {}, 0
    for name, share in (("calm", 0.0), ("storm", 0.1)):
        folder = project(root, tmp_path / name)
        with (
            running_server(["selfgen/policy", "selfgen/auditor"], folder / "state", seed=0) as info,
            FaultyProxy(info.base_url, faults=share, seed=0, port=port) as proxy,
        ):
            port = proxy.port  # a manifest holds a hash of the service's address, so both runs need one address
            done = subprocess.run(
                [sys.executable, "-m", "tests.support.service_run"],
                cwd=folder,
                env=environment(root, folder, proxy.url, info.api_key),
                capture_output=True,
                text=True,
                check=False,
            )
        assert done.returncode == 0, done.stderr[-3000:]
        found[name] = artifacts(folder)
    assert set(proxy.broken) == set(KINDS)
    assert 0.07 < sum(proxy.broken.values()) / proxy.calls < 0.13
    assert "data/decide/decision.json" in found["calm"]
    assert sorted(found["calm"]) == sorted(found["storm"])
    assert [path for path in found["calm"] if found["calm"][path] != found["storm"][path]] == []
