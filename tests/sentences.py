"""Short texts of four kinds, for tests that label texts: two kinds are classes there, the others are of no class."""

import csv

from text_piles import SENTENCES

KINDS = {
    "refund": [
        "I want my money back for this order", "please refund the payment I made yesterday",
        "when will I get the refund on my card", "the shop still has not returned my money",
        "how do I ask for a refund of my purchase", "I was charged twice and want one payment refunded",
        "can you give me my money back", "my refund has not arrived yet", "I sent the shoes back, where is my refund",
        "refund the second charge on my bill please", "they promised a refund last week",
        "is it possible to get a full refund",
    ],
    "password": [
        "I forgot my password and cannot log in", "how can I reset the password of my account",
        "the link to reset my password does not work", "my login fails although the password is right",
        "please send me a new password", "I am locked out of my account after three wrong passwords",
        "change my password for the web site", "the page says that my password has expired",
        "where do I set a new password", "I cannot sign in, my password is not accepted",
        "reset the password for my user name", "I lost the password of my account",
    ],
    "weather": SENTENCES["weather"][:10],
    "cooking": SENTENCES["cooking"][:10],
}  # fmt: skip


def write_sentences(path, labelled=0, kinds=("refund", "password")):
    """A table id, text, label, customer of all sentences in turn; the first of some kinds have labels.

    Gives the kind of each id.
    """
    truth, rows = {}, []
    for place in range(max(map(len, KINDS.values()))):
        for kind, texts in KINDS.items():
            if place < len(texts):
                name = f"t{len(rows) + 1}"
                label = kind if kind in kinds and place < labelled else ""
                rows.append([name, texts[place], label, f"customer {len(rows) % 7}"])
                truth[name] = kind
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "text", "label", "customer"], *rows])
    return truth
