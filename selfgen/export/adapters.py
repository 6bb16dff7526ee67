"""The trained LoRA adapters in PEFT format, each with a model card from the run's own figures."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfgen.errors import DataError
from selfgen.export.source import new_folder, render
from selfgen.params import Params
from selfgen.records import read_json
from selfgen.training.checkpoints import adapter_digest


def write_adapter(root: Path, params: Params, arm: str, out: Path, *, replace: bool = False) -> None:
    """Write one arm's adapter folder, loadable with `peft.PeftModel.from_pretrained(base, out)`.

    Raises:
        DataError: the arm was not trained, or its adapter is not the one that its checkpoint record names.
    """
    trained = root / "data/train" / arm
    checkpoint = read_json(trained / "checkpoint.json")
    found = adapter_digest(trained / "adapter")
    if found != checkpoint["digest"]:
        raise DataError(f"{trained}/adapter: not the adapter of checkpoint.json; restore it with `dvc checkout`")
    with new_folder(out, replace) as folder:
        for path in sorted((trained / "adapter").iterdir()):
            shutil.copyfile(path, folder / path.name)
        (folder / "README.md").write_text(card(root, params, arm, checkpoint), encoding="utf-8")


def card(root: Path, params: Params, arm: str, checkpoint: Mapping[str, Any]) -> str:
    """The model card; evaluation figures stand in it once the arm and base were evaluated."""
    accuracies = {name: _accuracy(root, name) for name in ("base", arm)}
    decision = root / "data/decide/decision.json"
    return render(
        "model_card.md.j2",
        params=params,
        arm=arm,
        checkpoint=checkpoint,
        accuracies={name: found for name, found in accuracies.items() if found is not None},
        verdict=read_json(decision)["verdict"] if decision.exists() else None,
    )


def _accuracy(root: Path, arm: str) -> dict[str, Any] | None:
    path = root / "metrics/eval" / f"{arm}.json"
    return read_json(path) if path.exists() else None
