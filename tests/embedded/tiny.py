"""A tiny random model folder with a working tokenizer: 2 layers, 32 wide, one token per printable character."""

from __future__ import annotations

import json
import string
from pathlib import Path

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tokenizer(folder: Path) -> int:
    """tokenizer.json over single characters; returns the vocabulary size."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    characters = sorted(string.printable)
    vocabulary = {token: i for i, token in enumerate(SPECIALS + characters)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIALS])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": TEMPLATE,
        "model_max_length": 512,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return len(vocabulary)


def write_model(folder: Path, family: str = "llama", seed: int = 0, **overrides) -> Path:
    """A random model of `family` in `folder`."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = write_tokenizer(folder)
    config = {
        "architectures": [
            {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}[family]
        ],
        "model_type": family,
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "eos_token_id": 2,
        "bos_token_id": None,
        "hidden_act": "silu",
        "torch_dtype": "float32",
        **overrides,
    }
    (folder / "config.json").write_text(json.dumps(config))
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float = 0.3):
        return torch.randn(*shape, generator=generator) * scale

    hidden, width, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    weights = {
        "model.embed_tokens.weight": normal(vocabulary, hidden, scale=1.0),
        "model.norm.weight": torch.ones(hidden),
    }
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = normal(vocabulary, hidden)
    for i in range(config["num_hidden_layers"]):
        p = f"model.layers.{i}"
        for name, out, inp in (("q", q, hidden), ("k", kv, hidden), ("v", kv, hidden), ("o", hidden, q)):
            weights[f"{p}.self_attn.{name}_proj.weight"] = normal(out, inp)
            if family == "qwen2" and name != "o":
                weights[f"{p}.self_attn.{name}_proj.bias"] = normal(out)
        if family == "qwen3":
            weights[f"{p}.self_attn.q_norm.weight"] = 1 + normal(dim)
            weights[f"{p}.self_attn.k_norm.weight"] = 1 + normal(dim)
        for name, out, inp in (("gate", width, hidden), ("up", width, hidden), ("down", hidden, width)):
            weights[f"{p}.mlp.{name}_proj.weight"] = normal(out, inp)
        weights[f"{p}.input_layernorm.weight"] = 1 + normal(hidden)
        weights[f"{p}.post_attention_layernorm.weight"] = 1 + normal(hidden)
    save_file(weights, folder / "model.safetensors")
    return folder
