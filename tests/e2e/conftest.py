"""One small run of the whole pipeline in a checkout of its own, shared by the tests of this folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.checkout import Checkout, make_checkout
from tests.support.sizes import SMALL

TRACING = Path(__file__).resolve().parents[1] / "support/tracing"


@pytest.fixture(scope="session")
def reads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The params keys that each stage of `small_run` read: STAGE.json."""
    return tmp_path_factory.mktemp("reads")


@pytest.fixture(scope="session")
def small_run(root: Path, reads: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The pipeline run to its verdict at a small size, by a plan registered before it."""
    checkout = make_checkout(root, tmp_path_factory.mktemp("run") / "check out é", tmp_path_factory.mktemp("cache"))
    mine = [{"q": f"Ann has {n} pens and buys 2 more. How many pens does Ann have?", "a": n + 2} for n in (3, 4)]
    (checkout.path / "evalsets/mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in mine))
    checkout.selfgen("compose", *SMALL, "+transfer.mine={source: evalsets/mine.jsonl, question: q, answer: a}")
    traced = replace(checkout, extra={"SELFGEN_TRACE": str(reads), "PYTHONPATH": str(TRACING)})
    traced.dvc("repro", "curated")
    checkout.selfgen("prereg", "--seed", "0", "--seed", "1")
    checkout.commit("small")
    traced.dvc("repro")
    checkout.commit("run")
    return checkout
