"""Reading a Hugging Face model folder: its architecture, weights and end tokens, without importing transformers.

The import alone costs seconds, and a pipeline starts this server once per stage. `DecoderConfig.read` describes the
Llama family (Llama, Mistral, Qwen2, Qwen3); anything else raises `Unsupported` and is served through transformers.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfgen.embedded.errors import RequestError

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
WHOLE_HASH_LIMIT = 64 << 20


class Unsupported(Exception):
    """An architecture, or a variant of one, that `decoder.py` does not implement."""


@dataclass(frozen=True)
class DecoderConfig:
    """Shapes of a Llama-family decoder. `rope` holds the scaling parameters of rope type "llama3" or "linear"."""

    family: str
    vocab_size: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    eps: float
    rope_theta: float
    rope: dict[str, Any] | None
    qk_norm: bool
    tied: bool
    context: int

    @classmethod
    def read(cls, folder: Path) -> DecoderConfig:
        """Parse `config.json`.

        Raises:
            Unsupported: another architecture, a sliding window, or a rope type beyond default, linear and llama3.
        """
        raw = read_json(folder / "config.json")
        family = raw.get("model_type", "")
        if family not in FAMILIES:
            raise Unsupported(f"model type {family!r}")
        if raw.get("hidden_act", "silu") != "silu":
            raise Unsupported(f"activation {raw['hidden_act']!r}")
        context = int(raw.get("max_position_embeddings", 2048))
        window = raw.get("sliding_window")
        windowed = family == "mistral" or raw.get("use_sliding_window", False)
        if windowed and window is not None and window < context:
            raise Unsupported("sliding window attention")
        if any(kind != "full_attention" for kind in raw.get("layer_types") or []):
            raise Unsupported("mixed layer types")
        rope = dict(raw.get("rope_parameters") or raw.get("rope_scaling") or {})
        rope_type = rope.get("rope_type", rope.get("type", "default"))
        if rope_type not in ("default", "linear", "llama3"):
            raise Unsupported(f"rope type {rope_type!r}")
        theta = float(rope.get("rope_theta", raw.get("rope_theta", 10000.0)))
        heads = int(raw["num_attention_heads"])
        hidden = int(raw["hidden_size"])
        return cls(
            family=family,
            vocab_size=int(raw["vocab_size"]),
            hidden=hidden,
            layers=int(raw["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(raw.get("num_key_value_heads") or heads),
            head_dim=int(raw.get("head_dim") or hidden // heads),
            intermediate=int(raw["intermediate_size"]),
            eps=float(raw.get("rms_norm_eps", 1e-6)),
            rope_theta=theta,
            rope=None if rope_type == "default" else {**rope, "rope_type": rope_type},
            qk_norm=family == "qwen3",
            tied=bool(raw.get("tie_word_embeddings", False)),
            context=context,
        )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a model folder, or a one-line error."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RequestError(f"{path.parent}: no {path.name}; give a Hugging Face model folder or id", 404) from None
    except ValueError as error:
        raise RequestError(f"{path}: not JSON ({error})", 400) from None


def end_tokens(folder: Path) -> frozenset[int]:
    """The ids that end a sequence: generation_config.json's, else config.json's."""
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        if path.exists():
            value = read_json(path).get("eos_token_id")
            if value is not None:
                return frozenset(value if isinstance(value, list) else [value])
    return frozenset()


def weight_files(folder: Path) -> list[Path]:
    """The safetensors shards of a model folder, in name order."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise RequestError(f"{folder}: no *.safetensors weights", 404)
    return files


def content_digest(folder: Path) -> str:
    """sha256 that identifies the base model: its config and its weights.

    Shards over 64 MiB count by size and by their first and last MiB (the first holds names, shapes and offsets).
    """
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for path in sorted([*folder.glob("*.safetensors")]):
        size = path.stat().st_size
        digest.update(f"{path.name}:{size};".encode())
        with path.open("rb") as file:
            if size <= WHOLE_HASH_LIMIT:
                digest.update(file.read())
            else:
                digest.update(file.read(1 << 20))
                file.seek(-(1 << 20), 2)
                digest.update(file.read())
    return digest.hexdigest()
