"""Any other causal language model, through transformers: the same interface as `decoder.Decoder`, less speed.

Adapters act on every linear layer of the decoder blocks through forward hooks. Training pads to the longest sequence
of a micro-batch; each sampling request decodes as a batch of its own with transformers' cache, so recurrent and hybrid
architectures work too, and results do not depend on what else is running.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selfgen.embedded.config import read_json
from selfgen.embedded.errors import RequestError
from selfgen.embedded.lora import Lora, LoraSpec, Place, no_lora
from selfgen.embedded.packing import Packing

MLP_NAMES = ("mlp", "feed_forward", "ffn", "experts", "moe", "fc")


@dataclass(frozen=True)
class GenericConfig:
    """What the server must know of a model before it is loaded."""

    family: str
    vocab_size: int
    context: int

    @classmethod
    def read(cls, folder: Path) -> GenericConfig:
        raw = read_json(folder / "config.json")
        text = {**raw, **(raw.get("text_config") or {})}
        context = text.get("max_position_embeddings") or text.get("n_positions") or text.get("n_ctx") or 2048
        if "vocab_size" not in text:
            raise RequestError(f"{folder / 'config.json'}: no vocab_size; not a causal language model?")
        return cls(str(raw.get("model_type", "unknown")), int(text["vocab_size"]), int(context))


class GenericDecoder:
    """A transformers model with frozen weights and hooks for one adapter at a time per thread."""

    def __init__(self, model: Any, config: GenericConfig, device: torch.device, dtype: torch.dtype):
        self.model = model
        self.config = config
        self.device = device
        self.dtype = dtype
        self._current = threading.local()
        self._linears: dict[str, tuple[int, int]] = {}
        head = model.get_output_embeddings()
        for name, module in model.named_modules():
            shape = linear_shape(module)
            if shape is None:
                continue
            inside = any(part.isdigit() for part in name.split("."))
            if module is head or inside:
                self._linears["lm_head" if module is head else name] = shape
                module.register_forward_hook(self._hook("lm_head" if module is head else name))
        text = model.config.get_text_config()
        self._softcap = getattr(text, "final_logit_softcapping", None)
        self._scale = getattr(text, "logit_scale", None) or 1.0 / (getattr(text, "logits_scaling", None) or 1.0)

    @classmethod
    def load(cls, folder: Path, device: torch.device, dtype: torch.dtype) -> GenericDecoder:
        from transformers import AutoModelForCausalLM

        config = GenericConfig.read(folder)
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
            model = model.to(device).eval().requires_grad_(False)
        except (ValueError, OSError, KeyError) as error:
            reason = (str(error).splitlines() or [""])[0][:160]
            raise RequestError(f"transformers cannot load {folder} ({config.family}): {reason}") from None
        return cls(model, config, device, dtype)

    def places(self, spec: LoraSpec) -> list[Place]:
        """One place per linear layer; a layer is MLP or attention by its name."""
        chosen: list[Place] = []
        for name, (inputs, outputs) in self._linears.items():
            if name == "lm_head":
                wanted = spec.unembed
            else:
                wanted = spec.mlp if any(part in MLP_NAMES for part in name.split(".")) else spec.attn
            if wanted:
                chosen.append((name, 0, inputs, ((name, outputs),)))
        return chosen

    def _hook(self, name: str) -> Any:
        def hook(_: Any, inputs: tuple, output: Tensor) -> Tensor:
            lora: Lora = getattr(self._current, "lora", no_lora)
            if lora is no_lora:
                return output
            flat = lora(name, 0, inputs[0].flatten(0, -2), output.flatten(0, -2))
            return flat.view(output.shape)

        return hook

    @contextlib.contextmanager
    def _using(self, lora: Lora) -> Iterator[None]:
        self._current.lora = lora
        try:
            yield
        finally:
            self._current.lora = no_lora

    def states(self, packing: Packing, lora: Lora) -> Tensor:
        """Final hidden states of a training micro-batch, [rows, hidden]."""
        whole = torch.from_numpy(packing.tokens[packing.index]).to(self.device).split(list(packing.lengths))
        padded = torch.nn.utils.rnn.pad_sequence(list(whole), batch_first=True)
        lengths = torch.tensor(packing.lengths, device=self.device).unsqueeze(1)
        mask = torch.arange(padded.shape[1], device=self.device) < lengths
        with self._using(lora):
            hidden = self.model.base_model(
                input_ids=padded, attention_mask=mask.long(), use_cache=False
            ).last_hidden_state
        return hidden[mask][torch.from_numpy(packing.first).to(self.device)]

    def prompts(self, sequences: list[list[int]], lora: Lora) -> list[tuple[Any, Tensor]]:
        """Prompts, each computed alone: transformers' cache, and the hidden states [tokens, hidden]."""
        results = []
        for tokens in sequences:
            with self._using(lora):
                output = self.model.base_model(input_ids=torch.tensor([tokens], device=self.device), use_cache=True)
            results.append((output.past_key_values, output.last_hidden_state[0]))
        return results

    def step(self, tokens: Tensor, position: int, cache: Any, lora: Lora) -> Tensor:
        """Logits [rows, vocabulary] after one more token per row, all at the same position."""
        places = torch.full((1, 1), position, device=self.device)
        with self._using(lora):
            output = self.model.base_model(
                input_ids=tokens.unsqueeze(1), past_key_values=cache, position_ids=places, use_cache=True
            )
        return self.logits(output.last_hidden_state[:, 0], lora)

    def logits(self, hidden: Tensor, lora: Lora = no_lora) -> Tensor:
        """Float32 logits [tokens, vocabulary], with the model's own scaling and soft cap."""
        with self._using(lora):
            scores = self.model.get_output_embeddings()(hidden).float() * self._scale
        return scores if self._softcap is None else self._softcap * torch.tanh(scores / self._softcap)


def linear_shape(module: Any) -> tuple[int, int] | None:
    """(inputs, outputs) of a linear layer, GPT-2's transposed kind included; None for anything else."""
    if isinstance(module, torch.nn.Linear):
        return module.in_features, module.out_features
    if type(module).__name__ == "Conv1D" and hasattr(module, "nf"):
        return module.weight.shape[0], module.nf
    return None


def spread(cache: Any, rows: int) -> Any:
    """A copy of a one-row cache for `rows` rows."""
    return select(copy.deepcopy(cache), torch.zeros(rows, dtype=torch.long))


def select(cache: Any, rows: Tensor) -> Any:
    """Keep (or repeat) these rows of a cache, in place. Hybrid caches know only `reorder_cache`."""
    cache.reorder_cache(rows)
    return cache
