"""What a run needs of its service, compared with what the service has, before anything is paid for.

The service's own list says which models it samples and trains and how long a context they have. A LoRA rank is tried by
making a training run, and the calls by requests without content: both cost no token. Nothing here changes a result; it
lets a run start or stops it, with one line for each thing that is missing.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from selfgen import sdk
from selfgen.errors import ServiceError

if TYPE_CHECKING:
    from selfgen.params import Params
    from selfgen.service import Service

TOKENS_PER_WORD = 1.4
ONE_SHOT_TOKENS = 160  # the stock environment's worked example, with its question
FRAME_TOKENS = 24  # what a chat template adds

CALLS = {
    "create_sampling_session": "nothing can be sampled",
    "asample": "nothing can be sampled",
    "create_model": "no arm can be trained",
    "load_weights": "the arms cannot start from one checkpoint",
    "forward_backward": "no arm can be trained",
    "optim_step": "no arm can be trained",
    "save_weights": "a killed training run could not go on",
    "save_weights_for_sampler": "trained weights could not be sampled",
    "save_weights_external": "trained adapters could not be exported",
}
"""The calls of the protocol that the stages make, and what is impossible without each."""


@dataclass(frozen=True)
class Need:
    """The longest request of one kind: `tokens` of prompt and answer together, of which params' `key` sets most."""

    model: str
    key: str
    tokens: int


def needs(params: Params) -> list[Need]:
    """The longest requests that params lead to, estimated from below: real prompts may be somewhat longer."""
    task = int(params.filter.max_words * TOKENS_PER_WORD) + FRAME_TOKENS

    def shot(style: str) -> int:
        return ONE_SHOT_TOKENS if style == "standard" else 0

    policy, auditor = params.model.name, params.auditor.name
    instruction = int(len(params.generate.instruction.split()) * TOKENS_PER_WORD) + FRAME_TOKENS
    return [
        Need(policy, "generate.max_tokens", instruction + params.generate.max_tokens),
        Need(policy, "filter.solve.max_tokens", task + shot(params.train.few_shot) + params.filter.solve.max_tokens),
        Need(auditor, "audit.max_tokens", task + shot(params.train.few_shot) + params.audit.max_tokens),
        Need(policy, "train.max_tokens", task + shot(params.train.few_shot) + params.train.max_tokens),
        Need(policy, "eval.max_tokens", task + shot(params.eval.few_shot) + params.eval.max_tokens),
    ]


def lacks(params: Params, offered: Iterable[Any]) -> list[str]:
    """What the service's own list of models says is missing. `offered` are the SDK's SupportedModel records."""
    models = {model.model_name: model for model in offered if model.model_name}
    shown = ", ".join(sorted(models)[:6]) + (", ..." if len(models) > 6 else "")
    found = []
    for role, name in (("model", params.model.name), ("auditor", params.auditor.name)):
        model = models.get(name)
        if model is None:
            found.append(f"does not offer {name}; it offers {shown or 'no model'}; edit {role}.name")
            continue
        if getattr(model, "sampleable", None) is False:
            found.append(f"does not sample {name}; choose another {role}.name")
        if role == "model" and getattr(model, "trainable", None) is False:
            found.append(f"does not train {name}; choose another {role}.name")
    for need in needs(params):
        limit = getattr(models.get(need.model), "max_context_length", None)
        if limit and need.tokens > limit:
            found.append(
                f"{need.model} takes {limit:,} tokens in all, {need.key} and a prompt need about {need.tokens:,}; "
                f"lower {need.key} or choose another model"
            )
    return found


def refused_rank(params: Params, service: Service) -> list[str]:
    """Whether the service makes a training run of the stated LoRA rank. The run is left at once."""
    import httpx
    import tinker

    client = tinker.ServiceClient(base_url=service.base_url, api_key=service.api_key)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            made = sdk.ready(client.create_lora_training_client(params.model.name, rank=params.model.lora_rank, seed=0))
            with contextlib.suppress(httpx.HTTPError):
                sdk.close(client, made.model_id, service.base_url, service.api_key)
    except (tinker.TinkerError, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        return [
            f"makes no LoRA of rank {params.model.lora_rank} for {params.model.name} ({reason}); edit model.lora_rank, or free what it names"
        ]
    return []


def missing_calls(base_url: str, api_key: str) -> list[str]:
    """The calls that the service has no route for, found by requests that no service can carry out."""
    import httpx

    found = []
    with httpx.Client(headers={"X-API-Key": api_key}, timeout=20, transport=httpx.HTTPTransport(retries=3)) as client:
        for call, without in CALLS.items():
            if call == "save_weights_external" and not sdk.writes_adapters():
                continue
            try:
                response = client.post(f"{base_url.rstrip('/')}/api/v1/{call}", json={})
            except httpx.HTTPError:
                continue  # a bad moment of the network says nothing about the service
            if response.status_code in (405, 501) or (response.status_code == 404 and _no_route(response)):
                found.append(f"lacks the call {call}, so {without}; see docs/engines.md")
    return found


def _no_route(response: Any) -> bool:
    """Whether a 404 speaks of the address and not of a model or session that the empty request did not name."""
    try:
        return str(response.json().get("detail", "Not Found")).startswith("Not Found")
    except (ValueError, AttributeError):
        return True


def require(params: Params, service: Service) -> None:
    """Refuse to start a run that the service cannot finish.

    Raises:
        ServiceError: one line for each thing that is missing.
    """
    found = lacks(params, service.offered)
    if not found:
        found = missing_calls(service.base_url, service.api_key) or refused_rank(params, service)
    if found:
        raise ServiceError("\nerror: ".join(f"{service.base_url}: {line}" for line in found))


@click.command()
def check() -> None:
    """Ask the service whether it has all that this run needs; nothing is paid. Exit 1 when it lacks something.

    \b
    Examples:
      selfgen check
    """
    from selfgen.params import load
    from selfgen.service import open_service

    params = load()
    embedded = params.service.kind == "embedded"
    with open_service(params, [params.model.name, params.auditor.name] if embedded else []) as service:
        require(params, service)
    click.echo(f"the service has what scale={params.scale} needs: models, context, LoRA rank and calls")
