"""How time and memory grow: with tasks, items, features, classes, examples and threads. ::

    python benchmarks/scaling.py             # some minutes; writes benchmarks/results/scaling.md and scaling.png
    python benchmarks/scaling.py --quick     # under a minute; writes into a temporary folder

Each point is a fresh process with the kernels loaded: the median of three calls, and the peak of its memory beyond
libraries and features. Gaussian clusters, half of each pile unknown; the default is told nothing, EOL is told one half.
Where nothing else is said: 64 tasks, 5-way 5-shot, 150 queries, 640 features, all cores; one pile of 384 features where
items grow. An exponent is the slope of a straight line through the logarithms: 1 means twice the time for twice as
many. The larger half of the points is fitted, because small ones cost mostly what every call costs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import _fresh
import _report
import numpy as np
from _script import Parser
from rich.console import Console

from handful.utils.threads import available_threads

CORES = available_threads()
METHODS = {"default": {}, "EOL, told": {"method": "eol", "outlier_share": 0.5}}
Found = dict[str, dict[str, list[tuple[float, float]]]]  # by axis and method: seconds and MiB of every point
USUAL = {"tasks": 64, "queries": 150, "features": 640, "classes": 5, "examples": 5, "threads": CORES}
SMALL = {"tasks": 2, "queries": 50, "features": 16, "classes": 2, "examples": 2, "threads": CORES}


class Axis(NamedTuple):
    """What grows, how far, and what is not as usual meanwhile."""

    name: str
    label: str
    values: tuple[int, ...]
    quick: tuple[int, ...]
    other: tuple[tuple[str, int], ...] = ()


AXES = (
    Axis("tasks", "tasks", (16, 64, 256, 1024), (2, 4)),
    Axis("queries", "items", (1_000, 4_000, 16_000, 64_000), (100, 200), (("tasks", 1), ("features", 384))),
    Axis("features", "features", (64, 128, 256, 512, 1024, 2048), (16, 32)),
    Axis("classes", "classes", (2, 5, 10, 20, 40), (2, 4), (("queries", 400), ("tasks", 32))),
    Axis("examples", "examples of a class", (1, 5, 20, 80), (1, 2)),
    Axis("threads", "threads", tuple(sorted({1, CORES})), (1,)),
)
POINT = """
import json, sys, time
import numpy as np
import handful

of, options = json.loads(sys.argv[1]), json.loads(sys.argv[2])

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

def tasks(batch, queries):
    rng = np.random.default_rng(0)
    ways, features = of["classes"], of["features"]
    centres = rng.standard_normal((batch, 2 * ways, features), dtype=np.float32)
    labels = np.arange(ways * of["examples"]) % ways
    drawn = []
    for classes in (labels, np.arange(queries) % (2 * ways)):
        items = rng.standard_normal((batch, len(classes), features), dtype=np.float32)
        items *= 2
        for rows in np.array_split(np.arange(len(classes)), 1 + len(classes) // 1000):  # no second large array
            items[:, rows] += centres[:, classes[rows]]
        drawn.append(items)
    return drawn[0], np.tile(labels, (batch, 1)), drawn[1]

options["threads"] = of["threads"]
handful.solve(*tasks(2, 100), **options)
given = tasks(of["tasks"], of["queries"])
if of["tasks"] == 1:
    given = tuple(x[0] for x in given)
before, seconds = peak(), []
for _ in range(3):
    start = time.perf_counter()
    handful.solve(*given, **options)
    seconds.append(time.perf_counter() - start)
    if seconds[0] > 30:
        break
print(sorted(seconds)[len(seconds) // 2], max(peak() - before, 1.0))
"""


def measure(axis: Axis, value: int, options: dict[str, Any], is_full: bool) -> tuple[float, float]:
    of = {**(USUAL if is_full else SMALL), **(dict(axis.other) if is_full else {}), axis.name: value}
    seconds, memory = _fresh.run(POINT, json.dumps(of), json.dumps(options))[1].split()
    return float(seconds), float(memory)


def exponent(values: tuple[int, ...], found: list[float]) -> float:
    """The slope through the larger half of the points."""
    half = slice(min(len(values) // 2, len(values) - 2), None)
    return float(np.polyfit(np.log(values[half]), np.log(found[half]), 1)[0])


def draw(
    found: dict[str, dict[str, list[tuple[float, float]]]], values: dict[str, tuple[int, ...]], path: Path
) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    axes_of = [axis for axis in AXES if len(values[axis.name]) > 1]
    figure, panels = plt.subplots(2, len(axes_of), figsize=(3 * len(axes_of), 6), layout="constrained", squeeze=False)
    for column, axis in enumerate(axes_of):
        for row, label in enumerate(("seconds", "MiB beyond the features")):
            panel = panels[row, column]
            for method in METHODS:
                panel.plot(values[axis.name], [point[row] for point in found[axis.name][method]], "o-", label=method)
            panel.set(xscale="log", yscale="log", xlabel=axis.label)
            panel.grid(alpha=0.3)
            if not column:
                panel.set_ylabel(label)
    panels[0, 0].legend(frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = Parser(__doc__, "some minutes")
    parser.add_part("--axis", choices=[axis.name for axis in AXES], action="append", help="only this; may be repeated")
    given = parser.parse()
    console = Console()
    axes = [axis for axis in AXES if given.axis is None or axis.name in given.axis]
    values = {axis.name: axis.quick if given.quick else axis.values for axis in axes}
    found: Found = {}
    sections, exponents = [], []
    for axis in axes:
        own = found[axis.name] = {
            method: [measure(axis, value, options, not given.quick) for value in values[axis.name]]
            for method, options in METHODS.items()
        }
        rows = []
        for k, value in enumerate(values[axis.name]):
            rows.append((f"{value:,}", *(f"{x:.3g}" for method in METHODS for x in own[method][k])))
        header = (axis.label, *(f"{method}, {unit}" for method in METHODS for unit in ("s", "MiB")))
        sections.append(_report.Section(axis.label.capitalize(), header, rows))
        _report.show(console, sections[-1])
        if len(values[axis.name]) > 1:
            slopes = [
                exponent(values[axis.name], [point[k] for point in own[method]]) for method in METHODS for k in (0, 1)
            ]
            exponents.append((axis.label, *(f"{slope:.2f}" for slope in slopes)))
    header = ("with", *(f"{method}, {what}" for method in METHODS for what in ("time", "memory")))
    sections.insert(0, _report.Section("Exponents", header, exponents))
    notes = [_report.about(__doc__), _report.machine()]
    _report.write(console, given.output / "scaling.md", "Growth", sections, [], notes)
    if any(len(v) > 1 for v in values.values()) and given.axis is None:
        draw(found, values, given.output / "scaling.png")


if __name__ == "__main__":
    main()
