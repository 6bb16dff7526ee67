"""Decoding on a GPU: several steps per visit of the host, each step one captured CUDA graph.

At these model sizes a step is a few hundred kernels of microseconds; launched one by one from Python they take twenty
times their run time. Here the host uploads the state of all rows, replays the graph STEPS times, and reads the tokens
back. A row that ends within those steps computes a few tokens more, which are dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from selfgen.embedded.attention import SlotAttention
from selfgen.embedded.decoder import Decoder
from selfgen.embedded.lanes import DecodeText, Lane
from selfgen.embedded.lora import AdapterStack, Lora, no_lora
from selfgen.embedded.prefill import GraphPrefill
from selfgen.embedded.sampler import Adapter, Prompt, Sequence

STEPS = 8
SPAN_STEP = 128
GRAPHS_KEPT = 160
LEAST_SLOTS, LEAST_LENGTH = 64, 1024  # of a cache: growing captures every graph anew
ROW_BUCKETS = (8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048)


class StepState:
    """What a step reads and writes, at fixed addresses: [rows] each, results [STEPS, rows]."""

    def __init__(self, rows: int, device: torch.device):
        self.tokens = torch.zeros(rows, dtype=torch.long, device=device)
        self.positions = torch.zeros(rows, dtype=torch.long, device=device)
        self.heat = torch.ones(rows, device=device)
        self.uniforms = torch.zeros(STEPS, rows, dtype=torch.float64, device=device)
        self.index = torch.zeros(1, dtype=torch.long, device=device)
        self.out_tokens = torch.zeros(STEPS, rows, dtype=torch.long, device=device)
        self.out_logps = torch.zeros(STEPS, rows, device=device)


class GraphLane(Lane):
    """A lane whose steps are CUDA graphs where the batch allows it, and ordinary calls where not.

    Ordinary calls serve mixed adapters, top-k, top-p and top-k log-probabilities.
    """

    def __init__(self, decoder: Decoder, decode_text: DecodeText, capture: bool = True):
        super().__init__(decoder, decode_text)
        self.capture = capture
        self.cache.step = SPAN_STEP
        self._states: dict[int, StepState] = {}
        self._graphs: OrderedDict[tuple, Callable[[], None]] = OrderedDict()
        self._slots: dict[tuple, tuple[str, AdapterStack]] = {}
        self._pool: Any = None
        self._prefill = GraphPrefill(decoder, capture)

    def prompts(
        self, sequences: list[list[int]], adapter: Adapter | None, stack: AdapterStack | None
    ) -> list[tuple[Any, Tensor]]:
        """As `Lane.prompts`; few and short ones as a graph."""
        if not GraphPrefill.fits(sequences):
            return super().prompts(sequences, adapter, stack)
        if adapter is None or stack is None:
            return self._prefill(sequences, None, no_lora)
        return self._prefill(sequences, adapter.layout.spec.shape, self._slot(adapter, stack))

    def join(self, sequences: list[Sequence], prompt: Prompt) -> None:
        """Take in sequences whose prompt has been computed and whose first token is chosen."""
        count = len(self.running) + len(sequences)
        self.make_room(bucket(count), max(s.position for s in (*self.running, *sequences)) + 1 + STEPS)
        self.cache.fill(len(self.running), count, prompt.kept)
        self.running += sequences

    def make_room(self, rows: int, length: int) -> None:
        """Grow the cache in large steps: growing moves it, and every graph knows its address."""
        if rows > self.cache.slots or length > self.cache.length:
            slots = self.cache.slots if rows <= self.cache.slots else max(rows, 2 * self.cache.slots, LEAST_SLOTS)
            if length > self.cache.length:
                length += length // 2
            self.cache.reserve(slots, max(length, self.cache.length, LEAST_LENGTH))
            self._graphs.clear()
            self._pool = None  # a pool ends with its last graph
        self.length = self.cache.length

    def _simple(self) -> bool:
        """Whether the batch can run as a graph: one adapter, or none, for all, and plain sampling."""
        first = self.running[0].job.adapter
        vocabulary = self.decoder.config.vocab_size
        return all(
            s.job.adapter is first
            and not 0 < s.job.params.top_k < vocabulary
            and s.job.params.top_p >= 1
            and not s.job.topk_sample
            for s in self.running
        )

    @torch.inference_mode()
    def decode(self) -> list[Sequence]:
        """Up to STEPS tokens for every running sequence; returns those that have ended, which leave."""
        if not self._simple():
            return super().decode()
        rows = bucket(len(self.running))
        highest = max(s.position for s in self.running)
        self.make_room(rows, highest + 1 + STEPS)
        span = min(self.cache.length, -(-(highest + 1 + STEPS) // SPAN_STEP) * SPAN_STEP)
        state = self._states.setdefault(rows, StepState(rows, self.decoder.device))
        self._upload(state)
        step = self._step(rows, span, state)
        for _ in range(STEPS):
            step()
        count = len(self.running)
        tokens, logps = (x[:, :count].t().tolist() for x in (state.out_tokens, state.out_logps))
        for sequence, each, their in zip(self.running, tokens, logps, strict=True):
            self._accept_all(sequence, each, their)
        finished = [s for s in self.running if s.stop_reason is not None or s.job.cancelled]
        if finished:
            self._leave()
        return finished

    def _accept_all(self, sequence: Sequence, tokens: list[int], logps: list[float]) -> None:
        """As `accept` for one token after the other, up to the one that ends the sequence."""
        params = sequence.job.params
        unending = params.stop_tokens.isdisjoint(tokens) and not params.stop_strings
        if unending and len(sequence.tokens) + len(tokens) < params.max_tokens:
            sequence.tokens += tokens
            sequence.logps += logps
            return
        for token, logp in zip(tokens, logps, strict=True):
            self.accept(sequence, token, logp)
            if sequence.stop_reason is not None:
                return

    def _upload(self, state: StepState) -> None:
        count = len(self.running)
        heat = [s.job.params.temperature for s in self.running]
        draws = [s.stream.take(STEPS) if s.job.params.temperature else [0.0] * STEPS for s in self.running]
        state.tokens[:count] = torch.tensor([s.tokens[-1] for s in self.running])
        state.positions.zero_()
        state.positions[:count] = torch.tensor([s.position for s in self.running])
        state.heat[:count] = torch.tensor(heat)
        state.uniforms[:, :count] = torch.tensor(draws, dtype=torch.float64).t()
        state.index.zero_()

    def _step(self, rows: int, span: int, state: StepState) -> Callable[[], None]:
        """One step for this shape and adapter: a captured graph, kept for the next time."""
        adapter = self.running[0].job.adapter
        lora: Lora = no_lora
        if adapter is not None:
            assert self.stack is not None
            lora = self._slot(adapter, self.stack)
        plain = all(s.job.params.temperature in (0, 1) for s in self.running)
        key = (rows, span, adapter.layout.spec.shape if adapter else None, plain)
        if key in self._graphs:
            self._graphs.move_to_end(key)
            return self._graphs[key]

        def step() -> None:
            self._compute(span, state, lora, plain)

        if not self.capture:
            return step
        saved = [state.tokens.clone(), state.positions.clone()]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        state.index.zero_()
        with torch.cuda.graph(graph, pool=self._pool):
            step()
        self._pool = self._pool or graph.pool()
        state.tokens.copy_(saved[0])
        state.positions.copy_(saved[1])
        state.index.zero_()
        self._graphs[key] = graph.replay
        while len(self._graphs) > GRAPHS_KEPT:
            self._graphs.popitem(last=False)
        return graph.replay

    def _slot(self, adapter: Adapter, stack: AdapterStack) -> Lora:
        """The place on the GPU for adapters of this shape, holding `adapter`, whose matrices are in `stack`.

        RL makes a new adapter every step; written over the last one, it runs in the graphs that were captured for it.
        """
        shape = adapter.layout.spec.shape
        held = self._slots.get(shape)
        if held is None:
            stack = AdapterStack([adapter.layout], [adapter.flat], self.decoder.device, self.decoder.dtype)
            self._slots[shape] = (adapter.digest, stack)
        elif held[0] != adapter.digest:
            held[1].assign(stack)
            self._slots[shape] = (adapter.digest, held[1])
        return self._slots[shape][1].bind([0])

    def _compute(self, span: int, state: StepState, lora: Lora, plain: bool) -> None:
        """Decode one token of every row and advance the state; no host decisions inside."""
        decoder = self.decoder
        attend = SlotAttention(self.cache, state.positions, span)
        hidden = decoder.forward(state.tokens, decoder.rope(state.positions), attend, lora)
        table = torch.log_softmax(decoder.logits(hidden, lora), dim=-1)
        uniforms = state.uniforms.index_select(0, state.index).squeeze(0)
        chosen = choose_static(table, None if plain else state.heat, state.heat == 0, uniforms)
        state.out_tokens.index_copy_(0, state.index, chosen.unsqueeze(0))
        state.out_logps.index_copy_(0, state.index, table.gather(1, chosen.unsqueeze(1)).t())
        state.tokens.copy_(chosen)
        state.positions.add_(1)
        state.index.add_(1)

    def release(self) -> None:
        """Keep the cache: its graphs are worth more than the memory between two batches."""


def bucket(rows: int) -> int:
    """Rows of a graph that has room for `rows`."""
    return next((b for b in ROW_BUCKETS if b >= rows), -(-rows // 1024) * 1024)


def choose_static(table: Tensor, heat: Tensor | None, greedy: Tensor, uniforms: Tensor) -> Tensor:
    """`sampler.choose` without host decisions; `heat` None means temperature 1 wherever a row is not greedy.

    The cumulative distribution is searched in two levels: sums of chunks, then within the chunk.
    """
    rows, vocabulary = table.shape
    scores = table
    if heat is not None:
        heated = torch.log_softmax(table / heat.clamp(min=1e-6).unsqueeze(1), dim=-1)
        scores = torch.where((heat == 1).unsqueeze(1), table, heated)
    chunk = chunk_of(vocabulary)
    probabilities = scores.exp()
    if vocabulary % chunk:
        probabilities = torch.nn.functional.pad(probabilities, (0, -vocabulary % chunk))
    probabilities = probabilities.view(rows, -1, chunk)
    sums = probabilities.sum(dim=-1).double().cumsum(dim=-1)
    wanted = (uniforms * sums[:, -1]).unsqueeze(1)
    which = torch.searchsorted(sums, wanted, right=True).clamp_(max=sums.shape[1] - 1)
    before = torch.where(which > 0, sums.gather(1, (which - 1).clamp_(min=0)), torch.zeros_like(wanted))
    inside = probabilities.gather(1, which.unsqueeze(2).expand(-1, -1, chunk)).squeeze(1).double().cumsum(dim=-1)
    place = torch.searchsorted(inside, wanted - before, right=True).clamp_(max=chunk - 1)
    sampled = (which * chunk + place).squeeze(1).clamp_(max=vocabulary - 1)
    return torch.where(greedy, table.argmax(dim=-1), sampled)


def chunk_of(vocabulary: int) -> int:
    """Chunk width: a power of two from 64 to 1024 that divides the vocabulary where there is one."""
    return next((c for c in (1024, 512, 256, 128, 64) if vocabulary % c == 0), 256)
