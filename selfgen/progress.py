"""Progress of a long stage: a live line on a terminal, a sober log line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

_LOG_EVERY = 15.0


class Progress:
    """Counts what is done; `note` carries the stage's own figures (yield), `cost` says what it has cost so far.

    Use as a context manager; `update` is cheap and safe to call for every row. `cost` is asked when a line is printed
    (`Service.cost`); None shows no cost.
    """

    def __init__(self, what: str, total: int | None, cost: Callable[[], str] | None = None) -> None:
        self.what, self.total, self._cost = what, total, cost
        self.done = self.tokens = 0
        self.note = ""
        self._start = self._last = time.monotonic()
        self._live = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        self._print(final=True)

    def update(self, done: int = 1, tokens: int = 0, note: str | None = None) -> None:
        """Count `done` more rows and `tokens` more sampled tokens."""
        self.done += done
        self.tokens += tokens
        if note is not None:
            self.note = note
        now = time.monotonic()
        if now - self._last >= (0.2 if self._live else _LOG_EVERY):
            self._last = now
            self._print()

    def _print(self, final: bool = False) -> None:
        elapsed = max(time.monotonic() - self._start, 1e-9)
        parts = [f"{self.done}/{self.total}" if self.total is not None else str(self.done)]
        if self.note:
            parts.append(self.note)
        if self.tokens:
            parts.append(f"{self.tokens / elapsed:,.0f} tokens/s")
        if self._cost is not None:
            parts.append(f"{self._cost()} so far")
        if final:
            parts.append(f"{elapsed:.1f} s")
        elif self.total and self.done:
            parts.append(f"about {max(self.total - self.done, 0) * elapsed / self.done:.0f} s left")
        line = f"{self.what}: " + ", ".join(parts)
        end = "\n" if final or not self._live else ""
        lead = "\r\x1b[K" if self._live else ""
        print(f"{lead}{line}", end=end, file=sys.stderr, flush=True)
