"""The charts of a result as inline SVG, for notebooks: no script, no style sheet, no address but `data:`.

Lines and letters have the colour of the text around them, and nothing has a background: a chart can be read on white
and on black. Colours of classes are of middle lightness for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from handful.report.html_text import escape
from handful.report.overview import UNKNOWN_CODE, Histogram, ItemMap, ShareOfUnknowns
from handful.report.plane import far_apart
from handful.report.thumbnails import TINY, Thumbnails
from handful.utils.shares_in_words import percent

# After Okabe and Ito, which colour-blind readers can distinguish.
CLASS_COLOURS = ("#2f80c0", "#d9622b", "#199c76", "#d49a12", "#bf6fa0", "#5fb4e3", "#8c7bd1", "#8a9a2e")
KNOWN_COLOUR, UNKNOWN_COLOUR = "#2f80c0", "#8f969e"
WIDTH, HEIGHT = 400, 150
LEFT, RIGHT, TOP, BOTTOM = 8, 392, 20, 126  # of the drawing in a chart
MAP_HEIGHT, MAP_MARGIN = 330, 18
MAP_PICTURE, MAP_PICTURES = 34, 36  # the size of a picture on the map, and how many there are at most
MAX_TITLE = 80  # characters of a name that appears under the mouse
FONT = 'font-family="system-ui,sans-serif" font-size="11" fill="currentColor"'


def colour_of(code: int) -> str:
    """The colour of a class by its number; grey for the unknown."""
    return UNKNOWN_COLOUR if code == UNKNOWN_CODE else CLASS_COLOURS[code % len(CLASS_COLOURS)]


def histogram_chart(histogram: Histogram) -> str:
    """The outlier scores as stacked bars, labels below unknowns, with a line at the threshold."""
    edges, low, high = histogram.edges, float(histogram.edges[0]), float(histogram.edges[-1])
    total = histogram.known + histogram.unknown
    tallest = max(int(total.max()), 1)
    x = LEFT + (edges - low) / (high - low) * (RIGHT - LEFT)
    bars = []
    for k in np.flatnonzero(total).tolist():
        y = float(BOTTOM)
        for count, colour in ((int(histogram.known[k]), KNOWN_COLOUR), (int(histogram.unknown[k]), UNKNOWN_COLOUR)):
            if count:
                height = max(count / tallest * (BOTTOM - TOP), 1.5)  # a single item can be seen beside thousands
                y -= height
                bars.append(
                    f'<rect x="{x[k] + 0.5:.1f}" y="{y:.1f}" width="{x[k + 1] - x[k] - 1:.1f}" height="{height:.1f}" '
                    f'fill="{colour}"/>'
                )
    at = float(np.clip((histogram.threshold - low) / (high - low), 0, 1)) * (RIGHT - LEFT) + LEFT
    arrow = " →" if histogram.threshold > high else " ←" if histogram.threshold < low else ""
    text = f"threshold {histogram.threshold:.3g}{arrow}"
    return _svg(
        HEIGHT,
        f"Outlier scores of {int(total.sum()):,} items, {text}",
        "".join(bars) + _axis([low, (low + high) / 2, high], [f"{v:.3g}" for v in (low, (low + high) / 2, high)])
        + _mark(at, text, "threshold") + f'<text x="{LEFT}" y="12" {FONT} opacity=".6">{tallest:,} items</text>'
        * (abs(at - LEFT) > 150),
    )  # fmt: skip


def share_chart(share: ShareOfUnknowns) -> str:
    """The posterior of the share of unknowns, its interval as a band and the estimate as a line."""
    width = RIGHT - LEFT
    low, high = (LEFT + end * width for end in share.interval)
    at = LEFT + share.estimate * width
    curve = ""
    if len(share.density):
        x, y = LEFT + share.edges * width, BOTTOM - share.density / share.density.max() * (BOTTOM - TOP - 4)
        steps = "".join(f"V{top:.1f}H{end:.1f}" for top, end in zip(y, x[1:], strict=True))
        curve = f'<path d="M{LEFT} {BOTTOM}{steps}V{BOTTOM}Z" fill="{KNOWN_COLOUR}" opacity=".55"/>'
    band = (
        f'<rect class="interval" x="{low:.1f}" y="{TOP}" width="{high - low:.1f}" height="{BOTTOM - TOP}" '
        f'fill="{KNOWN_COLOUR}" opacity=".16"/>'
    )
    ends = f"{percent(share.interval[0])} to {percent(share.interval[1])}"
    shares = [0, 0.25, 0.5, 0.75, 1]
    return _svg(
        HEIGHT,
        f"Share of unknowns: {percent(share.estimate)}, four times in five from {ends}",
        band + curve + _axis(shares, [percent(s) for s in shares]) + _mark(at, percent(share.estimate), "estimate"),
    )


def map_chart(
    items: ItemMap,
    classes: Sequence[str],
    groups: Sequence[Any] = (),
    thumbnails: Thumbnails | None = None,
) -> str:
    """The items as dots in the colours of their classes, examples as diamonds, groups by their numbers.

    thumbnails: with them, some items that are far enough apart are pictures.
    """
    at = _on_map(items.places)
    parts = []
    for code in [UNKNOWN_CODE, *range(len(classes))]:
        name = "unknown" if code == UNKNOWN_CODE else classes[code]
        dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in at[items.codes == code])
        if dots:
            parts.append(
                f'<path d="{dots}" stroke="{colour_of(code)}" stroke-width="5" stroke-linecap="round" fill="none" '
                f'opacity=".75"><title>{escape(_cut(name))}</title></path>'
            )
    if thumbnails is not None:
        parts += _map_pictures(items, at, thumbnails)
    examples = _on_map(items.example_places)
    for code in np.unique(items.example_codes).tolist():
        diamonds = "".join(f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z" for x, y in examples[items.example_codes == code])
        parts.append(
            f'<path d="{diamonds}" fill="{colour_of(code)}" stroke="currentColor" stroke-width="1">'
            f"<title>examples of {escape(_cut(classes[code]))}</title></path>"
        )
    parts += [_group_number(group, items, at) for group in groups]
    return _svg(MAP_HEIGHT, f"Map of {len(items.rows):,} items", "".join(parts))


def _map_pictures(items: ItemMap, at: np.ndarray, thumbnails: Thumbnails) -> list[str]:
    """Pictures of items that do not cover one another."""
    parts, half = [], MAP_PICTURE / 2
    for k in far_apart(at, MAP_PICTURE + 3, MAP_PICTURES):
        if address := thumbnails.address(int(items.rows[k]), MAP_PICTURE + TINY // 2):
            x, y = at[k] - half
            box = f'x="{x:.1f}" y="{y:.1f}" width="{MAP_PICTURE}" height="{MAP_PICTURE}"'
            sharp = ' style="image-rendering:pixelated"' * address.startswith("data:image/png")
            parts.append(
                f'<image {box} href="{address}" preserveAspectRatio="xMidYMid slice"{sharp}/>'
                f'<rect {box} fill="none" stroke="{colour_of(int(items.codes[k]))}" stroke-width="2.5" rx="2"/>'
            )
    return parts


def _group_number(group: Any, items: ItemMap, at: np.ndarray) -> str:
    """The number of a group in the middle of those of its items that are on the map."""
    is_member = np.isin(items.rows, group.items)
    if not is_member.any():
        return ""
    x, y = np.median(at[is_member], axis=0)
    return (
        f'<g><title>{escape(group.name)}: {group.size:,} items</title><circle cx="{x:.1f}" cy="{y:.1f}" r="9" '
        f'fill="#454b52" stroke="#fff" stroke-width="1"/><text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" '
        f'font-family="system-ui,sans-serif" font-size="11" font-weight="600" fill="#fff">{group.number}</text></g>'
    )


def _on_map(places: np.ndarray) -> np.ndarray:
    """Places from 0 to 1 as points of the drawing; the first axis goes right, the second one up."""
    room = np.array([WIDTH - 2 * MAP_MARGIN, MAP_HEIGHT - 2 * MAP_MARGIN])
    flipped = np.column_stack([places[:, 0], 1 - places[:, 1]]) if len(places) else np.empty((0, 2))
    points: np.ndarray = MAP_MARGIN + flipped * room
    return points


def _cut(name: str) -> str:
    return name if len(name) <= MAX_TITLE else name[: MAX_TITLE - 1] + "…"


def _axis(values: Sequence[float], texts: Sequence[str]) -> str:
    """A line at the bottom with a text at some places, the first and the last at its ends."""
    low, high = values[0], values[-1]
    parts = [f'<path d="M{LEFT} {BOTTOM}H{RIGHT}" stroke="currentColor" opacity=".35"/>']
    for value, text in zip(values, texts, strict=True):
        x = LEFT + (value - low) / (high - low) * (RIGHT - LEFT)
        anchor = "start" if value == low else "end" if value == high else "middle"
        parts.append(f'<text x="{x:.1f}" y="143" text-anchor="{anchor}" {FONT} opacity=".75">{escape(text)}</text>')
    return "".join(parts)


def _mark(x: float, text: str, kind: str) -> str:
    """A dashed line from top to bottom with a text beside it."""
    anchor, away = ("start", 4) if x < WIDTH / 2 else ("end", -4)
    return (
        f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="3" y2="{BOTTOM}" stroke="currentColor" '
        f'stroke-width="1.5" stroke-dasharray="4 3"/>'
        f'<text x="{x + away:.1f}" y="12" text-anchor="{anchor}" {FONT}>{escape(text)}</text>'
    )


def _svg(height: int, label: str, content: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}" '
        f'style="display:block;width:100%;height:auto;overflow:visible">{content}</svg>'
    )
