"""Learning the posterior of the outlier share from random piles of many feature sets.

Every feature set counts alike, however many classes it has. A posterior that is to be judged on a feature set must not
have been learned from it: `leave_one_out` learns one for each source from all others. Feature sets that hold the same
items (two embeddings of the same texts) are one source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from handful.bench.piles import EQUAL_PILES, PileRanges, RandomPile, Source
from handful.core.arrays import class_count
from handful.core.prepare import prepare
from handful.engines.density import densities, kernels
from handful.engines.neighbours import smooth
from handful.engines.posterior import Posterior
from handful.engines.share import MIN_ITEMS, PASSES, PREPARATION
from handful.engines.share_statistics import TRIED_SHARES, columns, measure
from handful.features import FeatureTable

EQUAL_PART = 0.3  # piles of equal classes for each other pile that is learned from


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
        return Posterior.learn(self.columns, self.shares, np.array(TRIED_SHARES))


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


def leave_one_out(shown: Mapping[str, Shown], sources: Mapping[str, str]) -> dict[str, Posterior]:
    """For each feature set, the posterior that was learned from all other sources.

    Parameters
    ----------
    shown : mapping of str to Shown
        By the name of the feature set.
    sources : mapping of str to str
        The source of each feature set; those of one source are left out together.
    """
    learned = {}
    for source in dict.fromkeys(sources.values()):
        others = [part for name, part in shown.items() if sources[name] != source]
        if not others:
            raise ValueError("a posterior that leaves a feature set out needs at least two sources")
        learned[source] = Shown.join(others).learn()
    return {name: learned[sources[name]] for name in shown}
