"""Start checkpoints between stages: what they are (hashed, depended upon) apart from where the service keeps them.

An arm depends on its own file, so that another arm with another seed re-trains nobody.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from selfgen import sdk
from selfgen.errors import DataError, ServiceError
from selfgen.records import read_json, write_json
from selfgen.training.arms import Start
from selfgen.training.checkpoints import export_adapter

if TYPE_CHECKING:
    from selfgen.params import Params
    from selfgen.service import Service


def write_starts(folder: str | Path, starts: Mapping[int, Start], seeds: Mapping[str, int]) -> None:
    """Write start.json {seed: digest}, starts/ARM.json for each arm of `seeds`, and location.json {seed: tinker path}."""
    folder = Path(folder)
    write_json(folder / "start.json", {str(seed): start.digest for seed, start in sorted(starts.items())})
    for arm, seed in seeds.items():
        write_json(folder / "starts" / f"{arm}.json", {"seed": seed, "digest": starts[seed].digest})
    write_json(folder / "location.json", {str(seed): start.path for seed, start in sorted(starts.items())})


def read_start(folder: str | Path, arm: str) -> Start:
    """The start checkpoint of an arm.

    Raises:
        DataError: the preflight made none for this arm.
    """
    file = Path(folder) / "starts" / f"{arm}.json"
    if not file.is_file():
        raise DataError(f"{file}: no start checkpoint of arm {arm}; run `dvc repro preflight`")
    said, places = read_json(file), read_json(Path(folder) / "location.json")
    return Start(said["seed"], places[str(said["seed"])], said["digest"])


def make_start(params: Params, service: Service, seed: int) -> Start:
    """Create ONE LoRA client with the seed, save its state, and hash its adapter."""
    name = f"start-{seed}"
    with service_errors(params.model.name):
        client = sdk.ready(
            service.client.create_lora_training_client(params.model.name, rank=params.model.lora_rank, seed=seed)
        )
        state = client.save_state(name).result()
        sampler = client.save_weights_for_sampler(name).result()
    with tempfile.TemporaryDirectory() as folder:
        digest = export_adapter(service, state.path, sampler.path, Path(folder) / "start")
    return Start(seed, state.path, digest)


def start_here(params: Params, service: Service, start: Start) -> Start:
    """`start`, made again from its seed where this service does not hold it: pulled from a colleague, or expired.

    Raises:
        ServiceError: this service makes other weights from the same seed.
    """
    if service.holds(start.path):
        return start
    again = make_start(params, service, start.seed)
    if again.digest != start.digest:
        raise ServiceError(
            f"{start.path}: not on this service, which makes another LoRA from seed {start.seed} "
            f"({again.digest[:12]}, not {start.digest[:12]}); run `dvc repro --force preflight`, which trains every arm anew"
        )
    return again


@contextmanager
def service_errors(where: str) -> Iterator[None]:
    """What the SDK raises inside the block, as one line with what to do next."""
    import tinker

    from selfgen.service import as_service_error

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    except (tinker.TinkerError, OSError, ValueError) as error:  # ValueError: what the SDK makes of a refused promise
        raise as_service_error(error, where) from None
