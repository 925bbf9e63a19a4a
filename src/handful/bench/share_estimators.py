"""Estimators of the share of unknowns, compared on random piles: handful's own and those of the literature.

Every estimator sees the same piles: the features and labels of the examples, and the features of the pile. One row
always says one half; an estimator that is no better than this has learned nothing. The posterior of handful is learned:
for each feature set from the piles of all other sources, as in `handful.bench.domains`. With one source alone, the
posterior that comes with handful is used.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from handful.bench.domains import GROUPS
from handful.bench.estimators import ESTIMATORS, estimate
from handful.bench.piles import PileRanges, RandomPile, Source
from handful.bench.posterior import Shown, leave_one_out, piles_to_learn_from
from handful.core.metrics import mean_and_half_width
from handful.engines.posterior import Posterior, using
from handful.engines.share import of_task
from handful.engines.share_statistics import TRIED_SHARES
from handful.features import FeatureTable
from handful.utils.files import write_whole

POSTERIOR, FIRST, HALF = "posterior", "first", "half"
OWN_TITLES = {POSTERIOR: "handful: posterior", FIRST: "handful: first estimate"}
TITLES = OWN_TITLES | {name: title for name, (title, _) in ESTIMATORS.items()} | {HALF: "Always one half"}
LEARNING_PILES = 200  # of each feature set, for the posteriors
GROUPED = {"Examples of a class": "shots", "Share of unknowns": "share", "Items": "items"}  # and what sorts the groups
CLOSE = 10.0  # points


@dataclass(frozen=True)
class EstimatorResults:
    """What every estimator said of every pile.

    Parameters
    ----------
    records : list of dict
        For each pile and estimator: domain, pile, estimator, estimate and error in points, and what kind of pile it is.
    piles : int
        Piles of each feature set.
    is_learned : bool
        Whether the posterior was learned from the other sources; False: it is the one that comes with handful.
    """

    records: list[dict[str, Any]]
    piles: int
    is_learned: bool

    @property
    def estimators(self) -> list[str]:
        """The rows of the tables."""
        return list(dict.fromkeys(record["estimator"] for record in self.records))

    @property
    def domains(self) -> list[str]:
        """The feature sets."""
        return list(dict.fromkeys(record["domain"] for record in self.records))

    def errors(
        self, estimator: str, group: Callable[[Mapping[str, Any]], str] | None = None, name: str = ""
    ) -> np.ndarray:
        """The errors of an estimator in points, on all piles or on those of one group."""
        wanted = [r for r in self.records if r["estimator"] == estimator and (group is None or group(r) == name)]
        return np.array([r["error"] for r in wanted], float)

    def by_domain(self, estimator: str, figure: Callable[[np.ndarray], float]) -> dict[str, float]:
        """A figure of the errors of each feature set."""
        return {name: figure(self.errors(estimator, itemgetter("domain"), name)) for name in self.domains}

    def lag(self, estimator: str) -> tuple[float, float]:
        """By how much its absolute error is larger than that of the first row, and half the 95 % interval over sources.

        Feature sets of one source are one value. The half-width is NaN with one source.
        """
        own, other = (self.by_domain(name, _absolute) for name in (estimator, self.estimators[0]))
        sources: dict[str, list[float]] = {}
        for name in self.domains:
            sources.setdefault(source_of(name), []).append(own[name] - other[name])
        mean, half_width = mean_and_half_width([float(np.mean(values)) for values in sources.values()])
        return float(mean), float(half_width)

    def markdown(self, command: str) -> str:
        """All tables as text."""
        learned = (
            "The posterior was learned from the other sources."
            if self.is_learned
            else "The posterior is the one that comes with handful."
        )
        lines = [
            "# Estimators of the share of unknowns", "", f"    {command}", "",
            f"{self.piles} random piles of each of {len(self.domains)} feature sets. Errors are in points of the "
            "share: the mean over the piles of a feature set, averaged over the feature sets. Differences are averaged "
            f"over sources, with half of their 95 % interval after ±. {learned}", "",
            *self._overview(), "",
        ]  # fmt: skip
        for title in GROUPED:
            lines += [f"## {title}", "", *self._groups(title), ""]
        if len(self.domains) > 1:
            lines += ["## Every feature set", "", "Mean absolute error.", "", *self._every(), ""]
        return "\n".join(lines)

    def summary(self) -> list[str]:
        """The error and bias in a line for each estimator."""
        return [f"{row[0]}: mean absolute error {row[1]}, bias {row[2]}" for row in self._rows()]

    def _rows(self) -> list[list[str]]:
        rows = []
        for name in self.estimators:
            absolute, bias = self.by_domain(name, _absolute), self.by_domain(name, lambda e: float(e.mean()))
            close = self.by_domain(name, lambda e: 100 * float((np.abs(e) <= CLOSE).mean()))
            worst = max(absolute, key=lambda domain: absolute[domain])
            means = [_mean(absolute), f"{float(_mean(bias)):+.1f}", _mean(close)]
            lag, half_width = self.lag(name)
            text = "" if name == self.estimators[0] else f"{lag:+.1f} ± {half_width:.1f}"
            rows.append([TITLES[name], *means, text, f"{worst} ({absolute[worst]:.1f})"])
        return rows

    def _overview(self) -> list[str]:
        head = ["Estimator", "Mean absolute error", "Bias", f"Within {CLOSE:.0f} points, %"]
        head += ["Error minus that of the first row", "Worst feature set"]
        columns = len(head) if len({source_of(name) for name in self.domains}) > 1 else len(head) - 2
        return _table(head[:columns], [row[:columns] for row in self._rows()])

    def _groups(self, title: str) -> list[str]:
        group = GROUPS[title]
        first = self.records[:: len(self.estimators)]  # one record of each pile
        piles = [group(r) for r in sorted(first, key=lambda r: r[GROUPED[title]])]
        names = list(dict.fromkeys(piles))
        rows = [
            [TITLES[e], *[f"{_absolute(self.errors(e, group, name)):.1f}" for name in names]] for e in self.estimators
        ]
        return _table(["", *[f"{name} ({piles.count(name)} piles)" for name in names]], rows)

    def _every(self) -> list[str]:
        columns = [self.by_domain(name, _absolute) for name in self.estimators]
        rows = [[domain, *[f"{column[domain]:.1f}" for column in columns]] for domain in self.domains]
        return _table(["Feature set", *[TITLES[name] for name in self.estimators]], rows)

    def write(self, folder: Path, command: str) -> dict[str, Path]:
        """Write the tables and every record; return the files."""
        folder.mkdir(parents=True, exist_ok=True)
        files = {kind: folder / f"share-estimators.{kind}" for kind in ("md", "csv", "json")}
        write_whole(files["md"], self.markdown(command).encode())
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self.records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records)
        write_whole(files["csv"], text.getvalue().encode())
        write_whole(files["json"], (json.dumps({"command": command, "records": self.records}) + "\n").encode())
        return files


def source_of(name: str) -> str:
    """The source of a feature set: its name up to the first underscore.

    >>> source_of("leaves99_shape")
    'leaves99'
    """
    return name.partition("_")[0]


def parse_estimators(names: str | Iterable[str] | None = None) -> list[str]:
    """Return the names of "dedpul, em", or all of them.

    >>> parse_estimators("em, posterior")
    ['em', 'posterior']
    """
    if names is None:
        return list(TITLES)
    listed = [n.strip() for n in (names.split(",") if isinstance(names, str) else names)]
    wrong = [name for name in listed if name not in TITLES]
    if wrong or not any(listed):
        raise ValueError(f"there is no estimator {wrong[0]!r}: there are {', '.join(TITLES)}")
    return list(dict.fromkeys(listed))


def run(
    tables: Mapping[str, FeatureTable],
    estimators: Sequence[str] = tuple(TITLES),
    *,
    piles: int = 150,
    seed: int = 0,
    ranges: PileRanges | None = None,
    learning_piles: int = LEARNING_PILES,
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> EstimatorResults:
    """Estimate the share of random piles of every feature set with every estimator.

    Parameters
    ----------
    tables : mapping of str to FeatureTable
        Features with labels, by name. Names that begin alike, up to the first underscore, are one source.
    estimators : sequence of str
        Names of `TITLES`.
    piles : int
        Piles of each feature set.
    seed : int
        The seed of the piles. Posteriors are learned from piles of the next seed.
    ranges : PileRanges, optional
        What piles are drawn from. Posteriors are always learned from random piles of all kinds.
    learning_piles : int
        Piles of each feature set that posteriors are learned from.
    progress : callable
        Called with what is done, the number of finished piles and of all piles.

    Returns
    -------
    EstimatorResults
        The errors of every estimator on every pile.

    Examples
    --------
    >>> from handful.features import digits
    >>> results = run({"digits": FeatureTable(*digits(), name="digits")}, ["otsu", "em"], piles=3)
    >>> len(results.records)
    6
    """
    sources = {name: Source(table, ranges) for name, table in tables.items()}
    origin = {name: source_of(name) for name in sources}
    is_learned = POSTERIOR in estimators and len(set(origin.values())) > 1
    posteriors: dict[str, Posterior | None] = dict.fromkeys(sources)
    if is_learned:
        shown: dict[str, Shown] = {}
        for name, table in tables.items():
            shown[name] = Shown.of(piles_to_learn_from(table, learning_piles, seed + 1))
            progress("learning", learning_piles * len(shown), learning_piles * len(sources))
        posteriors = {**leave_one_out(shown, origin)}
    records: list[dict[str, Any]] = []
    for name, source in sources.items():
        with using(posteriors[name]):
            for number, pile in enumerate(source.piles(piles, seed)):
                for estimator in estimators:
                    share = estimate(estimator, pile.task) if estimator in ESTIMATORS else _own(estimator, pile)
                    values = {"estimate": 100 * share, "error": 100 * (share - pile.share)}
                    records.append({"domain": name, "pile": number, "estimator": estimator, **values, **pile.facts})
                progress("estimating", len(records) // len(estimators), piles * len(sources))
    return EstimatorResults(records, piles, is_learned)


def _own(name: str, pile: RandomPile) -> float:
    """The first estimate of handful, the median of its posterior, or one half."""
    if name == POSTERIOR:
        return float(of_task(pile.task.support, pile.task.labels, pile.task.query).estimate[0])
    if name == HALF:
        return 0.5
    return float(Shown.of([pile]).columns["first estimate - g"][0, 0]) + TRIED_SHARES[0]


def _absolute(errors: np.ndarray) -> float:
    return float(np.abs(errors).mean())


def _mean(by_domain: Mapping[str, float]) -> str:
    return f"{np.mean(list(by_domain.values())):.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]
