"""What a report holds: items with their answers, groups of unknowns, tables of figures, and sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from handful.core.answers import ExpectedLabels
from handful.core.checks import UNKNOWN_NAME


@dataclass(frozen=True)
class Item:
    """One item of the pile, or one example.

    Parameters
    ----------
    name : str
        Its file name, or another name.
    thumbnail : bytes or None
        A small JPEG or PNG.
    label : str
        `closest` or "unknown"; for an example its class.
    closest : str
        Its most probable class; for an example of none of the classes "unknown".
    confidence : float
        How sure the label is; nan if that is not known.
    score : float
        Its outlier score: high means more likely unknown. The slider of the page moves the threshold over it.
    xy : tuple of float
        Its place on the map; nan if it has none.
    nearest : sequence of str
        The names of the examples most like it.
    example : bool
        Whether it is an example.
    alternative_confidence : float
        How sure the other answer would be, which the item gets when the slider passes its score; nan if not known.
    p_unknown : float
        The calibrated probability that it is unknown; nan if there is none.
    note : str
        A remark.
    file : str
        The address of its file, relative to the page: the page links to it.
    text : str
        Its text, where items are texts.
    """

    name: str
    thumbnail: bytes | None
    label: str
    closest: str
    confidence: float
    score: float
    xy: tuple[float, float] = (math.nan, math.nan)
    nearest: Sequence[str] = ()
    example: bool = False
    alternative_confidence: float = math.nan
    p_unknown: float = math.nan
    note: str = ""
    file: str = ""
    text: str = ""


@dataclass(frozen=True)
class Group:
    """Unknown items that look alike.

    Parameters
    ----------
    name : str
        The name of the group.
    size : int
        How many items it has, also those that are not in the report.
    items : sequence of int
        Its items by their place in the report, the most central first.
    parts : sequence of (int, sequence of int)
        If it looks like several kinds: how many items each kind has, and those in the report.
    words : sequence of str
        Where items are texts: the words that speak for it, which the page marks.
    part_words : sequence of sequences of str
        For each kind the words that tell it from the other kinds.
    """

    name: str
    size: int
    items: Sequence[int]
    parts: Sequence[tuple[int, Sequence[int]]] = ()
    words: Sequence[str] = ()
    part_words: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class Figures:
    """A small table.

    Parameters
    ----------
    title : str
        Its heading.
    columns : sequence of str
        The headings of the columns.
    rows : sequence of sequence of str
        The cells, as the text to print; the first cell of a row names it.
    note : str
        A remark below the table.
    doubtful : sequence of int
        The rows to mark as doubtful, by their number.
    id : str
        The id of its element, where the script needs to find it.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    doubtful: Sequence[int] = ()
    id: str = ""

    def __post_init__(self) -> None:
        if wrong := [n for n, row in enumerate(self.rows) if len(row) != len(self.columns)]:
            raise ValueError(f"table {self.title!r}: rows {wrong} do not have {len(self.columns)} cells")


@dataclass(frozen=True)
class Expected:
    """What is expected of the labels before somebody checks them.

    Parameters
    ----------
    sentence : str
        How many labels should be right, in words.
    is_low : bool
        Whether that is so few that somebody must check them.
    by_class : mapping of ExpectedLabels
        How many labels each class got, and how many of them should be right.
    """

    sentence: str = ""
    is_low: bool = False
    by_class: Mapping[str, ExpectedLabels] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """The run that made the answers, and the commands that go on from it.

    Parameters
    ----------
    id : str
        Tells it from other runs: the browser keeps corrections under it.
    check_command : str
        Measures how many labels are right.
    corrections_command : str
        Labels the pile again with the corrections that the page gives.
    """

    id: str = ""
    check_command: str = ""
    corrections_command: str = ""


@dataclass(frozen=True)
class Report:
    """Everything that the page shows.

    Parameters
    ----------
    title : str
        The heading of the page.
    sentences : sequence of str
        What happened, in words.
    items : sequence of Item
        The pile and the examples.
    classes : sequence of str
        The known classes, in the order of the page.
    threshold : float
        An item with a higher outlier score is unknown.
    score_is_probability : bool
        Whether the outlier score is a probability. If not, only the order of scores has a meaning.
    skipped : sequence of (str, str)
        Files that gave no item, and why.
    made_by : mapping
        How the answers were made: method, parameters, versions.
    groups : sequence of Group
        The unknown items in groups that look alike.
    tables : sequence of Figures
        Figures to show above the items.
    can_promote : bool
        Whether `handful promote` can make classes of the groups, and `handful label` take corrections: the page then
        says how.
    expected : Expected
        How many labels should be right.
    run : Run
        The run that made the answers.
    words : mapping of sequence of str
        Where items are texts: by class the words that speak for it, which the page marks.
    chances : str
        What the probabilities of being unknown say of this pile, in words.
    """

    title: str
    sentences: Sequence[str]
    items: Sequence[Item]
    classes: Sequence[str]
    threshold: float
    score_is_probability: bool
    skipped: Sequence[tuple[str, str]] = ()
    made_by: Mapping[str, object] = field(default_factory=dict)
    groups: Sequence[Group] = ()
    tables: Sequence[Figures] = ()
    can_promote: bool = True
    expected: Expected = field(default_factory=Expected)
    run: Run = field(default_factory=Run)
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    chances: str = ""

    @property
    def has_texts(self) -> bool:
        """Whether items are texts: the page then shows them instead of pictures."""
        return any(item.text for item in self.items)

    def check(self) -> None:
        """Raise ValueError if something in it contradicts something else; the message names the item or group."""
        if UNKNOWN_NAME in self.classes:
            raise ValueError(f"a class is named {UNKNOWN_NAME!r}, the name for items of no class: rename it")
        if math.isnan(self.threshold):
            raise ValueError("threshold is nan: give the outlier score above which an item is unknown")
        for item in self.items:
            if urlsplit(item.file).scheme or item.file.startswith("//"):
                raise ValueError(f"item {item.name!r}: its file {item.file!r} must be an address relative to the page")
            if item.example and item.label == item.closest == UNKNOWN_NAME:
                continue
            if item.closest not in self.classes:
                raise ValueError(f"item {item.name!r}: {item.closest!r} is not one of the classes {list(self.classes)}")
            if item.label not in (item.closest, UNKNOWN_NAME):
                raise ValueError(
                    f"item {item.name!r}: its label {item.label!r} is neither {item.closest!r} nor {UNKNOWN_NAME!r}"
                )
        for group in self.groups:
            for place in (*group.items, *(place for _, part in group.parts for place in part)):
                if not 0 <= place < len(self.items) or self.items[place].label != UNKNOWN_NAME:
                    raise ValueError(f"group {group.name!r}: item {place} is not an unknown item of the report")
