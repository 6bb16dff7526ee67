"""A proxy in front of a Tinker server that counts calls and, if asked, breaks a share of them as networks do.

    with FaultyProxy(upstream, faults=0.1, seed=0) as proxy: ...proxy.url...

Which calls break and how follows from the seed and from the number of the call on its path. Half of the broken calls
never reach the server; the other half are carried out there and their answer is lost, which a server must bear: the
client sends the same request again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

KINDS = ("429", "500", "503", "reset", "half", "stall", "slow", "twice")
STALL_SECONDS = 2.0


class FaultyProxy:
    """HTTP/1.1 on loopback. `kinds` are those of KINDS in use; `until(n)` waits for the n-th delivered sample."""

    def __init__(
        self, upstream: str, faults: float = 0.0, seed: int = 0, port: int = 0, kinds: tuple[str, ...] = KINDS
    ) -> None:
        address = urlsplit(upstream)
        self._upstream = (address.hostname, address.port)
        self._share, self._seed, self._kinds, self.port = faults, seed, kinds, port
        self._numbers: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()  # sample requests that reached the server, by what they ask for
        self.delivered = 0  # answers of samples that went out whole
        self.missing: frozenset[str] = frozenset()  # calls that are answered as by a server without them
        self.on_delivered: Callable[[int], None] | None = None
        self._lock = threading.Lock()
        self._samples: dict[str, str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> FaultyProxy:
        self._thread.start()
        listening = asyncio.start_server(self._client, "127.0.0.1", self.port, backlog=1024, limit=1 << 26)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result()
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)

    async def _end(self) -> None:
        self._server.close()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    @property
    def calls(self) -> int:
        """Calls seen, broken or not."""
        return sum(self._numbers.values())

    def _fate(self, path: str) -> tuple[str | None, bool]:
        """What becomes of the next call on a path: the kind of fault or None, and whether the server sees it."""
        number = self._numbers[path]
        self._numbers[path] += 1
        drawn = random.Random(f"{self._seed}:{path}:{number}")
        if drawn.random() >= self._share:
            return None, True
        kind = drawn.choice(self._kinds)
        self.broken[kind] += 1
        return kind, drawn.random() < 0.5

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, headers = _parse(head)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if not await self._serve(method, path, head + body, body, writer):
                    return
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            writer.close()

    async def _serve(self, method: str, path: str, raw: bytes, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """One call; False ends the connection."""
        name = path.split("?")[0].removeprefix("/api/v1/")
        if name in self.missing:
            writer.write(_answer(404, "Not Found"))
            return True
        kind, reaches = self._fate(f"{method} {name}")
        if kind == "stall":
            await asyncio.sleep(STALL_SECONDS)
        answer = await self._ask(name, raw, body) if reaches or kind in ("half", "slow", "twice") else b""
        if kind == "twice":  # the request arrives once more, later, and nobody waits for that answer
            self._loop.call_later(1.0, lambda: self._loop.create_task(self._quietly(raw)))
        if kind in ("reset", "stall"):
            _reset(writer)
            return False
        if kind == "half":
            writer.write(answer[: len(answer) * 2 // 3])
            await writer.drain()
            await asyncio.sleep(0.05)
            _reset(writer)
            return False
        if kind in ("429", "500", "503"):
            writer.write(_answer(int(kind), f"injected {kind}"))
        elif kind == "slow":
            step = max(1, len(answer) // 8)
            for start in range(0, len(answer), step):
                writer.write(answer[start : start + step])
                await writer.drain()
                await asyncio.sleep(0.05)
        else:
            writer.write(answer)
        await writer.drain()
        if kind not in ("429", "500", "503"):
            self._went_out(name, body, answer)
        return True

    async def _quietly(self, raw: bytes) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await self._exchange(raw)

    async def _ask(self, name: str, raw: bytes, body: bytes) -> bytes:
        answer = await self._exchange(raw)
        if name == "asample" and answer.split(b" ", 2)[1] == b"200":
            request = json.loads(body)
            promise = json.loads(answer.partition(b"\r\n\r\n")[2])["request_id"]
            with self._lock:
                if promise not in self._samples:  # the same request sent again is not paid again
                    self._samples[promise] = asked_for(request)
                    self.asked[self._samples[promise]] += 1
        return answer

    async def _exchange(self, raw: bytes) -> bytes:
        """The server's whole answer, from a connection of its own."""
        reader, writer = await asyncio.open_connection(*self._upstream, limit=1 << 26)
        try:
            writer.write(raw)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(_parse(head)[2].get("content-length", 0))
            return head + await reader.readexactly(length)
        finally:
            writer.close()

    def _went_out(self, name: str, body: bytes, answer: bytes) -> None:
        if name == "retrieve_future" and answer.split(b" ", 2)[1] == b"200":
            with self._lock:
                if json.loads(body).get("request_id") not in self._samples:
                    return
                self.delivered += 1
                number = self.delivered
            if self.on_delivered is not None:
                self.on_delivered(number)


def asked_for(request: dict[str, Any]) -> str:
    """What a sample request asks for, whoever asks."""
    kept = {name: request.get(name) for name in ("prompt", "sampling_params", "num_samples")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _answer(status: int, detail: str) -> bytes:
    body = json.dumps({"detail": detail})
    head = f"HTTP/1.1 {status} Injected\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return f"{head}\r\n\r\n{body}".encode()


def _parse(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, *_ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    return method, path, {name.strip().lower(): value.strip() for name, _, value in pairs}


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, as a crashed peer or a dropped route does."""
    opened = writer.get_extra_info("socket")
    if opened is not None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
