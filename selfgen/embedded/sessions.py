"""What lives between requests: client sessions, sampling sessions with their request order, and promises."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Seconds to wait for a lower seq_id before going on without it: longer than a client waits for an answer (60 s) before
# it sends a request again, so that a bad network changes no sample. Only unseeded requests wait.
ORDER_PATIENCE = 90.0
KEEP_RETRIEVED = 180.0  # a poll whose answer was lost is repeated after 45 s at most, and may be lost again
KEEP_UNREAD = 1800.0
CLONE_BLOCK = 1_000_000_000


class Promise:
    """The result of a queued call: bytes with a content type once done."""

    def __init__(self, request_id: str, extra: dict[str, Any] | None = None) -> None:
        self.request_id = request_id
        self.extra = extra or {}
        self.body: bytes | None = None
        self.media_type = "application/json"
        self.ready = asyncio.Event()
        self.expires = float("inf")
        self.cancel: Callable[[], None] | None = None

    def set(self, body: bytes, media_type: str = "application/json") -> None:
        self.body, self.media_type = body, media_type
        self.expires = time.monotonic() + KEEP_UNREAD
        self.cancel = None  # it holds the whole job
        self.ready.set()

    def set_json(self, value: Any) -> None:
        self.set(json.dumps(value).encode())

    def fail(self, message: str, category: str) -> None:
        self.set_json({"error": message, "category": category})

    def to_json(self) -> dict[str, Any]:
        return {"request_id": self.request_id, **self.extra}


class Promises:
    """Promises by request id. Ids derive from the client's own sequence numbers, so a re-sent request finds its own."""

    def __init__(self) -> None:
        self._table: OrderedDict[str, Promise] = OrderedDict()

    def get(self, request_id: str) -> Promise | None:
        return self._table.get(request_id)

    def create(self, request_id: str, extra: dict[str, Any] | None = None) -> Promise:
        promise = self._table[request_id] = Promise(request_id, extra)
        return promise

    def retrieved(self, promise: Promise) -> None:
        """The client has it; keep it a little, in case the answer was lost on the way."""
        promise.expires = min(promise.expires, time.monotonic() + KEEP_RETRIEVED)

    def sweep(self) -> None:
        now = time.monotonic()
        for request_id in [key for key, p in self._table.items() if p.expires < now]:
            del self._table[request_id]

    def __len__(self) -> int:
        return len(self._table)


@dataclass
class SamplingSession:
    """One sampling client, tied to the content (`digest`) its path had when it was made.

    Requests are released in seq_id order per clone; `occurrences` counts equal prompts, `skipped` holds the ids that
    were not waited for.
    """

    id: str
    owner: str
    base_model: str
    path: str | None
    digest: str | None
    next_seq: dict[int, int] = field(default_factory=dict)
    held: dict[int, dict[int, Callable[[], None]]] = field(default_factory=dict)
    skipped: list[range] = field(default_factory=list)
    occurrences: dict[bytes, int] = field(default_factory=dict)

    def occurrence(self, prompt: list[int]) -> int:
        """How many requests with this prompt came before, by seq_id."""
        key = hashlib.sha256(np.asarray(prompt, dtype="<i4").tobytes()).digest()[:16]
        count = self.occurrences.get(key, 0)
        self.occurrences[key] = count + 1
        return count

    def came_before(self, seq_id: int) -> bool:
        """Whether a request with this id was released already."""
        clone, number = divmod(seq_id, CLONE_BLOCK)
        return number < self.next_seq.get(clone, 0) and not any(seq_id in ids for ids in self.skipped)

    def arrive(self, seq_id: int, release: Callable[[], None]) -> bool:
        """Release this request, and any that waited for it, once all lower ids have come. False: it is held."""
        clone, number = divmod(seq_id, CLONE_BLOCK)
        waiting = self.held.setdefault(clone, {})
        waiting[number] = release
        expected = self.next_seq.get(clone, 0)
        if number < expected:
            del waiting[number]
            release()
            return True
        self._drain(clone, expected)
        return number not in waiting

    def skip(self, seq_id: int) -> None:
        """A lower id never came: go on with the lowest one held, if `seq_id` is still held."""
        clone, number = divmod(seq_id, CLONE_BLOCK)
        waiting = self.held.get(clone, {})
        if number in waiting:
            lowest, start = min(waiting), clone * CLONE_BLOCK
            self.skipped.append(range(start + self.next_seq.get(clone, 0), start + lowest))
            self._drain(clone, lowest)

    def _drain(self, clone: int, expected: int) -> None:
        waiting = self.held[clone]
        while expected in waiting:
            waiting.pop(expected)()
            expected += 1
        self.next_seq[clone] = max(expected, self.next_seq.get(clone, 0))


@dataclass
class ClientSession:
    """One ServiceClient: what it made, and when it was last heard of."""

    id: str
    user_metadata: dict[str, Any] | None
    display_name: str | None
    runs: list[str] = field(default_factory=list)
    samplers: list[str] = field(default_factory=list)
    seen: float = field(default_factory=time.monotonic)
    finished: bool = False
