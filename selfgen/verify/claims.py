"""The table of claims: what is claimed, in one sentence, and whether the artifacts support it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from selfgen.errors import SelfgenError
from selfgen.verify import audits, files, results, tasks, training
from selfgen.verify.run import NotHere, Run

VERIFIED, FAILED, NOT_CHECKABLE = "verified", "failed", "not checkable here"

# Each returns what it checked, or raises: a SelfgenError when the artifacts contradict the claim, NotHere when they
# cannot decide it. The claim itself is the function's docstring.
CLAIMS: tuple[Callable[[Run], str], ...] = (
    files.complete,
    files.hashes,
    files.chain,
    files.params,
    files.code,
    files.rows,
    files.manifests,
    files.provenance,
    files.signature,
    tasks.candidates,
    tasks.labels,
    tasks.filtering,
    tasks.overlaps,
    tasks.funnel,
    tasks.description,
    audits.audit_rows,
    audits.audit_verdict,
    audits.repairs,
    training.starts,
    training.problems,
    training.batches,
    training.sources,
    training.rewards,
    training.measured,
    audits.gate,
    audits.feasibility,
    training.optimizer,
    training.checkpoints,
    results.items,
    results.verdict,
    results.sensitivity,
    results.graders,
    results.registration,
    results.report,
    results.provenance_of_samples,
    results.rejected_pass_rates,
    results.rollout_grades,
    results.weights,
    results.blindness,
)


@dataclass(frozen=True)
class Claim:
    """One row of the table. `detail` says what was compared, what contradicts the claim, or why it cannot be checked."""

    name: str
    claim: str
    status: str
    detail: str
    seconds: float


def check(run: Run, claims: Iterable[Callable[[Run], str]] = CLAIMS) -> Iterator[Claim]:
    """Check claims in order; a failed one does not stop the others."""
    for function in claims:
        began = time.monotonic()
        try:
            status, detail = VERIFIED, function(run)
        except NotHere as reason:
            status, detail = NOT_CHECKABLE, str(reason)
        except SelfgenError as error:
            status, detail = FAILED, str(error)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            # A JSON artifact without the shape its reader relies on: hand-edited, or from another version.
            status, detail = FAILED, f"malformed artifact: {type(error).__name__}: {error}"
        name = f"{function.__module__.rsplit('.', 1)[-1]}.{function.__name__}"
        yield Claim(name, str(function.__doc__).strip().splitlines()[0], status, detail, time.monotonic() - began)


def verify(root: str | Path = ".") -> list[Claim]:
    """Check every claim on the artifacts under `root`."""
    return list(check(Run(root)))


def failed(claims: Iterable[Claim]) -> list[Claim]:
    """Those that the artifacts contradict."""
    return [claim for claim in claims if claim.status == FAILED]


def to_json(claims: Iterable[Claim]) -> dict[str, Any]:
    """The table as JSON, without times."""
    rows = [{key: value for key, value in asdict(claim).items() if key != "seconds"} for claim in claims]
    counts = {status: sum(row["status"] == status for row in rows) for status in (VERIFIED, FAILED, NOT_CHECKABLE)}
    return {"claims": rows, "counts": counts, "passed": counts[FAILED] == 0}


def table(claims: Iterable[Claim]) -> str:
    """The table for a terminal: one line a claim, what was found below it."""
    marks = {VERIFIED: "ok    ", FAILED: "FAILED", NOT_CHECKABLE: "  -   "}
    rows = list(claims)
    lines = []
    for row in rows:
        lines += [f"{marks[row.status]}  {row.claim}", f"          {row.detail}"]
    counts = to_json(rows)["counts"]
    lines += ["", ", ".join(f"{n} {status}" for status, n in counts.items())]
    return "\n".join(lines)
