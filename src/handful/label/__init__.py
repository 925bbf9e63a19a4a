"""Label a pile from a few examples, and write the labels and a report."""

from handful.label.items import read_examples, read_pile, read_table
from handful.label.labelling import Labelled, label_items, predict_items
from handful.label.outputs import write_outputs
from handful.label.promotion import promote_groups
from handful.label.record import Job
from handful.label.text_items import read_texts

__all__ = [
    "Job",
    "Labelled",
    "label_items",
    "predict_items",
    "promote_groups",
    "read_examples",
    "read_pile",
    "read_table",
    "read_texts",
    "write_outputs",
]
