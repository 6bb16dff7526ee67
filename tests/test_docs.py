"""What the documentation tells a reader to type exists and parses; its links lead somewhere; its graph is dvc.yaml's."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import pytest
import yaml

from selfgen.cli import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path
    for pattern in ("README.md", "docs/*.md", "review/**/*.md", "imports/*.md", "selfgen/**/*.md", "tests/**/*.md")
    for path in ROOT.glob(pattern)
)
# Commands of other programs, which these pages may show and no test here can parse.
OTHERS = {"cd", "eval", "export", "find", "git", "gh", "pip", "source", "ssh-keygen", "vf-validate"}


def typed(text: str) -> Iterator[str]:
    """Command lines of a page: in bash blocks, in indented blocks, and between backticks."""
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    blocks.append("\n".join(line for line in prose.splitlines() if re.match(r"    (selfgen|make|dvc|python) ", line)))
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            yield from _parts(line)
    for code in re.findall(r"`([^`\n]+)`", prose):
        if re.match(r"(selfgen|make|dvc|python) [^=]", code) and not code.endswith(" -S"):
            yield from _parts(code)


def _parts(line: str) -> Iterator[str]:
    words = shlex.split(line, comments=True)
    if "<" in words:
        words = words[: words.index("<")]
    part: list[str] = []
    for word in [*words, "&&"]:
        if word in ("&&", "|", ";"):
            if part:
                yield shlex.join(part)
            part = []
        else:
            part.append(word)


def commands(program: str) -> list[object]:
    found = {(line, page.relative_to(ROOT).as_posix()) for page in PAGES for line in typed(page.read_text("utf-8"))}
    return [pytest.param(line, id=f"{page}: {line}") for line, page in sorted(found) if line.split()[0] == program]


def test_every_program_is_one_that_is_checked_here_or_known() -> None:
    programs = {line.split()[0] for page in PAGES for line in typed(page.read_text("utf-8"))}
    assert programs - OTHERS == {"selfgen", "make", "dvc", "python"}


@pytest.mark.parametrize("line", commands("selfgen"))
def test_selfgen_accepts(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: value)  # the files are the reader's
    try:
        _make_context(line)
    except click.MissingParameter:
        assert line in dict(leaves()), line  # prose that names a command without its arguments


def _make_context(line: str) -> None:
    words = shlex.split(line)[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words.pop(0))
        assert found is not None, line
        command = found
    command.make_context("selfgen", words)


@pytest.mark.parametrize("line", commands("make"))
def test_make_has(line: str) -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    variables = set(re.findall(r"^([A-Z]+) \?=", text, re.MULTILINE))
    for word in shlex.split(line)[1:]:
        assert word.split("=")[0] in (variables if "=" in word else targets), line


def test_what_make_runs_is_complete() -> None:
    recipes = (ROOT / "Makefile").read_text(encoding="utf-8").replace("$(SCALE)", "embedded")
    lines = re.findall(r"^\t@(selfgen .*)$", recipes, re.MULTILINE)
    assert len(lines) >= 4
    for line in lines:
        _make_context(line)


@pytest.mark.parametrize("line", commands("dvc"))
def test_dvc_accepts(line: str, tmp_path: Path) -> None:
    _check_dvc(line, tmp_path)


def _check_dvc(line: str, tmp_path: Path) -> None:
    from dvc.cli import parse_args

    from selfgen.commands import compose

    words = shlex.split(line)[1:]
    known = parse_args(words)
    if known.cmd == "exp" and getattr(known, "set_param", None):
        settings = [s if "0,1" not in s else s.split(",")[0] for s in known.set_param]  # a sweep is one of its values
        out = tmp_path / "params.yaml"
        compose.main([*settings, "--conf", str(ROOT / "conf"), "--out", str(out)], standalone_mode=False)
        assert out.exists()
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    for target in getattr(known, "targets", None) or []:
        if target == "FILE":
            continue
        if known.cmd == "repro":
            assert target.split("@")[0] in stages, line
        else:  # a file: some stage's output
            wanted = re.sub("rl_[a-z0-9_]+|base", "(rl_[a-z0-9_]+|base|[$]{key})", re.escape(target))
            outputs = [key for stage in stages.values() for key in _outputs(stage.get("do", stage))]
            assert any(re.fullmatch(wanted, name) for name in outputs), line


def _outputs(stage: dict[str, list[object]]) -> Iterator[str]:
    for kind in ("outs", "metrics", "plots"):
        for entry in stage.get(kind, []):
            yield from entry if isinstance(entry, dict) else [str(entry)]


@pytest.mark.parametrize("line", commands("python"))
def test_python_finds(line: str) -> None:
    words = shlex.split(line)[1:]
    if words[0] == "-m":
        assert importlib.util.find_spec(words[1]) is not None
    elif words[0] != "-I":
        assert (ROOT / words[0]).is_file(), line
        source = (ROOT / words[0]).read_text(encoding="utf-8")
        for option in (word for word in words[1:] if word.startswith("--")):
            assert f'"{option}"' in source, line


def test_the_reports_own_commands_exist(root: Path, tmp_path: Path) -> None:
    from selfgen.report import conduct
    from selfgen.report.run import load
    from tests.report import tree

    rows = conduct.commands(load(*tree.finished(root)))
    assert len(rows) > 10
    for number, (_, line, _) in enumerate(rows):
        if line.startswith("dvc"):
            _check_dvc(line, tmp_path / str(number))
        else:
            assert line.split()[1] in cli.list_commands(click.Context(cli))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{page.name}: {target}"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles}, target


def test_every_page_is_linked_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"(docs/{page.name})" not in text] == []


def test_environment_variables_in_the_pages_are_those_of_the_code() -> None:
    def names(paths: list[Path]) -> set[str]:
        return {name for p in paths for name in re.findall(r"\bSELFGEN_[A-Z0-9_]+", p.read_text(encoding="utf-8"))}

    code = names([*ROOT.glob("selfgen/**/*.py"), *ROOT.glob("stages/*.py")])
    assert names(PAGES) <= names([*ROOT.glob("selfgen/**/*.py"), *ROOT.glob("tests/**/*.py")])
    assert code - names(PAGES) == {"SELFGEN_SERVER_KEY"}  # between a stage and its own server


def leaves(group: click.Group = cli, name: str = "selfgen") -> Iterator[tuple[str, click.Command]]:
    for each in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), each)
        assert found is not None
        if isinstance(found, click.Group):
            yield from leaves(found, f"{name} {each}")
        else:
            yield f"{name} {each}", found


BEGIN, END = "<!-- commands: begin (written by tests/test_docs.py) -->", "<!-- commands: end -->"


def test_the_table_of_commands_is_what_their_help_says() -> None:
    rows = []
    for name, command in leaves():
        said = (command.help or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        json = "yes" if any("--json" in option.opts for option in command.params) else ""
        rows.append(f"| `{name}` | {said} | {json} |")
    table = "\n".join([BEGIN, "| command | what it does | `--json` |", "|---|---|---|", *rows, END])
    _same_table(ROOT / "docs/commands.md", table, BEGIN, END)


def _same_table(page: Path, table: str, begin: str, end: str) -> None:
    """The page's part from `begin` to `end` is this; SELFGEN_WRITE_DOCS=1 makes it so."""
    text = page.read_text(encoding="utf-8")
    start, stop = text.index(begin), text.index(end) + len(end)
    if os.environ.get("SELFGEN_WRITE_DOCS"):
        page.write_text(text[:start] + table + text[stop:], encoding="utf-8")
        return
    assert text[start:stop] == table, "run SELFGEN_WRITE_DOCS=1 pytest tests/test_docs.py"


@pytest.mark.parametrize("name", [name for name, _ in leaves()])
def test_every_help_has_an_example_that_parses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: value)
    said = dict(leaves())[name].help or ""
    examples = [part for text in re.findall(r"Examples?:(.*)", said, re.DOTALL) for part in _lines(text)]
    assert any(line.startswith(name) for line in examples), said
    for line in examples:
        if line.startswith("selfgen"):
            _make_context(line)


def _lines(text: str) -> Iterator[str]:
    """Commands of a help text's examples; one that stands in a wrapped paragraph is a single line."""
    block = text if "\n      " in text else text.replace("\n", " ")
    for line in block.splitlines():
        yield from _parts(line.strip())


def test_the_graph_in_the_readme_is_that_of_dvc_yaml() -> None:
    """Its arrows are the stages' dependencies, without those that follow from others and without stage `code`."""
    import networkx

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    drawn = re.search(r"```mermaid\n(.*?)```", text, re.DOTALL)
    assert drawn is not None
    shown = {
        (left, right)
        for line in drawn[1].splitlines()
        if "-->" in line
        for chain in [[part.split(" & ") for part in line.strip().split(" --> ")]]
        for lefts, rights in pairwise(chain)
        for left in lefts
        for right in rights
    }
    graph = networkx.DiGraph()
    listed = subprocess.run(["dvc", "dag", "--dot"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for left, right in re.findall(r'"([^"]+)" -> "([^"]+)"', listed):
        pair = [name.split("@")[0] for name in (left, right)]
        if "code" not in pair and pair[0] != pair[1]:
            graph.add_edge(*pair)
    assert shown == set(networkx.transitive_reduction(graph).edges)


CEILING = ("<!-- ceiling: begin (written by tests/test_docs.py) -->", "<!-- ceiling: end -->")


def test_the_most_that_spec_can_sample_is_arithmetic_on_its_params(tmp_path: Path) -> None:
    from selfgen.commands import compose
    from selfgen.params import load

    out = tmp_path / "params.yaml"
    compose.main(["scale=spec", "--conf", str(ROOT / "conf"), "--out", str(out)], standalone_mode=False)
    p, n_test = load(out), 1319
    arms, group, batch = len(p.arms), p.train.group_size, p.train.groups_per_batch
    sequences = {
        "generate": (p.generate.n_candidates, p.generate.max_tokens, "every candidate"),
        "filter": (
            p.generate.n_candidates * p.filter.solve.n_samples,
            p.filter.solve.max_tokens,
            "8 attempts at every candidate, if all passed the cheaper rules",
        ),
        "audit": (p.audit.sample * (1 + p.audit.retries), p.audit.max_tokens, "every task asked again twice"),
        "pilot": (arms * (p.pilot.steps * batch * group + p.pilot.eval_items), p.train.max_tokens, "both arms"),
        "train": (arms * p.train.steps * batch * group, p.train.max_tokens, "both arms"),
        "eval": ((1 + arms) * n_test * (1 + p.eval.repeat), p.eval.max_tokens, "base and both arms"),
    }
    rows = [
        f"| {stage} | {n:,} | {each:,} | {n * each / 1e6:.1f} M | {why} |"
        for stage, (n, each, why) in sequences.items()
    ]
    head = ["| stage | samples | tokens each, at most | tokens, at most | assuming |", "|---|--:|--:|--:|---|"]
    _same_table(ROOT / "docs/scales.md", "\n".join([CEILING[0], *head, *rows, CEILING[1]]), *CEILING)


def test_symptoms_are_what_the_program_says() -> None:
    """Each quoted symptom occurs in the source, up to what stands in capitals or dots for what differs."""
    sources = [*ROOT.glob("selfgen/**/*.py"), ROOT / "Makefile"]
    code = "".join(re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8")) for path in sources)
    text = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    quoted = [q for cell in re.findall(r"^\| (.*?) \|", text, re.MULTILINE) for q in re.findall(r"`([^`]+)`", cell)]
    others = (
        "dvc ",
        "conf/",
        "params.yaml`",
        "selfgen verify",
        "make",
        "No module named",
        "ensurepip",
        "apt-get ",
        "Unable to acquire lock",
    )
    ours = [q for q in quoted if not q.startswith(others) and q != "params.yaml"]
    assert len(ours) > 35
    for symptom in ours:
        parts = re.split(r"'[A-Z]+'|\b[A-Z]+\b|\.\.\.|[:,;]", symptom)
        for part in (part.strip() for part in parts if re.search("[a-z]{3}", part)):
            assert part in code, f"{symptom!r}: nothing in the code says {part!r}"
