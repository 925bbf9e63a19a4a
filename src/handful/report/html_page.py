"""The report as one html file that opens from disk.

The script and the style are inside the page and are allowed by their hashes; the Content-Security-Policy forbids
everything else. So nothing is loaded from elsewhere, and a picture named `<script>` is only a name.
The script (in `page/`) makes a card only when it comes near the window, so that a large page opens fast.
"""

from __future__ import annotations

import html
import json
import math
import os
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from handful.core.answers import ExpectedLabels
from handful.core.checks import UNKNOWN_NAME
from handful.report.contents import Figures, Group, Item, Report
from handful.utils.files import in_brief, printable, write_whole
from handful.utils.shares_in_words import is_low, percent, span
from handful.utils.version import __version__

# One style sheet and one script, made of these files in this order.
STYLES = ("base.css", "tools.css", "cards.css", "detail.css", "corrections.css", "layout.css", "texts.css")
SCRIPTS = (
    "data.js", "trust.js", "plots.js", "texts.js", "cards.js", "corrections.js", "chooser.js", "detail.js", "groups.js",
    "doubts.js", "page.js",
)  # fmt: skip
WORDS_IN_NAME = 3  # of a kind in a group
KNOWN, UNKNOWN, EXAMPLE = range(3)  # what an item is, as the script reads it
DOUBTFUL_ROW = ' class="doubtful"'
DOUBTFUL_MARK = ' <span class="doubt">doubtful</span>'  # a word beside the colour
MAX_TEXT_CHARACTERS = 20_000  # of one text
MAX_PAGE_CHARACTERS = 8_000_000  # of all texts: at most 48 MB of JSON, and mostly a fifth of it
MADE_BY_HANDFUL = b'<meta name="generator" content="handful">'
# Nothing that a report shows can look like this block: html is escaped, and there is no "<" in JSON.
BLOCK = re.compile(rb'(<script type="application/json" id="measured">)([^<]*)(</script>)')


def render(report: Report) -> str:
    """The page as html; the same report gives the same page."""
    css, script = ("\n".join(map(_file, names)) for names in (STYLES, SCRIPTS))
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
        sentences="\n".join(f'<p dir="auto">{escape(line)}</p>' for line in report.sentences),
        tables="\n".join(map(table, report.tables)),
        things=things,
        things_title=things.capitalize(),
        find="Find in texts" if report.has_texts else "Find by name",
        data=safe_json(_data(report)),
        texts=safe_json(_texts(report)),
        pictures=safe_json([item.thumbnail and b64encode(item.thumbnail).decode() for item in report.items]),
        skipped_title=f"{count:,} file{'s' * (count != 1)} skipped, and why" if count else "No file was skipped",
        skipped="\n".join(skipped),
        facts="\n".join(
            f"<dt>{escape(name)}</dt><dd>{escape(in_words(of))}</dd>" for name, of in report.made_by.items()
        ),
    )


def write(path: str | os.PathLike[str], report: Report) -> Path:
    """Write the page of a report; an earlier page stays complete if writing fails."""
    page = render(report).encode("utf-8")  # before anything on disk is touched
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page)
    return path


def write_measured(path: Path, document: Mapping[str, Any]) -> None:
    """Put what a check measured into a report: the page shows it instead of what was expected."""
    block = safe_json(_shown(document)).encode("ascii")
    page = path.read_bytes()
    if MADE_BY_HANDFUL not in page[:4096] or len(BLOCK.findall(page)) != 1:
        raise ValueError(
            f"{in_brief(path)} is not a report that this version of handful wrote: label the pile again with "
            "`handful label`"
        )
    write_whole(path, BLOCK.sub(lambda match: match[1] + block + match[3], page))


def _shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the page reads: the document, and in words how many labels are right and which of them are doubtful."""
    measured = ((printable(str(name)), _estimate(entry)) for name, entry in document["by_class"].items())
    estimates = {name: estimate for name, estimate in measured if estimate is not None}
    totals = {name: _estimate(document.get(name)) for name in ("precision", "share", "missed")}
    words = {name: f"{percent(value)} are right{span(value, ends)}" for name, (value, *ends) in estimates.items()}
    precision = totals["precision"]
    return {
        **{name: document.get(name) for name in ("answers", "items", "made")},
        **totals,
        "sentences": document["sentences"],
        "is_low": precision is not None and is_low(1, precision[0]),
        "by_class": {name: [words[name], is_low(1, estimate[0])] for name, estimate in estimates.items()},
    }


def _estimate(entry: Mapping[str, Any] | None) -> tuple[float, float, float] | None:
    """Value, low and high; None if nothing was measured."""
    if entry is None:
        return None
    value, low, high = (float(entry[name]) for name in ("value", "low", "high"))
    return (value, low, high) if all(map(math.isfinite, (value, low, high))) else None


# ---- what the script reads


def _file(name: str) -> str:
    return (resources.files(__package__) / "page" / name).read_text(encoding="utf-8")


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
    parts = [
        [int(size), list(map(int, items)), ", ".join(map(printable, words[:WORDS_IN_NAME]))]
        for size, items, words in group.parts
    ]
    items, speaking = list(map(int, group.items)), list(map(printable, group.words))
    return [printable(group.name), int(group.size), items, parts, speaking]


def _texts(report: Report) -> list[Any]:
    """The texts, and the whole lengths of those that are cut; nothing if items are no texts."""
    return list(page_texts([item.text for item in report.items])) if report.has_texts else [[], {}]


def _row(item: Item, classes: Mapping[str, int], examples: Mapping[str, int]) -> list[Any]:
    kind = EXAMPLE if item.example else UNKNOWN if item.label == UNKNOWN_NAME else KNOWN
    numbers = [item.confidence, item.alternative_confidence, item.score, *item.xy]
    nearest = [examples.get(name, printable(name)) for name in item.nearest]
    return [
        printable(item.name), kind, classes[item.closest], *map(_number, numbers), nearest, _number(item.p_unknown),
        item.file,
    ]  # fmt: skip


def _number(value: float) -> float | str | None:
    """JSON has no nan and no infinity: the script turns None and text back into them."""
    value = float(value)
    return value if math.isfinite(value) else None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _hash(code: str) -> str:
    return f"sha256-{b64encode(sha256(code.encode()).digest()).decode()}"


def page_texts(texts: Sequence[str]) -> tuple[list[str], dict[int, int]]:
    """The texts as the page shows them, and the whole lengths of those that are cut, by their places."""
    is_too_long = sum(min(len(text), MAX_TEXT_CHARACTERS) for text in texts) > MAX_PAGE_CHARACTERS
    limit = MAX_PAGE_CHARACTERS // len(texts) if is_too_long else MAX_TEXT_CHARACTERS
    lengths = {n: len(text) for n, text in enumerate(texts) if len(text) > limit}
    return [printable(text[:limit]) for text in texts], lengths


# ---- text and small tables as html


def escape(value: object) -> str:
    """Text that is safe in html, in elements and attributes; bytes of a file name that are not text become '?'."""
    return html.escape(str(value).encode("utf-8", "replace").decode("utf-8"), quote=True)


def in_words(value: object) -> str:
    """A setting as text: a mapping becomes 'name value, name value'."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {in_words(part)}" for name, part in value.items())
    return str(value)


def table(figures: Figures) -> str:
    """A table that scrolls sideways if the window is narrow."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in figures.columns)
    rows = "\n".join(
        f'<tr{DOUBTFUL_ROW * (n in figures.doubtful)}><th scope="row">{escape(first)}'
        f"{DOUBTFUL_MARK * (n in figures.doubtful)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in rest)}</tr>"
        for n, (first, *rest) in enumerate(figures.rows)
    )
    note = f'<p class="note" dir="auto">{escape(figures.note)}</p>' if figures.note else ""
    own_id = f' id="{escape(figures.id)}"' if figures.id else ""
    return f"""<div{own_id} class="figures" role="region" aria-label="{escape(figures.title)}" tabindex="0">
<table><caption dir="auto">{escape(figures.title)}</caption>
<thead><tr>{head}</tr></thead>
<tbody>{rows}</tbody></table>{note}
</div>"""


def safe_json(value: object) -> str:
    """Plain ASCII without <, > and &: nothing in it can end the block that it is in."""
    plain = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
