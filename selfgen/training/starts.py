"""Start checkpoints between stages: what they are (hashed, depended upon) apart from where the service keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from selfgen.errors import DataError
from selfgen.records import read_json, write_json
from selfgen.training.arms import Start


def write_starts(folder: str | Path, starts: Mapping[int, Start]) -> None:
    """Write start.json {seed: digest} and, beside it, location.json {seed: tinker path}."""
    write_json(Path(folder) / "start.json", {str(seed): start.digest for seed, start in sorted(starts.items())})
    write_json(Path(folder) / "location.json", {str(seed): start.path for seed, start in sorted(starts.items())})


def read_start(folder: str | Path, seed: int) -> Start:
    """The start checkpoint of one arm seed.

    Raises:
        DataError: the preflight made none for this seed.
    """
    digests, places = (read_json(Path(folder) / name) for name in ("start.json", "location.json"))
    if str(seed) not in digests or str(seed) not in places:
        raise DataError(f"{folder}: no start checkpoint for seed {seed}; run `dvc repro preflight`")
    return Start(seed, places[str(seed)], digests[str(seed)])
