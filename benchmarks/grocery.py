"""How well photos are labelled: random splits of a folder of classes into known and unknown ones. ::

    python benchmarks/grocery.py FOLDER            # FOLDER/<Class>/*.jpg, at least ten classes

In each split five classes are known by five photos each; the pile is the rest of those classes and all photos of the
others. Photos go through the default backbone once. "right" is the share of known photos whose likeliest class is
theirs; "labelled right" also asks that they are not called unknown; AUROC is of known against unknown; "share off" is
how far the estimated share of unknowns is from the true one. The default method is told nothing; EOL is told the true
share, or one half, or takes the estimate.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import handful
from handful.features import FeatureSet
from handful.images import embed_pictures, find_pictures, load_backbone
from handful.metrics import accuracy, auroc, mean_and_half_width

WAYS, SHOTS = 5, 5
LEAST = {"right": 96.5, "AUROC": 97.0}  # of the default, told nothing


def read_photos(folder: Path, backbone: str, console: Console) -> FeatureSet:
    paths, skipped = find_pictures(folder)
    with console.status("Reading photos …"):
        start = time.perf_counter()
        found = embed_pictures(paths, load_backbone(backbone))
    took = time.perf_counter() - start
    console.print(f"{len(found.paths)} photos in {took:.1f} s ({found.cached} from the cache), {len(skipped)} skipped")
    return FeatureSet(found.features, [Path(path).parent.name for path in found.paths], name=folder.name)


def split(photos: FeatureSet, seed: int) -> tuple[handful.Task, np.ndarray]:
    """A task, and the column of each query's class, -1 for unknown ones."""
    rng = np.random.default_rng(seed)
    known = np.sort(rng.permutation(photos.classes)[:WAYS])
    examples = np.concatenate([rng.permutation(np.flatnonzero(photos.labels == name))[:SHOTS] for name in known])
    pile = np.setdiff1d(np.arange(len(photos)), examples)
    truth = np.array([np.flatnonzero(known == name)[0] if name in known else -1 for name in photos.labels[pile]])
    task = handful.Task(photos.features[examples], photos.labels[examples], photos.features[pile])
    return task, truth


def figures(photos: FeatureSet, method: str, told: str | float, splits: int) -> dict[str, np.ndarray]:
    """`told`: "the truth", "auto" or a share."""
    names = ("right", "AUROC", "labelled right", "unknown found", "share off")
    found: dict[str, list[float]] = {name: [] for name in names}
    for seed in range(splits):
        task, truth = split(photos, seed)
        known = truth >= 0
        result = handful.solve(method, task, outlier_share=float(np.mean(~known)) if told == "the truth" else told)
        guess = result.probabilities.argmax(axis=-1)
        found["right"].append(accuracy(result.probabilities, truth))
        found["AUROC"].append(auroc(result.outlier_scores, ~known))
        found["labelled right"].append(np.mean((guess == truth)[known] & ~result.unknown[known]))
        found["unknown found"].append(np.mean(result.unknown[~known]))
        found["share off"].append(abs(result.outlier_share - np.mean(~known)))
    return {name: 100 * np.array(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--backbone", default="efficientnet_lite0")
    arguments = parser.parse_args()
    console = Console()
    photos = read_photos(arguments.folder, arguments.backbone, console)
    console.print(repr(photos))
    table = Table(title=f"{arguments.splits} splits, percent")
    for column in ("", "right", "AUROC", "labelled right", "unknown found", "share off"):
        table.add_column(column)
    default = {}
    for name, method, told in (
        ("default, told nothing", "auto", "auto"),
        ("default, told the share", "auto", "the truth"),
        ("EOL, told the share", "eol", "the truth"),
        ("EOL, told one half", "eol", 0.5),
        ("EOL, told nothing", "eol", "auto"),
        ("kNN, told the share", "knn", "the truth"),
        ("SimpleShot, told the share", "simpleshot", "the truth"),
    ):
        found = figures(photos, method, told, arguments.splits)
        default = default or found
        cells = ["{:.1f} ± {:.1f}".format(*mean_and_half_width(values)) for values in found.values()]
        table.add_row(name, *cells)
    console.print(table)
    for name, least in LEAST.items():
        mean = default[name].mean()
        console.print(f"{name}, at least {least:.1f}: {'met' if mean >= least else 'MISSED'} ({mean:.1f}).")


if __name__ == "__main__":
    main()
