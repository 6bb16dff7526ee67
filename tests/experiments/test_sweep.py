"""DVC's experiments on this graph: queued, with workers, one of them failing; and every way to look at what came out."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.checkout import Checkout

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Sweep:
    """A checkout after a sweep of three, and what `dvc exp run --run-all` said."""

    checkout: Checkout
    said: str


@pytest.fixture(scope="module")
def sweep(published: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    checkout = published.branch_off(tmp_path_factory.mktemp("sweep") / "work")
    for name, change in (
        ("loose", "decision.alpha=0.1"),
        ("refused", "gate.selfgen_mean_train_reward_pilot.max=0.2"),
        ("strict", "decision.alpha=0.01"),
    ):
        checkout.dvc("exp", "run", "--queue", "--name", name, "--set-param", change)
    done = checkout.dvc("exp", "run", "--run-all", "--jobs", "2", check=False)
    return Sweep(checkout, done.stdout + done.stderr)


def shown(checkout: Checkout) -> dict[str, dict[str, str]]:
    """Rows of `dvc exp show` by name or revision."""
    table = checkout.dvc("exp", "show", "--csv").stdout
    return {row["Experiment"] or row["rev"]: row for row in csv.DictReader(table.splitlines())}


def test_a_failing_run_in_the_middle_stops_no_other_and_says_why(sweep: Sweep) -> None:
    states = {
        line.split()[1]: line.split()[-1]
        for line in sweep.checkout.dvc("queue", "status").stdout.splitlines()
        if re.match(r"^[0-9a-f]{7} ", line)
    }
    assert states == {"loose": "Success", "strict": "Success", "refused": "Failed"}
    said = sweep.checkout.dvc("queue", "logs", "refused").stdout
    assert "error: gate: selfgen_mean_train_reward_pilot is " in said
    assert "narrow filter.solve" in said


def test_the_workspace_is_untouched(sweep: Sweep) -> None:
    assert sweep.checkout.run("git", "status", "--porcelain").stdout == ""
    assert "up to date" in sweep.checkout.dvc("status").stdout


def test_show_lists_each_with_its_params_and_its_verdict(sweep: Sweep) -> None:
    rows = shown(sweep.checkout)
    assert {name: rows[name]["decision.alpha"] for name in ("loose", "strict")} == {"loose": "0.1", "strict": "0.01"}
    widths = {
        name: float(rows[name]["criteria.noninferiority_vs_gsm8k_rl.upper"])
        - float(rows[name]["criteria.noninferiority_vs_gsm8k_rl.lower"])
        for name in ("main", "loose", "strict")
    }
    assert widths["loose"] < widths["main"] < widths["strict"]
    assert rows["loose"]["verdict"] in ("validated", "failed", "inconclusive")


def test_diffs_name_what_changed_and_nothing_else(sweep: Sweep) -> None:
    params = json.loads(sweep.checkout.dvc("params", "diff", "loose", "strict", "--json").stdout)
    ((key, change),) = params.pop("params.yaml").items()
    assert (params, key, change["old"], change["new"]) == ({}, "decision.alpha", 0.1, 0.01)
    metrics = json.loads(sweep.checkout.dvc("metrics", "diff", "loose", "strict", "--json").stdout)
    assert set(metrics) == {"metrics/decision.json"}
    assert "criteria.noninferiority_vs_gsm8k_rl.lower" in metrics["metrics/decision.json"]


def test_plots_compare_revisions_by_arm(sweep: Sweep, tmp_path: Path) -> None:
    found = json.loads(sweep.checkout.dvc("plots", "diff", "loose", "strict", "--json").stdout)
    assert not found.get("errors")
    assert set(found["data"]) == {"reward", "correct", "mixed_groups", "response_tokens", "entropy", "kl", "pass_rate"}
    ((chart,),) = [found["data"]["reward"]]
    points = chart["content"]["data"]["values"]
    assert {(point["arm"], point["rev"]) for point in points} == {
        (arm, rev)
        for arm in ("rl_gsm8k", "rl_selfgen", "rl_random_reward", "rl_gsm8k_aa", "rl_mixed")
        for rev in ("loose", "strict")
    }
    assert "<DVC_METRIC" not in json.dumps(chart["content"])
    sweep.checkout.dvc("plots", "show", "--out", str(tmp_path / "page"))
    assert "Groups with mixed rewards" in (tmp_path / "page/index.html").read_text()


def test_an_experiment_travels_and_is_applied_elsewhere_without_running(
    sweep: Sweep, published: Checkout, tmp_path: Path
) -> None:
    sweep.checkout.dvc("remote", "add", "--local", "--default", "store", str(tmp_path / "store"))
    sweep.checkout.dvc("exp", "push", "origin", "loose")
    theirs = published.clone(tmp_path / "theirs")
    theirs.dvc("remote", "add", "--local", "--default", "store", str(tmp_path / "store"))
    theirs.dvc("exp", "pull", "origin", "loose")
    theirs.dvc("exp", "apply", "loose")
    assert "alpha: 0.1" in (theirs.path / "params.yaml").read_text()
    assert "up to date" in theirs.dvc("status").stdout
    verified = json.loads(theirs.selfgen("verify", "--json", check=False).stdout)
    assert [claim for claim in verified["claims"] if claim["status"] == "failed"] == []


def test_a_branch_of_an_experiment_is_an_ordinary_commit(sweep: Sweep, tmp_path: Path) -> None:
    sweep.checkout.dvc("exp", "branch", "strict", "strict-alpha")
    said = sweep.checkout.run("git", "show", "strict-alpha:metrics/decision.json").stdout
    assert json.loads(said)["n"] == 60
    assert "alpha: 0.01" in sweep.checkout.run("git", "show", "strict-alpha:params.yaml").stdout
