"""Learn the posterior of the share of unknowns from a folder of feature sets, and judge it on those left out. ::

    python benchmarks/learn_posterior.py FOLDER     # six minutes; writes learn_posterior.md and share_posterior.json
    python benchmarks/learn_posterior.py --quick    # some seconds, two halves of the digits; into a temporary folder

Every number is learned: nothing is chosen on the feature sets that it is judged on. The first opinion of the default
method takes this posterior; `learn_verdict.py` learns what comes after it. share_posterior.json goes into
handful/engines.
"""

from __future__ import annotations

import _report
import numpy as np
from _random_piles import (
    PileRanges,
    Shown,
    leave_one_out,
    piles_to_learn_from,
    posterior_as_json,
    read_feature_sets,
    source_of,
)
from _report import Section
from _script import Parser
from rich.console import Console
from rich.progress import track

from handful.engines.share import Share
from handful.features import FeatureTable, digits

RANGES = PileRanges(items=(20, 600))
SEED = 1


def halves_of_digits() -> dict[str, FeatureTable]:
    """Two sources, so that one can be left out."""
    features, labels = digits()
    return {
        name: FeatureTable(features[rows], labels[rows].astype(str), name=name)
        for name, rows in (("low", labels < 5), ("high", labels > 4))
    }


def main() -> None:
    parser = Parser(__doc__, "six minutes")
    parser.add_data("folder", "a folder of feature sets with labels, of two sources or more")
    parser.add_size("--piles", 500, 8, "random piles of each feature set; piles of equal classes are added")
    given = parser.parse()
    console = Console()
    tables = halves_of_digits() if given.folder is None else read_feature_sets(given.folder)
    shown, shots = {}, {}
    for name, table in track(tables.items(), "Drawing piles", console=console):
        piles = piles_to_learn_from(table, given.piles, SEED, RANGES)
        shown[name], shots[name] = Shown.of(piles), np.array([pile.shots for pile in piles])
    errors, covered = {}, {}
    for name, posterior in leave_one_out(shown).items():
        share, truth = Share(posterior.above(shown[name].columns)), shown[name].shares
        low, high = share.interval.T
        errors[name], covered[name] = 100 * np.abs(share.estimate - truth), 100 * ((low <= truth) & (truth <= high))
    e, c, s = (np.concatenate([values[name] for name in errors]) for values in (errors, covered, shots))
    rows = [(name, f"{errors[name].mean():.1f}", f"{covered[name].mean():.0f}") for name in errors]
    rows += [(f"{k} examples of a class", f"{e[s == k].mean():.1f}", f"{c[s == k].mean():.0f}") for k in np.unique(s)]
    rows.append(("all", f"{e.mean():.1f}", f"{c.mean():.0f}"))
    section = Section("Judged without its source", ("", "error in points", "interval holds, %"), rows)
    _report.show(console, section)
    about = {"piles": len(e), "feature sets": len(shown), "sources": len(set(map(source_of, shown)))}
    weights = given.output / "share_posterior.json"
    weights.write_text(posterior_as_json(Shown.join(list(shown.values())).learn(), about), "utf-8")
    notes = [_report.about(__doc__), f"{len(e)} piles. {_report.machine()}"]
    _report.write(console, given.output / "learn_posterior.md", "The posterior of the share", [section], [], notes)
    console.print(f"The weights: {weights}", soft_wrap=True)


if __name__ == "__main__":
    main()
