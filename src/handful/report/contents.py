"""What a report holds, and how it is made of answers: items, groups of unknowns, tables of figures, and sentences."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from handful.core.answers import Answers, ExpectedLabels
from handful.core.checks import UNKNOWN_NAME
from handful.features import FeatureTable
from handful.report.plane import on_plane

MAX_REPORT_ITEMS = 5000
MAX_CENTRAL_ITEMS = 40  # of each group, whatever their confidence
Progress = Callable[[str, int, int], None]  # what is being done, items done, all items
Picture = Callable[[FeatureTable, int], bytes | None]
NOWHERE = (math.nan, math.nan)


@dataclass(frozen=True)
class Item:
    """One item of the pile, or one example; a number that is not known is nan."""

    name: str
    thumbnail: bytes | None  # a small JPEG or PNG
    label: str  # `closest` or "unknown"; of an example its class
    closest: str  # its most probable class; of an example of no class "unknown"
    confidence: float
    score: float  # high means more likely unknown: the slider of the page moves the threshold over it
    xy: tuple[float, float] = NOWHERE  # its place on the map
    nearest: Sequence[str] = ()  # the names of the examples most like it
    example: bool = False
    alternative_confidence: float = math.nan  # of the answer that it gets when the slider passes its score
    p_unknown: float = math.nan
    file: str = ""  # the address of its file, relative to the page, which links to it
    text: str = ""  # where items are texts


@dataclass(frozen=True)
class Group:
    """Unknown items that look alike, by their places in the report and the most central first."""

    name: str
    size: int  # also of items that are not in the report
    items: Sequence[int]
    parts: Sequence[tuple[int, Sequence[int], Sequence[str]]] = ()  # kinds in it: size, items, and words of texts
    words: Sequence[str] = ()  # of texts: what speaks for it, which the page marks


@dataclass(frozen=True)
class Figures:
    """A small table; the first cell of a row names it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""  # a remark below the table
    doubtful: Sequence[int] = ()  # rows to mark as doubtful
    id: str = ""  # of its element, where the script needs to find it


@dataclass(frozen=True)
class Expected:
    """What is expected of the labels before somebody checks them."""

    sentence: str = ""  # how many labels should be right
    is_low: bool = False  # so few that somebody must check them
    by_class: Mapping[str, ExpectedLabels] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """The run that made the answers, and the commands that go on from it."""

    id: str = ""  # the browser keeps corrections under it
    check_command: str = ""  # measures how many labels are right
    corrections_command: str = ""  # labels the pile again with the corrections that the page gives


@dataclass(frozen=True)
class Report:
    """Everything that the page shows."""

    title: str
    sentences: Sequence[str]  # what happened
    items: Sequence[Item]  # the pile and the examples
    classes: Sequence[str]  # in the order of the page
    threshold: float  # an item with a higher outlier score is unknown
    score_is_probability: bool  # if not, only the order of scores has a meaning
    skipped: Sequence[tuple[str, str]] = ()  # files that gave no item, and why
    made_by: Mapping[str, object] = field(default_factory=dict)  # method, parameters, versions
    groups: Sequence[Group] = ()
    tables: Sequence[Figures] = ()  # shown above the items
    can_promote: bool = True  # whether `handful promote` and `handful label --corrections` can go on from the results
    expected: Expected = field(default_factory=Expected)
    run: Run = field(default_factory=Run)
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of texts, by class: what the page marks
    chances: str = ""  # what the probabilities of being unknown say of this pile

    @property
    def has_texts(self) -> bool:
        """Whether items are texts: the page then shows them instead of pictures."""
        return any(item.text for item in self.items)


def make_report(
    answers: Answers,
    pile: FeatureTable,
    *,
    title: str,
    sentences: Sequence[str],
    examples: FeatureTable | None = None,
    picture: Picture | None = None,
    folder: str | os.PathLike[str] | None = None,
    nearest: np.ndarray[Any, Any] | None = None,
    groups: Sequence[Any] = (),
    progress: Progress = lambda what, done, total: None,
    **more: Any,
) -> Report:
    """The report of a labelled pile; of a pile that is too large for one page, the least sure items and its groups.

    picture: makes the picture of an item, by default of its file. folder: where the page will be, which links to files.
    nearest: [n, k], the examples most like each item. more: other fields of `Report`.
    """
    picture = picture or _thumbnail
    rows = _choose_rows(answers, groups)
    examples = pile.take([]) if examples is None else examples
    on_map = [(float(x), float(y)) for x, y in on_plane(np.concatenate([pile.features[rows], examples.features]))]

    def shown(items: FeatureTable, row: int) -> dict[str, Any]:
        text = "" if items.texts is None else items.texts[row]
        return {"thumbnail": picture(items, row), "file": _address(items, row, folder), "text": text}

    closest, unknown, doubts, p_unknown = answers.closest, answers.unknown, answers.doubts, answers.p_unknown
    confidence, alternative = answers.confidence, answers.alternative_confidence
    items = []
    for done, i in enumerate(rows):
        progress("report", done, len(rows))
        name = str(closest[i])
        items.append(
            Item(
                pile.names[i],
                label=UNKNOWN_NAME if unknown[i] else name,
                closest=name,
                score=float(doubts[i]),
                confidence=float(confidence[i]),
                alternative_confidence=float(alternative[i]),
                xy=on_map[done],
                p_unknown=math.nan if p_unknown is None else float(p_unknown[i]),
                nearest=() if nearest is None else [examples.names[k] for k in nearest[i]],
                **shown(pile, i),
            )
        )
    progress("report", len(rows), len(rows))
    labels = [label or "" for label in examples.label_names] if len(examples) else []
    for k, (name, label, xy) in enumerate(zip(examples.names, labels, on_map[len(rows) :], strict=True)):
        known: dict[str, Any] = {"confidence": 1.0, "score": 0.0, "example": True}
        items.append(Item(name, label=label, closest=label, xy=xy, **known, **shown(examples, k)))
    sentences = list(sentences)
    if len(rows) < len(answers):
        sentences.append(f"The report shows {len(rows):,} of them, the least sure ones; the tables hold all.")
    classes = [str(name) for name in answers.classes.tolist()]
    threshold, more = float(answers.threshold), {name: value for name, value in more.items() if value is not None}
    shown_groups = _groups(groups, rows)
    return Report(title, sentences, items, classes, threshold, answers.is_probability, groups=shown_groups, **more)


def _groups(groups: Sequence[Any], rows: Sequence[int]) -> list[Group]:
    """Groups of rows of the pile as groups of the report, which shows some of these rows."""
    place_of = {row: n for n, row in enumerate(rows)}

    def places(items: Any) -> list[int]:
        return [place_of[i] for i in items.tolist() if i in place_of]

    return [
        Group(
            group.name,
            group.size,
            places(group.items),
            [(part.size, places(part.items), part.words) for part in group.parts],
            group.words,
        )
        for group in groups
    ]


def _choose_rows(answers: Answers, groups: Sequence[Any]) -> list[int]:
    if len(answers) <= MAX_REPORT_ITEMS:
        return list(range(len(answers)))
    central = [i for group in groups for i in group.items[:MAX_CENTRAL_ITEMS].tolist()]
    least_sure = np.argsort(answers.confidence, kind="stable").tolist()
    rows = dict.fromkeys([*central[: MAX_REPORT_ITEMS // 2], *least_sure])
    return sorted(list(rows)[:MAX_REPORT_ITEMS])


def _thumbnail(items: FeatureTable, row: int) -> bytes | None:
    if items.files is None or items.texts is not None:
        return None
    from handful.backbones.pictures import BadPicture, thumbnail

    try:
        return thumbnail(items.files[row])
    except (BadPicture, OSError):  # the picture is gone
        return None


def _address(items: FeatureTable, row: int, folder: str | os.PathLike[str] | None) -> str:
    """The address of an item's file, relative to a folder."""
    if items.files is None or folder is None:
        return ""
    try:
        return quote(os.fsencode(Path(os.path.relpath(items.files[row], folder)).as_posix()))
    except ValueError:  # on another drive of Windows
        return ""
