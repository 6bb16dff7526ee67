"""One training run: an adapter, its gradient accumulator and its Adam state, and the three calls that change them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from selfgen.embedded import losses
from selfgen.embedded.attention import PackedCausal
from selfgen.embedded.decoder import Decoder
from selfgen.embedded.errors import RequestError
from selfgen.embedded.lora import Layout, TrainingLora

LOGIT_BUDGET = 16 << 20  # elements of one logits slice; bounds memory for large vocabularies


@dataclass
class Datum:
    """One training sequence. tokens and targets [n]; targets may be [n, k]; fields are float32 of targets' shape."""

    tokens: np.ndarray
    targets: np.ndarray
    fields: dict[str, np.ndarray]


@dataclass(frozen=True)
class AdamParams:
    """As in the SDK. weight decay is decoupled; grad_clip_norm 0 means none."""

    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0


class TrainingRun:
    """Adapter parameters, gradient and Adam moments, each one flat float32 vector."""

    def __init__(self, decoder: Decoder, layout: Layout, flat: Tensor):
        self.decoder = decoder
        self.layout = layout
        self.leaf = flat.to(decoder.device).clone().requires_grad_(True)
        self.first = torch.zeros_like(self.leaf, requires_grad=False)
        self.second = torch.zeros_like(self.first)
        self.step = 0

    def forward_backward(
        self, data: list[Datum], loss_fn: str, config: Mapping[str, float], *, backward: bool, budget: int = 4096
    ) -> tuple[float, list[np.ndarray]]:
        """Sum of the loss and each datum's target log-probabilities; adds to the gradient when `backward`.

        Sequences are sorted by length and cut into micro-batches of at most `budget` tokens. The order, and with it
        every rounding, depends on the request alone.
        """
        losses.check(loss_fn, config)
        check_data(data, loss_fn, self.decoder.config.vocab_size, self.decoder.config.context)
        order = sorted(range(len(data)), key=lambda i: (len(data[i].tokens), i))
        logps: list[np.ndarray] = [np.empty(0)] * len(data)
        total = 0.0
        for batch in micro_batches(order, [len(d.tokens) for d in data], budget):
            loss, outputs = self._micro_batch([data[i] for i in batch], loss_fn, config, backward)
            total += loss
            for i, output in zip(batch, outputs, strict=True):
                logps[i] = output
        return total, logps

    def _micro_batch(
        self, data: list[Datum], loss_fn: str, config: Mapping[str, float], backward: bool
    ) -> tuple[float, list[np.ndarray]]:
        decoder = self.decoder
        device = decoder.device
        lengths = [len(d.tokens) for d in data]
        tokens = torch.from_numpy(np.concatenate([d.tokens for d in data]).astype(np.int64)).to(device)
        positions = torch.cat([torch.arange(n, device=device) for n in lengths])
        width = max(d.targets.shape[1] if d.targets.ndim == 2 else 1 for d in data)
        targets = torch.from_numpy(np.concatenate([widen(d.targets, width) for d in data]).astype(np.int64)).to(device)
        names = losses.FIELDS[loss_fn]
        fields = {
            name: torch.from_numpy(
                np.concatenate([widen(d.fields[name], width) for d in data]).astype(np.float32, copy=False)
            ).to(device)
            for name in names
        }
        with torch.set_grad_enabled(backward):
            lora = TrainingLora(self.layout, self.leaf, decoder.dtype)
            hidden = decoder.forward(tokens, decoder.rope(positions), PackedCausal(decoder.config, lengths), lora)
        rest = hidden.detach().requires_grad_(backward)
        live = (fields["weights"] if "weights" in fields else fields["advantages"]).ne(0).any(dim=1)
        if loss_fn == "dro":
            live = torch.ones_like(live)
        logp = torch.empty(targets.shape, device=device)
        losses_sum = 0.0
        rows_per_slice = max(16, LOGIT_BUDGET // decoder.config.vocab_size)
        for needs_grad in (False, True):
            rows = torch.nonzero(live if needs_grad else ~live).squeeze(1)
            for part in rows.split(rows_per_slice):
                with torch.set_grad_enabled(needs_grad and backward):
                    head = TrainingLora(self.layout, self.leaf, decoder.dtype) if needs_grad and backward else lora
                    scores = decoder.logits(rest[part], head)
                    part_logp = scores.gather(1, targets[part]) - torch.logsumexp(scores, dim=1, keepdim=True)
                    inputs = {name: field[part] for name, field in fields.items()}
                    loss = losses.LOSSES[loss_fn](part_logp, inputs, config).sum()
                if needs_grad and backward:
                    loss.backward()
                logp[part] = part_logp.detach()
                losses_sum += float(loss.detach())
        if backward and rest.grad is not None:
            hidden.backward(rest.grad)
        flat = logp.cpu().numpy()
        outputs, start = [], 0
        for datum in data:
            stop = start + len(datum.tokens)
            piece = flat[start:stop]
            outputs.append(piece[:, : datum.targets.shape[1]] if datum.targets.ndim == 2 else piece[:, 0])
            start = stop
        return losses_sum, outputs

    def optim_step(self, params: AdamParams) -> dict[str, float]:
        """One Adam step (Kingma & Ba 2015, bias-corrected; decoupled decay) on the accumulated gradient, then clear it.

        Returns the gradient norm before clipping. A step without any backward pass uses a zero gradient.
        """
        grad = self.leaf.grad if self.leaf.grad is not None else torch.zeros_like(self.first)
        norm = float(torch.linalg.vector_norm(grad, dtype=torch.float64))
        if not math.isfinite(norm):
            self.leaf.grad = None
            raise RequestError("the gradient is not finite; the step was not taken and the gradient was cleared")
        if 0 < params.grad_clip_norm < norm:
            grad = grad * (params.grad_clip_norm / norm)
        self.step += 1
        with torch.no_grad():
            self.first.mul_(params.beta1).add_(grad, alpha=1 - params.beta1)
            self.second.mul_(params.beta2).addcmul_(grad, grad, value=1 - params.beta2)
            if params.weight_decay:
                self.leaf.mul_(1 - params.learning_rate * params.weight_decay)
            first_scale = params.learning_rate / (1 - params.beta1**self.step)
            denominator = self.second.div(1 - params.beta2**self.step).sqrt_().add_(params.eps)
            self.leaf.addcdiv_(self.first, denominator, value=-first_scale)
        self.leaf.grad = None
        return {"unclipped_grad_l2:mean": norm}


def micro_batches(order: list[int], lengths: list[int], budget: int) -> list[list[int]]:
    """Cut `order` into runs of at most `budget` tokens; a longer sequence stands alone."""
    batches: list[list[int]] = []
    used = budget + 1
    for i in order:
        if used + lengths[i] > budget:
            batches.append([])
            used = 0
        batches[-1].append(i)
        used += lengths[i]
    return batches


def widen(values: np.ndarray, width: int) -> np.ndarray:
    """[n] or [n, k] as [n, width], zero-filled."""
    values = values.reshape(len(values), -1)
    if values.shape[1] == width:
        return values
    return np.pad(values, ((0, 0), (0, width - values.shape[1])))


def check_data(data: list[Datum], loss_fn: str, vocabulary: int, context: int) -> None:
    """Refuse shapes and values that would fail, or silently mislead, further down."""
    if not data:
        raise RequestError("no data in the request")
    for index, datum in enumerate(data):
        where = f"datum {index}"
        if not len(datum.tokens):
            raise RequestError(f"{where}: empty model_input")
        if len(datum.tokens) > context:
            raise RequestError(f"{where}: {len(datum.tokens)} tokens exceed the model's context of {context}")
        if len(datum.targets) != len(datum.tokens):
            raise RequestError(f"{where}: {len(datum.targets)} target_tokens for {len(datum.tokens)} input tokens")
        for name, values in (("model_input", datum.tokens), ("target_tokens", datum.targets)):
            if values.size and (values.min() < 0 or values.max() >= vocabulary):
                raise RequestError(f"{where}: {name} has a token outside the vocabulary of {vocabulary}")
        if loss_fn == "cross_entropy":
            datum.fields.setdefault("weights", np.ones(datum.targets.shape, dtype=np.float32))
        for name in losses.FIELDS[loss_fn]:
            if name not in datum.fields:
                raise RequestError(f"{where}: {loss_fn} needs loss_fn_inputs[{name!r}]")
            if datum.fields[name].shape != datum.targets.shape:
                shapes = f"{datum.fields[name].shape}, target_tokens {datum.targets.shape}"
                raise RequestError(f"{where}: {name} has shape {shapes}")
            if not np.isfinite(datum.fields[name]).all():
                raise RequestError(f"{where}: {name} holds a value that is not finite")
