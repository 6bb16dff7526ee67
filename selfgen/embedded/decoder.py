"""A Llama-family decoder (Llama, Mistral, Qwen2, Qwen3) on packed tokens, written for this server's two uses.

Everything but attention works on one row per token, [tokens, hidden], so sequences of different length cost no padding:
training packs whole sequences, prefill runs one prompt, decoding runs one token of many sequences. Attention and LoRA
are passed in, because they are what differs between these uses. Agreement with transformers is tested to 1e-5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from selfgen.embedded.attention import ChunkCausal, PackedCausal
from selfgen.embedded.config import DecoderConfig, weight_files
from selfgen.embedded.errors import RequestError
from selfgen.embedded.lora import Lora, LoraSpec, Place, no_lora
from selfgen.embedded.packing import Packing

# attend(layer index, q [tokens, heads, dim], k and v [tokens, kv heads, dim]) -> [tokens, heads * dim]
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]

ROPE_LIMIT = 1 << 17  # positions tabulated at most

# The places an adapter can change. Fused projections are one matrix here and separate modules in the checkpoint format.
SITES = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "o": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
    "unembed": ("lm_head",),
}


@dataclass
class Layer:
    """One block's weights, fused where they share an input."""

    qkv: Tensor
    qkv_bias: Tensor | None
    o: Tensor
    o_bias: Tensor | None
    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None
    input_norm: Tensor
    post_norm: Tensor
    q_norm: Tensor | None
    k_norm: Tensor | None


class Decoder:
    """Frozen base weights and the forward pass. Shapes and dtype are those of `config` and `dtype`."""

    def __init__(self, config: DecoderConfig, weights: dict[str, Tensor], device: torch.device, dtype: torch.dtype):
        self.config = config
        self.device = device
        self.dtype = dtype

        def take(name: str) -> Tensor:
            if name not in weights:
                raise RequestError(f"weights lack {name!r}; is the folder a complete {config.family} model?", 400)
            return weights[name].to(device=device, dtype=dtype)

        def maybe(name: str) -> Tensor | None:
            return take(name) if name in weights else None

        def fuse(prefix: str, names: tuple[str, ...]) -> tuple[Tensor, Tensor | None]:
            biases = [maybe(f"{prefix}.{name}.bias") for name in names]
            bias = None if any(b is None for b in biases) else torch.cat([b for b in biases if b is not None])
            return torch.cat([take(f"{prefix}.{name}.weight") for name in names]), bias

        self.embed = take("model.embed_tokens.weight")
        self.final_norm = take("model.norm.weight")
        self.unembed = self.embed if config.tied or "lm_head.weight" not in weights else take("lm_head.weight")
        self.layers: list[Layer] = []
        for index in range(config.layers):
            prefix = f"model.layers.{index}"
            qkv, qkv_bias = fuse(prefix, SITES["qkv"])
            o, o_bias = fuse(prefix, SITES["o"])
            gate_up, gate_up_bias = fuse(prefix, SITES["gate_up"])
            down, down_bias = fuse(prefix, SITES["down"])
            self.layers.append(
                Layer(
                    qkv=qkv,
                    qkv_bias=qkv_bias,
                    o=o,
                    o_bias=o_bias,
                    gate_up=gate_up,
                    gate_up_bias=gate_up_bias,
                    down=down,
                    down_bias=down_bias,
                    input_norm=take(f"{prefix}.input_layernorm.weight"),
                    post_norm=take(f"{prefix}.post_attention_layernorm.weight"),
                    q_norm=maybe(f"{prefix}.self_attn.q_norm.weight") if config.qk_norm else None,
                    k_norm=maybe(f"{prefix}.self_attn.k_norm.weight") if config.qk_norm else None,
                )
            )
        length = min(config.context, ROPE_LIMIT)
        angles = torch.arange(length, dtype=torch.float32).outer(rope_frequencies(config))
        angles = torch.cat([angles, angles], dim=-1).unsqueeze(1).to(device)
        self._cos, self._sin = angles.cos().to(dtype), angles.sin().to(dtype)

    @classmethod
    def load(cls, folder: Path, device: torch.device, dtype: torch.dtype) -> Decoder:
        """Read a model folder's safetensors shards."""
        from safetensors.torch import load_file

        config = DecoderConfig.read(folder)
        weights: dict[str, Tensor] = {}
        for path in weight_files(folder):
            weights.update(load_file(path))
        return cls(config, weights, device, dtype)

    def places(self, spec: LoraSpec) -> list[Place]:
        """Where an adapter acts, for LoRA layouts."""
        config = self.config
        q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
        shapes: dict[str, tuple[int, list[int]]] = {}
        if spec.attn:
            shapes |= {"qkv": (config.hidden, [q, kv, kv]), "o": (q, [config.hidden])}
        if spec.mlp:
            wide = config.intermediate
            shapes |= {"gate_up": (config.hidden, [wide, wide]), "down": (wide, [config.hidden])}
        places: list[Place] = []
        for site, (inputs, outputs) in shapes.items():
            for layer in range(config.layers):
                names = [f"model.layers.{layer}.{name}" for name in SITES[site]]
                places.append((site, layer, inputs, tuple(zip(names, outputs, strict=True))))
        if spec.unembed:
            places.append(("unembed", 0, config.hidden, (("lm_head", config.vocab_size),)))
        return places

    def states(self, packing: Packing, lora: Lora) -> Tensor:
        """Final hidden states of a training micro-batch, [rows, hidden]."""
        index = torch.from_numpy(packing.index).to(self.device) if packing.shares else None
        first = torch.from_numpy(packing.first).to(self.device) if packing.shares else None
        attend = PackedCausal(self.config, packing.lengths, index=index, first=first)
        positions = torch.from_numpy(packing.positions).to(self.device)
        return self.forward(torch.from_numpy(packing.tokens).to(self.device), self.rope(positions), attend, lora)

    def prompts(self, sequences: list[list[int]], lora: Lora) -> list[tuple[Tensor, Tensor]]:
        """Prompts computed together: for each, k and v [2 * layers, tokens, kv heads, dim] and hidden states."""
        lengths = [len(tokens) for tokens in sequences]
        attend = PackedCausal(self.config, lengths, keep=True)
        positions = torch.cat([torch.arange(n, device=self.device) for n in lengths])
        tokens = torch.tensor([t for sequence in sequences for t in sequence], device=self.device)
        hidden = self.forward(tokens, self.rope(positions), attend, lora)
        assert attend.kept is not None
        kept = torch.stack([tensor for pair in attend.kept for tensor in pair])
        return list(zip(kept.split(lengths, dim=1), hidden.split(lengths), strict=True))

    def extend(self, tokens: list[int], past: Tensor, lora: Lora) -> tuple[Tensor, Tensor]:
        """The next tokens of one sequence after `past` [2 * layers, tokens, kv heads, dim]: their own, and hidden states."""
        start = past.shape[1]
        attend = ChunkCausal(self.config, past, len(tokens))
        positions = torch.arange(start, start + len(tokens), device=self.device)
        hidden = self.forward(torch.tensor(tokens, device=self.device), self.rope(positions), attend, lora)
        return torch.stack(attend.kept), hidden

    def nothing(self) -> Tensor:
        """The `past` of a sequence's first chunk."""
        config = self.config
        shape = (2 * config.layers, 0, config.kv_heads, config.head_dim)
        return torch.empty(shape, device=self.device, dtype=self.dtype)

    def rope(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin for token positions [tokens], each [tokens, 1, head_dim]."""
        return self._cos[positions], self._sin[positions]

    def forward(self, tokens: Tensor, rope: tuple[Tensor, Tensor], attend: Attend, lora: Lora = no_lora) -> Tensor:
        """Final hidden states [tokens, hidden], after the last norm."""
        config = self.config
        heads, kv_heads, dim = config.heads, config.kv_heads, config.head_dim
        cos, sin = rope
        x = F.embedding(tokens, self.embed)
        for index, layer in enumerate(self.layers):
            h = F.rms_norm(x, (config.hidden,), layer.input_norm, config.eps)
            qkv = lora("qkv", index, h, F.linear(h, layer.qkv, layer.qkv_bias))
            qkv = qkv.view(-1, heads + 2 * kv_heads, dim)
            if layer.q_norm is not None:
                q = F.rms_norm(qkv[:, :heads], (dim,), layer.q_norm, config.eps)
                k = F.rms_norm(qkv[:, heads : heads + kv_heads], (dim,), layer.k_norm, config.eps)
                q, k = rotate(q, cos, sin), rotate(k, cos, sin)
            else:
                qk = rotate(qkv[:, : heads + kv_heads], cos, sin)
                q, k = qk[:, :heads], qk[:, heads:]
            attended = attend(index, q, k, qkv[:, heads + kv_heads :])
            x = x + lora("o", index, attended, F.linear(attended, layer.o, layer.o_bias))
            h = F.rms_norm(x, (config.hidden,), layer.post_norm, config.eps)
            gate, up = lora("gate_up", index, h, F.linear(h, layer.gate_up, layer.gate_up_bias)).chunk(2, dim=-1)
            h = F.silu(gate) * up
            x = x + lora("down", index, h, F.linear(h, layer.down, layer.down_bias))
        return F.rms_norm(x, (config.hidden,), self.final_norm, config.eps)

    def logits(self, hidden: Tensor, lora: Lora = no_lora) -> Tensor:
        """Float32 logits [tokens, vocabulary] of hidden states [tokens, hidden]."""
        return lora("unembed", 0, hidden, F.linear(hidden, self.unembed)).float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding in the half-split layout of Hugging Face checkpoints; x is [tokens, heads, dim]."""
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return torch.addcmul(x * cos, turned, sin)


def rope_frequencies(config: DecoderConfig) -> Tensor:
    """Inverse frequencies [head_dim / 2], with linear or Llama 3 scaling (Llama 3.1 release, `rope_type: llama3`)."""
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    frequency = 1.0 / (config.rope_theta**exponent)
    if config.rope is None:
        return frequency
    factor = float(config.rope["factor"])
    if config.rope["rope_type"] == "linear":
        return frequency / factor
    low, high = float(config.rope["low_freq_factor"]), float(config.rope["high_freq_factor"])
    original = float(config.rope["original_max_position_embeddings"])
    wavelength = 2 * math.pi / frequency
    smooth = ((original / wavelength - low) / (high - low)).clamp(0.0, 1.0)
    return frequency / factor * (1 - smooth) + frequency * smooth
