"""Which column of a table holds texts, and which holds labels: by their names, and by how their cells look."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from handful.features.file_checks import listed
from handful.features.labels import NDArray
from handful.utils.text import is_blank, shortened

TEXT_NAMES = (
    "text", "texts", "sentence", "utterance", "message", "body", "content", "review", "comment", "question", "query",
    "description", "tweet", "post", "ticket", "email", "document", "abstract", "prompt", "summary", "title", "subject",
    "headline",
)  # fmt: skip
LABEL_NAMES = ("label", "labels")
OTHER_LABEL_NAMES = ("intent", "category", "class", "topic", "tag")  # used where the column of texts is sure
ID_NAMES = ("id", "ids", "index", "uuid", "guid", "path", "file", "url", "split", "date", "time")
NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*%?", re.ASCII)
WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")  # Thai, Lao, Japanese, Chinese
MAX_SAMPLED_CELLS = 500
MIN_WORDS = 3  # of a text that is language, in the median
MIN_NAMED_WORDS = 2  # of a text in a column that is called so
MIN_DISTINCT = 0.5  # of the cells
MAX_NUMBER_COLUMNS = 15  # beside texts; more of them are features
MIN_SERIES = 3  # columns of numbers called f0, f1, f2 are features


class TextColumn(NamedTuple):
    """The column of texts, and why it is that one: "" if the user named it."""

    name: str
    reason: str


class Look(NamedTuple):
    """How the cells of a column look: how many are there, and of these."""

    cells: int
    words: float  # in the median
    distinct: float  # share
    numbers: float  # share

    @property
    def is_text(self) -> bool:
        """Whether it may hold texts: not only numbers."""
        return self.cells > 0 and self.numbers < 1

    @property
    def is_language(self) -> bool:
        """Whether it looks like sentences."""
        return self.words >= MIN_WORDS and self.distinct >= MIN_DISTINCT and self.numbers < 0.5


def look_at(cells: NDArray) -> Look:
    """How the cells of a column look, from a sample of those that are not blank."""
    values = [
        value for value in cells.tolist() if value is not None and not (isinstance(value, str) and is_blank(value))
    ]
    sample: list[Any] = values[:: max(1, len(values) // MAX_SAMPLED_CELLS)][:MAX_SAMPLED_CELLS]
    if not sample:
        return Look(0, 0.0, 0.0, 0.0)
    texts = [value[:10_000] if isinstance(value, str) else None for value in sample]
    numbers = sum(text is None or NUMBER.fullmatch(text) is not None for text in texts)
    words = median(0 if text is None else len(text.split()) + len(WITHOUT_SPACES.findall(text)) // 2 for text in texts)
    return Look(len(values), words, len({str(text) for text in texts}) / len(texts), numbers / len(texts))


def find_text_column(columns: Mapping[str, NDArray], text: str | None = None, label: str | None = None) -> TextColumn:
    """The column of texts.

    Parameters
    ----------
    columns : mapping of str to array
        The columns of a table.
    text : str, optional
        The name that the user gave.
    label : str, optional
        The column of labels, which is never the one of texts.

    Raises
    ------
    ValueError
        If there is no such column, if it has only numbers, or if several columns may hold the texts.
    """
    names = list(columns)
    if text is not None:
        if text not in columns:
            raise ValueError(f"there is no column {shortened(text)!r}, only {listed(names)}: name one with --text")
        if (look := look_at(columns[text])).cells and not look.is_text:
            raise ValueError(
                f"column {shortened(text)!r} has only numbers: name a column of texts with --text, or leave it out if "
                f"numbers are the features (the columns are {listed(names)})"
            )
        return TextColumn(text, "")
    looks = {name: look_at(cells) for name, cells in columns.items() if name != label and _key(name) not in LABEL_NAMES}
    may_be = {name: look for name, look in looks.items() if look.is_text and look.numbers < 0.5}
    if name := _by_name(list(may_be), TEXT_NAMES):
        return TextColumn(name, "by its name")
    language = {name: look for name, look in may_be.items() if look.is_language}
    for usual in TEXT_NAMES:  # review_body, TicketText
        for name in language:
            if usual in re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).casefold()):
                return TextColumn(name, "by its name")
    if language:
        return TextColumn(max(language, key=lambda name: language[name].words), "because it looks like language")
    rest = [name for name in may_be if _key(name) not in (*ID_NAMES, *OTHER_LABEL_NAMES)]
    if len(rest) == 1:
        return TextColumn(rest[0], "because no other column may hold texts")
    if not may_be:
        why = "all of their cells are blank" if not any(look.cells for look in looks.values()) else "they hold numbers"
        raise ValueError(f"no column holds texts, {why}: there are {listed(names)}")
    raise ValueError(f"it is not clear which column holds the texts: name it with --text; there are {listed(names)}")


def find_label_column(columns: Mapping[str, NDArray], text: str | None, label: str | None = None) -> str | None:
    """The column of labels: the one that the user named, or one with a usual name; None if there is none."""
    names = [name for name in columns if name != text]
    if label is not None:
        if label not in columns:
            raise ValueError(
                f"there is no column {shortened(label)!r}, only {listed(list(columns))}: name one with --label"
            )
        if label == text:
            raise ValueError(f"column {shortened(label)!r} cannot hold both the texts and the labels")
        return label
    return _by_name(names, LABEL_NAMES) or _by_name(names, OTHER_LABEL_NAMES)


def holds_texts(columns: Mapping[str, NDArray], label: str | None = None) -> bool:
    """Whether a table is one of texts, and not of features: it has a column that looks like language, and few numbers.

    Columns of numbers that are called f0, f1, f2, ... are features, however few there are. A table without numbers has
    no features.
    """
    looks = {name: look_at(cells) for name, cells in columns.items() if name != label and _key(name) not in LABEL_NAMES}
    numbers = [name for name, look in looks.items() if look.cells and look.numbers >= 0.5]
    if "embedding" in columns or len(numbers) > MAX_NUMBER_COLUMNS or _has_series(numbers):
        return False
    if not numbers and any(look.cells for look in looks.values()):
        return True  # it has no features
    if any(look.is_language for look in looks.values()):
        return True
    named = [look for name, look in looks.items() if _key(name) in TEXT_NAMES and (look.is_text or not look.cells)]
    if any(look.words >= MIN_NAMED_WORDS for look in named):
        return True
    return bool(named) and all(_key(name) in ID_NAMES for name in numbers)


def _has_series(names: Sequence[str]) -> bool:
    stems = Counter(stem for name in names if (stem := name.rstrip("0123456789")) != name)
    return max(stems.values(), default=0) >= MIN_SERIES


def _by_name(names: Sequence[str], usual: Sequence[str]) -> str | None:
    keys = {_key(name): name for name in reversed(names)}
    return next((keys[key] for key in usual if key in keys), None)


def _key(name: str) -> str:
    return name.strip().casefold()
