"""A GGUF file of the Qwen2 family as a Hugging Face model folder: bf16 safetensors, config, tokenizer.

    python tools/from_gguf.py model-q4_k_m.gguf models/my-model        needs the package gguf

Quantised tensors become what llama.cpp computes with (`gguf.quants.dequantize`). Where a file holds the embedding
twice, as input (coarse) and as output (finer), both ends of the tied model get the finer one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP = {"output_norm.weight": "model.norm.weight", "output.weight": "model.embed_tokens.weight"}
IM_END, END_OF_TEXT = 151645, 151643  # a chat turn may end with either

# name, quantisation type, stored bytes
Tensor = tuple[str, int, np.ndarray]


def hf_name(name: str) -> str:
    """The checkpoint name of a GGUF tensor."""
    if name in TOP:
        return TOP[name]
    _, layer, module, kind = name.split(".")
    return f"model.layers.{layer}.{NAMES[module]}.{kind}"


def wanted(names: Iterable[str]) -> list[str]:
    """The tensors that are converted: all but the coarse copy of the embedding."""
    return [name for name in names if name != "token_embd.weight"]


def write_weights(tensors: Iterable[Tensor], folder: Path) -> None:
    """model.safetensors in bf16 from quantised tensors."""
    import torch
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize
    from safetensors.torch import save_file

    found = {}
    for name, kind, data in tensors:
        values = dequantize(data, GGMLQuantizationType(kind))
        found[hf_name(name)] = torch.from_numpy(np.ascontiguousarray(values)).to(torch.bfloat16)
    save_file(found, folder / "model.safetensors", metadata={"format": "pt"})


def write_config(fields: dict[str, Any], folder: Path) -> None:
    """config.json and generation_config.json from the file's header."""
    layers, hidden = fields["qwen2.block_count"], fields["qwen2.embedding_length"]
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": fields["qwen2.feed_forward_length"],
        "num_hidden_layers": layers,
        "num_attention_heads": fields["qwen2.attention.head_count"],
        "num_key_value_heads": fields["qwen2.attention.head_count_kv"],
        "max_position_embeddings": fields["qwen2.context_length"],
        "rms_norm_eps": round(fields["qwen2.attention.layer_norm_rms_epsilon"], 9),
        "rope_theta": fields["qwen2.rope.freq_base"],
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "bos_token_id": END_OF_TEXT,
        "eos_token_id": [IM_END, END_OF_TEXT],
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    stops = {"eos_token_id": [IM_END, END_OF_TEXT], "pad_token_id": END_OF_TEXT}
    (folder / "generation_config.json").write_text(json.dumps(stops, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    from gguf import GGUFReader
    from transformers import AutoTokenizer

    reader = GGUFReader(options.file)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    if fields.get("general.architecture") != "qwen2":
        raise SystemExit(
            f"{options.file}: architecture {fields.get('general.architecture')!r}; only qwen2 is converted"
        )
    options.folder.mkdir(parents=True, exist_ok=True)
    write_config(fields, options.folder)
    keep = set(wanted(t.name for t in reader.tensors))
    if "output.weight" not in keep:
        raise SystemExit(f"{options.file}: holds no output embedding")
    write_weights(((t.name, int(t.tensor_type), t.data) for t in reader.tensors if t.name in keep), options.folder)
    AutoTokenizer.from_pretrained(options.file.parent, gguf_file=options.file.name).save_pretrained(options.folder)


if __name__ == "__main__":
    main()
