"""Preflight: do both arms start from the same weights, and is the optimizer the one that params state?

Nothing here is trusted because it was asked for. Two freshly created clients are compared by what they compute: the
logprobs of a fixed tokenised batch. A LoRA whose B is zero gives the base model's logprobs whatever its A is, so that
check alone is blind to the seed; after it both clients take one identical step with the stock loop's own `train_step`
and are compared again, which A decides. The optimizer is judged by the requests that this step sent.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from selfgen import sdk
from selfgen.errors import GateError
from selfgen.records import dumps
from selfgen.training import sent
from selfgen.training.arms import Start
from selfgen.training.starts import make_start, service_errors

if TYPE_CHECKING:
    import tinker

    from selfgen.params import Params
    from selfgen.service import Service

BATCH_SHA256 = "8fba255028bdd21208a5e33d2047f8122e2d8418e1badf4405c2536f9f83e9a5"
"""sha256 of the canonical JSON of fixed_batch.json. The batch and this line change together or not at all."""


@dataclass(frozen=True)
class Check:
    """One preflight check. `measured` and `tolerance` are None where the check compares names, not numbers."""

    name: str
    passed: bool
    measured: float | None
    tolerance: float | None
    message: str


@dataclass(frozen=True)
class Preflight:
    """All checks, the start checkpoints by seed, and the optimizer as it was sent."""

    checks: tuple[Check, ...]
    starts: dict[int, Start]
    optimizer: dict[str, Any]
    optimizer_reported: str | None

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Evidence without anything volatile: no paths, no times."""
        return {
            "passed": self.passed,
            "checks": [asdict(check) for check in self.checks],
            "starts": {str(seed): start.digest for seed, start in sorted(self.starts.items())},
            "optimizer": self.optimizer,
            "optimizer_reported": self.optimizer_reported,
            "fixed_batch_sha256": BATCH_SHA256,
        }


def fixed_batch() -> list[list[int]]:
    """The committed batch: 8 sequences of 24 to 45 token ids from 8 to 95, which every vocabulary has."""
    text = resources.files("selfgen.training").joinpath("fixed_batch.json").read_text(encoding="utf-8")
    return json.loads(text)["tokens"]


def batch_sha256(batch: list[list[int]]) -> str:
    """sha256 of a batch's canonical JSON."""
    return hashlib.sha256(dumps(batch).encode()).hexdigest()


def run(params: Params, service: Service) -> Preflight:
    """Make the start checkpoint of every arm seed and check what the arms rest on.

    Arms of one seed share one start checkpoint, so that they cannot start apart.

    Raises:
        ServiceError: the service fails a call. Failed checks are results, not errors: see `require`.
    """
    seeds = sorted({params.arm_seed(arm) for arm in params.arms})
    checks = [check_batch(fixed_batch())]
    starts: dict[int, Start] = {}
    optimizer: dict[str, Any] = {}
    reported: str | None = None
    for seed in seeds:
        starts[seed] = make_start(params, service, seed)
        first, second = (_client(service, starts[seed].path) for _ in range(2))
        checks.append(check_shape(params, first.get_info(), seed))
        found, records = compare_twins(params, first, second, seed)
        checks += found
        if not optimizer:
            optimizer, reported = _optimizer(records, first.get_info())
            checks.append(check_optimizer(params, records))
            checks.append(check_family(params, reported))
    checks.append(check_starts(params, starts))
    return Preflight(tuple(checks), starts, optimizer, reported)


def require(preflight: Preflight) -> None:
    """Stop when a check failed.

    Raises:
        GateError: names the first failed check and its figures.
    """
    failed = [check for check in preflight.checks if not check.passed]
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise GateError(
            f"preflight: {failed[0].name} failed: {failed[0].message}{more}; no arm may train from these checkpoints"
        )


def check_batch(batch: list[list[int]]) -> Check:
    """The batch is the committed one."""
    found = batch_sha256(batch)
    good = found == BATCH_SHA256
    return Check(
        "fixed_batch",
        good,
        None,
        None,
        f"fixed_batch.json has sha256 {found[:12]}"
        + ("" if good else f", not {BATCH_SHA256[:12]}; restore it with `git checkout`"),
    )


def check_shape(params: Params, info: Any, seed: int) -> Check:
    """The client created from the start checkpoint is the stated model with a LoRA of the stated rank."""
    wrong = []
    if info.is_lora is False:
        wrong.append("is not a LoRA")
    if info.lora_rank is not None and info.lora_rank != params.model.lora_rank:
        wrong.append(f"has rank {info.lora_rank}, params say {params.model.lora_rank}")
    model = info.model_data.model_name
    if model is not None and model != params.model.name:
        wrong.append(f"is {model}, params say {params.model.name}")
    said = f"is a rank {info.lora_rank} LoRA of {model}" if not wrong else "; ".join(wrong)
    return Check(f"start_shape[{seed}]", not wrong, _number(info.lora_rank), None, f"the start checkpoint {said}")


def compare_twins(
    params: Params, first: tinker.TrainingClient, second: tinker.TrainingClient, seed: int
) -> tuple[list[Check], list[sent.Sent]]:
    """Equality of two clients before and after one identical step, that the step moved them, and what it sent."""
    tolerance = params.preflight.logprob_tolerance
    batch = fixed_batch()
    with service_errors(params.model.name):
        before = [logprobs(client, batch) for client in (first, second)]
        with sent.observing() as observer:
            for client in (first, second):
                _step(params, client, batch, before[0])
        after = [logprobs(client, batch) for client in (first, second)]
    return [
        check_equal(f"equal_before_update[{seed}]", before[0], before[1], tolerance, "two fresh clients"),
        check_equal(f"equal_after_step[{seed}]", after[0], after[1], tolerance, "two clients after one identical step"),
        check_moved(f"step_moved_weights[{seed}]", before[0], after[0]),
    ], observer.sent


def check_equal(name: str, first: list[list[float]], second: list[list[float]], tolerance: float, what: str) -> Check:
    """Largest absolute difference of two clients' logprobs, in nats, against the tolerance."""
    largest = difference(first, second)
    good = largest <= tolerance
    relation = "within" if good else "beyond"
    return Check(
        name,
        good,
        _finite(largest),
        tolerance,
        f"logprobs of {what} differ by {largest:.3g} nats, {relation} {tolerance:g}",
    )


def check_moved(name: str, before: list[list[float]], after: list[list[float]]) -> Check:
    """The step changed the logprobs at all: a service that ignores optim_step passes every equality."""
    largest = difference(before, after)
    good = 0.0 < largest < math.inf
    said = f"one step changed the logprobs by up to {largest:.3g} nats"
    return Check(name, good, _finite(largest), 0.0, said if good else f"{said}: the optimizer step did nothing usable")


def check_optimizer(params: Params, records: list[sent.Sent]) -> Check:
    """Every optim_step that the stock train_step sent carries the parameters that params state."""
    wrong = sent.mismatches(records, params.train.optimizer, params.train.loss_fn)
    if not records:
        wrong = ["no optim_step request was seen"]
    said = f"{len(records)} optim_step requests carry {records[-1].params}" if not wrong else wrong[0]
    return Check("optimizer_as_sent", not wrong, float(len(records)), None, said)


def check_family(params: Params, reported: str | None) -> Check:
    """The optimizer family that the service says it runs; one that says nothing runs the SDK's default, AdamW.

    AdamW with weight decay 0, which `optimizer_as_sent` checks, is Adam.
    """
    good = reported is None or reported.removesuffix("w") == params.train.optimizer.name
    said = (
        f"the service reports {reported}"
        if reported
        else "the service does not say; the SDK asked for its default, adamw"
    )
    return Check(
        "optimizer_family", good, None, None, said + ("" if good else f", params say {params.train.optimizer.name}")
    )


def check_starts(params: Params, starts: dict[int, Start]) -> Check:
    """Arms of one seed share a start, and different seeds differ: equal digests would make an A/A arm a copy."""
    digests = {start.digest for start in starts.values()}
    missing = [arm for arm in params.arms if params.arm_seed(arm) not in starts]
    good = len(digests) == len(starts) and not missing
    named = ", ".join(f"seed {seed}: {start.digest[:12]}" for seed, start in sorted(starts.items()))
    if missing:
        named += f"; arm {missing[0]} has none"
    elif not good:
        named += "; two seeds gave the same weights, so the service ignores the LoRA seed"
    return Check("start_checkpoints", good, float(len(digests)), None, named)


def logprobs(client: tinker.TrainingClient, batch: list[list[int]]) -> list[list[float]]:
    """Logprobs of each next token of each sequence, by a forward pass that leaves the weights alone."""
    data = [_datum(tokens, None) for tokens in batch]
    output = client.forward(data, "cross_entropy").result()
    return [[float(value) for value in row["logprobs"].tolist()] for row in output.loss_fn_outputs]


def difference(first: list[list[float]], second: list[list[float]]) -> float:
    """Largest absolute difference; infinite when the shapes differ or a value is not finite."""
    if [len(row) for row in first] != [len(row) for row in second] or not first:
        return math.inf
    pairs = [(a, b) for x, y in zip(first, second, strict=True) for a, b in zip(x, y, strict=True)]
    if not all(math.isfinite(a) and math.isfinite(b) for a, b in pairs):
        return math.inf
    return max((abs(a - b) for a, b in pairs), default=math.inf)


def _step(params: Params, client: tinker.TrainingClient, batch: list[list[int]], sampled: list[list[float]]) -> None:
    """One step with the stock loop's own code, with advantages +1 and -1 in turn."""
    import asyncio

    from tinker_cookbook.rl.train import train_step

    data = [
        _datum(tokens, (row, 1.0 if i % 2 == 0 else -1.0))
        for i, (tokens, row) in enumerate(zip(batch, sampled, strict=True))
    ]
    asyncio.run(
        train_step(
            data_D=data,
            training_client=client,
            learning_rate=params.train.optimizer.learning_rate,
            num_substeps=1,
            loss_fn=params.train.loss_fn,
        )
    )


def _datum(tokens: list[int], importance: tuple[list[float], float] | None) -> tinker.Datum:
    import tinker
    import torch

    targets = tokens[1:]
    inputs: dict[str, Any] = {"target_tokens": torch.tensor(targets)}
    if importance is not None:
        sampled, advantage = importance
        inputs["logprobs"] = torch.tensor(sampled)
        inputs["advantages"] = torch.full((len(targets),), advantage)
    return tinker.Datum(
        model_input=tinker.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={name: tinker.TensorData.from_torch(value) for name, value in inputs.items()},
    )


def _client(service: Service, path: str) -> tinker.TrainingClient:
    with service_errors(path):
        return sdk.ready(service.client.create_training_client_from_state(path))


def _optimizer(records: Iterable[sent.Sent], info: Any) -> tuple[dict[str, Any], str | None]:
    last = list(records)[-1:]
    as_sent = {"name": last[0].family, "loss_fn": last[0].loss_fn, **last[0].params} if last else {}
    reported = info.optimizer_config.type if "optimizer_config" in info.model_fields_set else None
    return as_sent, reported


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: int | None) -> float | None:
    return None if value is None else float(value)
