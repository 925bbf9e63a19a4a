"""Tables of results: means over all tasks with the half-width of their 95 % interval, in several formats."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.bench.runner import Results
from handful.bench.settings import FIGURES
from handful.core.metrics import mean_and_half_width
from handful.utils import csv_file as csvfile

if TYPE_CHECKING:
    from rich.table import Table as RichTable

TITLES = {"accuracy": "Acc", "auroc": "AUROC", "aupr": "AUPR", "prec@0.9": "Prec@0.9"}
NONE = "\N{EN DASH}"
NOTE = "In percent: mean over {n} ± half-width of its 95 % interval."


@dataclass(frozen=True)
class Row:
    """The means and 95 % half-widths of a method, and the figures of the paper if there are any."""

    name: str
    kind: str  # OOD, FSL, FSL-T, OSFSL or OSFSL-T
    means: dict[str, float]
    half_widths: dict[str, float]
    paper: dict[str, float | None] | None = None


@dataclass(frozen=True)
class Table:
    """Rows of figures.

    Parameters
    ----------
    title : str
        The title.
    column : str
        The kind of tasks.
    rows : list of Row
        The figures of each method.
    note : str
        What the figures are, in a sentence.
    against : str, optional
        The row that was subtracted from all others.
    """

    title: str
    column: str
    rows: list[Row]
    note: str
    against: str | None = None

    @property
    def best(self) -> dict[str, float]:
        """The highest mean of each figure; NaN in a table of differences."""
        best_means = {}
        for name in TITLES:
            means = [row.means[name] for row in self.rows if not np.isnan(row.means[name])]
            best_means[name] = max(means) if means and not self.against else np.nan
        return best_means

    def _cells(self, bold: str = "{}", plus_minus: str = " ± ") -> Iterable[list[str]]:
        """Yield the cells of each row as text, the best figures in the pattern `bold`, such as "**{}**"."""
        for row in self.rows:
            texts = [row.name, row.kind]
            for name in TITLES:
                mean, half = row.means[name], row.half_widths[name]
                text = NONE if np.isnan(mean) else f"{mean:{'+' if self.against else ''}.1f}"
                text += "" if np.isnan(half) else f"{plus_minus}{half:.1f}"
                texts.append(bold.format(text) if mean == self.best[name] else text)
            if row.paper is not None:
                texts += [NONE if row.paper[name] is None else f"{row.paper[name]:.1f}" for name in TITLES]
            elif self.has_paper:
                texts += [""] * len(TITLES)
            yield texts

    @property
    def has_paper(self) -> bool:
        """Whether any row has figures of the paper."""
        return any(row.paper is not None for row in self.rows)

    @property
    def header(self) -> list[str]:
        """The titles of all columns."""
        paper = [f"paper: {title}" for title in TITLES.values()] if self.has_paper else []
        return ["Method", "Paradigm", *TITLES.values(), *paper]

    def to_rich(self) -> RichTable:
        """Return a table for the terminal. The figure of the paper follows ours, after a slash."""
        from rich.table import Table as RichTable

        rich_table = RichTable(title=self.title, caption=self.note, title_justify="left", caption_justify="left")
        behind = " / paper" if self.has_paper else ""
        for i, name in enumerate(self.header[: 2 + len(TITLES)]):
            rich_table.add_column(name + (behind if i > 1 else ""), justify="left" if i < 2 else "right")
        kind = None
        for row, cells in zip(self.rows, self._cells("[bold]{}[/bold]", "±" if behind else " ± "), strict=True):
            if kind not in (None, row.kind):
                rich_table.add_section()
            kind = row.kind
            ours, theirs = cells[2 : 2 + len(TITLES)], cells[2 + len(TITLES) :]
            joined = [f"{a} / {b}" if b else a for a, b in zip(ours, theirs, strict=True)] if theirs else ours
            rich_table.add_row(*cells[:2], *joined)
        return rich_table

    def to_markdown(self) -> str:
        """Return the table with its title and note as Markdown."""
        lines = ["| " + " | ".join(self.header) + " |", "| --- | --- |" + " ---: |" * (len(self.header) - 2)]
        lines += ["| " + " | ".join(cells) + " |" for cells in self._cells("**{}**")]
        return f"## {self.title}\n\n{self.note}\n\n" + "\n".join(lines) + "\n"

    def to_latex(self) -> str:
        """Return a LaTeX tabular for the package booktabs."""
        escape = str.maketrans({"%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#"})
        rows = [
            " & ".join(c if "$" in c else c.translate(escape) for c in cells)
            for cells in self._cells(r"\textbf{{{}}}", r"$\pm$")
        ]
        head = " & ".join(name.translate(escape) for name in self.header)
        body = " \\\\\n".join(rows).replace(NONE, "--").replace("±", r"$\pm$")
        columns = "ll" + "r" * (len(self.header) - 2)
        return (
            f"% {self.title}. {self.note}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head} \\\\\n\\midrule\n{body} "
            "\\\\\n\\bottomrule\n\\end{tabular}\n"
        )

    def records(self) -> list[dict[str, Any]]:
        """Return a dict for each row and figure, with numbers in full precision; NaN becomes None."""
        return [
            {
                "table": self.title, "tasks": self.column, "method": row.name, "paradigm": row.kind,
                "against": self.against, "figure": name, "mean": plain(row.means[name]),
                "half_width_95": plain(row.half_widths[name]), "paper": row.paper[name] if row.paper else None,
            }
            for row in self.rows
            for name in TITLES
        ]  # fmt: skip


def table(
    results: Results, column: str | None = None, paper_figures: Mapping[str, Sequence[float | None]] | None = None
) -> Table:
    """Return the figures of one kind of tasks, or their mean over all kinds.

    The mean over kinds is first taken for each task: task i of a seed has the same classes in all kinds.

    Parameters
    ----------
    results : Results
        The figures.
    column : str, optional
        The kind of tasks; by default the mean over all kinds.
    paper_figures : mapping, optional
        Figures of the paper by row or method, to be shown beside.

    Returns
    -------
    Table
    """
    rows = []
    for name, contender in results.benchmark.contenders.items():
        paper_row = (paper_figures.get(name) or paper_figures.get(contender.method)) if paper_figures else None
        row = _row(name, contender.kind, {figure: values(results, column, name, figure) for figure in FIGURES})
        rows.append(replace(row, paper=dict(zip(FIGURES, paper_row, strict=True))) if paper_row else row)
    title, note = words(results, column)
    if paper_figures:
        note += f" The paper's: {paper()['setting']}."
    return Table(title, column or "mean", rows, note)


def _row(name: str, kind: str, figures: Mapping[str, np.ndarray]) -> Row:
    intervals = {figure: mean_and_half_width(of_tasks) for figure, of_tasks in figures.items()}
    means, halves = ({figure: float(pair[i]) for figure, pair in intervals.items()} for i in (0, 1))
    return Row(name, kind, means, halves)


def differences(results: Results, against: str, column: str | None = None) -> Table:
    """Return each row minus another row on the same tasks, with the interval of the paired difference.

    Parameters
    ----------
    results : Results
        The figures.
    against : str
        The row that is subtracted.
    column : str, optional
        The kind of tasks; by default the mean over all kinds.

    Returns
    -------
    Table
    """
    other = results.benchmark.row(against)

    of_other = {figure: values(results, column, other, figure) for figure in FIGURES}
    rows = [
        _row(row, contender.kind, {f: values(results, column, row, f) - of_other[f] for f in FIGURES})
        for row, contender in results.benchmark.contenders.items()
        if row != other
    ]
    title, note = words(results, column)
    note = note.replace("mean", f"mean of the difference to {other}, task by task,", 1)
    return Table(f"{title}, against {other}", column or "mean", rows, note, other)


@cache
def paper() -> dict[str, Any]:
    """Return the figures of the paper's tables, and the data on which they were measured."""
    figures: dict[str, Any] = json.loads(resources.files("handful.bench").joinpath("paper.json").read_text("utf-8"))
    return figures


def tables(results: Results, against: str | None = None, with_paper: bool = False) -> list[Table]:
    """Return all tables of a benchmark: the mean over its kinds of tasks (if several), each kind, differences.

    Parameters
    ----------
    results : Results
        The figures.
    against : str, optional
        Also give the differences to this row.
    with_paper : bool
        Whether to show the figures of the paper beside.

    Returns
    -------
    list of Table
    """
    columns, name = results.benchmark.columns, results.benchmark.name
    selected: list[str | None] = [None, *columns] if name == "imbalanced" else list(columns)
    papers: dict[str | None, Any] = dict.fromkeys(selected)
    if with_paper and name == "imbalanced":
        papers[None] = paper()[name]  # the paper has the mean alone
    elif with_paper:
        papers = {column: paper()[name].get(column) if name == "ablation" else paper().get(name) for column in selected}
    result_tables = [table(results, column, papers[column]) for column in selected]
    if against:
        result_tables += [differences(results, against, column) for column in selected]
    return result_tables


def write_markdown(tables: Iterable[Table], title: str, command: str | None = None) -> str:
    """Return a Markdown page of several tables."""
    command_lines = f"\n    {command}\n" if command else ""
    return f"# {title}\n{command_lines}\n" + "\n".join(t.to_markdown() for t in tables)


def write_csv(tables: Iterable[Table]) -> str:
    """Return the records of several tables as CSV."""
    records = [record for t in tables for record in t.records()]
    rows = [list(records[0]), *(record.values() for record in records)]
    file = io.StringIO(newline="")
    escaped = [[csvfile.escape(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    csv.writer(file, lineterminator="\n").writerows(escaped)
    return file.getvalue()


def write_json(tables: Iterable[Table], about: Mapping[str, Any]) -> str:
    """Return the records of several tables as JSON."""
    return json.dumps({**about, "figures": [r for t in tables for r in t.records()]}, indent=2) + "\n"


def values(results: Results, column: str | None, row: str, figure: str) -> np.ndarray:
    """Return a figure of each task, [seeds * tasks]; without `column`, its mean over the kinds of tasks."""
    if column is not None:
        return results[column, row][figure]
    means: np.ndarray = np.mean([results[c, row][figure] for c in results.benchmark.columns], axis=0)
    return means


def words(results: Results, column: str | None) -> tuple[str, str]:
    """Return the size and the kind of the tasks of a column, in words."""
    benchmark = results.benchmark
    protocol = next(c.protocol for c in benchmark.cells if column in (None, c.column))
    size = f"{protocol.ways}-way {protocol.shots}-shot"
    if column is None:
        kind = f"mean of {' / '.join(benchmark.columns)} queries a class"
    elif column.endswith("%"):
        kind = f"{column} outliers"
    else:
        kind = f"{column} queries a class, known + outlier"
    centred = f"base mean of {results.base}" if results.base else "task mean"
    n = f"{results.seeds * results.tasks:,} tasks" + (" of each kind" if column is None else "")
    note = NOTE.format(n=n) + f" {results.features}, {centred}."
    return f"{benchmark.title}, {size}, {kind}", note


def plain(value: float) -> float | None:
    """Return the value, or None for NaN, which JSON does not have."""
    return None if np.isnan(value) else value
