"""The state behind the routes and what each training or sampling call does with it. Runs on the event loop.

A method checks what it can at once (a wrong request raises `RequestError`, an HTTP 4xx), queues the rest on the engine
and returns a promise.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from selfgen.embedded import protocol, rest
from selfgen.embedded.engine import Engine
from selfgen.embedded.errors import RequestError
from selfgen.embedded.lora import LoraSpec
from selfgen.embedded.sampler import SampleJob
from selfgen.embedded.sessions import ORDER_PATIENCE, ClientSession, Promise, Promises, SamplingSession
from selfgen.embedded.store import UNNAMED, safe
from selfgen.embedded.streams import stream_key
from selfgen.embedded.trainer import AdamParams

SESSION_SECONDS = 600.0  # a client that has sent no heartbeat (every 10 s) for this long has vanished
MAX_SAMPLES = 1024
MAX_RANK = 512


def spent(request_id: str) -> RequestError:
    """For a copy of a request whose result nobody keeps any more."""
    return RequestError(f"request {request_id!r} was carried out before, its result is no longer kept", 410)


def call_id(run_id: str, seq_id: Any) -> str:
    """A training call's id, from the client's own number; a client that gives none never repeats a call."""
    return f"{run_id}:{uuid.uuid4().hex if seq_id is None else int(seq_id)}"


class Server:
    """Sessions, promises and the engine."""

    def __init__(self, engine: Engine, key: str) -> None:
        self.engine = engine
        self.key = key
        self.promises = Promises()
        self.sessions: dict[str, ClientSession] = {}
        self.sampling: dict[str, SamplingSession] = {}
        self.queued: dict[str, set[str]] = {}  # by session: ids of all calls it ever queued
        self.loop: asyncio.AbstractEventLoop | None = None
        for model in engine.models.values():
            if model.on_gpu:
                model.alone = self.standing_still

    # Helpers ---------------------------------------------------------------------------------------------------------

    def session(self, session_id: Any) -> ClientSession:
        found = self.sessions.get(session_id)
        if found is None:
            raise RequestError(f"unknown session {session_id!r}; the server was restarted or the session ended", 404)
        found.seen = time.monotonic()
        return found

    def queue(
        self, request_id: str, call: Callable[[], Any], finish: Callable[[Promise, Any], None], **extra: Any
    ) -> dict[str, Any]:
        """A promise for `call`, which runs in the engine once: the same request id again answers the same promise.

        Raises:
            RequestError: the call was carried out and its result has been dropped since (410). A copy that a network
                delivers minutes late must not take an optimizer step again.
        """
        known = self.promises.get(request_id)
        if known is not None:
            return known.to_json()
        owner = request_id.partition(":")[0]
        if owner in self.sessions:
            ids = self.queued.setdefault(owner, set())
            if request_id in ids:
                raise spent(request_id)
            ids.add(request_id)
        promise = self.promises.create(request_id, extra)
        self.engine.submit(call, self.settle(promise, finish))
        return promise.to_json()

    def settle(
        self, promise: Promise, finish: Callable[[Promise, Any], None]
    ) -> Callable[[Any, Exception | None], None]:
        """A callback for the engine's thread that fulfils the promise on the event loop."""

        def fulfil(result: Any, error: Exception | None) -> None:
            if isinstance(error, RequestError):
                promise.fail(error.message, "user")
            elif error is not None:
                promise.fail(f"{type(error).__name__}: {error}", "server")
            else:
                try:
                    finish(promise, result)
                except Exception as failed:  # say, the session ended meanwhile: a promise left open hangs its client
                    promise.fail(getattr(failed, "message", f"{type(failed).__name__}: {failed}"), "server")

        def done(result: Any, error: Exception | None) -> None:
            assert self.loop is not None
            with contextlib.suppress(RuntimeError):  # the loop is gone: the server is stopping
                self.loop.call_soon_threadsafe(fulfil, result, error)

        return done

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """The event loop waits for a block of the compute thread.

        Prompts on a GPU are a thousand short kernel launches, and after each the thread must get Python's lock back.
        Beside a loop that is busy with requests that takes ten times as long as the launches themselves.
        """
        started, over = threading.Event(), threading.Event()

        def stand() -> None:
            started.set()
            over.wait()

        try:
            if self.loop is not None:
                self.loop.call_soon_threadsafe(stand)
                started.wait(timeout=1.0)
        except RuntimeError:  # the loop is gone: the server is stopping
            pass
        try:
            yield
        finally:
            over.set()

    # Training --------------------------------------------------------------------------------------------------------

    def create_model(self, body: dict[str, Any]) -> dict[str, Any]:
        session = self.session(body.get("session_id"))
        run_id = f"{session.id}:train:{int(body['model_seq_id'])}"
        if (body.get("optimizer_config") or {}).get("type", "adamw") != "adamw":
            raise RequestError("only the Adam optimizer is served here", 422)
        lora = body.get("lora_config") or {}
        rank = lora.get("rank", 32)
        if type(rank) is not int or not 1 <= rank <= MAX_RANK:
            raise RequestError(f"lora rank must be an integer from 1 to {MAX_RANK}, not {rank!r}")
        self.engine.model(body.get("base_model", ""))
        layers = {"attn": "train_attn", "mlp": "train_mlp", "unembed": "train_unembed"}
        flags = {key: bool(lora.get(wire, True)) for key, wire in layers.items()}
        seed = lora.get("seed")
        spec = LoraSpec(rank, seed if seed is not None else 0, **flags)
        if run_id not in session.runs:
            session.runs.append(run_id)
        return self.queue(
            run_id,
            lambda: self.engine.create_run(
                run_id, body["base_model"], spec if seed is not None else None, spec, body.get("user_metadata")
            ),
            lambda promise, _: promise.set_json({"model_id": run_id, "type": "create_model"}),
            model_id=run_id,
        )

    def load_weights(self, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("session_id") is not None:
            session = self.session(body["session_id"])
            run_id = f"{session.id}:train:{int(body['model_seq_id'])}"
            request_id = run_id
            if run_id not in session.runs:
                session.runs.append(run_id)
        else:
            run_id = body["model_id"]
            request_id = call_id(run_id, body.get("seq_id"))
        path = body["path"]
        self.engine.store.entry(path)
        return self.queue(
            request_id,
            lambda: self.engine.load_run(
                run_id, path, bool(body.get("optimizer")), body.get("base_model"), body.get("user_metadata")
            ),
            lambda promise, _: promise.set_json({"path": path, "model_id": run_id, "type": "load_weights"}),
            model_id=run_id,
        )

    def forward_backward(self, raw: bytes) -> dict[str, Any]:
        request, data, config = protocol.decode_forward_backward(raw)
        run_id, loss_fn, backward = request.model_id, request.loss_fn, not request.forward_only
        return self.queue(
            call_id(run_id, request.seq_id or None),
            lambda: self.engine.forward_backward(run_id, data, loss_fn, config, backward),
            lambda promise, result: promise.set(protocol.encode_forward_backward(*result), "application/x-protobuf"),
            model_id=run_id,
        )

    def optim_step(self, body: dict[str, Any]) -> dict[str, Any]:
        if "adam_params" not in body:
            raise RequestError("only Adam steps are served here", 422)
        fields = {k: v for k, v in body["adam_params"].items() if k in AdamParams.__dataclass_fields__}
        params = AdamParams(**{k: float(v) for k, v in fields.items()})
        run_id = body["model_id"]
        return self.queue(
            call_id(run_id, body.get("seq_id")),
            lambda: self.engine.optim_step(run_id, params),
            lambda promise, metrics: promise.set_json({"metrics": metrics}),
            model_id=run_id,
        )

    def named(self, name: str) -> str:
        """A name that a client may give to a checkpoint."""
        if name.startswith(UNNAMED):
            raise RequestError(f"checkpoint names do not start with {UNNAMED!r}")
        return safe(name, "checkpoint name")

    def save_weights(self, body: dict[str, Any]) -> dict[str, Any]:
        run_id = body["model_id"]
        name = self.named(body.get("path") or f"step-{body.get('seq_id')}")
        self.engine.store.file(run_id, "weights", name)
        return self.queue(
            call_id(run_id, body.get("seq_id")),
            lambda: self.engine.save(
                run_id, "weights", name, body.get("ttl_seconds"), bool(body.get("overwrite")), body.get("user_metadata")
            ),
            lambda promise, path: promise.set_json({"path": path, "type": "save_weights"}),
            model_id=run_id,
        )

    def save_weights_for_sampler(self, body: dict[str, Any]) -> dict[str, Any]:
        run_id = body["model_id"]
        named = body.get("path") is not None
        name = self.named(body["path"]) if named else f"{UNNAMED}{int(body['sampling_session_seq_id'])}"
        self.engine.store.file(run_id, "sampler_weights", name)

        def finish(promise: Promise, path: str) -> None:
            if named:
                promise.set_json({"path": path, "type": "save_weights_for_sampler"})
                return
            session = self.session(run_id.split(":train:")[0])
            sampler = self.open_sampler(session, int(body["sampling_session_seq_id"]), None, path)
            promise.set_json({"sampling_session_id": sampler.id, "type": "save_weights_for_sampler"})

        return self.queue(
            call_id(run_id, body.get("seq_id")),
            lambda: self.engine.save(
                run_id, "sampler_weights", name, body.get("ttl_seconds"), True, body.get("user_metadata"), durable=named
            ),
            finish,
            model_id=run_id,
        )

    # Sampling --------------------------------------------------------------------------------------------------------

    def open_sampler(self, session: ClientSession, seq: int, base: str | None, path: str | None) -> SamplingSession:
        sampler_id = f"{session.id}:sample:{seq}"
        if sampler_id not in self.sampling:
            digest = None
            if path is not None:
                meta = self.engine.store.entry(path).meta
                base, digest = meta["base_model"], meta["digest"]
            if not base:
                raise RequestError("create_sampling_session needs base_model or model_path")
            self.engine.model(base)
            self.sampling[sampler_id] = SamplingSession(sampler_id, session.id, base, path, digest)
            session.samplers.append(sampler_id)
        return self.sampling[sampler_id]

    def sampler(self, sampler_id: Any) -> SamplingSession:
        found = self.sampling.get(sampler_id)
        if found is None:
            raise RequestError(f"unknown sampling session {sampler_id!r}; create a new sampling client", 404)
        return found

    def asample(self, body: dict[str, Any]) -> dict[str, Any]:
        sampler = self.sampler(body.get("sampling_session_id"))
        seq_id = int(body["seq_id"])
        request_id = f"{sampler.id}:{seq_id}"
        known = self.promises.get(request_id)
        if known is not None:
            return known.to_json()
        if sampler.came_before(seq_id):
            raise spent(request_id)
        model = self.engine.model(sampler.base_model)
        prompt = protocol.prompt_tokens(body.get("prompt"))
        count = body.get("num_samples", 1)
        if type(count) is not int or not 1 <= count <= MAX_SAMPLES:
            raise RequestError(f"num_samples must be from 1 to {MAX_SAMPLES}, not {count!r}")
        for unserved in ("target_prompt_logprobs", "prompt_alt_tokens_k"):
            if body.get(unserved):
                raise RequestError(f"{unserved} is not served here", 422)
        params = rest.sample_params(body.get("sampling_params") or {}, prompt, model)
        promise = self.promises.create(
            request_id, {"sample_sequence_ids": [f"{request_id}:{index}" for index in range(count)]}
        )
        settle = self.settle(promise, lambda p, job: p.set(protocol.encode_sample(job), "application/x-protobuf"))
        job = SampleJob(
            prompt=prompt,
            params=params,
            count=count,
            keys=[],
            adapter=None,
            done=settle,
            prompt_logprobs=bool(body.get("prompt_logprobs")),
            prompt_last=rest.prompt_last(body, prompt),
            topk_prompt=int(body.get("topk_prompt_logprobs") or 0),
            topk_sample=int(body.get("topk_sample_logprobs") or 0),
        )
        promise.cancel = lambda: setattr(job, "cancelled", True)
        seed = (body.get("sampling_params") or {}).get("seed")
        server_seed = self.engine.seed

        def release() -> None:
            occurrence = None if seed is not None else sampler.occurrence(prompt)

            def key(weights: str, index: int) -> int:
                return stream_key(server_seed, weights, prompt, occurrence, seed, index)

            self.engine.submit(
                lambda: self.engine.sample(sampler.base_model, sampler.path, sampler.digest, job, key),
                lambda _, error: settle(job, error) if error else None,
            )

        if seed is not None:  # its random stream needs no order
            release()
            sampler.arrive(seq_id, lambda: None)
        elif not sampler.arrive(seq_id, release):
            asyncio.get_running_loop().call_later(ORDER_PATIENCE, sampler.skip, seq_id)
        return promise.to_json()

    # Housekeeping ----------------------------------------------------------------------------------------------------

    def end_session(self, session: ClientSession) -> None:
        """Free what a session holds in memory, and its unnamed sampler weights on disk."""
        for sampler_id in session.samplers:
            sampler = self.sampling.pop(sampler_id, None)
            if sampler and sampler.path and sampler.path.rpartition("/")[2].startswith(UNNAMED):
                with contextlib.suppress(RequestError):
                    self.engine.store.delete(sampler.path)
        runs = list(session.runs)
        self.engine.submit(lambda: self.engine.forget(runs), lambda *_: None)
        self.sessions.pop(session.id, None)
        self.queued.pop(session.id, None)

    async def sweep(self) -> None:
        while True:
            await asyncio.sleep(15)
            self.promises.sweep()
            now = time.monotonic()
            for session in [s for s in self.sessions.values() if now - s.seen > SESSION_SECONDS]:
                self.end_session(session)
