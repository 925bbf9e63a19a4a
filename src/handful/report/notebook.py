"""A result as html for notebooks: the same fragment is shown in a cell and, in a page of its own, saved.

Everything is inline: notebooks drop style sheets and scripts of outputs in many places, and two results in one
notebook must not change each other. The colours of text and lines are those of the notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from handful.core.checks import UNKNOWN_NAME
from handful.report.html_text import escape
from handful.report.overview import UNKNOWN_CODE, Overview
from handful.report.svg_charts import UNKNOWN_COLOUR, colour_of, histogram_chart, map_chart, share_chart
from handful.report.thumbnails import TINY, Thumbnails
from handful.utils.shares_in_words import percent

MAX_BARS, MAX_STRIPS, MAX_TASKS = 12, 8, 20  # classes, classes or groups, and tasks that are shown one by one
PICTURES, SURE_PICTURES, UNSURE_PICTURES, TEXTS, NUMBERS = 10, 7, 3, 3, 10  # items in a strip
THUMB = 56  # pixels
MAX_TEXT, MAX_NAME = 160, 60  # characters
SOFT = "opacity:.7"
COLUMNS = "display:flex;flex-wrap:wrap;gap:20px 36px;align-items:flex-start"
HEADING = "font-weight:600;margin-bottom:8px"
RULE = "1px solid rgba(128,128,128,.25)"
CUT = "overflow:hidden;text-overflow:ellipsis;white-space:nowrap"


class Pieces:
    """What is shown of single items: thumbnails, texts, or their numbers.

    Parameters
    ----------
    count : int
        How many items there are.
    pictures, texts : sequences, optional
        One for each item; see `Thumbnails`.
    """

    def __init__(self, count: int, pictures: Any = None, texts: Any = None) -> None:
        self.thumbnails = None if pictures is None else Thumbnails(pictures, count)
        self.texts = check_texts(texts, count)

    def __bool__(self) -> bool:
        return self.thumbnails is not None or self.texts is not None

    def show(self, rows: np.ndarray, pictures: int = PICTURES, texts: int = TEXTS) -> str:
        """Some items, the first ones of `rows`."""
        parts = []
        if self.thumbnails is not None:
            images = "".join(self._image(self.thumbnails, int(row)) for row in rows[:pictures])
            parts.append(f'<div style="display:flex;flex-wrap:wrap;gap:4px">{images}</div>')
        if self.texts is not None:
            parts += [
                f'<div dir="auto" title="item {row}" style="{CUT}">{escape(_cut(self.texts[row], MAX_TEXT))}</div>'
                for row in rows[:texts].tolist()
            ]
        if not parts:
            numbers = ", ".join(map(str, rows[:NUMBERS].tolist())) + (", …" if len(rows) > NUMBERS else "")
            parts.append(f'<div style="{SOFT}">items {numbers}</div>')
        return "".join(parts)

    def _image(self, thumbnails: Thumbnails, row: int) -> str:
        box = f"width:{THUMB}px;height:{THUMB}px;border-radius:3px"
        address = thumbnails.address(row, THUMB + TINY // 2)
        if not address:
            return f'<span title="item {row} cannot be opened" style="{box};border:1px dashed;opacity:.4"></span>'
        sharp = ";image-rendering:pixelated" * address.startswith("data:image/png")
        return (
            f'<img src="{address}" alt="item {row}" title="item {row}" style="{box};object-fit:cover;margin:0{sharp}">'
        )


def check_texts(texts: Any, count: int) -> list[str] | None:
    """Texts as a list with one for each item; None if there are none."""
    if texts is None:
        return None
    own = [str(text) for text in ([texts] if isinstance(texts, str) else texts)]
    if len(own) != count:
        raise ValueError(f"there are {len(own):,} texts for {count:,} items: give one for each item")
    return own


def result_html(overview: Overview, pieces: Pieces) -> str:
    """The fragment of the result of one task."""
    n = len(overview.codes)
    title = f"{n:,} items: {n - overview.unknown:,} labelled, {overview.unknown:,} unknown"
    groups = overview.groups or ()
    panels = [_panel("Labels", _bars(overview)), _panel("Outlier scores", _scores(overview))]
    if overview.share is not None:
        note = "The band should hold the true share four times in five."
        panels.append(_panel("Share of unknowns", share_chart(overview.share) + _note(note)))
    columns = [panels]
    if overview.items is not None:
        chart = map_chart(overview.items, overview.classes, groups[:MAX_STRIPS], pieces.thumbnails)
        shown = len(overview.items.rows)
        some = f"{shown:,} of the items" if shown < n else "All items"
        legend = "numbers are groups, " * bool(groups) + "diamonds are examples, grey is unknown"
        note = f"{some} along the two directions in which they differ most: {legend}."
        columns.append([_panel("Map", chart + _note(note))])
    sections = [f'<div style="{COLUMNS}">{"".join(map(_column, columns))}</div>']
    if pieces:
        sections.append(
            _section("Classes: the surest items, then the least sure ones", _class_strips(overview, pieces))
        )
    if overview.groups is None:
        sections.append(_note("The groups of unknowns are not drawn yet: result.groups finds them, result.view() too."))
    elif groups:
        sections.append(_section(groups_title(groups), group_strips(groups, pieces)))
    return _frame(title, [f"By {overview.method}.", *overview.sentences], sections)


def groups_html(groups: Sequence[Any], pieces: Pieces) -> str:
    """The fragment of groups alone."""
    return _frame(groups_title(groups), [], [group_strips(groups, pieces)])


def batch_html(method: str, counts: Sequence[tuple[int, int]], shares: Sequence[str]) -> str:
    """The fragment of a batch: a line for each task.

    counts: labelled and unknown items of each task. shares: its share of unknowns, in words.
    """
    labelled, unknown = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    rows = []
    for i, ((known, rest), share) in enumerate(zip(counts[:MAX_TASKS], shares, strict=False)):
        total = max(known + rest, 1)
        bar = _bar(known / total, colour_of(0)) + _bar(rest / total, UNKNOWN_COLOUR)
        rows.append(
            f"<div>task {i}</div>"
            f'<div style="display:flex;gap:1px;align-items:center">{bar}</div>'
            f"<div>{known:,} labelled, {rest:,} unknown</div>"
            f'<div style="{SOFT}">{escape(share)}</div>'
        )
    grid = f'<div style="{_grid("max-content minmax(6rem,1fr) max-content max-content")}">{"".join(rows)}</div>'
    more = len(counts) - MAX_TASKS
    notes = [_note(f"{more:,} more tasks.")] if more > 0 else []
    notes.append(_note("result[i] is the result of one task, with its charts."))
    title = f"{len(counts):,} tasks, {labelled + unknown:,} items: {labelled:,} labelled, {unknown:,} unknown"
    return _frame(title, [f"By {method}."], [grid, *notes])


def groups_title(groups: Sequence[Any]) -> str:
    """How many groups there are, and how many items in them."""
    if not groups:
        return "No groups of unknowns"
    items = sum(group.size for group in groups)
    return f"{len(groups):,} group{'s' * (len(groups) != 1)} of unknowns, {items:,} items"


def group_strips(groups: Sequence[Any], pieces: Pieces) -> str:
    """A strip for each of the largest groups: how many items, of how many kinds, and the most typical ones."""
    largest = max((group.size for group in groups), default=1)
    strips = []
    for group in groups[:MAX_STRIPS]:
        notes = [f"{group.size:,} items"] + [f"looks like {len(group.parts)} kinds"] * (len(group.parts) > 1)
        strips.append(_strip(group.name, notes, group.size / largest, UNKNOWN_COLOUR, [pieces.show(group.items)]))
    left = groups[MAX_STRIPS:]
    more = _note(f"{len(left):,} smaller groups, {sum(group.size for group in left):,} items.") if left else ""
    return "".join(strips) + more


# ---- parts


def _class_strips(overview: Overview, pieces: Pieces) -> str:
    order = np.argsort(-overview.counts, kind="stable")[:MAX_STRIPS].tolist()
    strips, most = [], max(int(overview.counts.max(initial=1)), 1)
    for code in order:
        rows = overview.members(code)
        count = SURE_PICTURES if pieces.thumbnails else TEXTS
        surest, rest = rows[:count], rows[count:]
        shown = [pieces.show(surest)]
        if len(rest):
            caption = "" if pieces.thumbnails else f'<div style="{SOFT}">least sure</div>'
            shown.append(caption + pieces.show(rest[::-1], UNSURE_PICTURES, 1))
        notes = [f"{len(rows):,} items"]
        strips.append(
            _strip(overview.classes[code], notes, len(rows) / most, colour_of(code), shown, not pieces.thumbnails)
        )
    return "".join(strips)


def _strip(name: str, notes: Iterable[str], part: float, colour: str, items: Sequence[str], wide: bool = False) -> str:
    """A name with its count and bar, and items beside it; wide: each of them on a line of its own."""
    columns = "".join(
        f'<div style="min-width:0;max-width:100%{";flex:1 0 100%" * wide}">{item}</div>' for item in items
    )
    return (
        f'<div style="display:flex;flex-wrap:wrap;gap:4px 16px;padding:8px 0;border-top:{RULE}">'
        f'<div style="flex:0 0 13rem;min-width:0"><div title="{escape(name)}" '
        f'style="font-weight:600;overflow-wrap:anywhere">'
        f"<bdi>{escape(_cut(name, MAX_NAME))}</bdi></div><div>{escape(', '.join(notes))}</div>"
        f'<div style="display:flex;margin-top:4px">{_bar(part, colour, 6)}</div></div>'
        f'<div style="flex:1 1 20rem;min-width:0;display:flex;flex-wrap:wrap;gap:6px 24px">{columns}</div></div>'
    )


def _bars(overview: Overview) -> str:
    """The classes with the most items and the unknown, with bars."""
    n = max(len(overview.codes), 1)
    most = max(int(overview.counts.max(initial=0)), overview.unknown, 1)
    order = np.arange(len(overview.classes))
    if len(order) > MAX_BARS:
        order = np.sort(np.argsort(-overview.counts, kind="stable")[:MAX_BARS])
    lines = [(overview.classes[code], int(overview.counts[code]), code) for code in order.tolist()]
    lines.append((UNKNOWN_NAME, overview.unknown, UNKNOWN_CODE))
    rows = "".join(
        f'<div title="{escape(name)}" style="text-align:right;{CUT}"><bdi>{escape(_cut(name, MAX_NAME))}</bdi></div>'
        f'<div style="display:flex;align-items:center">{_bar(count / most, colour_of(code))}</div>'
        f'<div style="text-align:right">{count:,}</div>'
        f'<div style="text-align:right;{SOFT}">{percent(count / n)}</div>'
        for name, count, code in lines
    )
    notes = []
    if left := len(overview.classes) - len(order):
        rest = int(overview.counts.sum() - overview.counts[order].sum())
        notes.append(f"{left:,} more class{'es' * (left > 1)} with {rest:,} items.")
    if overview.set_aside:
        notes.append(f"{overview.set_aside:,} of the unknown were set aside because their label is too unsure.")
    grid = _grid("minmax(3rem,max-content) minmax(4rem,1fr) max-content max-content")
    return f'<div style="{grid}">{rows}</div>{"".join(map(_note, notes))}'


def _scores(overview: Overview) -> str:
    key = "".join(
        f'<span style="display:inline-block;width:.7em;height:.7em;border-radius:2px;margin:0 .35em 0 .9em;'
        f'background:{colour}"></span>{text}'
        for colour, text in ((colour_of(0), "labelled"), (UNKNOWN_COLOUR, "unknown"))
    )
    return (
        f'{histogram_chart(overview.histogram)}<div style="{SOFT};margin-top:2px">number of items by score{key}</div>'
    )


def _bar(part: float, colour: str, height: int = 12) -> str:
    width = f"{100 * part:.4g}%" if part > 0 else "0"
    at_least = ";min-width:2px" * (part > 0)
    return f'<span style="width:{width}{at_least};height:{height}px;border-radius:2px;background:{colour}"></span>'


def _grid(columns: str) -> str:
    return f"display:grid;grid-template-columns:{columns};gap:4px 10px;align-items:center"


def _panel(title: str, content: str) -> str:
    heading = f'<div style="{HEADING}">{escape(title)}</div>'
    return f"<div>{heading}{content}</div>"


def _column(panels: Sequence[str]) -> str:
    return f'<div style="flex:1 1 340px;min-width:0;max-width:440px;display:grid;gap:20px">{"".join(panels)}</div>'


def _section(title: str, content: str) -> str:
    return f'<div style="margin-top:20px"><div style="{HEADING}">{escape(title)}</div>{content}</div>'


def _note(text: str) -> str:
    return f'<div style="{SOFT};margin-top:6px">{escape(text)}</div>'


def _frame(title: str, sentences: Sequence[str], sections: Sequence[str]) -> str:
    lead = f'<div style="margin-bottom:16px">{escape(" ".join(sentences))}</div>' if sentences else ""
    return (
        '<div class="handful" style="max-width:920px;padding:4px 2px;font:13px/1.45 system-ui,sans-serif;'
        'font-variant-numeric:tabular-nums;text-align:left">'
        f'<div style="font-size:16px;font-weight:600;margin-bottom:6px">{escape(title)}</div>{lead}'
        f"{''.join(sections)}</div>"
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
