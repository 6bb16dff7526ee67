"""The routes of the Tinker REST protocol, as SDK 0.38 calls them, on FastAPI.

A queued call that fails answers 200 with `error` and `category`: the SDK retries a 5xx from retrieve_future without
end. For the same reason a call outside this server's scope answers 422 or 404, not 501: the SDK repeats a request that
got a 5xx for five minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from selfgen.embedded import external, rest
from selfgen.embedded.engine import Engine
from selfgen.embedded.errors import RequestError
from selfgen.embedded.server import Server
from selfgen.embedded.sessions import ClientSession

BODY_LIMIT = 64 << 20
POLL_SECONDS = 30.0
HEALTH = "/api/v1/healthz"


class Guard:
    """ASGI middleware: the key, and the size of a request's body, declared or streamed, before anything reads it."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self.app = app
        self.key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        path = scope["path"]
        open_path = path == HEALTH or path.startswith(external.PREFIX)
        if not open_path and not hmac.compare_digest(headers.get(b"x-api-key", b""), self.key):
            await refusal("wrong or missing API key (TINKER_API_KEY)", 401)(scope, receive, send)
            return
        too_large = refusal(f"request larger than {BODY_LIMIT >> 20} MiB", 413)
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > BODY_LIMIT:
            await too_large(scope, receive, send)
            return
        if b"content-length" in headers:
            await self.app(scope, receive, send)
            return
        # No declared length: collect the body here, within the limit.
        body = bytearray()
        more = headers.get(b"transfer-encoding") is not None
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > BODY_LIMIT:
                await too_large(scope, receive, send)
                return
        if headers.get(b"transfer-encoding") is None:
            await self.app(scope, receive, send)
            return
        replies = iter([{"type": "http.request", "body": bytes(body), "more_body": False}])

        async def replay() -> Message:
            return next(replies, None) or await receive()

        await self.app(scope, replay, send)


def refusal(message: str, status: int) -> Response:
    return rest.json_response({"detail": message, "error": message}, status)


def create_app(engine: Engine, key: str) -> FastAPI:
    """The ASGI application. `key` is the only X-API-Key it accepts."""
    server = Server(engine, key)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        server.loop = asyncio.get_running_loop()
        sweeper = asyncio.create_task(server.sweep())
        yield
        sweeper.cancel()

    app = FastAPI(lifespan=lifespan, title="selfgen embedded Tinker server", openapi_url=None)

    @app.exception_handler(RequestError)
    async def refuse(_: Request, error: RequestError) -> Response:
        return refusal(error.message, error.status)

    app.add_middleware(Guard, key=key)

    async def body_of(request: Request) -> dict[str, Any]:
        try:
            value = json.loads(await request.body() or b"{}")
        except ValueError:
            raise RequestError("the body is not JSON") from None
        if not isinstance(value, dict):
            raise RequestError("the body must be a JSON object")
        return value

    def post(path: str, handler: Callable[[dict[str, Any]], Any]) -> None:
        async def route(request: Request) -> Response:
            try:
                return rest.json_response(handler(await body_of(request)))
            except (KeyError, TypeError, ValueError) as error:
                raise RequestError(f"malformed request: {type(error).__name__}: {error}", 422) from None

        app.add_route(f"/api/v1/{path}", route, methods=["POST"])

    def create_session(body: dict[str, Any]) -> dict[str, Any]:
        session = ClientSession(uuid.uuid4().hex, body.get("user_metadata"), body.get("display_name"))
        server.sessions[session.id] = session
        return {"type": "create_session", "session_id": session.id}

    def heartbeat(body: dict[str, Any]) -> dict[str, Any]:
        server.session(body.get("session_id"))
        return {"type": "session_heartbeat"}

    def get_info(body: dict[str, Any]) -> dict[str, Any]:
        run = engine.store.run(body["model_id"])
        model = engine.model(run["base_model"])
        return rest.info(body["model_id"], run, model)

    def create_sampling_session(body: dict[str, Any]) -> dict[str, Any]:
        session = server.session(body.get("session_id"))
        sequence = int(body["sampling_session_seq_id"])
        sampler = server.open_sampler(session, sequence, body.get("base_model"), body.get("model_path"))
        return {"type": "create_sampling_session", "sampling_session_id": sampler.id}

    def unload(body: dict[str, Any]) -> dict[str, Any]:
        run_id = body["model_id"]
        done = {"model_id": run_id, "type": "unload_model"}
        return server.queue(
            f"{run_id}:unload:{uuid.uuid4().hex}", lambda: engine.forget([run_id]), lambda p, _: p.set_json(done)
        )

    def cancel_future(body: dict[str, Any]) -> dict[str, Any]:
        promise = server.promises.get(body.get("request_id", ""))
        if promise is not None and promise.cancel is not None:
            promise.cancel()
        return {}

    post("client/config", lambda _: {"pjwt_auth_enabled": False, "parallel_fwdbwd_chunks": False})
    post("client/dynamic_config", lambda _: {})
    post("create_session", create_session)
    post("session_heartbeat", heartbeat)
    post("telemetry", lambda _: {"status": "accepted"})
    post("create_model", server.create_model)
    post("load_weights", server.load_weights)
    post("optim_step", server.optim_step)
    post("save_weights", server.save_weights)
    post("save_weights_for_sampler", server.save_weights_for_sampler)
    post("unload_model", unload)
    post("create_sampling_session", create_sampling_session)
    post("asample", server.asample)
    post("get_info", get_info)
    post("cancel_future", cancel_future)
    rest.add_routes(app, server, post)
    external.add_routes(app, server, post)

    @app.post("/api/v1/forward_backward")
    async def forward_backward(request: Request) -> Response:
        return rest.json_response(server.forward_backward(await request.body()))

    @app.post("/api/v1/sessions/{session_id}/finish")
    async def finish(session_id: str) -> Response:
        session = server.sessions.get(session_id)
        if session is not None:  # else its end was asked for before, and that answer was lost
            server.end_session(session)
        return rest.json_response({})

    @app.post("/api/v1/retrieve_future")
    async def retrieve_future(request: Request) -> Response:
        body = await body_of(request)
        promise = server.promises.get(body.get("request_id", ""))
        if promise is None:
            return rest.json_response({"detail": "unknown or expired promise"}, 410)
        if promise.body is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(promise.ready.wait(), POLL_SECONDS)
        if promise.body is None:
            pending = {"type": "try_again", "request_id": promise.request_id, "queue_state": "active"}
            return rest.json_response(pending, 408)
        server.promises.retrieved(promise)
        return Response(promise.body, media_type=promise.media_type)

    @app.get(HEALTH)
    async def healthz() -> Response:
        return rest.json_response({"status": "ok"})

    @app.api_route("/api/v1/{path:path}", methods=["GET", "POST", "PUT", "DELETE"])
    async def unserved(path: str) -> Response:
        raise RequestError(
            f"Not Found: {path[:100]!r} is outside this server's scope; see docs/embedded-server.md", 404
        )

    return app
