"""Figures of results, drawn with matplotlib if it is installed; shades and bars are the 95 % interval of a mean."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.bench.runner import Results
from handful.bench.settings import FIGURES, parse_methods, with_true_share
from handful.bench.tables import TITLES, table
from handful.core.metrics import figures, mean_and_half_width, precision_at_recall
from handful.features import FeatureTable, Protocol, draw
from handful.solving import get_solver, solve
from handful.utils import extras

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours of Okabe and Ito, which colour-blind readers can distinguish; without yellow, which is faint on white.
BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK = COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000",
)  # fmt: skip
DASHES = ("-", "--", ":", "-.")
PARADIGMS = {"OOD": BLACK, "FSL": ORANGE, "FSL-T": VERMILION, "OSFSL": GREEN, "OSFSL-T": BLUE}
MARKERS = "os^vDP*X<>"  # of the methods of a paradigm, one after the other
RATES = np.arange(101) / 100  # where curves are averaged; computed as k / n, so that equal shares compare as equal
FIRST_STOPS = (0, 1, 2, 5)  # steps; after these every fifth step
SHADE: dict[str, Any] = {"alpha": 0.18, "linewidth": 0}
DPI = 150


def png(figure: Figure) -> bytes:
    """Return the figure as a PNG file. The same numbers give the same bytes."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi="figure", metadata={"Software": None})
    return out.getvalue()


def sweep(results: Results) -> Figure:
    """Draw a row of panels for each share of outliers and a panel for each figure. A ring marks the best b."""
    benchmark = results.benchmark
    b = {row: c.parameters["b"] for row, c in benchmark.contenders.items() if c.method == "eol"}
    figure, grid = _panels(len(benchmark.columns), len(FIGURES), (11, 2.4 * len(benchmark.columns) + 1), sharex=True)
    for column, panels in zip(benchmark.columns, grid, strict=True):
        rows = table(results, column).rows
        along = sorted((row for row in rows if row.name in b), key=lambda row: b[row.name])
        others = [row for row in rows if row.name not in b]
        x = np.array([b[row.name] for row in along])
        for name, axes in zip(FIGURES, panels, strict=True):
            means, halves = (
                np.array([getattr(r, attribute)[name] for r in along]) for attribute in ("means", "half_widths")
            )
            _curve(axes, x, means, halves, BLUE, "-", "EOL", marker="o", markersize=3, zorder=3)
            if not np.isnan(means).all():  # all are NaN if no query is an outlier
                best = np.nanargmax(means)
                axes.plot(x[best], means[best], "o", color=BLUE, markersize=9, markerfacecolor="none", label="best b")
            for row, (colour, dash) in zip(others, _styles(len(others), skip=1), strict=True):
                mean, half = row.means[name], row.half_widths[name]
                axes.axhspan(mean - half, mean + half, color=colour, **SHADE | {"alpha": 0.1})
                axes.axhline(mean, color=colour, linestyle=dash, linewidth=1.3, label=row.name)
            axes.set(xlabel="b" if column == benchmark.columns[-1] else None, xticks=x[::2])
            axes.set_title(TITLES[name] if column == benchmark.columns[0] else None, fontsize=10)
        panels[0].set_ylabel(f"{column} outliers\n%")
    words = f"{results.features}, {_size(benchmark.cells[0].protocol)}, {results.seeds * results.tasks:,} tasks"
    figure.suptitle(f"{benchmark.title}: {words}", fontsize=11)
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    return figure


def scatter(results: Results) -> Figure:
    """Draw a point for each method, named in the legend: the mean over the kinds of tasks if there are several."""
    columns = results.benchmark.columns
    means_table = table(results, columns[0] if len(columns) == 1 else None)
    figure, ((axes,),) = _panels(1, 1, (8, 5.5))
    means, halves = (
        np.array([[getattr(row, attribute)[name] for name in ("accuracy", "auroc")] for row in means_table.rows])
        for attribute in ("means", "half_widths")
    )
    counts = dict.fromkeys(PARADIGMS, 0)
    for row, (x, y), (dx, dy) in zip(means_table.rows, means, halves, strict=True):
        marker = MARKERS[counts[row.kind] % len(MARKERS)]
        counts[row.kind] += 1
        axes.errorbar(x, y, dy, dx, marker, color=PARADIGMS[row.kind], elinewidth=0.7, label=f"{row.name}, {row.kind}")
    axes.set(xlabel="Accuracy, %", ylabel="AUROC, %")
    axes.grid(color="0.92")
    axes.margins(0.08)
    figure.suptitle(f"{means_table.title}\n{results.features}, {results.seeds * results.tasks:,} tasks", fontsize=11)
    figure.legend(loc="outside right center", frameon=False, fontsize=8)
    return figure


def curves(results_by_name: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """Draw ROC and precision-recall curves from scores and outlier, [B, Q] each, by name."""
    figure, ((left, right),) = _panels(1, 2, (9, 4.4))
    for (name, (scores, outlier)), style in zip(results_by_name.items(), _styles(len(results_by_name)), strict=True):
        _curve(left, RATES, *mean_and_half_width(_roc(scores, outlier), axis=0), *style, name)
        recalls = RATES[1:]  # precision is not defined at recall 0
        precision = np.stack([precision_at_recall(scores, outlier, r) for r in recalls], axis=1)
        _curve(right, recalls, *mean_and_half_width(precision, axis=0), *style, name)
    left.plot((0, 1), (0, 1), color="0.6", linewidth=0.8, linestyle=":", zorder=0)  # chance
    left.set(title="ROC", xlabel="Known taken for unknown", ylabel="Unknown found", xlim=(0, 1), ylim=(0, 1.01))
    right.set(title="Precision-recall", xlabel="Recall of unknowns", ylabel="Precision", xlim=(0, 1))
    right.set_ylim(top=1.01)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def histogram(scores: np.ndarray, outlier: np.ndarray, title: str) -> Figure:
    """Draw histograms of scores [B, Q] for knowns and unknowns. Each has area 1."""
    scores, outlier = np.asarray(scores), np.asarray(outlier)
    figure, ((axes,),) = _panels(1, 1, (6, 3.6))
    edges = np.histogram_bin_edges(scores, bins=40)
    for name, is_kind, colour in (("known", ~outlier, BLUE), ("unknown", outlier, VERMILION)):
        if is_kind.any():
            density, _ = np.histogram(scores[is_kind], edges, density=True)
            axes.stairs(density, edges, fill=True, color=colour, alpha=0.25)
            axes.stairs(density, edges, color=colour, linewidth=1.2, label=f"{name}, {is_kind.sum():,} queries")
    axes.set(xlabel="Outlier score", ylabel="Density", xlim=(edges[0], edges[-1]))
    axes.set_ylim(bottom=0)
    figure.suptitle(title, fontsize=11)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def optimisation(
    features: FeatureTable, base_mean: np.ndarray | None, protocol: Protocol, seed: int = 0, task: int = 0
) -> Figure:
    """Draw the loss of EOL on task number `task` of a seed, and the figures when it stops earlier."""
    episode = draw(features.features, features.need_labels(), protocol, seed=seed, tasks=[task])
    parameters = with_true_share(parse_methods(["eol"])[0], protocol).parameters
    options: dict[str, Any] = {"base_mean": base_mean, "threads": 1, **parameters}
    loss = np.asarray(solve(episode.task, method="eol", history=True, **options).history)[0]  # [steps + 1]
    last = get_solver("eol").defaults["steps"]
    stops = sorted({k for k in (*FIRST_STOPS, *range(10, last, 5)) if k < last} | {last})
    results = [solve(episode.task, method="eol", steps=k, **options) for k in stops]
    measured = [figures(r.probabilities, r.outlier_scores, episode.truth) for r in results]
    figure, ((top,), (bottom,)) = _panels(2, 1, (7, 5.6), sharex=True)
    top.plot(np.arange(len(loss)), loss, color=BLACK)
    top.set_ylabel("Loss")
    for name, (colour, dash) in zip(FIGURES, _styles(len(FIGURES)), strict=True):
        percentages = [100 * float(m[name][0]) for m in measured]
        bottom.plot(stops, percentages, color=colour, linestyle=dash, marker="o", markersize=3, label=TITLES[name])
    bottom.set(xlabel="Steps", ylabel="%", xlim=(-0.5, last + 0.5))
    b = f"b = {parameters['b']}"
    figure.suptitle(f"EOL on task {task} of seed {seed}: {features.name}, {_size(protocol)}, {b}", fontsize=11)
    figure.legend(loc="outside lower center", ncols=len(FIGURES), frameon=False)
    return figure


def gallery(
    features: FeatureTable,
    base_mean: np.ndarray | None,
    protocol: Protocol,
    methods: Sequence[str] = ("eol", "ostim", "oslo", "knn", "simpleshot"),
    tasks: int = 100,
    seed: int = 0,
) -> dict[str, Figure]:
    """Return figures by file name: "curves" of all methods, "histograms-<method>" of each, "optimisation" of EOL."""
    episodes = draw(features.features, features.need_labels(), protocol, seed=seed, tasks=tasks)
    words = f"{features.name}, {_size(protocol)}, {tasks:,} tasks"
    scores, histograms = {}, {}
    for contender in parse_methods(methods):
        parameters = with_true_share(contender, protocol).parameters
        result = solve(episodes.task, method=contender.method, base_mean=base_mean, threads=1, **parameters)
        scores[contender.row] = np.asarray(result.outlier_scores), episodes.outlier
        parts = [contender.method, *(f"{name}={value}" for name, value in contender.parameters.items())]
        name = re.sub(r"[^\w.=-]+", "-", "-".join(parts)).strip("-")
        histograms[f"histograms-{name}"] = histogram(*scores[contender.row], f"{contender.row}: {words}")
    together = curves(scores)
    together.suptitle(words, fontsize=11)
    return {"curves": together, **histograms, "optimisation": optimisation(features, base_mean, protocol, seed)}


# Helpers


def _panels(rows: int, columns: int, size: tuple[float, float], sharex: bool = False) -> tuple[Figure, np.ndarray]:
    """Return an empty figure and its axes [rows, columns]."""
    extras.need("matplotlib", "a picture", extras.PLOTS)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)  # measures texts and writes the file, independent of the backend of pyplot
    grid = figure.subplots(rows, columns, sharex=sharex, squeeze=False)
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    return figure, grid


def _styles(count: int, skip: int = 0) -> list[tuple[str, str]]:
    """Return a colour and a dash for each line. The dash changes when all colours are used."""
    return [(COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]) for i in range(skip, skip + count)]


def _curve(axes: Axes, x: np.ndarray, mean: Any, half: Any, colour: str, dash: str, name: str, **more: Any) -> None:
    axes.fill_between(x, mean - half, mean + half, color=colour, **SHADE)
    axes.plot(x, mean, color=colour, linestyle=dash, linewidth=1.5, label=name, **more)


def _roc(scores: np.ndarray, outlier: np.ndarray) -> np.ndarray:
    """Return the true positive rate at each of `RATES`, [B, rates]; NaN for a task without knowns or unknowns."""
    from sklearn.metrics import roc_curve

    rates = np.full((len(scores), len(RATES)), np.nan)
    for i, (s, o) in enumerate(zip(scores, outlier, strict=True)):
        if o.any() and not o.all():
            rates[i] = np.interp(RATES, *roc_curve(o, s, drop_intermediate=False)[:2])
    return rates


def _size(protocol: Protocol) -> str:
    return f"{protocol.ways}-way {protocol.shots}-shot"
