"""Prompts are the cookbook's own, whichever library reads the tokenizer."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from selfgen.embedded.models import resolve
from selfgen.errors import ParamsError
from selfgen.rendering import PlainTokenizer, prompt_tokens, renderer, stop, tokenizer

TEXTS = (
    "Anna buys 12 apples for $3 each.",
    "<|im_start|>user\nHow many?<|im_end|>\n<|im_start|>assistant\n",
    "```python\ndef solve():\n    return 12 * 3\n```",
    "naïve café – “quoted” 1,234.5 \t tab\n\n",
    "",
)


@pytest.mark.parametrize("name", ["selfgen/policy", "selfgen/auditor"])
def test_ids_and_texts_are_those_of_transformers(name: str) -> None:
    from transformers import PreTrainedTokenizerFast

    theirs = PreTrainedTokenizerFast.from_pretrained(resolve(name))
    ours = tokenizer(name)
    assert isinstance(ours, PlainTokenizer)
    for text in TEXTS:
        for special in (True, False):
            assert ours.encode(text, add_special_tokens=special) == theirs.encode(text, add_special_tokens=special)
        ids = theirs.encode(text, add_special_tokens=False)
        assert ours.decode(ids) == theirs.decode(ids)
        assert ours.decode(ids, skip_special_tokens=True) == theirs.decode(ids, skip_special_tokens=True)
    assert (len(ours), ours.eos_token, ours.eos_token_id) == (len(theirs), theirs.eos_token, theirs.eos_token_id)
    assert ours.convert_tokens_to_ids("<|im_end|>") == theirs.convert_tokens_to_ids("<|im_end|>")


def test_it_survives_pickling_with_the_dataset_builder() -> None:
    ours = pickle.loads(pickle.dumps(tokenizer("selfgen/policy")))
    assert ours.encode(TEXTS[0]) == tokenizer("selfgen/policy").encode(TEXTS[0])


def test_a_prefill_is_the_start_of_the_models_turn() -> None:
    found = renderer("qwen3_instruct", "selfgen/policy")
    messages = [{"role": "user", "content": "Hi"}]
    plain, filled = prompt_tokens(found, messages), prompt_tokens(found, messages, "Problem:")
    assert filled[: len(plain)] == plain
    assert tokenizer("selfgen/policy").decode(filled[len(plain) :]) == "Problem:"
    assert stop(found) == (tokenizer("selfgen/policy").eos_token_id,)


def test_the_direct_renderer_is_the_factorys() -> None:
    from tinker_cookbook.renderers import get_renderer

    ours, theirs = (
        renderer("qwen3_instruct", "selfgen/policy"),
        get_renderer("qwen3_instruct", tokenizer("selfgen/policy")),
    )
    assert type(ours) is type(theirs)
    talk = [
        {"role": "user", "content": "How many?"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "?"},
    ]
    assert prompt_tokens(ours, talk) == prompt_tokens(theirs, talk)
    assert stop(ours) == stop(theirs)
    answer = tokenizer("selfgen/policy").encode("so \\boxed{2}<|im_end|>", add_special_tokens=False)
    assert ours.parse_response(answer) == theirs.parse_response(answer)


def test_rendering_with_a_shipped_tokenizer_imports_no_transformers() -> None:
    program = (
        "import sys\nfrom selfgen.rendering import *\n"
        "prompt_tokens(renderer('qwen3_instruct', 'selfgen/policy'), [{'role': 'user', 'content': 'x'}])\n"
        "print('transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.split() == ["False"]


def test_unknown_names_are_one_clear_error(tmp_path) -> None:
    with pytest.raises(ParamsError, match=r"tokenizer .*cannot be loaded"):
        tokenizer(str(tmp_path))
    with pytest.raises(ParamsError, match=r"model\.renderer 'nope'"):
        renderer("nope", "selfgen/policy")
