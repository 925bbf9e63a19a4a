"""What a few answers from a person are worth: examples of no class, and questions that `ask` chooses. ::

    python benchmarks/answers.py FOLDER    # a quarter of an hour; writes answers.md in benchmarks/results
    python benchmarks/answers.py --quick   # some seconds, generated features; writes into a temporary folder

Random piles of every feature set of a folder, with a posterior of the share that was learned from the other sources. A
figure is a mean over the piles of a feature set, and these over the feature sets. Gains compare with the same method
without the answers, on the items that nobody was asked about. "Worst" are the unknown items that the method labels most
confidently. With --pictures, look-alikes are pairs of classes of that feature set whose means are most similar: one is
known, and five pictures of the other, those that look most like the first, are given as examples of no class.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import _report
import numpy as np
from _random_piles import RandomPile, Source, posteriors_without
from _report import Section
from _script import Parser
from check import tables_of
from rich.console import Console

import handful
from handful.core.arrays import unit
from handful.core.checks import UNKNOWN
from handful.core.metrics import figures, label_precision
from handful.engines.share_posterior import Posterior, using
from handful.features import FeatureTable, read
from handful.solving.ask import belief

SEED = 11  # of the piles: nothing was chosen on it
LEARNED_PILES = 200  # of each feature set, for the posterior of the share
METHODS = {"auto": "default", "eol": "EOL", "oslo": "OSLO", "simpleshot+knn": "SimpleShot + kNN"}
COUNTS = (3, 5, 10)  # examples of no class
MIN_KNOWN_ITEMS, MIN_UNKNOWN_ITEMS = 6, 6  # that are left in a pile to measure on
STOPS = (5, 10, 20, 40)  # answers
MIN_ITEMS = 90  # of a pile with questions
FIGURES = ("auroc", "accuracy", "precision")
STRATEGIES = ("ask", "random", "least sure")
LOOKALIKES = 6  # pairs of classes
DRAWS = 5  # of a pair
MARKED = 5  # pictures of a look-alike that are given as examples of no class


def piles_of(table: FeatureTable, count: int, min_unknown: int, min_items: int) -> Iterator[RandomPile]:
    """So many piles that are large enough, of at most 40 times as many."""
    made, source = 0, Source(table)
    for pile in source.piles(40 * count, SEED):
        unknown = int((pile.truth == UNKNOWN).sum())
        if unknown >= min_unknown and len(pile.truth) - unknown >= MIN_KNOWN_ITEMS and len(pile.truth) >= min_items:
            made += 1
            yield pile
        if made == count:
            return


def answered(pile: RandomPile, rows: np.ndarray) -> tuple[handful.Task, np.ndarray]:
    """The task after answers about these items, and the rows that are left in the pile."""
    task, truth = pile.task, pile.truth
    known, unknown = rows[truth[rows] != UNKNOWN], rows[truth[rows] == UNKNOWN]
    rest = np.setdiff1d(np.arange(len(truth)), rows)
    support = np.concatenate([task.support[0], task.query[0][known]])
    labels = np.concatenate([task.labels[0], truth[known]])
    return handful.Task(support, labels, task.query[0][rest], unknown=task.query[0][unknown]), rest


def measured(result: handful.Result, rows: Any, truth: np.ndarray) -> np.ndarray:
    """The figures of some items, in percent."""
    p, scores, unknown = (np.asarray(x)[rows] for x in (result.probabilities, result.outlier_scores, result.unknown))
    found = figures(p, scores, truth)
    return 100 * np.array([float(found["auroc"]), float(found["accuracy"]), float(label_precision(p, unknown, truth))])


def gains_of(pile: RandomPile, seed: int) -> dict[tuple[str, str], np.ndarray]:
    """What examples of no class change, by method and by what was given."""
    rng, truth = np.random.default_rng([SEED, seed]), pile.truth
    is_unknown = np.flatnonzero(truth == UNKNOWN)
    shuffled = rng.permutation(is_unknown)
    gains = {}
    for method in METHODS:
        solve = partial(handful.solve, method=method, threads=1)
        first = solve(pile.task)
        worst = is_unknown[np.argsort(np.asarray(first.outlier_scores)[is_unknown], kind="stable")]
        chosen = {f"{n} random": shuffled[:n] for n in COUNTS} | {f"{n} worst": worst[:n] for n in COUNTS}
        if method == "auto":
            chosen |= {"5 by ask": first.ask(5), "5 random items": rng.permutation(len(truth))[:5]}
        for name, rows in chosen.items():
            task, rest = answered(pile, rows)
            before = measured(first, rest, truth[rest])
            gains[method, name] = np.stack([before, measured(solve(task), slice(None), truth[rest]) - before])
    return gains


def accuracy_of(pile: RandomPile, seed: int) -> dict[str, np.ndarray]:
    """Accuracy over the classes and unknown after answers, of the whole pile and of the rest, by strategy."""
    first, accuracies = handful.solve(pile.task, threads=1), {}
    for strategy in STRATEGIES:
        rng, result = np.random.default_rng([SEED, seed]), first
        rows, rest, found = np.arange(0), np.arange(len(pile.truth)), []
        for stop in (0, *STOPS):
            if stop:
                new = stop - len(rows)
                if strategy == "ask":
                    places = result.ask(new)
                elif strategy == "random":
                    places = rng.permutation(len(rest))[:new]
                else:
                    places = np.argsort(belief(result).max(axis=1), kind="stable")[:new]
                rows = np.concatenate([rows, rest[places]])
                task, rest = answered(pile, rows)
                result = handful.solve(task, threads=1)
            right = result.labels == pile.truth[rest]
            found.append((100 * (right.sum() + len(rows)) / len(pile.truth), 100 * right.mean()))
        accuracies[strategy] = np.array(found)
    return accuracies


def of_table(name: str, table: FeatureTable, posterior: Posterior, gain_piles: int, ask_piles: int) -> Any:
    with using(posterior):
        gains = [gains_of(p, k) for k, p in enumerate(piles_of(table, gain_piles, MIN_UNKNOWN_ITEMS + max(COUNTS), 0))]
        asked = [accuracy_of(p, k) for k, p in enumerate(piles_of(table, ask_piles, 0, MIN_ITEMS))]
    means = {key: np.nanmean([g[key] for g in gains], axis=0) for key in gains[0]} if gains else {}
    return name, means, {key: np.mean([a[key] for a in asked], axis=0) for key in asked[0]} if asked else {}


def lookalikes(table: FeatureTable) -> list[tuple[str, ...]]:
    """Of each pair of look-alikes: how many of the second are called unknown, and what it costs the first."""
    features, labels = np.asarray(table.features, np.float32), np.array(table.label_names)
    names = np.unique(labels)
    centred = unit(features - features.mean(axis=0))
    means = unit(np.stack([centred[labels == name].mean(axis=0) for name in names]))
    cosines = means @ means.T
    order = np.argsort(-(cosines - 2 * np.eye(len(names))), axis=None)[:LOOKALIKES]
    rows = []
    for known, other in zip(*np.unravel_index(order, cosines.shape), strict=True):
        found = []
        for draw in range(DRAWS):
            rng = np.random.default_rng([SEED, draw])
            rest = rng.permutation([k for k in range(len(names)) if k not in (known, other)])
            items = [rng.permutation(np.flatnonzero(labels == name)) for name in names]
            classes, unknown = [known, *rest[:2]], [other, *rest[2:5]]
            support = np.concatenate([items[k][:5] for k in classes])
            pile = np.concatenate([*(items[k][5:] for k in classes), *(items[k] for k in unknown)])
            found.append(_lookalike(features, labels, support, pile, str(names[known]), str(names[other])))
        rows.append((str(names[known]), str(names[other]), *(f"{100 * x:.0f}" for x in np.mean(found, axis=0))))
    return rows


def _lookalike(
    features: np.ndarray, labels: np.ndarray, support: np.ndarray, pile: np.ndarray, known: str, other: str
) -> tuple[float, ...]:
    first = handful.solve(features[support], labels[support], features[pile])
    is_other = labels[pile] == other
    most_alike = np.flatnonzero(is_other)[np.argsort(np.asarray(first.outlier_scores)[is_other])][:MARKED]
    rest = np.setdiff1d(np.arange(len(pile)), most_alike)
    marked = features[pile[most_alike]]
    second = handful.solve(features[support], labels[support], features[pile[rest]], unknown=marked)
    of_other, of_known = is_other[rest], labels[pile[rest]] == known
    return (
        float((first.labels[rest][of_other] == known).mean()),
        float((first.labels[rest][of_other] == "unknown").mean()),
        float((second.labels[of_other] == "unknown").mean()),
        float((first.labels[rest][of_known] == known).mean()),
        float((second.labels[of_known] == known).mean()),
    )


def gain_rows(gains: dict[str, dict[tuple[str, str], np.ndarray]]) -> list[tuple[str, ...]]:
    rows = []
    for method, name in next(iter(gains.values())):
        every = {domain: found[method, name] for domain, found in gains.items()}
        before, gain = np.mean(list(every.values()), axis=0)
        by_domain = {domain: found[1][0] for domain, found in every.items()}
        worst = min(by_domain, key=lambda domain: by_domain[domain])
        fell = sum(value < 0 for value in by_domain.values())
        changes = [f"{x:.1f} {y:+.1f}" for x, y in zip(before, gain, strict=True)]
        rows.append((METHODS[method], name, *changes, f"{by_domain[worst]:+.1f} ({worst})", f"{fell} of {len(every)}"))
    return rows


def main() -> None:
    parser = Parser(__doc__, "a quarter of an hour")
    parser.add_data("folder", "a folder of feature sets with labels")
    parser.add_argument("--pictures", type=Path, help="a feature set of pictures, for the look-alikes")
    parser.add_size("--piles", 20, 2, "piles of each feature set, with examples of no class")
    parser.add_size("--asked-piles", 10, 1, "piles of each feature set, with questions")
    given = parser.parse()
    tables = tables_of(given.folder)
    posteriors = posteriors_without(tables, min(LEARNED_PILES, 10 * given.piles), 1)
    gains, asked = {}, {}
    with ProcessPoolExecutor(2) as pool:
        work = [
            pool.submit(of_table, name, table, posteriors[name], given.piles, given.asked_piles)
            for name, table in tables.items()
        ]
        for future in work:
            name, means, accuracies = future.result()
            gains |= {name: means} if means else {}
            asked |= {name: accuracies} if accuracies else {}
            print(f"{name}: finished", flush=True)
    header = ("method", "given", "AUROC", "accuracy of knowns", "precision of labels", "worst AUROC", "AUROC falls in")
    sections = [
        Section("Examples of no class: before, and what they change", header, gain_rows(gains)),
        *_asked_sections(asked),
    ]
    if given.pictures is not None:
        head = ("known", "look-alike", "look-alike as known", "unknown before", "after", "known right before", "after")
        sections.append(Section("Look-alikes, percent", head, lookalikes(read(given.pictures, warn=False))))
    console = Console()
    for section in sections:
        _report.show(console, section)
    notes = [
        _report.about(__doc__),
        f"{len(gains)} feature sets, {given.piles} piles each with examples of no class and {given.asked_piles} of "
        f'{MIN_ITEMS} items or more with questions. "5 by ask" and "5 random items" are answers about items that may '
        f"also be of a known class. Look-alikes: {DRAWS} piles of each pair.",
        _report.machine(),
    ]
    _report.write(console, given.output / "answers.md", "What answers are worth", sections, [], notes)


def _asked_sections(asked: dict[str, dict[str, np.ndarray]]) -> list[Section]:
    sections = []
    for place, what in enumerate(("the whole pile, answers included", "the items without an answer")):
        rows = []
        for strategy in STRATEGIES:
            values = np.array([found[strategy][:, place] for found in asked.values()])  # [domains, stops]
            texts = [f"{value:.1f}" for value in values.mean(axis=0)]
            random = np.array([found["random"][:, place] for found in asked.values()])
            above = (values > random).sum(axis=0)
            rows.append((strategy, *texts, ", ".join(map(str, above[1:])) if strategy != "random" else ""))
        header = ("chosen by", *(f"{stop} answers" for stop in (0, *STOPS)), f"above random, of {len(asked)}")
        sections.append(Section(f"Accuracy over the classes and unknown, of {what}", header, rows))
    return sections


if __name__ == "__main__":
    main()
