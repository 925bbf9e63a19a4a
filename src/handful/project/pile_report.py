"""The report of a labelled pile, and the map of its items."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from handful.features import FeatureTable
from handful.project.items import Progress
from handful.project.labelling import Labelled
from handful.project.summary import EXPECTED_HEAD, expected_in_words, expected_rows, label_texts, total_of
from handful.report import make_report, write
from handful.report.contents import Expected, Figures, Run
from handful.report.plane import on_plane
from handful.solving.telling_words import telling_words
from handful.utils.files import printable
from handful.utils.shares_in_words import chances_in_words, is_low

CORRECTIONS_FILE = "corrections.json"  # as the page calls what it gives
NOT_EXPECTED = "This method gives no probabilities: how many labels are right is not known before a check."
MAX_MARKED_WORDS = 15  # of a class, that the page marks in its texts


def write_report(
    labelled: Labelled, path: Path, title: str, progress: Progress, run: Run | None = None, folder: Path | None = None
) -> None:
    """Write the report of a labelled pile; of a large pile it shows the least sure items and those of groups.

    folder: where the page will be in the end, so that it can link to the pictures; without it there are no links.
    """
    expected = _expected(labelled)
    contents = make_report(
        labelled,
        labelled.pile,
        title=title,
        sentences=[sentence for sentence in labelled.sentences if sentence != expected.sentence],
        examples=labelled.examples,
        folder=folder,
        places=partial(flat_map, labelled.pile, labelled.examples),
        nearest=labelled.nearest,
        groups=labelled.groups,
        skipped=labelled.skipped,
        made_by=labelled.made_by,
        tables=_tables(labelled),
        expected=expected,
        run=run,
        words=words_of_classes(labelled),
        chances=chances_in_words(labelled.noun, labelled.share["outlier_share_interval"]),
        progress=progress,
    )
    write(path, contents)


def run_of(run_id: str, folder: Path | None) -> Run:
    """A run, with the commands that go on from its results. folder: None if these do not say what was labelled."""
    if folder is None:
        return Run(run_id)
    place = shlex.quote(printable(str(folder.resolve())))  # the page may be opened from any folder
    return Run(run_id, f"handful check {place}", f"handful label {place} --corrections {CORRECTIONS_FILE}")


def _expected(labelled: Labelled) -> Expected:
    """How many labels should be right; in words also where the method gives no probabilities."""
    expected = labelled.expected_precision_by_class
    if expected is None:
        return Expected(NOT_EXPECTED if not labelled.unknown.all() else "")
    sentence = expected_in_words(expected, bool(labelled.pile_labels))
    by_class = {str(name): labels for name, labels in expected.items()}
    return Expected(sentence, is_low(*total_of(expected)), by_class)


def _tables(labelled: Labelled) -> list[Figures]:
    """How many labels of each class should be right; nothing where the method gives no probabilities."""
    expected = labelled.expected_precision_by_class or {}
    rows = expected_rows(expected)
    doubtful = [n for n, labels in enumerate(e for e in expected.values() if e.labels) if is_low(*labels)]
    note = "By the probabilities of the labels, at the threshold that they were made with."
    if doubtful:
        note += " The labels of a doubtful class need a check."
    title = "How many labels should be right"
    return [Figures(title, EXPECTED_HEAD, rows, note, doubtful, id="expected")] if rows else []


def words_of_classes(labelled: Labelled) -> dict[str, list[str]]:
    """Where items are texts: by class the words that speak for its examples and for the items that have its label."""
    pile, examples = labelled.pile, labelled.examples
    if pile.texts is None:
        return {}
    texts, labels = list(pile.texts), label_texts(labelled)
    if examples is not None and examples.texts is not None:
        texts, labels = [*texts, *examples.texts], [*labels, *map(str, examples.label_names)]
    classes = [str(name) for name in labelled.classes.tolist()]
    rows = [np.flatnonzero(np.array(labels, object) == name) for name in classes]
    return dict(zip(classes, telling_words(texts, rows, MAX_MARKED_WORDS), strict=True))


def flat_map(pile: FeatureTable, examples: FeatureTable | None, rows: Sequence[int]) -> list[tuple[float, float]]:
    """Places on a plane for some rows of the pile, then for the examples."""
    parts = [pile.features[list(rows)]] + ([examples.features] if examples is not None else [])
    return [(float(x), float(y)) for x, y in on_plane(np.concatenate(parts))]
