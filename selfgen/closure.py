"""The code a stage runs: its import closure inside this project, hashed without comments and docstrings.

DVC hashes files, so a stage that lists its modules re-runs for a reworded comment and silently does not re-run for
a module that nobody listed. Here the closure is computed from the source instead: every module of this project that
a stage script can import, at any depth, also inside functions. Stage `code` writes one small file per stage; each
stage depends on its own. Trees are compared after parsing, so comments, docstrings and layout change nothing.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from selfgen.errors import DataError

PACKAGE = "selfgen"
# What an embedded server runs; it is a subprocess, which no import statement names.
SERVER = "selfgen/embedded/child.py"
_NOT_CODE = {".py", ".pyc", ".md"}


@cache
def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except SyntaxError as error:
        raise DataError(f"{path}:{error.lineno}: not Python: {error.msg}; mend it and run `dvc repro` again") from None


def _module_file(root: Path, name: str) -> Path | None:
    """The file of a dotted module name inside this project, or None."""
    base = root.joinpath(*name.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


@cache
def _imported(tree: ast.Module, package: str) -> tuple[str, ...]:
    """Dotted names that a module may import, by statements anywhere in it. Trees are told apart by identity."""
    return tuple(_imports(tree, package))


def _imports(tree: ast.Module, package: str) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


@cache
def _neighbours(path: Path, root: Path) -> tuple[Path, ...]:
    """Files of this project that one file can import directly."""
    package = ".".join(path.relative_to(root).parent.parts)
    names: set[str] = set()
    for name in _imported(_parsed(path), package):
        parts = name.split(".")
        if parts[0] == PACKAGE:  # importing a.b.c runs a, a.b and a.b.c
            names.update(".".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return tuple(found for name in sorted(names) if (found := _module_file(root, name)) is not None)


def closure(script: str | Path, root: str | Path = ".") -> list[Path]:
    """Files of this project that a script can import, itself included, sorted, relative to `root`.

    Raises:
        DataError: a file of the closure is not Python.
    """
    root = Path(root)
    seen: set[Path] = set()
    queue = [root / script]
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen.add(path)
        queue += _neighbours(path, root)
    return sorted(path.relative_to(root) for path in seen)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return tree


def code_hash(path: str | Path) -> str:
    """sha256 of a Python file's syntax tree without docstrings, or of another file's bytes."""
    path = Path(path)
    if path.suffix != ".py":
        state = path.stat()
        return _bytes_hash(path, state.st_mtime_ns, state.st_size)
    return _source_hash(path.read_text(encoding="utf-8"))


@cache
def _source_hash(source: str) -> str:
    tree = _without_docstrings(ast.parse(source))
    return hashlib.sha256(ast.dump(tree, annotate_fields=False).encode()).hexdigest()


@cache
def _bytes_hash(path: Path, modified: int, size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def data_files(modules: Iterable[Path], root: str | Path = ".") -> list[Path]:
    """Files that ship beside the modules of a closure (schemas, templates, model weights) and are read at run time."""
    root = Path(root)
    found: set[Path] = set()
    packages = {module.parent for module in modules if module.parts[0] == PACKAGE}
    for package in packages:
        for path in (root / package).rglob("*"):
            inside = path.relative_to(root)
            between = [p for p in inside.parents if package in p.parents]
            if not path.is_file() or path.suffix in _NOT_CODE or "__pycache__" in inside.parts:
                continue
            if any((root / parent / "__init__.py").is_file() for parent in between):
                continue  # belongs to a package of its own
            found.add(inside)
    return sorted(found)


def describe(script: str | Path, *, server: bool, root: str | Path = ".") -> dict[str, str]:
    """{file: hash} of all a stage script runs; `server` adds the embedded server's code and the shipped models."""
    files = set(closure(script, root))
    if server:
        files |= set(closure(SERVER, root))
    modules = sorted(files)
    everything = [*modules, *data_files(modules, root)]
    return {path.as_posix(): code_hash(Path(root) / path) for path in everything}
