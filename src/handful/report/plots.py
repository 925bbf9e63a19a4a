"""The charts of a result, drawn with matplotlib if it is installed.

Each is a separate `Figure` without pyplot: no global settings change, and no window has to be closed. A notebook shows
the figure that a cell ends with.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.core.checks import UNKNOWN_NAME
from handful.report.overview import UNKNOWN_CODE, Histogram, Overview, ShareOfUnknowns
from handful.report.plane import far_apart
from handful.report.svg_charts import KNOWN_COLOUR, UNKNOWN_COLOUR, colour_of
from handful.report.thumbnails import Thumbnails
from handful.utils.extras import PLOTS, need
from handful.utils.shares_in_words import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 110
MAX_POINTS = 5000  # items on the map
MAX_BARS = 24  # classes or groups that are shown one by one
MAP_PICTURES, MAP_PICTURE = 60, 21  # pictures on the map at most, and their size in points
MAP_DISTANCE = 0.11  # of pictures on the map, whose sides are 1
STRIP, STRIP_PIXELS = 8, 64  # pictures beside a group, and their size


def draw_result(overview: Overview, pictures: Any = None) -> Figure:
    """Draw counts, outlier scores, the share of unknowns if it was estimated, and the map if there is one.

    Parameters
    ----------
    overview : Overview
        What to draw.
    pictures : sequence or array, optional
        The pictures of the items, for the map: see `Thumbnails`.

    Returns
    -------
    matplotlib.figure.Figure
        With a panel for each, whose labels are "counts", "scores", "share" and "map".
    """
    thumbnails = None if pictures is None else Thumbnails(pictures, len(overview.codes))
    names = ["counts", "scores"] + ["share"] * (overview.share is not None) + ["map"] * (overview.items is not None)
    rows = (len(names) + 1) // 2
    figure = _figure((9.5, 3.6 * rows))
    n = len(overview.codes)
    title = f"{n:,} items: {n - overview.unknown:,} labelled, {overview.unknown:,} unknown, by {overview.method}"
    figure.suptitle(_plain(title), fontsize=11)
    for k, name in enumerate(names):
        last_alone = k == len(names) - 1 and len(names) % 2
        axes = figure.add_subplot(rows, 2, (k + 1, k + 2) if last_alone else k + 1, label=name)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        if name == "counts":
            _counts(axes, overview)
        elif name == "scores":
            _scores(axes, overview.histogram)
        elif name == "share" and overview.share is not None:
            _share(axes, overview.share)
        else:
            _map(axes, overview, thumbnails)
    return figure


def draw_groups(groups: Sequence[Any], pictures: Any = None, count: int = 0) -> Figure:
    """Draw the sizes of groups, each with a row of its most typical items if there are pictures.

    Parameters
    ----------
    groups : sequence
        The groups of unknowns.
    pictures : sequence or array, optional
        The pictures of the whole pile.
    count : int
        How many items the pile has.

    Returns
    -------
    matplotlib.figure.Figure
        With the panel "groups" and, if there are pictures, the panel "pictures".
    """
    shown = groups[:MAX_BARS]
    thumbnails = None if pictures is None else Thumbnails(pictures, count)
    figure = _figure((9.5 if thumbnails else 6, 1.2 + 0.55 * max(len(shown), 1)))
    axes = figure.add_subplot(1, 2 if thumbnails else 1, 1, label="groups")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    sizes = [group.size for group in shown]
    places = np.arange(len(shown))
    bars = axes.barh(places, sizes, color=UNKNOWN_COLOUR)
    axes.bar_label(bars, [f"{size:,}" for size in sizes], padding=3, fontsize=8)
    axes.set_yticks(places, [_plain(group.name) for group in shown])
    axes.set(xlabel="items", ylim=(len(shown) - 0.5, -0.5) if shown else (0, 1))
    axes.margins(x=0.12)
    left = len(groups) - len(shown)
    more = f", {left:,} smaller ones not shown" * (left > 0)
    axes.set_title(f"{len(groups):,} groups of unknowns{more}" if shown else "No groups of unknowns", fontsize=10)
    if thumbnails:
        strip = figure.add_subplot(1, 2, 2, sharey=axes, label="pictures")
        strip.set_axis_off()
        strip.set_title("most typical items", fontsize=10)
        strip.set_xlim(-0.5, STRIP - 0.5)
        for k, group in enumerate(shown):
            for j, row in enumerate(group.items[:STRIP].tolist()):
                _put(strip, thumbnails, row, (j, k), 28, UNKNOWN_COLOUR)
    return figure


# ---- panels


def _counts(axes: Axes, overview: Overview) -> None:
    order = np.arange(len(overview.classes))
    if len(order) > MAX_BARS:
        order = np.sort(np.argsort(-overview.counts, kind="stable")[:MAX_BARS])
    names = [_plain(overview.classes[code]) for code in order.tolist()] + [UNKNOWN_NAME]
    counts = [*overview.counts[order].tolist(), overview.unknown]
    colours = [*map(colour_of, order.tolist()), UNKNOWN_COLOUR]
    places = np.arange(len(names))
    bars = axes.barh(places, counts, color=colours)
    axes.bar_label(bars, [f"{count:,}" for count in counts], padding=3, fontsize=8)
    axes.set_yticks(places, names)
    axes.set(ylim=(len(names) - 0.5, -0.5), xlabel="items")
    axes.margins(x=0.12)
    left = len(overview.classes) - len(order)
    axes.set_title("Labels" + f" ({left:,} more classes not shown)" * (left > 0), fontsize=10)


def _scores(axes: Axes, histogram: Histogram) -> None:
    edges, widths = histogram.edges, np.diff(histogram.edges)
    axes.bar(edges[:-1], histogram.known, widths, align="edge", color=KNOWN_COLOUR, label="labelled")
    axes.bar(
        edges[:-1], histogram.unknown, widths, bottom=histogram.known, align="edge", color=UNKNOWN_COLOUR,
        label="unknown",
    )  # fmt: skip
    if edges[0] <= histogram.threshold <= edges[-1]:
        axes.axvline(histogram.threshold, color="black", linestyle="--", linewidth=1, label="threshold")
    axes.set(xlabel="outlier score", ylabel="items", xlim=(edges[0], edges[-1]))
    axes.set_title(f"Outlier scores, threshold {histogram.threshold:.3g}", fontsize=10)
    axes.legend(frameon=False, fontsize=8)


def _share(axes: Axes, share: ShareOfUnknowns) -> None:
    low, high = share.interval
    if len(share.density):
        axes.stairs(share.density, share.edges, fill=True, color=KNOWN_COLOUR, alpha=0.5)
    axes.axvspan(low, high, color=KNOWN_COLOUR, alpha=0.15, linewidth=0, label="four times in five")
    axes.axvline(
        share.estimate, color="black", linestyle="--", linewidth=1, label=f"estimate {percent(share.estimate)}"
    )
    axes.set(xlabel="share of unknowns", ylabel="density", xlim=(0, 1))
    axes.set_ylim(bottom=0)
    axes.set_title("Share of unknowns", fontsize=10)
    axes.legend(frameon=False, fontsize=8)


def _map(axes: Axes, overview: Overview, thumbnails: Thumbnails | None) -> None:
    items = overview.items
    assert items is not None
    for code in [UNKNOWN_CODE, *range(len(overview.classes))]:
        is_own = items.codes == code
        name = UNKNOWN_NAME if code == UNKNOWN_CODE else _plain(overview.classes[code])
        x, y = items.places[is_own].T
        axes.scatter(x, y, s=14, color=colour_of(code), alpha=0.75, linewidths=0, label=name)
    if thumbnails is not None:
        for k in far_apart(items.places, MAP_DISTANCE, MAP_PICTURES):
            colour = colour_of(int(items.codes[k]))
            _put(axes, thumbnails, int(items.rows[k]), tuple(items.places[k]), MAP_PICTURE, colour)
    colours = [colour_of(code) for code in items.example_codes.tolist()]
    x, y = items.example_places.T
    axes.scatter(
        x, y, s=34, marker="D", c=colours, edgecolors="black", linewidths=0.8, label="examples",
        zorder=5,
    )  # fmt: skip
    for group in overview.groups or ():
        is_member = np.isin(items.rows, group.items)
        if is_member.any():
            x, y = np.median(items.places[is_member], axis=0)
            box = {"boxstyle": "circle,pad=0.25", "facecolor": "#454b52", "edgecolor": "white"}
            axes.text(x, y, str(group.number), color="white", fontsize=8, ha="center", va="center", bbox=box, zorder=6)
    axes.spines[:].set_visible(False)
    axes.set(xticks=[], yticks=[], xlim=(-0.05, 1.05), ylim=(-0.05, 1.05))
    some = f"{len(items.rows):,} of {len(overview.codes):,} items" if len(items.rows) < len(overview.codes) else "items"
    axes.set_title(f"Map of {some}", fontsize=10)


def _put(axes: Axes, thumbnails: Thumbnails, row: int, place: Any, points: float, colour: str) -> None:
    """Put the picture of an item at a place, `points` wide; nothing if it cannot be opened."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    image = thumbnails.image(row, STRIP_PIXELS)
    if image is not None:
        pixels = np.asarray(image)
        picture = OffsetImage(pixels, zoom=points / max(pixels.shape[:2]))
        frame = {"edgecolor": colour, "linewidth": 1.2}
        axes.add_artist(AnnotationBbox(picture, place, pad=0.1, bboxprops=frame))


def _figure(size: tuple[float, float]) -> Figure:
    """An empty figure that notebooks show, whether or not pyplot was imported."""
    need("matplotlib", "plot()", PLOTS)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    figure = NotebookFigure(figsize=size, dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _plain(text: str, most: int = 32) -> str:
    """A name as it is written: matplotlib reads a text with two dollar signs as an equation."""
    return (text if len(text) <= most or " items: " in text else text[: most - 1] + "…").replace("$", r"\$")
