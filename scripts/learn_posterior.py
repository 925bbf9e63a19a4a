"""Learn the posterior of the outlier share from a folder of feature sets, and say how good it is on those left out. ::

    python scripts/learn_posterior.py FOLDER            # prints the figures, writes nothing
    python scripts/learn_posterior.py FOLDER --write    # also writes src/handful/engines/posterior.json

Every number is learned: nothing is chosen on the feature sets that it is judged on. It takes about six minutes for
eighteen feature sets.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from handful.bench.domains import find_feature_sets
from handful.bench.piles import PileRanges
from handful.bench.posterior import Shown, leave_one_out, piles_to_learn_from
from handful.engines.posterior import SHIPPED
from handful.engines.share import Share
from handful.features import read

RANGES = PileRanges(items=(20, 600))
SEED = 1


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(" ::")[0])
    parser.add_argument("folder", type=Path, help="a folder of feature sets with labels")
    parser.add_argument(
        "--piles",
        type=int,
        default=500,
        help="random piles of each feature set (500); piles of equal classes are added",
    )
    parser.add_argument("--write", action="store_true", help="write the coefficients into the package")
    given = parser.parse_args(arguments)

    shown, shots = {}, {}
    for path in find_feature_sets(given.folder):
        piles = piles_to_learn_from(read(path, warn=False), given.piles, SEED, RANGES)
        shown[path.stem], shots[path.stem] = Shown.of(piles), np.array([pile.shots for pile in piles])
        print(f"{path.stem}: {len(piles)} piles", flush=True)
    origin = {name: name.partition("_")[0] for name in shown}
    errors, covered = {}, {}
    if len(set(origin.values())) > 1:
        for name, posterior in leave_one_out(shown, origin).items():
            share, truth = Share(posterior.above(shown[name].columns)), shown[name].shares
            low, high = share.interval.T
            errors[name], covered[name] = np.abs(share.estimate - truth), (low <= truth) & (truth <= high)
            print(f"{name:24s} error {100 * errors[name].mean():5.1f}  interval {100 * covered[name].mean():4.0f} %")
        e, c, s = (np.concatenate(list(values.values())) for values in (errors, covered, shots))
        for k in np.unique(s):
            print(f"{k} shots: error {100 * e[s == k].mean():.1f}, interval {100 * c[s == k].mean():.0f} %")
        print(f"all: error {100 * e.mean():.1f}, interval {100 * c.mean():.0f} %")
    if given.write:
        count = sum(len(part.shares) for part in shown.values())
        about = {"piles": count, "feature sets": len(shown), "sources": len(set(origin.values()))}
        SHIPPED.write_text(Shown.join(list(shown.values())).learn().as_json(about), "utf-8")
        print(f"wrote {SHIPPED}")


if __name__ == "__main__":
    main()
