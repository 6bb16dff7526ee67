"""What `dvc plots` draws: one table of all arms' curves, one of pass rates, and templates that know arms."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml

from selfgen import report
from selfgen.records import read_json
from tests.support import artifacts


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with its report."""
    root = tmp_path_factory.mktemp("run")
    report.build(root, artifacts.build(root))
    return root


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_arm_and_step_is_in_the_table_with_its_figures(built: Path) -> None:
    found = rows(built / "reports/curves.csv")
    arms = sorted({row["arm"] for row in found})
    assert arms == ["rl_gsm8k", "rl_gsm8k_aa", "rl_mixed", "rl_random_reward", "rl_selfgen"]
    for arm in arms:
        curve = [json.loads(line) for line in (built / f"data/train/{arm}/curve.jsonl").read_text().splitlines()]
        drawn = [row for row in found if row["arm"] == arm]
        assert [int(row["step"]) for row in drawn] == [0, 1, 2, 3]
        for name in ("reward", "mixed_groups", "response_tokens"):
            assert [float(row[name]) for row in drawn] == [row[name] for row in curve]


def test_pass_rates_are_counted_over_all_sampled_tasks(built: Path) -> None:
    counted = read_json(built / "data/filter/yields.json")["difficulty"]["right_of_n"]
    found = rows(built / "reports/pass_rate.csv")
    assert [(int(row["right"]), int(row["tasks"])) for row in found] == list(enumerate(counted))
    assert len(found) == 9


def test_each_plot_of_the_graph_has_its_column_and_its_template(root: Path, built: Path) -> None:
    plots = {
        name: plot for entry in yaml.safe_load((root / "dvc.yaml").read_text())["plots"] for name, plot in entry.items()
    }
    assert set(plots) == {"reward", "correct", "mixed_groups", "response_tokens", "entropy", "kl", "pass_rate"}
    for plot in plots.values():
        ((file, column),) = plot["y"].items()
        assert {plot["x"], column} <= set(rows(built / file)[0])
        template = json.loads((root / f".dvc/plots/{plot['template']}.json").read_text())
        assert template["encoding"]["y"]["field"] == "<DVC_METRIC_Y>"
