"""The training losses, per token and summed, as the Tinker documentation states them.

Every loss is a sum over tokens of a function of that token's log-probability, so it can be evaluated (and
differentiated) on any slice of the tokens. Inputs are flat over the tokens of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from selfgen.embedded.errors import RequestError

Config = Mapping[str, float]
Inputs = Mapping[str, Tensor]


def cross_entropy(logp: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-w log p; `weights` default to one."""
    return -logp * inputs["weights"]


def importance_sampling(logp: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-(p / q) A, with q the probability under the sampler."""
    return -torch.exp(logp - inputs["logprobs"]) * inputs["advantages"]


def ppo(logp: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-min(r A, clip(r) A), r = p / q (Schulman et al. 2017)."""
    ratio = torch.exp(logp - inputs["logprobs"])
    clipped = ratio.clamp(config.get("clip_low_threshold", 0.8), config.get("clip_high_threshold", 1.2))
    return -torch.minimum(ratio * inputs["advantages"], clipped * inputs["advantages"])


def cispo(logp: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-stop_gradient(clip(r)) A log p (MiniMax-M1, 2025)."""
    ratio = torch.exp(logp.detach() - inputs["logprobs"])
    clipped = ratio.clamp(config.get("clip_low_threshold", 0.8), config.get("clip_high_threshold", 1.2))
    return -clipped * inputs["advantages"] * logp


def dro(logp: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-(A log p - beta/2 (log p - log q)^2) (Richemond et al. 2024)."""
    gap = logp - inputs["logprobs"]
    return -(logp * inputs["advantages"] - 0.5 * config.get("beta", 0.05) * gap.square())


LOSSES: dict[str, Callable[[Tensor, Inputs, Config], Tensor]] = {
    "cross_entropy": cross_entropy,
    "importance_sampling": importance_sampling,
    "ppo": ppo,
    "cispo": cispo,
    "dro": dro,
}
FIELDS = {name: ("weights",) if name == "cross_entropy" else ("logprobs", "advantages") for name in LOSSES}
OPTIONS = {
    "cross_entropy": (),
    "importance_sampling": (),
    "ppo": ("clip_low_threshold", "clip_high_threshold"),
    "cispo": ("clip_low_threshold", "clip_high_threshold"),
    "dro": ("beta",),
}


def live(name: str, inputs: Inputs) -> Tensor:
    """Which tokens [tokens] can have a gradient: the rest of a prompt need not be differentiated."""
    if name == "dro":
        return torch.ones(len(inputs["advantages"]), dtype=torch.bool, device=inputs["advantages"].device)
    return inputs["weights" if name == "cross_entropy" else "advantages"].ne(0).any(dim=1)


def check(name: str, config: Config) -> None:
    """Refuse an unknown loss or option, naming what is accepted."""
    if name not in LOSSES:
        raise RequestError(f"loss_fn {name!r} is not served here; use one of {', '.join(LOSSES)}", 422)
    unknown = sorted(set(config) - set(OPTIONS[name]))
    if unknown:
        accepted = ", ".join(OPTIONS[name]) or "none"
        raise RequestError(f"loss_fn_config {unknown[0]!r} is unknown to {name}; accepted: {accepted}")
