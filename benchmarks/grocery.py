"""How well photos are labelled: random splits of a folder of classes into known and unknown ones. ::

    python benchmarks/grocery.py FOLDER     # FOLDER/<Class>/*.jpg; a minute; writes benchmarks/results/grocery.md
    python benchmarks/grocery.py --quick    # some seconds, generated pictures; writes into a temporary folder

In each split five classes are known by five photos each; the pile is the rest of those classes and all photos of the
others. Photos go through the default backbone once. "right" is the share of known photos whose likeliest class is
theirs; "labelled right" also asks that they are not called unknown; AUROC is of known against unknown; "share off" is
how far the estimated share of unknowns is from the true one. The default method is told nothing; EOL is told the true
share, or one half, or takes the estimate.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import _report
import numpy as np
from _pictures import write_classes
from _report import Section
from _script import Parser
from rich.console import Console

import handful
from handful.backbones import embed_pictures, find_pictures, load_backbone
from handful.backbones.catalogue import DEFAULT
from handful.core.metrics import accuracy, auroc, mean_and_half_width
from handful.features import FeatureTable

WAYS, SHOTS = 5, 5
FIGURES = ("right", "AUROC", "labelled right", "unknown found", "share off")
LEAST = {"right": 96.5, "AUROC": 97.0}  # of the default, told nothing


def read_photos(folder: Path, backbone: str, console: Console, cache: bool = True, name: str = "") -> FeatureTable:
    paths, skipped = find_pictures(folder)
    with console.status("Reading photos …"):
        start = time.perf_counter()
        found = embed_pictures(paths, load_backbone(backbone), cache=cache)
    took = time.perf_counter() - start
    console.print(
        f"{len(found)} photos in {took:.1f} s ({found.source['cached']} from the cache), {len(skipped)} skipped"
    )
    return FeatureTable(found.features, [Path(path).parent.name for path in found.names], name=name or folder.name)


def split(photos: FeatureTable, seed: int) -> tuple[handful.Task, np.ndarray]:
    """A task, and the column of each query's class, -1 for unknown ones."""
    rng = np.random.default_rng(seed)
    known = np.sort(rng.permutation(photos.classes)[:WAYS])
    examples = np.concatenate([rng.permutation(np.flatnonzero(photos.labels == name))[:SHOTS] for name in known])
    pile = np.setdiff1d(np.arange(len(photos)), examples)
    truth = np.array([np.flatnonzero(known == name)[0] if name in known else -1 for name in photos.labels[pile]])
    task = handful.Task(photos.features[examples], photos.labels[examples], photos.features[pile])
    return task, truth


def generated_photos(backbone: str, console: Console) -> FeatureTable:
    """Ten classes of eight pictures, which are not kept."""
    with tempfile.TemporaryDirectory() as folder:
        return read_photos(write_classes(Path(folder), 10, 8), backbone, console, False, "generated pictures")


def figures(photos: FeatureTable, method: str, told: str | float, splits: int) -> dict[str, np.ndarray]:
    """`told`: "the truth", "auto" or a share."""
    found: dict[str, list[float]] = {name: [] for name in FIGURES}
    for seed in range(splits):
        task, truth = split(photos, seed)
        known = truth >= 0
        result = handful.solve(
            task, method=method, outlier_share=float(np.mean(~known)) if told == "the truth" else told
        )
        guess = result.probabilities.argmax(axis=-1)
        found["right"].append(accuracy(result.probabilities, truth))
        found["AUROC"].append(auroc(result.outlier_scores, ~known))
        found["labelled right"].append(np.mean((guess == truth)[known] & ~result.unknown[known]))
        found["unknown found"].append(np.mean(result.unknown[~known]))
        found["share off"].append(abs(result.outlier_share - np.mean(~known)))
    return {name: 100 * np.array(values) for name, values in found.items()}


def main() -> None:
    parser = Parser(__doc__, "about a minute")
    parser.add_data("folder", "photos, FOLDER/<Class>/*.jpg, at least ten classes")
    parser.add_size("--splits", 20, 2, "random splits into known and unknown classes")
    parser.add_part("--backbone", help="another than the default for pictures")
    given = parser.parse()
    console = Console()
    backbone = given.backbone or DEFAULT
    photos = read_photos(given.folder, backbone, console) if given.folder else generated_photos(backbone, console)
    console.print(repr(photos))
    default, rows = {}, []
    for name, method, told in (
        ("default, told nothing", "auto", "auto"),
        ("default, told the share", "auto", "the truth"),
        ("EOL, told the share", "eol", "the truth"),
        ("EOL, told one half", "eol", 0.5),
        ("EOL, told nothing", "eol", "auto"),
        ("kNN, told the share", "knn", "the truth"),
        ("SimpleShot, told the share", "simpleshot", "the truth"),
    ):
        found = figures(photos, method, told, given.splits)
        default = default or found
        rows.append((name, *("{:.1f} ± {:.1f}".format(*mean_and_half_width(values)) for values in found.values())))
    section = Section(f"{given.splits} splits, percent", ("", *FIGURES), rows)
    _report.show(console, section)
    sentences = []
    for name, least in LEAST.items():
        mean = default[name].mean()
        sentences.append(f"{name}, at least {least:.1f}: {'met' if mean >= least else 'MISSED'} ({mean:.1f}).")
    console.print(*sentences, sep="\n")
    notes = [_report.about(__doc__), f"{photos!r}, by {backbone}."]
    _report.write(console, given.output / "grocery.md", "Photos, labelled", [section], sentences, notes)


if __name__ == "__main__":
    main()
