"""Estimators of the share of unknowns, handful's own and those of the literature, on random piles. ::

    python benchmarks/share_estimators.py FOLDER     # ten minutes; writes benchmarks/results/share_estimators.md
    python benchmarks/share_estimators.py --quick    # some seconds, the digits; writes into a temporary folder

In the words of learning from positive and unlabelled items (PU), the examples are the positive sample, the pile is the
unlabelled one, and the share of unknowns is 1 - alpha, where alpha is the class prior. In the words of quantification,
unknown is one more class, of which there is no example.

No library serves here. QuaPy and mlquantify need examples of every class of the pile, and none of them estimates a
prior from positive items alone; QuaPy also brings pandas, matplotlib and downloaders of data sets. So these are
written from the equations. Published ones train a classifier first, and a handful of examples is not enough for that.
Here a score takes its place that is computed in closed form from centred features of length 1::

    cos_ij = cosine of item i to the mean c_j of the examples of class j,    t_i = max_j cos_ij

What known items score is read from the examples, each left out of the mean of its class. An example that is alone in
its class cannot be left out: the items of the pile that are most similar to it stand for it, a quarter of what the
class would have if the pile were divided evenly. What unknown items score is read from the examples too, with their
whole class left out. If there is only one class, the items of the pile stand for its unknowns, each compared with the
mean of the pile.

Every estimator sees the same piles: the features and labels of the examples, and the features of the pile. The
posterior of handful is learned for each feature set from the piles of all other sources; with one source, it is the one
that comes with handful. "Always one half" is what knows nothing. Errors are in points of the share: means over the
piles of a feature set, averaged over feature sets; differences are averaged over sources, with their 95 % interval.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import _report
import numpy as np
from _random_piles import (
    PileRanges,
    RandomPile,
    Shown,
    Source,
    posteriors_without,
    read_feature_sets,
    source_of,
)
from _report import Section
from _script import Parser
from rich.console import Console
from rich.progress import track

from handful.core.arrays import class_count, one_hot, unit
from handful.core.metrics import mean_and_half_width
from handful.core.prepare import prepare
from handful.core.task import Task
from handful.engines.share import of_task, sample
from handful.engines.share_posterior import using
from handful.engines.share_statistics import TRIED_SHARES
from handful.features import FeatureTable, digits

SMALL = 1e-6  # scores that differ by less are equal
NEIGHBOURS = 3  # of a kNN distance
EM_STEPS = 200
SHARES = np.linspace(0.0, 1.0, 101)
LAG = 5  # between the shares of a second difference, in steps of SHARES
MAX_ITEMS = 300  # of a pile, for KM2: its matrices are quadratic
KM2_SHARES = np.array([0.02, 0.03, 0.05, 0.075, *np.linspace(0.1, 1, 19)])
KM2_STEPS = 300
KM2_WIDTHS = (0.25, 0.5, 1.0, 2.0)  # of the kernel, in medians of the distances
KM2_THRESHOLD = 0.2  # where the slope is called large, between that at 1 (0) and the largest possible one (1)


@dataclass(frozen=True)
class Scores:
    """The score t of every item of a task, and what the examples say of it.

    Parameters
    ----------
    cosines : array [Q, N]
        Of each item to each class mean.
    known : array
        What items of known classes score.
    unknown : array
        What items of unknown classes score.
    """

    cosines: np.ndarray
    known: np.ndarray
    unknown: np.ndarray

    @property
    def pile(self) -> np.ndarray:
        """The scores of the pile, [Q]."""
        return np.asarray(self.cosines.max(axis=1))

    @property
    def middle(self) -> float:
        """The score in the middle between known and unknown."""
        return float(self.known.mean() + self.unknown.mean()) / 2

    @classmethod
    def of(cls, support: np.ndarray, labels: np.ndarray, query: np.ndarray) -> Scores:
        """The scores of prepared features [S, D] and [Q, D]."""
        ways = class_count(labels)
        member = one_hot(labels[None], ways, like=support[None])[0]  # [S, N]
        count, sums = member.sum(axis=0), member.T @ support
        cosines = query @ unit(sums).T  # the cosine to a sum is that to the mean
        of_examples = support @ unit(sums).T  # [S, N]
        without_item = (support * unit(sums[labels] - support)).sum(axis=1)
        others = np.where(member > 0, -1.0, of_examples)  # [S, N]; -1 is the lowest cosine
        is_alone = count[labels] < 2
        nearest = np.argsort(-support[is_alone] @ query.T, axis=1)[:, : max(1, len(query) // (4 * ways))]
        left_out = np.maximum(without_item, others.max(axis=1))[~is_alone]
        known = np.concatenate([left_out, cosines.max(axis=1)[nearest.ravel()]])
        unknown = others.max(axis=1) if ways > 1 else query @ unit(query.mean(axis=0))
        return cls(cosines, known, unknown)


def dedpul(support: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
    r"""DEDPUL (Ivanov 2020): differences of estimated densities.

    f_p and f_u are kernel densities of the scores of examples and pile, and r = f_p / f_u is made to rise with the
    score. Items that are surely known have r = 1 / alpha, so ::

        D(alpha) = alpha - mean_i min(alpha r_i, 1)

    is 0 up to the true alpha and then rises. alpha is where its second difference is largest.
    """
    from sklearn.isotonic import isotonic_regression

    scores = Scores.of(support, labels, query)
    t, p = scores.pile, scores.known
    if np.ptp(t) < SMALL:
        return 0.0
    width = 1.06 * t.std() * len(t) ** -0.2
    ratio = _density(t, p, max(width, 1.06 * p.std() * len(p) ** -0.2)) / _density(t, t, width)
    order = np.argsort(t, kind="stable")
    ratio = isotonic_regression(ratio[order])
    ratio /= ratio.mean()  # the mean of f_p / f_u over the pile is 1
    excess = SHARES - np.minimum(SHARES[:, None] * ratio, 1).mean(axis=1)
    bend = excess[2 * LAG :] - 2 * excess[LAG:-LAG] + excess[: -2 * LAG]
    alpha = SHARES[LAG:-LAG][bend.argmax()] if bend.max() > SMALL else 1.0
    return float(1 - alpha)


def km2(support: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
    r"""KM2 (Ramaswamy, Scott, Tewari 2016): embeddings of both samples in the space of a kernel.

    phi(U) and phi(P) are the mean embeddings of pile and examples. Taking the knowns away leaves the unknowns ::

        d(lambda) = min_w | lambda phi(U) - (lambda - 1) phi(P) - sum_i w_i phi(x_i) |,    w >= 0, sum_i w_i = 1

    where lambda = 1 / (1 - alpha) takes away exactly all of them. Until there d is small, then it rises: lambda is
    where its slope is a fifth of the way from the slope at 1 to the largest possible one, |phi(U) - phi(P)|. The kernel
    is Gaussian. Of four widths, that with the largest |phi(U) - phi(P)| is used; it does not use the labels.
    """
    query = query[sample(len(query), MAX_ITEMS)]
    x = np.concatenate([support, query])
    of_pile = np.repeat([0, 1 / len(query)], [len(support), len(query)])
    of_examples = np.repeat([1 / len(support), 0], [len(support), len(query)])
    squares = np.maximum(2 - 2 * x @ x.T, 0)  # rows have length 1
    width = np.median(squares)
    if width < SMALL:
        return 0.0
    kernels = [np.exp(-squares / (2 * width * factor**2)) for factor in KM2_WIDTHS]
    side = of_pile - of_examples
    # Without the diagonal: an item is always similar to itself, which would favour the narrowest kernel.
    kernel = kernels[int(np.argmax([side @ k @ side - side**2 @ np.diag(k) for k in kernels]))]
    gap = max(float(side @ kernel @ side), 0.0) ** 0.5  # rounding may be below 0
    factors = 1 / KM2_SHARES[::-1]  # lambda from 1 up
    target = factors[:, None] * of_pile - (factors - 1)[:, None] * of_examples  # [L, n]
    difference = target - _project(kernel, target)
    d = np.sqrt(np.maximum(((difference @ kernel) * difference).sum(axis=1), 0))
    slopes = np.diff(d) / np.diff(factors)
    limit = slopes[0] + KM2_THRESHOLD * max(gap - slopes[0], 0)
    is_large = slopes > limit
    return float(1 / factors[is_large.argmax()]) if is_large.any() else float(KM2_SHARES[0])


def em(support: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
    r"""MLLS (Saerens, Latinne, Decaestecker 2002) with a class for the unknown: EM over the class shares.

    Scores of knowns and unknowns are taken for Gaussians of one variance v, whose means are delta apart. So the density
    of class j, compared with that of the unknown, is ::

        f_ij = N exp(delta / v (cos_ij - middle)),    pi_j <- mean_i pi_j f_ij / (pi_0 + sum_k pi_k f_ik)

    EM starts with one half unknown and equal classes. The share is pi_0.
    """
    scores = Scores.of(support, labels, query)
    known, unknown = scores.known, scores.unknown
    variance = (known.var() * len(known) + unknown.var() * len(unknown)) / (len(known) + len(unknown))
    slope = max(known.mean() - unknown.mean(), 0.0) / max(variance, 1e-3)
    ways = scores.cosines.shape[1]
    ratio = ways * np.exp(np.clip(slope * (scores.cosines - scores.middle), -30, 30))
    densities = np.concatenate([ratio, np.ones((len(ratio), 1))], axis=1)  # [Q, N + 1]
    share = np.append(np.full(ways, 0.5 / ways), 0.5)
    for _ in range(EM_STEPS):
        joint = share * densities
        share = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
    return float(share[-1])


def bbse(support: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
    r"""BBSE (Lipton, Wang, Smola 2018) with a class for the unknown: counting, corrected by a confusion matrix.

    Items that score below the middle are counted as unknown. The examples say how often this is wrong::

        share = (count(pile) - count(knowns)) / (count(unknowns) - count(knowns)),    within [0, 1]

    Half an example is added on both sides of every count of examples. The known classes are one row of the matrix:
    one to five examples do not show how often one class is taken for another.
    """
    scores = Scores.of(support, labels, query)
    counted = float((scores.pile < scores.middle).mean())
    of_known, of_unknown = (
        float(((x < scores.middle).sum() + 0.5) / (len(x) + 1)) for x in (scores.known, scores.unknown)
    )
    if of_unknown - of_known < 0.05:  # the examples cannot tell
        return counted
    return float(np.clip((counted - of_known) / (of_unknown - of_known), 0, 1))


def otsu(support: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
    r"""kNN distance with the threshold of Otsu (1979).

    The distance is the mean one to the nearest examples (3, or 1 with one example of each class). The threshold
    splits the pile into two parts of sizes w_0 and w_1 and means m_0 and m_1, so that w_0 w_1 (m_0 - m_1)^2 is largest.
    It always finds two parts, also if nothing is unknown.
    """
    k = 1 if len(labels) == class_count(labels) else NEIGHBOURS
    squares = np.maximum(2 - 2 * query @ support.T, 0)
    distances = np.sort(np.sqrt(np.sort(squares, axis=1)[:, :k]).mean(axis=1))
    n = len(distances)
    if np.ptp(distances) < SMALL or n < 2:
        return 0.0
    below = np.arange(1, n)
    sums = np.cumsum(distances)
    gap = sums[:-1] / below - (sums[-1] - sums[:-1]) / (n - below)
    return float(1 - below[(below * (n - below) * gap**2).argmax()] / n)


def mixture(support: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
    r"""Two Gaussians for the scores of the pile, fitted by EM.

    The share is the weight of the Gaussian with the lower mean. EM starts at the means of knowns and unknowns.
    """
    scores = Scores.of(support, labels, query)
    t = scores.pile
    if np.ptp(t) < SMALL:
        return 0.0
    means = np.array([scores.unknown.mean(), scores.known.mean()])
    variances, weights, floor = np.full(2, t.var()), np.full(2, 0.5), max(1e-3 * t.var(), SMALL**2)
    for _ in range(EM_STEPS):
        log_joint = np.log(weights) - (t[:, None] - means) ** 2 / (2 * variances) - np.log(variances) / 2
        p = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        size = np.maximum(p.sum(axis=0), SMALL)
        means = (p * t[:, None]).sum(axis=0) / size
        variances = np.maximum((p * (t[:, None] - means) ** 2).sum(axis=0) / size, floor)
        weights = size / size.sum()
    return float(weights[means.argmin()])


ESTIMATORS: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray, np.ndarray], float]]] = {
    "dedpul": ("DEDPUL", dedpul),
    "km2": ("KM2", km2),
    "em": ("EM with a novel class", em),
    "bbse": ("BBSE with a novel class", bbse),
    "otsu": ("kNN distance, Otsu", otsu),
    "mixture": ("Two Gaussians", mixture),
}


def estimate(name: str, task: Task) -> float:
    """The share of unknowns of one task by one of `ESTIMATORS`, from 0 to 1."""
    prepared = prepare(task.support, task.query, ("task", "l2"))
    support, query = (x[0].astype(np.float64) for x in (prepared.support, prepared.query))
    return min(max(ESTIMATORS[name][1](support, task.labels[0], query), 0.0), 1.0)


def _density(at: np.ndarray, points: np.ndarray, width: float) -> np.ndarray:
    """A density of `points` by Gaussian kernels, up to a factor that is the same for every `width`."""
    z = (at[:, None] - points) / width
    return np.asarray(np.exp(-np.minimum(z * z, 60) / 2).mean(axis=1) / width)


def _project(kernel: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The weights [L, n] on the simplex nearest to each target in the space of the kernel, by FISTA."""
    step = 1 / np.linalg.eigvalsh(kernel)[-1]
    weights = _on_simplex(target)
    ahead, momentum = weights, 1.0
    for _ in range(KM2_STEPS):
        moved = _on_simplex(ahead - step * (ahead - target) @ kernel)
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = moved + (momentum - 1) / following * (moved - weights)
        weights, momentum = moved, following
    return weights


def _on_simplex(rows: np.ndarray) -> np.ndarray:
    """Each row's nearest point with entries from 0 that sum to 1."""
    descending = -np.sort(-rows, axis=1)
    excess = (np.cumsum(descending, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    count = (descending > excess).sum(axis=1, keepdims=True)
    return np.maximum(rows - np.take_along_axis(excess, count - 1, axis=1), 0)


# The comparison

POSTERIOR, FIRST, HALF = "posterior", "first", "half"
OWN = {POSTERIOR: "handful: posterior", FIRST: "handful: first estimate"}
ROWS = OWN | {name: title for name, (title, _) in ESTIMATORS.items()} | {HALF: "Always one half"}
CLOSE = 10.0  # points
GROUPS: dict[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {  # what sorts the groups, and their names
    "Examples of a class": ("shots", lambda f: "1" if f["shots"] == 1 else "2, 3" if f["shots"] <= 3 else "4 and more"),
    "Share of unknowns": ("share", lambda f: (
        "none" if not f["share"] else "to 20 %" if f["share"] <= 0.2 else "to 50 %" if f["share"] <= 0.5
        else "to 80 %" if f["share"] <= 0.8 else "over 80 %"
    )),
    "Items": ("items", lambda f: "to 60" if f["items"] <= 60 else "to 150" if f["items"] <= 150 else "over 150"),
}  # fmt: skip


def estimate_by(name: str, pile: RandomPile) -> float:
    """The estimate of one row of the table."""
    if name in ESTIMATORS:
        return estimate(name, pile.task)
    if name == POSTERIOR:
        return float(of_task(pile.task.support, pile.task.labels, pile.task.query).estimate[0])
    if name == HALF:
        return 0.5
    return float(Shown.of([pile]).columns["first estimate - g"][0, 0]) + TRIED_SHARES[0]


def records_of(name: str, table: FeatureTable, piles: int, ranges: PileRanges | None = None) -> list[dict[str, Any]]:
    """The error of every estimator on every pile of a feature set, in points."""
    records = []
    for number, pile in enumerate(Source(table, ranges).piles(piles)):
        for row in ROWS:
            share = estimate_by(row, pile)
            own = {"estimate": 100 * share, "error": 100 * (share - pile.share)}
            records.append({"domain": name, "pile": number, "estimator": row, **own, **pile.facts})
    return records


@dataclass(frozen=True)
class Errors:
    """The errors of every estimator on every pile, by feature set."""

    records: list[dict[str, Any]]

    @property
    def domains(self) -> list[str]:
        return list(dict.fromkeys(record["domain"] for record in self.records))

    def of(self, estimator: str, keep: Callable[[Mapping[str, Any]], bool]) -> np.ndarray:
        return np.array([r["error"] for r in self.records if r["estimator"] == estimator and keep(r)], float)

    def by_domain(self, estimator: str, figure: Callable[[np.ndarray], float]) -> dict[str, float]:
        """A figure of the errors of each feature set."""
        return {name: figure(self.of(estimator, lambda r, name=name: r["domain"] == name)) for name in self.domains}

    def lag(self, estimator: str) -> tuple[float, float]:
        """By how much its absolute error is larger than that of the posterior: mean and half-width over sources."""
        own, other = (self.by_domain(name, absolute) for name in (estimator, POSTERIOR))
        sources: dict[str, list[float]] = {}
        for name in self.domains:
            sources.setdefault(source_of(name), []).append(own[name] - other[name])
        mean, half_width = mean_and_half_width([float(np.mean(values)) for values in sources.values()])
        return float(mean), float(half_width)

    def sections(self) -> list[Section]:
        """The overview, the mean absolute error by kinds of piles, and that of every feature set."""
        rows = []
        for name, title in ROWS.items():
            error, bias = self.by_domain(name, absolute), self.by_domain(name, lambda e: float(e.mean()))
            close = self.by_domain(name, lambda e: 100 * float((np.abs(e) <= CLOSE).mean()))
            worst = max(error, key=lambda domain: error[domain])
            lag = "" if name == POSTERIOR else "{:+.1f} ± {:.1f}".format(*self.lag(name))
            means = [float(np.mean([*values.values()])) for values in (error, bias, close)]
            numbers = (f"{means[0]:.1f}", f"{means[1]:+.1f}", f"{means[2]:.1f}")
            rows.append((title, *numbers, lag, f"{worst} ({error[worst]:.1f})"))
        head = ("Estimator", "Mean absolute error", "Bias", f"Within {CLOSE:.0f} points, %", "Behind the posterior")
        found = [Section("Overview", (*head, "Worst feature set"), rows)]
        for title, (number, group) in GROUPS.items():
            piles = sorted((r for r in self.records if r["estimator"] == HALF), key=lambda r: r[number])
            names = list(dict.fromkeys(map(group, piles)))
            kept = [lambda r, group=group, name=name: group(r) == name for name in names]
            cells = [(ROWS[e], *(f"{absolute(self.of(e, keep)):.1f}" for keep in kept)) for e in ROWS]
            found.append(Section(title, ("", *names), cells))
        columns = [self.by_domain(name, absolute) for name in ROWS]
        cells = [(domain, *(f"{column[domain]:.1f}" for column in columns)) for domain in self.domains]
        return [*found, Section("Every feature set", ("", *ROWS.values()), cells)]


def absolute(errors: np.ndarray) -> float:
    return float(np.abs(errors).mean())


def main() -> None:
    parser = Parser(__doc__, "ten minutes")
    parser.add_data("folder", "a folder of feature sets with labels")
    parser.add_size("--piles", 30, 3, "random piles of each feature set")
    parser.add_size("--learn", 200, 4, "piles of each feature set that posteriors are learned from")
    given = parser.parse()
    console = Console()
    tables = {"digits": FeatureTable(*digits(), name="digits")}
    if given.folder is not None:
        tables = read_feature_sets(given.folder)
    posteriors = posteriors_without(tables, given.learn, 1, console)
    records: list[dict[str, Any]] = []
    for name, table in track(tables.items(), "Estimating", console=console):
        with using(posteriors[name]):
            records += records_of(name, table, given.piles)
    sections = Errors(records).sections()
    for section in sections:
        _report.show(console, section)
    (given.output / "share_estimators.json").write_text(json.dumps(records), "utf-8")
    size = f"{given.piles} piles of each of {len(tables)} feature sets. {_report.machine()}"
    path = given.output / "share_estimators.md"
    _report.write(console, path, "Estimators of the share of unknowns", sections, [], [_report.about(__doc__), size])


if __name__ == "__main__":
    main()
