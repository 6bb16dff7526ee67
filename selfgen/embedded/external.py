"""Weights out of the server, in PEFT's format: `save_weights_external`, its download links, and the files behind them.

SDKs before 0.36 fetch the same files of a sampler checkpoint as one archive.
And in again: a route of this server's own puts an adapter back under the checkpoint path that it once had.

A link carries its own permission, as a signed URL of object storage does: a client fetches it without the API key. The
signature covers checkpoint, file and expiry. Files are encrypted with age when the client names recipients.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
import json
import tarfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response

from selfgen.embedded.errors import RequestError
from selfgen.embedded.lora import ALPHA, Layout, LoraSpec, digest
from selfgen.embedded.server import call_id
from selfgen.embedded.store import iso, parse

if TYPE_CHECKING:
    from selfgen.embedded.engine import Engine
    from selfgen.embedded.server import Server
    from selfgen.embedded.sessions import Promise

PREFIX = "/api/v1/external_files/"
ADAPTERS = "/api/v1/selfgen/adapters"
LINK_SECONDS = 3600
FILES = ("adapter_config.json", "adapter_model.safetensors")
ARCHIVE = "archive.tar"


def peft_config(meta: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """adapter_config.json for a checkpoint's meta and tensor names."""
    modules = {name.split(".lora_")[0].rpartition(".")[2] for name in names}
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": meta["base_model"],
        "r": meta["lora"]["rank"],
        "lora_alpha": meta["alpha"],
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "target_modules": sorted(modules),
    }


def peft_files(meta: dict[str, Any], tensors: dict[str, Any]) -> dict[str, bytes]:
    """The files of an adapter folder, by name."""
    from safetensors.torch import save

    config = json.dumps(peft_config(meta, list(tensors)), indent=2, sort_keys=True).encode()
    weights = save({f"base_model.model.{k}": v for k, v in tensors.items()}, metadata={"format": "pt"})
    return dict(zip(FILES, (config, weights), strict=True))


def add_routes(app: FastAPI, server: Server, post: Callable[[str, Callable[[dict[str, Any]], Any]], None]) -> None:
    """Register the routes of this module on `app`."""
    store = server.engine.store

    def save_external(body: dict[str, Any]) -> dict[str, Any]:
        run_id, name = body["model_id"], server.named(body["path"])
        recipients = body.get("age_encryption_recipients") or []
        store.file(run_id, "external_weights", name)
        if recipients:
            encrypt(b"", recipients)

        def finish(promise: Promise, path: str) -> None:
            promise.set_json({"path": path, "type": "save_weights_external"})

        return server.queue(
            call_id(run_id, body.get("seq_id")),
            lambda: server.engine.save(
                run_id, "external_weights", name, body.get("ttl_seconds"), True, None, recipients=recipients
            ),
            finish,
            model_id=run_id,
        )

    post("save_weights_external", save_external)

    def signature(path: str, file: str, expires: int) -> str:
        return hmac.new(server.key.encode(), f"{path}\n{file}\n{expires}".encode(), hashlib.sha256).hexdigest()

    @app.get("/api/v1/training_runs/{run_id}/checkpoints/external_weights/{name}/external_weights_urls")
    async def urls(run_id: str, name: str, request: Request) -> Response:
        entry = store.entry(f"tinker://{run_id}/external_weights/{name}")
        expires = int(time.time()) + LINK_SECONDS
        base = str(request.base_url).rstrip("/") + PREFIX
        suffix = ".age" if recipients_of(entry.meta) else ""
        links = {
            file + suffix: f"{base}{run_id}/{name}/{file}?expires={expires}&sign={signature(entry.path, file, expires)}"
            for file in FILES
        }
        return Response(json.dumps({"urls": links, "expires": iso(expires)}), media_type="application/json")

    @app.put(ADAPTERS)
    async def bring_back(request: Request, path: str, base_model: str) -> Response:
        await asyncio.to_thread(restore, server.engine, path, base_model, await request.body())
        return Response("{}", media_type="application/json")

    def permit(path: str, file: str, expires: int, sign: str) -> None:
        if not hmac.compare_digest(sign, signature(path, file, expires)) or expires < time.time():
            raise RequestError("the link is wrong or has expired", 403)

    @app.get(PREFIX + "{run_id}/{name}/{file}")
    async def download(run_id: str, name: str, file: str, expires: int, sign: str) -> Response:
        path = f"tinker://{run_id}/external_weights/{name}"
        permit(path, file, expires, sign)
        meta, tensors = store.load(path)
        data = peft_files(meta, tensors)[file]
        recipients = recipients_of(meta)
        return Response(encrypt(data, recipients) if recipients else data, media_type="application/octet-stream")

    @app.get("/api/v1/training_runs/{run_id}/checkpoints/sampler_weights/{name}/archive")
    async def archive_url(run_id: str, name: str, request: Request) -> Response:
        entry = store.entry(f"tinker://{run_id}/sampler_weights/{name}")
        expires = int(time.time()) + LINK_SECONDS
        base = str(request.base_url).rstrip("/") + PREFIX
        url = f"{base}{run_id}/sampler_weights/{name}/{ARCHIVE}?expires={expires}"
        url += f"&sign={signature(entry.path, ARCHIVE, expires)}"
        return Response(json.dumps({"url": url, "expires": iso(expires)}), media_type="application/json")

    @app.get(PREFIX + "{run_id}/sampler_weights/{name}/" + ARCHIVE)
    async def archive(run_id: str, name: str, expires: int, sign: str) -> Response:
        path = f"tinker://{run_id}/sampler_weights/{name}"
        permit(path, ARCHIVE, expires, sign)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for file, data in peft_files(*store.load(path)).items():
                member = tarfile.TarInfo(file)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        return Response(packed.getvalue(), media_type="application/x-tar")


def restore(engine: Engine, path: str, base_model: str, data: bytes) -> None:
    """Put the tensors of a PEFT adapter (a safetensors file's bytes) into the store as the sampler checkpoint `path`.

    Raises:
        RequestError: the path is none of a sampler checkpoint, or the bytes are no adapter of this base model.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    run, kind, name = parse(path)
    if kind != "sampler_weights":
        raise RequestError(f"{path}: only sampler weights can be brought back; training goes on from a saved state")
    try:
        tensors = {key.removeprefix("base_model.model."): value for key, value in load(data).items()}
    except SafetensorError as error:
        raise RequestError(f"the body is not a safetensors file: {error}") from None
    names = " ".join(tensors)
    spec = LoraSpec(
        rank=min((min(value.shape) for value in tensors.values()), default=0),
        seed=0,
        attn="_attn." in names,
        mlp=".mlp." in names,
        unembed="lm_head." in names,
    )
    model = engine.model(base_model)
    layout = Layout.of(model.decoder, spec)
    if {key: tuple(value.shape) for key, value in tensors.items()} != {m.name: m.shape for m in layout.matrices}:
        raise RequestError(f"the adapter does not fit {base_model}: its matrices are others, or shaped otherwise")
    flat = layout.flatten(tensors)
    meta = {
        "base_model": model.name,
        "base_digest": model.digest,
        "lora": spec.to_json(),
        "alpha": ALPHA,
        "digest": digest(flat),
        "step": 0,
        "user_metadata": None,
        "recipients": None,
    }
    engine.store.create_run(run, {"base_model": model.name, "lora": spec.to_json(), "user_metadata": None})
    engine.store.save(run, kind, name, layout.named(flat), meta)


def recipients_of(meta: dict[str, Any]) -> list[str]:
    """The age recipients that an export was asked for."""
    return meta.get("recipients") or []


def encrypt(data: bytes, recipients: list[str]) -> bytes:
    """`data` encrypted to native age recipients."""
    try:
        import pyrage

        return pyrage.encrypt(data, [pyrage.x25519.Recipient.from_str(text) for text in recipients])
    except Exception as error:  # not installed, or not a key
        raise RequestError(f"age_encryption_recipients: {error}") from None
