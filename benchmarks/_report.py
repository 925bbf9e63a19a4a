"""The reports of the benchmarks: tables for the terminal and for Markdown, a chart, the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

PACKAGES = ("handful", "numpy", "torch", "scikit-learn")


class Section(NamedTuple):
    """A table of the report."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def show(console: Console, section: Section) -> None:
    table = Table(*section.header, title=section.title, title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in section.rows:
        table.add_row(*row)
    console.print(table)


def write(
    console: Console, path: Path, title: str, sections: list[Section], sentences: list[str], notes: list[str]
) -> None:
    path.write_text(markdown(title, sections, sentences, notes), "utf-8")
    console.print(f"Written: {path}", soft_wrap=True)


def about(doc: str) -> str:
    """What a script's docstring says at its end: what is measured, and how."""
    return doc.split("\n\n")[-1].strip()


def markdown(title: str, sections: list[Section], sentences: list[str], notes: list[str]) -> str:
    parts = [f"# {title}", *notes, *(["\n".join(f"- {s}" for s in sentences)] if sentences else [])]
    for section in sections:
        rule = ["---"] + ["---:"] * (len(section.header) - 1)
        lines = [f"| {' | '.join(row)} |" for row in (section.header, rule, *section.rows)]
        parts += [f"## {section.title}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def chart(ratios: dict[str, dict[str, float]], title: str, label: str, path: Path) -> None:
    """Bars on a logarithmic axis: {series: {row: ratio}}; the first series has every row."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    rows = list(next(iter(ratios.values())))
    figure, axes = plt.subplots(figsize=(8, max(5, 0.4 * len(rows))), layout="constrained")
    height = 0.8 / len(ratios)
    for k, (series, of_row) in enumerate(ratios.items()):
        values, colour = list(of_row.values()), plt.cm.viridis(0.15 + 0.3 * k)
        places = np.array([rows.index(row) for row in of_row]) + (k - (len(ratios) - 1) / 2) * height
        bars = axes.barh(places, values, height, label=series, color=colour)
        axes.bar_label(bars, [f"{r:.1f}x" if r < 10 else f"{r:.0f}x" for r in values], padding=3, fontsize=8)
    axes.set(xscale="log", xlabel=label, yticks=range(len(rows)), yticklabels=rows)
    axes.set_xlim(0.5, 2 * max(max(of_row.values()) for of_row in ratios.values()))
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    axes.set_title(title, loc="left")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def machine(packages: tuple[str, ...] = PACKAGES) -> str:
    """The processor, and the versions of those packages that are installed."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    cpu = models[0] if models else platform.processor() or platform.machine()
    versions = ", ".join([f"Python {platform.python_version()}", *_versions(packages)])
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}; {versions}; {date.today()}"


def _versions(packages: tuple[str, ...]) -> Iterator[str]:
    for package in packages:
        with suppress(PackageNotFoundError):
            yield f"{package} {version(package)}"
