"""Clauses about minutes and miles."""

from __future__ import annotations

from selfgen.curated.templates.engine import closer, middle, opener

MINUTES = (
    opener(
        "minutes",
        "practice",
        "a=10..45/5 b=3..9",
        (
            "{N} practices {hobby} for {a} minutes a day. {He} does this on {b} days.",
            "On each of {b} days, {N} spends {a} minutes on {hobby}{tail}.",
        ),
        "spent = a * b -> That takes {eq} minutes.",
    ),
    opener(
        "minutes",
        "two_tasks",
        "a=10..80 b=10..80",
        (
            "{N} spends {a} minutes on {hobby} and {b} minutes on reading{tail}.",
            "{N} needs {a} minutes to clean the kitchen and {b} minutes to wash the car.",
        ),
        "spent = a + b -> Both take {eq} minutes.",
    ),
    opener(
        "minutes",
        "laps",
        "a=3..12 b=4..15",
        (
            "{N} runs {a} laps around the {place}. Each lap takes {him} {b} minutes.",
            "{N} repairs {a} {items}{tail}, and each one takes {b} minutes.",
        ),
        "spent = a * b -> That takes {eq} minutes.",
    ),
    opener(
        "minutes",
        "hours",
        "a=2..6",
        ("{N} works for {a} hours{tail}.", "The train ride of {N} to {town} takes {a} hours."),
        "spent = a * 60 -> In minutes that is {eq}.",
    ),
    opener(
        "minutes",
        "slow_walk",
        "a=8..45",
        (
            "{M} needs {a} minutes to get to the {place}. {N} walks slowly and needs twice as long.",
            "{M} finishes the puzzle in {a} minutes, and {N} needs twice as many minutes.",
        ),
        "spent = a * 2 -> {N} needs {eq} minutes.",
    ),
    middle(
        "minutes",
        "break",
        "c=5..40",
        ("{He} also takes a break of {c} minutes.", "Waiting at the {place} adds {c} minutes."),
        "now = v + c -> With that, {eq} minutes.",
    ),
    middle(
        "minutes",
        "faster",
        "c<v",
        ("This time {he} is {c} minutes faster.", "With help from {M} it takes {c} minutes less."),
        "less = v - c -> The shorter time is {eq} minutes.",
    ),
    middle(
        "minutes",
        "songs",
        "c=2..8 d=3..9",
        (
            "Then {he} listens to {c} songs of {d} minutes each.",
            "After that {he} answers {c} letters, {d} minutes for each.",
        ),
        "extra = c * d -> This adds {eq} minutes.",
        "now = v + extra -> Together that is {eq} minutes.",
    ),
    middle(
        "minutes",
        "again",
        "",
        ("On the next {day} {he} does all of it once more.",),
        "now = v * 2 -> Twice that is {eq} minutes.",
        most=400,
    ),
    closer(
        "minutes",
        "total",
        "",
        ("How many minutes does {N} need for all of this?", "How many minutes is that in all?"),
    ),
    closer(
        "minutes",
        "remain",
        "t>v",
        (
            "{N} has {t} minutes of free time. How many minutes remain?",
            "The {place} closes after {t} minutes. How many minutes are left?",
        ),
        "left = t - v -> That leaves {eq} minutes.",
    ),
    closer(
        "minutes",
        "sessions",
        "d|v",
        ("{N} splits the time into {d} equal parts. How many minutes long is each part?",),
        "part = v / d -> Each part is {eq} minutes.",
        most=480,
    ),
    closer(
        "minutes",
        "slower",
        "c<v",
        ("{M} needs only {c} minutes. How many minutes longer does {N} take?",),
        "longer = v - c -> The difference is {eq} minutes.",
    ),
)

MILES = (
    opener(
        "miles",
        "drive",
        "a=20..65/5 b=2..8",
        (
            "{N} drives at {a} miles an hour for {b} hours{tail}.",
            "A bus with {N} on board goes {a} miles every hour and drives for {b} hours.",
        ),
        "driven = a * b -> The drive is {eq} miles.",
    ),
    opener(
        "miles",
        "cycle",
        "a=4..20 b=3..10",
        ("{N} cycles {a} miles every day for {b} days.", "{N} hikes {a} miles a day{tail}. The hike takes {b} days."),
        "cycled = a * b -> In {b} days that is {eq} miles.",
    ),
    opener(
        "miles",
        "legs",
        "a=10..95 b=10..95",
        (
            "{N} travels {a} miles to {town} and then {b} miles to the {place}.",
            "{N} rides {a} miles before noon and {b} miles after noon{tail}.",
        ),
        "driven = a + b -> Both parts are {eq} miles.",
    ),
    opener(
        "miles",
        "route",
        "a=3..15 b=3..12",
        (
            "The route around {town} is {a} miles long, and {N} runs it {b} times.",
            "{N} makes {b} trips to the {place}. Each trip is {a} miles long.",
        ),
        "run = a * b -> That is {eq} miles.",
    ),
    middle(
        "miles",
        "walk",
        "c=3..40",
        ("After that {he} goes {c} more miles.", "A detour adds {c} miles."),
        "now = v + c -> With that, {eq} miles.",
    ),
    middle(
        "miles",
        "return",
        "",
        ("Then {he} goes all the way back on the same road.",),
        "now = v * 2 -> There and back is {eq} miles.",
        most=400,
    ),
    middle(
        "miles",
        "trips",
        "c=2..8 d=3..9",
        ("Later {he} makes {c} extra trips of {d} miles each.",),
        "extra = c * d -> The trips are {eq} miles.",
        "now = v + extra -> Together that is {eq} miles.",
    ),
    middle(
        "miles",
        "paid",
        "c=2..6",
        ("{He} is paid ${c} for each mile.", "For each mile the {place} gives {him} ${c}."),
        "money = v * c -> {He} gets {eq} dollars.",
        to="money",
        most=150,
    ),
    closer("miles", "total", "", ("How many miles does {N} go in all?", "How many miles is that in total?")),
    closer(
        "miles",
        "gallons",
        "d|v",
        ("{N} needs one gallon of fuel for every {d} miles. How many gallons does {he} need?",),
        "gallons = v / d -> {N} needs {eq} gallons.",
        most=480,
    ),
    closer(
        "miles",
        "remain",
        "t>v",
        (
            "{N} has planned a tour of {t} miles. How many miles remain?",
            "The goal is {t} miles. How many miles are still to go?",
        ),
        "remain = t - v -> That leaves {eq} miles.",
    ),
    closer(
        "miles",
        "farther",
        "c<v",
        ("{M} goes only {c} miles. How many miles more does {N} go than {M}?",),
        "more = v - c -> The difference is {eq} miles.",
    ),
)

CLAUSES = (*MINUTES, *MILES)
