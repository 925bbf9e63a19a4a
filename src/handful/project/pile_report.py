"""The report of a labelled pile, and the map of its items."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

import numpy as np

from handful import report
from handful.features import FeatureTable
from handful.project.items import Progress
from handful.project.labelling import Labelled
from handful.project.summary import EXPECTED_HEAD, expected_in_words, expected_rows, label_texts, total_of
from handful.solving.telling_words import telling_words
from handful.utils.files import printable
from handful.utils.shares_in_words import is_low

CORRECTIONS_FILE = "corrections.json"  # as the page calls what it gives
NOT_EXPECTED = "This method gives no probabilities: how many labels are right is not known before a check."
KNOWN_WELL = 0.2  # an interval of the share this wide: probabilities were seen to hold within single piles
MAX_MARKED_WORDS = 15  # of a class, that the page marks in its texts


def write_report(
    labelled: Labelled,
    path: Path,
    title: str,
    progress: Progress,
    run: report.Run | None = None,
    folder: Path | None = None,
) -> None:
    """Write the report of a labelled pile; of a large pile it shows the least sure items and those of groups.

    folder: where the page will be in the end, so that it can link to the pictures; without it there are no links.
    """
    pile, examples = labelled.pile, labelled.examples
    expected = _expected(labelled)
    contents = report.make_report(
        labelled,
        gallery(pile, folder),
        title=title,
        sentences=[sentence for sentence in labelled.sentences if sentence != expected.sentence],
        examples=None if examples is None else gallery(examples, folder),
        places=partial(flat_map, pile, examples),
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
    report.write(path, contents)


def chances_in_words(noun: str, interval: Sequence[float] | None) -> str:
    """What P(unknown) says of a pile, by the interval of its share of unknowns (None: it was told).

    Over many piles the probabilities hold. In one pile they are all too high or too low together if its share is.
    """
    if interval is None:
        return f"If the share of unknowns is as told, about 80 of 100 {noun}s with a P(unknown) of 80 % are unknown."
    low, high = interval
    if high - low <= KNOWN_WELL:
        return f"Of 100 {noun}s with a P(unknown) of 80 %, about 80 are unknown."
    ends = f"between {100 * low:.0f} and {100 * high:.0f} % may be unknown"
    return f"P(unknown) orders the {noun}s; as percentages it may be far off here, where {ends}."


def run_of(run_id: str, folder: Path | None) -> report.Run:
    """A run, with the commands that go on from its results. folder: None if these do not say what was labelled."""
    if folder is None:
        return report.Run(run_id)
    place = shlex.quote(printable(str(folder.resolve())))  # the page may be opened from any folder
    corrections_command = f"handful label {place} --corrections {CORRECTIONS_FILE}"
    return report.Run(run_id, f"handful check {place}", corrections_command)


def _expected(labelled: Labelled) -> report.Expected:
    """How many labels should be right; in words also where the method gives no probabilities."""
    expected = labelled.expected_precision_by_class
    if expected is None:
        return report.Expected(NOT_EXPECTED if not labelled.unknown.all() else "")
    sentence = expected_in_words(expected, bool(labelled.pile_labels))
    by_class = {str(name): labels for name, labels in expected.items()}
    return report.Expected(sentence, is_low(*total_of(expected)), by_class)


def _tables(labelled: Labelled) -> list[report.Figures]:
    """How many labels of each class should be right; nothing where the method gives no probabilities."""
    expected = labelled.expected_precision_by_class or {}
    rows = expected_rows(expected)
    doubtful = [n for n, labels in enumerate(e for e in expected.values() if e.labels) if is_low(*labels)]
    note = "By the probabilities of the labels, at the threshold that they were made with."
    if doubtful:
        note += " The labels of a doubtful class need a check."
    title = "How many labels should be right"
    return [report.Figures(title, EXPECTED_HEAD, rows, note, doubtful, id="expected")] if rows else []


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


def gallery(items: FeatureTable, folder: Path | None = None) -> report.Gallery:
    """The names, pictures and labels of items. folder: where the page is that links to the pictures."""
    labels = [label or "" for label in items.label_names] if items.labels is not None else ()
    texts = items.texts
    return report.Gallery(
        items.names, partial(_thumbnail, items), labels, partial(_address, items, folder),
        (lambda i: "") if texts is None else lambda i: texts[i],
    )  # fmt: skip


def _address(items: FeatureTable, folder: Path | None, i: int) -> str:
    """The address of a picture, relative to a folder."""
    if items.files is None or folder is None:
        return ""
    try:
        return quote(os.fsencode(os.path.relpath(items.files[i], folder).replace(os.sep, "/")))
    except ValueError:  # on another drive of Windows
        return ""


def flat_map(pile: FeatureTable, examples: FeatureTable | None, rows: Sequence[int]) -> list[tuple[float, float]]:
    """Places on a plane for some rows of the pile, then for the examples: by UMAP if it is installed, else by PCA."""
    parts = [pile.features[list(rows)]] + ([examples.features] if examples is not None else [])
    x = np.concatenate(parts)
    try:
        from umap import UMAP

        x = report.centred(x)
        flat = UMAP(n_neighbors=min(15, len(x) - 1), random_state=0).fit_transform(x) if len(x) > 4 else x[:, :2]
        flat = np.column_stack([flat, np.zeros(len(flat))])[:, :2]
    except ImportError:
        flat = report.on_plane(x)
    return [(float(a), float(b)) for a, b in flat]


def _thumbnail(items: FeatureTable, i: int) -> bytes | None:
    if items.files is None or items.texts is not None:
        return None
    from handful.backbones.pictures import BadPicture, thumbnail

    try:
        return thumbnail(items.files[i])
    except (BadPicture, OSError):  # the picture is gone
        return None
