"""Do the groups of unknowns match the true unknown classes? Adjusted Rand index, beside k-means told their number. ::

    python benchmarks/groups.py FEATURES     # some minutes; writes benchmarks/results/groups.md
    python benchmarks/groups.py --quick      # some seconds, generated features; writes into a temporary folder

5-way 5-shot tasks, 15 queries a class, solved by the default method that is told nothing. The index is over the true
unknowns that were called unknown; an item in no group stands alone. k-means (ten starts) is told the true number of
classes, on the features smoothed as the groups' are, and on plain ones (task mean, L2). Means over tasks with the
half-width of the 95 % interval, times 100; "off" is the number of groups found less that of classes.
"""

from __future__ import annotations

import _report
import numpy as np
from _problem import small_classes
from _report import Section
from _script import Parser
from rich.console import Console
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import handful
from handful.core.metrics import mean_and_half_width
from handful.core.prepare import prepare
from handful.engines import neighbours
from handful.features import FeatureTable, Protocol, draw

SETTINGS = {
    "5 classes of 15": Protocol(),
    "2 classes of 15": Protocol(outlier_ways=2),
    "10 classes of 15": Protocol(outlier_ways=10),
    "5 of unequal size": Protocol(unequal_queries=2.0),
    "5 of 15, 1-shot": Protocol(shots=1),
}


def codes_of(result: handful.Result) -> np.ndarray:
    """The group of each item; those in none have one each."""
    codes = -1 - np.arange(len(result))
    for group in result.groups:
        codes[list(group.items)] = group.number
    return codes


def by_k_means(x: np.ndarray, classes: int) -> np.ndarray:
    return KMeans(min(classes, len(x)), n_init=10, random_state=0).fit_predict(x)


def measure(features: FeatureTable, protocol: Protocol, tasks: int) -> dict[str, np.ndarray]:
    episodes = draw(features.features, features.labels, protocol, seed=0, tasks=tasks)
    batch = handful.solve(episodes.task)
    found: dict[str, list[float]] = {"groups": [], "k-means, smoothed": [], "k-means, plain": [], "off": []}
    for i in range(tasks):
        task, result = episodes.task[i], batch[i]
        truth = features.labels[episodes.query_items[i]]
        scored = np.flatnonzero(result.unknown & episodes.outlier[i])
        classes = len(np.unique(truth[scored]))
        smoothed = prepare(task.support, task.query, ("signed(0.6)", "l2", "task", "l2"))
        y = neighbours.smooth(smoothed.support, smoothed.query).smooth[0, task.support.shape[1] :]
        plain = prepare(task.support, task.query, ("task", "l2")).query[0]
        found["groups"].append(adjusted_rand_score(truth[scored], codes_of(result)[scored]))
        found["k-means, smoothed"].append(adjusted_rand_score(truth[scored], by_k_means(y[scored], classes)))
        found["k-means, plain"].append(adjusted_rand_score(truth[scored], by_k_means(plain[scored], classes)))
        found["off"].append(len(result.groups) - classes)
    return {name: np.array(values) for name, values in found.items()}


def main() -> None:
    parser = Parser(__doc__, "some minutes")
    parser.add_data("features", "a feature set of fifteen classes or more, as tiny_imagenet_test.npz")
    parser.add_size("--tasks", 100, 2, "tasks of each kind")
    given = parser.parse()
    features = parser.feature_set(given.features, small_classes)
    console = Console()
    rows = []
    with console.status("Solving …"):
        for name, protocol in SETTINGS.items():
            found = measure(features, protocol, given.tasks)
            off = found.pop("off")
            cells = ["{:.1f} ± {:.1f}".format(*mean_and_half_width(100 * values)) for values in found.values()]
            rows.append((name, *cells, f"{off.mean():+.1f}", f"{np.abs(off).mean():.1f}"))
    header = ("", "groups", "k-means told, smoothed", "k-means told, plain", "off", "off, absolute")
    section = Section("Adjusted Rand index, times 100", header, rows)
    _report.show(console, section)
    notes = [_report.about(__doc__), f"{features!r}; {given.tasks} tasks of each kind."]
    _report.write(console, given.output / "groups.md", "Groups of unknowns", [section], [], notes)


if __name__ == "__main__":
    main()
