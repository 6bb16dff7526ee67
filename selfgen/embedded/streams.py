"""Random streams that depend on what is sampled, never on when.

A sequence's uniforms are Philox output keyed by sha256 of (server seed, content of the weights, prompt, occurrence of
that prompt within the sampling session or the seed the client gave, sample index). Arrival order, batch composition
and restarts do not enter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

BLOCK = 128


def stream_key(
    server_seed: int, weights: str, prompt: Sequence[int], occurrence: int | None, seed: int | None, index: int
) -> int:
    """128-bit key of one sequence's stream; give either an occurrence (0 for a prompt's first request) or a seed."""
    which = f"seed:{seed}" if seed is not None else f"occurrence:{occurrence}"
    digest = hashlib.sha256(f"{server_seed}|{weights}|{which}|{index}|".encode())
    digest.update(np.asarray(prompt, dtype="<i4").tobytes())
    return int.from_bytes(digest.digest()[:16], "little")


class UniformStream:
    """Uniform draws in [0, 1), one per position, in blocks."""

    def __init__(self, key: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(key=key))
        self._block: list[float] = []
        self._next = 0

    def draw(self) -> float:
        return self.take(1)[0]

    def take(self, count: int) -> list[float]:
        """The next `count` draws, at most BLOCK."""
        end = self._next + count
        if end > len(self._block):
            self._block = self._block[self._next :] + self._generator.random(BLOCK).tolist()
            self._next, end = 0, count
        found = self._block[self._next : end]
        self._next = end
        return found
