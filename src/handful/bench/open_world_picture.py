"""A picture of the continuing process: the figures of every method along the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from handful.bench.open_world_results import TITLES, OpenWorldResults, figures
from handful.bench.plots import COLOURS, SHADE
from handful.core.metrics import mean_and_half_width

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {**TITLES, "classes": "New classes named"}


def draw(results: OpenWorldResults) -> Figure:
    """Draw a row of panels for each context: each figure of the blocks along the stream, a line for each method.

    Lines are means over the streams, and shades their 95 % intervals.
    """
    from matplotlib.figure import Figure

    contexts = results.contexts
    figure = Figure(figsize=(3.2 * len(PANELS), 2.9 * len(contexts) + 0.6), dpi=150, layout="constrained")
    rows = figure.subplots(len(contexts), len(PANELS), squeeze=False)
    for panels, context in zip(rows, contexts, strict=True):
        for number, method in enumerate(results.methods):
            runs = results.of(method, context)
            blocks = range(min(len(run.seconds) for run in runs))
            along = [[figures(run, [block]) for block in blocks] for run in runs]
            items = np.minimum((np.array(blocks) + 1) * runs[0].every, len(runs[0].answers))
            for axes, name in zip(panels, PANELS, strict=True):
                values = np.array([[f[name] for f in of_run] for of_run in along], float)
                mean, half = mean_and_half_width(values, axis=0)
                colour = COLOURS[number % len(COLOURS)]
                axes.plot(items, mean, color=colour, label=method)
                top = 100.0 if name in TITLES else np.inf  # an interval around a percentage may reach further
                low, high = np.clip([mean - half, mean + half], 0, top)
                axes.fill_between(items, low, high, color=colour, **SHADE)
        for axes, title in zip(panels, PANELS.values(), strict=True):
            axes.set_title(title, fontsize=9)
            axes.set_xlabel(f"items arrived, {context} context", fontsize=8)
            axes.tick_params(labelsize=8)
            axes.grid(color="0.92")
    handles, labels = rows[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return figure
