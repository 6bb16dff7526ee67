"""A real embedded server with a tiny random model, shared by the tests that train."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from selfgen import params as params_module
from selfgen.params import Params
from selfgen.records import Problem
from selfgen.service import Service, open_service
from tests.embedded.tiny import write_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer model folder."""
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


def make_params(model: Path | str, **train: object) -> Params:
    """Small params on `model`: 3 steps of 2 groups of 4 samples, at most 12 tokens."""
    import yaml

    root = Path(__file__).resolve().parents[2]
    values = yaml.safe_load((root / "conf/scale/embedded.yaml").read_text(encoding="utf-8"))
    values |= yaml.safe_load((root / "conf/config.yaml").read_text(encoding="utf-8"))
    for key in ("defaults", "hydra"):
        values.pop(key, None)
    values["model"] = {"name": str(model), "tokenizer": str(model), "renderer": "qwen3_instruct", "lora_rank": 4}
    values["train"] |= {
        "problems": 6,
        "steps": 3,
        "group_size": 4,
        "groups_per_batch": 2,
        "max_tokens": 12,
        "few_shot": "none",
        "save_every": 1,
        **train,
    }
    values["pilot"] = {"steps": 2, "eval_items": 3}
    values["eval"] |= {"max_tokens": 12, "few_shot": "none"}
    return params_module.parse(values)


@pytest.fixture(scope="session")
def small(tiny: Path) -> Params:
    """`make_params` on the tiny model."""
    return make_params(tiny)


@pytest.fixture(scope="session")
def service(small: Params) -> Iterator[Service]:
    """An open embedded service on the tiny model."""
    with open_service(small, [small.model.name], seed=0) as opened:
        yield opened


@pytest.fixture(scope="session")
def problems() -> list[Problem]:
    """Six problems."""
    return [Problem(f"p{i}", f"What is {i} + {i}?", str(2 * i)) for i in range(6)]
