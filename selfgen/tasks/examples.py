"""Worked examples and topics for the `chat_examples` prompt. Written for this project; none comes from a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Example:
    """A model answer: `code` defines solve(), whose int return value answers `problem`."""

    topic: str
    problem: str
    code: str


EXAMPLES: Final = (
    Example(
        "a bakery",
        "A bakery bakes 14 trays of rolls before opening, with 9 rolls on each tray. By noon 80 rolls are sold and 6 are "
        "given to the staff. How many rolls are left?",
        "def solve():\n    baked = 14 * 9\n    return baked - 80 - 6",
    ),
    Example(
        "a school trip",
        "A school takes 157 children and 11 teachers to the zoo. Each bus seats 42 people. How many buses does the school "
        "need?",
        "def solve():\n    people = 157 + 11\n    return -(-people // 42)",
    ),
    Example(
        "saving money",
        "Nadia saves $12 every week. She already has $35 and wants a keyboard that costs $143. After how many weeks can "
        "she buy it?",
        "def solve():\n    missing = 143 - 35\n    return missing // 12",
    ),
    Example(
        "a garden",
        "Omar plants 6 rows of tomatoes with 8 plants in each row. Every plant gives 15 tomatoes, but a quarter of the "
        "plants die before the harvest. How many tomatoes does he pick?",
        "def solve():\n    plants = 6 * 8\n    alive = plants - plants // 4\n    return alive * 15",
    ),
    Example(
        "reading",
        "Ines reads 24 pages on Monday and twice as many on Tuesday. Her book has 200 pages. How many pages are left to "
        "read after Tuesday?",
        "def solve():\n    monday = 24\n    tuesday = 2 * monday\n    return 200 - monday - tuesday",
    ),
    Example(
        "a train journey",
        "A train leaves at 9:20 in the morning and arrives at 1:05 in the afternoon. It stops for 25 minutes on the way. "
        "For how many minutes does it move?",
        "def solve():\n    start = 9 * 60 + 20\n    end = 13 * 60 + 5\n    return end - start - 25",
    ),
    Example(
        "a farm",
        "A farmer collects 18 eggs from each of 7 hen houses and packs them in boxes of 6. He sells each box for $4. How "
        "many dollars does he earn?",
        "def solve():\n    boxes = 18 * 7 // 6\n    return boxes * 4",
    ),
    Example(
        "a swimming pool",
        "A pool holds 5,400 liters of water. One pipe fills 90 liters a minute while a leak loses 15 liters a minute. How "
        "many minutes does it take to fill the empty pool?",
        "def solve():\n    gain = 90 - 15\n    return 5400 // gain",
    ),
    Example(
        "a shop sale",
        "A jacket costs $80 and a pair of boots costs $120. Everything is 25% off today, and Lena pays with three "
        "100-dollar bills. How many dollars does she get back?",
        "def solve():\n    price = (80 + 120) * 75 // 100\n    return 300 - price",
    ),
    Example(
        "ages",
        "Tomas is 4 times as old as his daughter. In 6 years their ages will add up to 57. How old is his daughter now?",
        "def solve():\n    total_now = 57 - 2 * 6\n    return total_now // 5",
    ),
    Example(
        "sharing sweets",
        "Five friends share 3 bags of 40 sweets equally. Then each of them eats 7 sweets. How many sweets do the friends "
        "have together now?",
        "def solve():\n    sweets = 3 * 40\n    return sweets - 5 * 7",
    ),
    Example(
        "building work",
        "A fence is 96 meters long. It has a post at both ends and one every 4 meters between them, and each post needs 3 "
        "bolts. How many bolts are needed?",
        "def solve():\n    posts = 96 // 4 + 1\n    return posts * 3",
    ),
    Example(
        "a sports club",
        "A club has 84 members. One third of them play tennis, half of the others play football, and the rest swim. How "
        "many members swim?",
        "def solve():\n    members = 84\n    others = members - members // 3\n    return others - others // 2",
    ),
    Example(
        "a phone plan",
        "A phone plan costs $18 a month and includes 200 minutes. Each further minute costs 5 cents. Pavel talks for 320 "
        "minutes in March. How many dollars does he pay?",
        "def solve():\n    extra = 320 - 200\n    return 18 + extra * 5 // 100",
    ),
    Example(
        "a library",
        "A library has 12 shelves with 35 books each. It lends out 96 books and gets 41 back. How many books stand on the "
        "shelves then?",
        "def solve():\n    books = 12 * 35\n    return books - 96 + 41",
    ),
    Example(
        "cooking",
        "A recipe for 4 people needs 300 grams of flour. Mira cooks for 14 people and has 2 bags of 400 grams. How many "
        "more grams of flour does she need?",
        "def solve():\n    needed = 300 // 4 * 14\n    return needed - 2 * 400",
    ),
    Example(
        "a parking lot",
        "A parking lot has 5 levels with 60 spaces each. In the morning 3 levels are full and the other levels are one third "
        "full. How many spaces are free?",
        "def solve():\n    spaces = (5 - 3) * 60\n    return spaces - spaces // 3",
    ),
    Example(
        "a bicycle tour",
        "Jonas rides 17 kilometers an hour for 3 hours, rests, and then rides 12 kilometers an hour for 2 hours. His tour "
        "is 90 kilometers long. How many kilometers are still ahead?",
        "def solve():\n    ridden = 17 * 3 + 12 * 2\n    return 90 - ridden",
    ),
    Example(
        "a concert",
        "Tickets for a concert cost $15 for adults and $8 for children. 120 people come, and 45 of them are children. How "
        "many dollars does the concert bring in?",
        "def solve():\n    adults = 120 - 45\n    return adults * 15 + 45 * 8",
    ),
    Example(
        "collecting stamps",
        "Ruth has 3 albums with 28 pages each and puts 6 stamps on every page. She gives 50 stamps to her brother and "
        "loses 4. How many stamps does she have?",
        "def solve():\n    stamps = 3 * 28 * 6\n    return stamps - 50 - 4",
    ),
    Example(
        "a factory",
        "A machine makes 45 bottles every 3 minutes. It runs for 8 hours and 2% of the bottles are broken. How many good "
        "bottles does it make?",
        "def solve():\n    made = 45 // 3 * 60 * 8\n    return made - made * 2 // 100",
    ),
    Example(
        "pets",
        "A cat eats 3 tins of food in 2 days, and a dog eats 2 tins a day. How many tins do 4 cats and 2 dogs eat in 30 "
        "days?",
        "def solve():\n    cats = 4 * 3 * 30 // 2\n    dogs = 2 * 2 * 30\n    return cats + dogs",
    ),
    Example(
        "walking to school",
        "Emil walks 850 meters to school and the same way back, 5 days a week. On Fridays he makes a detour of 400 meters. "
        "How many meters does he walk in 4 weeks?",
        "def solve():\n    week = 850 * 2 * 5 + 400\n    return week * 4",
    ),
    Example(
        "a work shift",
        "Dana earns $16 an hour and $24 for every hour beyond 40 in a week. Last week she worked 46 hours and paid $90 in "
        "taxes. How many dollars did she keep?",
        "def solve():\n    overtime = 46 - 40\n    pay = 40 * 16 + overtime * 24\n    return pay - 90",
    ),
)

TOPICS: Final = (
    "a bakery", "a school trip", "saving money", "a garden", "reading a book", "a train journey", "a farm",
    "a swimming pool", "a shop sale", "ages in a family", "sharing sweets", "building a wall", "a sports club",
    "a phone plan", "a library", "cooking for guests", "a parking lot", "a bicycle tour", "a concert",
    "collecting stamps", "a factory", "pets", "walking to school", "a work shift", "a birthday party", "a fruit stand",
    "painting a room", "a bus line", "a toy store", "a football season", "an orchard", "a fish tank", "a charity run",
    "packing boxes", "a water tank", "making bracelets", "a movie theater", "growing flowers", "delivering parcels",
    "a summer camp", "a candle maker", "counting coins", "a board game", "a hiking tour", "a coffee shop",
    "a class fund", "sewing shirts", "a ferry", "planting trees", "a museum", "a marathon", "a pizza night",
    "recycling bottles", "a honey seller", "a choir", "a printing shop", "a ski lift", "a hotel", "knitting scarves",
    "a photo album",
)  # fmt: skip
