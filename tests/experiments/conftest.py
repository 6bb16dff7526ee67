"""Experiments on a finished run: what they change needs no service, so that a sweep takes seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checkout import Checkout, publish


@pytest.fixture(scope="session")
def published(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A finished run, committed."""
    return publish(root, tmp_path_factory.mktemp("experiments") / "run", tmp_path_factory.mktemp("cache"))
