"""Clauses about people at a place, pages read and liters of water."""

from __future__ import annotations

from selfgen.curated.templates.engine import closer, middle, opener

PEOPLE = (
    opener(
        "people",
        "buses",
        "a=3..9 b=8..20",
        (
            "{a} buses bring guests to the {place} in {town}. Each bus carries {b} people.",
            "{N} invites people to the {place}. They come in {a} buses with {b} people each.",
        ),
        "came = a * b -> The buses bring {eq} people.",
    ),
    opener(
        "people",
        "tables",
        "a=5..15 b=4..10",
        (
            "At {N}'s party there are {a} tables, and {b} people sit at each table.",
            "{N} sets {a} tables at the {place}. Every table has seats for {b} people, and all are taken.",
        ),
        "seated = a * b -> There are {eq} people.",
    ),
    opener(
        "people",
        "groups",
        "a=12..90 b=12..90",
        (
            "{a} adults and {b} children come to the {place} on {day}.",
            "{N} counts {a} people inside the {place} and {b} people outside.",
        ),
        "people = a + b -> That is {eq} people.",
    ),
    opener(
        "people",
        "crowd",
        "a=30..180",
        ("There are {a} people at the {place} when {N} arrives.", "{N} leads a club with {a} members in {town}."),
    ),
    middle(
        "people",
        "leave",
        "c<v",
        ("After an hour {c} people leave.", "Then {c} people go home because it is late."),
        "left = v - c -> After that, {eq} people are left.",
    ),
    middle(
        "people",
        "arrive",
        "c=5..50",
        ("Then {c} more people arrive.", "Another {c} people join them."),
        "now = v + c -> With them, {eq} people.",
    ),
    middle(
        "people",
        "half_leave",
        "",
        ("Half of the people go home early.", "Half of them have to leave at noon."),
        "left = v / 2 -> Half remain, {eq}.",
    ),
    middle(
        "people",
        "families",
        "c=3..9 d=3..6",
        ("Then {c} families of {d} people each arrive.",),
        "extra = c * d -> The families have {eq} people.",
        "now = v + extra -> Together that is {eq} people.",
    ),
    middle(
        "people",
        "entry",
        "c=2..9",
        ("Each of them pays ${c} to {N}.", "Everyone there gives {N} ${c} for the new roof."),
        "money = v * c -> They pay {eq} dollars.",
        to="money",
        most=150,
    ),
    closer("people", "now", "", ("How many people are there now?", "How many people are there in the end?")),
    closer(
        "people",
        "teams",
        "d|v",
        (
            "{N} puts them into teams of {d}. How many teams are there?",
            "They ride home in cars that hold {d} people each. How many cars are needed?",
        ),
        "teams = v / d -> That makes {eq}.",
        most=480,
    ),
    closer(
        "people",
        "chairs",
        "t>v",
        (
            "There are {t} chairs. How many chairs stay empty?",
            "The {place} has room for {t} people. How many more people can come?",
        ),
        "free = t - v -> That leaves {eq}.",
    ),
    closer(
        "people",
        "portions",
        "c=2..6",
        ("Each of them gets {c} {items} from {N}. How many {items} does {N} need?",),
        "needed = v * c -> {N} needs {eq} {items}.",
        most=150,
    ),
)

PAGES = (
    opener(
        "pages",
        "daily",
        "a=8..30 b=3..9",
        ("{N} reads {a} pages every day for {b} days.", "For {b} days, {N} reads {a} pages a day{tail}."),
        "read = a * b -> {N} reads {eq} pages.",
    ),
    opener(
        "pages",
        "chapters",
        "a=3..12 b=6..20",
        (
            "{N} reads {a} chapters of a long story. Each chapter has {b} pages.",
            "{N} types {a} reports{tail}, and each report has {b} pages.",
        ),
        "read = a * b -> That is {eq} pages.",
    ),
    opener(
        "pages",
        "two_days",
        "a=12..90 b=12..90",
        (
            "On {day} {N} reads {a} pages, and on the next day {he} reads {b} pages.",
            "{N} reads {a} pages in the train and {b} pages at the {place}.",
        ),
        "read = a + b -> {N} reads {eq} pages.",
    ),
    middle(
        "pages",
        "evening",
        "c=5..40",
        ("In the evening {he} reads {c} more pages.", "Before bed {he} adds {c} pages."),
        "now = v + c -> With those, {eq} pages.",
    ),
    middle(
        "pages",
        "weekend",
        "c=6..20 d=2..5",
        ("After that {he} reads {c} pages on each of {d} evenings.",),
        "extra = c * d -> The evenings add {eq} pages.",
        "now = v + extra -> Together that is {eq} pages.",
    ),
    middle(
        "pages",
        "not_counted",
        "c<v",
        ("But {c} of the pages show only pictures, so {he} does not count them.",),
        "left = v - c -> Without pictures, {eq} pages.",
    ),
    closer("pages", "total", "", ("How many pages does {he} count in all?", "How many pages is that in total?")),
    closer(
        "pages",
        "remain",
        "t>v",
        ("The whole story has {t} pages. How many pages are left for {N}?",),
        "remain = t - v -> That leaves {eq} pages.",
    ),
    closer(
        "pages",
        "minutes",
        "c=2..5",
        ("{N} needs {c} minutes for each page. How many minutes does {he} need?",),
        "needed = v * c -> {N} needs {eq} minutes.",
        most=150,
    ),
    closer(
        "pages",
        "days",
        "d|v",
        ("{M} reads {d} pages a day. How many days does {M} need for the same number of pages?",),
        "days = v / d -> {M} needs {eq} days.",
        most=480,
    ),
)

LITERS = (
    opener(
        "liters",
        "fill",
        "a=3..15 b=5..15",
        (
            "A pipe fills a tank in {N}'s garden with {a} liters of water every minute. It runs for {b} minutes.",
            "{N} pumps {a} liters of water a minute into a tank for {b} minutes.",
        ),
        "water = a * b -> The tank gets {eq} liters.",
    ),
    opener(
        "liters",
        "buckets",
        "a=4..15 b=5..12",
        (
            "{N} pours {a} buckets of water into a tub{tail}. Each bucket holds {b} liters.",
            "{N} carries {a} cans of {b} liters of water to the {place} and fills a barrel.",
        ),
        "water = a * b -> That is {eq} liters.",
    ),
    opener(
        "liters",
        "mix",
        "a=10..80 b=10..80",
        (
            "{N} mixes {a} liters of juice with {b} liters of water for the party at the {place}.",
            "There are {a} liters of rain water in a barrel, and {N} adds {b} liters{tail}.",
        ),
        "mixed = a + b -> That makes {eq} liters.",
    ),
    middle(
        "liters",
        "leak",
        "c<v",
        ("Then {c} liters leak out.", "{M} takes {c} liters of it for the flowers."),
        "left = v - c -> After that, {eq} liters are left.",
    ),
    middle(
        "liters",
        "refill",
        "c=2..8 d=3..9",
        ("{He} adds {c} more cans of {d} liters each.",),
        "extra = c * d -> The cans add {eq} liters.",
        "now = v + extra -> Together that is {eq} liters.",
    ),
    middle(
        "liters",
        "half_used",
        "",
        ("Half of it is used on {day}.", "{He} lets half of it run into a pond."),
        "left = v / 2 -> Half remains, {eq} liters.",
    ),
    closer("liters", "now", "", ("How many liters are there now?", "How many liters are there in the end?")),
    closer(
        "liters",
        "capacity",
        "t>v",
        ("There is room for {t} liters. How many more liters can {N} add?",),
        "room = t - v -> There is room for {eq} liters.",
    ),
    closer(
        "liters",
        "bottles",
        "d|v",
        (
            "{N} fills all of it into cans of {d} liters. How many cans does {he} fill?",
            "If {d} liters are used every day, how many days does it last?",
        ),
        "count = v / d -> That makes {eq}.",
        most=480,
    ),
)

CLAUSES = (*PEOPLE, *PAGES, *LITERS)
