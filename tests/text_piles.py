"""Small piles of sentences about a few things, as tables and as folders of text files, for the tests of texts."""

import csv

SENTENCES = {
    "card": [
        "where is my new credit card", "my card was stolen yesterday", "i lost my bank card in the bus",
        "please block my credit card", "the cash machine kept my card", "when does my debit card arrive",
        "my card was declined in the shop", "how do i order a second bank card", "my credit card is broken",
        "unlock my debit card again please", "the chip of my card does not work", "i need a new card for my account",
    ],
    "weather": [
        "how is the weather in rome today", "will it rain tomorrow", "is it going to snow this weekend",
        "what is the temperature outside", "do i need an umbrella this evening", "how warm will it be on sunday",
        "weather forecast for next week", "is a storm coming to the coast", "how cold does it get at night",
        "will the sun shine on saturday", "how much rain fell in april", "is it windy at the beach now",
    ],
    "cooking": [
        "how long do i boil an egg", "give me a recipe for tomato soup", "which spices go into a curry",
        "can i bake bread without yeast", "how do i cook rice", "what sauce fits with pasta",
        "at which heat do i roast a chicken", "how much sugar goes into a cake", "how do i peel garlic quickly",
        "what can i cook with leftover potatoes", "how do i make pancakes", "is this recipe vegetarian",
    ],
}  # fmt: skip
EXAMPLES = 4  # of each class that is shown
KNOWN = ("card", "weather")


def rows(kinds=tuple(SENTENCES)):
    """(text, label, truth) of a pile in which some rows have a label; cooking is a class that nobody shows."""
    return [
        (text, kind if kind in KNOWN and i < EXAMPLES else "", kind if kind in KNOWN else "unknown")
        for i in range(12)
        for kind in kinds
        for text in (SENTENCES[kind][i],)
    ]


def write_tickets(path, more=()):
    """A table with the columns id, text, label and price. more: (text, label) of further rows."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "label", "price"])
        for i, (text, label) in enumerate([*((text, label) for text, label, _ in rows()), *more]):
            writer.writerow([f"{i:03d}", text, label, f"{i}.50"])
    return path


def truth():
    """The right label of each text."""
    return {text: kind for text, _, kind in rows()}


def fill_texts(folder):
    """examples/card, examples/weather and a pile, of text files."""
    for i, (text, label, _) in enumerate(rows()):
        place = folder / "examples" / label if label else folder / "pile"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{i}.txt").write_text(text, "utf-8")
    return folder
