"""Prompts on a GPU: a few of similar length as one grid, each grid shape one captured CUDA graph.

A prompt of a hundred tokens is a millisecond of arithmetic and several hundred kernel launches, which take ten times as
long, and more beside a busy event loop. In RL and evaluation prompts arrive one by one, so that is what a request costs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import sdpa_kernel

from selfgen.embedded.attention import REPEATABLE
from selfgen.embedded.decoder import Decoder
from selfgen.embedded.lora import Lora

GRID_PROMPTS = (1, 2, 4, 8, 16)
GRID_STEP = 64
GRID_LENGTH = 512  # longer prompts keep the GPU busy without a graph
GRAPHS_KEPT = 96


class GridCausal:
    """Causal attention of prompts of one padded length, [prompts * length] rows; k and v go to `store`.

    Padding is on the right, where a causal mask hides it.
    """

    def __init__(self, prompts: int, length: int, store: Tensor):
        self.prompts, self.length, self.store = prompts, length, store

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.store[2 * layer].copy_(k)
        self.store[2 * layer + 1].copy_(v)
        q, k, v = (x.unflatten(0, (self.prompts, self.length)).transpose(1, 2) for x in (q, k, v))
        grouped = q.shape[1] != k.shape[1]
        with sdpa_kernel(REPEATABLE) if q.is_cuda else nullcontext():
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        return out.transpose(1, 2).flatten(0, 1).flatten(1)


class GraphPrefill:
    """Computes up to 16 prompts of up to 512 tokens at once.

    All graphs share one set of input and output buffers; results are copied out after each replay. A shape is captured
    when it comes up a second time: capturing costs as much as computing it three times.
    """

    def __init__(self, decoder: Decoder, capture: bool = True):
        self.decoder = decoder
        self.capture = capture
        config, rows = decoder.config, GRID_PROMPTS[-1] * GRID_LENGTH
        device, dtype = decoder.device, decoder.dtype
        shape = (2 * config.layers, rows, config.kv_heads, config.head_dim)
        self._tokens = torch.zeros(rows, device=device, dtype=torch.long)
        self._store = torch.zeros(shape, device=device, dtype=dtype)
        self._hidden = torch.zeros(rows, config.hidden, device=device, dtype=dtype)
        self._graphs: OrderedDict[tuple, Callable[[], None]] = OrderedDict()
        self._seen: set[tuple] = set()
        self._pool: Any = None

    @staticmethod
    def fits(sequences: list[list[int]]) -> bool:
        """Whether the prompts are few and short enough."""
        return len(sequences) <= GRID_PROMPTS[-1] and max(map(len, sequences)) <= GRID_LENGTH

    @torch.inference_mode()
    def __call__(self, sequences: list[list[int]], shape: tuple | None, lora: Lora) -> list[tuple[Tensor, Tensor]]:
        """For each prompt k and v [2 * layers, tokens, kv heads, dim] and hidden states [tokens, hidden].

        `lora` must read the same addresses whenever it is given with the same `shape`.
        """
        prompts = next(n for n in GRID_PROMPTS if n >= len(sequences))
        longest = max(map(len, sequences))
        length = min(-(-longest // GRID_STEP) * GRID_STEP, max(longest, self.decoder.config.context))
        rows = prompts * length
        grid = torch.zeros(prompts, length, dtype=torch.long)
        for row, tokens in enumerate(sequences):
            grid[row, : len(tokens)] = torch.tensor(tokens)
        self._tokens[:rows].copy_(grid.flatten())
        self._graph(prompts, length, shape, lora)()
        starts = [row * length for row in range(len(sequences))]
        return [
            (self._store[:, at : at + len(tokens)].clone(), self._hidden[at : at + len(tokens)].clone())
            for at, tokens in zip(starts, sequences, strict=True)
        ]

    def _graph(self, prompts: int, length: int, shape: tuple | None, lora: Lora) -> Callable[[], None]:
        key = (prompts, length, shape)
        if key in self._graphs:
            self._graphs.move_to_end(key)
            return self._graphs[key]

        def compute() -> None:
            self._compute(prompts, length, lora)

        if not self.capture or key not in self._seen:
            self._seen.add(key)
            return compute
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            compute()
        self._pool = self._pool or graph.pool()
        self._graphs[key] = graph.replay
        while len(self._graphs) > GRAPHS_KEPT:
            self._graphs.popitem(last=False)
        return graph.replay

    def _compute(self, prompts: int, length: int, lora: Lora) -> None:
        rows = prompts * length
        positions = torch.arange(length, device=self.decoder.device).repeat(prompts)
        attend = GridCausal(prompts, length, self._store[:, :rows])
        hidden = self.decoder.forward(self._tokens[:rows], self.decoder.rope(positions), attend, lora)
        self._hidden[:rows].copy_(hidden)
