"""The decision of one run, from its files: verdict, sensitivity, noise floor and registration in one document."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfgen.decision import hoeffding
from selfgen.decision.pairing import Paired, pair, read_arms
from selfgen.decision.prereg import registration
from selfgen.decision.sensitivity import sensitivity
from selfgen.decision.verdict import check_rule, decide
from selfgen.evaluation.noise import flips
from selfgen.records import CuratedRow, EvalRow, read_jsonl

if TYPE_CHECKING:
    from selfgen.params import Params

BASE = "base"


def decide_files(params: Params, data: Path = Path("data"), root: Path = Path(".")) -> dict[str, Any]:
    """The content of decision.json.

    Args:
        params: all params; `decision` and `arms` are used, and the plan is compared with all of them.
        data: the artifact folder; eval/<arm>/rows.jsonl and curated/test.jsonl are read, and
            eval/<arm>/rows_again.jsonl where an arm was evaluated twice.
        root: the checkout, where the registered plan and git are.

    Raises:
        ParamsError: the rule makes no sense.
        DataError: rows are missing, malformed or cannot be paired.
    """
    check_rule(params.decision)
    arms = evaluated(params, data)
    items = [row.id for row in read_jsonl(data / "curated/test.jsonl", CuratedRow)]
    rows = pair(read_arms({arm: data / "eval" / arm / "rows.jsonl" for arm in arms}), items)
    decision = decide(rows, params.decision)
    left = [arm for arm in params.arms if arm not in arms]
    return (
        decision.to_json()
        | ({"not_evaluated": left} if left else {})
        | {
            "sensitivity": sensitivity(rows, params.decision, params.decision.exclude),
            "noise_floor": noise_floor(params, rows, data),
            "registration": registration(params, items, arms, data, root),
        }
    )


def evaluated(params: Params, data: Path) -> list[str]:
    """The base model, every arm that a criterion compares, and each other arm whose evaluation is there.

    `dvc repro decide` evaluates every arm first. A run that was stopped before its last control can still be decided,
    by the stage's own command, and says which arm is missing.
    """
    compared = params.decision.compared
    there = [arm for arm in params.arms if arm in compared or (data / "eval" / arm / "rows.jsonl").is_file()]
    return [BASE, *there]


def noise_floor(params: Params, rows: Paired, data: Path) -> dict[str, Any]:
    """What happens when nothing differs: twice-evaluated checkpoints, and arms that differ by their seed alone.

    `evaluated_twice` holds each arm's greedy flip rate, `same_recipe` the accuracy difference of two arms on equal
    data with its Hoeffding interval (one comparison, the rule's alpha). Neither decides.
    """
    twice = {}
    for arm in rows.scores:
        path = data / "eval" / arm / "rows_again.jsonl"
        again = list(read_jsonl(path, EvalRow)) if path.is_file() else []
        if again:  # a stage that always declares the file leaves it without rows
            found = flips(list(read_jsonl(data / "eval" / arm / "rows.jsonl", EvalRow)), again)
            twice[arm] = found | {"changed_text": len(found["changed_text"])}
    half = hoeffding.half_width(rows.n, 2, params.decision.alpha, 1)
    same = []
    for first, second in same_recipe(params):
        if not {first, second} <= rows.scores.keys():
            continue
        estimate = float(rows.mean(second) - rows.mean(first))
        same.append(
            {
                "first": first,
                "second": second,
                "difference": estimate,
                "lower": estimate - half,
                "upper": estimate + half,
            }
        )
    return {"decides": False, "evaluated_twice": twice, "same_recipe": same}


def same_recipe(params: Params) -> list[tuple[str, str]]:
    """Pairs of arms (A/A) whose params are equal but for the seed."""
    recipes = {arm: p.model_dump(exclude={"seed"}) for arm, p in params.arms.items()}
    names = list(recipes)
    return [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if recipes[a] == recipes[b]]
