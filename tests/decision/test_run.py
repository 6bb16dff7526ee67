import json

import pytest

from selfgen.decision.run import decide_files, noise_floor, same_recipe
from selfgen.errors import DataError
from selfgen.params import load
from selfgen.records import EvalRow, read_jsonl, write_jsonl
from tests.decision import project


@pytest.fixture
def here(tmp_path, root):
    checkout = tmp_path / "checkout"
    project.make(checkout, root / "params.yaml")
    return checkout, load(checkout / "params.yaml")


def test_decision_of_a_run_holds_all_its_parts(here):
    checkout, params = here
    document = json.loads(json.dumps(decide_files(params, checkout / "data", checkout), allow_nan=False))
    assert document["verdict"] == "inconclusive"
    assert document["n"] == project.N
    assert document["criteria"][0]["estimate"] == pytest.approx(5 / 60)
    assert document["sensitivity"]["decides"] is False
    assert document["registration"]["registered"] is False
    assert document["noise_floor"] == {"decides": False, "evaluated_twice": {}, "same_recipe": []}


def test_equal_files_give_equal_documents(here):
    checkout, params = here
    first = decide_files(params, checkout / "data", checkout)
    project.write_rows(checkout, 0)
    assert decide_files(params, checkout / "data", checkout) == first


def test_an_item_missing_from_every_arm_is_found(here):
    checkout, params = here
    for arm in project.ARMS:
        path = checkout / "data/eval" / arm / "rows.jsonl"
        write_jsonl(path, list(read_jsonl(path, EvalRow))[:-1])
    with pytest.raises(DataError, match="lacks item 'item-059'"):
        decide_files(params, checkout / "data", checkout)


def test_swapped_arm_files_are_found(here):
    checkout, params = here
    first, second = (checkout / "data/eval" / arm / "rows.jsonl" for arm in ("rl_gsm8k", "rl_selfgen"))
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)
    with pytest.raises(DataError, match="row of arm 'rl_selfgen' in the file of arm 'rl_gsm8k'"):
        decide_files(params, checkout / "data", checkout)


def test_flip_rate_of_an_arm_that_was_evaluated_twice(here):
    checkout, params = here
    folder = checkout / "data/eval/rl_gsm8k"
    rows = list(read_jsonl(folder / "rows.jsonl", EvalRow))
    again = [
        EvalRow(**{**vars(r), "correct": not r.correct, "completion": "other"}) if i < 3 else r
        for i, r in enumerate(rows)
    ]
    write_jsonl(folder / "rows_again.jsonl", again)
    write_jsonl(checkout / "data/eval/base/rows_again.jsonl", [])
    twice = decide_files(params, checkout / "data", checkout)["noise_floor"]["evaluated_twice"]
    assert twice.keys() == {"rl_gsm8k"}
    assert twice["rl_gsm8k"]["flip_rate"] == pytest.approx(3 / 60)
    assert twice["rl_gsm8k"]["changed_verdict"] == ["item-000", "item-001", "item-002"]


def test_arms_that_differ_by_seed_alone_show_the_difference_of_nothing(here):
    checkout, params = here
    twin = params.arms["rl_gsm8k"].model_copy(update={"seed": 1})
    params = params.model_copy(update={"arms": {**params.arms, "rl_gsm8k_again": twin}})
    assert same_recipe(params) == [("rl_gsm8k", "rl_gsm8k_again")]
    from selfgen.decision import pair
    from tests.decision.rules import rows

    paired = pair({"rl_gsm8k": rows(40, 100), "rl_gsm8k_again": rows(43, 100)})
    (found,) = noise_floor(params, paired, checkout / "data")["same_recipe"]
    assert found["difference"] == pytest.approx(0.03)
    assert found["upper"] - found["difference"] == pytest.approx(2 * (3.688879 / 200) ** 0.5, abs=1e-6)


def test_listed_items_are_left_out_beside_the_verdict_and_never_in_it(here):
    checkout, params = here
    rule = params.decision.model_copy(update={"exclude": ("item-000", "item-036")})
    document = decide_files(params.model_copy(update={"decision": rule}), checkout / "data", checkout)
    without = document["sensitivity"]["without_listed_items"]
    assert document["n"] == project.N
    assert without["n"] == project.N - 2
    assert without["accuracies"]["rl_selfgen"] == pytest.approx(38 / 58)
    assert without["accuracies"]["rl_gsm8k"] == pytest.approx(34 / 58)
