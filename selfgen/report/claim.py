"""The claim in words: what the verdict allows one to say, and what it does not.

The registered rule alone gives the verdict. The sentence says no more than it, and says less where a control arm
forbids it: an arm trained with random rewards that does as well as the treated arm shows that the data did not do it,
so without beating that control the sentence never says that self-generated data replaces curated data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from selfgen.report.comparing import Comparison, compare
from selfgen.report.formats import percent, points, weights
from selfgen.report.run import BASE, Run

TREATED, CURATED = "rl_selfgen", "rl_gsm8k"
LEVEL = 0.05  # one-sided level of the control comparisons, shared out among them (Bonferroni)


@dataclass(frozen=True)
class Control:
    """The treated arm against one control arm. `beaten` at LEVEL divided by the number of controls."""

    arm: str
    what: str
    comparison: Comparison
    random: bool
    beaten: bool


@dataclass(frozen=True)
class Claim:
    """`verdict` (of the rule, or "stopped"), the sentence, and the limits as sentences."""

    verdict: str
    sentence: str
    replaces: bool
    limits: Sequence[str]
    controls: Sequence[Control]


def controls(run: Run) -> list[Control]:
    """Every evaluated arm besides base, the curated and the treated one, compared with the treated arm."""
    others = [arm for arm in run.evaluations if arm not in (BASE, TREATED, CURATED)]
    if TREATED not in run.evaluations:
        return []
    found = []
    for arm in others:
        comparison = compare(run.evaluations, TREATED, arm)
        is_random = run.params.arms[arm].reward == "random"
        found.append(
            Control(arm, describe_arm(run, arm), comparison, is_random, comparison.p_better <= LEVEL / len(others))
        )
    return found


def describe_arm(run: Run, arm: str) -> str:
    """What an arm trains on, in words."""
    if arm == BASE:
        return "untrained"
    own = run.params.arms[arm]
    data = {
        "curated": "curated problems",
        "tasks": "its own audited tasks",
        "curated_banded": "curated problems in the tasks' pass-rate band",
        "mixed": "half curated problems, half its own tasks",
        "one_task": "one task, again and again",
        "imported": "another project's problems",
    }.get(own.data, own.data)
    seed = f", seed {own.seed}" if own.seed is not None and own.seed != run.params.seed else ""
    return f"{data}{', random reward' if own.reward == 'random' else ''}{seed}"


def make(run: Run) -> Claim:
    """The claim of a run; of one that was stopped, where and why."""
    if run.decision is None:
        return Claim("stopped", _stopped(run), False, limits(run, []), [])
    found = controls(run)
    verdict = run.decision["verdict"]
    randoms = [control for control in found if control.random]
    beaten = bool(randoms) and all(control.beaten for control in randoms)
    replaces = verdict == "validated" and beaten
    return Claim(verdict, _sentence(run, verdict, randoms, replaces), replaces, limits(run, found), found)


def _sentence(run: Run, verdict: str, randoms: Sequence[Control], replaces: bool) -> str:
    decision = run.decision or {}
    accuracy = {arm: entry["accuracy"] for arm, entry in decision["accuracies"].items()}
    n = decision["n"]
    scores = (
        f"{percent(accuracy[TREATED])} after RL on its own audited tasks, {percent(accuracy[CURATED])} after the same RL on "
        f"curated problems, {percent(accuracy[BASE])} untrained"
        if {TREATED, CURATED, BASE} <= accuracy.keys()
        else ", ".join(f"{arm} {percent(value)}" for arm, value in accuracy.items())
    )
    lead = f"On {n:,} test items {run.params.model.name} scores {scores}."
    if verdict == "validated":
        held = " and ".join(
            f"{weights(c['weights'])} lies above {points(c['margin'])} points" for c in decision["criteria"]
        )
        lead += (
            f" Both registered criteria hold at {percent(1 - decision['alpha'], 0)} simultaneous confidence: {held}."
        )
        if len(decision["criteria"]) != 2:
            lead = lead.replace(" Both registered criteria hold", " Every registered criterion holds")
        if replaces:
            return (
                f"{lead} It also beats training on random rewards: for these checkpoints, self-generated tasks could "
                "replace the curated ones."
            )
        if not randoms:
            return (
                f"{lead} No arm was trained with random rewards, so this run cannot tell the tasks' own worth from what RL "
                "does with any reward."
            )
        best = min(randoms, key=lambda control: control.comparison.difference)
        return (
            f"{lead} But it does not beat {best.arm}, trained with random rewards ({points(best.comparison.difference)} "
            "points): the improvement is not shown to come from the tasks."
        )
    if verdict == "failed":
        lost = " and ".join(
            f"{weights(c['weights'])} lies below {points(c['margin'])} points"
            for c in decision["criteria"]
            if c["verdict"] == "failed"
        )
        return f"{lead} The claim fails: {lost}, with {percent(1 - decision['alpha'], 0)} simultaneous confidence."
    open_ = [c for c in decision["criteria"] if c["verdict"] == "inconclusive"]
    told = " and ".join(
        f"{weights(c['weights'])} is {points(c['estimate'])} points, give or take {abs(100 * c['half_width']):.1f}, against a "
        f"margin of {points(c['margin'])}"
        for c in open_
    )
    return f"{lead} The registered rule cannot decide: {told}."


def _stopped(run: Run) -> str:
    if run.audit is not None and not run.audit["passed"]:
        return f"Stopped by the audit before any training: {'; '.join(run.audit['failures'])}."
    if run.gate is not None and not run.gate["passed"]:
        failed = [check["metric"] for check in run.gate["checks"] if not check["passed"]]
        failed += [need["name"] for need in run.gate["requirements"] if not need["passed"]]
        return f"Stopped by the gate before any training: {', '.join(failed)}."
    if run.preflight is not None and not run.preflight["passed"]:
        return "Stopped by the preflight before any training."
    return "Not finished: there is no verdict yet."


def limits(run: Run, found: Sequence[Control]) -> list[str]:
    """What the run does not show, one sentence each, made from what it is."""
    params = run.params
    seeds = sorted({params.arm_seed(arm) for arm in params.arms})
    out = []
    if params.service.kind == "embedded" and params.model.name.startswith("selfgen/"):
        out.append(
            "The model is a toy of a few million parameters, trained on templated problems like those it is tested on. It shows "
            "that the pipeline works; it is no evidence about Qwen or any other real model."
        )
    if params.curated.loader == "standin":
        out.append("The curated set is a templated stand-in, not GSM8K.")
    out.append(
        f"{'One training seed' if len(seeds) == 1 else f'{len(seeds)} training seeds'}: the intervals cover the choice of test "
        "items, not the luck of a training run."
    )
    curated = _gain_of_curated(run)
    if curated is not None and curated.p_better > LEVEL:
        out.append(
            f"RL on curated problems itself shows no clear gain over base ({points(curated.difference)} points), so half of that "
            "gain is little to recover."
        )
    if run.decision is not None and not any(control.random for control in found):
        out.append("No random-reward control was run: any reward at all might do as well.")
    if run.decision is not None and "curated_banded" not in {own.data for own in params.arms.values()}:
        out.append(
            "The tasks were picked by pass rate and the curated problems were not, so source and difficulty are confounded "
            "(an arm on curated problems of the same pass rates would separate them)."
        )
    if run.audit is not None:
        out.append(
            f"The audit bounds the label error rate at {percent(run.audit['error_rate_upper_bound'], 2)} "
            f"({percent(run.audit['confidence'], 0)} confidence), not at zero."
        )
    loose = _loose_overlaps(run)
    if loose:
        out.append(
            f"Exact copies of test questions are ruled out; {loose} of the tasks resemble one by a looser measure and were "
            "kept, as registered."
        )
    out.append("The estimate is about these test items and this prompt, extractor and token limit.")
    return out


def _gain_of_curated(run: Run) -> Comparison | None:
    if CURATED not in run.evaluations or BASE not in run.evaluations:
        return None
    return compare(run.evaluations, CURATED, BASE)


def _loose_overlaps(run: Run) -> int:
    if run.overlap is None:
        return 0
    kept: Any = {match["task_id"] for match in run.overlap.get("matches", []) if match["detector"] != "exact"}
    return len(kept)
