"""How the run was conducted: training curves, pilot and gate, cost against projection, and where everything came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from selfgen.report import charts
from selfgen.report.formats import plain
from selfgen.report.outcome import colours
from selfgen.report.run import BASE, Run

# Step metric -> (title, unit). The loop's own values; see training/results.py.
CURVES = {
    "reward": ("Mean reward", "reward"),
    "correct": ("Share of right answers", "share"),
    "mixed_groups": ("Groups with mixed rewards", "share"),
    "response_tokens": ("Response length", "tokens"),
    "entropy": ("Entropy of sampled tokens", "nats"),
    "kl_sample_train_v1": ("KL, sampler to trainer", "nats"),
}
STAGES = (
    ("curated", "curated"),
    ("generate", "generate"),
    ("filter", "filter"),
    ("audit", "audit"),
    ("preflight", "preflight"),
)


def curve_charts(run: Run) -> list[str]:
    """One chart a step metric, all arms on its axis; metrics that no arm has are left out."""
    palette, out = colours(run), []
    for key, (title, unit) in CURVES.items():
        series = {}
        for arm, training in run.trainings.items():
            rows = [row for row in training.curve if row.get(key) is not None]
            if rows:
                series[arm] = (palette[arm], [row["step"] for row in rows], [row[key] for row in rows])
        if series:
            out.append(charts.curves(f"curve-{key}", title, unit, series))
    return out


def allowed(check: Mapping[str, Any]) -> str:
    """A gate check's bounds in words."""
    low, high = check["min"], check["max"]
    if low is not None and low == high:
        return f"= {low:g}"
    if high is None:
        return f"at least {low:g}"
    return f"at most {high:g}" if low is None else f"{low:g} to {high:g}"


def cost(run: Run) -> list[dict[str, Any]]:
    """Projected against actual seconds of each phase. An evaluation answered from the journal takes no time again."""
    if run.feasibility is None:
        return []
    out = []
    for phase, projected in run.feasibility["phases"].items():
        kind, arm = phase.split(":", 1)
        actual = None
        if kind == "train" and arm in run.trainings:
            actual = run.trainings[arm].timing.get("wall_seconds")
        elif kind == "eval" and arm in run.eval_timings:
            actual = run.eval_timings[arm].get("seconds")
        out.append({"phase": f"{kind} {arm}", "projected": projected, "actual": actual})
    out.sort(key=lambda row: (not row["phase"].startswith("train"), _position(run, row["phase"].split(" ", 1)[1])))
    measured = [row["actual"] for row in out]
    known = [value for value in measured if value is not None]
    out.append(
        {
            "phase": "together",
            "projected": run.feasibility["wall_seconds"],
            "actual": sum(known) if known and len(known) == len(measured) else None,
        }
    )
    return out


def _position(run: Run, arm: str) -> int:
    return run.arms.index(arm) if arm in run.arms else len(run.arms)


def sources(run: Run) -> list[dict[str, Any]]:
    """Every artifact that a manifest hashes: stage, file, sha256, rows."""
    out = []
    for folder, statement in run.manifests.items():
        stage = statement["predicate"]["stage"]
        for subject in statement["subject"]:
            digest = subject["digest"]
            out.append(
                {
                    "folder": folder,
                    "stage": stage,
                    "name": subject["name"],
                    "sha256": digest.get("sha256") or digest.get("dirHash"),
                    "rows": subject.get("annotations", {}).get("rows"),
                }
            )
    return sorted(out, key=lambda row: (_stage_order(row["stage"]), row["name"]))


def _stage_order(stage: str) -> tuple[int, str]:
    order = ["curated", "generate", "filter", "audit", "preflight", "pilot", "train", "eval"]
    name = stage.split("@")[0]
    return (order.index(name) if name in order else len(order), stage)


def packages(run: Run) -> dict[str, str]:
    """Package versions, of the last stage that recorded them; a version that changed between stages shows both."""
    found: dict[str, list[str]] = {}
    for statement in run.manifests.values():
        for name, version in statement["predicate"]["packages"].items():
            if version not in found.setdefault(name, []):
                found[name].append(version)
    return {name: ", then ".join(versions) for name, versions in sorted(found.items())}


def services(run: Run) -> list[str]:
    """The services met, as the manifests describe them, each once."""
    found: list[str] = []
    for statement in run.manifests.values():
        service = statement["predicate"]["service"]
        if service:
            text = ", ".join(f"{key}: {plain(value)}" for key, value in sorted(service.items()) if value is not None)
            if text not in found:
                found.append(text)
    return found


def commits(run: Run) -> list[str]:
    """Git commits the stages ran at, each once, marked when the tree had changes."""
    found: list[str] = []
    for entry in run.provenance.values():
        git = entry.get("git", {})
        if git.get("commit"):
            text = git["commit"] + (" (with uncommitted changes)" if git.get("dirty") else "")
            if text not in found:
                found.append(text)
    return found


def commands(run: Run) -> list[tuple[str, str, str]]:
    """What to type to get each figure again: figure, command, what it needs."""
    rows = [
        ("every gate and the verdict, from the rows", "selfgen verify", "no service, no key"),
        ("the verdict and both intervals", "dvc repro --force --single-item decide", "no service"),
        ("verdict, accuracies, criteria as JSON", "dvc metrics show metrics/decision.json", "no service"),
        ("what the rule can validate at this n", "selfgen power", "no service"),
        ("the gate and the projected cost", "dvc repro --force --single-item gate", "no service"),
        ("the funnel", "dvc metrics show metrics/filter.json", "no service"),
        (
            "accepted tasks and reasons, from the candidates",
            "dvc repro --force --single-item filter",
            "samples: journal",
        ),
        ("overlaps by every detector", "selfgen overlap", "no service"),
        ("the audit", "dvc repro --force --single-item audit", "samples: journal"),
    ]
    rows += [
        (f"accuracy of {arm}", f"dvc repro --force --single-item {'eval_base' if arm == BASE else f'eval@{arm}'}",
         "samples: journal") for arm in run.arms
    ]  # fmt: skip
    rows += [
        (f"the curve of {arm}", f"dvc plots show data/train/{arm}/curve.csv", "no service") for arm in run.trainings
    ]
    rows += [("this page", "dvc repro --force --single-item report", "no service")]
    return rows
