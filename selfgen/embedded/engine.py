"""The one thread that computes: base models, training runs, sampling, and the order in which they take turns.

Nothing here knows HTTP. Calls are queued with `submit` and run one at a time in arrival order; between two of them
every sampler decodes one step, so sampling goes on while training runs and neither needs a lock.
"""

from __future__ import annotations

import queue
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from selfgen.embedded import config as configs
from selfgen.embedded.decoder import Decoder
from selfgen.embedded.errors import RequestError
from selfgen.embedded.generic import GenericConfig, GenericDecoder
from selfgen.embedded.graphs import GraphLane
from selfgen.embedded.lanes import GenericLane, Lane
from selfgen.embedded.lora import ALPHA, Layout, LoraSpec, digest
from selfgen.embedded.sampler import Adapter, SampleJob, Sampler
from selfgen.embedded.store import Store
from selfgen.embedded.trainer import AdamParams, Datum, TrainingRun

ADAPTERS_KEPT = 32
CPU_CACHE_BYTES = 2 << 30
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Workers:
    """Threads that compute side by side, each with one torch thread.

    Two such lanes beat one torch pool of two threads on small matrices and on a busy machine: there is no barrier
    inside an operation, and the order of additions does not depend on the number of threads.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="lane") if count > 1 else None

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
        """Results in order."""
        return self._pool.map(function, items) if self._pool is not None else map(function, items)


class BaseModel:
    """One served model: its folder now, its weights when first used."""

    def __init__(self, name: str, folder: Path, device: torch.device, dtype: torch.dtype, workers: Workers):
        self.name = name
        self.folder = folder
        self.config: configs.DecoderConfig | GenericConfig
        try:
            self.config = configs.DecoderConfig.read(folder)
        except configs.Unsupported:
            self.config = GenericConfig.read(folder)
        self.end_tokens = configs.end_tokens(folder)
        self._device, self._dtype, self._workers = device, dtype, workers
        self._decoder: Decoder | GenericDecoder | None = None
        self._sampler: Sampler | None = None
        self._tokenizer: Any = None
        self._digest: str | None = None
        self.alone: Callable[[], AbstractContextManager] = nullcontext

    @property
    def on_gpu(self) -> bool:
        return self._device.type == "cuda"

    @property
    def digest(self) -> str:
        if self._digest is None:
            self._digest = configs.content_digest(self.folder)
        return self._digest

    @property
    def decoder(self) -> Decoder | GenericDecoder:
        if self._decoder is None:
            native = isinstance(self.config, configs.DecoderConfig)
            self._decoder = (Decoder if native else GenericDecoder).load(self.folder, self._device, self._dtype)
        return self._decoder

    @property
    def sampler(self) -> Sampler:
        if self._sampler is None:
            decoder, workers = self.decoder, self._workers
            if isinstance(decoder, GenericDecoder):
                lanes: list = [GenericLane(decoder, self.text)]
            elif decoder.device.type == "cuda":
                lanes = [GraphLane(decoder, self.text)]
            else:
                lanes = [Lane(decoder, self.text) for _ in range(workers.count)]
            self._sampler = Sampler(decoder, lanes, map=workers.map, alone=self.alone, **self._limits())
        return self._sampler

    def _limits(self) -> dict[str, int]:
        """Rows at once, and cache cells (rows x length) that fit the memory set aside for keys and values."""
        config, decoder = self.config, self.decoder
        if isinstance(config, GenericConfig):
            return {"max_rows": 64, "max_cells": 1 << 17}
        cell = 2 * config.layers * config.kv_heads * config.head_dim * decoder.dtype.itemsize
        if decoder.device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(decoder.device)
            return {"max_rows": 1024, "max_cells": int(free * 0.5) // cell}
        return {"max_rows": 128, "max_cells": max(4096, CPU_CACHE_BYTES // cell)}

    @property
    def busy(self) -> bool:
        return self._sampler is not None and self._sampler.busy

    def text(self, tokens: list[int]) -> str:
        """Tokens as text, for stop strings."""
        if self._tokenizer is None:
            from tokenizers import Tokenizer

            file = self.folder / "tokenizer.json"
            if not file.is_file():
                raise RequestError(f"{self.folder}: no tokenizer.json, so stop strings cannot be found; use token ids")
            self._tokenizer = Tokenizer.from_file(str(file))
        return self._tokenizer.decode(tokens, skip_special_tokens=False)


@dataclass
class LiveRun:
    """A training run in memory."""

    base: BaseModel
    spec: LoraSpec
    run: TrainingRun


class Engine:
    """Owns the models, the training runs and the compute thread."""

    def __init__(
        self,
        models: Mapping[str, Path],
        store: Store,
        seed: int = 0,
        device: str = "cpu",
        dtype: str = "float32",
        threads: int = 1,
    ):
        self.store = store
        self.seed = seed
        self.device = torch.device(device)
        torch.set_num_threads(1)
        self.workers = Workers(threads if self.device.type == "cpu" else 1)
        self.models = {
            name: BaseModel(name, path, self.device, DTYPES[dtype], self.workers) for name, path in models.items()
        }
        self.runs: dict[str, LiveRun] = {}
        self._unseeded = 0
        self._light = False
        self._adapters: OrderedDict[str, Adapter] = OrderedDict()
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)
        self._thread.start()

    # The thread ------------------------------------------------------------------------------------------------------

    def submit(self, call: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        """Queue `call`; `done(result, error)` is called from the compute thread."""

        def run() -> None:
            try:
                result = call()
            except Exception as error:
                if not isinstance(error, RequestError):
                    traceback.print_exc()
                done(None, error)
            else:
                done(result, None)

        self._calls.put(run)

    def close(self) -> None:
        self._calls.put(None)
        self._thread.join(timeout=10)

    def _loop(self) -> None:
        while True:
            busy = any(model.busy for model in self.models.values())
            try:
                call = self._calls.get(block=not busy)
                if call is None:
                    return
                call()
                if self._light:  # a new sample: take in all that wait before the next decode step
                    self._light = False
                    continue
            except queue.Empty:
                pass
            for model in self.models.values():
                if model.busy:
                    try:
                        model.sampler.step()
                    except Exception as error:  # out of memory, say: its requests fail, the server lives
                        traceback.print_exc()
                        model.sampler.abort(error)

    # Calls, each run in the thread -----------------------------------------------------------------------------------

    def model(self, name: str) -> BaseModel:
        found = self.models.get(name)
        if found is None:
            raise RequestError(f"unknown model {name!r}; this server has {', '.join(sorted(self.models))}", 404)
        return found

    def create_run(self, run_id: str, base: str, spec: LoraSpec | None, seedless: LoraSpec, metadata: Any) -> None:
        model = self.model(base)
        if spec is None:
            # No seed given: a fresh one each time, yet the same ones for the same server seed.
            spec = LoraSpec(**{**seedless.to_json(), "seed": self.seed * 1_000_003 + self._unseeded + (1 << 40)})
            self._unseeded += 1
        layout = Layout.of(model.decoder, spec)
        run = TrainingRun(model.decoder, layout, layout.initial(model.digest), self.workers.map)
        self.store.create_run(run_id, {"base_model": base, "lora": spec.to_json(), "user_metadata": metadata})
        self.runs[run_id] = LiveRun(model, spec, run)

    def live(self, run_id: str) -> LiveRun:
        found = self.runs.get(run_id)
        if found is None:
            raise RequestError(
                f"training run {run_id!r} is not in memory (server restarted, or its session ended); "
                "create a client from a saved checkpoint",
                404,
            )
        return found

    def forward_backward(
        self, run_id: str, data: list[Datum], loss_fn: str, config: Mapping[str, float], backward: bool
    ) -> tuple[float, list]:
        return self.live(run_id).run.forward_backward(data, loss_fn, config, backward=backward)

    def optim_step(self, run_id: str, params: AdamParams) -> dict[str, float]:
        return self.live(run_id).run.optim_step(params)

    def save(
        self,
        run_id: str,
        kind: str,
        name: str,
        ttl: int | None,
        overwrite: bool,
        metadata: Any,
        *,
        durable: bool = True,
        recipients: list[str] | None = None,
    ) -> str:
        """Write a checkpoint of a live run; returns its path. `recipients` are age keys that its downloads go to."""
        live = self.live(run_id)
        run = live.run
        flat = run.flat.detach().to("cpu", copy=True)
        tensors = run.layout.named(flat)
        meta = {
            "base_model": live.base.name,
            "base_digest": live.base.digest,
            "lora": live.spec.to_json(),
            "alpha": ALPHA,
            "digest": digest(flat),
            "step": run.step,
            "user_metadata": metadata,
            "recipients": recipients,
        }
        if kind == "weights":
            tensors = {**tensors, "optimizer.first": run.first, "optimizer.second": run.second}
        path = self.store.save(run_id, kind, name, tensors, meta, ttl=ttl, overwrite=overwrite, durable=durable)
        if kind == "sampler_weights":  # what comes next is sampling from it
            self._keep(Adapter(meta["digest"], run.layout, flat))
        return path

    def load_run(self, run_id: str, path: str, optimizer: bool, base: str | None, metadata: Any) -> None:
        """Load into a live run, or make the run from the checkpoint."""
        meta, tensors = self.store.load(path)
        spec = LoraSpec(**meta["lora"])
        live = self.runs.get(run_id)
        if live is None:
            model = self._base_of(path, meta, base)
            layout = Layout.of(model.decoder, spec)
            live = LiveRun(model, spec, TrainingRun(model.decoder, layout, layout.flatten(tensors), self.workers.map))
            info = {"base_model": model.name, "lora": spec.to_json(), "user_metadata": metadata, "from": path}
            self.store.create_run(run_id, info)
            self.runs[run_id] = live
        else:
            self._base_of(path, meta, live.base.name)
            layout = Layout.of(live.base.decoder, spec)
            if layout.matrices != live.run.layout.matrices:
                raise RequestError(f"{path}: its LoRA rank or layers differ from the training run's")
            live.run = TrainingRun(live.base.decoder, live.run.layout, layout.flatten(tensors), self.workers.map)
        if optimizer:
            if "optimizer.first" not in tensors:
                raise RequestError(f"{path} holds no optimizer state; load it without, or a weights checkpoint")
            live.run.first.copy_(tensors["optimizer.first"])
            live.run.second.copy_(tensors["optimizer.second"])
            live.run.step = int(meta["step"])

    def _base_of(self, path: str, meta: dict[str, Any], name: str | None) -> BaseModel:
        model = self.model(name or meta["base_model"])
        if model.digest != meta["base_digest"]:
            raise RequestError(f"{path} was trained on other weights than this server's {model.name!r}")
        return model

    def adapter(self, path: str, wanted: str) -> Adapter:
        """The frozen weights with digest `wanted`, from memory or from the checkpoint at `path`."""
        found = self._adapters.get(wanted)
        if found is None:
            meta, tensors = self.store.load(path)
            if meta["digest"] != wanted:
                raise RequestError(f"{path} has been overwritten since this sampling client was made; make a new one")
            model = self._base_of(path, meta, None)
            layout = Layout.of(model.decoder, LoraSpec(**meta["lora"]))
            found = self._keep(Adapter(wanted, layout, layout.flatten(tensors)))
        self._adapters.move_to_end(wanted)
        return found

    def _keep(self, adapter: Adapter) -> Adapter:
        """Hold an adapter in memory; those unused for longest go."""
        self._adapters[adapter.digest] = adapter
        while len(self._adapters) > ADAPTERS_KEPT:
            self._adapters.popitem(last=False)
        return adapter

    def sample(
        self, base: str, path: str | None, wanted: str | None, job: SampleJob, key: Callable[[str, int], int]
    ) -> None:
        """Start a job. `key(weights, index)` names its random streams once the weights are known."""
        model = self.model(base)
        weights = model.digest
        if path is not None and wanted is not None:
            job.adapter = self.adapter(path, wanted)
            weights = f"{weights}+{wanted}"
        job.keys = [key(weights, index) for index in range(job.count)]
        model.sampler.submit(job)
        self._light = True

    def forget(self, run_ids: list[str]) -> None:
        for run_id in run_ids:
            self.runs.pop(run_id, None)
