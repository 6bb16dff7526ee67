"""The gate before training: five activation checks, computed from what was recorded and never from intention.

Input is the pilot's rollouts (`Rollout` rows read back from the stock loop), the audited task set, the curated
train set, and the verdicts of audit and preflight. Output is a `GateReport`: its JSON holds nothing volatile, so
a re-timed pilot does not retrain an arm. The caller writes it first and raises afterwards, so evidence of a
failed gate always exists.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from selfgen.errors import GateError, ParamsError
from selfgen.manifest import sha256_file
from selfgen.params import Bound
from selfgen.records import CuratedRow, Rollout, Task, read_json, read_jsonl, write_json

TREATMENT, BASELINE = "rl_selfgen", "rl_gsm8k"
FAILED = "review/failed_gates"
TASKS, TRAIN, TEST = "data/filter/tasks.jsonl", "data/curated/train.jsonl", "data/curated/test.jsonl"
PILOT = {arm: f"data/pilot/{arm}/rollouts.jsonl" for arm in (TREATMENT, BASELINE)}


@dataclass(frozen=True)
class Evidence:
    """What a check may look at: the two arms' pilot rollouts, and ids and rows of the sets they should come from."""

    treatment: Sequence[Rollout]
    baseline: Sequence[Rollout]
    task_ids: Collection[str]
    curated_ids: Collection[str]
    overlaps: int
    tasks: Sequence[Task] = ()


@dataclass(frozen=True)
class Measure:
    """A check's function, in words what it measures, what to do when it fails, and the files it is computed from."""

    function: Callable[[Evidence], float]
    measures: str
    advice: str
    source: tuple[str, ...]


CHECKS: dict[str, Measure] = {}


def check(
    measures: str, advice: str, *source: str
) -> Callable[[Callable[[Evidence], float]], Callable[[Evidence], float]]:
    """Make a function an activation check under its own name; an entry of `params.gate` bounds it and switches it on."""

    def enter(function: Callable[[Evidence], float]) -> Callable[[Evidence], float]:
        CHECKS[function.__name__] = Measure(function, measures, advice, source)
        return function

    return enter


@dataclass(frozen=True)
class Check:
    """One activation check: inclusive bounds, the measured value, and the files the value was computed from."""

    metric: str
    measures: str
    value: float
    min: float | None
    max: float | None
    passed: bool
    source: tuple[str, ...]


@dataclass(frozen=True)
class Requirement:
    """A verdict of an earlier stage that training needs. `detail` says what it found."""

    name: str
    passed: bool
    detail: str
    source: str
    advice: str


@dataclass(frozen=True)
class GateReport:
    """All checks and requirements; passed only when every one did."""

    checks: tuple[Check, ...]
    requirements: tuple[Requirement, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks) and all(need.passed for need in self.requirements)

    def to_json(self) -> dict[str, Any]:
        """data/gate/gate.json."""
        return {
            "passed": self.passed,
            "checks": [asdict(check) for check in self.checks],
            "requirements": [asdict(need) for need in self.requirements],
        }

    def metrics(self) -> dict[str, Any]:
        """metrics/gate.json: one number a check, under the registered metric name."""
        return {check.metric: check.value for check in self.checks} | {"passed": self.passed}

    def failures(self) -> list[str]:
        """One line a failure: what was measured, what was allowed, what to do next. Requirements come first."""
        lines = [f"{need.name}: {need.detail}; {need.advice}" for need in self.requirements if not need.passed]
        lines += [
            f"{check.metric} is {check.value:.4g}, allowed {_interval(check)}; {CHECKS[check.metric].advice}"
            for check in self.checks
            if not check.passed
        ]
        return lines

    def raise_if_failed(self) -> None:
        """Stop before training. Call it after `to_json` was written.

        Raises:
            GateError: naming the first check that failed, and how many others did.
        """
        failures = self.failures()
        if failures:
            more = f" (and {len(failures) - 1} more, see data/gate/gate.json)" if len(failures) > 1 else ""
            raise GateError(f"gate: {failures[0]}{more}")

    def table(self) -> str:
        """The page a user sees."""
        width = max(len(check.metric) for check in self.checks)
        lines = [f"{'activation check':{width}}  {'value':>8}  {'allowed':>12}  verdict"]
        for check in self.checks:
            lines.append(
                f"{check.metric:{width}}  {check.value:8.4g}  {_interval(check):>12}  "
                f"{'passed' if check.passed else 'FAILED'}"
            )
        lines += [
            f"{need.name:{width}}  {'':8}  {'':12}  {'passed' if need.passed else 'FAILED'}"
            for need in self.requirements
        ]
        lines += ["", "measured from"]
        lines += [f"  {check.metric}: {', '.join(check.source)}" for check in self.checks]
        lines += [f"  {need.name}: {need.source} ({need.detail})" for need in self.requirements]
        lines += ["", f"gate: {'passed, training may start' if self.passed else 'FAILED, training must not start'}"]
        lines += [f"  {failure}" for failure in self.failures()]
        return "\n".join(lines)


def _interval(bound: Check) -> str:
    if bound.min is not None and bound.min == bound.max:
        return f"= {bound.min:g}"
    if bound.max is None:
        return f">= {bound.min:g}"
    if bound.min is None:
        return f"<= {bound.max:g}"
    return f"{bound.min:g} to {bound.max:g}"


def groups(rollouts: Iterable[Rollout]) -> dict[tuple[int, int], list[Rollout]]:
    """Rollouts by (step, group), in order of first appearance."""
    found: dict[tuple[int, int], list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        found[rollout.step, rollout.group].append(rollout)
    return dict(found)


def fraction_from(rollouts: Iterable[Rollout], ids: Collection[str]) -> float:
    """Share of trained problems (one a group) whose id is in `ids`; 0 when nothing was trained on."""
    problems = [group[0].problem_id for group in groups(rollouts).values()]
    return sum(problem in ids for problem in problems) / len(problems) if problems else 0.0


def mixed_fraction(rollouts: Iterable[Rollout]) -> float:
    """Share of groups whose rewards are not all equal: only these give GRPO an advantage. 0 without groups."""
    members = list(groups(rollouts).values())
    return sum(len({r.reward for r in group}) > 1 for group in members) / len(members) if members else 0.0


def mean_reward(rollouts: Iterable[Rollout]) -> float:
    """Mean reward over all rollouts; 0 without any."""
    rewards = [rollout.reward for rollout in rollouts]
    return math.fsum(rewards) / len(rewards) if rewards else 0.0


@check(
    f"share of {TREATMENT} training problems whose ids are in the audited generated manifest",
    "the arm did not train on the audited tasks: re-run its pilot with `dvc repro`",
    PILOT[TREATMENT],
    TASKS,
)
def treatment_fraction_batches_from_generated_set(found: Evidence) -> float:
    return fraction_from(found.treatment, found.task_ids)


@check(
    f"share of {BASELINE} training problems whose ids are in the curated train manifest",
    "the arm did not train on the curated train set: re-run its pilot with `dvc repro`",
    PILOT[BASELINE],
    TRAIN,
)
def baseline_fraction_batches_from_gsm8k_train(found: Evidence) -> float:
    return fraction_from(found.baseline, found.curated_ids)


@check(
    f"share of {TREATMENT} groups in the pilot steps with mixed rewards",
    "too few groups give an advantage: narrow filter.solve to harder or easier tasks",
    PILOT[TREATMENT],
)
def selfgen_frac_groups_nonzero_reward_variance_pilot(found: Evidence) -> float:
    return mixed_fraction(found.treatment)


@check(
    f"mean reward on {TREATMENT} pilot steps",
    "tasks are too easy or too hard for the model: narrow filter.solve",
    PILOT[TREATMENT],
)
def selfgen_mean_train_reward_pilot(found: Evidence) -> float:
    return mean_reward(found.treatment)


@check(
    "normalised exact matches between accepted tasks and the evaluation questions",
    "evaluation questions are in the training set: run `selfgen repair`, then `dvc repro`",
    TASKS,
    TEST,
)
def generated_eval_exact_overlaps(found: Evidence) -> float:
    return float(found.overlaps)


REGISTERED = tuple(CHECKS)
"""The five checks of the registered plan, which no params may leave out."""


def evaluate(bounds: Mapping[str, Bound], evidence: Evidence, requirements: Iterable[Requirement] = ()) -> GateReport:
    """The checks that `bounds` (`params.gate`) names.

    Raises:
        ParamsError: `bounds` lacks one of the five registered metrics, or names one that no check measures.
    """
    for name in (*(n for n in REGISTERED if n not in bounds), *(n for n in bounds if n not in CHECKS)):
        problem = "unknown metric" if name in bounds else "missing"
        raise ParamsError(f"params.yaml: gate.{name}: {problem}; the metrics are {', '.join(CHECKS)}")
    checks = []
    for metric, own in CHECKS.items():
        if metric in bounds:
            value, low, high = own.function(evidence), bounds[metric].min, bounds[metric].max
            passed = (low is None or value >= low) and (high is None or value <= high)
            checks.append(Check(metric, own.measures, value, low, high, passed, own.source))
    return GateReport(tuple(checks), tuple(requirements))


def from_files(bounds: Mapping[str, Bound], root: str | Path = ".") -> GateReport:
    """Evaluate the gate on the artifacts under `root`, as the stages wrote them.

    Overlaps are counted again, from the accepted tasks and the curated test questions.
    """
    from selfgen.tasks.overlap import OverlapIndex

    data = Path(root) / "data"
    tasks = list(read_jsonl(data / "filter/tasks.jsonl", Task))
    train = {row.id for row in read_jsonl(data / "curated/train.jsonl", CuratedRow)}
    index = OverlapIndex.build(read_jsonl(data / "curated/test.jsonl", CuratedRow))
    pilots = {arm: list(read_jsonl(Path(root) / path, Rollout)) for arm, path in PILOT.items()}
    evidence = Evidence(
        treatment=pilots[TREATMENT],
        baseline=pilots[BASELINE],
        task_ids={task.id for task in tasks},
        curated_ids=train,
        overlaps=sum(index.exact(task.problem) is not None for task in tasks),
        tasks=tasks,
    )
    return evaluate(bounds, evidence, requirements(root))


def requirements(root: str | Path = ".") -> tuple[Requirement, ...]:
    """Audit and preflight as requirements. The audit must be of the very task set that stands there now."""
    data = Path(root) / "data"
    audit = read_json(data / "audit/audit.json")
    same = audit["tasks_sha256"] == sha256_file(data / "filter/tasks.jsonl")
    detail = (
        f"{audit['label_errors']} label errors and {audit['eval_overlaps']} overlaps in {audit['sample']} of "
        f"{audit['population']} tasks, round {audit['round']}"
    )
    if audit["failures"]:
        detail = "; ".join(audit["failures"])
    preflight = read_json(data / "preflight/preflight.json")
    failed = [str(check.get("name", check)) for check in preflight.get("checks", []) if not check.get("passed")]
    return (
        Requirement(
            "audit",
            bool(audit["passed"]) and same,
            detail if same else "the audited task set is not the one in data/filter/tasks.jsonl",
            "data/audit/audit.json",
            "run `selfgen repair`, then `dvc repro`" if same else "run `dvc repro`",
        ),
        Requirement(
            "preflight",
            bool(preflight["passed"]) and not failed,
            f"failed: {', '.join(failed)}" if failed else "all checks hold",
            "data/preflight/preflight.json",
            "both arms must start equal: see data/preflight/preflight.json, then `dvc repro`",
        ),
    )


def evaluate_and_write(bounds: Mapping[str, Bound], root: str | Path = ".") -> GateReport:
    """Evaluate, then write data/gate/gate.json and metrics/gate.json; the caller prints and raises afterwards.

    DVC keeps a failed stage's outputs in the workspace but not in its cache, and deletes them before the next try.
    So a failed gate is also written to review/failed_gates, under a name made of its content, where DVC never looks.
    """
    report = from_files(bounds, root)
    write_json(Path(root) / "data/gate/gate.json", report.to_json())
    write_json(Path(root) / "metrics/gate.json", report.metrics())
    if not report.passed:
        name = sha256_file(Path(root) / "data/gate/gate.json")[:16]
        write_json(Path(root) / FAILED / f"{name}.json", report.to_json())
    return report
