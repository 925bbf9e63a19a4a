"""Random piles of the kinds that people have, drawn from a feature set.

A benchmark usually fixes the number of classes, examples and unknowns. Here each pile draws its own: how many classes
are known and how many are not, whether the unknown classes lie near the known ones, how unequal the classes are, how
much of the pile is unknown, and how large it is. Pile i of a seed is the same on any machine.

What is learned from piles is never judged on what it was learned from: `leave_one_out` learns the posterior of the
share of unknowns for each feature set from the piles of all other sources. Feature sets whose names begin alike, up to
the first underscore, are one source: they hold the same items.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from rich.console import Console
from rich.progress import track

from handful.core.arrays import class_count
from handful.core.checks import UNKNOWN
from handful.core.prepare import prepare
from handful.core.task import Task
from handful.engines.density import densities, kernels
from handful.engines.neighbours import smooth
from handful.engines.share import MIN_ITEMS, PASSES, PREPARATION
from handful.engines.share_posterior import Posterior
from handful.engines.share_statistics import TRIED_SHARES, columns, measure
from handful.features import FeatureTable, read

STEPS, SMALL_STEP, RIDGE = 25, 1e-4, 50.0  # of Newton's method; the penalty on squared weights
MIN_CLASS_ITEMS = 4  # of a class that may be known or unknown: some examples, and some items in the pile
MIN_PILE_ITEMS = 8
EQUAL_PART = 0.3  # piles of equal classes for each other pile that a posterior is learned from
SUFFIXES = (".npz", ".parquet", ".safetensors", ".csv")  # of feature sets
NEVER_KNOWN = ("oos", "uncategorised", "BACKGROUND_Google")  # labels of items that belong to no class


@dataclass(frozen=True)
class PileRanges:
    """What piles are drawn from. Each range is (lowest, highest).

    Parameters
    ----------
    ways : tuple of int
        The number of known classes.
    shots : tuple of int
        The possible numbers of examples of a class; a small class may give fewer.
    unknown_ways : tuple of int
        The number of unknown classes; small numbers are as likely as large ones (uniform in the logarithm).
    items : tuple of int
        The number of items in the pile, uniform in the logarithm. A feature set may have fewer to give.
    share : tuple of float
        The share of unknowns.
    no_unknowns : float
        How many of the piles have no unknowns at all.
    near : float
        How many of the piles have those unknown classes that lie nearest to the known ones. Others have random classes.
    known_sizes, unknown_sizes : tuple of float or None
        The possible concentrations of a Dirichlet distribution of the class sizes; None is equal sizes.
    never_known : collection of str
        Labels that are no class of their own, such as "out of scope". They are only ever unknown.
    never_known_part : float
        How many of the piles take unknowns from `never_known`, half of them along with unknown classes.
    """

    ways: tuple[int, int] = (2, 8)
    shots: tuple[int, ...] = (1, 2, 3, 5, 10)
    unknown_ways: tuple[int, int] = (1, 12)
    items: tuple[int, int] = (20, 400)
    share: tuple[float, float] = (0.0, 0.95)
    no_unknowns: float = 0.1
    near: float = 0.4
    known_sizes: tuple[float | None, ...] = (None, 3.0, 1.0)
    unknown_sizes: tuple[float | None, ...] = (None, 2.0, 0.7)
    never_known: Collection[str] = NEVER_KNOWN
    never_known_part: float = 0.3


EQUAL_PILES = PileRanges(  # much as in published benchmarks
    ways=(4, 6), shots=(1, 1, 2, 5, 10), unknown_ways=(3, 8), items=(60, 200), no_unknowns=0.2, near=0.0,
    known_sizes=(None,), unknown_sizes=(None,), never_known_part=0.0,
)  # fmt: skip


@dataclass(frozen=True)
class RandomPile:
    """One task and its truth, with what was drawn."""

    task: Task
    truth: np.ndarray  # [Q] columns of the task's classes, -1 for an unknown item
    support_items: np.ndarray  # [S] rows of the feature set
    query_items: np.ndarray  # [Q]
    ways: int
    shots: int
    unknown_ways: int
    is_near: bool
    has_never_known: bool
    known_sizes: float | None
    unknown_sizes: float | None

    @property
    def share(self) -> float:
        """The true share of unknowns."""
        return float((self.truth == UNKNOWN).mean())

    @property
    def facts(self) -> dict[str, Any]:
        """What kind of pile it is, by name."""
        names = ("ways", "shots", "unknown_ways", "is_near", "has_never_known", "known_sizes", "unknown_sizes")
        return {"items": len(self.truth), "share": self.share} | {name: getattr(self, name) for name in names}


class Source:
    """A feature set that piles are drawn from.

    Parameters
    ----------
    table : FeatureTable
        Features with labels.
    ranges : PileRanges
        What piles are drawn from.

    Raises
    ------
    ValueError
        If fewer than three classes have enough items.
    """

    def __init__(self, table: FeatureTable, ranges: PileRanges | None = None) -> None:
        table = table.labelled()
        self.features, self.ranges, self.name = table.features, ranges or PileRanges(), table.name
        names, codes = np.unique(np.asarray(table.need_labels()).astype(str), return_inverse=True)
        members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        self.members, self.names = members, names
        is_class = np.array([str(name) not in self.ranges.never_known for name in names])
        sizes = np.array([len(rows) for rows in members])
        self.classes = np.flatnonzero(is_class & (sizes >= MIN_CLASS_ITEMS))
        self.never_known = np.flatnonzero(~is_class)
        if len(self.classes) < 3:
            raise ValueError(
                f"{self.name or 'the feature set'} has {len(self.classes)} classes of {MIN_CLASS_ITEMS} or more items: "
                "random piles need at least 3"
            )
        means = np.stack([self.features[rows].mean(axis=0, dtype=np.float64) for rows in members])
        means -= means.mean(axis=0)
        self._directions = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)

    def piles(self, count: int, seed: int = 0) -> Iterator[RandomPile]:
        """Yield so many piles of a seed."""
        for number in range(count):
            yield self.pile(number, seed)

    def pile(self, number: int, seed: int = 0) -> RandomPile:
        """Return one pile of a seed."""
        # The name is part of the seed: otherwise pile 7 would have the same share and shots in every feature set.
        rng, ranges = np.random.default_rng([seed, number, crc32(self.name.encode())]), self.ranges
        most_ways = min(ranges.ways[1], len(self.classes) - 1)
        ways = int(rng.integers(min(ranges.ways[0], most_ways), most_ways + 1))
        known = np.sort(rng.choice(self.classes, ways, replace=False))
        shots = min(int(rng.choice(ranges.shots)), min(len(self.members[k]) for k in known) - 2)
        unknown, is_near, has_never_known = self._unknown_classes(rng, known)
        share = 0.0 if rng.random() < ranges.no_unknowns else rng.uniform(*ranges.share)
        items = int(np.exp(rng.uniform(*np.log(ranges.items))).round())
        concentrations = (_choice(rng, ranges.known_sizes), _choice(rng, ranges.unknown_sizes))

        rows = [rng.permutation(self.members[k]) for k in known]
        support, pools = [r[:shots] for r in rows], [r[shots:] for r in rows]
        unknown_pools = [rng.permutation(self.members[k]) for k in unknown]
        available, unknown_available = _lengths(pools), _lengths(unknown_pools)
        # A pile that asks for more than there is gets smaller, with the same share.
        items = int(min(items, available.sum() / max(1 - share, 1e-3), unknown_available.sum() / max(share, 1e-3)))
        items = max(items, MIN_PILE_ITEMS)
        unknown_items = round(share * items)
        counts = _sizes(rng, items - unknown_items, concentrations[0], available)
        unknown_counts = _sizes(rng, unknown_items, concentrations[1], unknown_available)
        query = [pool[:n] for pool, n in zip(pools + unknown_pools, [*counts, *unknown_counts], strict=True)]
        truth = np.concatenate([np.repeat(np.arange(ways), counts), np.full(unknown_counts.sum(), UNKNOWN)])
        support_items, query_items = np.concatenate(support), np.concatenate(query)
        labels = np.repeat(np.arange(ways), shots)
        task = Task(self.features[support_items], labels, self.features[query_items])
        return RandomPile(
            task, truth, support_items, query_items, ways, shots, int((unknown_counts > 0).sum()), is_near,
            has_never_known, *concentrations,
        )  # fmt: skip

    def _unknown_classes(self, rng: np.random.Generator, known: np.ndarray) -> tuple[np.ndarray, bool, bool]:
        """The classes of the unknown items, whether they are the nearest, and whether they hold `never_known`."""
        ranges, rest = self.ranges, np.setdiff1d(self.classes, known)
        low, high = ranges.unknown_ways
        count = int(np.clip(np.exp(rng.uniform(np.log(low), np.log(high + 1))), 1, len(rest)))
        if rng.random() < ranges.near:
            nearness = (self._directions[rest] @ self._directions[known].T).max(axis=1)
            return rest[np.argsort(-nearness, kind="stable")[:count]], True, False
        classes = rng.choice(rest, count, replace=False)
        if not len(self.never_known) or rng.random() >= ranges.never_known_part:
            return classes, False, False
        return np.concatenate([classes if rng.random() < 0.5 else classes[:0], self.never_known]), False, True


def _choice(rng: np.random.Generator, values: tuple[float | None, ...]) -> float | None:
    return values[int(rng.integers(len(values)))]


def _lengths(rows: list[np.ndarray]) -> np.ndarray:
    return np.array([len(r) for r in rows], int)


def _sizes(rng: np.random.Generator, total: int, concentration: float | None, available: np.ndarray) -> np.ndarray:
    """Divide items among classes by a Dirichlet distribution, as far as each class has them."""
    n = len(available)
    shares = np.full(n, 1 / n) if concentration is None else rng.dirichlet(np.full(n, concentration))
    total = min(total, int(available.sum()))
    counts: np.ndarray = np.minimum(np.floor(shares * total).astype(int), available)
    while (missing := total - int(counts.sum())) > 0:  # to the classes that are furthest below their share
        shortage = np.where(counts < available, shares * total - counts, -np.inf)
        counts[np.argsort(-shortage, kind="stable")[: min(missing, int((counts < available).sum()))]] += 1
    return counts


# The posterior of the share


@dataclass(frozen=True)
class Shown:
    """What piles show of their shares, and the shares.

    Parameters
    ----------
    columns : mapping of str to array [n, G]
        The numbers of each pile.
    shares : array [n]
        The true shares.
    """

    columns: Mapping[str, np.ndarray]
    shares: np.ndarray

    @classmethod
    def of(cls, piles: Sequence[RandomPile]) -> Shown:
        """What these piles show."""
        parts = [_columns(pile) for pile in piles]
        return cls(
            {name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
            np.array([pile.share for pile in piles]),
        )

    @classmethod
    def join(cls, parts: Sequence[Shown]) -> Shown:
        """Several feature sets as one."""
        names = parts[0].columns
        return cls(
            {name: np.concatenate([part.columns[name] for part in parts]) for name in names},
            np.concatenate([part.shares for part in parts]),
        )

    def learn(self) -> Posterior:
        """The posterior that fits these piles."""
        return learn_posterior(self.columns, self.shares, np.array(TRIED_SHARES))


def learn_posterior(columns: Mapping[str, np.ndarray], shares: np.ndarray, tried: np.ndarray) -> Posterior:
    """Fit the logistic model by Newton's method, with a small penalty on the weights.

    columns: the numbers of each pile at each share that was tried, [B, G]; shares: the true ones, [B].
    """
    names = tuple(columns)
    x = np.stack([np.broadcast_to(columns[name], (len(shares), len(tried))) for name in names], axis=-1)
    x = x.reshape(-1, len(names))
    means, scales = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)
    z = np.concatenate([np.ones((len(x), 1)), (x - means) / scales], axis=1)
    truth = (shares[:, None] > tried).astype(float).ravel()
    step_sizes = np.gradient(tried)
    importance = np.tile(step_sizes / step_sizes.mean(), len(shares))  # of a pile alike at every share
    penalty = np.diag([0.0, *[RIDGE] * len(names)])
    w = np.zeros(z.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(z @ w, -30, 30)))
        curvature = importance * np.maximum(p * (1 - p), 1e-4)
        step = np.linalg.solve((z * curvature[:, None]).T @ z + penalty, z.T @ (importance * (truth - p)) - penalty @ w)
        w += step
        if np.abs(step).max() < SMALL_STEP:
            break
    return Posterior(names, float(w[0]), w[1:], means, scales)


def posterior_as_json(posterior: Posterior, about: Mapping[str, Any]) -> str:
    """The model as a document, with a line for each number."""
    each = zip(posterior.names, posterior.weights, posterior.means, posterior.scales, strict=True)
    numbers = {name: [float(f"{value:.6g}") for value in values] for name, *values in each}
    lines = ",\n  ".join(f"{json.dumps(name)}: {json.dumps(values)}" for name, values in numbers.items())
    head = json.dumps({**about, "constant": float(f"{posterior.constant:.6g}")}, indent=1, ensure_ascii=True)
    return head.rstrip("}\n") + f',\n "weight, mean and scale of": {{\n  {lines}\n }}\n}}\n'


def piles_to_learn_from(
    table: FeatureTable, count: int, seed: int, ranges: PileRanges | None = None
) -> list[RandomPile]:
    """Random piles of a feature set, and some more whose classes are of equal size.

    Random piles alone teach caution that a pile with a single example of each class, of equal classes, does not need.
    """
    equal = Source(table, EQUAL_PILES).piles(round(EQUAL_PART * count), seed + 1)
    return [*Source(table, ranges).piles(count, seed), *equal]


def _columns(pile: RandomPile) -> dict[str, np.ndarray]:
    task = pile.task
    prepared = prepare(task.support, task.query, PREPARATION)
    kernel = kernels(smooth(prepared.support, prepared.query), task.labels, class_count(task.labels))
    tried = np.array(TRIED_SHARES, kernel.h.dtype)[None]
    end = densities(kernel, tried, PASSES, min_queries=MIN_ITEMS)
    return columns(measure(kernel, task.labels, end))


def source_of(name: str) -> str:
    """The source of a feature set: its name up to the first underscore."""
    return name.partition("_")[0]


def leave_one_out(shown: Mapping[str, Shown]) -> dict[str, Posterior]:
    """For each feature set, by name, the posterior that was learned from all other sources."""
    learned = {}
    for source in dict.fromkeys(map(source_of, shown)):
        others = [part for name, part in shown.items() if source_of(name) != source]
        if not others:
            raise ValueError("a posterior that leaves a feature set out needs at least two sources")
        learned[source] = Shown.join(others).learn()
    return {name: learned[source_of(name)] for name in shown}


def posteriors_without(
    tables: Mapping[str, FeatureTable], piles: int, seed: int, console: Console | None = None
) -> Mapping[str, Posterior | None]:
    """For each feature set, the posterior that was learned from the others; None, the shipped one, of one source."""
    if len(set(map(source_of, tables))) == 1:
        return dict.fromkeys(tables)
    learning = track(tables.items(), "Learning the share of unknowns", console=console)
    return leave_one_out({name: Shown.of(piles_to_learn_from(table, piles, seed)) for name, table in learning})


def read_feature_sets(folder: Path) -> dict[str, FeatureTable]:
    """The feature sets of a folder, by name. Raises ValueError if there are none."""
    paths = sorted(p for p in folder.iterdir() if p.suffix in SUFFIXES) if folder.is_dir() else []
    if not paths:
        raise ValueError(f"{folder} holds no feature sets: give a folder with {', '.join(SUFFIXES)} files with labels")
    return {path.stem: read(path, warn=False) for path in paths}
