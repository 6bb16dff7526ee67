"""Where sequences decode: `Lane` on the packed decoder with a slotted cache, `GenericLane` on a transformers model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from selfgen.embedded.attention import SlotAttention, SlotCache
from selfgen.embedded.decoder import Decoder
from selfgen.embedded.generic import GenericDecoder, select, spread
from selfgen.embedded.lora import AdapterStack, Lora, no_lora
from selfgen.embedded.sampler import Adapter, Prompt, Sequence, choose, padded

DecodeText = Callable[[list[int]], str]


class BaseLane:
    """Running sequences, and how a token is chosen for them."""

    decoder: Any

    def __init__(self, decode_text: DecodeText):
        self.decode_text = decode_text
        self.running: list[Sequence] = []
        self.lora: Lora = no_lora
        self.stack: AdapterStack | None = None  # what `lora` is bound to
        self.length = 0

    def reset(self) -> None:
        """Forget every sequence."""
        self.running = []
        self.release()

    def release(self) -> None:
        """Give back what is kept between batches."""

    def prompts(
        self, sequences: list[list[int]], adapter: Adapter | None, stack: AdapterStack | None
    ) -> list[tuple[Any, Tensor]]:
        """Prompts computed together under one adapter: for each what is kept of it, and hidden states."""
        return self.decoder.prompts(sequences, stack.bind([0]) if stack is not None else no_lora)

    def choose(self, sequences: list[Sequence], logits: Tensor) -> None:
        """Append one token to each sequence from logits [sequences, vocabulary], and mark those that have ended."""
        table = torch.log_softmax(logits, dim=-1)
        chosen = choose(table, [s.job.params for s in sequences], [s.stream for s in sequences])
        logps = table.gather(1, chosen.unsqueeze(1)).squeeze(1).tolist()
        width = max(s.job.topk_sample for s in sequences)
        tops = table.topk(width, dim=-1) if width else None
        for row, (sequence, token, logp) in enumerate(zip(sequences, chosen.tolist(), logps, strict=True)):
            if tops is not None and sequence.job.topk_sample:
                k = sequence.job.topk_sample
                sequence.topk.append((tops.indices[row, :k].tolist(), tops.values[row, :k].tolist()))
            self.accept(sequence, token, logp)

    def accept(self, sequence: Sequence, token: int, logp: float) -> None:
        """Append a token; mark the sequence when that ends it."""
        sequence.tokens.append(token)
        sequence.logps.append(logp)
        params = sequence.job.params
        if token in params.stop_tokens or (params.stop_strings and self._hit_string(sequence)):
            sequence.stop_reason = "stop"
        elif len(sequence.tokens) >= params.max_tokens:
            sequence.stop_reason = "length"

    def _hit_string(self, sequence: Sequence) -> bool:
        strings = sequence.job.params.stop_strings
        tail = sequence.tokens[-(max(len(s.encode()) for s in strings) + 8) :]
        text = self.decode_text(tail)
        return any(s in text for s in strings)


class Lane(BaseLane):
    """A share of the running sequences with a cache of their own, decoded together; lanes may run in parallel."""

    def __init__(self, decoder: Decoder, decode_text: DecodeText):
        super().__init__(decode_text)
        self.decoder: Decoder = decoder
        self.cache = SlotCache(decoder.config, decoder.device, decoder.dtype)

    def join(self, sequences: list[Sequence], prompt: Prompt) -> None:
        """Take in sequences whose prompt has been computed and whose first token is chosen."""
        count = len(self.running) + len(sequences)
        # Only as long as needed now: the cache grows with the sequences.
        length = max(s.position for s in (*self.running, *sequences)) + 1
        self.cache.reserve(padded(count), length)
        self.cache.fill(len(self.running), count, prompt.kept)
        self.running += sequences

    def make_room(self, rows: int, length: int) -> None:
        """Fit the cache to the coming step."""
        self.cache.reserve(rows, length)
        self.length = self.cache.length

    @torch.inference_mode()
    def decode(self) -> list[Sequence]:
        """One token for every running sequence; returns those that have ended, which leave."""
        idle = padded(len(self.running)) - len(self.running)
        positions = [s.position for s in self.running]
        self.make_room(len(self.running) + idle, max(positions) + 1)
        device = self.decoder.device
        tokens = torch.tensor([s.tokens[-1] for s in self.running] + [0] * idle, device=device)
        places = torch.tensor(positions + [0] * idle, device=device)
        attend = SlotAttention(self.cache, places)
        hidden = self.decoder.forward(tokens, self.decoder.rope(places), attend, self.lora)
        logits = self.decoder.logits(hidden, self.lora)[: len(self.running)]
        self.choose(self.running, logits)
        finished = [s for s in self.running if s.stop_reason is not None or s.job.cancelled]
        if finished:
            self._leave()
        return finished

    def _leave(self) -> None:
        """Close the gaps that finished sequences leave, so that slots 0..n-1 are the running ones."""
        keep = [s.stop_reason is None and not s.job.cancelled for s in self.running]
        count = sum(keep)
        holes = [i for i in range(count) if not keep[i]]
        movers = [i for i in range(count, len(keep)) if keep[i]]
        for hole, mover in zip(holes, movers, strict=True):
            self.cache.move(mover, hole, self.running[mover].position)
            self.running[hole] = self.running[mover]
        del self.running[count:]

    def release(self) -> None:
        """Give the cache's memory back."""
        self.cache.release()
        self.length = 0


@dataclass
class Batch:
    """The samples of one prompt under one adapter, which decode in step. `cache` is None until the first step."""

    prompt: Prompt
    sequences: list[Sequence]
    lora: Lora
    cache: Any = None


class GenericLane(BaseLane):
    """A batch per prompt, each with transformers' own cache."""

    def __init__(self, decoder: GenericDecoder, decode_text: DecodeText):
        super().__init__(decode_text)
        self.decoder: GenericDecoder = decoder
        self.batches: list[Batch] = []

    def join(self, sequences: list[Sequence], prompt: Prompt) -> None:
        """Take in sequences whose prompt has been computed and whose first token is chosen."""
        self.running += sequences
        last = self.batches[-1] if self.batches else None
        if last is not None and last.prompt is prompt and last.cache is None:
            last.sequences += sequences
        else:
            self.batches.append(Batch(prompt, list(sequences), prompt.lora))

    @torch.inference_mode()
    def decode(self) -> list[Sequence]:
        """One token for every running sequence; returns those that have ended, which leave."""
        finished: list[Sequence] = []
        for batch in self.batches:
            if batch.cache is None:
                batch.cache = spread(batch.prompt.kept, len(batch.sequences))
            tokens = torch.tensor([s.tokens[-1] for s in batch.sequences], device=self.decoder.device)
            logits = self.decoder.step(tokens, batch.sequences[0].position, batch.cache, batch.lora)
            self.choose(batch.sequences, logits)
            keep = [s.stop_reason is None and not s.job.cancelled for s in batch.sequences]
            if not all(keep):
                finished += [s for s, stays in zip(batch.sequences, keep, strict=True) if not stays]
                batch.sequences = [s for s, stays in zip(batch.sequences, keep, strict=True) if stays]
                if batch.sequences:
                    select(batch.cache, torch.tensor(keep, device=self.decoder.device).nonzero().squeeze(1))
        self.batches = [batch for batch in self.batches if batch.sequences]
        self.running = [s for batch in self.batches for s in batch.sequences]
        return finished

    def reset(self) -> None:
        """Forget every sequence."""
        super().reset()
        self.batches = []
