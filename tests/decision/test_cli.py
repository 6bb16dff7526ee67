import json
import sys

import pytest

from selfgen import cli
from selfgen.decision.collect import collect, read_run
from selfgen.errors import DataError
from tests.decision import project


def selfgen(monkeypatch, capsys, *arguments):
    """(exit code, stdout, stderr) of the command as a user runs it."""
    monkeypatch.setattr(sys, "argv", ["selfgen", *arguments])
    monkeypatch.setattr(cli, "leave", sys.exit)  # other tests of this process have loaded the SDK
    code = 0
    try:
        cli.main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def checkout(tmp_path, root, monkeypatch):
    folder = tmp_path / "checkout"
    project.make(folder, root / "params.yaml")
    (folder / "conf").symlink_to(root / "conf")
    monkeypatch.chdir(folder)
    return folder


def test_power_says_plainly_what_the_registered_rule_needs(checkout, monkeypatch, capsys):
    code, out, _ = selfgen(monkeypatch, capsys, "power", "--n", "1319", "--difference", "0", "--discordance", "0.2")
    assert code == 0
    assert "+5.2 points observed (+68 items) or more validate it" in out
    assert "12,380" in out


def test_power_takes_n_from_the_test_set_and_the_rest_from_rows(checkout, monkeypatch, capsys):
    files = [f"--rows={arm}=data/eval/{arm}/rows.jsonl" for arm in project.ARMS]
    code, out, _ = selfgen(monkeypatch, capsys, "power", "--json", "--difference", "0", "--draws", "100", *files)
    account = json.loads(out)
    assert code == 0
    assert account["n"] == project.N
    assert account["assumed"] == {"rl_gsm8k": 35 / 60, "base": 20 / 60}
    assert account["scenarios"][0]["discordance"] == pytest.approx(5 / 60)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["power", "--accuracy", "base"], 2, "must be ARM=VALUE"),
        (["power", "--accuracy", "base=x"], 1, "must be a number"),
        (["power", "--accuracy", "base=1.5"], 1, "strictly between 0 and 1"),
        (["power", "--n", "0"], 2, "0 is not in the range"),
        (["power", "--params", "none.yaml"], 1, "no such file"),
        (["spec", "--check", "none.json"], 2, "does not exist"),
        (["prereg", "--check"], 1, "no such file"),
    ],
)
def test_what_a_user_gets_wrong_is_one_line(checkout, monkeypatch, capsys, arguments, code, message):
    found, _, err = selfgen(monkeypatch, capsys, *arguments)
    assert found == code
    assert message in err
    assert "Traceback" not in err


def test_prereg_writes_checks_and_notices_a_change(checkout, monkeypatch, capsys):
    text = (checkout / "params.yaml").read_text()
    (checkout / "params.yaml").write_text(text.replace("kind: embedded", "kind: remote"))
    code, out, _ = selfgen(monkeypatch, capsys, "prereg", "--seed", "0", "--seed", "1")
    assert code == 0
    assert "written; commit it before evaluating" in out
    assert selfgen(monkeypatch, capsys, "prereg", "--seed", "0", "--seed", "1", "--check")[0] == 1  # not committed
    project.git(checkout, "add", "prereg")
    project.git(checkout, "commit", "-q", "-m", "plan")
    code, out, _ = selfgen(monkeypatch, capsys, "prereg", "--check")
    assert code == 0
    assert "committed 2" in out
    (checkout / "params.yaml").write_text(
        text.replace("kind: embedded", "kind: remote").replace("max_words: 120", "max_words: 121")
    )
    code, out, err = selfgen(monkeypatch, capsys, "prereg", "--check")
    assert code == 1
    assert "params.filter.max_words: registered 120, now 121" in out
    assert "1 entries differ" in err


def test_spec_compares_a_file_and_fails_where_it_differs(checkout, monkeypatch, capsys):
    assert selfgen(monkeypatch, capsys, "compose", "scale=spec", "--out", "spec.yaml")[0] == 0
    code, out, _ = selfgen(monkeypatch, capsys, "spec", "--params", "spec.yaml")
    assert code == 0
    assert "0 different, 0 unknown" in out
    code, out, err = selfgen(monkeypatch, capsys, "spec")
    assert code == 1
    assert 'base_model: plan "Qwen/Qwen3.5-2B"' in out
    assert "is not the plan" in err


def test_seeds_are_collected_from_dvc_experiments(tmp_path, root, monkeypatch, capsys):
    folder = tmp_path / "checkout"
    project.make_dvc(folder, root / "params.yaml")
    monkeypatch.chdir(folder)
    for seed in (1, 2):
        project.dvc(folder, "exp", "run", "-q", "-n", f"seed-{seed}", "-S", f"seed={seed}")
    project.git(folder, "checkout", "-q", "--", ".")
    project.dvc(folder, "checkout", "-q")

    code, out, err = selfgen(monkeypatch, capsys, "seeds", "--json", "--ledger", "seeds.jsonl")
    assert code == 0, err
    result = json.loads(out)
    assert result["seeds"] == [1, 2]
    assert [row["source"] for row in result["per_seed"]] == ["seed-1", "seed-2"]
    estimates = [row["criteria"]["noninferiority_vs_gsm8k_rl"]["estimate"] for row in result["per_seed"]]
    assert estimates == pytest.approx([6 / 60, 7 / 60])
    assert result["ledger"]["new"] == 2

    code, out, _ = selfgen(monkeypatch, capsys, "seeds", "workspace", "HEAD", "seed-2", "--ledger", "seeds.jsonl")
    assert code == 0
    assert "HEAD repeats seed 0 of workspace exactly" in out
    assert "3 seeds, 1 new" in out

    with pytest.raises(DataError, match="nonsense"):
        read_run(folder, "nonsense")
    assert len(collect(folder, [])) == 2


def test_a_folder_without_dvc_is_told_so(checkout, monkeypatch, capsys):
    code, _, err = selfgen(monkeypatch, capsys, "seeds")
    assert code == 1
    assert "not a DVC project" in err
