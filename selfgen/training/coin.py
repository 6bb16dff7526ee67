"""The coin of the random-reward control: fixed by its numbers, so that anyone can flip it again without torch."""

from __future__ import annotations

import hashlib


def coin(rate: float, seed: int, step: int, group: int, sample: int) -> bool:
    """A coin that shows True with probability `rate`, fixed by its four numbers (sha256 as the source of bits)."""
    digest = hashlib.sha256(f"selfgen coin {seed} {step} {group} {sample}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < rate * 2**64
