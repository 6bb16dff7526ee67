"""Speed of the embedded engine against transformers.generate and a plain PEFT step, on this machine, in this run.

    python bench/server.py                         CPU, a small random model (a minute)
    python bench/server.py --gguf FILE             the same on a model converted from GGUF (SmolLM2's, say)
    python bench/server.py --shape 0.5b --device cuda --dtype bfloat16 --batches 64,256,512 --train 128x256

Prints one JSON object a measurement. The engine is measured without HTTP: a request adds about a millisecond.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from selfgen.embedded.decoder import Decoder
from selfgen.embedded.engine import Workers
from selfgen.embedded.graphs import GraphLane
from selfgen.embedded.lanes import Lane
from selfgen.embedded.lora import Layout, LoraSpec
from selfgen.embedded.sampler import Adapter, SampleJob, SampleParams, Sampler
from selfgen.embedded.streams import stream_key
from selfgen.embedded.trainer import AdamParams, Datum, TrainingRun

H200_BANDWIDTH = 4.8e12  # bytes a second, the vendor's figure
SHAPES = {
    "3m": {
        "model_type": "llama", "vocab_size": 1400, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64,
    },
    "135m": {
        "model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64,
    },
    "0.5b": {
        "model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "head_dim": 64,
    },
}  # fmt: skip


def write_random(folder: Path, shape: str, dtype: torch.dtype) -> Path:
    """A model folder with random weights, saved by transformers so that both sides read the same files."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        **SHAPES[shape], max_position_embeddings=2048, tie_word_embeddings=True, rope_theta=10000.0, rms_norm_eps=1e-6
    )
    config.eos_token_id = config.bos_token_id = config.pad_token_id = None
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    model.cpu().save_pretrained(folder)
    return folder


def write_from_gguf(folder: Path, file: Path, dtype: torch.dtype) -> Path:
    """A model folder converted from a GGUF file (needs the gguf package)."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=dtype)
    model.config.eos_token_id = model.config.bos_token_id = model.config.pad_token_id = None
    model.save_pretrained(folder)
    return folder


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def emit(**row: object) -> None:
    print(json.dumps(row), flush=True)


def engine_sampling(sampler: Sampler, adapter: Adapter | None, batch: int, prompt: int, new: int, group: int) -> float:
    """Seconds to sample `batch` sequences of `new` tokens, `group` of them per prompt, prompts included."""
    rng = np.random.default_rng(batch)
    vocabulary = sampler.decoder.config.vocab_size
    finished: list[SampleJob] = []

    def done(job: SampleJob, error: Exception | None) -> None:
        if error is not None:
            raise error
        finished.append(job)

    start = time.perf_counter()
    for _ in range(batch // group):
        tokens = rng.integers(3, vocabulary, prompt).tolist()
        keys = [stream_key(0, "", tokens, 0, None, i) for i in range(group)]
        sampler.submit(SampleJob(tokens, SampleParams(new), group, keys, adapter, done))
    while sampler.busy:
        sampler.step()
    synchronize(sampler.decoder.device.type)
    elapsed = time.perf_counter() - start
    assert sum(len(s.tokens) for j in finished for s in j.sequences) == batch * new
    return elapsed


def generate_sampling(model, batch: int, prompt: int, new: int, device: str) -> float:
    """The same with transformers.generate, all prompts of one length."""
    tokens = torch.randint(3, model.config.vocab_size, (batch, prompt), device=device)
    synchronize(device)
    start = time.perf_counter()
    with torch.inference_mode():
        output = model.generate(
            tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=new, min_new_tokens=new, do_sample=True,
            top_k=0, pad_token_id=0, eos_token_id=None,
        )  # fmt: skip
    synchronize(device)
    assert output.shape[1] == prompt + new
    return time.perf_counter() - start


def engine_step(run: TrainingRun, sequences: int, length: int) -> float:
    """Seconds of one importance-sampling step, forward, backward and Adam, of sequences that share nothing."""
    rng = np.random.default_rng(0)
    data = []
    for _ in range(sequences):
        tokens = rng.integers(3, run.decoder.config.vocab_size, length + 1)
        fields = {"logprobs": np.full(length, -9, np.float32), "advantages": np.ones(length, np.float32)}
        data.append(Datum(tokens[:-1], tokens[1:], fields))
    start = time.perf_counter()
    run.forward_backward(data, "importance_sampling", {}, backward=True)
    run.optim_step(AdamParams())
    synchronize(run.decoder.device.type)
    return time.perf_counter() - start


def peft_step(model, optimizer, sequences: int, length: int, micro: int, device: str) -> float:
    """The same with a PEFT model: micro-batches of `micro` sequences, logits of all positions."""
    rng = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, model.config.vocab_size, (sequences, length + 1), generator=rng).to(device)
    start = time.perf_counter()
    for part in tokens.split(micro):
        logits = model(input_ids=part[:, :-1], use_cache=False).logits.float()
        logp = torch.log_softmax(logits, -1).gather(2, part[:, 1:].unsqueeze(2)).squeeze(2)
        (-torch.exp(logp - logp.detach())).sum().backward()
        del logits, logp
    optimizer.step()
    optimizer.zero_grad()
    synchronize(device)
    return time.perf_counter() - start


def floor_seconds(decoder: Decoder, batch: int, prompt: int, new: int) -> float:
    """Time to read weights and live keys and values once per step at the memory's rate."""
    config = decoder.config
    layers = [t for layer in decoder.layers for t in vars(layer).values() if isinstance(t, torch.Tensor)]
    weights = sum(t.numel() for t in [*layers, decoder.unembed]) * decoder.dtype.itemsize
    cell = 2 * config.layers * config.kv_heads * config.head_dim * decoder.dtype.itemsize
    return sum(weights + batch * (prompt + step) * cell for step in range(new)) / H200_BANDWIDTH


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, default="3m")
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--batches", default="1,8,32,128")
    parser.add_argument("--prompt", type=int, default=48)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--train", default="32x256", help="sequences x tokens, or none")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--no-reference", action="store_true", help="leave out transformers and PEFT")
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    device = torch.device(options.device)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder = (
            write_from_gguf(folder, options.gguf, dtype) if options.gguf else write_random(folder, options.shape, dtype)
        )
        what = {"model": options.gguf.stem if options.gguf else options.shape, "device": options.device}
        what |= {"dtype": options.dtype}
        decoder = Decoder.load(folder, device, dtype)
        workers = Workers(options.threads if options.device == "cpu" else 1)
        layout = Layout.of(decoder, LoraSpec(options.rank, 0))
        adapter = Adapter("bench", layout, torch.randn(layout.size) * 0.01)
        if options.device == "cuda":
            sampler = Sampler(decoder, [GraphLane(decoder, str)], max_rows=1024, max_cells=1 << 24)
        else:
            lanes = [Lane(decoder, str) for _ in range(workers.count)]
            sampler = Sampler(decoder, lanes, map=workers.map)
        model = None
        if not options.no_reference:
            from transformers import AutoModelForCausalLM

            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval().requires_grad_(False)
        for batch in map(int, options.batches.split(",")):
            group = min(8, batch)
            warm = options.device == "cuda"
            rows = {}
            for name, chosen in (("base", None), ("lora", adapter)):
                if warm:
                    engine_sampling(sampler, chosen, batch, options.prompt, options.new, group)
                elapsed = engine_sampling(sampler, chosen, batch, options.prompt, options.new, group)
                rows[name] = batch * options.new / elapsed
            extra = (
                {
                    "floor_share": floor_seconds(decoder, batch, options.prompt, options.new)
                    / (batch * options.new / rows["base"])
                }
                if warm
                else {}
            )
            if model is not None:
                torch.set_num_threads(options.threads)
                if warm:
                    generate_sampling(model, batch, options.prompt, 8, options.device)
                reference = (
                    batch * options.new / generate_sampling(model, batch, options.prompt, options.new, options.device)
                )
                torch.set_num_threads(1)
                extra |= {
                    "generate": round(reference),
                    "ratio": round(rows["base"] / reference, 2),
                    "ratio_lora": round(rows["lora"] / reference, 2),
                }
            emit(
                measure="tokens/s",
                **what,
                batch=batch,
                engine=round(rows["base"]),
                engine_lora=round(rows["lora"]),
                **extra,
            )
        if options.train != "none":
            sequences, length = map(int, options.train.split("x"))
            run = TrainingRun(decoder, layout, adapter.flat, workers.map)
            engine_step(run, 2, length)
            seconds = engine_step(run, sequences, length)
            extra = {}
            if model is not None:
                from peft import LoraConfig, get_peft_model

                torch.set_num_threads(options.threads)
                tuned = get_peft_model(model, LoraConfig(r=options.rank, lora_alpha=32, target_modules="all-linear"))
                tuned.train()
                optimizer = torch.optim.AdamW([p for p in tuned.parameters() if p.requires_grad], lr=1e-4)
                micro = max(1, (16384 if options.device == "cuda" else 2048) // length)
                peft_step(tuned, optimizer, min(2, sequences), length, micro, options.device)
                reference = peft_step(tuned, optimizer, sequences, length, micro, options.device)
                extra = {"peft_seconds": round(reference, 2), "ratio": round(reference / seconds, 2)}
            emit(
                measure="seconds a training step", **what, step=options.train, engine_seconds=round(seconds, 2), **extra
            )


if __name__ == "__main__":
    sys.exit(main())
