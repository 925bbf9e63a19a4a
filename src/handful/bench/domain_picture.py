"""A picture of results on many feature sets: every method against the reference, and the error of the share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from handful.bench.domains import AUTO, TOLD, DomainResults
from handful.bench.plots import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = "osD^vP*Xd"
PANELS = {"auroc": "AUROC", "accuracy": "Accuracy of knowns", "absolute_error": "Error of the share"}


def draw(results: DomainResults) -> Figure:
    """Draw a row for each feature set and a point for each method, in percent points minus the reference.

    The error of the share is drawn as it is. Feature sets are sorted by the AUROC of the default minus the reference.
    """
    from matplotlib.figure import Figure

    reference = TOLD if TOLD in results.methods else results.methods[0]
    first = AUTO if AUTO in results.methods else results.methods[0]
    differences = results.by_domain(first, "auroc", reference)
    domains = sorted(results.domains, key=lambda name: np.nan_to_num(differences[name]))
    rows = np.arange(len(domains))
    figure = Figure(figsize=(12, 0.32 * len(domains) + 2.2), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (name, title) in zip(panels, PANELS.items(), strict=True):
        is_error = name == "absolute_error"
        for number, method in enumerate(results.methods):
            values = results.by_domain(method, name, None if is_error else reference)
            x = np.array([values[domain] for domain in domains])
            if np.isnan(x).all() or (method == reference and not is_error):
                continue
            is_first = method == first
            axes.plot(
                x, rows, MARKERS[number % len(MARKERS)], color=COLOURS[number % len(COLOURS)], label=method,
                markersize=7 if is_first else 4, alpha=1.0 if is_first else 0.7, zorder=3 if is_first else 2,
            )  # fmt: skip
        axes.set_title(title if is_error else f"{title} minus {reference}", fontsize=10)
        axes.set_xlabel("percent points", fontsize=9)
        axes.grid(color="0.92")
        if not is_error:
            axes.axvline(0, color="0.4", linewidth=1)
    panels[0].set_yticks(rows, domains, fontsize=8)
    handles = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return figure
