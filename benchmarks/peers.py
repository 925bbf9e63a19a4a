"""handful beside what people use otherwise: PyOD, scikit-learn's detectors, label spreading, a linear probe. ::

    python benchmarks/peers.py FOLDER     # ten minutes of one core; writes peers.md and peers.png in benchmarks/results
    python benchmarks/peers.py --quick    # a minute, scikit-learn's digits; writes into a temporary folder

All methods solve the same random piles of every feature set of FOLDER: 3 to 8 known classes, 1 to 12 unknown classes
(in 40 % of the piles those nearest to the known ones), 60 to 200 items, classes of equal or unequal size. handful gets
the raw features; the posterior of the share that its default uses was learned on the other sources. All others get
features that are centred on the mean of examples and pile and divided by their norm. Balanced accuracy and macro F1 are
over the classes and "unknown" (of those that occur in the pile). Accuracy: the part of the known items whose likeliest
class is right, whether or not they are called unknown. Precision of labels: the part of the labelled items whose label
is right. Recall of labels: the part of the known items that get their right label. Figures are means over piles in
percent with the half-width of the 95 % interval; differences are paired, pile by pile. Where kinds of piles are pooled,
piles with the same known classes count as one. Times are of one core, with handful compiled, which its first calls are
not. `--work FOLDER` keeps what was measured of each feature set: a run that was killed continues.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import _peers
import _report
import numpy as np
from _peers import Answer, Examples
from _peers_tables import BEST, DEFAULT, EOL_TOLD, TOLD, TUNED, Records, draw_curves, sections, sentences
from _random_piles import NEVER_KNOWN, PileRanges, RandomPile, Source, posteriors_without, read_feature_sets
from _script import Parser
from rich.console import Console
from rich.progress import track

from handful.core.metrics import auroc, open_set_balanced_accuracy
from handful.core.prepare import prepare
from handful.core.task import Task
from handful.engines.share_posterior import using
from handful.features import FeatureTable, digits
from handful.solving import solve

SEED = 23  # of the piles; settings of the peers were chosen on seed 99
SHARES = (0.0, 0.1, 0.5)
SHOTS = (1, 5)
PREPARATION = "task, l2"  # of the peers
SHARE_LIMITS = (0.01, 0.99)  # of a share that EOL is told
MANY_SHOTS = (1, 2, 5, 10, 20, 50)
MANY_SHARE = 0.3
MANY_ITEMS = 56
MIN_MANY = MANY_SHOTS[-1] + 8  # items of a class with 50 examples and some in the pile
ONE_CLASS = tuple((shots, share) for shots in (5, 20) for share in (0.0, 0.5))
NEEDS_CLASSES = ("Logistic regression", "LabelSpreading")  # two classes or more
NOTES = [
    "**Who is told what.** A row without a remark is told nothing about the pile but the examples. *told the share*: "
    "the true share of unknowns. *best threshold*: the threshold with the best balanced accuracy by the truth, which "
    "no user knows; it shows what the scores could give. *tuned*: the threshold with the best balanced accuracy on the "
    "examples, where each class in turn is left out as unknown beside a fifth of the other examples. With one example "
    "of a class no known example can be left out: then the threshold is the upper quartile of the scores of the "
    "left-out classes.",
    "**Settings.** PyOD detectors have their default contamination of 0.1, and their own threshold; they are fitted on "
    "the examples, or *on the pile*: on examples and pile together. PyOD KNN on the examples has as many neighbours as "
    "a class has examples, minus one (1 to 5). OneClassSVM: nu 0.1, RBF kernel, gamma \"scale\". LocalOutlierFactor: "
    "`novelty=True`, 20 neighbours or as many as there are. IsolationForest and PyOD IForest: defaults. The class of "
    "an item is that of the nearest mean for all detectors. Logistic regression: C = 10, score 1 - largest "
    "probability. LabelSpreading: RBF kernel, gamma 5, score 1 - largest probability. The C, the gamma, the kernel and "
    "the quartile were the best of those tried on other piles of six of these feature sets. PyOD's OCSVM, LOF and "
    "IForest on the examples are those of scikit-learn with another threshold, which decided worse there: they are "
    "left out. EllipticEnvelope is left out: it needs more examples than features.",
    "**What speaks for handful here.** Methods and constants of handful were chosen with these feature sets in sight, "
    "on other piles; those of the peers are mostly the defaults of their libraries. Expect somewhat smaller "
    "differences on data of another kind. What speaks for the peers: centring on the mean of the pile is a step that "
    "their libraries do not do by themselves.",
    "**SetFit** fine-tunes a network on texts, so it cannot solve piles of features: see "
    "[peers_setfit.md](peers_setfit.md). Its head alone, without fine-tuning, is the logistic regression of this "
    "table.",
]  # fmt: skip


def peers(pile: RandomPile, task: Examples) -> Iterator[tuple[str, Callable[[], Answer]]]:
    """All methods, handful's first."""
    share, one_class = pile.share, pile.ways == 1
    told = float(np.clip(share, *SHARE_LIMITS))
    yield DEFAULT, lambda: _handful(pile, method="auto")
    yield EOL_TOLD, lambda: _handful(pile, method="eol", outlier_share=told)
    for name, detect in _peers.DETECTORS.items():
        yield name, lambda detect=detect: detect(task)
    for name, rank in _peers.RANKINGS.items():
        if one_class and name in NEEDS_CLASSES:
            continue
        if not one_class:  # a threshold is tuned on classes that are left out
            with_pile = name == "LabelSpreading"
            yield f"{name}, {TUNED}", lambda rank=rank, pile=with_pile: _peers.tuned(task, rank, pile)
        if name != "LabelSpreading":
            yield f"{name}, {TOLD}", lambda rank=rank: _peers.told_share(rank(task), share)
            yield f"{name}, {BEST}", lambda rank=rank: _peers.at_best(rank(task), pile.truth, balanced_accuracy)


def _handful(pile: RandomPile, **options: Any) -> Answer:
    result = solve(pile.task, threads=1, **options)
    return Answer(result.probabilities.argmax(axis=-1), result.outlier_scores, result.unknown)


def balanced_accuracy(answer: Answer, truth: np.ndarray) -> float:
    ways = int(max(truth.max(), answer.classes.max())) + 1
    return float(open_set_balanced_accuracy(np.where(answer.unknown, -1, answer.classes), truth, ways))


def figures(answer: Answer, truth: np.ndarray) -> dict[str, float]:
    """In percent."""
    known = truth >= 0
    decided = np.where(answer.unknown, -1, answer.classes)
    is_right = (decided == truth) & known
    labelled = ~answer.unknown
    f1 = [2 * ((decided == k) & (truth == k)).sum() / ((decided == k).sum() + (truth == k).sum()) for k in set(truth)]
    values = {
        "accuracy": (answer.classes == truth)[known].mean(),
        "auroc": auroc(answer.scores, ~known),
        "balanced_accuracy": balanced_accuracy(answer, truth),
        "macro_f1": np.mean(f1),
        "precision": is_right.sum() / labelled.sum() if labelled.any() else np.nan,
        "recall": is_right.sum() / known.sum(),
    }
    return {name: 100 * float(value) for name, value in values.items()}


def figures_of(pile: RandomPile, only: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """The figures of every method, and its seconds."""
    began = time.process_time()
    prepared = prepare(pile.task.support, pile.task.query, PREPARATION)
    task = Examples(prepared.support[0], pile.task.labels[0], prepared.query[0])
    preparing = time.process_time() - began
    for name, answer in peers(pile, task):
        if only and name not in only:
            continue
        began = time.process_time()
        found = answer()
        seconds = time.process_time() - began + (0 if name in (DEFAULT, EOL_TOLD) else preparing)
        yield {"method": name, "seconds": seconds, **figures(found, pile.truth)}


def with_shots(pile: RandomPile, shots: int) -> RandomPile:
    """The same pile with fewer examples of each class."""
    kept = np.arange(len(pile.support_items)).reshape(pile.ways, -1)[:, :shots].ravel()
    task = Task(pile.task.support[0][kept], pile.task.labels[0][kept], pile.task.query[0])
    facts = {**vars(pile), "task": task, "support_items": pile.support_items[kept], "shots": shots}
    return RandomPile(**facts)


def large_classes(table: FeatureTable) -> FeatureTable | None:
    """The classes with 50 examples to give, if there are more than five."""
    names, counts = np.unique(table.labels, return_counts=True)
    kept = names[(counts >= MIN_MANY) & ~np.isin(names.astype(str), NEVER_KNOWN)]
    return table.take(np.flatnonzero(np.isin(table.labels, kept))) if len(kept) > 5 else None


MANY_METHODS = (
    DEFAULT, EOL_TOLD, "PyOD KNN", "LocalOutlierFactor", f"OneClassSVM, {TUNED}", f"Nearest mean, {TUNED}",
    f"Logistic regression, {TUNED}", f"Logistic regression, {TOLD}", f"Logistic regression, {BEST}",
)  # fmt: skip


def measure(table: FeatureTable, piles: int, many_piles: int, one_class_piles: int) -> Iterator[dict[str, Any]]:
    """Every record of a feature set: of usual piles, of piles with many examples, and of piles with one class."""

    def ranges(ways: tuple[int, int], shots: int, share: float, **others: Any) -> PileRanges:
        is_none = float(share == 0)
        usual = {"items": (60, 200)} | others
        return PileRanges(ways=ways, shots=(shots,), share=(share, share), no_unknowns=is_none, **usual)

    def records(part: str, pile: RandomPile, number: int, shots: int, share: float, only: tuple[str, ...] = ()) -> Any:
        facts = {"part": part, "domain": table.name, "pile": number, "shots": shots, "share": share}
        for record in figures_of(pile, only):
            yield facts | record

    for shots in SHOTS:
        for share in SHARES:
            source = Source(table, ranges((3, 8), shots, share))
            for number, pile in enumerate(source.piles(piles, SEED)):
                yield from records("usual", pile, number, shots, share)
    large = large_classes(table)
    if large is not None:
        equal = ranges((5, 5), MANY_SHOTS[-1], MANY_SHARE, items=(MANY_ITEMS, MANY_ITEMS), known_sizes=(None,))
        for number, pile in enumerate(Source(large, equal).piles(many_piles, SEED)):
            for shots in MANY_SHOTS:
                yield from records("many", with_shots(pile, shots), number, shots, MANY_SHARE, MANY_METHODS)
    for shots, share in ONE_CLASS:
        source = Source(table, ranges((1, 1), shots, share))
        for number, pile in enumerate(source.piles(one_class_piles, SEED)):
            if pile.shots == shots:  # a small class has fewer to give
                yield from records("one class", pile, number, shots, share)


def main() -> None:
    parser = Parser(__doc__, "ten minutes of one core")
    parser.add_data("folder", "a folder of feature sets")
    parser.add_size("--piles", 4, 1, "piles of each feature set, number of examples and share of unknowns")
    parser.add_size("--many-piles", 3, 1, "piles of each feature set with many examples")
    parser.add_size("--one-class-piles", 2, 1, "piles of each feature set with one class, for each kind")
    parser.add_size("--learn", 100, 1, "piles of each feature set that the posterior of the others is learned from")
    parser.add_argument("--work", type=Path, help="a folder that keeps what was measured")
    given = parser.parse()
    console = Console()
    tables = {"digits": FeatureTable(*digits(), name="digits")}
    if given.folder is not None:
        tables = read_feature_sets(given.folder)
    kept = {name: None if given.work is None else given.work / f"{name}.json" for name in tables}
    is_measured = {name: path is not None and path.exists() for name, path in kept.items()}
    posteriors = {} if all(is_measured.values()) else posteriors_without(tables, given.learn, SEED + 1, console)
    found: list[dict[str, Any]] = []
    for name, table in track(tables.items(), "Solving", console=console):
        path = kept[name]
        if path is not None and is_measured[name]:
            found += json.loads(path.read_text("utf-8"))
            continue
        with using(posteriors[name]):
            warm = Source(table, PileRanges(ways=(3, 3))).pile(0)
            list(figures_of(warm))  # everything is loaded
            own = list(measure(table, given.piles, given.many_piles, given.one_class_piles))
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(own), "utf-8")
        found += own
    records = Records(found)
    tables_found = sections(records)
    for section in tables_found:
        _report.show(console, section)
    draw_curves(records, given.output / "peers.png")
    size = (
        f"{len(tables)} feature sets ({', '.join(tables)}), {given.piles} piles of each for every number of examples "
        "and share of unknowns."
    )
    packages = ("handful", "numpy", "scikit-learn", "pyod")
    notes = [_report.about(__doc__), size, *NOTES, "![Figures by the number of examples of a class](peers.png)"]
    notes.append(_report.machine(packages))
    path = given.output / "peers.md"
    _report.write(console, path, "handful beside PyOD and scikit-learn", tables_found, sentences(records), notes)


if __name__ == "__main__":
    main()
