"""Clauses about money, minutes, miles, people, pages and liters."""

from __future__ import annotations

from selfgen.curated.templates.engine import Clause


def _opener(kind: str, name: str, numbers: str, texts: tuple[str, ...], *steps: str) -> Clause:
    return Clause(f"{kind}.{name}", None, kind, numbers, texts, steps)


def _middle(
    kind: str, name: str, numbers: str, texts: tuple[str, ...], *steps: str, to: str = "", most: int = 999
) -> Clause:
    return Clause(f"{kind}.{name}", kind, to or kind, numbers, texts, steps, most)


def _closer(kind: str, name: str, numbers: str, texts: tuple[str, ...], *steps: str, most: int = 999) -> Clause:
    return Clause(f"{kind}.{name}", kind, None, numbers, texts, steps, most)


MONEY = (
    _opener(
        "money",
        "wage",
        "a=6..25 b=3..9",
        (
            "{N} earns ${a} an hour{tail} and works for {b} hours.",
            "{N} works {b} hours at the {place} and is paid ${a} for every hour.",
        ),
        "earned = a * b -> {N} earns {eq} dollars.",
    ),
    _opener(
        "money",
        "save",
        "a=4..20 b=4..12",
        ("{N} saves ${a} every week for {b} weeks.", "For {b} weeks, {N} puts ${a} a week into a jar."),
        "saved = a * b -> {N} saves {eq} dollars.",
    ),
    _opener(
        "money",
        "pocket",
        "a=10..99 b=5..50",
        (
            "{N} has ${a} in {his} pocket and gets ${b} from {his} {relative}.",
            "{N} finds ${a} in an old jacket and ${b} in a drawer{tail}.",
        ),
        "money = a + b -> {N} has {eq} dollars.",
    ),
    _opener(
        "money",
        "tickets",
        "a=10..40 b=3..12",
        (
            "{N} sells {a} tickets for the show at the {place}. Each ticket costs ${b}.",
            "For ${b} each, {N} sells {a} tickets{tail}.",
        ),
        "sales = a * b -> The tickets bring {eq} dollars.",
    ),
    _opener(
        "money",
        "two_jobs",
        "a=15..90 b=15..90",
        (
            "{N} earns ${a} for washing cars and ${b} for walking dogs{tail}.",
            "On {day} {N} makes ${a} at the {place} and ${b} at home.",
        ),
        "earned = a + b -> Both jobs bring {eq} dollars.",
    ),
    _opener(
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
    _opener(
        "money",
        "purse",
        "a=30..180",
        ("{N} has ${a} to spend{tail}.", "{N} takes ${a} to the {place}.", "{N} starts with ${a} in {his} account."),
    ),
    _opener(
        "money",
        "sale",
        "a=60..200 b=10..45",
        (
            "{N} sells an old {treat} for ${a} and has to pay ${b} of it for repairs.",
            "{N} gets ${a} for a {treat}, but ${b} of that belongs to {M}.",
        ),
        "kept = a - b -> {N} keeps {eq} dollars.",
    ),
    _middle(
        "money",
        "spend",
        "c<v",
        ("{He} spends ${c} on a {treat}.", "{He} pays ${c} for a ride to {town}."),
        "left = v - c -> After that, {eq} dollars are left.",
    ),
    _middle(
        "money",
        "buy_things",
        "c=2..9 d=2..9",
        ("{He} buys {c} {others} for ${d} each.", "At the {place} {he} pays ${d} for each of {c} {others}."),
        "cost = c * d -> The {others} cost {eq} dollars.",
        "left = v - cost -> That leaves {eq} dollars.",
    ),
    _middle(
        "money",
        "bonus",
        "c=5..50",
        ("{He} also gets a bonus of ${c}.", "{His} {relative} adds ${c} to it."),
        "now = v + c -> With that, {eq} dollars.",
    ),
    _middle(
        "money",
        "half_saved",
        "",
        (
            "{He} puts half of the money in the bank and keeps the rest.",
            "{He} gives half of the money to {his} {relative}.",
        ),
        "left = v / 2 -> Half is {eq} dollars.",
    ),
    _middle(
        "money",
        "tax",
        "",
        ("{He} has to pay 10% of the money in fees.", "{He} gives 10% of the money to the {place}."),
        "fee = v / 10 -> 10% is {eq} dollars.",
        "left = v - fee -> That leaves {eq} dollars.",
    ),
    _middle(
        "money",
        "rides",
        "c=2..6 d=2..8",
        ("{He} takes {c} bus rides that cost ${d} each.", "{He} rents a bike {c} times for ${d} each time."),
        "cost = c * d -> The rides cost {eq} dollars.",
        "left = v - cost -> That leaves {eq} dollars.",
    ),
    _middle(
        "money",
        "matched",
        "",
        ("{His} {relative} doubles the money.", "The {place} matches the money, dollar for dollar."),
        "now = v * 2 -> Doubled, {eq} dollars.",
        most=400,
    ),
    _closer(
        "money",
        "left",
        "",
        ("How many dollars does {N} have now?", "How much money in dollars does {he} have in the end?"),
    ),
    _closer(
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
    _closer(
        "money",
        "price",
        "t>v",
        (
            "A {prize} costs ${t}. How many more dollars does {N} need to buy it?",
            "{N} wants a {prize} for ${t}. How much money in dollars is missing?",
        ),
        "need = t - v -> {N} needs {eq} more dollars.",
    ),
    _closer(
        "money",
        "split",
        "d|v",
        ("{N} divides the money equally between {d} people. How many dollars does each person get?",),
        "each = v / d -> Each gets {eq} dollars.",
        most=480,
    ),
    _closer(
        "money",
        "weeks",
        "d|v",
        ("If {he} spends ${d} a week, how many weeks will the money last?",),
        "weeks = v / d -> It lasts {eq} weeks.",
        most=480,
    ),
    _closer(
        "money",
        "joint",
        "c=5..90",
        ("{M} has ${c}. How many dollars do {N} and {M} have together?",),
        "both = v + c -> Together that is {eq} dollars.",
    ),
    _closer(
        "money",
        "richer",
        "c<v",
        ("{M} has ${c}. How many more dollars does {N} have than {M}?",),
        "more = v - c -> The difference is {eq} dollars.",
    ),
)

MINUTES = (
    _opener(
        "minutes",
        "practice",
        "a=10..45/5 b=3..9",
        (
            "{N} practices {hobby} for {a} minutes a day. {He} does this on {b} days.",
            "On each of {b} days, {N} spends {a} minutes on {hobby}{tail}.",
        ),
        "spent = a * b -> That takes {eq} minutes.",
    ),
    _opener(
        "minutes",
        "two_tasks",
        "a=10..80 b=10..80",
        (
            "{N} spends {a} minutes on {hobby} and {b} minutes on reading{tail}.",
            "{N} needs {a} minutes to clean the kitchen and {b} minutes to wash the car.",
        ),
        "spent = a + b -> Both take {eq} minutes.",
    ),
    _opener(
        "minutes",
        "laps",
        "a=3..12 b=4..15",
        (
            "{N} runs {a} laps around the {place}. Each lap takes {him} {b} minutes.",
            "{N} repairs {a} {items}{tail}, and each one takes {b} minutes.",
        ),
        "spent = a * b -> That takes {eq} minutes.",
    ),
    _opener(
        "minutes",
        "hours",
        "a=2..6",
        ("{N} works for {a} hours{tail}.", "The train ride of {N} to {town} takes {a} hours."),
        "spent = a * 60 -> In minutes that is {eq}.",
    ),
    _opener(
        "minutes",
        "slow_walk",
        "a=8..45",
        (
            "{M} needs {a} minutes to get to the {place}. {N} walks slowly and needs twice as long.",
            "{M} finishes the puzzle in {a} minutes, and {N} needs twice as many minutes.",
        ),
        "spent = a * 2 -> {N} needs {eq} minutes.",
    ),
    _middle(
        "minutes",
        "break",
        "c=5..40",
        ("{He} also takes a break of {c} minutes.", "Waiting at the {place} adds {c} minutes."),
        "now = v + c -> With that, {eq} minutes.",
    ),
    _middle(
        "minutes",
        "faster",
        "c<v",
        ("This time {he} is {c} minutes faster.", "With help from {M} it takes {c} minutes less."),
        "less = v - c -> The shorter time is {eq} minutes.",
    ),
    _middle(
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
    _middle(
        "minutes",
        "again",
        "",
        ("On the next {day} {he} does all of it once more.",),
        "now = v * 2 -> Twice that is {eq} minutes.",
        most=400,
    ),
    _closer(
        "minutes",
        "total",
        "",
        ("How many minutes does {N} need for all of this?", "How many minutes is that in all?"),
    ),
    _closer(
        "minutes",
        "remain",
        "t>v",
        (
            "{N} has {t} minutes of free time. How many minutes remain?",
            "The {place} closes after {t} minutes. How many minutes are left?",
        ),
        "left = t - v -> That leaves {eq} minutes.",
    ),
    _closer(
        "minutes",
        "sessions",
        "d|v",
        ("{N} splits the time into {d} equal parts. How many minutes long is each part?",),
        "part = v / d -> Each part is {eq} minutes.",
        most=480,
    ),
    _closer(
        "minutes",
        "slower",
        "c<v",
        ("{M} needs only {c} minutes. How many minutes longer does {N} take?",),
        "longer = v - c -> The difference is {eq} minutes.",
    ),
)

MILES = (
    _opener(
        "miles",
        "drive",
        "a=20..65/5 b=2..8",
        (
            "{N} drives at {a} miles an hour for {b} hours{tail}.",
            "A bus with {N} on board goes {a} miles every hour and drives for {b} hours.",
        ),
        "driven = a * b -> The drive is {eq} miles.",
    ),
    _opener(
        "miles",
        "cycle",
        "a=4..20 b=3..10",
        (
            "{N} cycles {a} miles every day for {b} days.",
            "{N} hikes {a} miles a day{tail}. The hike takes {b} days.",
        ),
        "cycled = a * b -> In {b} days that is {eq} miles.",
    ),
    _opener(
        "miles",
        "legs",
        "a=10..95 b=10..95",
        (
            "{N} travels {a} miles to {town} and then {b} miles to the {place}.",
            "{N} rides {a} miles before noon and {b} miles after noon{tail}.",
        ),
        "driven = a + b -> Both parts are {eq} miles.",
    ),
    _opener(
        "miles",
        "route",
        "a=3..15 b=3..12",
        (
            "The route around {town} is {a} miles long, and {N} runs it {b} times.",
            "{N} makes {b} trips to the {place}. Each trip is {a} miles long.",
        ),
        "run = a * b -> That is {eq} miles.",
    ),
    _middle(
        "miles",
        "walk",
        "c=3..40",
        ("After that {he} goes {c} more miles.", "A detour adds {c} miles."),
        "now = v + c -> With that, {eq} miles.",
    ),
    _middle(
        "miles",
        "return",
        "",
        ("Then {he} goes all the way back on the same road.",),
        "now = v * 2 -> There and back is {eq} miles.",
        most=400,
    ),
    _middle(
        "miles",
        "trips",
        "c=2..8 d=3..9",
        ("Later {he} makes {c} extra trips of {d} miles each.",),
        "extra = c * d -> The trips are {eq} miles.",
        "now = v + extra -> Together that is {eq} miles.",
    ),
    _middle(
        "miles",
        "paid",
        "c=2..6",
        ("{He} is paid ${c} for each mile.", "For each mile the {place} gives {him} ${c}."),
        "money = v * c -> {He} gets {eq} dollars.",
        to="money",
        most=150,
    ),
    _closer("miles", "total", "", ("How many miles does {N} go in all?", "How many miles is that in total?")),
    _closer(
        "miles",
        "gallons",
        "d|v",
        ("{N} needs one gallon of fuel for every {d} miles. How many gallons does {he} need?",),
        "gallons = v / d -> {N} needs {eq} gallons.",
        most=480,
    ),
    _closer(
        "miles",
        "remain",
        "t>v",
        (
            "{N} has planned a tour of {t} miles. How many miles remain?",
            "The goal is {t} miles. How many miles are still to go?",
        ),
        "remain = t - v -> That leaves {eq} miles.",
    ),
    _closer(
        "miles",
        "farther",
        "c<v",
        ("{M} goes only {c} miles. How many miles more does {N} go than {M}?",),
        "more = v - c -> The difference is {eq} miles.",
    ),
)

PEOPLE = (
    _opener(
        "people",
        "buses",
        "a=3..9 b=8..20",
        (
            "{a} buses bring guests to the {place} in {town}. Each bus carries {b} people.",
            "{N} invites people to the {place}. They come in {a} buses with {b} people each.",
        ),
        "came = a * b -> The buses bring {eq} people.",
    ),
    _opener(
        "people",
        "tables",
        "a=5..15 b=4..10",
        (
            "At {N}'s party there are {a} tables, and {b} people sit at each table.",
            "{N} sets {a} tables at the {place}. Every table has seats for {b} people, and all are taken.",
        ),
        "seated = a * b -> There are {eq} people.",
    ),
    _opener(
        "people",
        "groups",
        "a=12..90 b=12..90",
        (
            "{a} adults and {b} children come to the {place} on {day}.",
            "{N} counts {a} people inside the {place} and {b} people outside.",
        ),
        "people = a + b -> That is {eq} people.",
    ),
    _opener(
        "people",
        "crowd",
        "a=30..180",
        ("There are {a} people at the {place} when {N} arrives.", "{N} leads a club with {a} members in {town}."),
    ),
    _middle(
        "people",
        "leave",
        "c<v",
        ("After an hour {c} people leave.", "Then {c} people go home because it is late."),
        "left = v - c -> After that, {eq} people are left.",
    ),
    _middle(
        "people",
        "arrive",
        "c=5..50",
        ("Then {c} more people arrive.", "Another {c} people join them."),
        "now = v + c -> With them, {eq} people.",
    ),
    _middle(
        "people",
        "half_leave",
        "",
        ("Half of the people go home early.", "Half of them have to leave at noon."),
        "left = v / 2 -> Half remain, {eq}.",
    ),
    _middle(
        "people",
        "families",
        "c=3..9 d=3..6",
        ("Then {c} families of {d} people each arrive.",),
        "extra = c * d -> The families have {eq} people.",
        "now = v + extra -> Together that is {eq} people.",
    ),
    _middle(
        "people",
        "entry",
        "c=2..9",
        ("Each of them pays ${c} to {N}.", "Everyone there gives {N} ${c} for the new roof."),
        "money = v * c -> They pay {eq} dollars.",
        to="money",
        most=150,
    ),
    _closer("people", "now", "", ("How many people are there now?", "How many people are there in the end?")),
    _closer(
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
    _closer(
        "people",
        "chairs",
        "t>v",
        (
            "There are {t} chairs. How many chairs stay empty?",
            "The {place} has room for {t} people. How many more people can come?",
        ),
        "free = t - v -> That leaves {eq}.",
    ),
    _closer(
        "people",
        "portions",
        "c=2..6",
        ("Each of them gets {c} {items} from {N}. How many {items} does {N} need?",),
        "needed = v * c -> {N} needs {eq} {items}.",
        most=150,
    ),
)

PAGES = (
    _opener(
        "pages",
        "daily",
        "a=8..30 b=3..9",
        ("{N} reads {a} pages every day for {b} days.", "For {b} days, {N} reads {a} pages a day{tail}."),
        "read = a * b -> {N} reads {eq} pages.",
    ),
    _opener(
        "pages",
        "chapters",
        "a=3..12 b=6..20",
        (
            "{N} reads {a} chapters of a long story. Each chapter has {b} pages.",
            "{N} types {a} reports{tail}, and each report has {b} pages.",
        ),
        "read = a * b -> That is {eq} pages.",
    ),
    _opener(
        "pages",
        "two_days",
        "a=12..90 b=12..90",
        (
            "On {day} {N} reads {a} pages, and on the next day {he} reads {b} pages.",
            "{N} reads {a} pages in the train and {b} pages at the {place}.",
        ),
        "read = a + b -> {N} reads {eq} pages.",
    ),
    _middle(
        "pages",
        "evening",
        "c=5..40",
        ("In the evening {he} reads {c} more pages.", "Before bed {he} adds {c} pages."),
        "now = v + c -> With those, {eq} pages.",
    ),
    _middle(
        "pages",
        "weekend",
        "c=6..20 d=2..5",
        ("After that {he} reads {c} pages on each of {d} evenings.",),
        "extra = c * d -> The evenings add {eq} pages.",
        "now = v + extra -> Together that is {eq} pages.",
    ),
    _middle(
        "pages",
        "not_counted",
        "c<v",
        ("But {c} of the pages show only pictures, so {he} does not count them.",),
        "left = v - c -> Without pictures, {eq} pages.",
    ),
    _closer("pages", "total", "", ("How many pages does {he} count in all?", "How many pages is that in total?")),
    _closer(
        "pages",
        "remain",
        "t>v",
        ("The whole story has {t} pages. How many pages are left for {N}?",),
        "remain = t - v -> That leaves {eq} pages.",
    ),
    _closer(
        "pages",
        "minutes",
        "c=2..5",
        ("{N} needs {c} minutes for each page. How many minutes does {he} need?",),
        "needed = v * c -> {N} needs {eq} minutes.",
        most=150,
    ),
    _closer(
        "pages",
        "days",
        "d|v",
        ("{M} reads {d} pages a day. How many days does {M} need for the same number of pages?",),
        "days = v / d -> {M} needs {eq} days.",
        most=480,
    ),
)

LITERS = (
    _opener(
        "liters",
        "fill",
        "a=3..15 b=5..15",
        (
            "A pipe fills a tank in {N}'s garden with {a} liters of water every minute. It runs for {b} minutes.",
            "{N} pumps {a} liters of water a minute into a tank for {b} minutes.",
        ),
        "water = a * b -> The tank gets {eq} liters.",
    ),
    _opener(
        "liters",
        "buckets",
        "a=4..15 b=5..12",
        (
            "{N} pours {a} buckets of water into a tub{tail}. Each bucket holds {b} liters.",
            "{N} carries {a} cans of {b} liters of water to the {place} and fills a barrel.",
        ),
        "water = a * b -> That is {eq} liters.",
    ),
    _opener(
        "liters",
        "mix",
        "a=10..80 b=10..80",
        (
            "{N} mixes {a} liters of juice with {b} liters of water for the party at the {place}.",
            "There are {a} liters of rain water in a barrel, and {N} adds {b} liters{tail}.",
        ),
        "mixed = a + b -> That makes {eq} liters.",
    ),
    _middle(
        "liters",
        "leak",
        "c<v",
        ("Then {c} liters leak out.", "{M} takes {c} liters of it for the flowers."),
        "left = v - c -> After that, {eq} liters are left.",
    ),
    _middle(
        "liters",
        "refill",
        "c=2..8 d=3..9",
        ("{He} adds {c} more cans of {d} liters each.",),
        "extra = c * d -> The cans add {eq} liters.",
        "now = v + extra -> Together that is {eq} liters.",
    ),
    _middle(
        "liters",
        "half_used",
        "",
        ("Half of it is used on {day}.", "{He} lets half of it run into a pond."),
        "left = v / 2 -> Half remains, {eq} liters.",
    ),
    _closer("liters", "now", "", ("How many liters are there now?", "How many liters are there in the end?")),
    _closer(
        "liters",
        "capacity",
        "t>v",
        ("There is room for {t} liters. How many more liters can {N} add?",),
        "room = t - v -> There is room for {eq} liters.",
    ),
    _closer(
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

CLAUSES = (*MONEY, *MINUTES, *MILES, *PEOPLE, *PAGES, *LITERS)
