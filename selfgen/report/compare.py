"""Two runs side by side: verdicts, params that differ, figures, and the items whose verdict changed.

The other run is a git revision or a DVC experiment. Its artifacts are read through DVC, from the cache or the remote,
into a folder that is thrown away; the working tree stays as it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selfgen.errors import DataError
from selfgen.params import load as load_params
from selfgen.report import charts, claim, formats, making, outcome
from selfgen.report.run import Run, load
from selfgen.tasks.reasons import REASONS

# What a comparison shows; proposals and adapters, the large parts, stay where they are.
_PARTS = (
    "params.yaml",
    "metrics",
    "data/curated/test.jsonl",
    "data/filter",
    "data/audit",
    "data/preflight/preflight.json",
    "data/subset",
    "data/pilot",
    "data/gate",
    "data/train",
    "data/eval",
    "data/decide",
)
_LEFT_OUT = ("adapter", "location.json", "optim.jsonl")


@contextmanager
def at_revision(root: Path, revision: str) -> Iterator[Run]:
    """The run recorded at a git revision or DVC experiment.

    Raises:
        DataError: there is no such revision, or its artifacts are neither in the cache nor in a remote.
    """
    from dvc.exceptions import DvcException
    from dvc.scm import RevError, SCMError

    try:
        from dvc.api import DVCFileSystem
        from dvc.repo import Repo
        from dvc.scm import resolve_rev

        with Repo(str(root)) as repo:
            commit = resolve_rev(repo.scm, revision)  # the file system would take an unknown revision for an empty one
        files = DVCFileSystem(str(root), rev=commit)
        if files.exists("dvc.yaml") and not files.exists("dvc.lock"):
            raise DataError(
                f"{revision}: no run is recorded there (no dvc.lock); name a revision whose run was committed"
            )
        with tempfile.TemporaryDirectory(prefix="selfgen-compare-") as folder:
            copy = Path(folder)
            for part in _PARTS:
                _fetch(files, part, copy)
            if not (copy / "params.yaml").exists():
                raise DataError(f"{revision}: holds no params.yaml; name a revision of this project that ran")
            yield load(copy, load_params(copy / "params.yaml"), partial=True)
    except (RevError, SCMError):
        raise DataError(
            f"{revision}: no such git revision or DVC experiment; see `git log` or `dvc exp show`"
        ) from None
    except FileNotFoundError as error:
        name = str(error).rsplit(": ", 1)[-1].strip("'")
        raise DataError(
            f"{revision}: {name}: neither in the DVC cache nor in a remote; try `dvc fetch`, or `dvc push --all-commits` where it ran"
        ) from None
    except DvcException as error:
        raise DataError(f"{revision}: DVC cannot read it: {str(error).splitlines()[0]}; try `dvc fetch`") from None


def _fetch(files: Any, part: str, copy: Path) -> None:
    if not files.exists(part):
        return
    names = [part] if files.isfile(part) else [name for name in files.find(part) if not _skipped(name)]
    for name in names:
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(files.read_bytes(name))


def _skipped(name: str) -> bool:
    return any(piece in _LEFT_OUT for piece in name.split("/"))


def render(first: Run, second: Run, names: Sequence[str]) -> str:
    """The comparison as one self-contained page."""
    from selfgen.report import page

    found = sections(first, second, names) | {"style": page.style()}
    return page.environment().get_template("compare.html.j2").render(found)


def sections(first: Run, second: Run, names: Sequence[str]) -> dict[str, Any]:
    """Everything the comparison shows, by name."""
    sides: list[dict[str, Any]] = []
    for name, run in zip(names, (first, second), strict=True):
        criteria = outcome.criteria(run)
        chart = outcome.criteria_chart(criteria, f"criteria{len(sides)}") if criteria else None
        sides.append({"name": name, "claim": claim.make(run), "criteria": criteria, "criteria_chart": chart})
    return {
        "names": names,
        "sides": sides,
        "params_changed": changed_params(first, second),
        "figures": figures(first, second),
        "same_items": same_items(first, second),
        "curves": reward_curves(first, second, names),
        "reasons": reasons(first, second),
    }


def changed_params(first: Run, second: Run) -> list[tuple[str, str, str]]:
    """Dotted key and both values of every param that differs; a key one run lacks shows as a dash."""
    ours, theirs = (dict(_leaves(run.params.model_dump(mode="json"))) for run in (first, second))
    return [
        (key, formats.plain(ours.get(key, "\u2013")), formats.plain(theirs.get(key, "\u2013")))
        for key in sorted(ours.keys() | theirs.keys())
        if ours.get(key) != theirs.get(key)
    ]


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def figures(first: Run, second: Run) -> list[dict[str, str]]:
    """The headline figures of both runs and the change from the first to the second."""
    rows: list[tuple[str, Any, float | None, float | None]] = []
    ours, theirs = ({row["arm"]: row["accuracy"] for row in outcome.accuracies(run)} for run in (first, second))
    rows += [(f"accuracy of {arm}", formats.percent, ours.get(arm), theirs.get(arm)) for arm in ours | theirs]
    for criterion in dict.fromkeys(c["id"] for run in (first, second) for c in outcome.criteria(run)):
        values = [_criterion(run, criterion) for run in (first, second)]
        for key in ("estimate", "lower"):
            rows.append((f"{criterion}, {key}", formats.points, values[0].get(key), values[1].get(key)))
    funnels = [making.funnel(run) for run in (first, second)]
    yields = [found.accepted / found.judged if found and found.judged else None for found in funnels]
    rows.append(("yield of the filter", formats.percent, yields[0], yields[1]))
    bounds = [run.audit["error_rate_upper_bound"] if run.audit else None for run in (first, second)]
    rows.append(("label error rate, upper bound", formats.percent, bounds[0], bounds[1]))
    gates = [{c["metric"]: c["value"] for c in run.gate["checks"]} if run.gate else {} for run in (first, second)]
    rows += [(metric, formats.number, gates[0].get(metric), gates[1].get(metric)) for metric in gates[0] | gates[1]]
    return [
        {"name": name, "first": show(a), "second": show(b), "change": _change(show, a, b)} for name, show, a, b in rows
    ]


def _criterion(run: Run, criterion: str) -> Mapping[str, Any]:
    return next((c for c in outcome.criteria(run) if c["id"] == criterion), {})


def _change(show: Any, first: float | None, second: float | None) -> str:
    if first is None or second is None:
        return ""
    if first == second:
        return "same"
    return f"{formats.points(second - first)} points" if show is not formats.number else f"{second - first:+.4g}"


def same_items(first: Run, second: Run) -> list[dict[str, Any]]:
    """For each arm evaluated in both runs: items gained and lost, and whether the checkpoint is the same."""
    out = []
    for arm in first.evaluations:
        if arm not in second.evaluations:
            continue
        ours, theirs = ({row.item_id: row.correct for row in run.evaluations[arm]} for run in (first, second))
        shared = ours.keys() & theirs.keys()
        digests = [run.trainings[arm].checkpoint["digest"] if arm in run.trainings else None for run in (first, second)]
        out.append(
            {
                "arm": arm,
                "n": len(shared),
                "gained": sum(theirs[i] and not ours[i] for i in shared),
                "lost": sum(ours[i] and not theirs[i] for i in shared),
                "checkpoint": "same" if digests[0] == digests[1] else "other",
            }
        )
    return out


def reward_curves(first: Run, second: Run, names: Sequence[str]) -> list[str]:
    """One chart an arm: its reward in both runs."""
    out: list[str] = []
    for arm in dict.fromkeys([*first.trainings, *second.trainings]):
        series = {
            name: (index, [row["step"] for row in run.trainings[arm].curve], [row["reward"] for row in run.trainings[arm].curve])
            for index, (name, run) in enumerate(zip(names, (first, second), strict=True), 1)
            if arm in run.trainings
        }  # fmt: skip
        out.append(charts.curves(f"compare-{len(out)}", arm, "mean reward", series, legend=True))
    return out


def reasons(first: Run, second: Run) -> list[tuple[str, int, int]]:
    """Rejections by reason in both runs, in the order of the checks."""
    counts = [run.rejected.counts if run.rejected else {} for run in (first, second)]
    order = [*REASONS, *sorted((counts[0].keys() | counts[1].keys()) - REASONS.keys())]
    return [(r, counts[0].get(r, 0), counts[1].get(r, 0)) for r in order if r in counts[0] or r in counts[1]]
