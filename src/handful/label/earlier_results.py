"""The labels after a promotion beside those before it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from handful.features import FeatureTable
from handful.label.comparison import Comparison, compare
from handful.label.labelling import Labelled, label_items
from handful.label.promotion import rows_of_groups
from handful.label.record import read_record
from handful.label.summary import label_texts


def compare_results(
    labelled: Labelled, examples: FeatureTable, folder: Path, names: Mapping[int | str, str]
) -> Comparison | None:
    """Compare a pile with the results in a folder, some of whose groups are classes now.

    The earlier job is solved again on the features that are in memory: a table in the folder may have been edited.
    """
    job = read_record(folder).job
    if job is None:
        return None
    pile = labelled.pile
    before = label_items(examples, pile, pile_labels=job.find_promoted(pile), **job.decision)
    return compare(label_texts(before), label_texts(labelled), rows_of_groups(folder, names, pile))
