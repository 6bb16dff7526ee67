"""The stock loop, run to its end or to one clear line.

`tinker_cookbook.rl.train.main` is called as it is. Around it: its console output is kept to warnings, the SDK's errors
become ours, and a dead embedded server is noticed at once. The SDK repeats a refused connection for minutes, which is
right for a network and wrong for a child process that has ended (out of memory, killed).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from selfgen.errors import ParamsError, ServiceError

if TYPE_CHECKING:
    from selfgen.service import Service

_WATCH_SECONDS = 2.0


def run_stock_loop(config: Any, arm: str, service: Service, loggers: Sequence[str] = ()) -> None:
    """Run `tinker_cookbook.rl.train.main(config)`.

    Args:
        loggers: which of the loop's own loggers may be used where config.wandb_project is set (params.tracking).

    Raises:
        ServiceError: the service failed, or the embedded server has ended.
        ParamsError: a logger is not installed, or cannot start.
    """
    from tinker import TinkerError
    from tinker_cookbook.exceptions import ConfigurationError

    from selfgen.service import as_service_error

    try:
        with _quiet(), _only(loggers):
            asyncio.run(_watched(config, service))
    except ConfigurationError as error:
        if not loggers:
            raise
        text = " ".join(str(error).split("\n")[0].split()).rstrip(".")
        raise ParamsError(
            f"tracking.loggers: {text}; log in, or set the logger's offline mode (WANDB_MODE=offline), or leave it out"
        ) from None
    except (TinkerError, OSError) as error:
        failed = as_service_error(error, f"arm {arm}")
        raise ServiceError(f"{failed} (training resumes from its last checkpoint)") from None


async def _watched(config: Any, service: Service) -> None:
    from tinker_cookbook.rl import train

    training = asyncio.create_task(train.main(config))
    while not training.done():
        await asyncio.wait({training}, timeout=_WATCH_SECONDS)
        if service.kind == "embedded" and not training.done() and _refused(service.base_url):
            training.cancel()
            raise ServiceError(
                "the embedded server has ended in the middle of training (out of memory?); run the stage again: "
                "training resumes from its last checkpoint"
            )
    training.result()


def _refused(base_url: str) -> bool:
    """Whether nobody listens there. A server that is merely busy still takes the connection into its backlog."""
    address = urlsplit(base_url)
    try:
        socket.create_connection((address.hostname or "", address.port or 80), timeout=1.0).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def _only(loggers: Sequence[str]) -> Iterator[None]:
    """The loop logs to every tracker that happens to be installed; let it find those asked for alone."""
    from tinker_cookbook.utils import ml_log

    flags = {name: f"_{name}_available" for name in ("wandb", "trackio", "neptune")}
    installed = {name: getattr(ml_log, flag) for name, flag in flags.items()}
    for name in loggers:
        if not installed[name]:
            package = "neptune-scale" if name == "neptune" else name
            raise ParamsError(f"tracking.loggers: {name} is not installed; pip install {package}, or leave it out")
    try:
        for name, flag in flags.items():
            setattr(ml_log, flag, name in loggers)
        yield
    finally:
        for name, flag in flags.items():
            setattr(ml_log, flag, installed[name])


@contextmanager
def _quiet() -> Iterator[None]:
    """The loop prints every metric table, every bar and each of the SDK's deprecations; keep the console for warnings."""
    from tinker_cookbook.rl import train

    root = logging.getLogger()
    level, handlers, bar = root.level, root.handlers[:], train.tqdm
    train.tqdm = partial(bar, disable=True)
    logging.disable(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logging.disable(logging.NOTSET)
        train.tqdm = bar
        for handler in root.handlers[:]:
            if handler not in handlers:
                root.removeHandler(handler)
                handler.close()
        for handler in handlers:
            root.addHandler(handler)
        root.setLevel(level)
