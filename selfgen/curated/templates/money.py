"""Clauses about money: earned, saved, spent, shared."""

from __future__ import annotations

from selfgen.curated.templates.engine import closer, middle, opener

MONEY = (
    opener(
        "money",
        "wage",
        "a=6..25 b=3..9",
        (
            "{N} earns ${a} an hour{tail} and works for {b} hours.",
            "{N} works {b} hours at the {place} and is paid ${a} for every hour.",
        ),
        "earned = a * b -> {N} earns {eq} dollars.",
    ),
    opener(
        "money",
        "save",
        "a=4..20 b=4..12",
        ("{N} saves ${a} every week for {b} weeks.", "For {b} weeks, {N} puts ${a} a week into a jar."),
        "saved = a * b -> {N} saves {eq} dollars.",
    ),
    opener(
        "money",
        "pocket",
        "a=10..99 b=5..50",
        (
            "{N} has ${a} in {his} pocket and gets ${b} from {his} {relative}.",
            "{N} finds ${a} in an old jacket and ${b} in a drawer{tail}.",
        ),
        "money = a + b -> {N} has {eq} dollars.",
    ),
    opener(
        "money",
        "tickets",
        "a=10..40 b=3..12",
        (
            "{N} sells {a} tickets for the show at the {place}. Each ticket costs ${b}.",
            "For ${b} each, {N} sells {a} tickets{tail}.",
        ),
        "sales = a * b -> The tickets bring {eq} dollars.",
    ),
    opener(
        "money",
        "two_jobs",
        "a=15..90 b=15..90",
        (
            "{N} earns ${a} for washing cars and ${b} for walking dogs{tail}.",
            "On {day} {N} makes ${a} at the {place} and ${b} at home.",
        ),
        "earned = a + b -> Both jobs bring {eq} dollars.",
    ),
    opener(
        "money",
        "tips",
        "a=3..10 b=5..15 c=4..30",
        (
            "{N} washes {a} cars{tail}. {He} gets ${b} for every car and ${c} in tips.",
            "{N} mows {a} lawns for ${b} each and is given ${c} in tips.",
        ),
        "pay = a * b -> The work brings {eq} dollars.",
        "earned = pay + c -> With tips that is {eq} dollars.",
    ),
    opener(
        "money",
        "purse",
        "a=30..180",
        ("{N} has ${a} to spend{tail}.", "{N} takes ${a} to the {place}.", "{N} starts with ${a} in {his} account."),
    ),
    opener(
        "money",
        "sale",
        "a=60..200 b=10..45",
        (
            "{N} sells an old {treat} for ${a} and has to pay ${b} of it for repairs.",
            "{N} gets ${a} for a {treat}, but ${b} of that belongs to {M}.",
        ),
        "kept = a - b -> {N} keeps {eq} dollars.",
    ),
    middle(
        "money",
        "spend",
        "c<v",
        ("{He} spends ${c} on a {treat}.", "{He} pays ${c} for a ride to {town}."),
        "left = v - c -> After that, {eq} dollars are left.",
    ),
    middle(
        "money",
        "buy_things",
        "c=2..9 d=2..9",
        ("{He} buys {c} {others} for ${d} each.", "At the {place} {he} pays ${d} for each of {c} {others}."),
        "cost = c * d -> The {others} cost {eq} dollars.",
        "left = v - cost -> That leaves {eq} dollars.",
    ),
    middle(
        "money",
        "bonus",
        "c=5..50",
        ("{He} also gets a bonus of ${c}.", "{His} {relative} adds ${c} to it."),
        "now = v + c -> With that, {eq} dollars.",
    ),
    middle(
        "money",
        "half_saved",
        "",
        (
            "{He} puts half of the money in the bank and keeps the rest.",
            "{He} gives half of the money to {his} {relative}.",
        ),
        "left = v / 2 -> Half is {eq} dollars.",
    ),
    middle(
        "money",
        "tax",
        "",
        ("{He} has to pay 10% of the money in fees.", "{He} gives 10% of the money to the {place}."),
        "fee = v / 10 -> 10% is {eq} dollars.",
        "left = v - fee -> That leaves {eq} dollars.",
    ),
    middle(
        "money",
        "rides",
        "c=2..6 d=2..8",
        ("{He} takes {c} bus rides that cost ${d} each.", "{He} rents a bike {c} times for ${d} each time."),
        "cost = c * d -> The rides cost {eq} dollars.",
        "left = v - cost -> That leaves {eq} dollars.",
    ),
    middle(
        "money",
        "matched",
        "",
        ("{His} {relative} doubles the money.", "The {place} matches the money, dollar for dollar."),
        "now = v * 2 -> Doubled, {eq} dollars.",
        most=400,
    ),
    closer(
        "money",
        "left",
        "",
        ("How many dollars does {N} have now?", "How much money in dollars does {he} have in the end?"),
    ),
    closer(
        "money",
        "afford",
        "d|v",
        (
            "Then {he} uses all the money for {others} at ${d} each. How many {others} does {he} buy?",
            "If {others} cost ${d} each, how many {others} can {he} buy with all the money?",
        ),
        "count = v / d -> The money buys {eq} {others}.",
        most=480,
    ),
    closer(
        "money",
        "price",
        "t>v",
        (
            "A {prize} costs ${t}. How many more dollars does {N} need to buy it?",
            "{N} wants a {prize} for ${t}. How much money in dollars is missing?",
        ),
        "need = t - v -> {N} needs {eq} more dollars.",
    ),
    closer(
        "money",
        "split",
        "d|v",
        ("{N} divides the money equally between {d} people. How many dollars does each person get?",),
        "each = v / d -> Each gets {eq} dollars.",
        most=480,
    ),
    closer(
        "money",
        "weeks",
        "d|v",
        ("If {he} spends ${d} a week, how many weeks will the money last?",),
        "weeks = v / d -> It lasts {eq} weeks.",
        most=480,
    ),
    closer(
        "money",
        "joint",
        "c=5..90",
        ("{M} has ${c}. How many dollars do {N} and {M} have together?",),
        "both = v + c -> Together that is {eq} dollars.",
    ),
    closer(
        "money",
        "richer",
        "c<v",
        ("{M} has ${c}. How many more dollars does {N} have than {M}?",),
        "more = v - c -> The difference is {eq} dollars.",
    ),
)

CLAUSES = MONEY
