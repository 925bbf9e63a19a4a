"""The statements of the paper, each tested on the user's features by differences over the same tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from handful.bench.runner import Results
from handful.bench.settings import FIGURES, GRID, best_b
from handful.bench.tables import TITLES, plain, values
from handful.core.metrics import mean_and_half_width

WORDS = {True: "holds", False: "does not hold", None: "open"}
TRANSDUCTIVE = ("FSL-T", "OSFSL-T")


@dataclass(frozen=True)
class Comparison:
    """The difference of two results on the same tasks, which supports or contradicts a statement."""

    what: str
    difference: float  # of the means, in percent points: above 0 supports the statement
    half_width: float  # of the 95 % interval

    @property
    def holds(self) -> bool | None:
        """Whether the comparison holds; None if the interval contains zero."""
        if self.difference - self.half_width > 0:
            return True
        return False if self.difference + self.half_width < 0 else None

    def __str__(self) -> str:
        return f"{self.what}: {self.difference:+.1f} ± {self.half_width:.1f}"


@dataclass(frozen=True)
class Verdict:
    """A statement of the paper with the comparisons that test it."""

    statement: str
    comparisons: list[Comparison]
    remark: str = ""
    observed: bool | None = None  # the verdict of a statement that has no comparisons

    @property
    def holds(self) -> bool | None:
        """Whether all comparisons support the statement; None if one is undecided and none contradicts it."""
        verdicts = [c.holds for c in self.comparisons] + ([self.observed] if not self.comparisons else [])
        if False in verdicts:
            return False
        return None if None in verdicts else True

    @property
    def word(self) -> str:
        """The verdict as text, such as "does not hold (7 of 12 comparisons hold, 3 are open)"."""
        if not self.comparisons or self.holds:
            return WORDS[self.holds]
        verdicts = [c.holds for c in self.comparisons]
        counts_text = f"{verdicts.count(True)} of {len(verdicts)} comparisons hold, {verdicts.count(None)} are open"
        return f"{WORDS[self.holds]} ({counts_text})"

    @property
    def narrowest(self) -> Comparison | None:
        """The comparison that supports the statement least, by its difference in half-widths."""
        return min(self.comparisons, key=lambda c: c.difference / max(c.half_width, 1e-12), default=None)

    def record(self) -> dict[str, Any]:
        """Return the statement with its comparisons as plain data for JSON."""
        comparisons = [
            {"what": c.what, "difference": plain(c.difference), "half_width_95": plain(c.half_width), "holds": c.holds}
            for c in self.comparisons
        ]
        return {"statement": self.statement, "holds": self.holds, "remark": self.remark, "comparisons": comparisons}


def check(balanced: Results, imbalanced: Results, sweep: Results, ablation: Results) -> list[Verdict]:
    """Return the verdicts on all statements, from the results of the four benchmarks."""
    column, contenders = balanced.benchmark.columns[0], balanced.benchmark.contenders
    kinds = {row: c.kind for row, c in contenders.items()}
    eol, knn = ([row for row, c in contenders.items() if c.method == name] for name in ("eol", "knn"))
    others = [row for row in contenders if row not in eol]
    detectors = [row for row, kind in kinds.items() if kind == "OOD" and row not in knn]
    open_set = [row for row, kind in kinds.items() if kind == "OSFSL-T"]
    inductive = [row for row, kind in kinds.items() if kind in ("OOD", "FSL", "OSFSL")]
    best = "EOL is best on all four figures"
    return [
        _above(f"{best}, balanced", balanced, column, eol, others),
        _above(f"{best}, averaged over the three ratios", imbalanced, None, eol, others),
        *_sweep(sweep),
        *_ablation(ablation),
        # Not accuracy: all detectors take their classes from SimpleShot
        _above("kNN is the best of the plain detectors", balanced, column, knn, detectors, FIGURES[1:]),
        _above("Transductive open-set methods are above inductive ones", balanced, column, open_set, inductive),
        *_imbalance(balanced, imbalanced),
    ]


def to_markdown(verdicts: Iterable[Verdict], results: Results, command: str | None = None) -> str:
    """Return the verdicts as a Markdown page."""
    n = results.seeds * results.tasks
    base = f", base mean of {results.base}" if results.base else ", task mean"
    lines = ["# The paper's claims, tested", ""]
    lines += [f"    {command}", ""] if command else []
    lines += [f"On {results.features}{base}; {n:,} tasks of each kind. Differences in percent points ± the half-width"]
    lines += ["of their 95 % interval, on the same tasks.", ""]
    for v in verdicts:
        lines += [f"## {v.statement}: **{v.word}**", ""]
        lines += [v.remark, ""] if v.remark else []
        lines += [f"- {c} ({WORDS[c.holds]})" for c in v.comparisons]
        lines += [""] if v.comparisons else []
    return "\n".join(lines)


# The statements


def _above(
    statement: str,
    results: Results,
    column: str | None,
    rows: Sequence[str],
    others: Sequence[str],
    figures: Sequence[str] = FIGURES,
) -> Verdict:
    """Compare, for each figure, the weakest of some rows with the best of others."""
    comparisons = []
    for figure in figures if rows and others else ():
        level = {row: values(results, column, row, figure) for row in (*rows, *others)}
        low, high = min(rows, key=lambda r: level[r].mean()), max(others, key=lambda r: level[r].mean())
        comparisons.append(_compare(f"{TITLES[figure]}, {low} over {high}", level[low] - level[high]))
    return Verdict(statement, comparisons, "" if comparisons else _ABSENT)


def _sweep(sweep: Results) -> list[Verdict]:
    columns = sweep.benchmark.columns
    best = {
        f: [max(GRID, key=lambda b: values(sweep, column, f"EOL (b={b})", f).mean()) for column in columns]
        for f in FIGURES
    }
    expected = [best_b(share) for share in (0.2, 0.5, 0.8)]
    words = [f"{TITLES[f]}: b = {', '.join(map(str, best_values))}" for f, best_values in best.items()]
    remark = f"Best b at {', '.join(columns)} outliers. " + "; ".join(words) + "."
    rises = all(of == sorted(of) and of[0] < of[-1] for of in best.values())
    near = all(np.allclose(of, expected, rtol=0, atol=0.149) for of in best.values())
    return [
        Verdict("The best b rises with the outlier share", [], remark, observed=rises),
        Verdict("The best b is about 0.3, 0.5 and 0.7 at 20, 50 and 80 % outliers", [], remark, observed=near),
    ]


def _ablation(ablation: Results) -> list[Verdict]:
    columns, both = ablation.benchmark.columns, "eta, delta"

    def over(a: str, b: str) -> list[Comparison]:
        return [
            _compare(f"{TITLES[f]} at {column} outliers", ablation[column, a][f] - ablation[column, b][f])
            for column in columns
            for f in FIGURES
        ]

    return [
        Verdict("eta with delta beats eta alone", over(both, "eta")),
        Verdict("eta with delta beats delta alone", over(both, "delta")),
        Verdict("delta matters more than eta", over("delta", "eta")),
    ]


def _imbalance(balanced: Results, imbalanced: Results) -> list[Verdict]:
    """Compare what methods lose from balanced tasks to the mean of the three ratios."""
    column, contenders = balanced.benchmark.columns[0], balanced.benchmark.contenders

    def loss(rows: Sequence[str], figure: str) -> np.ndarray:
        losses = [balanced[column, row][figure] - values(imbalanced, None, row, figure) for row in rows]
        mean: np.ndarray = np.mean(losses, axis=0)
        return mean

    transductive = [r for r, c in contenders.items() if c.kind in TRANSDUCTIVE]
    inductive = [r for r, c in contenders.items() if c.kind not in TRANSDUCTIVE]
    losses = [
        _compare(f"loss of {TITLES[f]}, transductive over the others", loss(transductive, f) - loss(inductive, f))
        for f in (FIGURES if transductive and inductive else ())
    ]
    lost = Verdict("Transductive methods lose most under imbalance", losses, "" if losses else _ABSENT)

    robust = [row for row, c in contenders.items() if c.method == "laplacianshot"]
    overall = {row: np.mean([np.abs(loss([row], f).mean()) for f in FIGURES]) for row in contenders}
    ranked = sorted(overall, key=lambda row: overall[row])
    remark = "Mean absolute change over the four figures: " + ", ".join(f"{r} {overall[r]:.1f}" for r in ranked) + "."
    is_first = bool(robust) and ranked[0] == robust[0]
    first = Verdict("LaplacianShot is the most robust to imbalance", [], remark, is_first if robust else None)
    return [lost, first]


_ABSENT = "The methods of this statement were not run."


def _compare(what: str, difference: np.ndarray) -> Comparison:
    mean, half = mean_and_half_width(difference)
    return Comparison(what, float(mean), float(half))
