"""Compose clauses into a problem: question text, arithmetic steps, answer, program and worked solution.

A clause is data (see things.py, money.py, trips.py and counts.py). Numbers are drawn so that every step stays a positive integer and
every division is exact; a draw that breaks this is thrown away and drawn again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from selfgen.curated.templates import words

MAX_VALUE = 2000
"""No step of a problem leaves 1..MAX_VALUE."""


@dataclass(frozen=True)
class Clause:
    """One part of a problem.

    Args:
        id: unique, `kind.name`.
        before: the kind of quantity it continues, None for an opener.
        after: the kind of quantity it leaves, None for a closer.
        numbers: specs, space-separated: `a=3..9`, `a=10..90/5` (a multiple of 5), `a=b*2..9` (a multiple of b),
            `d|v` (a divisor of the running value), `c<v` (smaller than it), `t>v` (larger than it).
        texts: equivalent wordings; slots are numbers and the words of the cast.
        steps: `name = x op y -> sentence` where x and y are numbers, `v` (the running value) or earlier names, and
            the sentence has a slot {eq} for the equation.
        most: the largest running value this clause accepts (keeps products learnable).
    """

    id: str
    before: str | None
    after: str | None
    numbers: str
    texts: tuple[str, ...]
    steps: tuple[str, ...] = ()
    most: int = MAX_VALUE


def opener(kind: str, name: str, numbers: str, texts: tuple[str, ...], *steps: str) -> Clause:
    """A clause that starts a problem with a quantity of `kind`."""
    return Clause(f"{kind}.{name}", None, kind, numbers, texts, steps)


def middle(
    kind: str, name: str, numbers: str, texts: tuple[str, ...], *steps: str, to: str = "", most: int = 999
) -> Clause:
    """A clause that changes the quantity, or turns it into another kind, `to`."""
    return Clause(f"{kind}.{name}", kind, to or kind, numbers, texts, steps, most)


def closer(kind: str, name: str, numbers: str, texts: tuple[str, ...], *steps: str, most: int = 999) -> Clause:
    """A clause that asks the question."""
    return Clause(f"{kind}.{name}", kind, None, numbers, texts, steps, most)


@dataclass(frozen=True)
class Step:
    """One operation: `name = left op right`, its value, and how the program writes its operands."""

    name: str
    left: int
    op: str
    right: int
    value: int
    left_code: str
    right_code: str
    sentence: str

    @property
    def equation(self) -> str:
        return f"{self.left} {self.op} {self.right} = {self.value}"

    def say(self, equation: str | None = None) -> str:
        """The worked sentence, with the equation in it."""
        return self.sentence.replace("{eq}", equation or self.equation)


@dataclass(frozen=True)
class Problem:
    """A composed problem. `key` names its clauses and numbers but not its words: splits are disjoint in keys."""

    clauses: tuple[str, ...]
    numbers: tuple[int, ...]
    question: str
    steps: tuple[Step, ...]

    @property
    def answer(self) -> int:
        return self.steps[-1].value

    @property
    def key(self) -> str:
        return "+".join(self.clauses) + ":" + ",".join(map(str, self.numbers))

    def solution(self) -> str:
        """Worked solution in the form of GSM8K: calculator marks, one step a line, the answer after ####."""
        lines = []
        for s in self.steps:
            plain = f"{s.left}{s.op}{s.right}"
            lines.append(s.say(f"{s.left} {s.op} {s.right} = <<{plain}={s.value}>>{s.value}"))
        return "\n".join([*lines, f"#### {self.answer}"])

    def program(self) -> str:
        """A `solve()` that recomputes the answer and asserts that the problem is well-posed."""
        lines = ["def solve():"]
        for s in self.steps:
            if s.op == "/":
                lines.append(f"    assert {s.left_code} % {s.right_code} == 0")
            op = "//" if s.op == "/" else s.op
            lines.append(f"    {s.name} = {s.left_code} {op} {s.right_code}")
            if s.op == "-":
                lines.append(f"    assert {s.name} > 0")
        lines.append(f"    return {self.steps[-1].name}")
        return "\n".join(lines)


def compute(left: int, op: str, right: int) -> int | None:
    """The value of one step, or None when it is not an exact positive integer in range."""
    if op == "/":
        value = left // right if right and left % right == 0 else 0
    else:
        value = {"+": left + right, "-": left - right, "*": left * right}[op]
    return value if 1 <= value <= MAX_VALUE else None


@cache
def _parse_numbers(spec: str) -> tuple[tuple[str, str, str, tuple[int, int, int]], ...]:
    out = []
    for part in spec.split():
        if "=" in part:
            name, rest = part.split("=")
            base = "1"
            if "*" in rest:
                base, rest = rest.split("*")
            rest, _, unit = rest.partition("/")
            low, high = rest.split("..")
            out.append((name, "=", base, (int(low), int(high), int(unit or 1))))
        else:
            out.append((part[0], part[1], part[2], (0, 0, 1)))
    return tuple(out)


def numbers_for(spec: str, value: int | None, rng: random.Random, wide: bool = False) -> dict[str, int] | None:
    """Draw the numbers of one clause, or None when the running value leaves no choice; `wide` stretches the ranges."""
    got: dict[str, int] = {}
    for name, relation, base, (low, high, unit) in _parse_numbers(spec):
        if relation == "=":
            factor = got.get(base, 1)
            if wide:
                low, high = max(unit, low * 2 // 3), high * 4 // 3
            got[name] = factor * unit * rng.randint(-(-low // unit), high // unit)
            continue
        whole = value if base == "v" else got[base]
        assert whole is not None
        if relation == "|":
            choices = [d for d in range(2, 13) if whole % d == 0 and whole > d]
            if not choices:
                return None
            got[name] = rng.choice(choices)
        elif relation == "<":
            if whole < 4:
                return None
            got[name] = rng.randint(1, whole - 1) if wide else rng.randint(2, max(2, whole * 4 // 5))
        else:
            got[name] = whole + (rng.randint(1, 150) if wide else rng.randint(3, 60))
    return got


_STEP = re.compile(r"(\w+) = (\w+) ([-+*/]) (\w+) -> (.*)")


def wording(clause: Clause, rng: random.Random, wide: bool) -> str:
    """One of the clause's wordings; when `wide`, sometimes the first sentence of one with the last of another."""
    text = rng.choice(clause.texts)
    if wide and rng.random() < 0.3:
        first, last = text.split(". "), rng.choice(clause.texts).split(". ")
        if len(first) == len(last) == 2:
            return f"{first[0]}. {last[1]}"
    return text


def apply(
    clause: Clause, cast: Mapping[str, str], value: int | None, code: str, rng: random.Random, wide: bool = False
):
    """Draw numbers for a clause and run its steps.

    Args:
        value: the running value, None for an opener; `code` is how the program writes it.

    Returns:
        (text, steps, numbers, value, code), or None when this draw does not work out.
    """
    if value is not None and value > clause.most * (1.3 if wide else 1):
        return None
    got = numbers_for(clause.numbers, value, rng, wide)
    if got is None:
        return None
    slots = {**cast, **{k: str(n) for k, n in got.items()}}
    text = wording(clause, rng, wide).format(**slots)
    known: dict[str, tuple[int, str]] = {k: (n, str(n)) for k, n in got.items()}
    if value is not None:
        known["v"] = (value, code)
    elif not clause.steps:
        value, code = got["a"], str(got["a"])
    steps: list[Step] = []
    for line in clause.steps:
        match = _STEP.fullmatch(line)
        assert match, f"{clause.id}: malformed step {line!r}"
        name, left, op, right, sentence = match.groups()
        (x, x_code), (y, y_code) = (known[t] if t in known else (int(t), t) for t in (left, right))
        result = compute(x, op, y)
        if result is None:
            return None
        said = sentence.format(eq="{eq}", **slots)
        steps.append(Step(name, x, op, y, result, x_code, y_code, said))
        known[name] = (result, name)
        value, code = result, name
    return text, steps, got, value, code


def cast_for(rng: random.Random, wide: bool = False) -> dict[str, str]:
    """The words of one problem: two names with pronouns, a thing, a container, a place and so on."""
    female = rng.random() < 0.5
    name = rng.choice(words.SHE if female else words.HE)
    other = name
    while other == name:
        other = rng.choice(words.SHE + words.HE)
    item, other_item = rng.sample(words.THINGS + words.UNITS if wide else words.THINGS, 2)
    treat, prize = rng.sample(words.TREATS, 2)
    box = rng.choice(words.BOXES)
    cast = {
        "N": name,
        "M": other,
        "he": "she" if female else "he",
        "He": "She" if female else "He",
        "his": "her" if female else "his",
        "His": "Her" if female else "His",
        "him": "her" if female else "him",
        "item": item,
        "items": words.plural(item),
        "others": words.plural(other_item),
        "box": box,
        "boxes": words.plural(box),
        "relative": rng.choice(words.RELATIVES),
        "day": rng.choice(words.DAYS),
        "place": rng.choice(words.PLACES),
        "town": rng.choice(words.TOWNS),
        "treat": treat,
        "prize": prize,
        "hobby": rng.choice(words.HOBBIES),
    }
    cast["tail"] = rng.choice(words.TAILS).format(**cast)
    return cast


def compose(
    chain: Sequence[Clause], rng: random.Random, scene_share: float = 0.5, wide: bool = False
) -> Problem | None:
    """Fill a chain of clauses (opener first, closer last) with one cast and numbers; None when a draw fails."""
    cast = cast_for(rng, wide)
    value: int | None = None
    code = ""
    texts: list[str] = []
    steps: list[Step] = []
    numbers: list[int] = []
    for clause in chain:
        done = apply(clause, cast, value, code, rng, wide)
        if done is None:
            return None
        text, more, got, value, code = done
        texts.append(text)
        steps.extend(more)
        numbers.extend(got.values())
    if not steps:
        return None
    if rng.random() < scene_share:
        texts.insert(rng.randint(0, min(1, len(chain) - 1)), rng.choice(words.SCENES).format(**cast))
    return Problem(tuple(c.id for c in chain), tuple(numbers), " ".join(texts), tuple(steps))


def draw(
    rng: random.Random,
    min_steps: int = 2,
    max_steps: int = 4,
    accept: Callable[[Problem], bool] | None = None,
    wide: bool = False,
) -> Problem:
    """Draw one in-template problem of `min_steps` to `max_steps` operations; `accept` may refuse a draw.

    `wide` also repeats clauses, stretches the numbers and mixes wordings: beyond the stand-in set, to make a solver
    robust to problems that a model wrote.
    """
    openers, middles, closers = library()
    while True:
        chain = [rng.choice(openers)]
        for _ in range(rng.choice((0, 1, 1, 1, 2, 2))):
            following = [c for c in middles[chain[-1].after] if wide or c not in chain]
            chain.append(rng.choice(following))
        chain.append(rng.choice(closers[chain[-1].after]))
        if not min_steps <= sum(len(c.steps) for c in chain) <= max_steps:
            continue
        problem = compose(chain, rng, wide=wide)
        if problem is not None and (accept is None or accept(problem)):
            return problem


@cache
def library() -> tuple[list[Clause], dict[str | None, list[Clause]], dict[str | None, list[Clause]]]:
    """Openers, middles by the kind they continue, closers likewise; checked once."""
    from selfgen.curated.templates import counts, money, things, trips

    clauses = (*things.CLAUSES, *money.CLAUSES, *trips.CLAUSES, *counts.CLAUSES)
    assert len({c.id for c in clauses}) == len(clauses), "clause ids must be unique"
    openers = [c for c in clauses if c.before is None]
    middles: dict[str | None, list[Clause]] = {}
    closers: dict[str | None, list[Clause]] = {}
    for clause in clauses:
        if clause.before is not None:
            (closers if clause.after is None else middles).setdefault(clause.before, []).append(clause)
    return openers, middles, closers
