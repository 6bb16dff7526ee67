"""The request journal: every paid sample is written down once, so that no stage pays for it again.

One SQLite file in the user's cache folder, shared by every stage, experiment and checkout of this user. A row's
key is the sha256 of everything that determines the samples: (model or checkpoint, prompt tokens, sampling params,
sample count, seed). SQLite's write-ahead log makes a row whole or absent after a kill; a checksum guards against a
damaged disk; `INSERT OR IGNORE` gives each key one writer.

`SELFGEN_CACHE` moves the folder, `SELFGEN_JOURNAL=off` switches the journal off.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from selfgen.errors import DataError
from selfgen.records import dumps

_SCHEMA = """
CREATE TABLE IF NOT EXISTS samples (
    key BLOB PRIMARY KEY, model TEXT NOT NULL, created REAL NOT NULL, used REAL NOT NULL, hits INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL, sampled_tokens INTEGER NOT NULL, checksum INTEGER NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID
"""


@dataclass(frozen=True)
class Sampled:
    """One sampled sequence as the service returned it; `stop_reason` is "stop" or "length"."""

    tokens: tuple[int, ...]
    stop_reason: str


def cache_dir() -> Path:
    """The user's cache folder for selfgen: `SELFGEN_CACHE`, or the platform's."""
    return Path(os.environ.get("SELFGEN_CACHE") or platformdirs.user_cache_dir("selfgen", appauthor=False))


def request_key(identity: str, prompt: Sequence[int], sampling: dict[str, Any], n: int, seed: int) -> bytes:
    """The 32-byte key of one request; `identity` names the model or checkpoint and the service that runs it."""
    text = dumps({"identity": identity, "prompt": list(prompt), "sampling": sampling, "n": n, "seed": seed})
    return hashlib.sha256(text.encode()).digest()


class Journal:
    """An open journal. Safe for several threads, processes and machines' worth of stages on one file system.

    Raises:
        DataError: the file cannot be opened or written (read-only folder, full disk, not a database).
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_dir() / "journal.sqlite"
        self._lock = threading.Lock()
        self._hits: list[bytes] = []
        self._closed = False
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise DataError(
                f"{self.path}: the request journal cannot be opened ({error}); set SELFGEN_CACHE to a writable folder, "
                "or SELFGEN_JOURNAL=off"
            ) from None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the hit counts and close the file."""
        with self._lock:
            self._flush_hits()
            self._closed = True
            self._db.close()

    def get(self, key: bytes) -> list[Sampled] | None:
        """The samples of an earlier identical request, or None. A row that fails its checksum is dropped."""
        with self._lock:
            row = self._db.execute("SELECT body, checksum FROM samples WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            body, checksum = row
            if zlib.crc32(body) != checksum:
                self._db.execute("DELETE FROM samples WHERE key = ?", (key,))
                return None
            self._hits.append(key)
            if len(self._hits) >= 512:
                self._flush_hits()
        return [Sampled(tuple(tokens), reason) for tokens, reason in json.loads(zlib.decompress(body))]

    def put(self, key: bytes, model: str, n_prompt: int, samples: Sequence[Sampled]) -> None:
        """Write one answered request down; a key that is already there keeps its first answer.

        Raises:
            DataError: the row cannot be written, e.g. the disk is full.
        """
        body = zlib.compress(json.dumps([[s.tokens, s.stop_reason] for s in samples], separators=(",", ":")).encode())
        now = time.time()
        sampled = sum(len(s.tokens) for s in samples)
        with self._lock:
            if self._closed:  # an answer that came after its stage ended
                return
            try:
                self._db.execute(
                    "INSERT OR IGNORE INTO samples VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?)",
                    (key, model, now, now, n_prompt, sampled, zlib.crc32(body), body),
                )
            except sqlite3.Error as error:
                raise DataError(
                    f"{self.path}: cannot write to the request journal ({error}); free disk space, then run the stage again"
                ) from None

    def _flush_hits(self) -> None:
        hits, self._hits = self._hits, []
        if not hits:
            return
        now = time.time()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("UPDATE samples SET hits = hits + 1, used = ? WHERE key = ?", [(now, k) for k in hits])
            self._db.execute("COMMIT")
        except sqlite3.Error:
            # Hit counts are a convenience: a busy or full disk must not cost the caller its samples.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def stats(self) -> dict[str, Any]:
        """Rows, bytes, hits, tokens held and tokens saved (tokens of a row times its hits), in all and by model."""
        with self._lock:
            self._flush_hits()
            rows = self._db.execute(
                "SELECT model, COUNT(*), SUM(hits), SUM(sampled_tokens), SUM(sampled_tokens * hits), "
                "SUM(prompt_tokens * hits) FROM samples GROUP BY model ORDER BY model"
            ).fetchall()
        names = ("requests", "hits", "sampled_tokens", "sampled_tokens_saved", "prompt_tokens_saved")
        by_model = {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows}
        total = {name: sum(int(model[name]) for model in by_model.values()) for name in names}
        size = sum(p.stat().st_size for p in self.path.parent.glob(self.path.name + "*"))
        return {"path": str(self.path), "bytes": size, **total, "models": by_model}

    def prune(self, unused_days: float) -> int:
        """Delete rows not used for `unused_days` days and give the space back; returns the number of rows."""
        with self._lock:
            self._flush_hits()
            limit = time.time() - unused_days * 86400
            count = self._db.execute("DELETE FROM samples WHERE used < ?", (limit,)).rowcount
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return count


def open_journal() -> Journal | None:
    """The user's journal, or None when `SELFGEN_JOURNAL` is off."""
    if os.environ.get("SELFGEN_JOURNAL", "on").lower() in ("off", "0", "false", "no"):
        return None
    return Journal()
