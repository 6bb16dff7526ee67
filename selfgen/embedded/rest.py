"""The read side of the protocol: capabilities, runs, checkpoints, samplers; and small shared response pieces."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response

from selfgen.embedded import protocol
from selfgen.embedded.engine import BaseModel
from selfgen.embedded.errors import RequestError
from selfgen.embedded.sampler import SampleParams
from selfgen.embedded.store import Entry, iso

if TYPE_CHECKING:
    from selfgen.embedded.server import Server

TTL_RANGE = (1, 10 * 366 * 24 * 3600)


def json_response(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value), status_code=status, media_type="application/json")


def sample_params(body: dict[str, Any], prompt: list[int], model: BaseModel) -> SampleParams:
    """Checked sampling parameters. `stop` None means the model's end tokens, [] means never stop."""
    context, vocabulary = model.config.context, model.config.vocab_size
    if not prompt:
        raise RequestError("the prompt is empty")
    if min(prompt) < 0 or max(prompt) >= vocabulary:
        raise RequestError(f"the prompt has a token outside the vocabulary of {vocabulary}")
    room = context - len(prompt)
    max_tokens = body.get("max_tokens")
    max_tokens = max(room, 0) if max_tokens is None else max_tokens
    if type(max_tokens) is not int or max_tokens < 0:
        raise RequestError(f"max_tokens must be a non-negative integer, not {max_tokens!r}")
    if max_tokens > max(room, 1) or room < 0:
        raise RequestError(
            f"prompt of {len(prompt)} tokens and max_tokens {max_tokens} exceed the model's context of {context}"
        )
    temperature = float(body.get("temperature", 1.0))
    if not 0 <= temperature <= 100 or math.isnan(temperature):
        raise RequestError(f"temperature must be from 0 to 100, not {temperature}")
    top_k, top_p = int(body.get("top_k", -1)), float(body.get("top_p", 1.0))
    if not 0 < top_p <= 1:
        raise RequestError(f"top_p must be above 0 and at most 1, not {top_p}")
    if top_k < -1:
        raise RequestError(f"top_k must be -1 (no limit) or positive, not {top_k}")
    stop = body.get("stop")
    tokens: frozenset[int] = frozenset()
    strings: tuple[str, ...] = ()
    if stop is None:
        tokens = model.end_tokens
    elif isinstance(stop, str):
        strings, tokens = (stop,), model.end_tokens
    elif isinstance(stop, list) and protocol.as_ints(stop):
        tokens = frozenset(stop) | (model.end_tokens if stop else frozenset())
    elif isinstance(stop, list) and all(isinstance(s, str) for s in stop):
        strings, tokens = tuple(stop), model.end_tokens
    else:
        raise RequestError("stop must be a string, a list of strings, or a list of token ids")
    if any(not s for s in strings):
        raise RequestError("a stop string is empty")
    return SampleParams(max_tokens, temperature, top_k, top_p, tokens, strings)


def prompt_last(body: dict[str, Any], prompt: list[int]) -> int | None:
    """How many tokens at the prompt's end to score; None means all."""
    last = body.get("prompt_logprobs_last_n")
    if last is not None and (type(last) is not int or not 1 <= last <= max(1, len(prompt) - 1)):
        raise RequestError(f"prompt_logprobs_last_n must be from 1 to {len(prompt) - 1}, not {last!r}")
    return last


def info(run_id: str, run: dict[str, Any], model: BaseModel) -> dict[str, Any]:
    """GetInfoResponse. The tokenizer id is the folder itself, so that a client on this machine can load it."""
    return {
        "type": "get_info",
        "model_id": run_id,
        "model_data": {
            "arch": model.config.family,
            "model_name": run["base_model"],
            "tokenizer_id": str(model.folder),
        },
        "is_lora": True,
        "lora_rank": run["lora"]["rank"],
        "model_name": run["base_model"],
        "optimizer_config": {"type": "adamw"},
    }


def training_run(run_id: str, run: dict[str, Any], entries: list[Entry]) -> dict[str, Any]:
    """The SDK's `TrainingRun`."""
    last = {
        kind: next((e for e in reversed(entries) if e.kind == kind), None) for kind in ("weights", "sampler_weights")
    }
    newest = max([run["created"], *(e.meta["created"] for e in entries)])
    return {
        "training_run_id": run_id,
        "base_model": run["base_model"],
        "model_owner": "local",
        "is_lora": True,
        "lora_rank": run["lora"]["rank"],
        "last_request_time": iso(newest),
        "last_checkpoint": last["weights"].to_json() if last["weights"] else None,
        "last_sampler_checkpoint": last["sampler_weights"].to_json() if last["sampler_weights"] else None,
        "user_metadata": run.get("user_metadata"),
    }


def add_routes(app: FastAPI, server: Server, post: Callable[[str, Callable[[dict[str, Any]], Any]], None]) -> None:
    """Register the routes of this module on `app`."""
    engine, store = server.engine, server.engine.store

    def weights_info(body: dict[str, Any]) -> dict[str, Any]:
        meta = store.entry(body["tinker_path"]).meta
        lora = meta["lora"]
        return {
            "base_model": meta["base_model"],
            "optimizer_config": {"type": "adamw"},
            "is_lora": True,
            "lora_rank": lora["rank"],
            "train_unembed": lora["unembed"],
            "train_mlp": lora["mlp"],
            "train_attn": lora["attn"],
        }

    post("weights_info", weights_info)

    @app.get("/api/v1/get_server_capabilities")
    async def capabilities() -> Response:
        models = [
            {"model_name": n, "max_context_length": m.config.context, "trainable": True, "sampleable": True}
            for n, m in engine.models.items()
        ]
        return json_response({"supported_models": models})

    @app.get("/api/v1/samplers/{sampler_id}")
    async def sampler(sampler_id: str) -> Response:
        found = server.sampler(sampler_id)
        return json_response({"sampler_id": found.id, "base_model": found.base_model, "model_path": found.path})

    @app.get("/api/v1/training_runs")
    async def training_runs(request: Request) -> Response:
        limit, offset = page(request)
        runs = store.runs()
        rows = [training_run(run_id, run, store.entries(run_id)) for run_id, run in runs[offset : offset + limit]]
        cursor = {"offset": offset, "limit": limit, "total_count": len(runs)}
        return json_response({"training_runs": rows, "cursor": cursor})

    @app.get("/api/v1/training_runs/{run_id}")
    async def one_run(run_id: str) -> Response:
        return json_response(training_run(run_id, store.run(run_id), store.entries(run_id)))

    @app.get("/api/v1/training_runs/{run_id}/checkpoints")
    async def checkpoints(run_id: str) -> Response:
        store.run(run_id)
        return json_response({"checkpoints": [entry.to_json() for entry in store.entries(run_id)]})

    @app.get("/api/v1/checkpoints")
    async def all_checkpoints(request: Request) -> Response:
        limit, offset = page(request)
        entries = [entry for run_id, _ in store.runs() for entry in store.entries(run_id)]
        entries.sort(key=lambda e: (-e.meta["created"], e.path))
        cursor = {"offset": offset, "limit": limit, "total_count": len(entries)}
        return json_response({"checkpoints": [e.to_json() for e in entries[offset : offset + limit]], "cursor": cursor})

    @app.delete("/api/v1/training_runs/{run_id}/checkpoints/{kind}/{name}")
    async def delete(run_id: str, kind: str, name: str) -> Response:
        store.delete(f"tinker://{run_id}/{kind}/{name}")
        return json_response({})

    @app.post("/api/v1/training_runs/{run_id}/checkpoints/{kind}/{name}/publish")
    async def publish(run_id: str, kind: str, name: str) -> Response:
        store.set_side(f"tinker://{run_id}/{kind}/{name}", public=True)
        return json_response({})

    @app.delete("/api/v1/training_runs/{run_id}/checkpoints/{kind}/{name}/publish")
    async def unpublish(run_id: str, kind: str, name: str) -> Response:
        store.set_side(f"tinker://{run_id}/{kind}/{name}", public=False)
        return json_response({})

    @app.get("/api/v1/sessions")
    async def sessions(request: Request) -> Response:
        limit, offset = page(request)
        return json_response({"sessions": list(server.sessions)[offset : offset + limit]})

    @app.get("/api/v1/sessions/{session_id}")
    async def one_session(session_id: str) -> Response:
        session = server.session(session_id)
        return json_response(
            {
                "training_run_ids": session.runs,
                "sampler_ids": session.samplers,
                "user_metadata": session.user_metadata or None,
                "display_name": session.display_name,
            }
        )

    @app.put("/api/v1/training_runs/{run_id}/checkpoints/{kind}/{name}/ttl")
    async def ttl(run_id: str, kind: str, name: str, request: Request) -> Response:
        seconds = json.loads(await request.body()).get("ttl_seconds")
        if seconds is not None and not TTL_RANGE[0] <= seconds <= TTL_RANGE[1]:
            raise RequestError(f"ttl_seconds must be from {TTL_RANGE[0]} to {TTL_RANGE[1]}, or null")
        store.set_side(f"tinker://{run_id}/{kind}/{name}", ttl=seconds)
        return json_response({})


def page(request: Request) -> tuple[int, int]:
    """Limit and offset of a listing."""
    try:
        limit, offset = int(request.query_params.get("limit", 20)), int(request.query_params.get("offset", 0))
    except ValueError:
        raise RequestError("limit and offset must be integers", 422) from None
    return max(0, min(limit, 1000)), max(0, offset)
