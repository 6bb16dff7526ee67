"""The claim says what the verdict and the controls allow, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from selfgen.report import claim
from selfgen.report.run import Run, load
from tests.report import tree

REGISTERED = {"rl_gsm8k": {"data": "curated"}, "rl_selfgen": {"data": "tasks"}}
WITH_RANDOM = REGISTERED | {"rl_random_reward": {"data": "tasks", "reward": "random"}}
# Far enough apart that 300 items decide.
CLEAR = {"base": 0.2, "rl_gsm8k": 0.5, "rl_selfgen": 0.97, "rl_random_reward": 0.25}


@pytest.fixture
def made(tmp_path: Path, root: Path):
    def make(arms: dict[str, Any], accuracy: dict[str, float]) -> Run:
        params = tree.params(root, arms=arms)
        return load(tree.evaluate(tree.copy(root, tmp_path / "run"), params, accuracy), params)

    return make


@pytest.fixture
def stopped(tmp_path: Path, root: Path):
    def make(until: str, audit_errors: int = 0) -> Run:
        params = tree.params(root, arms=REGISTERED)
        tree.make(tmp_path, params, n_test=30, rejected=0, audit_errors=audit_errors, until=until)
        return load(tmp_path, params, partial=True)

    return make


def test_validated_and_better_than_random_reward_may_say_replace(made) -> None:
    found = claim.make(made(WITH_RANDOM, CLEAR))
    assert found.verdict == "validated"
    assert found.replaces
    assert "could replace" in found.sentence


def test_without_a_random_reward_arm_the_claim_never_says_replace(made) -> None:
    found = claim.make(made(REGISTERED, CLEAR))
    assert found.verdict == "validated"
    assert not found.replaces
    assert "replace" not in found.sentence
    assert "cannot tell the tasks' own worth" in found.sentence
    assert any("No random-reward control" in limit for limit in found.limits)


def test_a_random_reward_arm_that_does_as_well_takes_the_claim_back(made) -> None:
    found = claim.make(made(WITH_RANDOM, CLEAR | {"rl_random_reward": 0.97}))
    assert found.verdict == "validated"
    assert not found.replaces
    assert "replace" not in found.sentence
    assert "does not beat rl_random_reward" in found.sentence


def test_failed_names_the_criterion_that_failed(made) -> None:
    found = claim.make(made(REGISTERED, {"base": 0.2, "rl_gsm8k": 0.97, "rl_selfgen": 0.3}))
    assert found.verdict == "failed"
    assert "The claim fails: rl_selfgen \u2212 rl_gsm8k lies below" in found.sentence


def test_inconclusive_says_that_nothing_is_decided(made) -> None:
    found = claim.make(made(REGISTERED, {"base": 0.4, "rl_gsm8k": 0.6, "rl_selfgen": 0.6}))
    assert found.verdict == "inconclusive"
    assert "cannot decide" in found.sentence


def test_a_failed_audit_is_named_as_what_stopped_the_run(stopped) -> None:
    found = claim.make(stopped("audit", audit_errors=2))
    assert found.verdict == "stopped"
    assert found.sentence.startswith("Stopped by the audit before any training: 2 label errors in 40 audited tasks")


def test_an_unfinished_run_claims_nothing(stopped) -> None:
    found = claim.make(stopped("gate"))
    assert (found.verdict, found.sentence) == ("stopped", "Not finished: there is no verdict yet.")


def test_the_embedded_scale_says_that_it_is_no_evidence_about_real_models(made) -> None:
    limits = claim.make(made(REGISTERED, CLEAR)).limits
    assert any("no evidence about Qwen" in limit for limit in limits)
    assert any("stand-in" in limit for limit in limits)
    assert any(limit.startswith("One training seed") for limit in limits)
    assert any("7.22 %" in limit for limit in limits)


def test_a_curated_arm_without_gain_is_pointed_out(made) -> None:
    limits = claim.make(made(REGISTERED, {"base": 0.5, "rl_gsm8k": 0.45, "rl_selfgen": 0.6})).limits
    assert any("shows no clear gain over base" in limit for limit in limits)
