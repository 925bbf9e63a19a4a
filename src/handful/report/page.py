"""The report page: title, summary, figures, then every item as a card, group by group.

The page is complete in itself: style and pictures are inside it, nothing is fetched and nothing runs
(its Content-Security-Policy forbids both), so it can be mailed, archived and opened from disk. Its one
control, "only worth a look", is a checkbox that the style sheet answers to.

>>> group = Group("cat", [Item(None, "a.png", "cat", score=0.1, confidence=0.9)], "known")
>>> page = render("Pets", ["One cat."], [group], made_by={"method": "eol"})
>>> page.count('<li class="card')
1
"""

from __future__ import annotations

import io
import math
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import Literal

from handful.report.parts import facts, save
from handful.report.parts import text as _text

Kind = Literal["known", "unknown", "example"]
WORDS = {"known": "known", "unknown": "set aside as unknown", "example": "labelled by hand"}
SMALL = 96  # a picture of fewer pixels a side is enlarged on the page: keep its pixels square and sharp


@dataclass(frozen=True)
class Item:
    """One card. `picture` is a PNG (see `png`); a high `score` means more likely unknown."""

    picture: bytes | None
    name: str
    label: str
    score: float
    confidence: float
    note: str = ""


@dataclass(frozen=True)
class Group:
    """Items under one heading: a known class, (a part of) the unknowns, or the labelled examples."""

    name: str
    items: Sequence[Item]
    kind: Kind

    def __post_init__(self):
        if self.kind not in WORDS:
            raise ValueError(f"group {self.name!r}: kind is one of {list(WORDS)}, not {self.kind!r}")


@dataclass(frozen=True)
class Figures:
    """A small table; the cells are the text to print."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def __post_init__(self):
        if wrong := [n for n, row in enumerate(self.rows) if len(row) != len(self.columns)]:
            raise ValueError(f"table {self.title!r}: rows {wrong} do not have {len(self.columns)} cells")


def render(
    title: str,
    summary: Sequence[str],
    groups: Sequence[Group],
    tables: Sequence[Figures] = (),
    made_by: Mapping[str, object] | None = None,
) -> str:
    """The page as html. Groups and examples keep the order given; all other items stand surest first."""
    scores = [i.score for g in groups if g.kind != "example" for i in g.items if math.isfinite(i.score)]
    scale = _Scale(min(scores, default=0.0), max(scores, default=1.0))
    sections = [_section(n, group, scale) for n, group in enumerate(groups)]
    links = (
        f'<li class="{g.kind}"><a href="#g{n}"><bdi>{_text(g.name)}</bdi> <b>{len(g.items)}</b></a></li>'
        for n, g in enumerate(groups)
    )
    here = resources.files(__package__)
    return Template((here / "page.html").read_text(encoding="utf-8")).substitute(
        title=_text(title),
        css=(here / "page.css").read_text(encoding="utf-8"),
        summary="\n".join(f'<p dir="auto">{_text(line)}</p>' for line in summary),
        doubts=sum(section.count('<li class="card look">') for section in sections),
        links="\n".join(links),
        tables="\n".join(map(_table, tables)),
        low=scale.text(scale.low),
        high=scale.text(scale.high),
        sections="\n".join(sections),
        facts=facts(made_by),
    )


def write(path: str | os.PathLike, *args, **kwargs) -> Path:
    """Write the page of `render(*args, **kwargs)` to `path`; an earlier page stays whole if that fails."""
    return save(path, render(*args, **kwargs))  # rendered before anything on disk is touched


def png(array) -> bytes:
    """A grey [H, W] or colour [H, W, 3] array as a PNG.

    Bytes (uint8) are taken as they are; other numbers are stretched, lowest..highest to 0..255.
    """
    import numpy as np

    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("pictures on the page need Pillow: pip install pillow") from error
    a = np.asarray(array)
    if a.size == 0 or not (a.ndim == 2 or (a.ndim == 3 and a.shape[2] == 3)):
        raise ValueError(f"a picture is a [H, W] or [H, W, 3] array, this one has shape {list(a.shape)}")
    if a.dtype != np.uint8:
        a = a.astype(np.float64)
        finite = np.isfinite(a)
        low, high = a.min(where=finite, initial=np.inf), a.max(where=finite, initial=-np.inf)
        stretch = 255 / (high - low) if high > low else 0.0
        a = np.rint(np.where(finite, a - low, 0.0) * stretch).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(a)).save(file, "PNG", optimize=True)
    return file.getvalue()


@dataclass(frozen=True)
class _Scale:
    """The page's range of scores: methods differ in theirs, so bars and decimals follow the data."""

    low: float
    high: float

    def share(self, score: float) -> float:
        span = self.high - self.low
        return min(max((score - self.low) / span, 0.0), 1.0) if span > 0 and not math.isnan(score) else 0.0

    def text(self, score: float) -> str:
        span = self.high - self.low
        if not math.isfinite(score) or not 1e-5 < span < 1e5:
            return "n/a" if math.isnan(score) else f"{score:.3g}"
        return f"{score:.{max(0, math.ceil(math.log10(50 / span)))}f}"  # right to 1% of the range


def _ordered(group: Group) -> list[Item]:
    """Known: lowest score first; unknown: highest first; items without a score (nan) last."""
    if group.kind == "example":
        return list(group.items)
    sign = 1 if group.kind == "known" else -1
    return sorted(group.items, key=lambda i: (math.isnan(i.score), sign * i.score))


def _doubts(items: Sequence[Item], kind: Kind) -> dict[int, str]:
    """{position: why} of the least sure tenth: the order's end and, if known, the lowest confidences."""
    tenth = math.ceil(len(items) / 10)
    if kind == "example" or not tenth:
        return {}
    end = range(len(items))[-tenth:]
    if kind == "unknown":
        return dict.fromkeys(end, "least unknown")
    sure = sorted((i.confidence, n) for n, i in enumerate(items) if math.isfinite(i.confidence))
    unsure = {n: "least certain" for c, n in sure[:tenth] if c < sure[-1][0]}  # all equal: says nothing
    return unsure | dict.fromkeys(end, "least known")


def _section(n: int, group: Group, scale: _Scale) -> str:
    items = _ordered(group)
    doubts = _doubts(items, group.kind)
    cards = "\n".join(_card(item, group.kind, doubts.get(at), scale) for at, item in enumerate(items))
    count = f"{len(items)} item{'s' * (len(items) != 1)}, {WORDS[group.kind]}"
    return f"""<section id="g{n}" class="{group.kind}" aria-labelledby="h{n}">
<h2 id="h{n}"><bdi>{_text(group.name)}</bdi> <small>{count}</small></h2>
<ul role="list" class="cards">{cards}</ul>
</section>"""


def _card(item: Item, kind: Kind, doubt: str | None, scale: _Scale) -> str:
    name, sure, more = _text(item.name), "", ""
    if kind != "example":
        sure = f" <i>{item.confidence:.0%}</i>" if math.isfinite(item.confidence) else ""
        bar = f'<span class="bar" style="--at:{scale.share(item.score):.1%}" aria-hidden="true"></span>'
        more = f'<p class="score">{bar}<span class="hid">outlier score </span>{scale.text(item.score)}</p>'
    if doubt:
        more += f'<p class="why"><span class="mark">worth a look</span> {doubt}</p>'
    if item.note:
        more += f'<p class="note" dir="auto">{_text(item.note)}</p>'
    return f"""<li class="card{" look" if doubt else ""}">{_picture(item)}
<p class="name" dir="auto" title="{name}">{name}</p>
<p class="label"><bdi>{_text(item.label)}</bdi>{sure}</p>{more}</li>"""


def _picture(item: Item) -> str:
    if item.picture is None:
        return '<span class="none">no picture</span>'
    data = bytes(item.picture)
    if data[:8] != b"\x89PNG\r\n\x1a\n" or len(data) < 24:
        raise ValueError(f"item {item.name!r}: its picture is not a PNG; handful.report.png(array) makes one")
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))  # the IHDR chunk
    small = ' class="small"' if max(width, height) < SMALL else ""
    alt = _text(f"{item.name}, {item.label}")
    return f"""<img{small} width="{width}" height="{height}" alt="{alt}" decoding="async"
src="data:image/png;base64,{b64encode(data).decode()}">"""


def _table(table: Figures) -> str:
    head = "".join(f'<th scope="col">{_text(c)}</th>' for c in table.columns)
    rows = "\n".join(
        f'<tr><th scope="row">{_text(first)}</th>{"".join(f"<td>{_text(c)}</td>" for c in rest)}</tr>'
        for first, *rest in table.rows
    )
    note = f'<p class="note" dir="auto">{_text(table.note)}</p>' if table.note else ""
    return f"""<div class="figures" role="region" aria-label="{_text(table.title)}" tabindex="0">
<table><caption dir="auto">{_text(table.title)}</caption>
<thead><tr>{head}</tr></thead>
<tbody>{rows}</tbody></table>{note}
</div>"""
