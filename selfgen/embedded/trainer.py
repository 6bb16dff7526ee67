"""One training run: an adapter, its gradient accumulator and its Adam state, and the three calls that change them."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils import deterministic

from selfgen.embedded import losses
from selfgen.embedded.decoder import Decoder
from selfgen.embedded.errors import RequestError
from selfgen.embedded.generic import GenericConfig, GenericDecoder
from selfgen.embedded.lora import Layout, Matrix, TrainingLora
from selfgen.embedded.packing import Packing, pack

TOKEN_BUDGET = 2048  # tokens of one micro-batch on the CPU, and the least on a GPU
LOGIT_BUDGET = (16 << 20, 1 << 28)  # elements of one logits slice on CPU and GPU: large vocabularies do not fit at once


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

    def __init__(
        self, decoder: Decoder | GenericDecoder, layout: Layout, flat: Tensor, map: Callable[..., Iterable] = map
    ):
        self.decoder = decoder
        self.map = map
        self.layout = layout
        self.flat = flat.to(decoder.device, torch.float32).detach().clone()
        self.grad: Tensor | None = None
        self.first = torch.zeros_like(self.flat)
        self.second = torch.zeros_like(self.flat)
        self.step = 0

    def forward_backward(
        self,
        data: list[Datum],
        loss_fn: str,
        config: Mapping[str, float],
        *,
        backward: bool,
        budget: int | None = None,
    ) -> tuple[float, list[np.ndarray]]:
        """Sum of the loss and each datum's target log-probabilities; adds to the gradient when `backward`.

        Sequences are packed into micro-batches of at most `budget` tokens, by default what suits the device. On the CPU
        the packing, and with it every rounding, depends on the request alone.
        """
        losses.check(loss_fn, config)
        check_data(data, loss_fn, self.decoder.config.vocab_size, self.decoder.config.context)
        logps: list[np.ndarray] = [np.empty(0)] * len(data)
        total = 0.0

        def work(packing: Packing) -> tuple[float, list[np.ndarray], Tensor | None]:
            return self._micro_batch(packing, data, loss_fn, config, backward)

        packings = pack([d.tokens for d in data], budget or self.token_budget())
        # Micro-batches may run side by side; their results are added in order, so rounding does not tell.
        for packing, (loss, outputs, grad) in zip(packings, self.map(work, packings), strict=True):
            total += loss
            for i, output in zip(packing.members, outputs, strict=True):
                logps[i] = output
            if grad is not None:
                self.grad = grad if self.grad is None else self.grad.add_(grad)
        return total, logps

    def token_budget(self) -> int:
        """Tokens of one micro-batch: on a GPU as many as a third of the free memory holds activations for."""
        config = self.decoder.config
        if self.decoder.device.type != "cuda" or isinstance(config, GenericConfig):
            return TOKEN_BUDGET
        free, _ = torch.cuda.mem_get_info(self.decoder.device)
        per_token = config.layers * (24 * config.hidden + 8 * config.intermediate) * self.decoder.dtype.itemsize
        return max(TOKEN_BUDGET, min(32768, free // 3 // per_token))

    def _micro_batch(
        self, packing: Packing, data: list[Datum], loss_fn: str, config: Mapping[str, float], backward: bool
    ) -> tuple[float, list[np.ndarray], Tensor | None]:
        """Loss, log-probabilities of each member, and the gradient of one micro-batch."""
        decoder = self.decoder
        device = decoder.device
        leaf = self.flat.detach().requires_grad_(backward)
        batch = [data[i] for i in packing.members]
        width = max(d.targets.shape[1] if d.targets.ndim == 2 else 1 for d in batch)
        # Places (tokens of members) sorted by the row that computes them, so that a slice of rows is a slice of places.
        order = np.argsort(packing.index, kind="stable")
        rows = torch.from_numpy(packing.index[order]).to(device)

        def gathered(arrays: list[np.ndarray], dtype: type) -> Tensor:
            values = np.concatenate([widen(a, width) for a in arrays])[order]
            return torch.from_numpy(values.astype(dtype, copy=False)).to(device)

        targets = gathered([d.targets for d in batch], np.int64)
        fields = {n: gathered([d.fields[n] for d in batch], np.float32) for n in losses.FIELDS[loss_fn]}
        with torch.set_grad_enabled(backward):
            lora = TrainingLora(self.layout, leaf, decoder.dtype)
            hidden = decoder.states(packing, lora)
        # Each slice of rows goes through the vocabulary and back on its own: logits of a whole batch may not fit.
        top = hidden.detach().requires_grad_(backward)
        begin, end = span_of(self.layout.head)
        head_leaf = self.flat[begin:end].detach().requires_grad_(backward)
        logp = torch.empty(targets.shape, device=device)
        live = losses.live(loss_fn, fields)
        live_rows = torch.zeros(len(packing.tokens), dtype=torch.bool, device=device)
        live_rows[rows[live]] = True
        loss_sum = 0.0
        for needs_grad in (True, False):
            chosen = torch.nonzero(live_rows if needs_grad else ~live_rows).squeeze(1)
            for part in chosen.split(max(16, LOGIT_BUDGET[device.type == "cuda"] // decoder.config.vocab_size)):
                local = torch.full((len(packing.tokens),), -1, dtype=torch.long, device=device)
                local[part] = torch.arange(len(part), device=device)
                places = torch.nonzero(local[rows] >= 0).squeeze(1)
                with torch.set_grad_enabled(needs_grad and backward):
                    # A leaf of its own for the output embedding: a slice's gradient then costs no more than that.
                    head = TrainingLora(self.layout, head_leaf, decoder.dtype, self.layout.head)
                    scores = decoder.logits(top[part], head)
                    norms = torch.logsumexp(scores, dim=1)
                    at = local[rows[places]].unsqueeze(1)
                    part_logp = scores[at, targets[places]] - norms[at]
                    inputs = {name: field[places] for name, field in fields.items()}
                    loss = losses.LOSSES[loss_fn](part_logp, inputs, config).sum()
                if needs_grad and backward:
                    with repeatable(device):
                        loss.backward()
                logp[places] = part_logp.detach()
                loss_sum += float(loss.detach())
        if hidden.requires_grad and top.grad is not None:
            with repeatable(device):
                hidden.backward(top.grad)
        grad = leaf.grad
        if head_leaf.grad is not None:
            grad = torch.zeros_like(leaf) if grad is None else grad
            grad[begin:end] += head_leaf.grad
        flat = np.empty(targets.shape, dtype=np.float32)
        flat[order] = logp.cpu().numpy()
        outputs, start = [], 0
        for datum, length in zip(batch, packing.lengths, strict=True):
            piece = flat[start : start + length]
            outputs.append(piece[:, : datum.targets.shape[1]] if datum.targets.ndim == 2 else piece[:, 0])
            start += length
        return loss_sum, outputs, grad

    def optim_step(self, params: AdamParams) -> dict[str, float]:
        """One Adam step (Kingma & Ba 2015, bias-corrected; decoupled decay) on the accumulated gradient, then clear it.

        Returns the gradient norm before clipping. A step without any backward pass uses a zero gradient.
        """
        grad = self.grad if self.grad is not None else torch.zeros_like(self.first)
        norm = float(torch.linalg.vector_norm(grad, dtype=torch.float64))
        if not math.isfinite(norm):
            self.grad = None
            raise RequestError("the gradient is not finite; the step was not taken and the gradient was cleared")
        if 0 < params.grad_clip_norm < norm:
            grad = grad * (params.grad_clip_norm / norm)
        self.step += 1
        self.first.mul_(params.beta1).add_(grad, alpha=1 - params.beta1)
        self.second.mul_(params.beta2).addcmul_(grad, grad, value=1 - params.beta2)
        if params.weight_decay:
            self.flat.mul_(1 - params.learning_rate * params.weight_decay)
        scale = params.learning_rate / (1 - params.beta1**self.step)
        denominator = self.second.div(1 - params.beta2**self.step).sqrt_().add_(params.eps)
        self.flat.addcdiv_(self.first, denominator, value=-scale)
        self.grad = None
        return {"unclipped_grad_l2:mean": norm}


@contextlib.contextmanager
def repeatable(device: torch.device) -> Iterator[None]:
    """On a GPU, gradients that are added up in a fixed order: the same request twice gives the same bits.

    For backward passes alone. Elsewhere the switch buys nothing and makes writing to the cache many times slower.
    """
    if device.type != "cuda":
        yield
        return
    before, fill = torch.are_deterministic_algorithms_enabled(), deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(True, warn_only=True)
    deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.use_deterministic_algorithms(before)
        deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]


def span_of(matrices: tuple[Matrix, ...]) -> tuple[int, int]:
    """Where neighbouring matrices begin and end in the flat vector."""
    return (matrices[0].offset, matrices[-1].offset + matrices[-1].size) if matrices else (0, 0)


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
