"""One way to reach a Tinker service, remote or embedded, and to sample from it through the journal.

The SDK does the concurrency and the retries. What is added here: the embedded server is started and stopped around
a block, a service is checked before anything is paid for, and answered requests are read from the journal.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfgen import sdk
from selfgen.errors import ServiceError
from selfgen.journal import Journal, Sampled, cache_dir, open_journal, request_key
from selfgen.params import BudgetParams, Params
from selfgen.records import Completion

if TYPE_CHECKING:
    import tinker

_PROBES = 5
_DEFAULT_BASE_URL = "https://tinker.thinkingmachines.dev/services/tinker-prod"


@dataclass(frozen=True)
class SampleRequest:
    """One sampling request: `n` completions of one prompt. `stop` holds token ids or strings."""

    prompt: tuple[int, ...]
    n: int
    max_tokens: int
    temperature: float
    seed: int
    stop: tuple[int, ...] | tuple[str, ...] = ()

    def sampling(self) -> dict[str, Any]:
        """What the samples depend on besides prompt, count and seed."""
        return {"max_tokens": self.max_tokens, "temperature": self.temperature, "stop": list(self.stop), "top_p": 1.0}


@dataclass
class Usage:
    """Tokens asked of the service in this process, without those the journal answered.

    An arm's training counts too, as far as its finished steps say; `trained_tokens` are prompts and responses together.
    """

    requests: int = 0
    journal_hits: int = 0
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    trained_tokens: int = 0

    def tokens(self) -> dict[str, int]:
        """The counts by name, for provenance."""
        return asdict(self)


class Sampler:
    """Samples of one model or checkpoint, in request order, through the journal."""

    def __init__(self, service: Service, identity: str, tokenizer: Any, open_client: Any, name: str) -> None:
        self._service = service
        self._identity = identity
        self._tokenizer = tokenizer
        self._open_client = open_client
        self._client: tinker.SamplingClient | None = None
        self.name = name

    @property
    def client(self) -> tinker.SamplingClient:
        """The SDK's sampling client, opened on first use: a fully journaled stage never opens one."""
        if self._client is None:
            try:
                self._client = self._open_client()
            except ServiceError:
                raise
            except Exception as error:
                raise as_service_error(error, self.name) from None
        return self._client

    def sample_stream(
        self, requests: Iterable[SampleRequest], concurrency: int | None = None
    ) -> Iterator[list[Completion]]:
        """Completions of each request, in order, asking for at most `concurrency` requests ahead of the consumer.

        Raises:
            ServiceError: the service refuses or fails a request after the SDK's own retries.
        """
        ahead = concurrency or self._service.concurrency
        source = iter(requests)
        waiting: deque[tuple[SampleRequest, Any]] = deque()
        try:
            for request in source:
                waiting.append((request, self._submit(request)))
                if len(waiting) >= ahead:
                    yield self._finish(*waiting.popleft())
            while waiting:
                yield self._finish(*waiting.popleft())
        finally:
            # The consumer has enough, or a request failed: what nobody waits for is not paid for.
            for _, pending in waiting:
                if not isinstance(pending, list):
                    pending.cancel()

    def _submit(self, request: SampleRequest) -> Any:
        import tinker

        key = request_key(self._identity, request.prompt, request.sampling(), request.n, request.seed)
        usage, journal = self._service.usage, self._service.journal
        if journal is not None and (found := journal.get(key)) is not None:
            usage.journal_hits += 1
            return found
        usage.requests += 1
        usage.prompt_tokens += len(request.prompt)
        params = tinker.SamplingParams(
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            seed=request.seed,
            stop=list(request.stop) or None,  # type: ignore[arg-type]
        )
        future: Any = self.client.sample(tinker.ModelInput.from_ints(list(request.prompt)), request.n, params)
        future = future.future() if hasattr(future, "future") else future

        def write_down(done: Any) -> None:
            if journal is not None and not done.cancelled() and done.exception() is None:
                journal.put(key, self.name, len(request.prompt), _sampled(done.result()))

        future.add_done_callback(write_down)
        return future

    def _finish(self, request: SampleRequest, pending: Any) -> list[Completion]:
        if isinstance(pending, list):
            samples = pending
        else:
            try:
                samples = _sampled(pending.result())
            except Exception as error:
                raise as_service_error(error, self.name) from None
            self._service.usage.sampled_tokens += sum(len(s.tokens) for s in samples)
        if len(samples) != request.n:
            raise ServiceError(
                f"{self.name}: asked for {request.n} samples, got {len(samples)}; report it to the service"
            )
        return [self._completion(sample, request) for sample in samples]

    def _completion(self, sample: Sampled, request: SampleRequest) -> Completion:
        tokens = list(sample.tokens)
        # The stop token ends the text and is no part of it.
        body = tokens[:-1] if tokens and tokens[-1] in request.stop else tokens
        return Completion(self._tokenizer.decode(body), len(tokens), sample.stop_reason)


def _sampled(response: Any) -> list[Sampled]:
    return [Sampled(tuple(int(t) for t in s.tokens), str(s.stop_reason)) for s in response.sequences]


class Service:
    """A reachable Tinker service."""

    def __init__(self, kind: str, base_url: str, api_key: str, concurrency: int, journal: Journal | None) -> None:
        import tinker

        self.kind = kind
        self.base_url = base_url
        self.api_key = api_key
        self.concurrency = concurrency
        self.journal = journal
        self.usage = Usage()
        self.budget: BudgetParams | None = None
        self.client = tinker.ServiceClient(base_url=base_url, api_key=api_key)
        self.offered = self._offered()
        self.capabilities = sorted(m.model_name for m in self.offered if m.model_name)

    def _offered(self) -> list[Any]:
        """The service's own list of models: the SDK's SupportedModel records."""
        try:
            return sdk.supported_models(self.client, self.base_url, self.api_key)
        except Exception as error:
            raise as_service_error(error, self.base_url) from None

    def cost(self, model: str) -> Callable[[], str] | None:
        """What this process has cost so far at params' price of `model`, as a function for the progress line."""
        price = self.budget.prices.get(model) if self.budget is not None else None
        if self.budget is None or price is None:
            return None
        usage, currency = self.usage, self.budget.currency

        def so_far() -> str:
            spent = price.money(usage.prompt_tokens, usage.sampled_tokens, usage.trained_tokens)
            return f"{spent:.2f} {currency}"

        return so_far

    def require_models(self, names: Sequence[str]) -> None:
        """Refuse before anything is paid when the service does not offer a model.

        Raises:
            ServiceError: names the model and what the service offers.
        """
        for name in names:
            if name not in self.capabilities:
                offered = ", ".join(self.capabilities[:6]) + (", ..." if len(self.capabilities) > 6 else "")
                raise ServiceError(
                    f"{self.base_url}: does not offer {name}; it offers {offered or 'no model'}; edit params"
                )

    def holds(self, path: str) -> bool:
        """Whether the service holds a checkpoint.

        Raises:
            tinker.APIConnectionError: it does not answer.
        """
        import tinker

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)
                self.client.create_rest_client().get_weights_info_by_tinker_path(path).result()
        except tinker.APIConnectionError:
            raise
        except tinker.BadRequestError:  # a service that tells nothing of such paths; using it will tell
            return True
        except tinker.TinkerError:
            return False
        return True

    def bring_back(self, path: str, model: str, adapter: Path) -> None:
        """Put the adapter in a PEFT folder where the service once kept it: pulled from a colleague, or expired.

        Raises:
            ServiceError: a remote service, which takes no weights in; or the embedded one refuses these.
        """
        import httpx

        if self.kind != "embedded":
            raise ServiceError(
                f"{path}: not on this service (expired, or made elsewhere), and Tinker services take no weights in; "
                f"`dvc repro --force` trains the arm again, or evaluate {adapter} with an engine that loads PEFT folders"
            )
        answer = httpx.put(
            self.base_url + "/api/v1/selfgen/adapters",
            params={"path": path, "base_model": model},
            content=(adapter / "adapter_model.safetensors").read_bytes(),
            headers={"X-API-Key": self.api_key},
            timeout=600,
        )
        if answer.status_code != 200:
            raise ServiceError(f"{adapter}: {answer.json()['error']}; run `dvc pull`, or train the arm again")

    def sampler(
        self,
        model: str,
        tokenizer: str,
        checkpoint: str | None = None,
        digest: str | None = None,
        adapter: Path | None = None,
    ) -> Sampler:
        """A sampler of a base model, or of the checkpoint at a tinker:// path whose content hash is `digest`.

        `adapter` is a PEFT folder with the same weights, for a service that does not hold the checkpoint.
        """
        from selfgen.rendering import tokenizer as load_tokenizer

        where = "embedded" if self.kind == "embedded" else hashlib.sha256(self.base_url.encode()).hexdigest()[:16]
        identity = f"{where}:{self._model_identity(model)}"
        if checkpoint is not None:
            identity += f":{digest or checkpoint}"

        def open_client() -> Any:
            opened: Any
            if checkpoint is None:
                opened = self.client.create_sampling_client(base_model=model)
            else:
                if adapter is not None and not self.holds(checkpoint):
                    self.bring_back(checkpoint, model, adapter)
                opened = self.client.create_sampling_client(model_path=checkpoint)
            return sdk.ready(opened)

        name = model if checkpoint is None else f"{model}+{(digest or checkpoint)[:12]}"
        return Sampler(self, identity, load_tokenizer(tokenizer), open_client, name)

    def _model_identity(self, model: str) -> str:
        """A model's name, with the hash of its weights where the server runs from a folder of ours."""
        if self.kind != "embedded":
            return model
        from selfgen.embedded.models import weights_digest

        return f"{model}@{weights_digest(model)}"

    def describe(self) -> dict[str, Any]:
        """The service met, for manifests: no address, no key, nothing volatile."""
        remote = self.kind != "embedded"
        return {
            "kind": self.kind,
            "base_url_sha256": hashlib.sha256(self.base_url.encode()).hexdigest() if remote else None,
            "models": self.capabilities,
        }


def as_service_error(error: Exception, where: str) -> ServiceError:
    """An SDK exception as one line with what to do next."""
    text = re.sub(r"\s+", " ", str(error)).strip()[:200] or type(error).__name__
    name, status = type(error).__name__, getattr(error, "status_code", None)
    if status in (401, 403):
        advice = "check TINKER_API_KEY"
    elif "Connection" in name or "Timeout" in name:
        advice = "check TINKER_BASE_URL and the network, then run the stage again: finished samples are kept"
    elif status == 402:
        advice = "add credit, then run the stage again: finished samples are kept"
    else:
        advice = "run the stage again (finished samples are kept) or edit params"
    return ServiceError(f"{where}: {text}; {advice}")


@contextmanager
def open_service(params: Params, models: Sequence[str], seed: int = 0) -> Iterator[Service]:
    """The service that params name, with `models` available, for the length of a block.

    `service.kind: embedded` starts the embedded server on a free loopback port and stops it after; its state stays
    in the user's cache folder. `seed` is that server's seed. Inside the block TINKER_BASE_URL and TINKER_API_KEY
    name the service, so that code which builds its own client (the stock training loop) meets the same one.

    Raises:
        ServiceError: no key, no answer, or a model that is not offered.
    """
    os.environ.setdefault("TINKER_TELEMETRY", "0")
    logging.getLogger("tinker").setLevel(logging.CRITICAL)  # what fails is raised, and told in one line
    journal = open_journal()
    try:
        if params.service.kind == "embedded":
            from selfgen.embedded.launch import running_server

            # The client's heavy imports happen while the server is starting.
            imports = threading.Thread(target=_import_client, daemon=True)
            imports.start()
            with running_server(
                list(dict.fromkeys(models)),
                state_dir=state_dir(),
                seed=seed,
                device=params.service.device or "cpu",
                dtype=params.service.dtype or "auto",
            ) as info:
                imports.join()  # two threads must not import one lazy package at once
                with _environment(info.base_url, info.api_key):
                    yield _checked(params, "embedded", info.base_url, info.api_key, journal, models)
        else:
            base_url = os.environ.get("TINKER_BASE_URL") or _DEFAULT_BASE_URL
            api_key = os.environ.get("TINKER_API_KEY")
            if not api_key:
                raise ServiceError(
                    "TINKER_API_KEY is not set: `service.kind: remote` needs a key for the Tinker service at "
                    f"{base_url}; export it, or use `-S scale=embedded`"
                )
            _probe(base_url, api_key)
            with _environment(base_url, api_key):
                yield _checked(params, "remote", base_url, api_key, journal, models)
    finally:
        if journal is not None:
            journal.close()


def _import_client() -> None:
    import tinker  # noqa: F401
    from tinker_cookbook import renderers  # noqa: F401


def _checked(
    params: Params, kind: str, base_url: str, api_key: str, journal: Journal | None, models: Sequence[str]
) -> Service:
    service = Service(kind, base_url, api_key, params.service.concurrency, journal)
    service.budget = params.budget
    service.require_models(models)
    return service


def _probe(base_url: str, api_key: str) -> None:
    """A short request, tried a few times, since the SDK itself would retry an unreachable service for minutes."""
    import httpx

    url = base_url.rstrip("/") + "/api/v1/healthz"
    for tries in range(1, _PROBES + 1):
        final = tries == _PROBES
        try:
            response = httpx.get(url, headers={"X-API-Key": api_key}, timeout=20, follow_redirects=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # Nobody listening is an answer; a connection that broke may be a bad moment.
            if final or isinstance(error, (httpx.ConnectError, httpx.UnsupportedProtocol, httpx.InvalidURL)):
                raise ServiceError(
                    f"{base_url}: no Tinker service answers ({type(error).__name__}); check TINKER_BASE_URL and the "
                    "network, or use `-S scale=embedded`"
                ) from None
        else:
            if response.status_code in (401, 403):
                raise ServiceError(f"{base_url}: refuses the key; check TINKER_API_KEY")
            if response.status_code != 429 and response.status_code < 500:
                return
            if final:
                raise ServiceError(f"{base_url}: answers {response.status_code}; try again later")
        time.sleep(0.25 * 2**tries)


@contextmanager
def _environment(base_url: str, api_key: str) -> Iterator[None]:
    names = {"TINKER_BASE_URL": base_url, "TINKER_API_KEY": api_key}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def state_dir() -> Path:
    """Where embedded servers keep their checkpoints."""
    return cache_dir() / "embedded"
