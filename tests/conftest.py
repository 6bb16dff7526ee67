"""Fixtures that several test folders share."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent

# How fast examples come says something about the machine, not about the code. The same examples every time, so that a
# run says something about the change it tests; `pytest --hypothesis-profile explore` draws new ones.
ANY_MACHINE = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("repeatable", derandomize=True, **ANY_MACHINE)
hypothesis.settings.register_profile("explore", **ANY_MACHINE)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(autouse=True, scope="session")
def _private_cache(tmp_path_factory: pytest.TempPathFactory):
    """Tests never read or fill the user's own journal and checkpoints."""
    before = os.environ.get("SELFGEN_CACHE")
    os.environ["SELFGEN_CACHE"] = str(tmp_path_factory.mktemp("selfgen-cache"))
    os.environ["TINKER_TELEMETRY"] = "0"
    yield
    if before is None:
        del os.environ["SELFGEN_CACHE"]
    else:
        os.environ["SELFGEN_CACHE"] = before


@pytest.fixture(autouse=True)
def _no_stale_dvc_handlers() -> Iterator[None]:
    """DVC's log handlers keep the stream of the test that first used them, which is closed in the next one."""
    yield
    for name in ("dvc", "dvc_data", "dvc_objects", "dvc_task", "scmrepo"):
        logging.getLogger(name).handlers.clear()


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout under test."""
    return ROOT


@pytest.fixture(scope="session")
def gsm8k_dir() -> Path:
    """A folder with the original GSM8K train.jsonl and test.jsonl: `SELFGEN_GSM8K`, or ../shared/gsm8k."""
    folder = Path(os.environ.get("SELFGEN_GSM8K") or ROOT.parent / "shared" / "gsm8k")
    if not (folder / "test.jsonl").is_file():
        pytest.skip(f"needs GSM8K's train.jsonl and test.jsonl in {folder}; set SELFGEN_GSM8K")
    return folder


@pytest.fixture(scope="session")
def spec_json() -> Path:
    """The registered plan's file: `SELFGEN_SPEC`, or ../shared/spec.json."""
    path = Path(os.environ.get("SELFGEN_SPEC") or ROOT.parent / "shared" / "spec.json")
    if not path.is_file():
        pytest.skip(f"needs the registered plan at {path}; set SELFGEN_SPEC")
    return path


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run with control arms, built without a service. Read only."""
    from tests.support import artifacts

    folder = tmp_path_factory.mktemp("run")
    artifacts.build(folder)
    return folder


@pytest.fixture
def copy(whole_run: Path, tmp_path: Path) -> Path:
    """A copy of `whole_run` to change."""
    return Path(shutil.copytree(whole_run, tmp_path / "run"))
