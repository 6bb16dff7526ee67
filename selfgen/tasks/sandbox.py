"""Runs a candidate's `solve()` where it can reach nothing: no files, network, clock, processes or other programs.

The interpreter is `pydantic-monty`, a Python subset in a separate worker process with hard limits on time, memory
and recursion. Each program gets one session and one feed; a worker whose session hit a limit is killed. What the
sandbox cannot run is `unsupported`: there is no fallback to a plain subprocess. docs/security.md has the threat model.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import ctypes
import os
import re
import signal
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from selfgen.errors import SandboxError
from selfgen.tasks.prelude import CALL, LABEL_LIMIT, wrap
from selfgen.tasks.reasons import STATUSES
from selfgen.tasks.relay import Relays

__all__ = ["LABEL_LIMIT", "STATUSES", "Outcome", "Sandbox", "run_solve"]

TIME_LIMIT_S: Final = 2.0
WATCHDOG_S: Final = 0.25  # past the time limit, before the worker is killed from outside
MEMORY_LIMIT: Final = 64 * 2**20  # bytes of heap
RECURSION_LIMIT: Final = 1000  # CPython's default
SOURCE_LIMIT: Final = 20_000  # characters; compiling is not on the interpreter's own clock
DETAIL_LIMIT: Final = 200  # characters
SESSIONS_PER_WORKER: Final = 500

_LIMITS: Final = {
    "max_feed_duration_secs": TIME_LIMIT_S,
    "max_memory": MEMORY_LIMIT,
    "max_recursion_depth": RECURSION_LIMIT,
    "max_suspensions": 100,
}
# Functions whose results in Monty 1.4.0 differ from CPython's in the last digit: a floor would make that a wrong label.
_INEXACT: Final = re.compile(r"\.\s*(?:cbrt|l?gamma|erfc?|atanh)\b|\b(?:cbrt|l?gamma|erfc?|atanh)\s*\(")
# A clock, entropy or a real sleep would make the label depend on when it was computed: asking for them is refused.
_POLICY: Final = {"datetime": "call_host", "random_start": "call_host", "sleep": "zero"}

_REINSTALL: Final = "reinstall it: pip install --force-reinstall pydantic-monty==1.4.0"

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Outcome:
    """What one run of `solve()` came to.

    `status` is one of `reasons.STATUSES`; `value` the label, an int, when `status` is "ok" and None otherwise;
    `detail` one line of evidence, at most 200 characters, empty when "ok".
    """

    status: str
    value: int | None = None
    detail: str = ""


class Sandbox:
    """A pool of `workers` interpreter processes. Use as a context manager; `run` may be called from any thread.

    Opening it runs one known program, so that a broken installation raises `SandboxError` instead of rejecting
    candidate after candidate.

    >>> with Sandbox() as sandbox:
    ...     sandbox.run("def solve():\\n    return 6 * 7").value
    42
    """

    def __init__(self, workers: int = 1) -> None:
        if workers < 1:
            raise ValueError("a sandbox needs at least one worker")
        self.workers = workers
        self._pool: Any = None
        self._relays: Relays | None = None

    def __enter__(self) -> Sandbox:
        _open.add(self)
        if _monty_belongs_to_parent():
            self._relays = Relays(self.workers)
        else:
            self._pool = _start_pool(self.workers)
        outcome = self.run("def solve():\n    return 6 * 7")
        if outcome.value != 42:
            self.__exit__()
            raise SandboxError(f"the sandbox cannot run 6 * 7 ({outcome.status}: {outcome.detail}); {_REINSTALL}")
        return self

    def __exit__(self, *exc: object) -> None:
        _open.discard(self)
        pool, self._pool = self._pool, None
        relays, self._relays = self._relays, None
        if pool is not None:
            pool.__exit__(None, None, None)
        if relays is not None:
            relays.close()

    def run(self, code: str) -> Outcome:
        """Run `code`, then `solve()`; ends within 2.5 s whatever the program does.

        Raises:
            ValueError: the sandbox is not open.
            SandboxError: no interpreter process can be started.
        """
        if len(code) > SOURCE_LIMIT:
            return Outcome("unsupported", detail=f"source of {len(code)} characters; the cap is {SOURCE_LIMIT}")
        if (name := _inexact(code)) is not None:
            return Outcome("unsupported", detail=f"{name} may differ from CPython in the last digit")
        if self._pool is not None:
            return _run_in_pool(self._pool, code)
        if self._relays is not None:
            return Outcome(*self._relays.run(code))
        raise ValueError("the sandbox is closed; use it as a context manager")

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """`function(item)` for all items, in order, in `workers` threads; lazy, with a few items in flight.

        For functions that spend their time in `run`, which waits without holding the interpreter lock.
        """
        if self.workers == 1:
            yield from map(function, items)
            return
        pending: deque[Future[R]] = deque()
        with ThreadPoolExecutor(self.workers, thread_name_prefix="sandbox") as threads:
            for item in items:
                pending.append(threads.submit(function, item))
                if len(pending) >= 4 * self.workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()


def run_solve(code: str) -> Outcome:
    """Run one program in this process's shared sandbox (started on first use, closed at exit)."""
    global _shared
    if _shared is None:
        with _lock:
            if _shared is None:
                _shared = Sandbox().__enter__()
    return _shared.run(code)


_lock = threading.Lock()
_shared: Sandbox | None = None
_open: weakref.WeakSet[Sandbox] = weakref.WeakSet()
_monty_pid: int | None = None  # the process whose threads run Monty


def _close_shared() -> None:
    global _shared
    sandbox, _shared = _shared, None
    if sandbox is not None:
        sandbox.__exit__()


def _after_fork() -> None:
    """In a forked child: leave the parent's workers alone; open sandboxes go on through relays.

    A pool that is deallocated kills its workers, the parent's. A child that ends clears its modules, so no list of ours
    keeps the pool: a reference that nobody gives back does.
    """
    global _lock
    _lock = threading.Lock()
    for sandbox in list(_open):
        if sandbox._pool is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(sandbox._pool))
            sandbox._pool = None
        sandbox._relays = Relays(sandbox.workers)


atexit.register(_close_shared)
os.register_at_fork(after_in_child=_after_fork)


def _monty_belongs_to_parent() -> bool:
    return _monty_pid is not None and _monty_pid != os.getpid()


def _start_pool(workers: int) -> Any:
    global _monty_pid
    import pydantic_monty

    pool = pydantic_monty.Monty(
        min_processes=1,
        max_processes=workers,
        request_timeout=TIME_LIMIT_S + WATCHDOG_S,
        feed_duration_limit_grace=WATCHDOG_S,
        max_checkouts_per_worker=SESSIONS_PER_WORKER,
    )
    try:
        pool.__enter__()
    except RuntimeError as error:
        raise SandboxError(f"the sandbox does not start: {_line(str(error))}; {_REINSTALL}") from None
    _monty_pid = os.getpid()
    return pool


def _run_in_pool(pool: Any, code: str) -> Outcome:
    import pydantic_monty

    try:
        return _run_in_session(pool, code)
    except pydantic_monty.MontyCrashedError as error:
        return Outcome("timeout" if error.timed_out else "crash", detail=_line(str(error)))


def _run_in_session(pool: Any, code: str) -> Outcome:
    import pydantic_monty

    with pool.checkout(limits=_LIMITS, os_policy=_POLICY, assert_message_annotations=False) as session:
        try:
            value = session.feed_run(wrap(code), print_callback=_discard)
        except pydantic_monty.MontySyntaxError as error:
            message = _line(str(error))
            return Outcome("unsupported" if _BEYOND_COMPILER.match(message) else "syntax", detail=message)
        except pydantic_monty.MontyRuntimeError as error:
            message = _line(error.display("type-msg"))
            if message.startswith("TypeError: '<=' not supported") and _raised_by_the_call(error):
                return Outcome("bad_type", detail=f"solve() returned {message.rpartition(' and ')[2]}")
            outcome = _classify(message)
            if outcome.status in ("timeout", "memory"):
                _kill(session.worker_pid)
            return outcome
        except UnicodeEncodeError:
            return Outcome("syntax", detail="the source holds an unpaired surrogate")
    return _judge(value)


def _inexact(code: str) -> str | None:
    """The first function of `code` that is not exact, if any. The substring test spares most programs the regex."""
    if any(part in code for part in ("cbrt", "gamma", "erf", "atanh")) and (found := _INEXACT.search(code)):
        return found[0].strip(" .(")
    return None


def _discard(stream: str, text: str) -> None:
    """Printed output is never kept: only the return value counts."""


def _kill(pid: int | None) -> None:
    """End the worker we hold: after a limit its heap has no guarantees, and a new one costs two milliseconds."""
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _line(text: str) -> str:
    """One short printable line of whatever a program put into an exception: safe to show in a terminal."""
    text = "".join(c if c.isprintable() else " " for c in text[: 4 * DETAIL_LIMIT])
    return " ".join(text.split())[:DETAIL_LIMIT]


def _raised_by_the_call(error: Any) -> bool:
    frames = error.traceback()
    return bool(frames) and frames[-1].source_line == CALL


def _judge(value: object) -> Outcome:
    """Outcome of a value that came back; trusts nothing that ran inside."""
    if type(value) is int and abs(value) <= LABEL_LIMIT:
        return Outcome("ok", value)
    if type(value) is int or (type(value) is list and value == [True]):
        return Outcome("out_of_range", detail=f"an int beyond {LABEL_LIMIT}")
    if type(value) is list and value == [False]:
        return Outcome("bad_type", detail="solve() returned a float beyond the range of labels")
    return Outcome("bad_type", detail=f"solve() returned {type(value).__name__!r}")


_NAME = re.compile(r"NameError: name '(\w+)' is not defined")
_ATTRIBUTE = re.compile(r"AttributeError: '(\w+)' object has no attribute '(\w+)'")
_MODULE = re.compile(r"AttributeError: module '([\w.]+)' has no attribute")
_BEYOND_COMPILER = re.compile(r"Source is too deeply nested|function too large")
_UNSUPPORTED = re.compile(
    r"NotImplementedError: The monty|ModuleNotFoundError: |ImportError: |PermissionError: "
    r"|RuntimeError: '[\w.]+' is not supported in this environment|RuntimeError: Internal error in monty"
    r"|RuntimeError: .*suspension"
)


def _classify(message: str) -> Outcome:
    """Status of an exception, from its `Type: message` line: the program's own fault, a limit, or the sandbox's."""
    if message.startswith("TimeoutError: feed time limit exceeded"):
        status = "timeout"
    elif message.startswith(("MemoryError: memory limit exceeded", "MemoryError: the worker exceeded")):
        status = "memory"
    elif _UNSUPPORTED.match(message) or _missing_in_sandbox(message):
        status = "unsupported"
    else:
        status = "error"
    return Outcome(status, detail=message)


def _missing_in_sandbox(message: str) -> bool:
    """True when CPython has the name, method or module attribute that the sandbox lacks."""
    if name := _NAME.match(message):
        return hasattr(builtins, name[1])
    if attribute := _ATTRIBUTE.match(message):
        kind = getattr(builtins, attribute[1], None)
        return isinstance(kind, type) and hasattr(kind, attribute[2])
    if module := _MODULE.match(message):
        return module[1].partition(".")[0] in sys.stdlib_module_names
    return False
