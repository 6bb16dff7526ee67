"""Logical lines of Python source, valid or broken, alike under every Python version."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest

from selfgen.tasks import codetext
from selfgen.tasks.scan import logical_lines

ROOT = Path(__file__).resolve().parents[2]


def texts(source: str) -> list[tuple[int, list[str]]] | None:
    lines = logical_lines(source)
    return None if lines is None else [(line.depth, [word.text for word in line.words]) for line in lines]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", []),
        ("# only\n\n", []),
        ("a=1", [(0, ["a", "=", "1"])]),
        ("if a:\n  b\n\n\n  c # d\nelse: e", [(0, ["if", "a", ":"]), (1, ["b"]), (1, ["c"]), (0, ["else", ":", "e"])]),
        ("f(a,\n# b\n  c)\nd", [(0, ["f", "(", "a", ",", "c", ")"]), (0, ["d"])]),
        ("a = \\\n  b\n", [(0, ["a", "=", "b"])]),
        ("'a#b' \"it's\" rb'\\'x'", [(0, ["'a#b'", '"it\'s"', "rb'\\'x'"])]),
        ('x = """a\n"b"\n"""; y', [(0, ["x", "=", '"""a\n"b"\n"""', ";", "y"])]),
        ("'' \"\" '''''' x", [(0, ["''", '""', "''''''", "x"])]),
        ("1.5e-3j 0xFF 1_0 .5 a.b 1..c", [(0, ["1.5e-3j", "0xFF", "1_0", ".5", "a", ".", "b", "1.", ".", "c"])]),
        ("a//=b**c!=d->e:=f...", [(0, ["a", "//=", "b", "**", "c", "!=", "d", "->", "e", ":=", "f", "..."])]),
        ("\tif a:\n        b", [(1, ["if", "a", ":"]), (1, ["b"])]),  # a tab is eight columns
        ("été = größe", [(0, ["été", "=", "größe"])]),
        ("a\r\nb", [(0, ["a"]), (0, ["b"])]),
        # broken, and read all the same
        ("30_adults ? $ b", [(0, ["30_", "adults", "b"])]),
        ("say 'it\nb", [(0, ["say", "it"]), (0, ["b"])]),
        ("a\x00b", [(0, ["a", "b"])]),
        # not to be read
        ('x = """a', None),
        ("x = '''", None),
        ("f(a\nb", None),
        ("a ) b\nc", None),
        ("f(a] b)", None),
        ("f(a]\nb", None),
        ("if a:\n    b\n  c", None),
    ],
)
def test_words_and_depths(source: str, expected: list | None) -> None:
    assert texts(source) == expected


def test_words_know_their_lines() -> None:
    lines = logical_lines('a = f(\n  b)\n\nc = """x\ny"""\n')
    assert lines is not None
    assert [(word.text, word.first, word.last) for word in lines[0].words][-2:] == [("b", 2, 2), (")", 2, 2)]
    assert [(word.first, word.last) for word in lines[1].words] == [(4, 4), (4, 4), (4, 5)]


def test_top_level_statements_of_this_project_are_those_of_the_parser() -> None:
    """Over a hundred real files; decorators and clauses belong to their statement."""
    files = [path for folder in ("selfgen", "stages", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 100
    for path in files:
        source = path.read_text(encoding="utf-8")
        expected = []
        for node in ast.parse(source).body:
            decorators = getattr(node, "decorator_list", [])
            expected.append((min([node.lineno, *(d.lineno for d in decorators)]), node.end_lineno))
        found = codetext._statements(source)
        assert found is not None, path
        assert [(s.first, s.last) for s in found] == expected, path


@pytest.mark.parametrize("name", ["python3.11", "python3.12", "python3.13", "python3.14"])
def test_another_python_reads_broken_source_alike(name: str) -> None:
    other = shutil.which(name)
    if other is None or subprocess.run([other, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"needs {name} on PATH")
    program = (
        "import json, random; from selfgen.tasks.codetext import _statements, without_demonstration as show\n"
        "rows = [json.loads(line) for line in open('tests/tasks/data/judged_generations.jsonl', encoding='utf-8')]\n"
        "odd = ['30_a', '1if', '?', '$', '`', chr(34), chr(39) * 3, 'f{', '(', ')', chr(0), chr(92), '\\t', '\\u00bd', '0777']\n"
        "rng = random.Random(0)\n"
        "for row in rows:\n"
        "    for _ in range(10):\n"
        "        text, at = row['text'], rng.randrange(len(row['text']) + 1)\n"
        "        text = text[:at] + rng.choice(odd) + text[at:] if rng.random() < 0.7 else text[:at]\n"
        "        found = _statements(text)\n"
        "        said = found and [(s.first, s.last, s.word, sorted(s.names), sorted(s.binds)) for s in found]\n"
        "        print(ascii(said), ascii(show(text)))\n"
    )

    def run(python: str) -> str:
        command = [python, "-X", "utf8", "-c", program]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    mine = run(shutil.which("python3") or "python3")
    assert mine.count("\n") > 1000
    assert run(other) == mine
