"""Starting the server: in this process (`serve`), or as a child that ends with its parent (`running_server`)."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from selfgen.embedded.models import resolve
from selfgen.errors import ServiceError

START_SECONDS = 120.0


@dataclass(frozen=True)
class ServerInfo:
    """Where a running server listens, the key it wants, and its process id."""

    base_url: str
    api_key: str
    pid: int


def folders(models: Sequence[str]) -> dict[str, Path]:
    """Model names with the folders that hold them; `NAME=FOLDER` gives a folder another name.

    A Hugging Face id is looked up in the local cache, then on the Hub.
    """
    found: dict[str, Path] = {}
    for entry in models:
        name, _, folder = (entry, "", "") if Path(entry).is_dir() else entry.partition("=")
        where = resolve(folder or name)
        if isinstance(where, str):
            try:
                from huggingface_hub import snapshot_download

                where = Path(snapshot_download(where, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model"]))
            except Exception as error:
                reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
                raise ServiceError(
                    f"model {name!r} is neither a folder nor a Hugging Face id that can be fetched: {reason}"
                ) from None
        if not (where / "config.json").is_file():
            raise ServiceError(f"{where}: no config.json; give a Hugging Face model folder or id")
        found[name] = where
    return found


def serve(
    models: Sequence[str],
    state_dir: Path,
    *,
    seed: int = 0,
    device: str = "cpu",
    dtype: str = "auto",
    port: int = 8787,
    key: str | None = None,
    descriptor: int | None = None,
    threads: int | None = None,
) -> None:
    """Serve until interrupted, on loopback only. `descriptor` is an already bound socket to use instead of `port`."""
    import uvicorn

    from selfgen.embedded.app import create_app
    from selfgen.embedded.config import Unsupported
    from selfgen.embedded.engine import Engine
    from selfgen.embedded.errors import RequestError
    from selfgen.embedded.store import Store

    threads = threads or min(2, os.cpu_count() or 1)
    if dtype == "auto":
        dtype = "float32" if device == "cpu" else "bfloat16"
    key = key or f"tml-{secrets.token_hex(16)}"
    try:
        engine = Engine(folders(models), Store(state_dir), seed=seed, device=device, dtype=dtype, threads=threads)
    except (Unsupported, RequestError) as error:
        raise ServiceError(f"cannot serve {', '.join(models)}: {error}") from None
    except OSError as error:
        raise ServiceError(f"state folder {state_dir}: {error.strerror}") from None
    # The compute thread gives Python's lock away at every operation and, beside a busy event loop, gets it back after
    # this long: 2,000 short operations took seconds at Python's 5 ms.
    sys.setswitchinterval(0.0005)
    config = uvicorn.Config(
        create_app(engine, key),
        host="127.0.0.1",
        port=port,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=120,
        fd=descriptor,
    )
    if descriptor is None:
        print(f"serving {', '.join(models)} on http://127.0.0.1:{port}\nTINKER_API_KEY={key}", flush=True)
    uvicorn.Server(config).run()
    engine.close()


@contextlib.contextmanager
def running_server(
    models: Sequence[str],
    state_dir: Path,
    seed: int,
    device: str = "cpu",
    dtype: str = "auto",
    env: Mapping[str, str] | None = None,
) -> Iterator[ServerInfo]:
    """A server in a child process, on a free loopback port, with a fresh key. It ends with the block or with us.

    Raises:
        ServiceError: a model is unknown, or the server did not come up; the message holds the server's last words.
    """
    folders(models)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    listener.set_inheritable(True)
    port = listener.getsockname()[1]
    key = f"tml-{secrets.token_hex(16)}"
    base_url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "selfgen.embedded.child", str(listener.fileno()), str(state_dir), str(seed)]
    command += [device, dtype, *models]
    environment = {
        **os.environ,
        "SELFGEN_SERVER_KEY": key,
        "TINKER_TELEMETRY": "0",
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "0",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # matrix products on a GPU that repeat bit for bit
        **(env or {}),
    }
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, pass_fds=[listener.fileno()]
        )
        listener.close()
        try:
            # The caller needs the SDK next, and importing it takes as long as the child's start: do both at once.
            with contextlib.suppress(ImportError):
                import tinker  # noqa: F401
            wait_healthy(base_url, process, log)
            yield ServerInfo(base_url, key, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin:
                process.stdin.close()


def wait_healthy(base_url: str, process: subprocess.Popen, log) -> None:
    """Return once the server answers; raise ServiceError if it ends or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            log.seek(0)
            lines = log.read().decode(errors="replace").strip().splitlines()
            last = lines[-1] if lines else "no output"
            raise ServiceError(f"the embedded server ended with status {process.returncode}: {last}")
        # The socket is bound before the child starts, so a connection waits in its backlog until the server accepts.
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"{base_url}/api/v1/healthz", timeout=2) as answer:
                if answer.status == 200:
                    return
        time.sleep(0.02)
    raise ServiceError(f"the embedded server did not answer within {START_SECONDS:.0f} s")


def end_with_parent() -> None:
    """End this process when the pipe on stdin closes, which happens whenever and however the parent ends."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        os._exit(0)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
