"""Problems outside the templates: structures that no shipped model was trained on, to show what does not transfer.

They use the same words and the same size of numbers, so only the structure is new: working backwards, ages,
rectangles, averages, two rates, change from a bill, ratios, legs.
"""

from __future__ import annotations

import random

from selfgen.curated.templates.engine import Clause, Problem, compose

NEW = (
    Clause(
        "outside.ages",
        None,
        None,
        "a=6..20 b=3..20 c=2..9",
        ("{N} is {a} years old, and {M} is {b} years older than {N}. How old will {M} be in {c} years?",),
        ("now = a + b -> {M} is {eq} now.", "later = now + c -> In {c} years {M} will be {eq}."),
    ),
    Clause(
        "outside.rectangle",
        None,
        None,
        "a=5..40 b=5..40",
        (
            "The garden of {N} is a rectangle, {a} feet long and {b} feet wide. {He} puts a fence around all four sides. "
            "How many feet of fence does {he} need?",
        ),
        ("side = a + b -> Length and width are {eq}.", "fence = side * 2 -> All sides are {eq}."),
    ),
    Clause(
        "outside.average",
        None,
        None,
        "a=10..60/3 b=12..60/3 c=15..60/3",
        ("{N} scores {a}, {b} and {c} points in three games of {hobby}. What is {his} average score?",),
        (
            "first = a + b -> The first two games bring {eq}.",
            "total = first + c -> All three bring {eq}.",
            "average = total / 3 -> The average is {eq}.",
        ),
    ),
    Clause(
        "outside.backwards",
        None,
        None,
        "c=5..40 k=5..60",
        (
            "{N} does not remember how many {items} {he} had on {day}. {He} knows that {he} gave away {c} of them and that "
            "{k} {items} were left, which {he} then doubled. How many {items} did {he} have on {day} and in the end, "
            "added together?",
        ),
        (
            "before = c + k -> On the first day there were {eq}.",
            "end = k * 2 -> In the end there are {eq}.",
            "both = before + end -> Added, that is {eq}.",
        ),
    ),
    Clause(
        "outside.change",
        None,
        None,
        "a=2..6 b=2..7 c=2..6 d=2..7",
        (
            "At the {place} {N} buys {a} {items} for ${b} each and {c} {others} for ${d} each. {He} pays with a $100 bill. "
            "How many dollars does {he} get back?",
        ),
        (
            "one = a * b -> The {items} cost {eq} dollars.",
            "two = c * d -> The {others} cost {eq} dollars.",
            "cost = one + two -> Together they cost {eq} dollars.",
            "change = 100 - cost -> {N} gets {eq} dollars back.",
        ),
    ),
    Clause(
        "outside.two_rates",
        None,
        None,
        "a=4..15 b=4..15 c=3..9",
        (
            "{N} makes {a} {items} an hour, and {M} makes {b} {items} an hour. They work side by side for {c} hours. "
            "How many {items} do they make?",
        ),
        ("rate = a + b -> In an hour they make {eq}.", "made = rate * c -> In {c} hours they make {eq}."),
    ),
    Clause(
        "outside.ratio",
        None,
        None,
        "a=2..6 b=2..6 k=3..12",
        (
            "For every {a} {items} that {M} has, {N} has {b}. {M} has exactly {k} groups of {a} {items}. How many {items} "
            "do they have together?",
        ),
        ("group = a + b -> Each group has {eq}.", "all = group * k -> Together they have {eq}."),
    ),
    Clause(
        "outside.legs",
        None,
        None,
        "a=3..20 b=3..20",
        ("At the farm near {town}, {N} sees {a} cows and {b} hens. How many legs do the animals have?",),
        (
            "cows = a * 4 -> The cows have {eq} legs.",
            "hens = b * 2 -> The hens have {eq} legs.",
            "legs = cows + hens -> Together that is {eq}.",
        ),
    ),
)


def draw_outside(rng: random.Random) -> Problem:
    """Draw one out-of-template problem."""
    while True:
        problem = compose([rng.choice(NEW)], rng)
        if problem is not None:
            return problem
