"""Trained weights as files: fetched from the service, and identified by their content.

A tinker:// path names a place, not weights: two services, or one service twice, give equal weights different paths.
The identity used everywhere here is the digest of the adapter's tensors.
"""

from __future__ import annotations

import hashlib
import http.client
import importlib.util
import json
import shutil
import tarfile
import tempfile
import time
import urllib.error
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfgen import sdk
from selfgen.errors import DataError, ServiceError
from selfgen.records import read_json, replace_file, write_json

if TYPE_CHECKING:
    from selfgen.service import Service


_BROKEN = (urllib.error.URLError, ConnectionError, TimeoutError, http.client.HTTPException, tarfile.TarError)
"""How a download from a signed URL breaks on a bad network."""

_EXPORT_SECONDS = 3600
"""How long the service keeps an export: the shortest time it accepts."""


def tensors(path: Path) -> Iterator[tuple[str, str, list[int], bytes]]:
    """(name, dtype, shape, bytes) of every tensor of a safetensors file, sorted by name.

    Read from the format itself, so that bfloat16 needs no torch. Source: the safetensors format description.

    Raises:
        DataError: the file is missing or not safetensors.
    """
    try:
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header: dict[str, Any] = json.loads(data[8 : 8 + length])
        header.pop("__metadata__", None)
        for name in sorted(header):
            entry = header[name]
            start, end = entry["data_offsets"]
            if 8 + length + end > len(data):
                raise ValueError("cut off")
            yield name, entry["dtype"], list(entry["shape"]), data[8 + length + start : 8 + length + end]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: not a readable adapter ({str(error)[:80]}); run the stage that writes it again"
        ) from None


def adapter_digest(folder: Path) -> str:
    """sha256 over the sorted tensors (name, dtype, shape, bytes) of a PEFT adapter folder.

    File layout and metadata do not enter, so a re-saved adapter keeps its digest.

    Raises:
        DataError: the folder holds no adapter_model.safetensors.
    """
    state = hashlib.sha256()
    for name, dtype, shape, data in tensors(folder / "adapter_model.safetensors"):
        state.update(json.dumps([name, dtype, shape, len(data)]).encode())
        state.update(data)
    return state.hexdigest()


def write_tensors(path: Path, rows: Iterable[tuple[str, str, list[int], bytes]]) -> None:
    """Write (name, dtype, shape, bytes) rows as a safetensors file whose bytes depend on nothing else."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    chunks, offset = [], 0
    for name, dtype, shape, data in sorted(rows):
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        chunks.append(data)
    text = json.dumps(header, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    with replace_file(path) as temporary:
        temporary.write_bytes(b"".join([len(text).to_bytes(8, "little"), text, *chunks]))


def export_adapter(service: Service, state_path: str, sampler_path: str, folder: Path) -> str:
    """Fetch a checkpoint's adapter into `folder` (replaced whole) in PEFT format; returns its digest.

    The two files of a PEFT adapter are kept, without dates or other metadata, so that equal weights are equal bytes.

    Current services write weights out on request (`save_weights_external`), which takes a training client made from
    the saved state; SDKs before 0.36 fetch the sampler checkpoint's archive instead.

    Raises:
        ServiceError: the service does not hand out the weights.
    """
    import tinker
    from tinker_cookbook.exceptions import WeightsDownloadError

    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    try:
        path = sampler_path
        if sdk.writes_adapters():
            client = sdk.ready(service.client.create_training_client_from_state(state_path))
            path = client.save_weights_external("export", ttl_seconds=_EXPORT_SECONDS).result().path
        _download(path, staging, service)
        if not (staging / "adapter_model.safetensors").is_file():
            raise ServiceError(f"{path}: the export holds no adapter_model.safetensors; check the service")
        shutil.rmtree(folder, ignore_errors=True)
        _canonical(staging, folder)
        return adapter_digest(folder)
    except (tinker.TinkerError, WeightsDownloadError, *_BROKEN) as error:
        raise ServiceError(
            f"{state_path}: the service does not hand out the weights ({' '.join(str(error).split())[:160]}); "
            "run the stage again"
        ) from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _download(path: str, folder: Path, service: Service) -> None:
    """The stock download, repeated when it breaks: unlike the SDK's calls it gives up at the first lost connection."""
    from tinker_cookbook.exceptions import WeightsDownloadError

    for wait in (0.5, 1.0, 2.0, 4.0, 8.0, None):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)
                if sdk.writes_adapters():
                    _stock_download()(tinker_path=path, output_dir=str(folder), base_url=service.base_url)
                else:
                    sdk.fetch_archive(service.client, path, folder)
            return
        except (WeightsDownloadError, *_BROKEN) as error:
            if wait is None or not isinstance(error.__cause__ or error, _BROKEN):
                raise
            time.sleep(wait)


def _stock_download() -> Callable[..., str]:
    """The cookbook's `weights.download`, without the rest of its package, which imports transformers for seconds."""
    package = importlib.util.find_spec("tinker_cookbook")
    assert package is not None
    assert package.submodule_search_locations is not None
    file = Path(package.submodule_search_locations[0]) / "weights" / "_download.py"
    if not file.is_file():
        from tinker_cookbook import weights

        return weights.download
    spec = importlib.util.spec_from_file_location("selfgen_stock_download", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.download


def _canonical(source: Path, target: Path) -> None:
    """The adapter of `source` in `target`, with bytes that depend on tensors and configuration alone."""
    write_tensors(target / "adapter_model.safetensors", tensors(source / "adapter_model.safetensors"))
    if (source / "adapter_config.json").is_file():
        write_json(target / "adapter_config.json", read_json(source / "adapter_config.json"))
