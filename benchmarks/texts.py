"""Sentences of known intents among sentences of others: quality of the labels, and sentences a second. ::

    python benchmarks/texts.py FILE.csv --domains FOLDER  # an hour; writes texts.md in benchmarks/results
    python benchmarks/texts.py --quick                    # some seconds, made-up sentences; into a temporary folder

Six intents are known by a few sentences each; the pile is every other sentence of the file, those of the other intents
and of none ("oos") in their natural share. The default and EOL decide by themselves, EOL is told the share. SimpleShot
and kNN only rank: they get the threshold with the best F1, found with the truth. Precision is the part of the labels
that are right, recall the part of the known sentences that get the right label. Means over the draws, in percent, with
95 % intervals. With --domains, the default's posterior of the share is learned from that folder without CLINC150, which
the sentences are from; what handful ships has seen it. Speed is the median of the turns.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import _report
import numpy as np
from _random_piles import posteriors_without, read_feature_sets
from _report import Section
from _script import Parser
from rich.console import Console
from rich.progress import track

import handful
from handful.backbones import load_backbone
from handful.core.metrics import auroc
from handful.engines.share_posterior import using

SEED = 5
INTENTS = 6  # that are known
OUT_OF_SCOPE = "oos"
SOURCE = "clinc150"  # the feature set of the same sentences
LEARNED_PILES = 200
METHODS = {
    "auto": "default",
    "eol": "EOL, told",
    "simpleshot": "SimpleShot, best threshold",
    "knn": "kNN, best threshold",
}


def sentences_of(path: Path | None) -> tuple[list[str], np.ndarray]:
    """The texts and intents of a file, or some that are made up."""
    if path is None:
        verbs = ("open", "close", "paint", "sell", "buy", "repair", "wash", "lift", "draw", "burn")
        things = ("the door", "a boat", "my house", "the car", "an old bike", "some wood", "the window", "a chair")
        made = [(f"please {verb} {thing}", verb) for verb in verbs for thing in things]
        made += [(f"how far is {place}", OUT_OF_SCOPE) for place in ("Rome", "Oslo", "the moon")]
    else:
        with path.open(encoding="utf-8", newline="") as file:
            made = [(row["text"], row["intent"]) for row in csv.DictReader(file)]
    return [text for text, _ in made], np.array([intent for _, intent in made])


def one_draw(features: np.ndarray, intents: np.ndarray, shots: int, draw: int) -> dict[str, tuple[float, ...]]:
    """The figures of each method: accuracy of knowns, AUROC, precision, recall, F1."""
    rng = np.random.default_rng([SEED, shots, draw])
    names = np.unique(intents[intents != OUT_OF_SCOPE])
    known = np.sort(rng.choice(names, INTENTS, replace=False))
    examples = np.concatenate([rng.choice(np.flatnonzero(intents == name), shots, replace=False) for name in known])
    rest = np.setdiff1d(np.arange(len(intents)), examples)
    truth = np.where(np.isin(intents[rest], known), intents[rest], "")
    is_unknown = truth == ""
    found = {}
    for method, title in METHODS.items():
        told = {"outlier_share": float(is_unknown.mean())} if method == "eol" else {}
        full_name = "simpleshot+knn" if method == "knn" else method
        result = handful.solve(features[examples], intents[examples], features[rest], method=full_name, **told)
        scores = np.asarray(result.outlier_scores)
        right = known[np.asarray(result.probabilities).argmax(axis=1)] == truth
        labelled = (
            ~np.asarray(result.unknown) if method in ("auto", "eol") else best_labelled(scores, right, is_unknown)
        )
        precision = right[labelled].mean() if labelled.any() else 1.0
        recall = (right & labelled).sum() / (~is_unknown).sum()
        area = float(auroc(scores, is_unknown))
        f1 = 2 * precision * recall / max(precision + recall, 1e-9)
        found[title] = (right[~is_unknown].mean(), area, precision, recall, f1)
    return found


def best_labelled(scores: np.ndarray, right: np.ndarray, is_unknown: np.ndarray) -> np.ndarray:
    """The items below the threshold with the best F1 of the labels."""
    order = np.argsort(scores, kind="stable")
    hits = np.cumsum(right[order])
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + (~is_unknown).sum())
    labelled = np.zeros(len(order), bool)
    labelled[order[: int(np.argmax(f1)) + 1]] = True
    return labelled


def quality(features: np.ndarray, intents: np.ndarray, shots: Sequence[int], draws: int) -> list[Section]:
    sections = []
    header = ("method", "accuracy of knowns", "AUROC", "precision of labels", "recall", "F1")
    for count in shots:
        drawn = [one_draw(features, intents, count, draw) for draw in track(range(draws), f"{count} sentences each")]
        rows = []
        for title in METHODS.values():
            values = 100 * np.array([found[title] for found in drawn])
            half = 1.96 * values.std(axis=0, ddof=min(1, draws - 1)) / np.sqrt(draws)
            cells = [f"{mean:.1f} ± {width:.1f}" for mean, width in zip(values.mean(axis=0), half, strict=True)]
            rows.append((title, *cells))
        sections.append(Section(f"{count} sentence{'s' * (count > 1)} of each intent", header, rows))
    return sections


def speed(backbone: Any, texts: list[str], turns: int) -> Section:
    """Sentences a second, the median of some turns."""
    seconds = []
    for _ in range(turns):
        begun = time.perf_counter()
        backbone.embed(texts)
        seconds.append(time.perf_counter() - begun)
    words = sum(len(text.split()) for text in texts) / len(texts)
    rows = [(f"{len(texts):,} sentences of {words:.0f} words", f"{len(texts) / np.median(seconds):,.0f}")]
    return Section("Speed", ("", "sentences a second"), rows)


def main() -> None:
    parser = Parser(__doc__, "an hour")
    parser.add_data("file", "a CSV file with the columns text and intent")
    parser.add_argument("--domains", type=Path, help="feature sets from which the posterior of the share is learned")
    parser.add_size("--draws", 50, 1, "draws of each number of sentences")
    parser.add_size("--shots", [1, 3, 5, 10], [1, 3], "sentences of each known intent")
    parser.add_size("--turns", 5, 1, "turns of the speed")
    given = parser.parse()
    texts, intents = sentences_of(given.file)
    backbone = load_backbone("minilm")
    features = backbone.embed(texts)
    sections = _quality_of(features, intents, given)
    sections.append(speed(backbone, texts, given.turns))
    console = Console()
    for section in sections:
        _report.show(console, section)
    unknown = "the pile has " + ", ".join(
        f"{_pile_of(intents, shots):,} sentences ({_share(intents, shots):.0%} unknown) with {shots}"
        for shots in given.shots
    )
    packages = ("handful", "numpy", "onnxruntime")
    notes = [_report.about(__doc__), f"{given.draws} draws; {unknown}.", _report.machine(packages)]
    _report.write(console, given.output / "texts.md", "Texts", sections, [], notes)


def _quality_of(features: np.ndarray, intents: np.ndarray, given: Any) -> list[Section]:
    learned: Any = nullcontext()
    if given.domains is not None:
        learned = using(posteriors_without(read_feature_sets(given.domains), LEARNED_PILES, 1)[SOURCE])
    with learned:
        return quality(features, intents, given.shots, given.draws)


def _pile_of(intents: np.ndarray, shots: int) -> int:
    return len(intents) - INTENTS * shots


def _share(intents: np.ndarray, shots: int) -> float:
    """The part of the pile that is unknown, on average."""
    counts = np.unique(intents[intents != OUT_OF_SCOPE], return_counts=True)[1]
    return 1 - INTENTS * (counts.mean() - shots) / _pile_of(intents, shots)


if __name__ == "__main__":
    main()
