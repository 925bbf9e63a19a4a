"""The charts of a result, drawn with matplotlib if it is installed.

Each is a separate `Figure` without pyplot: no global settings change, and no window has to be closed.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.core.answers import Answers
from handful.core.arrays import to_numpy
from handful.core.checks import UNKNOWN_NAME
from handful.report.plane import on_plane
from handful.report.table import title_of
from handful.report.thumbnails import check_pictures, small_image
from handful.utils.extras import PLOTS, need
from handful.utils.shares_in_words import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 110
# After Okabe and Ito, which colour-blind readers can distinguish.
CLASS_COLOURS = ("#2f80c0", "#d9622b", "#199c76", "#d49a12", "#bf6fa0", "#5fb4e3", "#8c7bd1", "#8a9a2e")
KNOWN_COLOUR, UNKNOWN_COLOUR = "#2f80c0", "#8f969e"
UNKNOWN_CODE = -1  # of an unknown item, beside the numbers of the classes
BINS = 40
MAX_POINTS, MAX_EXAMPLES = 5000, 2500  # on the map
MAX_BARS = 24  # classes or groups that are shown one by one
MAP_PICTURES, MAP_PICTURE = 60, 21  # pictures on the map at most, and their size in points
MAP_DISTANCE = 0.11  # of pictures on the map, whose sides are 1
STRIP, STRIP_PIXELS = 8, 64  # pictures beside a group, and their size


def draw_result(
    answers: Answers,
    method: str,
    *,
    share_interval: Any = None,
    share_posterior: tuple[Any, Any] | None = None,
    groups: Sequence[Any] = (),
    features: Callable[[np.ndarray], Any] | None = None,
    examples: tuple[Any, Any] | None = None,
    pictures: Any = None,
) -> Figure:
    """Draw counts, outlier scores, the share of unknowns if it was estimated, and the map if there are features.

    share_posterior: shares, ascending, and P(share > g) for each. features: gives the features [m, D] of some items.
    """
    pictures = None if pictures is None else check_pictures(pictures, len(answers))
    n, unknown = len(answers), to_numpy(answers.unknown)
    codes = np.where(unknown, UNKNOWN_CODE, to_numpy(answers.probabilities).argmax(axis=-1))
    names = [_plain(str(name)) for name in answers.classes.tolist()]
    draw: dict[str, Callable[[Axes], None]] = {
        "counts": lambda axes: _counts(axes, names, codes),
        "scores": lambda axes: _scores(axes, answers, unknown),
    }
    if share_interval is not None:
        share = float(answers.outlier_share)
        draw["share"] = lambda axes: _share(axes, share, share_interval, share_posterior)
    if features is not None and n:
        draw["map"] = lambda axes: _map(axes, names, codes, features, examples, groups, pictures)
    rows = (len(draw) + 1) // 2
    figure = _figure((9.5, 3.6 * rows))
    title = title_of(answers, method)
    figure.suptitle(_plain(title, len(title)), fontsize=11)
    for k, (label, draw_panel) in enumerate(draw.items()):
        last_alone = k == len(draw) - 1 and len(draw) % 2
        axes = figure.add_subplot(rows, 2, (k + 1, k + 2) if last_alone else k + 1, label=label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        draw_panel(axes)
    return figure


def draw_groups(groups: Sequence[Any], pictures: Any = None, count: int = 0) -> Figure:
    """Draw the sizes of groups, each with its most typical items if there are pictures of the `count` items."""
    pictures = None if pictures is None else check_pictures(pictures, count)
    columns = 1 if pictures is None else 2
    shown = groups[:MAX_BARS]
    figure = _figure((6 if columns == 1 else 9.5, 1.2 + 0.55 * max(len(shown), 1)))
    axes = figure.add_subplot(1, columns, 1, label="groups")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    _bars(axes, [_plain(group.name) for group in shown], [group.size for group in shown])
    left = len(groups) - len(shown)
    more = f", {left:,} smaller ones not shown" * (left > 0)
    axes.set_title(f"{len(groups):,} groups of unknowns{more}" if shown else "No groups of unknowns", fontsize=10)
    if pictures is not None:
        strip = figure.add_subplot(1, 2, 2, sharey=axes, label="pictures")
        strip.set_axis_off()
        strip.set_title("most typical items", fontsize=10)
        strip.set_xlim(-0.5, STRIP - 0.5)
        for k, group in enumerate(shown):
            for j, row in enumerate(group.items[:STRIP].tolist()):
                _put(strip, pictures[row], (j, k), 28, UNKNOWN_COLOUR)
    return figure


# ---- panels


def _counts(axes: Axes, names: Sequence[str], codes: np.ndarray) -> None:
    counts = np.bincount(codes[codes != UNKNOWN_CODE], minlength=len(names))
    order = np.sort(np.argsort(-counts, kind="stable")[:MAX_BARS])
    sizes = [*counts[order].tolist(), int((codes == UNKNOWN_CODE).sum())]
    colours = [*map(_colour, order.tolist()), UNKNOWN_COLOUR]
    _bars(axes, [*(names[code] for code in order), UNKNOWN_NAME], sizes, colours)
    left = len(names) - len(order)
    axes.set_title("Labels" + f" ({left:,} more classes not shown)" * (left > 0), fontsize=10)


def _bars(axes: Axes, names: Sequence[str], sizes: Sequence[int], colours: Any = UNKNOWN_COLOUR) -> None:
    places = np.arange(len(names))
    bars = axes.barh(places, sizes, color=colours)
    axes.bar_label(bars, [f"{size:,}" for size in sizes], padding=3, fontsize=8)
    axes.set_yticks(places, names)
    axes.set(xlabel="items", ylim=(len(names) - 0.5, -0.5) if names else (0, 1))
    axes.margins(x=0.12)


def _scores(axes: Axes, answers: Answers, unknown: np.ndarray) -> None:
    """A histogram of the outlier scores of all items; a score that is not finite counts in the bin at its end."""
    scores, threshold = to_numpy(answers.doubts).astype(np.float64), float(answers.threshold)
    finite = scores[np.isfinite(scores)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if answers.is_probability:
        low, high = min(low, 0.0), max(high, 1.0)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, BINS + 1)
    inside = np.clip(np.nan_to_num(scores, nan=high, posinf=high, neginf=low), low, high)
    bottom = np.zeros(BINS)
    for mask, colour, label in ((~unknown, KNOWN_COLOUR, "labelled"), (unknown, UNKNOWN_COLOUR, "unknown")):
        heights, _ = np.histogram(inside[mask], edges)
        axes.bar(edges[:-1], heights, np.diff(edges), bottom=bottom, align="edge", color=colour, label=label)
        bottom = bottom + heights
    if low <= threshold <= high:
        axes.axvline(threshold, color="black", linestyle="--", linewidth=1, label="threshold")
    axes.set(xlabel="outlier score", ylabel="items", xlim=(low, high))
    axes.set_title(f"Outlier scores, threshold {threshold:.3g}", fontsize=10)
    axes.legend(frameon=False, fontsize=8)


def _share(axes: Axes, share: float, interval: Any, posterior: tuple[Any, Any] | None) -> None:
    """The posterior density of the share of unknowns, its interval as a band, and the estimate as a line."""
    low, high = map(float, interval)
    if posterior is not None:
        edges = np.array([0.0, *posterior[0], 1.0])
        above = np.array([1.0, *to_numpy(posterior[1]), 0.0])
        density = np.maximum(-np.diff(above), 0.0) / np.diff(edges)
        axes.stairs(density, edges, fill=True, color=KNOWN_COLOUR, alpha=0.5)
    axes.axvspan(low, high, color=KNOWN_COLOUR, alpha=0.15, linewidth=0, label="four times in five")
    axes.axvline(share, color="black", linestyle="--", linewidth=1, label=f"estimate {percent(share)}")
    axes.set(xlabel="share of unknowns", ylabel="density", xlim=(0, 1))
    axes.set_ylim(bottom=0)
    axes.set_title("Share of unknowns", fontsize=10)
    axes.legend(frameon=False, fontsize=8)


def _map(
    axes: Axes,
    names: Sequence[str],
    codes: np.ndarray,
    features: Callable[[np.ndarray], Any],
    examples: tuple[Any, Any] | None,
    groups: Sequence[Any],
    pictures: Any,
) -> None:
    """Items and examples along the two directions in which they differ most."""
    rows, parts, example_codes = _sample(len(codes), MAX_POINTS), [], np.empty(0, int)
    parts.append(to_numpy(features(rows)))
    if examples is not None:
        some = _sample(len(examples[1]), MAX_EXAMPLES)
        parts.append(to_numpy(examples[0])[some])
        example_codes = np.asarray(examples[1])[some]
    places = on_plane(np.concatenate(parts))
    places = places - places.min(axis=0)
    places /= max(float(places.max()), 1e-12)  # one scale for both directions
    places += (1 - places.max(axis=0)) / 2
    places, example_places, row_codes = places[: len(rows)], places[len(rows) :], codes[rows]
    for code in [UNKNOWN_CODE, *range(len(names))]:
        x, y = places[row_codes == code].T
        name = UNKNOWN_NAME if code == UNKNOWN_CODE else names[code]
        axes.scatter(x, y, s=14, color=_colour(code), alpha=0.75, linewidths=0, label=name)
    if pictures is not None:
        for k in far_apart(places, MAP_DISTANCE, MAP_PICTURES):
            _put(axes, pictures[rows[k]], tuple(places[k]), MAP_PICTURE, _colour(int(row_codes[k])))
    colours, (x, y) = [_colour(code) for code in example_codes.tolist()], example_places.T
    axes.scatter(x, y, s=34, marker="D", c=colours, edgecolors="black", linewidths=0.8, label="examples", zorder=5)
    for group in groups:
        is_member = np.isin(rows, group.items)
        if is_member.any():
            x, y = np.median(places[is_member], axis=0)
            box = {"boxstyle": "circle,pad=0.25", "facecolor": "#454b52", "edgecolor": "white"}
            axes.text(x, y, str(group.number), color="white", fontsize=8, ha="center", va="center", bbox=box, zorder=6)
    axes.spines[:].set_visible(False)
    axes.set(xticks=[], yticks=[], xlim=(-0.05, 1.05), ylim=(-0.05, 1.05))
    some_items = f"{len(rows):,} of {len(codes):,} items" if len(rows) < len(codes) else "items"
    axes.set_title(f"Map of {some_items}", fontsize=10)


def far_apart(places: np.ndarray, distance: float, most: int) -> list[int]:
    """Some of the points [n, 2], at most so many, no two of them closer than `distance` in both directions."""
    chosen: list[int] = []
    for k in np.random.default_rng(0).permutation(len(places)).tolist():
        if len(chosen) < most and (np.abs(places[chosen] - places[k]).max(axis=1) >= distance).all():
            chosen.append(k)
    return chosen


def _sample(n: int, most: int) -> np.ndarray:
    """Numbers below n, ascending: all, or a random sample that is always the same."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def _put(axes: Axes, picture: Any, place: Any, points: float, colour: str) -> None:
    """Put a picture at a place, `points` wide; nothing if it cannot be opened."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    image = small_image(picture, STRIP_PIXELS)
    if image is not None:
        pixels = np.asarray(image)
        box = OffsetImage(pixels, zoom=points / max(pixels.shape[:2]))
        frame = {"edgecolor": colour, "linewidth": 1.2}
        axes.add_artist(AnnotationBbox(box, place, pad=0.1, bboxprops=frame))


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


def _colour(code: int) -> str:
    """The colour of a class by its number; grey for the unknown."""
    return UNKNOWN_COLOUR if code == UNKNOWN_CODE else CLASS_COLOURS[code % len(CLASS_COLOURS)]


def _plain(text: str, most: int = 32) -> str:
    """A name as it is written: matplotlib reads a text with two dollar signs as an equation."""
    return (text if len(text) <= most else text[: most - 1] + "…").replace("$", r"\$")
