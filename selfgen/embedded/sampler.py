"""Continuous batching: prompts join as they arrive, finished sequences leave, each step decodes one token of all.

A prompt is computed once however many samples or identical requests want it. Batch composition must not change
results: a prompt is always computed alone, decode rows are padded to a multiple of ROW_STEP and the attended span to a
multiple of the cache step, which on the CPU makes every row's arithmetic independent of its neighbours (tested).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selfgen.embedded.decoder import Decoder
from selfgen.embedded.generic import GenericDecoder
from selfgen.embedded.lora import AdapterStack, Layout, Lora, no_lora
from selfgen.embedded.streams import UniformStream

ROW_STEP = 8
PROMPT_CACHE_TOKENS = 16384
CHUNK = 96  # prompt tokens computed at a time on the CPU: just under the stock one-shot prefix, which all prompts share
PREFIX_CACHE_TOKENS = 16384
PREFILL_TOKENS = 16384  # prompts computed together on a GPU
TABLE_CELLS = 8 << 20  # rows x vocabulary of a table of log-probabilities


@dataclass(frozen=True)
class Adapter:
    """Frozen weights to sample from. `digest` is their content; "" stands for the base model."""

    digest: str
    layout: Layout
    flat: Tensor


@dataclass(frozen=True)
class SampleParams:
    """Decoded sampling parameters. `stop_tokens` end a sequence and are kept in it, as are stop strings."""

    max_tokens: int
    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0
    stop_tokens: frozenset[int] = frozenset()
    stop_strings: tuple[str, ...] = ()


@dataclass
class SampleJob:
    """One request: `keys` holds one random-stream key per sample. `done` receives the finished job or an exception."""

    prompt: list[int]
    params: SampleParams
    count: int
    keys: list[int]
    adapter: Adapter | None
    done: Callable[[SampleJob, Exception | None], None]
    prompt_logprobs: bool = False
    prompt_last: int | None = None
    topk_prompt: int = 0
    topk_sample: int = 0
    cancelled: bool = False
    sequences: list[Sequence] = field(default_factory=list)
    prompt_logps: np.ndarray | None = None
    prompt_topk: tuple[np.ndarray, np.ndarray] | None = None


@dataclass
class Sequence:
    """One sample in progress; `stop_reason` is set when it has finished."""

    job: SampleJob
    stream: UniformStream
    tokens: list[int] = field(default_factory=list)
    logps: list[float] = field(default_factory=list)
    topk: list[tuple[list[int], list[float]]] = field(default_factory=list)
    stop_reason: str | None = None

    @property
    def position(self) -> int:
        """Where the newest token sits in the sequence."""
        return len(self.job.prompt) + len(self.tokens) - 1


@dataclass
class Prompt:
    """A computed prompt: what its lane needs to go on, and the last position's logits [1, vocabulary]."""

    kept: Any
    logits: Tensor
    hidden: Tensor
    lora: Lora


class PrefixCache:
    """Prompts in chunks of CHUNK tokens; a chunk is computed once for all prompts that begin with the same tokens.

    The chunks of a prompt do not depend on what is cached, so a chunk found here has the very bits that computing it
    again would give, and results stay independent of what was sampled before. Whole chunks alone are kept: what is
    left over at a prompt's end is its own, and the sampler keeps finished prompts besides.
    """

    def __init__(self, decoder: Decoder):
        self.decoder = decoder
        self._chunks: OrderedDict[tuple[str, tuple[int, ...]], tuple[Tensor, Tensor]] = OrderedDict()
        self._used: list[tuple[str, tuple[int, ...]]] = []

    @torch.inference_mode()
    def prompt(self, key: tuple[str, tuple[int, ...]], lora: Lora) -> tuple[Tensor, Tensor]:
        """k and v [2 * layers, tokens, kv heads, dim] and hidden states [tokens, hidden] of a prompt. Thread-safe."""
        digest, tokens = key
        past, parts = self.decoder.nothing(), []
        for start in range(0, len(tokens), CHUNK):
            end = min(start + CHUNK, len(tokens))
            name = (digest, tokens[:end])
            part = self._chunks.get(name)
            if part is None:
                part = self.decoder.extend(list(tokens[start:end]), past, lora)
            if end - start == CHUNK:
                self._used.append(name)
                self._chunks[name] = part
            parts.append(part)
            past = torch.cat([past, part[0]], dim=1)
        return past, torch.cat([hidden for _, hidden in parts])

    def trim(self) -> None:
        """Forget the chunks unused for longest beyond the limit. Called between computations, from one thread."""
        for name in self._used:
            self._chunks.move_to_end(name)
        self._used.clear()
        while len(self._chunks) * CHUNK > PREFIX_CACHE_TOKENS:
            self._chunks.popitem(last=False)


class Sampler:
    """Sampling from one base model and any number of adapters. Used from one thread; its lanes decode side by side."""

    def __init__(
        self,
        decoder: Decoder | GenericDecoder,
        lanes: list[Any],
        max_rows: int = 128,
        max_cells: int = 1 << 18,
        map: Callable[..., Iterable] = map,
        alone: Callable[[], AbstractContextManager] = nullcontext,
    ):
        """`alone` wraps the computing of prompts: see `server.Server.standing_still`."""
        self.decoder = decoder
        self.alone = alone
        self.max_rows = max_rows
        self.max_cells = max_cells
        self.map = map
        self.waiting: deque[SampleJob] = deque()
        self.lanes = lanes
        self._prompts: OrderedDict[tuple[str, tuple[int, ...]], Prompt] = OrderedDict()
        self._stacks: OrderedDict[tuple[str, ...], AdapterStack] = OrderedDict()
        on_cpu = isinstance(decoder, Decoder) and decoder.device.type == "cpu"
        self._table_rows = max(16, TABLE_CELLS // decoder.config.vocab_size)
        self._chunks = PrefixCache(decoder) if on_cpu else None  # type: ignore[arg-type]

    def submit(self, job: SampleJob) -> None:
        self.waiting.append(job)

    @property
    def rows(self) -> int:
        return sum(len(lane.running) for lane in self.lanes)

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.rows)

    @torch.inference_mode()
    def step(self) -> None:
        """Admit what fits, decode one token of every running sequence, hand back what has finished."""
        if self.waiting:
            with self.alone():
                self._admit()
        active = [lane for lane in self.lanes if lane.running]
        for lane in active:
            lane.lora = self._bind(lane)
        for finished in (self.map if len(active) > 1 else map)(lambda lane: lane.decode(), active):
            report(finished)
        if not self.busy:
            self._prompts.clear()
            for lane in self.lanes:
                lane.release()

    def abort(self, error: Exception) -> None:
        """Fail every job, waiting or running, and start afresh."""
        running = [s.job for lane in self.lanes for s in lane.running]
        for job in {id(job): job for job in [*self.waiting, *running]}.values():
            fail(job, error)
        self.waiting.clear()
        self._prompts.clear()
        for lane in self.lanes:
            lane.reset()

    # Admission -------------------------------------------------------------------------------------------------------

    def _admit(self) -> None:
        ready: list[tuple[SampleJob, Prompt]] = []
        coming = 0
        while self.waiting:
            job = self.waiting[0]
            if job.cancelled:
                self.waiting.popleft()
                continue
            rows = self.rows + coming + len(job.keys)
            lengths = (len(j.prompt) + j.params.max_tokens for j in (job, *(j for j, _ in ready)))
            length = max(*lengths, *(lane.length for lane in self.lanes), 0)
            if self.rows + coming and (rows > self.max_rows or rows * length > self.max_cells):
                break
            self.waiting.popleft()
            try:
                ready.append((job, self._prepare(job)))
            except Exception as error:  # one bad job must not take the others with it
                fail(job, error)
                continue
            coming += len(job.keys)
            if coming >= self._table_rows:
                self._start(ready)
                ready, coming = [], 0
        if ready:
            self._start(ready)

    def _prepare(self, job: SampleJob) -> Prompt:
        """All that a job needs before its first tokens are chosen."""
        prompt = self._prompt(job)
        if job.prompt_logprobs or job.topk_prompt:
            self._score_prompt(job, prompt)
        job.sequences = [Sequence(job, UniformStream(key)) for key in job.keys]
        return prompt

    def _start(self, ready: list[tuple[SampleJob, Prompt]]) -> None:
        """Choose the first tokens of all `ready` jobs at once, then hand their sequences to the lanes."""
        try:
            for job, _ in ready:
                if job.params.max_tokens == 0:
                    for sequence in job.sequences:
                        sequence.stop_reason = "length"
            first = [(s, prompt.logits) for job, prompt in ready for s in job.sequences if s.stop_reason is None]
            if first:
                self.lanes[0].choose([s for s, _ in first], torch.cat([logits for _, logits in first]))
            for job, prompt in ready:
                self._join(job, prompt)
        except Exception as error:
            for job, _ in ready:
                fail(job, error)
            return
        report([s for job, _ in ready for s in job.sequences if s.stop_reason])

    def _join(self, job: SampleJob, prompt: Prompt) -> None:
        shares: list[list[Sequence]] = [[] for _ in self.lanes]
        for sequence in job.sequences:
            if sequence.stop_reason is None:
                # Fill a lane's padded batch before using the next lane.
                loads = [padded(len(lane.running) + len(s) + 1) for lane, s in zip(self.lanes, shares, strict=True)]
                shares[loads.index(min(loads))].append(sequence)
        for lane, share in zip(self.lanes, shares, strict=True):
            if share:
                lane.join(share, prompt)

    def _prompt(self, job: SampleJob) -> Prompt:
        """The job's computed prompt.

        On the CPU it is computed alone, so that it depends on nothing else (see `PrefixCache`). On a GPU, where a small
        batch leaves most of the machine idle, it is computed together with the prompts that wait behind it.
        """
        key = prompt_key(job)
        if key not in self._prompts and self._chunks is not None:
            self._chunked(key, job)
        elif key not in self._prompts:
            wanted = {key: job.prompt}
            if self.decoder.device.type == "cuda":
                room = PREFILL_TOKENS - len(job.prompt)
                for other in self.waiting:
                    room -= len(other.prompt)
                    if room < 0:
                        break
                    if prompt_key(other)[0] == key[0] and prompt_key(other) not in self._prompts:
                        wanted[prompt_key(other)] = other.prompt
            stack = self.stack([job.adapter]) if job.adapter is not None else None
            lora = stack.bind([0]) if stack is not None else no_lora
            computed = self.lanes[0].prompts(list(wanted.values()), job.adapter, stack)
            logits = self.decoder.logits(torch.stack([hidden[-1] for _, hidden in computed]), lora).split(1)
            for name, (kept, hidden), last in zip(wanted, computed, logits, strict=True):
                self._prompts[name] = Prompt(kept, last, hidden, lora)
        self._prompts.move_to_end(key)
        limit = PROMPT_CACHE_TOKENS * (8 if self.decoder.device.type == "cuda" else 1)
        while len(self._prompts) > 1 and sum(len(k[1]) for k in self._prompts) > limit:
            self._prompts.popitem(last=False)
        return self._prompts[key]

    def _chunked(self, key: tuple[str, tuple[int, ...]], job: SampleJob) -> None:
        """Compute the job's prompt, and side by side as many that wait behind it as there are lanes."""
        assert self._chunks is not None
        wanted = {key: job}
        for other in self.waiting:
            if len(wanted) == len(self.lanes):
                break
            if prompt_key(other) not in self._prompts:
                wanted.setdefault(prompt_key(other), other)
        loras = [self.stack([j.adapter]).bind([0]) if j.adapter is not None else no_lora for j in wanted.values()]
        compute = self._chunks.prompt
        found = (self.map if len(wanted) > 1 else map)(
            lambda pair: compute(*pair), list(zip(wanted, loras, strict=True))
        )
        for name, lora, (kept, hidden) in zip(wanted, loras, list(found), strict=True):
            self._prompts[name] = Prompt(kept, self.decoder.logits(hidden[-1:], lora), hidden, lora)
        self._chunks.trim()

    def _score_prompt(self, job: SampleJob, prompt: Prompt) -> None:
        """Log-probabilities of prompt tokens 1.. given what precedes them; position 0 has none (NaN)."""
        count = len(job.prompt)
        logps = np.full(count, np.nan, dtype=np.float32)
        width = job.topk_prompt
        ids, tops = np.zeros((count, width), np.int32), np.full((count, width), -99999.0, np.float32)
        lora = self.stack([job.adapter]).bind([0]) if job.adapter is not None else no_lora
        rows = self._table_rows
        begin = 0 if job.prompt_last is None else max(0, count - 1 - job.prompt_last)
        for start in range(begin, count - 1, rows):
            stop = min(start + rows, count - 1)
            table = torch.log_softmax(self.decoder.logits(prompt.hidden[start:stop], lora), dim=-1)
            targets = torch.tensor(job.prompt[start + 1 : stop + 1], device=table.device).unsqueeze(1)
            logps[start + 1 : stop + 1] = table.gather(1, targets).squeeze(1).cpu().numpy()
            if width:
                values, indices = table.topk(width, dim=-1)
                ids[start + 1 : stop + 1], tops[start + 1 : stop + 1] = indices.cpu().numpy(), values.cpu().numpy()
        job.prompt_logps = logps if job.prompt_logprobs else None
        job.prompt_topk = (ids, tops) if width else None

    # Adapters --------------------------------------------------------------------------------------------------------

    def _bind(self, lane: Any) -> Lora:
        adapters: dict[str, Adapter] = {}
        for sequence in lane.running:
            if sequence.job.adapter is not None:
                adapters.setdefault(sequence.job.adapter.digest, sequence.job.adapter)
        if not adapters:
            return no_lora
        order = sorted(adapters)
        index = {digest: i for i, digest in enumerate(order)}
        owners = [index[s.job.adapter.digest] if s.job.adapter else -1 for s in lane.running]
        # Idle rows may run any adapter; sharing the first keeps the unmasked path for single-adapter batches.
        owners += [0] * (padded(len(owners)) - len(owners))
        lane.stack = self.stack([adapters[digest] for digest in order])
        return lane.stack.bind(owners)

    def stack(self, adapters: list[Adapter]) -> AdapterStack:
        key = tuple(a.digest for a in adapters)
        stack = self._stacks.get(key)
        if stack is None:
            stack = AdapterStack(
                [a.layout for a in adapters], [a.flat for a in adapters], self.decoder.device, self.decoder.dtype
            )
            self._stacks[key] = stack
            while len(self._stacks) > 8:
                self._stacks.popitem(last=False)
        self._stacks.move_to_end(key)
        return stack


def fail(job: SampleJob, error: Exception) -> None:
    """Hand back a job that cannot be carried out; sequences of it that already run leave with the next step."""
    job.cancelled = True
    job.done(job, error)


def report(finished: list[Sequence]) -> None:
    """Hand back the jobs of `finished` whose sequences have all ended."""
    for job in {id(s.job): s.job for s in finished}.values():
        if all(s.stop_reason is not None for s in job.sequences) and not job.cancelled:
            job.done(job, None)


def prompt_key(job: SampleJob) -> tuple[str, tuple[int, ...]]:
    return (job.adapter.digest if job.adapter else "", tuple(job.prompt))


def padded(rows: int) -> int:
    """Rows of a decode batch, rounded up so that the matrix kernels treat every row alike."""
    return -(-rows // ROW_STEP) * ROW_STEP


def choose(table: Tensor, params: list[SampleParams], streams: list[UniformStream]) -> Tensor:
    """Tokens [rows] from log-probabilities [rows, vocabulary].

    Temperature 0 takes the largest. Otherwise the inverse of the cumulative distribution at the row's uniform, which
    moves only if the uniform lies within rounding of a boundary.
    """
    if all(p.temperature == 0 for p in params):
        return table.argmax(dim=-1)
    uniforms = torch.tensor(
        [0.0 if p.temperature == 0 else s.draw() for p, s in zip(params, streams, strict=True)],
        device=table.device,
        dtype=torch.float64,
    )
    scores = table
    if any(p.temperature not in (0, 1) for p in params):
        heat = torch.tensor([p.temperature or 1.0 for p in params], device=table.device, dtype=table.dtype).unsqueeze(1)
        # A row at temperature 1 keeps its exact values, whoever shares the batch.
        scores = torch.where(heat == 1, table, torch.log_softmax(table / heat, dim=-1))
    limited = [0 < p.top_k < table.shape[1] or p.top_p < 1 for p in params]
    if any(limited):
        rows = torch.tensor(limited, device=table.device).unsqueeze(1)
        scores = torch.where(rows, restrict(scores, params), scores)
    cumulative = scores.exp().double().cumsum(dim=-1)
    wanted = (uniforms * cumulative[:, -1]).unsqueeze(1)
    chosen = torch.searchsorted(cumulative, wanted, right=True).squeeze(1).clamp_(max=table.shape[1] - 1)
    if any(p.temperature == 0 for p in params):
        greedy = torch.tensor([p.temperature == 0 for p in params], device=table.device)
        chosen = torch.where(greedy, table.argmax(dim=-1), chosen)
    return chosen


def restrict(scores: Tensor, params: list[SampleParams]) -> Tensor:
    """Keep each row's top_k tokens, then the smallest set of them whose probability reaches top_p."""
    ordered, indices = scores.sort(dim=-1, descending=True, stable=True)
    vocabulary = scores.shape[1]
    ranks = torch.arange(vocabulary, device=scores.device).unsqueeze(0)
    k = torch.tensor([p.top_k if 0 < p.top_k < vocabulary else vocabulary for p in params], device=scores.device)
    ordered = ordered.masked_fill(ranks >= k.unsqueeze(1), float("-inf"))
    mass = torch.softmax(ordered, dim=-1)
    before = mass.cumsum(dim=-1) - mass
    p = torch.tensor([q.top_p for q in params], device=scores.device).unsqueeze(1)
    ordered = ordered.masked_fill((before >= p) & (ranks > 0), float("-inf"))
    return torch.empty_like(scores).scatter_(1, indices, ordered)
