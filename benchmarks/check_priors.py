"""How wrong are a method's probabilities? The constants of `handful.solving.possible_piles`, by their evidence. ::

    python benchmarks/check_priors.py FOLDER     # ten minutes; writes check_priors.md in benchmarks/results
    python benchmarks/check_priors.py --quick    # some seconds, generated features; writes into a temporary folder

Random piles as in `check.py`, of another seed. Of each pile, the answers to 60 items are known. Of the constants that
are tried, one after the other, those are best that give these answers the highest mean log probability (the evidence),
averaged over the feature sets of all sources but one. The constants in use were then made wider by hand, so that
intervals hold the truth in the worst feature set too: the rows "in use" say what that costs in evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import _report
import check
import numpy as np
from _random_piles import posteriors_without, source_of
from _report import Section
from _script import Parser
from rich.console import Console
from rich.progress import track

from handful.core.checks import UNKNOWN
from handful.solving.check import draw_sample
from handful.solving.possible_piles import RIGHT_PRIOR, UNKNOWN_PRIOR, Beliefs, Prior, Recalibration

SEED = 3
ANSWERS = 60  # of a pile
ROUNDS = 2  # over the constants
TRIED = {
    "slope": (0.8, 1.0, 1.3, 1.6, 2.0, 2.5),
    "slope_sd": (0.3, 0.5, 0.7, 0.9),
    "shift_scale": (0.5, 0.7, 1.0, 1.4, 1.8),
    "label_sd": (0.7, 1.0, 1.4, 1.8),
    "shift_df": (2.0, 4.0, 30.0),
}
IN_USE = {"unknown": UNKNOWN_PRIOR, "right, if known": RIGHT_PRIOR}

Seen = tuple[np.ndarray, np.ndarray, np.ndarray, int]  # log odds, labels and answers of items; the number of labels


def what_is_seen(pile: check.Pile) -> dict[str, Seen]:
    """The answers to some items of a pile, for both probabilities."""
    rows = draw_sample(pile.result, ANSWERS)
    some, truth = Beliefs.of(pile.result).take(rows), pile.truth[rows]
    is_unknown = truth == UNKNOWN
    known = np.flatnonzero((some.group < some.classes) & ~is_unknown)
    is_right = pile.result.labels[rows] == truth
    return {
        "unknown": (some.unknown_odds, some.group, is_unknown, some.classes + 1),
        "right, if known": (some.right_odds[known], some.group[known], is_right[known], some.classes + 1),
    }


def evidence(prior: Prior, seen: list[Seen]) -> float:
    """The mean log probability of the answers of a pile."""
    fits = (Recalibration.before(prior, count).updated(odds, groups, yes) for odds, groups, yes, count in seen)
    return float(np.mean([fit.log_evidence for fit in fits]))


def climb(start: Prior, score: Callable[[Prior], float]) -> Prior:
    """Change one constant after the other to the best of those that are tried."""
    best = start
    for _ in range(ROUNDS):
        for name, values in TRIED.items():
            best = max((replace(best, **{name: value}) for value in values), key=score)
    return best


def main() -> None:
    parser = Parser(__doc__, "ten minutes")
    parser.add_data("folder", "a folder of feature sets with labels")
    parser.add_size("--piles", 30, 3, "piles of each feature set")
    given = parser.parse()
    console = Console()
    tables = check.tables_of(given.folder)
    posteriors = posteriors_without(tables, min(check.LEARNED_PILES, 5 * given.piles), 1)
    seen = {
        name: [what_is_seen(pile) for pile in piles]
        for name, piles in check.solve(tables, posteriors, given.piles, "auto", SEED)
    }
    sources = {name: source_of(name) for name in tables}
    rows: list[tuple[str, ...]] = []
    for event, in_use in IN_USE.items():
        found: dict[tuple[str, Prior], float] = {}

        def of_set(name: str, prior: Prior, event: str = event, found: dict[tuple[str, Prior], float] = found) -> float:
            if (name, prior) not in found:
                found[name, prior] = evidence(prior, [pile[event] for pile in seen[name]])
            return found[name, prior]

        def row(title: str, prior: Prior, names: list[str], event: str = event) -> tuple[str, ...]:
            mean = np.mean([of_set(name, prior) for name in names])
            return f"{event}: {title}", *(f"{getattr(prior, name):g}" for name in TRIED), f"{mean:.3f}"

        best = climb(in_use, lambda prior: float(np.mean([of_set(name, prior) for name in tables])))
        for source in track(dict.fromkeys(sources.values()), f"Leaving a source out, {event}"):
            others = [name for name in tables if sources[name] != source]
            prior = climb(best, lambda prior, others=others: float(np.mean([of_set(name, prior) for name in others])))
            rows.append(row(f"without {source}", prior, others))
        rows += [row("all", best, [*tables]), row("in use", in_use, [*tables])]
    section = Section("Constants of the highest evidence", ("", *TRIED, "evidence"), rows)
    _report.show(console, section)
    note = " ".join(_report.about(__doc__).split())
    _report.write(console, given.output / "check_priors.md", "How wrong probabilities are", [section], [], [note])


if __name__ == "__main__":
    main()
