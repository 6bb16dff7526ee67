"""The code a stage runs: its import closure inside this project, hashed without comments and docstrings.

DVC hashes files, so a stage that lists its modules re-runs for a reworded comment and silently does not re-run for
a module that nobody listed. Here the closure is computed from the source instead: every module of this project that
a stage script can import, at any depth, also inside functions. Stage `code` writes one small file per stage; each
stage depends on its own. Trees are compared after parsing, so comments, docstrings and layout change nothing.

Left out is what cannot change a result: imports for the type checker, modules that only speak to the user, and the
embedded server where a remote service does the work. docs/invalidation.md lists what each module re-runs.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from selfgen.errors import DataError

PACKAGE = "selfgen"
# What an embedded server runs; it is a subprocess, which no import statement names.
SERVER = "selfgen/embedded/child.py"
# The server's own modules and the shipped models; a remote service runs code of its own.
SERVER_PACKAGE = Path("selfgen/embedded")
# What these print is read by people and by no stage; they may end a run, and change nothing of it.
SPEAKING = frozenset({Path("selfgen/cli.py"), Path("selfgen/progress.py"), Path("selfgen/capabilities.py")})
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


def _run_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node below `tree`, without the bodies of `if TYPE_CHECKING:`, which never run."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in node.orelse:
                yield other
                yield from _run_nodes(other)
            continue
        yield node
        yield from _run_nodes(node)


def _imports(tree: ast.Module, package: str) -> Iterable[str]:
    for node in _run_nodes(tree):
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
    return hashlib.sha256("".join(_words(tree)).encode()).hexdigest()


def _words(node: object) -> Iterator[str]:
    """A syntax tree as text that every Python gives alike.

    `ast.dump` shows fields that one version has and another has not (`type_params` came with 3.12); here a field that
    is empty says nothing. Only a constant may be None; `ascii`, because what `repr` prints depends on the version's Unicode.
    The text between the fields of an f-string comes in other pieces, or with an empty piece at the end.
    """
    if isinstance(node, ast.JoinedStr):
        yield "(JoinedStr "
        for text, pieces in itertools.groupby(node.values, lambda value: isinstance(value, ast.Constant)):
            if text:
                found = "".join(str(piece.value) for piece in pieces if isinstance(piece, ast.Constant))
                yield ascii(found) if found else ""
            else:
                for piece in pieces:
                    yield from _words(piece)
        yield ")"
    elif isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for name in node._fields:
            value = getattr(node, name, None)
            if (value is None or value == []) and not isinstance(node, ast.Constant):
                continue
            yield f" {name}="
            yield from _words(value)
        yield ")"
    elif isinstance(node, list):
        yield "["
        for item in node:
            yield from _words(item)
            yield ","
        yield "]"
    else:
        yield ascii(node)


@cache
def _bytes_hash(path: Path, modified: int, size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def data_files(modules: Iterable[Path], root: str | Path = ".") -> list[Path]:
    """Files that ship beside the modules of a closure (schemas, templates, model weights) and are read at run time.

    A file counts for the modules of its package that name it, or the folder it lies in, in a string; a file that no
    module of its package names counts for all of them.
    """
    root = Path(root)
    chosen: dict[Path, set[Path]] = {}
    for module in modules:
        if module.parts[0] == PACKAGE:
            chosen.setdefault(module.parent, set()).add(module)
    found: set[Path] = set()
    for package, members in chosen.items():
        everyone = {path.relative_to(root) for path in (root / package).glob("*.py")}
        for inside in _beside(package, root):
            words = (inside.name, inside.relative_to(package).parts[0])
            named = {module for module in everyone if _mentions(_parsed(root / module), words)}
            if members & (named or everyone):
                found.add(inside)
    return sorted(found)


def _beside(package: Path, root: Path) -> Iterator[Path]:
    """Files below a package, relative to `root`, that are not code and belong to no package inside it."""
    for path in (root / package).rglob("*"):
        inside = path.relative_to(root)
        if path.suffix in _NOT_CODE or "__pycache__" in inside.parts or not path.is_file():
            continue
        between = [parent for parent in inside.parents if package in parent.parents]
        if not any((root / parent / "__init__.py").is_file() for parent in between):
            yield inside


@cache
def _mentions(tree: ast.Module, words: tuple[str, ...]) -> bool:
    """Whether a string of the module holds one of the words as a part of a path."""
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return any(word in text.split("/") for text in texts for word in words)


def describe(script: str | Path, *, server: bool, root: str | Path = ".") -> dict[str, str]:
    """{file: hash} of all that a stage script's results depend on.

    `server`: the embedded server does the work, so its code and the shipped models count; otherwise they do not.
    """
    return hashes(closure(script, root), server=server, root=root)


def hashes(modules: Iterable[Path], *, server: bool, root: str | Path = ".") -> dict[str, str]:
    """`describe` for the closure of one script, or of several together."""
    chosen = set(modules)
    if server:
        chosen |= set(closure(SERVER, root))
    else:
        chosen = {path for path in chosen if SERVER_PACKAGE not in path.parents}
    chosen -= SPEAKING
    everything = sorted({*chosen, *data_files(chosen, root)})
    return {path.as_posix(): code_hash(Path(root) / path) for path in everything}
