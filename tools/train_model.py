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


def pack(rows: list[tuple[list[int], int]], width: int) -> tuple[np.ndarray, np.ndarray]:
    """Right-padded tokens and targets, both int16 (rows, width): a target is the next token, LOSS_FREE in prompts."""
    tokens = np.zeros((len(rows), width), np.int16)
    targets = np.full((len(rows), width), LOSS_FREE, np.int16)
    for i, (ids, start) in enumerate(rows):
        tokens[i, : len(ids)] = ids
        targets[i, start - 1 : len(ids) - 1] = ids[start:]
    return tokens, targets


def draw_rows(encoder: corpus.Encoder, mix: corpus.Mix, frame: str, count: int, rng: random.Random):
    """`count` encoded examples of one frame that fit its width."""
    rows: list[tuple[list[int], int]] = []
    while len(rows) < count:
        more = encoder.batch([corpus.example(mix, frame, rng) for _ in range(count - len(rows))])
        rows += [row for row in more if len(row[0]) <= corpus.WIDTHS[frame]]
    return rows


def feed(name: str, seed: int, scale: float, out: multiprocessing.Queue) -> None:
    """Worker: put batches on the queue without end, each a list of two packed parts: short frames, prefixed frames."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    encoder = corpus.Encoder(MODELS / name / "tokenizer.json", ROOT / "tools" / "frames.json")
    rng = random.Random(f"{name}:{seed}")
    mix = corpus.MIXES[name]
    while True:
        rows = {f: draw_rows(encoder, mix, f, max(1, int(n * scale)), rng) for f, n in mix.counts.items()}
        out.put(
            [
                pack(rows["propose"] + rows["solve"], corpus.WIDTHS["solve"]),
                pack(rows["solve_prefixed"], corpus.WIDTHS["solve_prefixed"]),
            ]
        )


def losses(model, tokens, targets, dtype):
    """Sum of next-token losses: the forward pass of LlamaForCausalLM with few kernels, so that a GPU stays busy.

    Args:
        tokens, targets: int64 (rows, width). dtype: of the matrix products; the residual stream stays float32.
    """
    import torch
    import torch.nn.functional as F

    config = model.config
    rows, width = tokens.shape
    heads, size = config.num_attention_heads, config.head_dim
    frequency = 10000.0 ** (-torch.arange(0, size, 2, device=tokens.device, dtype=torch.float32) / size)
    angle = torch.arange(width, device=tokens.device, dtype=torch.float32)[:, None] * frequency
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)

    def rotate(x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    def norm(x, layer):
        return F.rms_norm(x, x.shape[-1:], layer.weight, layer.variance_epsilon).to(dtype)

    def project(x, *layers):
        weight = torch.cat([layer.weight for layer in layers]) if len(layers) > 1 else layers[0].weight
        return F.linear(x, weight.to(dtype))

    x = F.embedding(tokens, model.model.embed_tokens.weight)
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        qkv = project(norm(x, layer.input_layernorm), attention.q_proj, attention.k_proj, attention.v_proj)
        q, k, v = qkv.view(rows, width, 3, heads, size).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        x = x + project(y.transpose(1, 2).reshape(rows, width, -1), attention.o_proj)
        gate, up = project(norm(x, layer.post_attention_layernorm), mlp.gate_proj, mlp.up_proj).chunk(2, dim=-1)
        x = x + project(F.silu(gate) * up, mlp.down_proj)
    logits = F.linear(norm(x, model.model.norm), model.lm_head.weight.to(dtype)).float()
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=LOSS_FREE, reduction="sum")


class Trainer:
    """One optimizer step over two parts of fixed shape; on a GPU the whole step is one CUDA graph."""

    def __init__(self, model, parts, lr: float, device: str, graph: bool = True) -> None:
        import torch

        self.torch, self.model, self.device = torch, model, device
        self.dtype = torch.bfloat16 if device == "cuda" else torch.float32
        self.lr = torch.tensor(lr, device=device)
        self.count = torch.tensor(1.0, device=device)
        self.parts = [[torch.from_numpy(a).to(device).long() for a in part] for part in parts]
        matrices = [p for p in model.parameters() if p.ndim == 2]
        gains = [p for p in model.parameters() if p.ndim < 2]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": 0.05}, {"params": gains, "weight_decay": 0.0}],
            lr=self.lr,
            betas=(0.9, 0.98),
            fused=device == "cuda",
            capturable=device == "cuda",
        )
        self.graph = None
        if graph and device == "cuda":
            self._capture()

    def _compute(self):
        total = 0.0
        for tokens, targets in self.parts:
            loss = losses(self.model, tokens, targets, self.dtype) / self.count
            loss.backward()
            total = total + loss.detach()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return total

    def _capture(self) -> None:
        torch = self.torch
        keep = self.lr.clone()
        self.lr.fill_(0.0)
        self.count.fill_(1e4)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.optimizer.zero_grad(set_to_none=True)
                self._compute()
        torch.cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._compute()
        self.lr.copy_(keep)

    def step(self, parts, lr: float):
        """Train on packed parts; returns the mean loss of a token as a tensor on the device."""
        torch = self.torch
        self.lr.fill_(lr)
        self.count.fill_(float(sum((targets != LOSS_FREE).sum() for _, targets in parts)))
        for static, part in zip(self.parts, parts, strict=True):
            for buffer, array in zip(static, part, strict=True):
                buffer.copy_(torch.from_numpy(array))
        if self.graph is not None:
            self.graph.replay()
            return self.loss.clone()
        self.optimizer.zero_grad(set_to_none=True)
        return self._compute()


@click.command()
@click.argument("name", type=click.Choice(sorted(SHAPES)))
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--minutes", type=float, default=3.5, show_default=True)
@click.option("--steps", type=int, help="stop after so many steps instead of --minutes")
@click.option("--scale", default=1.0, show_default=True, help="batch size relative to corpus.MIXES")
@click.option("--workers", default=7, show_default=True)
@click.option("--lr", default=3e-3, show_default=True)
@click.option("--graph/--eager", default=True, show_default=True, help="capture the step as a CUDA graph")
def main(
    name: str, out: Path, minutes: float, steps: int | None, scale: float, workers: int, lr: float, graph: bool
) -> None:
    """Train one model and write its folder."""
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaForCausalLM

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(SEEDS[name])
    out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    batches: multiprocessing.Queue = context.Queue(maxsize=64)
    feeders = [
        context.Process(target=feed, args=(name, SEEDS[name] * 1000 + i, scale, batches), daemon=True)
        for i in range(workers)
    ]
    for process in feeders:
        process.start()
    vocabulary = json.loads((MODELS / name / "tokenizer.json").read_text())["model"]["vocab"]
    model = LlamaForCausalLM(model_config(name, len(vocabulary))).to(device).float()
    click.echo(f"{name}: {sum(p.numel() for p in model.parameters()):,} parameters on {device}")
    old = [batches.get()]
    trainer = Trainer(model, old[0], lr, device, graph)
    fresh = reused = step = 0
    recent: list = []
    began = time.time()
    while True:
        done = step / steps if steps else (time.time() - began) / (60 * minutes)
        if done >= 1:
            break
        try:
            parts = batches.get_nowait()
            fresh += 1
            if len(old) < 3000:
                old.append(parts)
            else:
                old[random.randrange(len(old))] = parts
        except queue.Empty:
            parts = random.choice(old)
            reused += 1
        rate = lr * min(1.0, (step + 1) / 200) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
        recent.append(trainer.step(parts, rate))
        step += 1
        if step % (250 if device == "cuda" else 2) == 0:
            mean = float(torch.stack(recent).mean())
            recent = []
            click.echo(f"{name} {time.time() - began:6.1f}s step {step} loss {mean:.4f} fresh {fresh} reused {reused}")
    for process in feeders:
        process.terminate()
    save(model, name, out, save_file)
    click.echo(f"{name}: {step} steps, {fresh} fresh batches, {reused} reused; wrote {out}")


def save(model, name: str, out: Path, save_file) -> None:
    """Write the model folder: fp16 weights, but a float32 config, so that loading on a CPU upcasts."""
    import torch

    weights = {k: v.detach().to(torch.float16).cpu().contiguous() for k, v in model.state_dict().items()}
    weights.pop("lm_head.weight", None)  # tied to the embeddings
    save_file(weights, str(out / "model.safetensors"), metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)
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
