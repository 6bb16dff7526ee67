"""The constraints of the older SDK differ from the others in the SDK and its cookbook, and in nothing else."""

from __future__ import annotations

from pathlib import Path


def pins(path: Path) -> dict[str, str]:
    return dict(line.split("==") for line in path.read_text().splitlines())


def test_only_the_sdk_and_its_cookbook_are_older(root: Path) -> None:
    new, old = pins(root / "constraints.txt"), pins(root / "constraints-tinker-0.25.txt")
    assert {name: old.get(name) for name in {*new, *old} if old.get(name) != new.get(name)} == {
        "tinker": "0.25.0",
        "tinker_cookbook": "0.5.5",
    }
