"""The shipped models: they load as ordinary Hugging Face folders and meet the prompts the pipeline really sends."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from selfgen.curated import standin
from selfgen.embedded.models import resolve
from selfgen.evaluation.prompting import math_messages
from selfgen.tasks.parse import Parsed, parse_candidate
from tools import corpus

NAMES = ("policy", "auditor")
FRAMES = Path(corpus.__file__).parent / "frames.json"


def folder(name: str) -> Path:
    return Path(resolve(f"selfgen/{name}"))


@cache
def tokenizer(name: str):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(folder(name)))


@cache
def renderer(name: str):
    from tinker_cookbook.renderers import get_renderer

    return get_renderer("qwen3_instruct", tokenizer(name))


@cache
def model(name: str):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(str(folder(name))).eval()


def greedy(name: str, prompts: list[list[int]], max_tokens: int) -> list[str]:
    """Left-padded greedy answers, up to the end mark."""
    import torch

    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    with torch.no_grad():
        out = model(name).generate(input_ids=ids, attention_mask=mask, max_new_tokens=max_tokens)
    return [tokenizer(name).decode(row, skip_special_tokens=True) for row in out[:, width:]]


def prompt(name: str, problem: str, few_shot: str) -> list[int]:
    return renderer(name).build_generation_prompt(math_messages(problem, few_shot)).to_ints()


@pytest.mark.parametrize("name", NAMES)
def test_the_files_are_small_and_hold_fp16_weights_with_a_float32_config(name):
    from safetensors import safe_open

    path = folder(name) / "model.safetensors"
    assert path.stat().st_size < 12_000_000
    with safe_open(path, "pt") as weights:
        assert {str(weights.get_tensor(k).dtype) for k in weights.keys()} == {"torch.float16"}  # noqa: SIM118
    # A loader that follows the config upcasts, so a CPU never computes in half precision by accident.
    assert json.loads((folder(name) / "config.json").read_text())["torch_dtype"] == "float32"


def test_both_models_share_one_tokenizer():
    texts = {(folder(n) / "tokenizer.json").read_bytes() for n in NAMES}
    assert len(texts) == 1


def test_digits_are_single_tokens_and_text_survives_the_round_trip():
    t = tokenizer("policy")
    text = "Ann has 1234 pens, $56 and 7 éclairs.\n\n```python\ndef solve():\n    return 90\n```"
    ids = t.encode(text, add_special_tokens=False)
    assert t.decode(ids) == text
    assert all(len(re.findall(r"\d", t.decode([i]))) <= 1 for i in ids)


@pytest.mark.parametrize("few_shot", ["standard", "none"])
def test_training_prompts_equal_the_stock_environments(few_shot):
    encoder = corpus.Encoder(folder("policy") / "tokenizer.json", FRAMES)
    questions = [r.question for r in standin.build(20, 0)["train"]]
    frame = "solve_prefixed" if few_shot == "standard" else "solve"
    assert encoder.prompts(frame, questions) == [prompt("policy", q, few_shot) for q in questions]


def test_the_proposal_prompt_is_the_registered_instruction():
    spec = json.loads((Path(corpus.__file__).parents[1] / "selfgen" / "registered.json").read_text())
    assert corpus.INSTRUCTION in json.dumps(spec)
    encoder = corpus.Encoder(folder("policy") / "tokenizer.json", FRAMES)
    sent = renderer("policy").build_generation_prompt([{"role": "user", "content": corpus.INSTRUCTION}])
    assert encoder.prompts("propose", [""]) == [sent.to_ints()]


def test_the_chat_template_gives_the_renderers_tokens():
    messages = math_messages("Tom has 3 pens.", "standard")
    text = tokenizer("policy").apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert tokenizer("policy").encode(text, add_special_tokens=False) == prompt("policy", "Tom has 3 pens.", "standard")


@pytest.mark.parametrize("few_shot", ["standard", "none"])
def test_the_auditor_solves_test_problems_that_it_never_saw(few_shot):
    rows = standin.build(0, 40)["test"]
    said = greedy("auditor", [prompt("auditor", r.question, few_shot) for r in rows], 120)
    right = sum(f"\\boxed{{{r.answer}}}" in s for r, s in zip(rows, said, strict=True))
    assert right >= 39


def test_the_policy_is_careless_about_half_the_time_but_not_unable():
    rows = standin.build(0, 40)["test"]
    said = greedy("policy", [prompt("policy", r.question, "standard") for r in rows], 120)
    right = sum(f"\\boxed{{{r.answer}}}" in s for r, s in zip(rows, said, strict=True))
    assert 0.25 * len(rows) <= right <= 0.85 * len(rows)


def test_proposals_parse_and_are_not_redraws_of_a_handful():
    import torch

    encoder = corpus.Encoder(folder("policy") / "tokenizer.json", FRAMES)
    torch.manual_seed(0)
    ids = torch.tensor(encoder.prompts("propose", [""] * 24))
    with torch.no_grad():
        out = model("policy").generate(input_ids=ids, max_new_tokens=220, do_sample=True, temperature=1.0, top_k=0)
    texts = [tokenizer("policy").decode(row, skip_special_tokens=True) for row in out[:, ids.shape[1] :]]
    parsed = [parse_candidate(text, finished=True) for text in texts]
    problems = {re.sub(r"\d+", "#", p.problem) for p in parsed if isinstance(p, Parsed)}
    assert len(problems) >= 22


def test_careless_habits_have_their_own_share_in_each_structure():
    import random

    rng = random.Random(0)
    shares = [corpus.careful_share(corpus.draw(rng)) for _ in range(500)]
    assert 0.45 < sum(shares) / len(shares) < 0.55
    assert min(shares) < 0.2
    assert max(shares) > 0.8
    habits = {habit for _, habit in corpus.careful_shares().values()}
    assert habits == set(corpus.HABITS)


def test_labels_can_be_checked_without_a_model_by_reading_problems_back():
    import random

    from tools.check_labels import readings

    rng = random.Random(3)
    for _ in range(150):
        problem = corpus.draw(rng)
        assert problem.answer in readings(problem.question)
    assert readings("Tom has some pens. How many pens does Tom have now?") == set()
