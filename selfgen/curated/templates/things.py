"""Clauses about things that one person holds: how they come, what happens to them, what is asked."""

from __future__ import annotations

from functools import partial

from selfgen.curated.templates import engine

opener = partial(engine.opener, "things")
middle = partial(engine.middle, "things")
closer = partial(engine.closer, "things")


OPENERS = (
    opener(
        "boxes",
        "a=3..12 b=4..20",
        (
            "{N} buys {a} {boxes} of {items}{tail}. Each {box} holds {b} {items}.",
            "There are {a} {boxes} on {N}'s table, and every {box} has {b} {items} in it.",
        ),
        "bought = a * b -> The {boxes} hold {eq} {items}.",
    ),
    opener(
        "daily",
        "a=4..20 b=3..12",
        (
            "{N} collects {a} {items} every day{tail}. {He} does this for {b} days.",
            "Every day for {b} days, {N} finds {a} {items}{tail}.",
        ),
        "collected = a * b -> In {b} days {he} gets {eq} {items}.",
    ),
    opener(
        "two_days",
        "a=8..90 b=8..90",
        (
            "On {day} {N} collects {a} {items}{tail}, and on the next day {he} collects {b} {items}.",
            "{N} picks up {a} {items} in the morning and {b} {items} in the evening{tail}.",
        ),
        "total = a + b -> {N} gets {eq} {items}.",
    ),
    opener(
        "twice",
        "a=6..90",
        (
            "{M} has {a} {items}. {N} has twice as many {items} as {M}.",
            "{M} brings {a} {items}{tail}, and {N} brings twice as many {items} as {M}.",
        ),
        "twice = a * 2 -> {N} has {eq} {items}.",
    ),
    opener(
        "times",
        "a=5..25 k=3..8",
        (
            "{M} has {a} {items}. {N} has {k} times as many {items} as {M}.",
            "{N} owns {k} times as many {items} as {M}, who owns {a} {items}.",
        ),
        "times = a * k -> {N} has {eq} {items}.",
    ),
    opener(
        "gift",
        "a=8..99 b=5..60",
        (
            "{N} has {a} {items}{tail}. {His} {relative} gives {him} {b} more {items}.",
            "{N} already owns {a} {items} and gets {b} more {items} from {his} {relative} on {day}.",
        ),
        "total = a + b -> After the gift {he} has {eq} {items}.",
    ),
    opener(
        "loose",
        "a=3..9 b=4..12 c=2..15",
        (
            "{N} has {a} full {boxes} with {b} {items} each and {c} loose {items}{tail}.",
            "{N} counts {a} {boxes} of {b} {items} and also {c} single {items}{tail}.",
        ),
        "packed = a * b -> The {boxes} hold {eq} {items}.",
        "total = packed + c -> With the loose ones that is {eq}.",
    ),
    opener(
        "two_kinds",
        "a=10..80 b=10..80",
        (
            "{N} has {a} small {items} and {b} big {items}{tail}.",
            "{N} keeps {a} old {items} and {b} new {items} in a {box}.",
        ),
        "kinds = a + b -> Both kinds make {eq} {items}.",
    ),
    opener(
        "shelves",
        "a=3..12 b=5..20",
        (
            "In {N}'s room there are {a} shelves. Each shelf has {b} {items} on it.",
            "{N} fills {a} shelves{tail}. There are {b} {items} on every shelf.",
        ),
        "shelved = a * b -> The shelves hold {eq} {items}.",
    ),
    opener(
        "start",
        "a=20..150",
        (
            "{N} has {a} {items}{tail}.",
            "{N} starts the week with {a} {items}.",
            "There are {a} {items} in {N}'s {box}.",
        ),
    ),
    opener(
        "fewer",
        "a=25..120 b=3..20",
        (
            "{M} has {a} {items}. {N} has {b} fewer {items} than {M}.",
            "{M} finds {a} {items}{tail}, but {N} finds {b} fewer {items} than {M}.",
        ),
        "fewer = a - b -> {N} has {eq} {items}.",
    ),
    opener(
        "more_than",
        "a=10..90 b=3..40",
        (
            "{M} has {a} {items}. {N} has {b} more {items} than {M}.",
            "{M} makes {a} {items}{tail}, and {N} makes {b} more {items} than {M}.",
        ),
        "has = a + b -> {N} has {eq} {items}.",
    ),
    opener(
        "rows",
        "a=3..12 b=5..20",
        (
            "{N} puts {items} in {a} rows{tail}, with {b} {items} in every row.",
            "{N} lays out {a} rows of {items}. Every row has {b} {items}.",
        ),
        "laid = a * b -> The rows have {eq} {items}.",
    ),
    opener(
        "three_days",
        "a=5..50 b=5..50 c=5..50",
        (
            "{N} makes {a} {items} on {day}, {b} {items} the day after, and {c} {items} the day after that.",
            "{N} gets {a} {items} from {M}, {b} {items} from {his} {relative}, and {c} {items} from the {place}.",
        ),
        "first = a + b -> The first two make {eq}.",
        "total = first + c -> All three make {eq} {items}.",
    ),
    opener(
        "per_hour",
        "a=5..20 b=2..9",
        (
            "{N} can make {a} {items} in an hour. {He} works for {b} hours{tail}.",
            "Working at the {place}, {N} paints {a} {items} an hour for {b} hours.",
        ),
        "made = a * b -> In {b} hours {he} makes {eq} {items}.",
    ),
    opener(
        "dozen",
        "a=2..9",
        ("{N} orders {a} dozen {items}{tail}.", "{N} comes home with {a} dozen {items}{tail}."),
        "ordered = a * 12 -> {N} has {eq} {items}.",
    ),
    opener(
        "half_of",
        "a=20..160/2",
        (
            "{M} has {a} {items}. {N} has half as many {items} as {M}.",
            "{M} collects {a} {items}{tail}, and {N} collects half as many {items}.",
        ),
        "half = a / 2 -> {N} has {eq} {items}.",
    ),
    opener(
        "inherit",
        "b=2..9 a=b*6..25",
        (
            "A crate of {a} {items} is split equally between {b} children, and {N} is one of them.",
            "{N} and some others, {b} children in all, share {a} {items} equally{tail}.",
        ),
        "part = a / b -> {N} gets {eq} {items}.",
    ),
    opener(
        "crop",
        "a=4..12 b=6..15",
        (
            "{N} plants {a} small trees behind the {place}. From each tree {he} picks {b} {items}.",
            "A machine at the {place} has {a} arms, and each arm lifts {b} {items} for {N}.",
        ),
        "picked = a * b -> That gives {eq} {items}.",
    ),
)

MIDDLES = (
    middle(
        "give",
        "c<v",
        ("{He} gives {c} {items} to {M}.", "Then {M} takes {c} of the {items}."),
        "left = v - c -> After giving, {eq} are left.",
    ),
    middle(
        "lose",
        "c<v",
        ("On the way home {he} loses {c} {items}.", "Sadly, {c} of the {items} are lost on {day}."),
        "left = v - c -> After the loss, {eq} are left.",
    ),
    middle(
        "buy",
        "c=5..60",
        ("Then {he} buys {c} more {items}.", "Later {he} gets {c} more {items} at the {place}."),
        "now = v + c -> With the new ones, {eq}.",
    ),
    middle(
        "half",
        "",
        ("{He} gives half of the {items} to {his} {relative}.", "Half of the {items} are sent to {M}."),
        "left = v / 2 -> Half remain, {eq}.",
    ),
    middle(
        "third",
        "",
        (
            "One third of the {items} turn out to be broken and are thrown away.",
            "{He} leaves a third of the {items} at the {place}.",
        ),
        "lost = v / 3 -> A third is {eq}.",
        "left = v - lost -> That leaves {eq}.",
    ),
    middle(
        "quarter",
        "",
        ("{He} hands a quarter of the {items} to {M}.", "One quarter of the {items} are too old and go to waste."),
        "lost = v / 4 -> A quarter is {eq}.",
        "left = v - lost -> That leaves {eq}.",
    ),
    middle(
        "friends",
        "c=2..9 d=2..8",
        (
            "{He} gives {c} {items} to each of {d} friends.",
            "Each of {d} children at the {place} gets {c} {items} from {him}.",
        ),
        "gave = c * d -> {He} gives away {eq}.",
        "left = v - gave -> That leaves {eq}.",
    ),
    middle(
        "packs",
        "c=2..9 d=3..12",
        (
            "{His} {relative} brings {c} more {boxes} with {d} {items} each.",
            "Then {c} more {boxes} of {d} {items} arrive.",
        ),
        "extra = c * d -> The new {boxes} hold {eq}.",
        "now = v + extra -> Together that is {eq}.",
    ),
    middle(
        "double",
        "",
        (
            "By the end of the week {he} has doubled {his} number of {items}.",
            "Then {M} brings just as many {items} as {he} has, and gives them to {him}.",
        ),
        "now = v * 2 -> Doubled, {eq}.",
        most=400,
    ),
    middle(
        "percent",
        "",
        ("Of the {items}, 20% are damaged, so {he} throws those away.", "{He} leaves 20% of the {items} with {M}."),
        "lost = v / 5 -> 20% is {eq}.",
        "left = v - lost -> That leaves {eq}.",
    ),
    middle(
        "trade",
        "c<v d=2..30",
        (
            "{He} trades {c} of the {items} for {d} other {items}.",
            "{He} swaps {c} {items} with {M} and gets {d} {items} back.",
        ),
        "kept = v - c -> {He} keeps {eq}.",
        "now = kept + d -> With the traded ones, {eq}.",
    ),
    middle(
        "use_daily",
        "c=2..9 d=2..7",
        ("{He} uses {c} {items} a day for {d} days.", "For {d} days, {c} {items} are taken each day."),
        "used = c * d -> In {d} days {eq} are used.",
        "left = v - used -> That leaves {eq}.",
    ),
    middle(
        "sell",
        "c=2..9",
        ("{He} sells all of the {items} for ${c} each.", "All of the {items} are sold at a price of ${c} each."),
        "money = v * c -> The sale brings {eq} dollars.",
        to="money",
        most=150,
    ),
    middle(
        "sell_packs",
        "d|v c=3..12",
        ("{He} sells all of the {items} in packs of {d}, and each pack costs ${c}.",),
        "sets = v / d -> There are {eq} packs.",
        "money = sets * c -> The packs bring {eq} dollars.",
        to="money",
        most=360,
    ),
)

CLOSERS = (
    closer("now", "", ("How many {items} does {N} have now?", "How many {items} does {he} have in the end?")),
    closer(
        "share",
        "d|v",
        (
            "{He} shares all the {items} equally among {d} friends. How many {items} does each friend get?",
            "The {items} are divided equally between {d} people. How many {items} does each person receive?",
        ),
        "each = v / d -> Each gets {eq}.",
        most=480,
    ),
    closer(
        "bags",
        "d|v",
        (
            "{He} puts all the {items} into bags of {d}. How many bags does {he} fill?",
            "If {d} {items} fit in one bag, how many bags are needed for all the {items}?",
        ),
        "bags = v / d -> {He} fills {eq} bags.",
        most=480,
    ),
    closer(
        "need",
        "t>v",
        (
            "{N} wants to have {t} {items}. How many more {items} does {he} need?",
            "The goal is {t} {items}. How many {items} are still missing?",
        ),
        "need = t - v -> {N} needs {eq} more.",
    ),
    closer(
        "compare",
        "c<v",
        ("{M}'s {relative} has {c} {items}. How many more {items} does {N} have?",),
        "more = v - c -> The difference is {eq}.",
    ),
    closer(
        "behind",
        "t>v",
        ("The record at the {place} is {t} {items}. How many {items} is {N} behind the record?",),
        "behind = t - v -> {N} is {eq} behind.",
    ),
    closer(
        "together",
        "c=5..80",
        (
            "{N}'s {relative} has {c} {items}. How many {items} do the two of them have together?",
            "Another {c} {items} belong to the {place}. How many {items} is that in all?",
        ),
        "both = v + c -> Together that is {eq}.",
    ),
    closer(
        "weigh",
        "c=2..9",
        ("Each of the {items} weighs {c} ounces. How many ounces do all of {his} {items} weigh?",),
        "weight = v * c -> They weigh {eq} ounces.",
        most=150,
    ),
    closer(
        "last",
        "d|v",
        (
            "{He} uses {d} {items} a day. For how many days will {his} {items} last?",
            "If {d} {items} are needed each day, how many days can {he} go on?",
        ),
        "days = v / d -> They last {eq} days.",
        most=480,
    ),
)

CLAUSES = (*OPENERS, *MIDDLES, *CLOSERS)
