"""A function in a worker process with a timeout that is enforced: a late worker is killed.

Threads cannot be stopped and signals reach only the main thread, so a grader that hangs needs a process of its own.
The worker starts on first use, answers call after call over a pipe of JSON lines, and is replaced after a kill.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import queue
import resource
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

_START = 120.0
_MEMORY = 3 * 1024**3


class Worker:
    """Calls the function named `module:function` in a child process that has `imports` loaded before it counts time.

    Thread-safe: calls take turns. The child may use 3 GB of address space and ends with its parent, at exit or when
    its pipe closes.
    """

    def __init__(self, target: str, imports: Sequence[str] = ()) -> None:
        self._target = target
        self._imports = tuple(imports)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.timeouts = 0
        self.starts = 0
        atexit.register(self._kill)

    def call(self, timeout: float, *args: Any) -> Any:
        """The function's JSON result, or None when it raises, dies or takes longer than `timeout` seconds."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            assert self._process is not None
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps(args) + "\n")
                self._process.stdin.flush()
                answer = self._answers.get(timeout=timeout)
            except (queue.Empty, BrokenPipeError):
                self.timeouts += 1
                self._kill()
                return None
            if not answer:
                self._kill()
                return None
            return json.loads(answer)

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._kill()

    def _start(self) -> None:
        self.starts += 1
        environment = dict(os.environ, OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "selfgen.evaluation.worker", self._target, *self._imports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=environment,
        )
        answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._answers = answers
        stdout = self._process.stdout
        assert stdout is not None

        def read() -> None:
            for line in stdout:
                answers.put(line)
            answers.put("")

        threading.Thread(target=read, daemon=True).start()
        try:
            ready = answers.get(timeout=_START)
        except queue.Empty:
            ready = ""
        if not ready:
            self._kill()
            raise RuntimeError(f"the grading worker for {self._target} does not start")

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


def _serve(target: str, imports: Sequence[str]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    # Whatever the graded function prints must not end up among the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    module, name = target.split(":")
    function = getattr(importlib.import_module(module), name)
    for module in imports:
        importlib.import_module(module)
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        try:
            result = function(*json.loads(line))
        except Exception:
            result = None
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2:])
