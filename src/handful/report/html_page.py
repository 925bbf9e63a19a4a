"""The report as one html file that opens from disk.

The script and the style are inside the page and are allowed by their hashes; the Content-Security-Policy forbids
everything else. So nothing is loaded from elsewhere, and a picture named `<script>` is only a name.

The items are stored as JSON, their thumbnails in a second block, their texts in a third. The script (in `page/`) makes
a card only when it comes near the window: a page with twenty thousand pictures opens as fast as one with five hundred.
"""

from __future__ import annotations

import math
import os
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from handful.core.answers import ExpectedLabels
from handful.core.checks import UNKNOWN_NAME
from handful.report.contents import Group, Item, Report
from handful.report.html_text import DOUBTFUL_MARK, escape, facts, paragraphs, printable, safe_json, table
from handful.report.page_texts import page_texts
from handful.utils.files import write_whole
from handful.utils.shares_in_words import is_low, percent
from handful.utils.version import __version__

# One style sheet and one script, made of these files in this order.
STYLES = ("base.css", "tools.css", "cards.css", "detail.css", "corrections.css", "layout.css", "texts.css")
SCRIPTS = (
    "data.js", "trust.js", "plots.js", "texts.js", "cards.js", "corrections.js", "chooser.js", "detail.js", "groups.js",
    "doubts.js", "page.js",
)  # fmt: skip
WORDS_IN_NAME = 3  # of a kind in a group
KNOWN, UNKNOWN, EXAMPLE = range(3)  # what an item is, as the script reads it
JPEG, PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"  # first bytes of the file


def render(report: Report) -> str:
    """The page as html.

    Parameters
    ----------
    report : Report
        What to show.

    Returns
    -------
    str
        The page; the same report gives the same page.

    Examples
    --------
    >>> cat = Item("a.jpg", None, "cat", "cat", confidence=0.9, score=0.1)
    >>> page = render(Report("Pets", ["One cat."], [cat], ["cat"], 0.5, True))
    >>> "a.jpg" in page
    True
    """
    report.check()
    css, script = _joined(STYLES), _joined(SCRIPTS)
    count, things = len(report.skipped), "texts" if report.has_texts else "pictures"
    skipped = (
        f'<li><bdi class="file">{escape(printable(name))}</bdi> <span dir="auto">{escape(reason)}</span></li>'
        for name, reason in report.skipped
    )
    return Template(_file("page.html")).substitute(
        title=escape(report.title),
        style_hash=_hash(css),
        script_hash=_hash(script),
        css=css,
        script=script,
        trust=_trust(report),
        sentences=paragraphs(report.sentences),
        tables="\n".join(map(table, report.tables)),
        things=things,
        things_title=things.capitalize(),
        find="Find in texts" if report.has_texts else "Find by name",
        data=safe_json(_data(report)),
        texts=safe_json(_texts(report)),
        pictures=safe_json([_picture(item) for item in report.items]),
        skipped_title=f"{count:,} file{'s' * (count != 1)} skipped, and why" if count else "No file was skipped",
        skipped="\n".join(skipped),
        facts=facts(report.made_by),
    )


def write(path: str | os.PathLike[str], report: Report) -> Path:
    """Write the page of a report.

    Parameters
    ----------
    path : path
        The .html file. Folders that are missing are created. An earlier page stays complete if writing fails.
    report : Report
        What to show.

    Returns
    -------
    Path
        The file.
    """
    page = render(report).encode("utf-8")  # before anything on disk is touched
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page)
    return path


def _file(name: str) -> str:
    return (resources.files(__package__) / "page" / name).read_text(encoding="utf-8")


def _joined(names: tuple[str, ...]) -> str:
    return "\n".join(map(_file, names))


def _data(report: Report) -> dict[str, Any]:
    """What the script reads: one row per item, with classes and nearest examples by their number."""
    classes = {name: n for n, name in enumerate([*report.classes, UNKNOWN_NAME])}
    examples: dict[str, int] = {}
    for n, item in enumerate(report.items):
        if item.example:
            examples.setdefault(item.name, n)
    return {
        "classes": [printable(name) for name in report.classes],
        "unknown": UNKNOWN_NAME,
        "threshold": _number(report.threshold),
        "probability": bool(report.score_is_probability),
        "chances": printable(report.chances),
        "items": [_row(item, classes, examples) for item in report.items],
        "groups": [_group(group) for group in report.groups],
        "promote": bool(report.can_promote),
        "handful": __version__,
        "run": report.run.id or sha256(repr(report.items).encode("utf-8", "replace")).hexdigest()[:32],
        "command": printable(report.run.corrections_command),
        "words": [[printable(word) for word in report.words.get(name, ())] for name in report.classes],
        "expected": [_expected(report.expected.by_class.get(name)) for name in report.classes],
    }


def _trust(report: Report) -> str:
    """How many labels should be right, as html; the script replaces it by what was measured."""
    sentence, command = report.expected.sentence, report.run.check_command
    if not sentence:
        return '<div id="trust" class="trust" hidden></div>'
    how = f"Not checked yet. To measure it: <code>{escape(command)}</code>" if command else ""
    class_name, mark = ("trust doubtful", DOUBTFUL_MARK) if report.expected.is_low else ("trust", "")
    return (
        f'<div id="trust" class="{class_name}"><b class="kind">Expected</b> '
        f'<span dir="auto">{escape(sentence)}</span>{mark} <span class="note">{how}</span></div>'
    )


def _expected(labels: ExpectedLabels | None) -> list[Any] | None:
    """How many labels of a class should be right, in words, and whether these are doubtful."""
    if labels is None or not labels.labels:
        return None
    return [f"{percent(labels.precision)} should be right", is_low(*labels)]


def _group(group: Group) -> list[Any]:
    words = [*group.part_words, *[()] * (len(group.parts) - len(group.part_words))]
    parts = [
        [int(size), list(map(int, items)), ", ".join(map(printable, own[:WORDS_IN_NAME]))]
        for (size, items), own in zip(group.parts, words, strict=False)
    ]
    return [
        printable(group.name),
        int(group.size),
        list(map(int, group.items)),
        parts,
        list(map(printable, group.words)),
    ]


def _texts(report: Report) -> list[Any]:
    """The texts, and the whole lengths of those that are cut; nothing if items are no texts."""
    return list(page_texts([item.text for item in report.items])) if report.has_texts else [[], {}]


def _row(item: Item, classes: Mapping[str, int], examples: Mapping[str, int]) -> list[Any]:
    kind = EXAMPLE if item.example else UNKNOWN if item.label == UNKNOWN_NAME else KNOWN
    numbers = [item.confidence, item.alternative_confidence, item.score, *item.xy]
    nearest = [examples.get(name, printable(name)) for name in item.nearest]
    return [
        printable(item.name), kind, classes[item.closest], *map(_number, numbers), nearest, _number(item.p_unknown),
        printable(item.note), item.file,
    ]  # fmt: skip


def _picture(item: Item) -> str | None:
    """The thumbnail in base64; its first letters tell the format."""
    if item.thumbnail is None:
        return None
    data = bytes(item.thumbnail)
    if not data.startswith((JPEG, PNG)):
        raise ValueError(
            f"item {item.name!r}: its thumbnail is neither a JPEG nor a PNG; handful.report.png(array) makes a PNG"
        )
    return b64encode(data).decode("ascii")


def _number(value: float) -> float | str | None:
    """JSON has no nan and no infinity: the script turns None and text back into them."""
    value = float(value)
    return value if math.isfinite(value) else None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _hash(code: str) -> str:
    return f"sha256-{b64encode(sha256(code.encode()).digest()).decode()}"
