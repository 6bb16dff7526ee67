"""What was really sent to the optimizer: the body of every optim_step request, recorded on its way out.

A params file states an intention, and the stock loop builds its own `AdamParams` in code. The only evidence of what
trained an arm is the request itself, so it is read at the SDK's last step before the wire, with the loss that the
forward_backward requests before it asked for. Records are appended to a file at once and survive a kill.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selfgen.records import dumps


@dataclass(frozen=True)
class Sent:
    """One optim_step that the service accepted.

    `step` is the training step it belongs to, `loss_fn` the loss of its forward_backward requests and `datums` how many
    sequences they carried; `params` the optimizer's parameters exactly as sent, `family` "adam" for AdamParams.
    """

    step: int
    family: str
    params: dict[str, float]
    loss_fn: str
    datums: int


@dataclass
class Observer:
    """Collects `Sent` records of one process, numbered from `first_step` on."""

    first_step: int = 0
    sent: list[Sent] = field(default_factory=list)
    _losses: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    _seen: set[tuple[str, int | None]] = field(default_factory=set)

    def on_forward_backward(self, model_id: str, seq_id: int | None, loss_fn: str, datums: int) -> None:
        """A gradient request was accepted."""
        if (model_id, seq_id) not in self._seen:
            self._seen.add((model_id, seq_id))
            self._losses.setdefault(model_id, []).append((loss_fn, datums))

    def on_optim_step(self, model_id: str, seq_id: int | None, body: dict[str, Any]) -> Sent | None:
        """An optimizer request was accepted; None when it repeats one already seen (the SDK re-sends after a lost answer)."""
        if (model_id, seq_id) in self._seen:
            return None
        self._seen.add((model_id, seq_id))
        losses = self._losses.pop(model_id, [])
        key = "adam_params" if "adam_params" in body else "optimizer_params"
        record = Sent(
            step=self.first_step + len(self.sent),
            family="adam" if key == "adam_params" else str(body[key].get("type")),
            params={name: value for name, value in sorted(body[key].items()) if name != "type"},
            loss_fn="+".join(sorted({loss for loss, _ in losses})),
            datums=sum(n for _, n in losses),
        )
        self.sent.append(record)
        return record


@contextmanager
def observing(
    path: Path | None = None, first_step: int = 0, on_step: Callable[[Sent], None] | None = None
) -> Iterator[Observer]:
    """Record every optimizer step that any SDK client of this process sends inside the block.

    Args:
        path: JSON lines file to append each record to.
        first_step: number of the first step, when a run resumes.
        on_step: called with each record, e.g. to show progress.
    """
    from tinker._compat import model_dump
    from tinker.resources.training import AsyncTrainingResource

    observer = Observer(first_step)
    lock = threading.Lock()
    original_optim, original_gradient = AsyncTrainingResource.optim_step, AsyncTrainingResource.forward_backward

    async def optim_step(self: Any, *, request: Any) -> Any:
        answer = await original_optim(self, request=request)
        body = model_dump(request, exclude_unset=False, exclude_none=True, mode="json")
        with lock:
            record = observer.on_optim_step(request.model_id, request.seq_id, body)
            if record is not None and path is not None:
                with open(path, "a", encoding="utf-8") as file:
                    file.write(dumps(vars(record)) + "\n")
        if record is not None and on_step is not None:
            on_step(record)
        return answer

    async def forward_backward(self: Any, *, request: Any, forward_only: bool = False) -> Any:
        answer = await original_gradient(self, request=request, forward_only=forward_only)
        if not forward_only:
            gradient = request.forward_backward_input
            with lock:
                observer.on_forward_backward(
                    request.model_id, request.seq_id, str(gradient.loss_fn), len(gradient.data)
                )
        return answer

    AsyncTrainingResource.optim_step = optim_step  # type: ignore[method-assign]
    AsyncTrainingResource.forward_backward = forward_backward  # type: ignore[method-assign]
    try:
        yield observer
    finally:
        AsyncTrainingResource.optim_step = original_optim  # type: ignore[method-assign]
        AsyncTrainingResource.forward_backward = original_gradient  # type: ignore[method-assign]


def read_sent(path: Path) -> list[Sent]:
    """Records of a run, in the order sent; a line torn by a kill is dropped."""
    if not path.exists():
        return []
    out = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            out.append(Sent(**json.loads(line)))
        except ValueError:
            continue
    return out


def effective(records: list[Sent], steps: int) -> list[Sent]:
    """The steps that made the final weights: of a step sent again after a resume, the last one sent."""
    last = {record.step: record for record in records if record.step < steps}
    return [last[step] for step in sorted(last)]


def mismatches(records: list[Sent], optimizer: Any, loss_fn: str) -> list[str]:
    """Where the records differ from params: one line each, empty when all is as stated.

    Args:
        records: what was sent.
        optimizer: params.train.optimizer.
        loss_fn: params.train.loss_fn.
    """
    wanted = {
        "learning_rate": optimizer.learning_rate,
        "beta1": optimizer.beta1,
        "beta2": optimizer.beta2,
        "eps": optimizer.eps,
        "weight_decay": 0.0,
        "grad_clip_norm": 0.0,
    }
    found = []
    for record in records:
        if record.family != optimizer.name:
            found.append(f"step {record.step}: optimizer sent is {record.family}, params say {optimizer.name}")
        for name, value in wanted.items():
            if record.params.get(name, 0.0 if name in ("weight_decay", "grad_clip_norm") else None) != value:
                found.append(f"step {record.step}: {name} sent is {record.params.get(name)}, params say {value}")
        if record.loss_fn != loss_fn:
            found.append(f"step {record.step}: loss sent is {record.loss_fn}, params say {loss_fn}")
    return found
