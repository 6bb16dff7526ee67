"""Another machine goes on from a finished run: it has the artifacts, and a service that holds nothing of that run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from selfgen.records import read_json
from tests.support.checkout import Checkout

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def elsewhere(small_run: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A clone with all artifacts and an empty selfgen cache: no journal, no checkpoints."""
    return small_run.branch_off(tmp_path_factory.mktemp("elsewhere") / "clone")


def change(checkout: Checkout, section: str, key: str, value: object) -> None:
    path = checkout.path / "params.yaml"
    values = yaml.safe_load(path.read_text())
    values[section][key] = value
    path.write_text(yaml.safe_dump(values, sort_keys=False))


def test_a_pulled_adapter_is_evaluated_again(elsewhere: Checkout) -> None:
    before = read_json(elsewhere.path / "metrics/eval/rl_selfgen.json")
    elsewhere.dvc("repro", "--force", "--single-item", "eval@rl_selfgen")
    assert read_json(elsewhere.path / "metrics/eval/rl_selfgen.json") == before
    assert elsewhere.run("git", "status", "--porcelain", "metrics").stdout == ""


def test_an_arm_is_trained_on_from_a_start_that_is_made_again(elsewhere: Checkout) -> None:
    start = read_json(elsewhere.path / "data/train/rl_selfgen/checkpoint.json")["start_digest"]
    change(elsewhere, "train", "steps", 1)
    elsewhere.dvc("repro", "--single-item", "train@rl_selfgen")
    made = read_json(elsewhere.path / "data/train/rl_selfgen/checkpoint.json")
    assert (made["steps"], made["start_digest"]) == (1, start)


def test_a_trained_adapter_loads_in_peft(small_run: Checkout, root: Path) -> None:
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    adapter = small_run.path / "data/train/rl_selfgen/adapter"
    config = json.loads((adapter / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "selfgen/policy"
    base = AutoModelForCausalLM.from_pretrained(root / "selfgen/embedded/models/policy").eval()
    tokens = torch.arange(10, 40)[None]
    with torch.no_grad():
        plain = base(tokens).logits
        trained = peft.PeftModel.from_pretrained(base, str(adapter)).eval()(tokens).logits
    assert torch.isfinite(trained).all()
    assert (trained - plain).abs().max() > 1e-4
