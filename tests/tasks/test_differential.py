"""The sandbox against CPython: no program may come back with another integer than CPython returns."""

from __future__ import annotations

import math
import random
import sys
from collections import Counter

import pytest

from selfgen.tasks.sandbox import LABEL_LIMIT, Sandbox
from tests.tasks.arithmetic import compensated_sum, program, reference

PROGRAMS = 20_000
PARTS = 4


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_random_arithmetic_programs_agree_with_cpython(part: int) -> None:
    wrong, refused, counts = [], [], Counter[str]()
    with Sandbox() as sandbox:
        for seed in range(part, PROGRAMS, PARTS):
            source = program(seed)
            kind, value = reference(source)
            outcome = sandbox.run(source)
            counts[f"{kind}/{outcome.status}"] += 1
            if outcome.status == "ok" and (kind, value) != ("int", outcome.value):
                wrong.append((seed, value, outcome))
            if kind == "int" and abs(value) <= LABEL_LIMIT and outcome.status != "ok":
                refused.append((seed, value, outcome))
    assert wrong == []
    assert refused == []
    assert counts["int/ok"] > 0.95 * PROGRAMS / PARTS


def _in_sandbox(sandbox: Sandbox, expressions: list[str], expected: list[str]) -> list[str]:
    """The expressions whose repr in the sandbox is not the expected one."""
    lines = [
        f"    if repr({e}) != {want!r}:\n        bad.append({i})"
        for i, (e, want) in enumerate(zip(expressions, expected, strict=True))
    ]
    code = "import math\n\ndef solve():\n    bad = []\n" + "\n".join(lines) + "\n    return -1 if not bad else bad[0]\n"
    outcome = sandbox.run(code)
    assert outcome.status == "ok", outcome
    return [] if outcome.value == -1 else [expressions[outcome.value or 0]]


def test_round_of_floats_is_cpythons_bit_for_bit() -> None:
    draw = random.Random(0)
    cases = []
    for _ in range(4000):
        digits = draw.randint(-4, 6)
        number = draw.choice(
            [
                draw.uniform(-1000, 1000),
                draw.randint(-(10**6), 10**6) / 8,
                draw.randint(-(10**6), 10**6) / 1000,
                draw.randint(0, 10**5) * 0.005,
                (draw.randint(0, 2000) + 0.5) * 10.0**-digits,
                draw.uniform(-1, 1) * 10.0 ** draw.randint(-300, 300),
                draw.randint(-(10**18), 10**18) * 1.0,
            ]
        )
        cases.append((number, digits))
    cases += [
        (x, n)
        for x in (0.0, -0.0, 0.5, 1.5, 2.5, 1e308, 5e-324, 2.675, -2.5)
        for n in (-400, -309, -308, -1, 0, 1, 2, 17, 323, 324, 400)
    ]
    cases = [(x, n) for x, n in cases if _rounds(x, n)]
    with Sandbox() as sandbox:
        for start in range(0, len(cases), 100):
            chunk = cases[start : start + 100]
            expressions = [f"round({x!r}, {n})" for x, n in chunk]
            assert _in_sandbox(sandbox, expressions, [repr(round(x, n)) for x, n in chunk]) == []


def _rounds(number: float, digits: int) -> bool:
    try:
        round(number, digits)
    except OverflowError:
        return False
    return True


@pytest.mark.parametrize(
    "expression",
    [
        "round(float('nan'), 2)",
        "round(float('inf'), 2)",
        "round(7, -1)",
        "round(15, -1)",
        "round(25, -1)",
        "round(True, 1)",
        "round(2.5)",
        "round(3.5, None)",
        "round(2.675, ndigits=2)",
        "round(number=2.675, ndigits=2)",
        "round(1234.5, True)",
        "sum([])",
        "sum([1, 2, 3])",
        "sum([1, 2], 10)",
        "sum((True, True, 1))",
        "sum([0.5, True])",
        "sum(range(5), 0.5)",
        "sum([[1], [2]], [])",
        "sum({1: 2.5, 3: 4}.values())",
        "sum(map(float, ['0.1'] * 3))",
        "sum(x for x in [0.25, 0.5])",
        "sum({1, 2, 3})",
    ],
)
def test_redefined_builtins_keep_their_other_uses(expression: str) -> None:
    names = {} if sys.version_info >= (3, 12) else {"sum": compensated_sum}
    with Sandbox() as sandbox:
        assert _in_sandbox(sandbox, [expression], [repr(eval(expression, names))]) == []


@pytest.mark.parametrize(
    "expression",
    [
        "round('x', 1)",
        "round(2.5, 1.5)",
        "round(2.5, 'x')",
        "sum(5)",
        "sum(['a'])",
        "sum(['a'], '')",
        "sum([None, 1.5])",
    ],
)
def test_redefined_builtins_still_refuse_what_they_refused(expression: str) -> None:
    with pytest.raises(TypeError):
        eval(expression)
    with Sandbox() as sandbox:
        outcome = sandbox.run(f"def solve():\n    return len(repr({expression}))\n")
        assert outcome.status == "error"
        assert "TypeError" in outcome.detail


def test_float_sums_are_compensated_as_in_cpython_since_3_12() -> None:
    """Values documented or known for 3.12: the older interpreter that may run this test gives others."""
    known = {
        "sum([0.1] * 10)": "1.0",
        "sum([1e100, 1.0, -1e100])": "1.0",
        "sum([0.1, 0.2, 0.3])": "0.6",
        "sum([1e16, 1.0, 1.0])": "1.0000000000000002e+16",
        "sum([0.1] * 3, 0.1)": "0.4",
        "sum([float('inf'), 1.0])": "inf",
        "sum([float('inf'), float('-inf')])": "nan",
        "sum([1.1, 10**20, 2.2])": repr(1.1 + 1e20 + 2.2),
    }
    with Sandbox() as sandbox:
        assert _in_sandbox(sandbox, list(known), list(known.values())) == []


def test_float_sums_agree_with_cpython_on_random_lists() -> None:
    draw = random.Random(1)
    total = sum if sys.version_info >= (3, 12) else compensated_sum
    lists = [
        [
            draw.choice([draw.randint(0, 10**4) / 100, draw.uniform(-1, 1), draw.randint(-5, 5)])
            for _ in range(draw.randint(1, 12))
        ]
        for _ in range(1000)
    ]
    with Sandbox() as sandbox:
        for start in range(0, len(lists), 50):
            chunk = lists[start : start + 50]
            assert (
                _in_sandbox(sandbox, [f"sum({items})" for items in chunk], [repr(total(items)) for items in chunk])
                == []
            )
    exact = [math.fsum(items) for items in lists]
    assert max(abs(total(items) - e) for items, e in zip(lists, exact, strict=True)) < 1e-12


EXACT = [
    *("sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "degrees", "radians", "floor", "ceil", "trunc", "fabs", "isqrt"),
]


@pytest.mark.parametrize("name", [name for name in EXACT if hasattr(math, name)])
def test_math_functions_that_may_run_are_cpythons_to_the_last_digit(name: str) -> None:
    draw = random.Random(2)
    expressions, expected = [], []
    for _ in range(400):
        value = draw.choice(
            [draw.uniform(0, 1), round(draw.uniform(0.01, 30), 2), draw.randint(0, 40), draw.uniform(-3, 3)]
        )
        try:
            expected.append(repr(getattr(math, name)(value)))
        except (ValueError, TypeError):
            continue
        expressions.append(f"math.{name}({value!r})")
    with Sandbox() as sandbox:
        for start in range(0, len(expressions), 100):
            assert _in_sandbox(sandbox, expressions[start : start + 100], expected[start : start + 100]) == []


def test_programs_and_references_are_fixed_by_their_seed() -> None:
    assert program(7) == program(7)
    assert len({program(seed) for seed in range(500)}) == 500
    assert {reference(program(seed))[0] for seed in range(500)} >= {"int", "raises"}
