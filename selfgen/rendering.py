"""Chat messages to prompt tokens and back, with the cookbook's own renderers.

Prompts built here and prompts that the stock training loop builds come from the same renderer and tokenizer, so
they are equal token for token. Imports are lazy: a stage that never renders does not pay for transformers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from selfgen.errors import ParamsError
from selfgen.records import read_json


class PlainTokenizer:
    """What the cookbook's renderers use of a tokenizer, on the `tokenizers` library alone.

    Importing transformers for it would cost every stage more than a second. Ids and texts are those that
    `transformers.PreTrainedTokenizerFast` gives for the same folder (tested).
    """

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self.name_or_path = str(folder)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        special = read_json(folder / "tokenizer_config.json")
        self.bos_token: str | None = special.get("bos_token")
        self.eos_token: str | None = special.get("eos_token")
        self.eos_token_id = None if self.eos_token is None else self._tokenizer.token_to_id(self.eos_token)

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str, add_special_tokens: bool = True, **_: Any) -> list[int]:
        """Token ids of a text; special tokens written out in it become their ids."""
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, token_ids: int | Sequence[int], skip_special_tokens: bool = False, **_: Any) -> str:
        """The text of token ids."""
        ids = [token_ids] if isinstance(token_ids, int) else [int(i) for i in token_ids]
        return self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)

    def convert_tokens_to_ids(self, token: str) -> int | None:
        """The id of one token as it is written in the vocabulary."""
        return self._tokenizer.token_to_id(token)

    def __reduce__(self) -> tuple[Any, ...]:
        return PlainTokenizer, (Path(self.name_or_path),)


@cache
def tokenizer(name: str) -> Any:
    """The tokenizer of a shipped model (`selfgen/...`), a Hugging Face id or a folder.

    Raises:
        ParamsError: nothing loadable stands under that name.
    """
    from selfgen.embedded.models import resolve

    found = resolve(name)
    try:
        if isinstance(found, Path) and _is_plain(found):
            return PlainTokenizer(found)
        from tinker_cookbook.tokenizer_utils import get_tokenizer

        return get_tokenizer(str(found))
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise ParamsError(f"tokenizer {name}: cannot be loaded ({reason}); check model.tokenizer in params") from None


def _is_plain(folder: Path) -> bool:
    """Whether a folder's tokenizer is the plain class, which needs nothing of transformers."""
    config = folder / "tokenizer_config.json"
    return (
        (folder / "tokenizer.json").is_file()
        and config.is_file()
        and (read_json(config).get("tokenizer_class") in ("PreTrainedTokenizerFast", "TokenizersBackend"))
    )


def renderer(name: str, tokenizer_or_name: Any) -> Any:
    """The cookbook renderer called `name`, for a tokenizer or a tokenizer's name.

    Raises:
        ParamsError: the cookbook knows no such renderer.
    """
    from tinker_cookbook.exceptions import RendererError

    loaded = tokenizer(tokenizer_or_name) if isinstance(tokenizer_or_name, str) else tokenizer_or_name
    if name == "qwen3_instruct" and isinstance(loaded, PlainTokenizer):
        # The factory imports every renderer, and with them transformers; a test holds the two equal.
        from tinker_cookbook.renderers.qwen3 import Qwen3InstructRenderer

        direct = Qwen3InstructRenderer(loaded)  # type: ignore[arg-type]
        # What the factory writes down so that a renderer can be pickled and made again.
        direct._renderer_name, direct._model_name, direct._has_image_processor = name, loaded.name_or_path, False
        return direct
    from tinker_cookbook.renderers import get_renderer

    try:
        return get_renderer(name, loaded)
    except (RendererError, ValueError) as error:
        raise ParamsError(f"model.renderer {name!r}: {' '.join(str(error).split())[:120]}; edit params") from None


def prompt_tokens(renderer: Any, messages: Sequence[Mapping[str, str]], prefill: str = "") -> tuple[int, ...]:
    """Token ids of the generation prompt for `messages` ({role, content}), ending where the model's turn begins.

    `prefill` is text that the model's turn begins with; the model goes on after it.
    """
    return tuple(renderer.build_generation_prompt([dict(m) for m in messages], prefill=prefill or None).to_ints())


def stop(renderer: Any) -> tuple[int, ...] | tuple[str, ...]:
    """The renderer's stop sequences, token ids or strings."""
    return tuple(renderer.get_stop_sequences())


def register_tokenizer(model: str, tokenizer_name: str) -> None:
    """Make the cookbook's `get_tokenizer(model)` load our tokenizer, as the stock loop calls it by model name.

    Needed for shipped models and folders, whose service name is no Hugging Face id; harmless for the rest.
    """
    from tinker_cookbook import tokenizer_utils

    # Loaded before it is registered: a folder is its own tokenizer's name, and would look itself up without end.
    loaded = tokenizer(tokenizer_name)
    tokenizer_utils.register_tokenizer(model, lambda: loaded)
