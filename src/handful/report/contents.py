"""What a report holds, and how it is made of answers: items, groups of unknowns, tables of figures, and sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from handful.core.answers import Answers, ExpectedLabels
from handful.core.checks import UNKNOWN_NAME

MAX_REPORT_ITEMS = 5000
MAX_CENTRAL_ITEMS = 40  # of each group, whatever their confidence
Progress = Callable[[str, int, int], None]  # what is being done, items done, all items
Place = tuple[float, float]


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


@dataclass(frozen=True)
class Gallery:
    """The names and pictures of some items, or their texts.

    Parameters
    ----------
    names : sequence of str
        One name for each item.
    thumbnail : callable
        Gives the picture of the i-th item, a small JPEG or PNG; or None.
    labels : sequence of str
        For examples: the class of each; "unknown" for an example of none of the classes.
    file : callable
        Gives the address of the i-th item's file, relative to the page; or "".
    text : callable
        Gives the text of the i-th item; or "".
    """

    names: Sequence[str]
    thumbnail: Callable[[int], bytes | None] = lambda i: None
    labels: Sequence[str] = ()
    file: Callable[[int], str] = lambda i: ""
    text: Callable[[int], str] = lambda i: ""


def make_report(
    answers: Answers,
    pile: Gallery,
    *,
    title: str,
    sentences: Sequence[str],
    examples: Gallery | None = None,
    places: Callable[[Sequence[int]], Sequence[Place]] | None = None,
    nearest: np.ndarray[Any, Any] | None = None,
    groups: Sequence[Any] = (),
    progress: Progress = lambda what, done, total: None,
    **more: Any,
) -> Report:
    """The report of a labelled pile.

    A pile of more than 5,000 items is too large for one page: then the report has the items with the lowest confidence
    and the most central items of each group.

    Parameters
    ----------
    answers : Answers
        The answers for the n items of the pile.
    pile : Gallery
        The names and pictures of these items.
    title : str
        The heading of the page.
    sentences : sequence of str
        What happened, in words.
    examples : Gallery, optional
        The examples with their labels.
    places : callable, optional
        For some items of the pile, given by their numbers, the places on the map of these items and then of all
        examples. Without it there is no map.
    nearest : array [n, k], optional
        For each item the numbers of the k examples most like it.
    groups : sequence
        The unknown items in groups that look alike, as `handful.Result.groups` has them.
    progress : callable
        Called with "report", how many items are done, and of how many.
    **more
        Other parameters of `Report`: `skipped`, `made_by`, `tables`, `can_promote`, `expected`, `run`, `words`,
        `chances`.

    Returns
    -------
    Report
        What `write` makes a page of.

    Examples
    --------
    >>> answers = Answers(np.array([[0.6, 0.2], [0.1, 0.1]]), np.array([0.2, 0.8]), np.array(["cat", "hen"]), 0.5,
    ...                   is_probability=True)
    >>> report = make_report(answers, Gallery(["a.jpg", "b.jpg"]), title="Pets", sentences=["Two pictures."])
    >>> [(item.name, item.label) for item in report.items]
    [('a.jpg', 'cat'), ('b.jpg', 'unknown')]
    """
    rows = _choose_rows(answers, groups)
    example_count = 0 if examples is None else len(examples.labels)
    on_map = [(math.nan, math.nan)] * (len(rows) + example_count) if places is None else places(rows)
    example_names = [] if examples is None else examples.names
    items = _pile_items(answers, pile, rows, on_map, example_names, nearest, progress)
    items += _example_items(examples, on_map[len(rows) :])
    sentences = list(sentences)
    if len(rows) < len(answers):
        sentences.append(f"The report shows {len(rows):,} of them, the least sure ones; the tables hold all.")
    place_of = {row: n for n, row in enumerate(rows)}
    return Report(
        title,
        sentences,
        items,
        [str(name) for name in answers.classes.tolist()],
        float(answers.threshold),
        answers.is_probability,
        groups=[_group(group, place_of) for group in groups],
        **{name: value for name, value in more.items() if value is not None},
    )


def _group(group: Any, place_of: Mapping[int, int]) -> Group:
    def places(items: Any) -> list[int]:
        return [place_of[i] for i in items.tolist() if i in place_of]

    parts = [(part.size, places(part.items)) for part in group.parts]
    return Group(group.name, group.size, places(group.items), parts, group.words, [part.words for part in group.parts])


def _choose_rows(answers: Answers, groups: Sequence[Any]) -> list[int]:
    if len(answers) <= MAX_REPORT_ITEMS:
        return list(range(len(answers)))
    central = [i for group in groups for i in group.items[:MAX_CENTRAL_ITEMS].tolist()]
    least_sure = np.argsort(answers.confidence, kind="stable").tolist()
    rows = dict.fromkeys([*central[: MAX_REPORT_ITEMS // 2], *least_sure])
    return sorted(list(rows)[:MAX_REPORT_ITEMS])


def _pile_items(
    answers: Answers,
    pile: Gallery,
    rows: Sequence[int],
    on_map: Sequence[Place],
    example_names: Sequence[str],
    nearest: np.ndarray[Any, Any] | None,
    progress: Progress,
) -> list[Item]:
    closest, unknown, doubts = answers.closest, np.asarray(answers.unknown), answers.doubts
    confidence, alternative, p_unknown = answers.confidence, answers.alternative_confidence, answers.p_unknown
    items = []
    for done, i in enumerate(rows):
        progress("report", done, len(rows))
        items.append(
            Item(
                pile.names[i],
                pile.thumbnail(i),
                UNKNOWN_NAME if unknown[i] else str(closest[i]),
                str(closest[i]),
                float(confidence[i]),
                float(doubts[i]),
                on_map[done],
                () if nearest is None else [example_names[k] for k in nearest[i]],
                alternative_confidence=float(alternative[i]),
                p_unknown=math.nan if p_unknown is None else float(p_unknown[i]),
                file=pile.file(i),
                text=pile.text(i),
            )
        )
    progress("report", len(rows), len(rows))
    return items


def _example_items(examples: Gallery | None, on_map: Sequence[Place]) -> list[Item]:
    if examples is None:
        return []
    return [
        Item(
            examples.names[k], examples.thumbnail(k), label, label, 1.0, 0.0, on_map[k], example=True,
            file=examples.file(k), text=examples.text(k),
        )
        for k, label in enumerate(examples.labels)
    ]  # fmt: skip
