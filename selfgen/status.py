"""`selfgen status`: where the run stands, what comes next, and what it will cost.

Which stages are up to date is DVC's own answer; the facts beside them are read from the small artifacts. Costs are
the published projection where there is one, and what a stage took the last time otherwise.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from selfgen.errors import DataError
from selfgen.params import Params
from selfgen.records import read_json

DONE, STALE, NOT_RUN = "up to date", "to run again", "not run"
# Stages that ask no service: seconds, which nobody has to plan for.
_FREE = frozenset({"code", "curated", "gate", "decide", "report"})


@dataclass(frozen=True)
class StageState:
    """One stage of the graph: its state, why it must run (what changed), what it found, and what it took or will take.

    `seconds` is the projection for training and evaluation, else the last run's time; None where neither is known.
    """

    name: str
    state: str
    why: str
    fact: str
    seconds: float | None


@dataclass(frozen=True)
class Status:
    """The whole graph in order, the next stage's name (None when all is done), and unfinished training runs."""

    stages: Sequence[StageState]
    next: str | None
    stopped_by: str | None
    unfinished: Sequence[str]
    running: Sequence[str]
    seconds_left: float | None
    unknown_left: int
    money_left: str | None = None


def survey(root: Path, params: Params) -> Status:
    """Ask DVC and the artifacts.

    Raises:
        DataError: `root` is not a DVC project.
    """
    changed = changed_stages(root)
    stages = []
    for name, reasons in changed.items():
        state = DONE if reasons is None else NOT_RUN if any("deleted" in r for r in reasons) else STALE
        stages.append(StageState(name, state, "; ".join(reasons or []), fact(root, name), seconds(root, name)))
    pending = [stage for stage in stages if stage.state != DONE]
    known = [stage.seconds for stage in pending if stage.seconds is not None]
    return Status(
        stages=stages,
        next=pending[0].name if pending else None,
        stopped_by=stopped_by(root) if pending else None,
        unfinished=unfinished(params),
        running=running(root),
        seconds_left=sum(known) if known else None,
        unknown_left=len(pending) - len(known),
        money_left=money(root, {stage.name for stage in pending}),
    )


def money(root: Path, pending: Collection[str]) -> str | None:
    """The projected price of training and evaluation, while all of it is still to come; None once some is paid."""
    found = _json(root / "metrics/feasibility.json")
    if not found or found["money"] is None:
        return None
    names = {f"train@{a}" if k == "train" else "eval_base" if a == "base" else f"eval@{a}"
             for k, _, a in (phase.partition(":") for phase in found["phases"])}  # fmt: skip
    return f"{found['money']:.2f} {found['currency']}" if names <= set(pending) else None


def changed_stages(root: Path) -> dict[str, list[str] | None]:
    """Every stage in graph order: None when it is up to date, else what changed, one text a thing."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo(str(root)) as repo:
            order = [stage.addressing.rsplit("dvc.yaml:", 1)[-1] for stage in repo.index.stages]
            found = {name.rsplit("dvc.yaml:", 1)[-1]: entries for name, entries in repo.status().items()}
    except DvcException as error:
        first = str(error).splitlines()[0]
        raise DataError(
            f"{root}: not a DVC project that can be read ({first}); run from the project's folder"
        ) from None
    return {name: _reasons(found[name]) if name in found else None for name in order}


def _reasons(entries: Sequence[Any]) -> list[str]:
    out = []
    for entry in entries:
        if isinstance(entry, str):
            out.append(entry)
            continue
        for kind, what in entry.items():
            if not isinstance(what, Mapping):
                out.append(f"{kind}: {what}")
                continue
            for path, state in what.items():
                if isinstance(state, Mapping):  # params: key by key
                    out += [f"{path}:{key} {how}" for key, how in state.items()]
                else:
                    out.append(f"{path} {state}" if kind == "changed deps" else f"output {path} {state}")
    return out


def fact(root: Path, name: str) -> str:
    """What a stage found, in a few words; empty when it has not run."""
    stage, _, arm = name.partition("@")
    data, metrics = root / "data", root / "metrics"
    if stage == "eval_base":
        stage, arm = "eval", "base"
    if stage == "filter" and (found := _json(metrics / "filter.json")):
        return f"{found['accepted']} accepted of {found['candidates_judged']}, a yield of {found['yield']:.1%}"
    if stage == "audit" and (found := _json(data / "audit/audit.json")):
        verdict = "passed" if found["passed"] else "FAILED"
        return f"{verdict}: {found['label_errors']} label errors in {found['sample']}, round {found['round']}"
    if stage in ("preflight", "gate") and (found := _json(data / stage / f"{stage}.json")):
        return "passed" if found["passed"] else "FAILED"
    if stage == "pilot" and (found := _json(metrics / f"pilot/{arm}.json")):
        return f"mean reward {found['mean_reward']:.2f}, {found['mixed_groups']:.0%} mixed groups"
    if stage == "train" and (found := _json(metrics / f"train/{arm}.json")):
        return f"{found['steps']} steps, reward {found['reward_first']:.2f} to {found['reward_last']:.2f}"
    if stage == "eval" and (found := _json(metrics / f"eval/{arm}.json")):
        return f"accuracy {found['accuracy']:.1%} of {found['n']}"
    if stage == "decide" and (found := _json(data / "decide/decision.json")):
        return str(found["verdict"])
    if stage == "report" and (root / "reports/index.html").exists():
        return "reports/index.html"
    if stage in ("curated", "generate") and (found := _json(data / stage / "manifest.json")):
        rows = {Path(s["name"]).stem: s.get("annotations", {}).get("rows") for s in found["subject"]}
        return ", ".join(f"{count} {what}" for what, count in rows.items() if count is not None)
    return ""


def seconds(root: Path, name: str) -> float | None:
    """What a stage will take: projected for training and evaluation, else what it took the last time; 0 without a service."""
    stage, _, arm = name.partition("@")
    if stage in _FREE:
        return 0.0
    if stage == "eval_base":
        stage, arm = "eval", "base"
    feasibility = _json(root / "metrics/feasibility.json")
    if feasibility and (projected := feasibility["phases"].get(f"{stage}:{arm}")) is not None:
        return float(projected)
    folder = root / "data" / stage / arm if arm else root / "data" / stage
    provenance = _json(folder / "provenance.json")
    return None if provenance is None else float(provenance["seconds"])


def stopped_by(root: Path) -> str | None:
    """The recorded verdict that keeps the run from training, and what to do; None when nothing does."""
    audit, gate = _json(root / "data/audit/audit.json"), _json(root / "data/gate/gate.json")
    if audit and not audit["passed"]:
        return f"the audit: {'; '.join(audit['failures'])}; run `selfgen repair`, then `dvc repro`"
    if gate and not gate["passed"]:
        failed = [check["metric"] for check in gate["checks"] if not check["passed"]]
        failed += [need["name"] for need in gate["requirements"] if not need["passed"]]
        return f"the gate: {', '.join(failed)}; see data/gate/gate.json"
    feasibility = _json(root / "metrics/feasibility.json")
    if feasibility and feasibility["status"] == "over_budget":
        return f"the budget: {'; '.join(feasibility['problems'])}; raise it or record a reason in budget.override"
    return None


def unfinished(params: Params) -> list[str]:
    """Training runs that were started and not finished; the stage resumes them from their last checkpoint."""
    from selfgen.journal import cache_dir
    from selfgen.training.results import metric_rows

    found = []
    for arm in params.arms:
        for folder in sorted((cache_dir() / "runs").glob(f"{arm}-*")):
            if folder.is_dir() and (rows := metric_rows(folder)):
                found.append(f"{arm}: {len(rows)} steps done in {folder}")
    return found


def running(root: Path) -> list[str]:
    """DVC commands at work on this project now, from DVC's own lock file."""
    found = []
    for entry in (_json(root / ".dvc/tmp/rwlock") or {}).values():
        writers = entry.get("write")
        for holder in [writers] if isinstance(writers, dict) else writers or []:
            line = f"{holder.get('cmd', 'dvc')} (process {holder.get('pid')})"
            if holder.get("pid") and _alive(holder["pid"]) and line not in found:
                found.append(line)
    return found


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _json(path: Path) -> Any:
    return read_json(path) if path.exists() and path.stat().st_size else None


def lines(found: Status) -> list[str]:
    """The status for the screen."""
    from selfgen.report.formats import duration, plural

    width = max((len(stage.name) for stage in found.stages), default=0)
    out = []
    for stage in found.stages:
        if stage.name == "code" and stage.state == DONE:
            continue
        why = "" if stage.state != STALE else f" ({stage.why.split('; ')[0]})"
        out.append(f"{stage.name:{width}}  {stage.state:12}  {stage.fact}{why}".rstrip())
    out.append("")
    out += [f"running: {line}" for line in found.running]
    out += [f"unfinished training: {line}" for line in found.unfinished]
    if found.stopped_by:
        out.append(f"stopped by {found.stopped_by}")
    if found.next is None:
        return [*out, "Everything is up to date: see reports/index.html"]
    pending = sum(stage.state != DONE for stage in found.stages)
    out.append(f"next: {found.next}, with `dvc repro` ({plural(pending, 'stage')} to go)")
    if found.seconds_left:
        cost = f"about {duration(found.seconds_left)}" + (f", {found.money_left}" if found.money_left else "")
        if found.unknown_left:
            cost += f", and {plural(found.unknown_left, 'stage')} nobody has timed yet"
    else:
        cost = "not known before the pilots" if found.unknown_left else "seconds: what is left asks no service"
    return [*out, f"cost: {cost}"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(as_json: bool) -> None:
    """Tell where the run stands, what is next and what it will cost.

    \b
    Examples:
      selfgen status
      selfgen status --json | jq -r .next
    """
    from selfgen.params import load

    found = survey(Path("."), load())
    click.echo(json.dumps(asdict(found), indent=2, sort_keys=True) if as_json else "\n".join(lines(found)))
