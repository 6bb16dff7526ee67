"""Training runs and checkpoints on disk, shared by any number of server processes.

    STATE/runs/RUN/run.json                          what the run is
    STATE/runs/RUN/KIND/NAME.safetensors             a checkpoint: one file, so that it is whole or absent
    STATE/runs/RUN/KIND/NAME.json                    what may change later: expiry

KIND is weights, sampler_weights or external_weights; `tinker://RUN/KIND/NAME` names the file. A file is written under
a temporary name, flushed to the disk, then renamed; readers never see a part of one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torch import Tensor

from selfgen.embedded.errors import RequestError

KINDS = {"weights": "training", "sampler_weights": "sampler", "external_weights": "external"}
SAFE = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_.:=+@-]{0,199}")
UNNAMED = "@"  # first letter of checkpoints that belong to a sampling session; never listed
HEADER_LIMIT = 100 << 20


@dataclass(frozen=True)
class Entry:
    """One checkpoint as listed. `meta` is what was saved with it; times are seconds since the epoch."""

    run: str
    kind: str
    name: str
    meta: dict[str, Any]
    size: int
    expires: float | None
    public: bool

    @property
    def path(self) -> str:
        return f"tinker://{self.run}/{self.kind}/{self.name}"

    def to_json(self) -> dict[str, Any]:
        """The SDK's `Checkpoint`."""
        return {
            "checkpoint_id": f"{self.kind}/{self.name}",
            "checkpoint_type": KINDS[self.kind],
            "time": iso(self.meta["created"]),
            "tinker_path": self.path,
            "size_bytes": self.size,
            "public": self.public,
            "user_metadata": self.meta.get("user_metadata"),
            "expires_at": iso(self.expires) if self.expires else None,
        }


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def safe(name: str, what: str) -> str:
    """`name` if it is fit to be a file name. Refuses separators, leading dots, odd characters and overlong names."""
    if not SAFE.fullmatch(name):
        raise RequestError(f"{what} {name[:80]!r}: use up to 200 letters, digits and _ . : = + @ - (no slash)")
    return name


def parse(path: str) -> tuple[str, str, str]:
    """Run, kind and name of `tinker://RUN/KIND/NAME`."""
    parts = path.removeprefix("tinker://").split("/")
    if not path.startswith("tinker://") or len(parts) != 3 or parts[1] not in KINDS:
        raise RequestError(f"{path[:200]!r} is not a checkpoint path; expected tinker://RUN/{'|'.join(KINDS)}/NAME")
    return safe(parts[0], "run id"), parts[1], safe(parts[2], "checkpoint name")


class Store:
    """The folder `root`. Safe to share between threads and processes."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.runs_folder = self.root / "runs"
        self.runs_folder.mkdir(parents=True, exist_ok=True)

    # Runs ------------------------------------------------------------------------------------------------------------

    def create_run(self, run: str, info: dict[str, Any]) -> None:
        folder = self.runs_folder / safe(run, "run id")
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "run.json", json.dumps({**info, "created": time.time()}, sort_keys=True).encode())

    def run(self, run: str) -> dict[str, Any]:
        try:
            return json.loads((self.runs_folder / safe(run, "run id") / "run.json").read_bytes())
        except FileNotFoundError:
            raise RequestError(f"no training run {run!r} in this server's state", 404) from None

    def runs(self) -> list[tuple[str, dict[str, Any]]]:
        """All runs, newest first."""
        found = []
        for file in self.runs_folder.glob("*/run.json"):
            with contextlib.suppress(OSError, ValueError):
                found.append((file.parent.name, json.loads(file.read_bytes())))
        return sorted(found, key=lambda item: (-item[1]["created"], item[0]))

    # Checkpoints -----------------------------------------------------------------------------------------------------

    def file(self, run: str, kind: str, name: str) -> Path:
        return self.runs_folder / safe(run, "run id") / kind / f"{safe(name, 'checkpoint name')}.safetensors"

    def save(
        self,
        run: str,
        kind: str,
        name: str,
        tensors: dict[str, Tensor],
        meta: dict[str, Any],
        *,
        ttl: int | None = None,
        overwrite: bool = True,
        durable: bool = True,
    ) -> str:
        """Write a checkpoint; returns its path once it is on the disk.

        Raises:
            RequestError: the name is unfit (400) or taken and `overwrite` is false (409 would be retried, so 400).
        """
        from safetensors.torch import save

        target = self.file(run, kind, name)
        if target.exists() and not overwrite:
            raise RequestError(f"checkpoint {name!r} exists; choose another name or pass overwrite=True")
        target.parent.mkdir(parents=True, exist_ok=True)
        meta = {**meta, "created": time.time()}
        tensors = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
        data = save(tensors, metadata={"selfgen": json.dumps(meta, sort_keys=True)})
        side = target.with_suffix(".json")
        if ttl is not None:
            self._write_side(side, ttl)
        elif side.exists():
            side.unlink(missing_ok=True)
        write_atomic(target, data, durable=durable)
        return f"tinker://{run}/{kind}/{name}"

    def load(self, path: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """A checkpoint's meta and tensors. RequestError 404 when absent or expired."""
        from safetensors.torch import load

        entry = self.entry(path)
        data = self.file(entry.run, entry.kind, entry.name).read_bytes()
        return entry.meta, load(data)

    def entry(self, path: str) -> Entry:
        run, kind, name = parse(path)
        file = self.file(run, kind, name)
        try:
            meta = read_meta(file)
            size = file.stat().st_size
        except FileNotFoundError:
            raise RequestError(f"no checkpoint {path!r} in this server's state", 404) from None
        side = self._read_side(file.with_suffix(".json"))
        expires = side.get("expires")
        if expires is not None and expires <= time.time():
            self.delete(path)
            raise RequestError(f"checkpoint {path!r} has expired", 404)
        return Entry(run, kind, name, meta, size, expires, bool(side.get("public")))

    def entries(self, run: str) -> list[Entry]:
        """A run's checkpoints, oldest first."""
        found = []
        for kind in KINDS:
            for file in (self.runs_folder / safe(run, "run id") / kind).glob("[!@]*.safetensors"):
                with contextlib.suppress(RequestError):
                    found.append(self.entry(f"tinker://{run}/{kind}/{file.stem}"))
        return sorted(found, key=lambda e: (e.meta["created"], e.path))

    def delete(self, path: str) -> None:
        run, kind, name = parse(path)
        file = self.file(run, kind, name)
        if not file.exists():
            raise RequestError(f"no checkpoint {path!r} in this server's state", 404)
        file.unlink(missing_ok=True)
        file.with_suffix(".json").unlink(missing_ok=True)

    def set_side(self, path: str, **changes: Any) -> None:
        """Change expiry (`ttl` seconds or None) or `public`."""
        entry = self.entry(path)
        side = self.file(entry.run, entry.kind, entry.name).with_suffix(".json")
        values = {"expires": entry.expires, "public": entry.public}
        if "ttl" in changes:
            values["expires"] = None if changes["ttl"] is None else time.time() + changes["ttl"]
        if "public" in changes:
            values["public"] = changes["public"]
        write_atomic(side, json.dumps(values).encode())

    def _write_side(self, side: Path, ttl: int) -> None:
        write_atomic(side, json.dumps({"expires": time.time() + ttl, "public": False}).encode())

    def _read_side(self, side: Path) -> dict[str, Any]:
        try:
            return json.loads(side.read_bytes())
        except (FileNotFoundError, ValueError):
            return {}


def read_meta(file: Path) -> dict[str, Any]:
    """The metadata in a safetensors header, without reading the tensors."""
    with file.open("rb") as handle:
        (length,) = struct.unpack("<Q", handle.read(8))
        if length > HEADER_LIMIT:
            raise RequestError(f"{file.name}: not a checkpoint of this server")
        header = json.loads(handle.read(length))
    return json.loads(header["__metadata__"]["selfgen"])


def write_atomic(target: Path, data: bytes, *, durable: bool = True) -> None:
    """Write `data` as `target`, whole or not at all, also across a crash when `durable`."""
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as handle:
            handle.write(data)
            if durable:
                handle.flush()
                os.fsync(handle.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
