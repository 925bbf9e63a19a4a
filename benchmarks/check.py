"""Do the intervals of a check hold the truth, and how wide are they beside those of a plain random sample? ::

    python benchmarks/check.py FOLDER     # half an hour; writes check.md in benchmarks/results
    python benchmarks/check.py --quick    # some seconds, generated features; writes into a temporary folder

Random piles of every feature set of a folder, solved by the default method, with a posterior of the share that was
learned from the other sources. Half of the piles have 20 to 400 items, half 200 to 800. A simulated person answers what
`draw_sample` asks, and `check_answers` infers the precision of the labels and the share of unknowns. Piles with fewer
items than twice the answers are left out. The plain sample has as many items, drawn at random from all; its interval is
Wilson's, with a correction for the size of the pile. "Only right or wrong" is a person who never names a class (a tenth
of the checks); kNN has a fifth of piles and checks. The constants were chosen on other piles (seed 0) of the same
feature sets, with all of them in sight. After a first run on these piles, one constant that made intervals wider was
left out, and two faults that it showed were mended (labels that are only wrong, scores that only rank).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _report
import numpy as np
from _problem import gaussian_classes
from _random_piles import PileRanges, Source, posteriors_without, read_feature_sets
from _report import Section
from _script import Parser
from rich.console import Console
from rich.progress import track

import handful
from handful.core.checks import UNKNOWN
from handful.engines.share_posterior import Posterior, using
from handful.features import FeatureTable
from handful.solving.check import WRONG, check_answers, draw_sample

SEED = 7  # of the piles; the constants were chosen on piles of seed 0
Z = 1.6449  # of a 90 % interval
LARGE = PileRanges(items=(200, 800))
LEARNED_PILES = 150  # of each feature set, for the posterior of the share
METHODS = {"auto": "default", "knn": "kNN, which only ranks"}
TARGET = (0.88, 0.95)


@dataclass(frozen=True)
class Pile:
    """A solved pile and the truth about it."""

    result: handful.Result
    truth: np.ndarray  # [Q] class codes, -1 for unknown items

    @property
    def facts(self) -> dict[str, float]:
        labels, is_unknown = self.result.labels, self.truth == UNKNOWN
        has_label = labels != UNKNOWN
        count = max(int(has_label.sum()), 1)
        right = (labels == self.truth)[has_label].sum() if has_label.any() else count
        return {
            "precision": right / count,
            "share": is_unknown.mean(),
            "missed": is_unknown[has_label].sum() / count,
        }


def tables_of(folder: Path | None) -> dict[str, FeatureTable]:
    if folder is None:
        return {
            f"made{k}": gaussian_classes(20, 60, 32, noise).replace(name=f"made{k}") for k, noise in ((1, 1.5), (2, 3))
        }
    return read_feature_sets(folder)


def solve(
    tables: dict[str, FeatureTable],
    posteriors: Mapping[str, Posterior | None],
    count: int,
    method: str,
    seed: int = SEED,
) -> Iterator[tuple[str, list[Pile]]]:
    """The solved piles of each feature set."""
    for name, table in track(tables.items(), f"Solving and checking, {method}"):
        piles = [*Source(table).piles(count - count // 2, seed), *Source(table, LARGE).piles(count // 2, seed)]
        with using(posteriors[name]):
            yield name, [Pile(handful.solve(p.task, method=method, threads=1), p.truth) for p in piles]


def plain_interval(hits: int, count: int, items: int) -> tuple[float, float]:
    """Wilson's interval of a part, of a sample of `count` from `items` without replacement."""
    if not count:
        return 0.0, 1.0
    z, part = Z * np.sqrt(max(1 - count / items, 0)), hits / count
    centre = (part + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(part * (1 - part) / count + z**2 / (4 * count**2))
    return max(centre - half, 0.0), min(centre + half, 1.0)


def one_check(pile: Pile, answers: int, seed: int, only_wrong: bool = False) -> dict[str, float]:
    """Whether each interval holds the truth, and how wide it is."""
    labels, truth, facts = pile.result.labels, pile.truth, pile.facts
    rows = draw_sample(pile.result, answers, seed=seed)
    said: dict[int, Any] = {int(row): truth[row] for row in rows}
    if only_wrong:
        said = {row: label if label == labels[row] else WRONG for row, label in said.items()}
    checked = check_answers(pile.result, said)
    figures = {}
    for name, fact in facts.items():
        value, low, high = getattr(checked, name)
        figures |= {
            f"{name} held": low - 1e-9 <= fact <= high + 1e-9,
            f"{name} width": high - low,
            f"{name} error": abs(value - fact),
        }
    sample = np.random.default_rng([seed, answers]).choice(len(truth), answers, replace=False)
    asked = sample[labels[sample] != UNKNOWN]
    plain = {
        "precision": plain_interval(int((labels == truth)[asked].sum()), len(asked), max((labels != UNKNOWN).sum(), 1)),
        "share": plain_interval(int((truth[sample] == UNKNOWN).sum()), answers, len(truth)),
    }
    for name, (low, high) in plain.items():
        figures |= {f"plain {name} held": low <= facts[name] <= high, f"plain {name} width": high - low}
    return figures


def simulate(piles: list[Pile], answers: int, checks: int, only_wrong: bool = False) -> dict[str, float] | None:
    """The means over checks of piles that are large enough; None if there are none."""
    large = [pile for pile in piles if len(pile.truth) >= 2 * answers]
    if not large:
        return None
    figures = [one_check(large[k % len(large)], answers, k, only_wrong) for k in range(checks)]
    return {"piles": len(large)} | {name: float(np.mean([f[name] for f in figures])) for name in figures[0]}


def text_of(found: dict[str, float], name: str) -> tuple[str, ...]:
    narrower = 1 - found[f"{name} width"] / found[f"plain {name} width"]
    return (
        f"{100 * found[f'{name} held']:.1f}",
        f"{100 * found[f'{name} width']:.1f}",
        f"{100 * found[f'plain {name} held']:.1f}",
        f"{100 * found[f'plain {name} width']:.1f}",
        f"{100 * narrower:.0f}",
    )


HEADER = ("held", "width", "plain held", "plain width", "narrower by")


def total_rows(found: dict[str, dict[int, dict[str, float]]], kind: str, answers: list[int]) -> list[tuple[str, ...]]:
    rows = []
    for count in answers:
        every = {name: of[count] for name, of in found.items() if count in of}
        if not every:
            continue
        for figure in ("precision", "share"):
            mean = {key: float(np.mean([f[key] for f in every.values()])) for key in next(iter(every.values()))}
            held = {name: f[f"{figure} held"] for name, f in every.items()}
            low, high = min(held, key=lambda n: held[n]), max(held, key=lambda n: held[n])
            within = sum(TARGET[0] <= value <= TARGET[1] for value in held.values())
            rows.append(
                (
                    f"{figure}, {count} answers{kind}", *text_of(mean, figure),
                    f"{100 * held[low]:.1f} ({low})", f"{100 * held[high]:.1f} ({high})", f"{within} of {len(held)}",
                )
            )  # fmt: skip
    return rows


def main() -> None:
    parser = Parser(__doc__, "half an hour")
    parser.add_data("folder", "a folder of feature sets with labels")
    parser.add_size("--piles", 100, 4, "piles of each feature set")
    parser.add_size("--checks", 500, 6, "checks of each feature set and number of answers")
    parser.add_size("--answers", [10, 30, 100], [10, 30], "answers of a check")
    given = parser.parse()
    console = Console()
    tables = tables_of(given.folder)
    posteriors = posteriors_without(tables, min(LEARNED_PILES, 5 * given.piles), 1)
    totals: list[tuple[str, ...]] = []
    sections = []
    for method, title in METHODS.items():
        found: dict[str, dict[int, dict[str, float]]] = {}
        wrong: dict[str, dict[int, dict[str, float]]] = {}
        part = 1 if method == "auto" else 5  # fewer piles and checks where less depends on them
        for name, piles in solve(tables, posteriors, max(given.piles // part, 2), method):
            for answers in given.answers:
                if (figures := simulate(piles, answers, max(given.checks // part, 2))) is not None:
                    found.setdefault(name, {})[answers] = figures
                if (
                    method == "auto"
                    and (figures := simulate(piles, answers, max(given.checks // 10, 2), only_wrong=True)) is not None
                ):
                    wrong.setdefault(name, {})[answers] = figures
        totals += total_rows(found, "" if method == "auto" else f", {title}", given.answers)
        if method == "auto":
            totals += total_rows(wrong, ", only right or wrong", given.answers)
            for answers in given.answers:
                rows = [
                    (name, f"{of[answers]['piles']:.0f}", *text_of(of[answers], "precision")[:4],
                     *text_of(of[answers], "share")[:4], f"{100 * of[answers]['missed held']:.1f}")
                    for name, of in found.items() if answers in of
                ]  # fmt: skip
                head = ("", "piles", *(f"{figure}: {h}" for figure in ("precision", "share") for h in HEADER[:4]))
                sections.append(Section(f"{answers} answers, by feature set", (*head, "missed: held"), rows))
    head = ("", *HEADER, "fewest held", "most held", "within 88 to 95")
    every = [Section("All feature sets, percent", head, totals), *sections]
    _report.show(console, every[0])
    note = (
        f"{len(tables)} feature sets, {given.piles} piles and {given.checks} checks of each and of each number of "
        f"answers. {' '.join(_report.about(__doc__).split())}"
    )
    _report.write(console, given.output / "check.md", "What a check says, and how sure it is", every, [], [note])


if __name__ == "__main__":
    main()
