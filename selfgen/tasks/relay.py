"""The sandbox for a forked child: programs go over a pipe to a fresh Python process that owns its own interpreter pool.

Monty's runtime keeps threads, which do not survive a fork: a child that touched it would hang, and one that used its
parent's pool would corrupt the parent's sessions. A process that never forks never comes here.

The other end is `python -m selfgen.tasks.relay`: one JSON line in (the code), one JSON line out (the outcome).
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys


class Relays:
    """Up to `workers` relay processes, started as they are needed. `run` may be called from any thread."""

    def __init__(self, workers: int) -> None:
        self._idle: queue.LifoQueue[subprocess.Popen[str] | None] = queue.LifoQueue()
        for _ in range(workers):
            self._idle.put(None)

    def run(self, code: str) -> tuple[str, int | None, str]:
        """Status, value and detail of one program, as in `sandbox.Outcome`."""
        relay = self._idle.get()
        try:
            relay = relay or _start()
            assert relay.stdin is not None
            assert relay.stdout is not None
            relay.stdin.write(json.dumps(code) + "\n")
            relay.stdin.flush()
            status, value, detail = json.loads(relay.stdout.readline())
            return status, value, detail
        except (OSError, ValueError):
            if relay is not None:
                _stop(relay)
                relay = None
            return "crash", None, "the relay process of a forked child ended"
        finally:
            self._idle.put(relay)

    def close(self) -> None:
        """End all idle relays."""
        with contextlib.suppress(queue.Empty):
            while True:
                relay = self._idle.get_nowait()
                if relay is not None:
                    _stop(relay)


def _start() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "selfgen.tasks.relay"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="ascii")


def _stop(relay: subprocess.Popen[str]) -> None:
    for pipe in (relay.stdin, relay.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    relay.kill()
    relay.wait()


def _serve() -> None:
    """Answer programs until the other side closes the pipe."""
    from selfgen.tasks.sandbox import Sandbox

    with Sandbox() as sandbox:
        for line in sys.stdin:
            outcome = sandbox.run(json.loads(line))
            print(json.dumps([outcome.status, outcome.value, outcome.detail]), flush=True)


if __name__ == "__main__":
    _serve()
