"""Causal attention over packed sequences (training, prefill), and over a slotted key-value cache (decoding)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from selfgen.embedded.config import DecoderConfig

# cuDNN's kernel, the first choice on Hopper, adds up its gradients in no fixed order.
REPEATABLE = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class PackedCausal:
    """Each sequence attends to itself; `lengths` tile the rows. Optionally keeps k and v per layer.

    With `index` (the row of each token of each sequence) several sequences may share rows; `first` then says, for each
    row, which token's result to take.
    """

    def __init__(
        self,
        config: DecoderConfig,
        lengths: Sequence[int],
        keep: bool = False,
        index: Tensor | None = None,
        first: Tensor | None = None,
    ):
        self.config = config
        self.lengths = list(lengths)
        self.index = index
        self.first = first
        self._grid: tuple[Tensor, Tensor] | None = None
        self.kept: list[tuple[Tensor, Tensor]] | None = [] if keep else None

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.kept is not None:
            self.kept.append((k, v))
        if q.is_cuda and len(self.lengths) > 1:
            result = self._padded(q, k, v)
            return result if self.first is None else result[self.first]
        if self.index is not None:
            q, k, v = q[self.index], k[self.index], v[self.index]
        grouped = self.config.heads != self.config.kv_heads
        parts = []
        for q_i, k_i, v_i in zip(q.split(self.lengths), k.split(self.lengths), v.split(self.lengths), strict=True):
            out = F.scaled_dot_product_attention(
                q_i.transpose(0, 1).unsqueeze(0),
                k_i.transpose(0, 1).unsqueeze(0),
                v_i.transpose(0, 1).unsqueeze(0),
                is_causal=True,
                enable_gqa=grouped,
            )
            parts.append(out.squeeze(0).transpose(0, 1).flatten(1))
        result = parts[0] if len(parts) == 1 else torch.cat(parts)
        return result if self.first is None else result[self.first]

    def _padded(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """All sequences in one kernel, padded on the right, which a causal mask hides. For GPUs: few launches."""
        if self._grid is None:
            lengths = torch.tensor(self.lengths, device=q.device).unsqueeze(1)
            columns = torch.arange(max(self.lengths), device=q.device).unsqueeze(0)
            places = (lengths.cumsum(0) - lengths + columns).clamp_(max=sum(self.lengths) - 1)
            self._grid = (places if self.index is None else self.index[places], columns < lengths)
        grid, real = self._grid
        with sdpa_kernel(REPEATABLE):
            out = F.scaled_dot_product_attention(
                q[grid].transpose(1, 2),
                k[grid].transpose(1, 2),
                v[grid].transpose(1, 2),
                is_causal=True,
                enable_gqa=self.config.heads != self.config.kv_heads,
            )
        return out.transpose(1, 2)[real].flatten(1)


class ChunkCausal:
    """The next chunk of one sequence: attends to what is kept of the tokens before it, and to itself causally.

    `past` is k and v of the tokens before, [2 * layers, tokens, kv heads, dim]; `kept` collects the chunk's own.
    """

    def __init__(self, config: DecoderConfig, past: Tensor, count: int):
        self.config = config
        self.past = past
        self.kept: list[Tensor] = []
        before = past.shape[1]
        columns = torch.arange(before + count, device=past.device)
        self.visible = columns <= torch.arange(before, before + count, device=past.device).unsqueeze(1)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.kept += (k, v)
        keys = torch.cat([self.past[2 * layer], k]).transpose(0, 1).unsqueeze(0)
        values = torch.cat([self.past[2 * layer + 1], v]).transpose(0, 1).unsqueeze(0)
        out = F.scaled_dot_product_attention(
            q.transpose(0, 1).unsqueeze(0),
            keys,
            values,
            attn_mask=self.visible,
            enable_gqa=self.config.heads != self.config.kv_heads,
        )
        return out.squeeze(0).transpose(0, 1).flatten(1)


class SlotCache:
    """Keys and values of the running sequences, one slot a sequence: [2 * layers, slots, kv heads, length, dim].

    Even layers of the store are keys, odd ones values. Both slots and length grow by need, in steps, so that memory
    follows use.
    """

    def __init__(self, config: DecoderConfig, device: torch.device, dtype: torch.dtype, step: int = 64):
        self.config = config
        self.step = step
        self.device = device
        self.dtype = dtype
        self.release()

    def release(self) -> None:
        """Give the memory back."""
        self.slots = self.length = 0
        self.store = torch.empty(0, device=self.device, dtype=self.dtype)
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def reserve(self, slots: int, length: int) -> None:
        """Make room for `slots` sequences of `length` tokens, keeping what is stored.

        The length also shrinks when much less is needed, because every slot's whole length is attended to.
        """
        length = -(-length // self.step) * self.step
        if slots <= self.slots and self.length * 0.7 <= length <= self.length:
            return
        slots = max(slots, self.slots)
        config = self.config
        shape = (2 * config.layers, slots, config.kv_heads, length, config.head_dim)
        grown = torch.zeros(shape, device=self.device, dtype=self.dtype)
        if self.slots:
            kept = min(self.length, length)
            grown[:, : self.slots, :, :kept] = self.store[:, :, :, :kept]
        self.store, self.slots, self.length = grown, slots, length
        self.keys, self.values = list(grown[0::2]), list(grown[1::2])

    def fill(self, start: int, stop: int, kept: Tensor) -> None:
        """Copy one prompt's k and v, [2 * layers, tokens, kv heads, dim], into the slots from start to stop."""
        self.store[:, start:stop, :, : kept.shape[1]] = kept.transpose(1, 2).unsqueeze(1)

    def move(self, source: int, target: int, tokens: int) -> None:
        """Move a sequence's first `tokens` entries from one slot to another."""
        self.store[:, target, :, :tokens] = self.store[:, source, :, :tokens]


class SlotAttention:
    """One new token per slot: rows 0..n-1 are slots 0..n-1, at `positions` [n]. Stores its k and v, then attends.

    The query heads that share a key head form the query axis, so grouped-query attention reads each key once.

    On the CPU the keys are taken in chunks of the cache step: every matrix product has the same shape whatever the
    cache's length, and chunks are added up in order, so what lies beyond a row's own tokens adds exact zeros and a row's
    result does not depend on the longest row of the batch. (The fused kernel's does, in the last bit, now and then.)
    """

    def __init__(self, cache: SlotCache, positions: Tensor, span: int | None = None):
        self.cache = cache
        self.positions = positions
        self.span = span or cache.length
        self.rows = torch.arange(positions.shape[0], device=positions.device)
        columns = torch.arange(self.span, device=positions.device)
        hidden = columns.unsqueeze(0) > positions.unsqueeze(1)
        bias = torch.zeros(hidden.shape, device=positions.device, dtype=cache.dtype)
        self.bias = bias.masked_fill_(hidden, float("-inf"))

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows = q.shape[0]
        config = self.cache.config
        keys, values = self.cache.keys[layer], self.cache.values[layer]
        keys[self.rows, :, self.positions] = k
        values[self.rows, :, self.positions] = v
        q = q.reshape(rows, config.kv_heads, config.heads // config.kv_heads, config.head_dim)
        if self.cache.device.type == "cpu":
            out = self._chunked(q, keys[:rows, :, : self.span], values[:rows, :, : self.span])
        else:
            out = self._fused(q, keys[:rows, :, : self.span], values[:rows, :, : self.span])
        return out.reshape(rows, config.heads * config.head_dim)

    def _fused(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The same in one kernel."""
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=self.bias[:, None, None])

    def _chunked(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """q [rows, kv heads, group, dim], keys and values [rows, kv heads, span, dim] -> like q."""
        rows, heads, group, dim = q.shape
        step = self.cache.step
        chunks = self.span // step
        each = (q * dim**-0.5).unsqueeze(2).expand(rows, heads, chunks, group, dim).reshape(-1, group, dim)
        scores = torch.bmm(each, keys.reshape(-1, step, dim).transpose(1, 2)).view(rows, heads, chunks, group, step)
        scores += self.bias.view(rows, 1, chunks, 1, step)
        scores = scores.float()
        weights = scores.sub_(scores.amax(dim=(2, 4), keepdim=True)).exp_()
        totals = weights.sum(dim=-1)
        parts = torch.bmm(weights.to(q.dtype).view(-1, group, step), values.reshape(-1, step, dim))
        parts = parts.view(rows, heads, chunks, group, dim).float()
        if chunks > 1:
            parts, totals = parts.cumsum(dim=2), totals.cumsum(dim=2)
        return (parts[:, :, -1] / totals[:, :, -1].unsqueeze(-1)).to(q.dtype)
