"""Two runs side by side, one of them read from a git revision through DVC."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from selfgen.errors import DataError
from selfgen.params import Params
from selfgen.report import cli, compare
from selfgen.report.run import Run, load
from tests.report import tree

CLEAR = {"base": 0.2, "rl_gsm8k": 0.5, "rl_selfgen": 0.97}


@pytest.fixture(scope="module")
def params(root: Path) -> Params:
    return tree.params(root)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, params: Params, root: Path) -> Path:
    return tree.evaluate(tree.copy(root, tmp_path_factory.mktemp("first") / "run"), params, CLEAR)


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory, params: Params, root: Path) -> tuple[Path, Params]:
    """The same tasks, evaluated again under another alpha and with a worse treated arm."""
    params = params.model_copy(update={"decision": params.decision.model_copy(update={"alpha": 0.1})})
    where = tree.copy(root, tmp_path_factory.mktemp("second") / "run")
    return tree.evaluate(where, params, CLEAR | {"rl_selfgen": 0.3}, seed=1), params


@pytest.fixture(scope="module")
def runs(first: Path, params: Params, second: tuple[Path, Params]) -> tuple[Run, Run]:
    return load(first, params), load(*second)


def test_params_that_differ_are_listed_by_key(runs: tuple[Run, Run]) -> None:
    assert compare.changed_params(*runs) == [("decision.alpha", "0.05", "0.1")]


def test_figures_show_both_values_and_the_change(runs: tuple[Run, Run]) -> None:
    rows = {row["name"]: row for row in compare.figures(*runs)}
    assert rows["accuracy of rl_selfgen"]["change"].startswith("\u2212")
    assert rows["yield of the filter"]["change"] == "same"
    assert rows["generated_eval_exact_overlaps"]["change"] == "same"


def test_items_gained_and_lost_add_up_to_the_change_in_accuracy(runs: tuple[Run, Run]) -> None:
    for row in compare.same_items(*runs):
        right = [sum(r.correct for r in run.evaluations[row["arm"]]) for run in runs]
        assert row["gained"] - row["lost"] == right[1] - right[0]
        assert row["checkpoint"] == "same"


def test_the_page_holds_both_claims(runs: tuple[Run, Run]) -> None:
    page = compare.render(*runs, ("main", "this run"))
    assert "main against this run" in page
    assert ">Validated<" in page
    assert ">Failed<" in page
    assert page.count("<svg") == 2 + len(runs[0].trainings)


def test_a_stopped_run_can_stand_beside_a_finished_one(runs: tuple[Run, Run], tmp_path: Path, params: Params) -> None:
    tree.make(tmp_path, params, n_test=30, until="audit", audit_errors=1)
    page = compare.render(runs[0], load(tmp_path, params, partial=True), ("a", "b"))
    assert ">Stopped<" in page


def test_a_revision_is_read_through_dvc_and_the_working_tree_stays(
    first: Path, second: tuple[Path, Params], params: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dvc.repo import Repo

    where = tmp_path / "project"
    shutil.copytree(first, where)
    (where / "params.yaml").write_text(yaml.safe_dump(params.model_dump(mode="json")), encoding="utf-8")
    monkeypatch.chdir(where)

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    with Repo.init() as repo:
        repo.add("data")
    git("add", ".dvc", "data.dvc", "params.yaml", "metrics", ".gitignore")
    git("commit", "-q", "-m", "a run")
    shutil.rmtree(where / "data")
    shutil.copytree(second[0] / "data", where / "data")
    before = sorted(path.relative_to(where) for path in (where / "data").rglob("*"))

    done = CliRunner().invoke(cli.report, ["--compare", "main"])
    assert done.exit_code == 0, done.output
    page = (where / "reports/compare.html").read_text(encoding="utf-8")
    assert ">Validated<" in page
    assert ">Failed<" in page
    assert sorted(path.relative_to(where) for path in (where / "data").rglob("*")) == before

    git("checkout", "-q", "-b", "never-run")
    (where / "dvc.yaml").write_text("stages: {}\n", encoding="utf-8")
    git("add", "dvc.yaml")
    git("commit", "-q", "-m", "no run")
    with (
        pytest.raises(DataError, match=r"never-run: no run is recorded there"),
        compare.at_revision(where, "never-run"),
    ):
        pass
    shutil.rmtree(where / ".dvc/cache")
    with (
        pytest.raises(
            DataError, match=r"^main: data/[a-z/.]+: neither in the DVC cache nor in a remote; try `dvc fetch`"
        ),
        compare.at_revision(where, "main"),
    ):
        pass
    with (
        pytest.raises(DataError, match="no such git revision or DVC experiment"),
        compare.at_revision(where, "no-such-branch"),
    ):
        pass


def test_markdown_goes_to_the_terminal(second: tuple[Path, Params], monkeypatch: pytest.MonkeyPatch) -> None:
    where, params = second
    (where / "params.yaml").write_text(yaml.safe_dump(params.model_dump(mode="json")), encoding="utf-8")
    monkeypatch.chdir(where)
    done = CliRunner().invoke(cli.report, ["--markdown"])
    assert done.output.startswith("## selfgen: failed")
    assert CliRunner().invoke(cli.report, ["--markdown", "--compare", "x"]).exit_code == 2
