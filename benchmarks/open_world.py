"""How methods do in a process that goes on: new characters keep appearing, and a person names some of them. ::

    python benchmarks/open_world.py omniglot.npz --base BASE    # about an hour; writes benchmarks/results/open_world.md
    python benchmarks/open_world.py --quick                     # generated features; writes into a temporary folder

Drawings of Omniglot's evaluation characters, which the shipped backbone has never seen. A stream has 100 characters at
random. Some have five examples from the start: 5 of them (small context), or half of them (large context). Each other
character appears at a random moment. Drawings arrive in blocks of 100; the model answers, and then a person names the
most typical drawing of each group of at least three unknown ones, at most ten after a block. Methods that learn from
base classes need --base, a file that `handful train` or `handful base` wrote with their heads; the shipped one is used
otherwise. Instead of omniglot.npz, any feature set with labels may be given. `--work FOLDER` keeps the features, and
every answer, between runs.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import _report
import numpy as np
from _open_world import Run, class_codes, draw_stream, figures, follow, with_base
from _problem import small_classes
from _report import Section
from _script import Parser
from rich.console import Console

from handful.backbones import load_backbone
from handful.bench import parse_methods, plots
from handful.core.base import Base, read_base
from handful.core.metrics import mean_and_half_width
from handful.estimators.factory import make_estimator
from handful.features import FeatureTable, read, write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTEXTS = ("small", "large")
METHODS, QUICK_METHODS = "auto, flowr:arrivals=true, flowr, simpleshot", "auto, simpleshot"
TITLES = {
    "context": "Accuracy, context classes",
    "named": "Accuracy, classes named later",
    "unknown": "Not yet named, called unknown",
    "auroc": "AUROC of not yet named",
}
COUNTS = {
    "classes": "New classes named",
    "told": "Answers of the person",
    "mistakes": "For classes with a name",
    "seconds": "Seconds for a block",
}
PARTS = 4  # of the stream, in the tables along it
NONE = "\N{EN DASH}"


def live_through(
    table: FeatureTable,
    methods: str,
    base: Base | None,
    items: int,
    every: int,
    seeds: int,
    classes: int | None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Run]:
    """Every method on the streams of both contexts."""
    rows, codes = with_base(parse_methods(methods), table, base), class_codes(table)
    streams = {
        (context, seed): draw_stream(codes, context, items=items, classes=classes, seed=seed)
        for context in CONTEXTS for seed in range(seeds)
    }  # fmt: skip
    done, total = 0, len(rows) * sum(-(-len(stream.arrivals) // every) for stream in streams.values())
    runs: list[Run] = []
    for (context, seed), stream in streams.items():
        for row in rows:
            count = len(stream.arrivals)
            runs.append(Run(row.row, context, seed, stream, every, np.full(count, -1), np.zeros(count)))
            for _ in follow(runs[-1], make_estimator(row.method, **row.parameters), table.features):
                done += 1
                progress(done, total)
    return runs


@dataclass(frozen=True, eq=False)
class OpenWorldResults:
    """The runs of all methods on all streams, as tables and as a picture."""

    runs: Sequence[Run]

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(run.method for run in self.runs))

    def of(self, method: str, context: str) -> list[Run]:
        """The runs of one method in one context, a run for each seed."""
        return [run for run in self.runs if (run.method, run.context) == (method, context)]

    def sections(self) -> list[Section]:
        """The figures of each context over all blocks, and each figure along the stream."""
        found = []
        for context in CONTEXTS:
            rows = []
            for method in self.methods:
                values = [figures(run, range(len(run.seconds))) for run in self.of(method, context)]
                cells = (_text([v[name] for v in values], 1 + (name == "seconds")) for name in (*TITLES, *COUNTS))
                rows.append((method, *cells))
            found.append(
                Section(f"{context.capitalize()} context", ("Method", *TITLES.values(), *COUNTS.values()), rows)
            )
            first = self.of(self.methods[0], context)[0]
            parts = [part for part in np.array_split(np.arange(len(first.seconds)), PARTS) if len(part)]
            last = [min((part[-1] + 1) * first.every, len(first.answers)) for part in parts]
            heads = [f"{low + 1} to {high}" for low, high in zip([0, *last], last, strict=False)]
            for figure, title in TITLES.items():
                rows = [
                    (
                        method,
                        *(_text([figures(run, part)[figure] for run in self.of(method, context)]) for part in parts),
                    )
                    for method in self.methods
                ]
                found.append(Section(f"{title}, {context} context, along the stream", ("Method", *heads), rows))
        return found

    def draw(self) -> Figure:
        """A row of panels for each context: each figure along the stream, with its 95 % interval over the streams."""
        from matplotlib.figure import Figure

        titles = {**TITLES, "classes": "New classes named"}
        figure = Figure(figsize=(3.2 * len(titles), 2.9 * len(CONTEXTS) + 0.6), dpi=150, layout="constrained")
        rows = figure.subplots(len(CONTEXTS), len(titles), squeeze=False)
        for panels, context in zip(rows, CONTEXTS, strict=True):
            for number, method in enumerate(self.methods):
                runs = self.of(method, context)
                blocks = range(min(len(run.seconds) for run in runs))
                along = [[figures(run, [block]) for block in blocks] for run in runs]
                items = np.minimum((np.array(blocks) + 1) * runs[0].every, len(runs[0].answers))
                for axes, name in zip(panels, titles, strict=True):
                    values = np.array([[f[name] for f in of_run] for of_run in along], float)
                    mean, half = mean_and_half_width(values, axis=0)
                    colour = plots.COLOURS[number % len(plots.COLOURS)]
                    axes.plot(items, mean, color=colour, label=method)
                    top = 100.0 if name in TITLES else np.inf  # an interval around a percentage may reach further
                    axes.fill_between(items, *np.clip([mean - half, mean + half], 0, top), color=colour, **plots.SHADE)
            for axes, title in zip(panels, titles.values(), strict=True):
                axes.set_title(title, fontsize=9)
                axes.set_xlabel(f"items arrived, {context} context", fontsize=8)
                axes.tick_params(labelsize=8)
                axes.grid(color="0.92")
        handles, labels = rows[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
        return figure


def _text(values: Sequence[float], digits: int = 1) -> str:
    """The mean over seeds with its half-width; of one seed the number alone."""
    if np.isnan(values).all():
        return NONE
    mean, half_width = mean_and_half_width(np.array(values, float))
    return f"{mean:.{digits}f}" + ("" if np.isnan(half_width) or len(values) < 2 else f" ± {half_width:.{digits}f}")


def answers_of(run: Run) -> dict[str, Any]:
    """What is needed to compute the figures of a run again."""
    return {
        "method": run.method, "context": run.context, "seed": run.seed, "every": run.every,
        "context_classes": run.stream.context.tolist(), "truth": run.stream.truth.tolist(),
        "answers": run.answers.tolist(), "outlier_scores": [float(f"{score:.6g}") for score in run.scores],
        "told": [[int(place), block] for place, block in run.told], "seconds": run.seconds,
    }  # fmt: skip


def characters(file: Path, work: Path) -> FeatureTable:
    """Features of the evaluation characters; they are computed once, and kept in `work`."""
    from handful.training.datasets import read_pictures
    from handful.training.datasets.picture_set import embed_set

    backbone = load_backbone("omniglot")
    kept = work / f"omniglot-{backbone.fingerprint[:12]}.npz"
    if not kept.exists():
        write(embed_set(read_pictures(file).select("novel"), backbone), kept)
    return replace(read(kept, warn=False), name="Omniglot's evaluation characters")


def main() -> None:
    parser = Parser(__doc__, "about an hour")
    parser.add_data("data", "omniglot.npz, as in the documents on data, or a feature set of your own")
    parser.add_argument("--base", type=Path, help="the base of methods that need one (the one shipped with handful)")
    parser.add_argument("--work", type=Path, help="where features and answers are kept (a folder among temporary ones)")
    parser.add_part("--methods", help=f'these methods instead of "{METHODS}"; with --quick "{QUICK_METHODS}"')
    parser.add_size("--classes", 100, 12, "classes of a stream")
    parser.add_size("--items", 2000, 120, "items that arrive, at most")
    parser.add_size("--every", 100, 40, "items of a block")
    parser.add_size("--seeds", 3, 1, "streams of each context")
    given = parser.parse()
    work = given.work or Path(tempfile.gettempdir(), "handful-open-world")
    work.mkdir(parents=True, exist_ok=True)
    console = Console()
    base = None if given.base is None else read_base(given.base)
    if given.data is not None and given.data.name == "omniglot.npz":
        table, base = characters(given.data, work), base or read_base(load_backbone("omniglot").base)
    else:
        table = parser.feature_set(given.data, small_classes)
    methods = given.methods or (QUICK_METHODS if given.quick else METHODS)
    with console.status("Living through the streams ...") as status:
        runs = live_through(
            table, methods, base, given.items, given.every, given.seeds, given.classes,
            lambda done, total: status.update(f"Living through the streams: block {done} of {total}"),
        )  # fmt: skip
    results = OpenWorldResults(runs)
    sections = results.sections()
    _report.show(console, sections[0])
    (work / "open_world.json").write_text(json.dumps([answers_of(run) for run in runs]), "utf-8")
    stream = runs[0].stream
    size = (
        f"{table.name}: {stream.classes} classes; {len(stream.arrivals)} items arrive, {given.every} in a block; "
        f"{given.seeds} streams of each context. In percent but for counts and seconds. {_report.machine()}"
    )
    notes = [f"    {shlex.join(['python', 'benchmarks/open_world.py', *sys.argv[1:]])}", _report.about(__doc__), size]
    _report.write(console, given.output / "open_world.md", "The continuing process", sections, [], notes)
    if find_spec("matplotlib") is not None:
        (given.output / "open_world.png").write_bytes(plots.png(results.draw()))


if __name__ == "__main__":
    main()
