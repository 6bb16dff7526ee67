import math
import random
from fractions import Fraction

import numpy as np
import pytest

from selfgen.decision.pairing import exact_sum, items_digest, pair, read_arms
from selfgen.errors import DataError
from selfgen.records import EvalRow, write_jsonl
from tests.decision.rules import rows


def test_rows_are_matched_by_id_not_by_place():
    a = [("x", True), ("y", False), ("z", False)]
    b = [("z", True), ("x", False), ("y", True)]
    paired = pair({"a": a, "b": b})
    assert list(paired.items) == ["x", "y", "z"]
    assert paired.scores["b"].tolist() == [False, True, True]
    assert paired.mean("b") == Fraction(2, 3)


def test_item_list_sets_the_order_and_catches_what_all_arms_lack():
    a = [("y", 1), ("x", 0)]
    assert pair({"a": a}, items=["x", "y"]).scores["a"].tolist() == [0, 1]
    with pytest.raises(DataError, match="arm a lacks item 'z'"):
        pair({"a": a, "b": a}, items=["x", "y", "z"])


@pytest.mark.parametrize(
    ("b", "message"),
    [
        ([("x", 1)], "arm b lacks item 'y'"),
        ([("x", 1), ("y", 1), ("q", 1)], "arm b has an unexpected item 'q'"),
        ([("x", 1), ("y", 1), ("y", 1)], "arm b: item 'y' appears more than once"),
        ([("x", 1), ("x", 1)], "arm b: item 'x' appears more than once"),
        ([("q", 1), ("y", 1), ("q", 1)], "arm b: item 'q' appears more than once"),
        ([], "arm b: no evaluation rows"),
        ([("x", 1), ("y", math.nan)], "every score must be a finite number"),
        ([("x", 1), ("y", "1")], "every score must be a finite number"),
        ([("x", 1), ("y", None)], "every score must be a finite number"),
    ],
)
def test_rows_that_cannot_be_paired_are_an_error_in_one_line(b, message):
    with pytest.raises(DataError, match=message) as caught:
        pair({"a": [("x", 1), ("y", 0)], "b": b})
    assert "\n" not in str(caught.value)


def test_duplicates_in_the_first_arm_and_the_item_list_are_found():
    with pytest.raises(DataError, match="arm a: item 'x' appears more than once"):
        pair({"a": [("x", 1), ("x", 1)]})
    with pytest.raises(DataError, match="the item list: item 'x'"):
        pair({"a": [("x", 1)]}, items=["x", "x"])


def test_no_arm_is_an_error():
    with pytest.raises(DataError, match="no arm"):
        pair({})


def test_excluding_items_drops_them_from_every_arm_and_refuses_unknown_ids():
    paired = pair({"a": rows(2, 4), "b": rows(1, 4)}).without(["item-00000"])
    assert paired.n == 3
    assert paired.mean("a") == Fraction(1, 3)
    assert paired.mean("b") == 0
    with pytest.raises(DataError, match="'nope'"):
        paired.without(["nope"])


def test_float_scores_are_summed_without_rounding():
    rng = random.Random(0)
    values = [rng.choice([-1, 1]) * rng.random() * 10 ** rng.randint(-9, 9) for _ in range(5000)]
    assert exact_sum(np.array(values)) == sum(map(Fraction, values))
    assert exact_sum(np.array([0.1] * 5000)) == 5000 * Fraction(0.1)
    assert exact_sum(np.array([True, False, True])) == 2


def test_digest_names_the_set_of_items_whatever_their_order():
    assert items_digest(["b", "a"]) == items_digest(["a", "b"])
    assert items_digest(["a"]) != items_digest(["a", "b"])


def test_a_file_with_another_arms_rows_is_refused(tmp_path):
    row = EvalRow("i", "base", "1", "", 1, "stop", "1", True)
    write_jsonl(tmp_path / "rows.jsonl", [row])
    assert read_arms({"base": tmp_path / "rows.jsonl"}) == {"base": [("i", True)]}
    with pytest.raises(DataError, match="row of arm 'base' in the file of arm 'rl_gsm8k'"):
        read_arms({"rl_gsm8k": tmp_path / "rows.jsonl"})
