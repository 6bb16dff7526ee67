"""Which loader a curated set comes from, and the pins that refuse other bytes than the registered ones.

A new dataset is one function in `LOADERS`: it takes `CuratedParams` and returns {"train": rows, "test": rows}.
"""

from __future__ import annotations

from collections.abc import Callable

from selfgen.curated import gsm8k, standin
from selfgen.errors import DataError, ParamsError
from selfgen.params import CuratedParams
from selfgen.records import CuratedRow

Loader = Callable[[CuratedParams], dict[str, list[CuratedRow]]]


def _gsm8k(params: CuratedParams) -> dict[str, list[CuratedRow]]:
    if params.source is None:
        raise ParamsError(
            "params.yaml: curated.source: missing; set a Hub id or a folder with train.jsonl and test.jsonl"
        )
    return gsm8k.load(params.source, params.config, params.revision)


def _standin(params: CuratedParams) -> dict[str, list[CuratedRow]]:
    if params.n_train is None or params.n_test is None or params.seed is None:
        raise ParamsError("params.yaml: curated: the stand-in needs n_train, n_test and seed; set them")
    splits = standin.build(params.n_train, params.n_test, 0, params.seed)
    return {"train": splits["train"], "test": splits["test"]}


LOADERS: dict[str, Loader] = {"gsm8k": _gsm8k, "standin": _standin}


def load(params: CuratedParams) -> dict[str, list[CuratedRow]]:
    """The splits of the curated set, train and test, pinned and disjoint.

    Args:
        params: `n_train` and `n_test` keep the first rows of a split after the pin is checked.

    Raises:
        ParamsError: unknown loader.
        DataError: the bytes are not the pinned ones, a split is too small, or a question is in both splits.
    """
    loader = LOADERS.get(params.loader)
    if loader is None:
        raise ParamsError(
            f"params.yaml: curated.loader: unknown {params.loader!r}; known: {', '.join(sorted(LOADERS))}"
        )
    splits = loader(params)
    for split, wanted in (("train", params.sha256.train), ("test", params.sha256.test)):
        found = gsm8k.digest(splits[split])
        if wanted is not None and found != wanted and not params.accept_changed:
            raise DataError(
                f"curated.source {params.source or params.loader}: {split} has sha256 {found[:16]}..., pinned is "
                f"{wanted[:16]}...; use the pinned source, or set curated.accept_changed: true"
            )
    sizes = {"train": params.n_train, "test": params.n_test}
    for split, size in sizes.items():
        if size is not None and size > len(splits[split]):
            raise DataError(f"curated.n_{split}: {size} rows asked for, {len(splits[split])} there; lower it")
        splits[split] = splits[split][:size]
    shared = {row.question for row in splits["train"]} & {row.question for row in splits["test"]}
    if shared:
        raise DataError(
            f"curated: {len(shared)} questions are in both splits, e.g. {min(shared)[:60]!r}; use disjoint ones"
        )
    return splits
