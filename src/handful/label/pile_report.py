"""A labelled pile as the data of its report, and the map of its items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan
from pathlib import Path

import numpy as np

from handful.core.arrays import at_usual_scale, unit
from handful.label.items import Items
from handful.label.labelling import Labelled
from handful.label.summary import label_texts
from handful.report import PileGroup, PileItem, PileReport, write_pile

MAX_REPORT_ITEMS = 5000
MAX_CENTRAL_ITEMS = 40  # of each group, the most central items are in the report, however sure their answers are
MAX_MAP_ROWS = 2000  # rows that the axes of the map are computed from, where there is no UMAP
Progress = Callable[[str, int, int], None]  # of what, how many are done, of how many


def write_report(labelled: Labelled, path: Path, title: str, progress: Progress) -> None:
    """Write the report of a labelled pile; of a large pile it shows the least sure items and those of groups."""
    rows = _choose_rows(labelled)
    places = flat_map(labelled.pile, labelled.examples, rows)
    items = _pile_items(labelled, rows, places, progress) + _example_items(labelled.examples, places[len(rows) :])
    sentences = labelled.sentences
    if len(rows) < len(labelled.pile):
        sentences.append(f"The report shows {len(rows):,} of them, the least sure first; the tables hold all.")
    progress("report", len(rows), len(rows))
    place = {row: n for n, row in enumerate(rows)}
    groups = [PileGroup(g.name, g.size, [place[i] for i in g.items.tolist() if i in place]) for g in labelled.groups]
    report = PileReport(
        title, sentences, items, [str(name) for name in labelled.classes], labelled.model.threshold_,
        labelled.is_probability, labelled.skipped, labelled.made_by, groups,
    )  # fmt: skip
    write_pile(path, report)


def flat_map(pile: Items, examples: Items | None, rows: Sequence[int]) -> list[tuple[float, float]]:
    """Places on a plane of some rows of the pile, then of the examples: UMAP where it is installed, else PCA."""
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


def _pile_items(
    labelled: Labelled, rows: Sequence[int], places: Sequence[tuple[float, float]], progress: Progress
) -> list[PileItem]:
    pile, examples, nearest = labelled.pile, labelled.examples, labelled.nearest
    labels, closest = label_texts(labelled), labelled.closest
    confidence, alternative, p_unknown = labelled.confidence, labelled.alternative_confidence, labelled.p_unknown
    items = []
    for done, (i, xy) in enumerate(zip(rows, places, strict=False)):
        progress("report", done, len(rows))
        near = [] if nearest is None or examples is None else [examples.names[j] for j in nearest[i]]
        items.append(
            PileItem(
                pile.names[i], _thumbnail(pile, i), labels[i], str(closest[i]), float(confidence[i]),
                float(labelled.outlier_scores[i]), xy, near, otherwise=float(alternative[i]),
                p_unknown=nan if p_unknown is None else float(p_unknown[i]),
            )
        )  # fmt: skip
    return items


def _example_items(examples: Items | None, places: Sequence[tuple[float, float]]) -> list[PileItem]:
    if examples is None or examples.labels is None:
        return []
    return [
        PileItem(examples.names[k], _thumbnail(examples, k), name, name, 1.0, 0.0, places[k], [], True)
        for k, name in enumerate(examples.labels)
    ]


def _choose_rows(labelled: Labelled) -> list[int]:
    """The items of the report: all, or of a large pile the most central of each group and the least sure."""
    n = len(labelled.pile)
    if n <= MAX_REPORT_ITEMS:
        return list(range(n))
    central = [i for group in labelled.groups for i in group.items[:MAX_CENTRAL_ITEMS].tolist()]
    least_sure = np.argsort(labelled.confidence, kind="stable").tolist()
    rows = dict.fromkeys([*central[: MAX_REPORT_ITEMS // 2], *least_sure])
    return sorted(list(rows)[:MAX_REPORT_ITEMS])


def _thumbnail(items: Items, i: int) -> bytes | None:
    if items.files is None:
        return None
    from handful.backbones import BadPicture, thumbnail

    try:
        return thumbnail(items.files[i])
    except (BadPicture, OSError):  # gone since it was embedded
        return None
