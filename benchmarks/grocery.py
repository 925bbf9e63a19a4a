"""How well photos are labelled: random splits of a folder of classes into known and unknown ones. ::

    python benchmarks/grocery.py FOLDER            # FOLDER/<Class>/*.jpg, at least ten classes

In each split five classes are known by five photos each; the pile is the rest of those classes and all photos of the
others. Photos go through the default backbone once. "right" is the share of known photos whose likeliest class is
theirs; "labelled right" also asks that they are not called unknown; AUROC is of known against unknown. EOL is given
the true share of unknowns, or nothing (its default of one half).
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
LEAST = {"right": 95.0, "AUROC": 93.0}  # of EOL that is told the share


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


def figures(photos: FeatureSet, method: str, told: bool, splits: int) -> dict[str, np.ndarray]:
    found: dict[str, list[float]] = {"right": [], "AUROC": [], "labelled right": [], "unknown found": []}
    for seed in range(splits):
        task, truth = split(photos, seed)
        options = {"outlier_share": float(np.mean(truth < 0))} if told else {}
        result = handful.solve(method, task, **options)
        known = truth >= 0
        guess = result.probabilities.argmax(axis=-1)
        found["right"].append(accuracy(result.probabilities, truth))
        found["AUROC"].append(auroc(result.outlier_scores, ~known))
        found["labelled right"].append(np.mean((guess == truth)[known] & ~result.unknown[known]))
        found["unknown found"].append(np.mean(result.unknown[~known]))
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
    table = Table("", "right", "AUROC", "labelled right", "unknown found", title=f"{arguments.splits} splits, percent")
    told = {}
    for name, method, is_told in (
        ("EOL, told the share", "eol", True),
        ("EOL, default", "eol", False),
        ("kNN", "knn", True),
        ("SimpleShot", "simpleshot", True),
    ):
        found = figures(photos, method, is_told, arguments.splits)
        told = told or found
        cells = ["{:.1f} ± {:.1f}".format(*mean_and_half_width(values)) for values in found.values()]
        table.add_row(name, *cells)
    console.print(table)
    for name, least in LEAST.items():
        mean = told[name].mean()
        console.print(f"{name}, at least {least:.0f}: {'met' if mean >= least else 'MISSED'} ({mean:.1f}).")


if __name__ == "__main__":
    main()
