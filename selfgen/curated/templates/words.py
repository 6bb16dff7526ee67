"""Names, things, places and phrases that fill the templates. No numbers, so that they never change an answer."""

from __future__ import annotations

SHE = (
    "Anna Maria Lily Emma Sofia Grace Ruth Nora Mia Ella Zoe Amy Kate Lucy Julia Rosa Hana Priya Ines Leila "
    "Tara Wendy Olga Carla Dina Fatima Gina Helen Irene Jane Mei Aisha"
).split()
HE = (
    "Tom Ben Sam Leo Max Jack Omar Paul Adam Luke Eric Noah Ivan Hugo Carlos Peter Ravi Kofi Diego Felix "
    "George Henry Ken Liam Mark Oscar Rob Simon Victor Yusuf Andre Finn"
).split()

THINGS = (
    "apple orange pear peach lemon mango cookie muffin cupcake candle sticker marble button bead shell stone "
    "pencil pen crayon notebook book card stamp coin badge balloon ribbon flower rose tulip egg tomato potato "
    "carrot onion pepper walnut bottle cup plate spoon towel sock scarf hat toy puzzle postcard photo magnet "
    "brick tile bolt screw battery lamp kite doll block leaf"
).split()
IRREGULAR = {
    "peach": "peaches",
    "mango": "mangoes",
    "tomato": "tomatoes",
    "potato": "potatoes",
    "battery": "batteries",
    "leaf": "leaves",
    "brush": "brushes",
    "box": "boxes",
    "child": "children",
}
# Nouns that name other quantities; as things they appear only in `wide` draws.
UNITS = "ticket page letter chair car lawn lap song mile liter minute dollar child team".split()
BOXES = "box bag basket crate jar tray packet bucket drawer carton".split()
RELATIVES = "mother father sister brother aunt uncle cousin grandmother grandfather neighbor teacher friend".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
PLACES = (
    "market park school library beach garden farm museum station shop kitchen office village harbor club camp "
    "playground bakery theater castle"
).split()
TREATS = (
    "bicycle camera guitar jacket tent watch skateboard telescope drum radio backpack blanket globe lantern".split()
)
TOWNS = "Oakville Riverton Ashford Milltown Hillside Lakewood Easton Brookfield Fairview Stonebridge".split()
HOBBIES = "piano violin chess drawing dancing singing spelling knitting swimming juggling".split()

# Phrases that end a clause; the empty one is most common.
TAILS = (
    "",
    "",
    "",
    " at the {place}",
    " near the {place}",
    " for the school fair",
    " with {his} {relative}",
    " before lunch",
    " after school",
    " during the holidays",
    " for a class project",
    " early in the morning",
)

# Sentences without numbers that stand before or after the opener.
SCENES = (
    "It is a sunny {day} in {town}.",
    "It is a busy {day} at the {place}.",
    "{N} lives in {town} close to the {place}.",
    "{N} likes to keep careful notes.",
    "{N} and {M} are good friends.",
    "{N} has been looking forward to {day}.",
    "There is a festival in {town} this week.",
    "{N} is getting ready for a visit from {his} {relative}.",
    "The {place} in {town} is open all week.",
    "{N} wants to make a good plan.",
    "{His} {relative} is proud of {him}.",
    "{M} comes along to help.",
    "Everyone at the {place} is in a good mood.",
    "The weather stays warm and dry.",
    "{N} writes everything down in a small book.",
    "They have a long talk about it on the way to the {place}.",
)


def plural(word: str) -> str:
    """The plural of a word in these lists."""
    return IRREGULAR.get(word, word + "s")
