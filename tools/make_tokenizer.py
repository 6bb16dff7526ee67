"""Train the one byte-level BPE tokenizer of both shipped models, and record the prompt frames of the stock renderer.

Run in the project's environment: `python tools/make_tokenizer.py`. Writes tokenizer.json, tokenizer_config.json and
special_tokens_map.json into both model folders, and tools/frames.json.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import corpus  # noqa: E402

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}{% if not loop.first %}{{ '\\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '\\n<|im_start|>assistant\\n' }}{% endif %}"
)


def train_tokenizer(vocab_size: int, examples: int):
    """Byte-level BPE with single digits, on proposals and careful answers plus the fixed prompts, many times over."""
    from tinker_cookbook.recipes.math_rl.math_env import MathEnv
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    fixed = [m["content"] for m in MathEnv.standard_fewshot_prefix()]
    fixed += [corpus.INSTRUCTION, corpus.SUFFIX, "user\n", "assistant\n"]

    def texts():
        rng = random.Random("tokenizer")
        for i in range(examples):
            problem = corpus.draw(rng)
            yield corpus.proposal(problem)
            yield corpus.careful_answer(problem)
            if i % 20 == 0:
                yield from fixed

    tokenizer.train_from_iterator(texts(), trainer)
    return tokenizer


def write(tokenizer, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",  # the name that transformers 4 and 5 both know
        "clean_up_tokenization_spaces": False,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "model_max_length": 1024,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    tokens = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    (folder / "special_tokens_map.json").write_text(json.dumps(tokens, indent=2) + "\n")


def frames(folder: Path) -> dict[str, list[list[int]]]:
    """Tokens before and after the user's own text, for the three prompts, taken from the stock renderer."""
    from tinker_cookbook.recipes.math_rl.math_env import MathEnv
    from tinker_cookbook.renderers import get_renderer
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    renderer = get_renderer("qwen3_instruct", tokenizer)
    out = {}
    for name, prefix in (("propose", []), ("solve", []), ("solve_prefixed", MathEnv.standard_fewshot_prefix())):
        text = corpus.INSTRUCTION if name == "propose" else "Tom has 3 pens." + corpus.SUFFIX
        whole = renderer.build_generation_prompt([*prefix, {"role": "user", "content": text}]).to_ints()
        own = tokenizer.encode(text, add_special_tokens=False)
        starts = [i for i in range(len(whole)) if whole[i : i + len(own)] == own]
        out[name] = [whole[: starts[-1]], whole[starts[-1] + len(own) :]]
    return out


@click.command()
@click.option("--vocab-size", default=1400, show_default=True)
@click.option("--examples", default=20000, show_default=True)
def main(vocab_size: int, examples: int) -> None:
    """Train the tokenizer and write it, with the prompt frames."""
    tokenizer = train_tokenizer(vocab_size, examples)
    models = ROOT / "selfgen" / "embedded" / "models"
    for name in ("policy", "auditor"):
        write(tokenizer, models / name)
    (ROOT / "tools" / "frames.json").write_text(json.dumps(frames(models / "policy")) + "\n")
    click.echo(f"{tokenizer.get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
