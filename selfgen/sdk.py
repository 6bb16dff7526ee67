"""What differs between tinker SDK 0.25, which self-hosted engines still speak, and the current one. All of it stands here."""

from __future__ import annotations

import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import Any


def ready(opened: Any) -> Any:
    """A client that the SDK has made: current SDKs hand out a future of it, older ones the client itself."""
    return opened.result() if hasattr(opened, "result") else opened


def supported_models(service_client: Any, base_url: str, api_key: str) -> list[Any]:
    """The service's own list of models: SupportedModel records."""
    import tinker

    if hasattr(tinker, "RestClient"):
        client = tinker.RestClient(base_url=base_url, api_key=api_key)
        return list(client.get_server_capabilities().result().supported_models)
    return list(service_client.get_server_capabilities().supported_models)


def close(service_client: Any, run_id: str, base_url: str, api_key: str) -> None:
    """End a client's session, and with it a training run; SDKs without `close` unload the run alone.

    Raises:
        httpx.HTTPError: an older service does not answer.
    """
    if hasattr(service_client, "close"):
        service_client.close("success").result()
        return
    import httpx

    url, body = f"{base_url.rstrip('/')}/api/v1/unload_model", {"model_id": run_id, "type": "unload_model"}
    httpx.post(url, json=body, headers={"X-API-Key": api_key}, timeout=20)


def writes_adapters() -> bool:
    """Whether weights are written out on request (SDK 0.36 and later); before, a sampler checkpoint's archive is fetched."""
    import tinker

    return hasattr(tinker.TrainingClient, "save_weights_external")


def fetch_archive(service_client: Any, path: str, folder: Path) -> None:
    """Unpack the archive of a sampler checkpoint into `folder`.

    The cookbook's own download refuses paths without the part `sampler_weights`, which some engines give.

    Raises:
        tinker.TinkerError, urllib.error.URLError, tarfile.TarError: the service has no such archive, or it arrives broken.
    """
    run_id, _, checkpoint_id = path.removeprefix("tinker://").partition("/")
    link = service_client.create_rest_client().get_checkpoint_archive_url(run_id, checkpoint_id).result()
    with tempfile.TemporaryDirectory() as place:
        archive = Path(place) / "archive"
        urllib.request.urlretrieve(link.url, archive)
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
