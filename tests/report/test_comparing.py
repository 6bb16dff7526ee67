"""Paired counts and the exact tests beside the rule."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from selfgen.errors import DataError
from selfgen.records import EvalRow
from selfgen.report.comparing import clopper_pearson, compare


def rows(arm: str, correct: Sequence[bool]) -> list[EvalRow]:
    return [EvalRow(f"i{k}", arm, "7", "", 1, "stop", "7", right) for k, right in enumerate(correct)]


def test_gained_and_lost_items_are_named() -> None:
    found = compare({"a": rows("a", [1, 1, 0, 0, 1]), "b": rows("b", [1, 0, 1, 0, 0])}, "a", "b")
    assert (found.both, found.neither, found.gained, found.lost) == (1, 1, ("i1", "i4"), ("i2",))
    assert found.difference == pytest.approx(0.2)


def test_p_value_equals_the_binomial_tail() -> None:
    found = compare({"a": rows("a", [True] * 8 + [False] * 2), "b": rows("b", [False] * 8 + [True] * 2)}, "a", "b")
    assert found.p_better == pytest.approx(sum(math.comb(10, k) for k in (8, 9, 10)) / 2**10)


@pytest.mark.parametrize(("a", "b"), [([True, True], [True, True]), ([False, True], [True, True])])
def test_without_a_gained_item_nothing_speaks_for_the_first_arm(a: list[bool], b: list[bool]) -> None:
    assert compare({"a": rows("a", a), "b": rows("b", b)}, "a", "b").p_better == 1.0


def test_arms_on_other_items_are_refused() -> None:
    with pytest.raises(DataError, match="different items"):
        compare({"a": rows("a", [True, True]), "b": rows("b", [True])}, "a", "b")


def test_clopper_pearson_has_its_published_values() -> None:
    assert clopper_pearson(0, 10, 0.05) == pytest.approx((0.0, 0.30850), abs=1e-5)
    assert clopper_pearson(10, 10, 0.05) == pytest.approx((0.69150, 1.0), abs=1e-5)
    assert clopper_pearson(81, 263, 0.05) == pytest.approx((0.2527, 0.3676), abs=1e-4)
