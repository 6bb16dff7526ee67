"""The code a stage runs: found in full, and blind to comments."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from selfgen.closure import closure, code_hash, data_files, describe
from selfgen.errors import DataError

ROOT = Path(__file__).resolve().parent.parent


def project(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").replace("/init", "/__init__")
        path = path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def names(paths: list[Path]) -> list[str]:
    return [path.as_posix() for path in paths]


def test_imports_are_followed_at_any_depth_and_inside_functions(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        stages__run="from selfgen.a import work\n",
        selfgen__init="",
        selfgen__a="def work():\n    from selfgen.sub import deep\n    from . import c\n",
        selfgen__sub__init="",
        selfgen__sub__deep="import selfgen.b\n",
        selfgen__b="import os\n",
        selfgen__c="",
        selfgen__unused="",
    )
    assert names(closure("stages/run.py", root)) == [
        "selfgen/__init__.py",
        "selfgen/a.py",
        "selfgen/b.py",
        "selfgen/c.py",
        "selfgen/sub/__init__.py",
        "selfgen/sub/deep.py",
        "stages/run.py",
    ]


def test_comments_docstrings_and_layout_change_no_hash_and_code_does(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text('"""Doc."""\n\n\ndef f(x):\n    """Doc."""\n    return x + 1\n')
    first = code_hash(path)
    path.write_text("# why\ndef f( x ):\n    # here\n    return (x+1)\n")
    assert code_hash(path) == first
    path.write_text("def f(x):\n    return x + 2\n")
    assert code_hash(path) != first


EVERYTHING = '''
"""Doc."""
import a.b as c
from . import d
X: int | None = None
class K(c.Base, metaclass=M):
    """Doc."""
    field: list[int] = []
    @property
    async def g(self, a, /, b=None, *args, k=1.5, **rest) -> "K":
        async with a as (x, y): ...
        return {**rest, "\u00e9\U0001fae8": b"x"} if not (p := await b) else [*args, -1j, ...]
def h(n, width):
    text = f"{n!r:>{width}}a{{b" "c" f"{n=} {n:.2f}" f"{n}"
    match n:
        case {"a": [1, *_], **others} | K(field=None): return lambda *a: (yield)
        case None if n > 1: raise ValueError from None
    try: del text[1:2, ::3]
    except* OSError as error: global Y; Y = 10**30
    else: nonlocals = {i for i in n if i for j in i}
    return
'''


def test_a_hash_is_that_of_every_python_version(tmp_path: Path) -> None:
    """Whoever pulls artifacts with another Python must not compute them again, nor be told that the code differs."""
    path = tmp_path / "m.py"
    path.write_text(EVERYTHING)
    assert code_hash(path) == "5d66641e2ef690cfdd1e7beed22d7380655fc3ef6bf415ab36c3e71fd1481f2c"


@pytest.mark.parametrize("name", ["python3.11", "python3.12", "python3.13", "python3.14"])
def test_another_python_hashes_this_project_alike(name: str) -> None:
    other = shutil.which(name)
    if other is None or subprocess.run([other, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"needs {name} on PATH")
    files = sorted(path for folder in ("selfgen", "stages") for path in (ROOT / folder).rglob("*.py"))
    source = "import sys; from selfgen.closure import code_hash; print(*map(code_hash, sys.argv[1:]))"
    found = subprocess.run([other, "-c", source, *files], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert found.split() == [code_hash(path) for path in files]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("return", "return None"),
        ("1", "1.0"),
        ("1", "True"),
        ("'a'", "b'a'"),
        ("f'{a}{b}'", "f'{a} {b}'"),
        ("f'{a}'", "f'a'"),
        ("f'{a:{b}}'", "f'{a}{b}'"),
        ("f'{a!r}'", "f'{a!s}'"),
        ("'{a}'", "f'{a}'"),
        ("{**a}", "{a}"),
        ("a[1:]", "a[:1]"),
        ("a[::1]", "a[1]"),
        ("lambda *, a: a", "lambda a: a"),
        ("lambda a=None: a", "lambda a: a"),
        ("lambda a, /: a", "lambda a: a"),
        ("[a, [b]]", "[a, b]"),
        ("a < b < c", "(a < b) < c"),
    ],
)
def test_what_means_something_else_has_another_hash(tmp_path: Path, one: str, other: str) -> None:
    hashes = []
    for number, text in enumerate((one, other)):
        path = tmp_path / f"{number}.py"
        path.write_text(f"def f(a, b, c):\n    {text}\n")
        hashes.append(code_hash(path))
    assert hashes[0] != hashes[1]


def test_a_file_that_is_not_python_is_one_clear_error(tmp_path: Path) -> None:
    root = project(tmp_path, stages__run="import selfgen.a\n", selfgen__init="", selfgen__a="def (\n")
    with pytest.raises(DataError, match=r"selfgen/a\.py:1: not Python"):
        closure("stages/run.py", root)


def test_data_that_ships_beside_a_module_counts_and_another_packages_does_not(tmp_path: Path) -> None:
    root = project(tmp_path, stages__run="", selfgen__init="", selfgen__one__init="", selfgen__two__init="")
    (root / "selfgen/one/table.json").write_text("1")
    (root / "selfgen/two/table.json").write_text("2")
    (root / "selfgen/schemas").mkdir()
    (root / "selfgen/schemas/s.json").write_text("3")
    found = data_files([Path("selfgen/__init__.py"), Path("selfgen/one/__init__.py")], root)
    assert names(found) == ["selfgen/one/table.json", "selfgen/schemas/s.json"]


def stage_scripts(root: Path) -> list[str]:
    return sorted(path.stem for path in (root / "stages").glob("*.py"))


def test_every_stage_depends_on_the_hash_of_its_own_code(root: Path) -> None:
    graph = yaml.safe_load((root / "dvc.yaml").read_text())["stages"]
    written = set(graph["code"]["outs"])
    used = set()
    for name, stage in graph.items():
        body = stage.get("do", stage)
        module = body["cmd"].split()[2]
        script = Path(module.replace(".", "/") + ".py")
        assert (root / script).is_file(), name
        used.add(script.stem)
        if name != "code":
            assert f"data/code/{script.stem}.json" in body["deps"], name
            assert f"data/code/{script.stem}.json" in written, name
    assert used == set(stage_scripts(root))


def test_no_module_that_python_really_loads_is_missing_from_the_closure(root: Path) -> None:
    """Every import that happens while the package's modules load is one that the closure of its importer lists."""
    program = (
        "import builtins, importlib, json, pkgutil, sys\n"
        "edges, real = set(), builtins.__import__\n"
        "def spy(name, globals=None, locals=None, fromlist=(), level=0):\n"
        "    before = set(sys.modules)\n"
        "    found = real(name, globals, locals, fromlist, level)\n"
        "    importer = (globals or {}).get('__name__', '')\n"
        "    if importer.startswith('selfgen'):\n"
        "        edges.update((importer, m) for m in set(sys.modules) - before if m.startswith('selfgen'))\n"
        "    return found\n"
        "builtins.__import__ = spy\n"
        "import selfgen\n"
        "for m in pkgutil.walk_packages(selfgen.__path__, 'selfgen.'):\n"
        "    if not m.name.endswith('__main__'): importlib.import_module(m.name)\n"
        "print(json.dumps(sorted(edges)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    edges = json.loads(done.stdout.splitlines()[-1])
    assert len(edges) > 20
    for importer, imported in edges:
        base = root.joinpath(*importer.split("."))
        script = base.with_suffix(".py") if base.with_suffix(".py").is_file() else base / "__init__.py"
        listed = {path.with_suffix("").as_posix().removesuffix("/__init__") for path in closure(script, root)}
        assert imported.replace(".", "/") in listed, f"{importer} loads {imported}, which its closure does not list"


def test_the_report_is_in_no_other_stages_closure(root: Path) -> None:
    for stage in stage_scripts(root):
        listed = names(closure(f"stages/{stage}.py", root))
        assert stage == "report" or not [path for path in listed if path.startswith("selfgen/report/")], stage


def test_imports_for_the_type_checker_are_no_code_that_runs(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        stages__run="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import selfgen.a\nelse:\n    import selfgen.b\n",
        selfgen__init="",
        selfgen__a="",
        selfgen__b="",
    )
    assert names(closure("stages/run.py", root)) == ["selfgen/__init__.py", "selfgen/b.py", "stages/run.py"]


def test_data_counts_for_the_modules_that_name_it_or_its_folder(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        selfgen__init="",
        selfgen__reader="open('table.json')\n",
        selfgen__page="load('templates/page.html')\n",
        selfgen__other="",
    )
    (root / "selfgen/table.json").write_text("1")
    (root / "selfgen/templates").mkdir()
    (root / "selfgen/templates/base.html").write_text("2")
    (root / "selfgen/unnamed.txt").write_text("3")
    found = {name: names(data_files([Path(f"selfgen/{name}.py")], root)) for name in ("reader", "page", "other")}
    assert found == {
        "reader": ["selfgen/table.json", "selfgen/unnamed.txt"],
        "page": ["selfgen/templates/base.html", "selfgen/unnamed.txt"],
        "other": ["selfgen/unnamed.txt"],
    }


def test_what_only_speaks_to_the_user_re_runs_nothing(root: Path) -> None:
    assert not {"selfgen/cli.py", "selfgen/progress.py", "selfgen/capabilities.py"} & set(
        describe("stages/train.py", server=True, root=root)
    )
