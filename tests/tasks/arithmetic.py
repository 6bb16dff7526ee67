"""Random grade-school-like programs, and what CPython says they return. For the differential test of the sandbox."""

from __future__ import annotations

import builtins
import math
import random
import sys
from collections.abc import Iterable
from typing import Any


def program(seed: int) -> str:
    """The source of a program with `solve()`, fixed by `seed`: a few assignments and an integer made of them."""
    draw = random.Random(seed)
    writer = _Writer(draw)
    lines = [writer.statement() for _ in range(draw.randint(1, 5))]
    lines.append(f"return {writer.integer(2)}")
    body = "".join(f"    {part}\n" for line in lines for part in line.split("\n"))
    return f"import math\n\n\ndef solve():\n{body}"


class _Writer:
    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.ints: list[str] = []
        self.floats: list[str] = []

    def pick(self, *makers: Any) -> str:
        return self.draw.choice(makers)()

    def statement(self) -> str:
        kind = self.draw.random()
        name = f"v{len(self.ints) + len(self.floats)}"
        if kind < 0.45:
            line = f"{name} = {self.integer(2)}"
            self.ints.append(name)
        elif kind < 0.8:
            line = f"{name} = {self.real(2)}"
            self.floats.append(name)
        elif kind < 0.9:
            step = self.draw.choice([self.cents(), self.small()])
            line = f"{name} = {self.cents()}\nfor i in range({self.draw.randint(1, 12)}):\n    {name} += {step}"
            self.floats.append(name)
        elif kind < 0.95:
            line = (
                f"{name} = {self.integer(1)}\nwhile {name} > {self.draw.randint(1, 90)}:\n    {name} = {name} // 2 - 1"
            )
            self.ints.append(name)
        else:
            line = f"{name} = {self.integer(1)}\nif {self.condition()}:\n    {name} -= {self.small()}\nelse:\n    {name} *= 3"
            self.ints.append(name)
        return line

    # Leaves.

    def small(self) -> str:
        return str(self.draw.choice([self.draw.randint(1, 12), self.draw.randint(-30, 120), self.draw.randint(2, 9)]))

    def cents(self) -> str:
        draw = self.draw
        return draw.choice(
            [
                f"{draw.randint(0, 200)}.{draw.randint(0, 99):02d}",
                f"{draw.randint(0, 40)}.{draw.randint(0, 999):03d}",
                f"{draw.randint(0, 20)}.{draw.randint(0, 99):02d}5",
                f"{draw.randint(-20, 60) / 8!r}",
                f"{draw.randint(1, 400) * 0.005!r}",
                draw.choice(
                    ["0.1", "0.2", "0.3", "2.675", "1.005", "0.07", "1e16", "0.5", "2.5", "1.1", "-0.0", "1e-7"]
                ),
            ]
        )

    def int_list(self) -> str:
        return "[" + ", ".join(self.small() for _ in range(self.draw.randint(1, 6))) + "]"

    def float_list(self) -> str:
        items = [self.draw.choice([self.cents(), self.cents(), self.small()]) for _ in range(self.draw.randint(2, 10))]
        return "[" + ", ".join(items) + "]"

    # Expressions of a depth.

    def integer(self, depth: int) -> str:
        if depth <= 0:
            return self.draw.choice([*self.ints, self.small()])
        sub = depth - 1
        draw = self.draw
        return self.pick(
            lambda: f"({self.integer(sub)} {draw.choice('+-*')} {self.integer(sub)})",
            lambda: f"({self.integer(sub)} {draw.choice(['//', '%'])} {self.integer(sub)})",
            lambda: f"({self.integer(sub)} {draw.choice(['//', '%'])} {draw.choice(['-7', '-3', '5', '12', '100'])})",
            lambda: f"round({self.real(sub)})",
            lambda: f"int({self.real(sub)})",
            lambda: f"int({self.real(sub)} * 100)",
            lambda: f"round({self.real(sub)} * 100)",
            lambda: f"math.floor({self.real(sub)})",
            lambda: f"math.ceil({self.real(sub)})",
            lambda: f"int({self.real(sub)} // {draw.choice(['0.1', '0.25', '1', '-0.5', '3'])})",
            lambda: f"abs({self.integer(sub)})",
            lambda: f"max({self.integer(sub)}, {self.integer(sub)})",
            lambda: f"min({self.int_list()})",
            lambda: f"sum({self.int_list()})",
            lambda: f"sum(i * {self.small()} for i in range({draw.randint(1, 20)}))",
            lambda: f"len([x for x in {self.float_list()} if x > {self.cents()}])",
            lambda: f"divmod({self.integer(sub)}, {draw.choice(['7', '-4', '60'])})[{draw.randint(0, 1)}]",
            lambda: f"({self.integer(sub)} if {self.condition()} else {self.integer(sub)})",
            lambda: f"round({self.integer(sub)}, {draw.choice(['-1', '-2', '0', '2'])})",
            lambda: f"({self.small()}) ** {draw.randint(0, 6)}",
            lambda: (
                f"(10**{draw.randint(15, 40)} + {self.integer(sub)}) // {draw.choice(['7**20', '3**30', '10**15'])} % 1000"
            ),
            lambda: f"math.gcd({self.integer(sub)}, {draw.randint(2, 60)})",
            lambda: f"math.lcm({draw.randint(1, 12)}, {draw.randint(1, 12)})",
            lambda: f"math.comb({draw.randint(3, 12)}, {draw.randint(0, 5)})",
            lambda: f"math.isqrt(abs({self.integer(sub)}))",
            lambda: f"int(f'{{{self.real(0)}:.0f}}')",
            lambda: f"int(f'{{{self.integer(0)}:,}}'.replace(',', ''))",
            lambda: f"int('%d' % ({self.real(sub)}))",
            lambda: f"int(format({self.real(sub)}, '.0f'))",
            lambda: f"int(format({self.integer(sub)}, ',d').replace(',', ''))",
            lambda: f"sum(int(d) for d in str(abs({self.integer(sub)})))",
            lambda: f"len(str({self.real(sub)}))",
            lambda: f"len('{{:.{draw.randint(0, 3)}f}}'.format({self.real(sub)}))",
            lambda: f"sorted({self.int_list()})[{draw.choice(['0', '-1'])}]",
            lambda: f"int({self.real(sub)} == {self.real(sub)})",
            lambda: f"int({draw.choice(['True', 'False'])}) + {self.integer(sub)}",
            lambda: f"({self.integer(sub)} {draw.choice('&|^')} {self.small()})",
            lambda: f"({self.integer(sub)} << {draw.randint(0, 9)} >> {draw.randint(0, 9)})",
            lambda: f"-(-({self.integer(sub)}) // {draw.randint(2, 12)})",
        )

    def real(self, depth: int) -> str:
        if depth <= 0:
            return self.draw.choice([*self.floats, self.cents(), self.cents()])
        sub = depth - 1
        draw = self.draw
        return self.pick(
            lambda: f"({self.real(sub)} {draw.choice('+-*')} {self.real(sub)})",
            lambda: f"({self.real(sub)} {draw.choice('+-*/')} {self.integer(sub)})",
            lambda: f"({self.integer(sub)} / {draw.choice(['3', '7', '8', '100', '60', '-6'])})",
            lambda: f"({self.real(sub)} % {draw.choice(['0.1', '1', '-0.25', '7'])})",
            lambda: f"round({self.real(sub)}, {draw.choice(['0', '1', '2', '2', '2', '3', '4', '-1', '-2', 'None'])})",
            lambda: f"round({self.real(sub)} / {draw.choice(['3', '8', '0.3'])}, ndigits=2)",
            lambda: f"sum({self.float_list()})",
            lambda: f"sum({self.float_list()}, {draw.choice(['0.0', '5', '0.1', '10**20'])})",
            lambda: f"sum(x * {self.cents()} for x in {self.float_list()})",
            lambda: f"sum({self.float_list()}) / {draw.choice(['3', '4', '7'])}",
            lambda: f"sum(map(float, {self.int_list()}))",
            lambda: f"float('{{:.2f}}'.format({self.real(sub)}))",
            lambda: f"float(f'{{{self.real(0)}:.{draw.randint(0, 4)}f}}')",
            lambda: f"float(format({self.real(sub)}, '.{draw.randint(0, 4)}f'))",
            lambda: f"float('%.{draw.randint(0, 3)}f' % ({self.real(sub)}))",
            lambda: f"float(str({self.real(sub)}))",
            lambda: f"abs({self.real(sub)})",
            lambda: f"max({self.float_list()})",
            lambda: f"math.sqrt(abs({self.real(sub)}))",
            lambda: f"math.fsum({self.float_list()})",
            lambda: f"({draw.choice(['1.05', '0.9', '1.1', '2'])} ** {draw.randint(-3, 8)})",
            lambda: f"float({self.integer(sub)})",
            lambda: f"({self.real(sub)} if {self.condition()} else {self.real(sub)})",
        )

    def condition(self) -> str:
        draw = self.draw
        return self.pick(
            lambda: f"{self.integer(0)} {draw.choice(['<', '>', '==', '!=', '<=', '>='])} {self.integer(0)}",
            lambda: f"{self.real(1)} {draw.choice(['<', '>', '==', '>='])} {self.real(0)}",
            lambda: f"{self.integer(0)} % {draw.randint(2, 5)} == 0",
        )


def reference(source: str) -> tuple[str, Any]:
    """What CPython makes of a program of ours: ("int", value), ("other", type name) or ("raises", exception name)."""
    names: dict[str, Any] = {}
    if sys.version_info < (3, 12):
        names["sum"] = compensated_sum
    try:
        exec(source, names)
        value = names["solve"]()
    except Exception as error:
        return "raises", type(error).__name__
    return ("int", value) if type(value) is int else ("other", type(value).__name__)


def compensated_sum(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    """CPython 3.12's `sum`, for older interpreters: a transcription of builtin_sum_impl in Python/bltinmodule.c."""
    items = iter(iterable)
    result = start
    while type(result) is not float:
        try:
            result = result + next(items)
        except StopIteration:
            return result
    f_result, c = result, 0.0
    while True:
        try:
            item = next(items)
        except StopIteration:
            return f_result + c if c and math.isfinite(c) else f_result
        if type(item) is float:
            t = f_result + item
            if abs(f_result) >= abs(item):
                c += (f_result - t) + item
            else:
                c += (item - t) + f_result
            f_result = t
        elif isinstance(item, int) and -(2**63) <= item < 2**63:
            f_result += float(item)
        else:
            if c and math.isfinite(c):
                f_result += c
            return builtins.sum(items, f_result + item)
