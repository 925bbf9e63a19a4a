"""Is the false-discovery rate of conformal novelty the one that was promised, and how many unknowns does it find? ::

    python benchmarks/false_discovery.py FOLDER     # five minutes; writes false_discovery.md in benchmarks/results
    python benchmarks/false_discovery.py --quick    # some seconds, generated features; writes into a temporary folder

Of every feature set of a folder with 12 or more classes, a random half of the classes is the base, and tasks of 5 ways
are drawn from the other half; this is done with several halves. Found: the mean over tasks of the part of the items
called unknown that belong to a class, 0 if none is called unknown. Power: the part of the unknown items that are called
unknown. The default method solves the same tasks and calls unknown the largest set of items whose mean of
1 - P(unknown) is at most the promised rate; its posterior of the share was learned on feature sets of this folder too.
A promise is broken if the rate found is above it by more than two standard errors, over tasks. The nonconformity score
and the constants of conformal novelty were chosen on Tiny ImageNet (val), CLINC150, pets and letters.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import _report
import numpy as np
from _problem import small_classes
from _random_piles import NEVER_KNOWN, read_feature_sets
from _report import Section
from _script import Parser
from rich.console import Console
from rich.progress import track

import handful
from handful.features import FeatureTable, Protocol, draw
from handful.training.heads import learn_base

SEED = 11  # of halves and tasks; constants were chosen with other seeds
MIN_CLASSES = 12
WAYS = 5
SHOTS = (1, 5)
QUERIES = {0.2: 12, 0.5: 8, 0.8: 3}  # of each class by the share of unknowns, if the classes have as many items
PROMISED = (0.05, 0.1, 0.2)
METHODS = {"conformal": "Conformal novelty", "auto": "Default, by P(unknown)"}
CHOSEN_ON = ("clinc150", "pets", "letter_tabular")


class Measured(NamedTuple):
    """What was found in one task."""

    domain: str
    method: str
    shots: int
    share: float
    promised: float
    false: float  # part of the items called unknown
    power: float  # part of the unknowns that are called unknown


class Domain(NamedTuple):
    """What is known about a feature set."""

    base_classes: int
    small_p: list[float]  # for each batch of tasks, the part of the known items with p <= 0.1


def usable(table: FeatureTable) -> FeatureTable:
    """The items of classes that may be known, and that have items beside examples."""
    names, counts = np.unique(table.labels, return_counts=True)
    kept = names[(counts > max(SHOTS) + 1) & ~np.isin(names.astype(str), NEVER_KNOWN)]
    return table.take(np.flatnonzero(np.isin(table.labels, kept)))


def by_probability(p_unknown: np.ndarray, rate: float) -> np.ndarray:
    """The largest set of items [B, Q] whose mean of 1 - P(unknown) is at most the rate."""
    order = np.argsort(-p_unknown, axis=1, kind="stable")
    ordered = np.take_along_axis(1 - p_unknown, order, axis=1)
    means = np.cumsum(ordered, axis=1) / np.arange(1, ordered.shape[1] + 1)
    called = np.zeros(p_unknown.shape, bool)
    np.put_along_axis(called, order, means <= rate, axis=1)
    return called


def measure(table: FeatureTable, halves: int, tasks: int, domain: Domain) -> Iterator[Measured]:
    names = np.unique(table.labels)
    for half in range(halves):
        base_names = np.random.default_rng([SEED, half]).permutation(names)[: len(names) // 2]
        is_base = np.isin(table.labels, base_names)
        base = learn_base(table.take(np.flatnonzero(is_base)), heads=("conformal",), negatives=0)
        novel = table.take(np.flatnonzero(~is_base))
        fewest = int(np.unique(novel.labels, return_counts=True)[1].min())
        for shots, (share, most) in product(SHOTS, QUERIES.items()):
            queries = min(most, fewest - shots)
            outliers = round(WAYS * queries * share / (1 - share))
            protocol = Protocol(WAYS, shots, queries, outlier_ways=1, outlier_queries=outliers, broad=True)
            episodes = draw(novel.features, novel.labels, protocol, seed=SEED + half, tasks=tasks)
            usual = handful.solve(episodes.task, base_mean=base.mean)
            for promised in PROMISED:
                found = handful.solve(episodes.task, method="conformal", base=base, fdr=promised)
                called = {"conformal": np.asarray(found.unknown), "auto": by_probability(usual.p_unknown, promised)}
                for method, is_called in called.items():
                    false = (is_called & ~episodes.outlier).sum(axis=1) / np.maximum(1, is_called.sum(axis=1))
                    power = (is_called & episodes.outlier).sum(axis=1) / episodes.outlier.sum(axis=1)
                    for numbers in zip(false, power, strict=True):
                        yield Measured(table.name, method, shots, share, promised, *map(float, numbers))
            domain.small_p.append(float((np.asarray(found.outlier_scores) >= 0.9)[~episodes.outlier].mean()))


def rows_of(records: list[Measured], **wanted: object) -> list[Measured]:
    return [r for r in records if all(getattr(r, name) == value for name, value in wanted.items())]


def mean(records: list[Measured], figure: str) -> float:
    return 100 * float(np.mean([getattr(r, figure) for r in records]))


def is_broken(records: list[Measured]) -> bool:
    """Whether the rate found is above the one promised, of which there is one, by more than two standard errors."""
    false = np.array([r.false for r in records])
    return bool(false.mean() - 2 * false.std() / len(false) ** 0.5 > records[0].promised)


def overview(records: list[Measured]) -> Section:
    """Promised against found, by shots and share of unknowns."""
    rows = []
    for method, shots, share in product(METHODS, SHOTS, QUERIES):
        cells = [rows_of(records, method=method, shots=shots, share=share, promised=p) for p in PROMISED]
        figures = [f"{mean(of, 'false'):.1f} ({mean(of, 'power'):.0f})" for of in cells]
        rows.append((f"{METHODS[method]}, {shots}-shot, {share:.0%} unknown", *figures))
    header = ("", *(f"promised {100 * p:g}" for p in PROMISED))
    return Section("False-discovery rate found, percent (power in brackets)", header, rows)


def by_domain(records: list[Measured], domains: dict[str, Domain]) -> Section:
    """The same for each feature set, over all shots and shares of unknowns."""
    rows = []
    for name, domain in domains.items():
        row = [f"{name}{' *' if name in CHOSEN_ON else ''}", str(domain.base_classes)]
        row.append(f"{100 * np.mean(domain.small_p):.1f}")
        for method, promised in product(METHODS, PROMISED):
            of = rows_of(records, domain=name, method=method, promised=promised)
            figure = f"{mean(of, 'false'):.1f} ({mean(of, 'power'):.0f})"
            row.append(f"**{figure}**" if is_broken(of) else figure)
        rows.append(tuple(row))
    header = ["", "base classes", "knowns with p <= 0.1"]
    header += [f"{name.split(',')[0].split()[0].lower()} {100 * p:g}" for name in METHODS.values() for p in PROMISED]
    return Section("Every feature set: found (power); broken promises are bold", tuple(header), rows)


def sentences(records: list[Measured], domains: dict[str, Domain]) -> list[str]:
    lines = []
    for method, title in METHODS.items():
        every = [rows_of(records, domain=n, method=method, promised=p) for n, p in product(domains, PROMISED)]
        broken = [{of[0].domain for of in every if of[0].promised == p and is_broken(of)} for p in PROMISED]
        counts = ", ".join(f"{len(of)} at {100 * p:g} %" for of, p in zip(broken, PROMISED, strict=True))
        cells = [rows_of(of, shots=s, share=u) for of in every for s, u in product(SHOTS, QUERIES)]
        bad = sum(map(is_broken, cells))
        worst = max(cells, key=lambda of: mean(of, "false") - 100 * of[0].promised)
        first = worst[0]
        lines.append(
            f"{title}: the promise is broken for {counts} of {len(domains)} feature sets, all shots and shares "
            f"together, and in {bad} of {len(cells)} cells (of one feature set, shots, share and promise). The worst "
            f"cell: {first.domain}, {first.shots}-shot, {first.share:.0%} unknown, promised {100 * first.promised:g}, "
            f"found {mean(worst, 'false'):.1f}."
        )
    return lines


def main() -> None:
    parser = Parser(__doc__, "five minutes")
    parser.add_data("folder", "feature sets, as ../shared/data/domains")
    parser.add_size("--halves", 6, 1, "random halves of the classes of each feature set")
    parser.add_size("--tasks", 16, 3, "tasks of each half, number of shots and share of unknowns")
    given = parser.parse()
    console = Console()
    tables = [small_classes(24, 20)]
    if given.folder is not None:
        tables = [usable(table) for table in read_feature_sets(given.folder).values()]
    tables = [table for table in tables if len(table.classes) >= MIN_CLASSES]
    domains = {table.name: Domain(len(table.classes) // 2, []) for table in tables}
    records: list[Measured] = []
    for table in track(tables, "Solving", console=console):
        records += measure(table, given.halves, given.tasks, domains[table.name])
    sections = [overview(records), by_domain(records, domains)]
    for section in sections:
        _report.show(console, section)
    notes = [
        _report.about(__doc__),
        f"{given.halves} halves, {given.tasks} tasks of each kind. `knowns with p <= 0.1` is about 10 where the "
        "classes are like the base classes; above that, the base classes are narrower. Feature sets with * chose the "
        "constants. "
        "`python benchmarks/false_discovery.py ../shared/data/domains`.",
    ]
    path = given.output / "false_discovery.md"
    _report.write(console, path, "False discoveries: promised and found", sections, sentences(records, domains), notes)


if __name__ == "__main__":
    main()
