"""Data on every machine: handwritten digits, and small made-up piles to practise on.

What is written is the same on every call, so the same command may be run twice in one folder.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from handful.utils.files import write_whole

SHAPES = {"disc": "ellipse", "box": "rectangle"}
SIDE = 160  # pixels
SHOWN = 5  # labelled examples of each class
WORDS = {
    "thing": "shoes lamp jacket phone coffee-maker book headphones chair kettle backpack",
    "role": "driver designer cook nurse clerk programmer seller manager",
    "place": "Rome Oslo Lisbon Chicago Berlin Kyoto Cairo Lima",
}
KNOWN_TICKETS = {"delivery", "refund", "password"}  # weather and jobs are the unknowns
TICKETS = """
delivery: where is my {thing}
delivery: my {thing} has not arrived yet
delivery: when will you ship the {thing} i ordered
delivery: the tracking page of my {thing} shows nothing
delivery: my {thing} was delivered to the wrong address
refund: i want my money back for the {thing}
refund: how do i return the {thing} i bought
refund: please refund my {thing}
refund: i sent the {thing} back but got no refund
refund: can i give the {thing} back and get my money
password: i cannot log in to buy a {thing}
password: i forgot my password while ordering a {thing}
password: my account is locked since i ordered the {thing}
weather: will it rain in {place} tomorrow
weather: how warm will it be in {place} on sunday
weather: is there snow in {place}
weather: what is the weather like in {place}
weather: is a storm coming to {place}
jobs: do you hire a {role}
jobs: i would like to apply for a job as a {role}
jobs: how much do you pay a {role}
jobs: where do i send my application as {role}
jobs: is the position of {role} still open
"""
DIGIT_NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
KNOWN_DIGITS = 5  # zero to four; the others are the unknowns


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Scikit-learn's handwritten digits: 1,797 drawings, features [1797, 64] float32 in 0 .. 16, labels [1797].

    Examples
    --------
    >>> features, labels = digits()
    >>> features.shape, int(labels.max())
    ((1797, 64), 9)
    """
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    return features.astype(np.float32), labels


def practice(kind: str, folder: str | Path = ".") -> list[Path]:
    """Write a small pile to practise on, and return the paths that it consists of.

    Parameters
    ----------
    kind : {"pictures", "texts", "embeddings"}
        `pictures` are `examples/disc`, `examples/box` and `pile/`, a third of which shows stripes. `texts` is
        `tickets.csv`: three classes have five labels each, two other kinds have none. `embeddings` are `table.csv`,
        300 handwritten digits of which five of each digit below five have a label, and `embeddings.npz`, all 1,797
        digits with labels, for `handful bench`.
    folder : str or Path, default "."
        Where to write. Files that are there with other contents are never replaced.
    """
    makers = {"pictures": _pictures, "texts": _texts, "embeddings": _embeddings}
    if kind not in makers:
        raise ValueError(f"there is nothing of the kind {kind!r} to practise on: choose one of {', '.join(makers)}")
    files = {Path(folder) / name: content for name, content in makers[kind]()}
    for path, content in files.items():
        for place in path.parents:
            if place.exists() and not place.is_dir():
                raise FileExistsError(f"{place} is a file, but a folder of that name is needed: choose another folder")
        if path.exists() and not (path.is_file() and path.read_bytes() == content):
            raise FileExistsError(f"{path} is there already and is something else: choose an empty folder")
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_whole(path, content)
    return list(files)


def _pictures() -> Iterator[tuple[str, bytes]]:
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        for folder, count in ((f"examples/{shape}", SHOWN), ("pile", 12)):
            for i in range(count):
                yield f"{folder}/{shape}{i}.png", _drawing(shape, rng)
    for i in range(12):
        yield f"pile/stripes{i}.png", _drawing("stripes", rng)


def _drawing(kind: str, rng: np.random.Generator) -> bytes:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (SIDE, SIDE), tuple(rng.integers(200, 256, 3).tolist()))
    x, y, size = (int(rng.integers(*span)) for span in ((15, 60), (15, 60), (50, 80)))
    colour, draw = tuple(rng.integers(0, 180, 3).tolist()), ImageDraw.Draw(image)
    if kind == "stripes":
        for k in range(0, SIDE, 16):
            draw.line((k, 0, SIDE - k, SIDE), fill=colour, width=5)
    else:
        getattr(draw, SHAPES[kind])((x, y, x + size, y + size), fill=colour)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _texts() -> Iterator[tuple[str, bytes]]:
    rows = []
    for line in TICKETS.strip().splitlines():
        kind, text = line.split(": ")
        slot = text[text.index("{") + 1 : text.index("}")]
        rows += [(text.format(**{slot: word}), kind) for word in WORDS[slot].split()]
    Random(1).shuffle(rows)
    yield "tickets.csv", _csv(["id", "text", "label", "truth"], _shown(rows, KNOWN_TICKETS))


def _embeddings() -> Iterator[tuple[str, bytes]]:
    features, labels = digits()
    file = io.BytesIO()
    np.savez(file, features=features, labels=labels)
    yield "embeddings.npz", file.getvalue()
    names = [f"f{i}" for i in range(features.shape[1])]
    kinds = [DIGIT_NAMES[label] for label in labels[:300]]
    shown = [row[-2:] for row in _shown([("", kind) for kind in kinds], set(DIGIT_NAMES[:KNOWN_DIGITS]))]
    rows = [[i, *label, *map(int, pixels)] for i, (label, pixels) in enumerate(zip(shown, features[:300], strict=True))]
    yield "table.csv", _csv(["id", "label", "truth", *names], rows)


def _shown(rows: list[tuple[str, str]], known: set[str]) -> list[list[Any]]:
    """Rows of number, item, label and truth: the first few items of each known class show their label."""
    kinds = [kind for _, kind in rows]
    is_shown = [kind in known and kinds[:number].count(kind) < SHOWN for number, kind in enumerate(kinds)]
    return [[number, item, kind * is_shown[number], kind] for number, (item, kind) in enumerate(rows)]


def _csv(header: list[str], rows: list[list[Any]]) -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows([header, *rows])
    return file.getvalue().encode()
