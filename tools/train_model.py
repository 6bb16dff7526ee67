"""Train one shipped model from scratch on the corpus: `python tools/train_model.py policy --minutes 3.5 --out DIR`.

Needs torch, transformers, tokenizers and numpy only. Worker processes write fresh examples without end; when they fall
behind, an earlier batch is used again. Stops after --minutes (or --steps, which also runs on a CPU for a smoke test).
Writes model.safetensors (fp16), config.json, generation_config.json and the tokenizer files into --out.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import queue
import random
import shutil
import sys
import time
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import corpus  # noqa: E402

MODELS = ROOT / "selfgen" / "embedded" / "models"
SHAPES = {
    "policy": {"num_hidden_layers": 4, "intermediate_size": 512},
    "auditor": {"num_hidden_layers": 6, "intermediate_size": 768},
}
SEEDS = {"policy": 101, "auditor": 202}
LOSS_FREE = -100


def model_config(name: str, vocab_size: int):
    """The Llama configuration of a shipped model."""
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=256,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        attention_dropout=0.0,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
        **SHAPES[name],
    )


def pack(rows: list[tuple[list[int], int]]) -> tuple[np.ndarray, np.ndarray]:
    """Right-padded tokens and targets, both int16 (rows, longest): a target is the next token, LOSS_FREE in prompts."""
    width = max(len(ids) for ids, _ in rows)
    tokens = np.zeros((len(rows), width), np.int16)
    targets = np.full((len(rows), width), LOSS_FREE, np.int16)
    for i, (ids, start) in enumerate(rows):
        tokens[i, : len(ids)] = ids
        targets[i, start - 1 : len(ids) - 1] = ids[start:]
    return tokens, targets


def feed(name: str, seed: int, batch: int, parts: int, out: multiprocessing.Queue) -> None:
    """Worker: put batches on the queue, each a list of `parts` packed arrays of rows of like length."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    encoder = corpus.Encoder(MODELS / name / "tokenizer.json", ROOT / "tools" / "frames.json")
    rng = random.Random(f"{name}:{seed}")
    while True:
        rows = encoder.batch([corpus.example(corpus.MIXES[name], rng) for _ in range(batch)])
        rows.sort(key=lambda row: len(row[0]))
        size = -(-batch // parts)
        out.put([pack(rows[i : i + size]) for i in range(0, batch, size)])


@click.command()
@click.argument("name", type=click.Choice(sorted(SHAPES)))
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--minutes", type=float, default=3.5, show_default=True)
@click.option("--steps", type=int, help="stop after so many steps instead of --minutes")
@click.option("--batch", default=512, show_default=True, help="sequences a step")
@click.option("--workers", default=7, show_default=True)
@click.option("--lr", default=3e-3, show_default=True)
@click.option("--start", type=click.Path(path_type=Path), help="continue from this folder's weights")
def main(
    name: str, out: Path, minutes: float, steps: int | None, batch: int, workers: int, lr: float, start: Path | None
) -> None:
    """Train one model and write its folder."""
    import torch
    import torch.nn.functional as F
    from safetensors.torch import save_file
    from transformers import LlamaForCausalLM

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(SEEDS[name])
    out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    batches: multiprocessing.Queue = context.Queue(maxsize=64)
    feeders = [
        context.Process(target=feed, args=(name, SEEDS[name] * 1000 + i, batch, 2, batches), daemon=True)
        for i in range(workers)
    ]
    for process in feeders:
        process.start()
    vocabulary = json.loads((MODELS / name / "tokenizer.json").read_text())["model"]["vocab"]
    if start:
        model = LlamaForCausalLM.from_pretrained(start, dtype=torch.float32).to(device)
    else:
        model = LlamaForCausalLM(model_config(name, len(vocabulary))).to(device)
    matrices = [p for p in model.parameters() if p.ndim == 2]
    gains = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.05}, {"params": gains, "weight_decay": 0.0}],
        lr=lr,
        betas=(0.9, 0.98),
        fused=device == "cuda",
    )
    click.echo(f"{name}: {sum(p.numel() for p in model.parameters()):,} parameters on {device}")
    old: list = []
    fresh = reused = step = 0
    first = batches.get()
    old.append(first)
    began = time.time()
    recent: list = []
    while True:
        done = step / steps if steps else (time.time() - began) / (60 * minutes)
        if done >= 1:
            break
        try:
            parts = batches.get_nowait()
            fresh += 1
            if len(old) < 2000:
                old.append(parts)
            else:
                old[random.randrange(len(old))] = parts
        except queue.Empty:
            parts = random.choice(old)
            reused += 1
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / 150) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        count = sum(int((targets != LOSS_FREE).sum()) for _, targets in parts)
        loss_sum = 0.0
        for tokens, targets in parts:
            ids = torch.from_numpy(tokens).to(device, non_blocking=True).long()
            wanted = torch.from_numpy(targets).to(device, non_blocking=True).long()
            keep = wanted != LOSS_FREE
            with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
                hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
                logits = model.lm_head(hidden[keep])
            loss = F.cross_entropy(logits.float(), wanted[keep], reduction="sum") / count
            loss.backward()
            loss_sum = loss_sum + loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        recent.append(loss_sum)
        step += 1
        if step % (200 if device == "cuda" else 5) == 0:
            mean = float(torch.stack(recent).mean())
            recent = []
            click.echo(f"{name} {time.time() - began:6.1f}s step {step} loss {mean:.4f} fresh {fresh} reused {reused}")
    for process in feeders:
        process.terminate()
    save(model, name, out, save_file)
    click.echo(f"{name}: {step} steps, {fresh} fresh batches of {batch}, {reused} reused; wrote {out}")


def save(model, name: str, out: Path, save_file) -> None:
    """Write the model folder: fp16 weights, but a float32 config, so that loading on a CPU upcasts."""
    import torch

    weights = {k: v.detach().to(torch.float16).cpu().contiguous() for k, v in model.state_dict().items()}
    weights.pop("lm_head.weight", None)  # tied to the embeddings
    save_file(weights, str(out / "model.safetensors"), metadata={"format": "pt"})
    config = model.config.to_diff_dict()
    config.update(architectures=["LlamaForCausalLM"], model_type="llama", rope_theta=10000.0, torch_dtype="float32")
    for volatile in ("transformers_version", "dtype", "_name_or_path"):
        config.pop(volatile, None)
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    generation = {"eos_token_id": [2, 0], "pad_token_id": 0, "do_sample": False}
    (out / "generation_config.json").write_text(json.dumps(generation, indent=2, sort_keys=True) + "\n")
    for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        if (out / file).resolve() != (MODELS / name / file).resolve():
            shutil.copy(MODELS / name / file, out / file)


if __name__ == "__main__":
    main()
