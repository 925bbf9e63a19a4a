"""The report of a labelled pile, and the map of its items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from handful import report
from handful.core.arrays import at_usual_scale, unit
from handful.features import FeatureTable
from handful.label.expectations import EXPECTED_HEAD, expected_rows
from handful.label.labelling import Labelled

MAX_MAP_ROWS = 2000  # rows from which the axes of the map are computed, without UMAP
Progress = Callable[[str, int, int], None]  # what is being done, items done, all items


def write_report(labelled: Labelled, path: Path, title: str, progress: Progress) -> None:
    """Write the report of a labelled pile; of a large pile it shows the least sure items and those of groups."""
    pile, examples = labelled.pile, labelled.examples
    contents = report.make_report(
        labelled,
        gallery(pile),
        title=title,
        sentences=labelled.sentences,
        examples=None if examples is None else gallery(examples),
        places=partial(flat_map, pile, examples),
        nearest=labelled.nearest,
        groups=labelled.groups,
        skipped=labelled.skipped,
        made_by=labelled.made_by,
        tables=_tables(labelled),
        progress=progress,
    )
    report.write(path, contents)


def _tables(labelled: Labelled) -> list[report.Figures]:
    """How many labels of each class should be right; nothing where the method gives no probabilities."""
    rows = expected_rows(labelled.expected_precision_by_class or {})
    note = "By the probabilities of the labels, at the threshold that they were made with."
    return [report.Figures("How many labels should be right", EXPECTED_HEAD, rows, note)] if rows else []


def gallery(items: FeatureTable) -> report.Gallery:
    """The names, pictures and labels of items."""
    labels = [label or "" for label in items.label_names] if items.labels is not None else ()
    return report.Gallery(items.names, partial(_thumbnail, items), labels)


def flat_map(pile: FeatureTable, examples: FeatureTable | None, rows: Sequence[int]) -> list[tuple[float, float]]:
    """Places on a plane for some rows of the pile, then for the examples: by UMAP if it is installed, else by PCA."""
    parts = [pile.features[list(rows)]] + ([examples.features] if examples is not None else [])
    x = at_usual_scale(np.concatenate(parts).astype(np.float64))
    x = unit(x - x.mean(axis=0))
    try:
        from umap import UMAP

        flat = UMAP(n_neighbors=min(15, len(x) - 1), random_state=0).fit_transform(x) if len(x) > 4 else x[:, :2]
    except ImportError:
        x = x - x.mean(axis=0)
        sample = x if len(x) <= MAX_MAP_ROWS else x[:: len(x) // MAX_MAP_ROWS + 1]
        _, _, axes = np.linalg.svd(sample, full_matrices=False)
        flat = x @ axes[:2].T
    flat = np.column_stack([flat, np.zeros(len(flat))])[:, :2] if flat.shape[1] < 2 else flat
    return [(float(a), float(b)) for a, b in flat]


def _thumbnail(items: FeatureTable, i: int) -> bytes | None:
    if items.files is None:
        return None
    from handful.backbones import BadPicture, thumbnail

    try:
        return thumbnail(items.files[i])
    except (BadPicture, OSError):  # the picture is gone
        return None
