"""The page of a labelled pile: drag the outlier threshold and see which pictures are known, class by class.

One html file that opens from disk. Its script and style stand inside it and are allowed by their hashes alone; its
Content-Security-Policy forbids everything else, so nothing is fetched and a picture called `<script>` is a name like
any other. The items travel as JSON, their thumbnails in a second block, and the script (`pile.js`) makes a card only
when it comes near the window: twenty thousand pictures open as five hundred do.

>>> one = PileItem("a.jpg", None, "cat", "cat", 0.9, 0.1, (0.0, 1.0), [])
>>> page = render_pile(PileReport("Pets", ["One cat."], [one], ["cat"], 0.5, True, [], {"method": "eol"}))
>>> "a.jpg" in page
True
"""

from __future__ import annotations

import json
import math
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from handful.core.checks import UNKNOWN_NAME
from handful.report.parts import facts, save, text

SCRIPTS = ("pile_data.js", "pile_plots.js", "pile_cards.js", "pile_groups.js", "pile.js")  # one script, in this order
KNOWN, UNKNOWN, EXAMPLE = range(3)  # what an item is, as the script reads it


@dataclass(frozen=True)
class PileItem:
    """One picture. A high `score` means more likely unknown; the slider runs over it.

    thumbnail: a JPEG or PNG. label: `closest` or "unknown", or the class of an example. closest: its likeliest class.
    confidence: in that label; otherwise: in the other answer, for when the slider moves it there (nan: not said).
    xy: its place on the map, nan for none. nearest: names of the examples most like it. p_unknown: a calibrated
    probability, where there is one beside the score (nan: there is none).
    """

    name: str
    thumbnail: bytes | None
    label: str
    closest: str
    confidence: float
    score: float
    xy: tuple[float, float]
    nearest: Sequence[str]
    example: bool = False
    otherwise: float = math.nan
    p_unknown: float = math.nan


@dataclass(frozen=True)
class PileGroup:
    """Unknown items that look alike: `items` by their place in the report, most central first; `size` counts all."""

    name: str
    size: int
    items: Sequence[int]


@dataclass(frozen=True)
class PileReport:
    """What the page tells. An item is unknown if its score is above `threshold`; `skipped` holds (name, why)."""

    title: str
    sentences: Sequence[str]
    items: Sequence[PileItem]
    classes: Sequence[str]
    threshold: float
    score_is_probability: bool
    skipped: Sequence[tuple[str, str]] = ()
    made_by: Mapping[str, object] = field(default_factory=dict)
    groups: Sequence[PileGroup] = ()


def render_pile(report: PileReport) -> str:
    """The page as html; the same report gives the same page."""
    here = resources.files(__package__)
    css = (here / "pile.css").read_text(encoding="utf-8")
    script = "\n".join((here / name).read_text(encoding="utf-8") for name in SCRIPTS)
    count = len(report.skipped)
    return Template((here / "pile.html").read_text(encoding="utf-8")).substitute(
        title=text(report.title),
        style_hash=_hash(css),
        script_hash=_hash(script),
        css=css,
        script=script,
        sentences="\n".join(f'<p dir="auto">{text(line)}</p>' for line in report.sentences),
        data=_json(_data(report)),
        pictures=_json([_picture(item) for item in report.items]),
        skipped_title=f"{count:,} file{'s' * (count != 1)} skipped, and why" if count else "No file was skipped",
        skipped="\n".join(
            f'<li><bdi class="file">{text(_shown(name))}</bdi> <span dir="auto">{text(why)}</span></li>'
            for name, why in report.skipped
        ),
        facts=facts(report.made_by),
    )


def write_pile(path: str | os.PathLike, report: PileReport) -> Path:
    """Write the page to `path`; an earlier page stays whole if that fails."""
    return save(path, render_pile(report))


def _data(report: PileReport) -> dict[str, Any]:
    """What `pile.js` reads: one row an item, classes and nearest examples by their number."""
    classes = {name: n for n, name in enumerate(report.classes)}
    if UNKNOWN_NAME in classes:
        raise ValueError(f"a class is named {UNKNOWN_NAME!r}, as the pictures of no class are: rename it")
    if math.isnan(report.threshold):
        raise ValueError("threshold is nan: give the outlier score above which an item is unknown")
    examples: dict[str, int] = {}
    for n, item in enumerate(report.items):
        if item.example:
            examples.setdefault(item.name, n)
    return {
        "classes": [_shown(name) for name in report.classes],
        "unknown": UNKNOWN_NAME,
        "threshold": _number(report.threshold),
        "probability": bool(report.score_is_probability),
        "items": [_row(item, classes, examples) for item in report.items],
        "groups": [_group(group, report.items) for group in report.groups],
    }


def _group(group: PileGroup, items: Sequence[PileItem]) -> list[Any]:
    for place in group.items:
        if not 0 <= place < len(items) or items[place].label != UNKNOWN_NAME:
            raise ValueError(f"group {group.name!r}: item {place} is not an unknown item of the report")
    return [_shown(group.name), int(group.size), [int(place) for place in group.items]]


def _row(item: PileItem, classes: Mapping[str, int], examples: Mapping[str, int]) -> list[Any]:
    if item.closest not in classes:
        raise ValueError(f"item {item.name!r}: {item.closest!r} is none of the classes {list(classes)}")
    if item.label not in (item.closest, UNKNOWN_NAME):
        raise ValueError(
            f"item {item.name!r}: its label {item.label!r} is neither {item.closest!r} nor {UNKNOWN_NAME!r}"
        )
    kind = EXAMPLE if item.example else UNKNOWN if item.label == UNKNOWN_NAME else KNOWN
    numbers = [item.confidence, item.otherwise, item.score, *item.xy]
    near = [examples.get(name, _shown(name)) for name in item.nearest]
    return [_shown(item.name), kind, classes[item.closest], *map(_number, numbers), near, _number(item.p_unknown)]


def _picture(item: PileItem) -> str | None:
    """The thumbnail in base64, whose first letters tell the script which of the two formats it is."""
    if item.thumbnail is None:
        return None
    data = bytes(item.thumbnail)
    if not data.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")):
        raise ValueError(f"item {item.name!r}: its thumbnail is neither a JPEG nor a PNG")
    return b64encode(data).decode("ascii")


def _shown(name: str) -> str:
    """As in the tables: bytes of a file name that are no text are written as escapes."""
    return str(name).encode("utf-8", "backslashreplace").decode("utf-8")


def _number(value: float) -> float | str | None:
    """JSON has no nan and no infinity; the script reads these back."""
    value = float(value)
    return value if math.isfinite(value) else None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _json(value: object) -> str:
    """Plain ASCII without <, > and &: nothing in it can end the block it stands in."""
    plain = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(code: str) -> str:
    return f"sha256-{b64encode(sha256(code.encode()).digest()).decode()}"
