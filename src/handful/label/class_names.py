"""The names of classes as one more example each: a name such as "lost card" says much about the texts of its class."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from handful.core.checks import is_no_class
from handful.features import FeatureTable, concatenate
from handful.utils.text import is_blank


def words_of(name: str) -> str:
    """The words of a class's name.

    >>> words_of("lost_or-stolen/card"), words_of("orderStatus"), words_of("ATM_fees")
    ('lost or stolen card', 'order status', 'ATM fees')
    """
    spaced = re.sub(r"[\W_]+", " ", name).strip()
    return re.sub(r"(?<=[a-z])([A-Z])(?=[a-z])", lambda match: f" {match[1].lower()}", spaced)


def with_class_names(examples: FeatureTable) -> FeatureTable:
    """Texts without features, and the name of each class as one more example of it.

    A name that is also an example, or that two classes share, adds nothing.
    """
    names = [str(name) for name in examples.classes.tolist() if not is_no_class(str(name))]
    texts = [words_of(name) for name in names]
    used = Counter([*(examples.texts or ()), *texts])
    new = [(name, text) for name, text in zip(names, texts, strict=True) if used[text] == 1 and not is_blank(text)]
    if not new:
        return examples
    rows = FeatureTable(
        np.empty((len(new), 0), np.float32), [name for name, _ in new], [f"the name {name}" for name, _ in new],
        others={column: [None] * len(new) for column in examples.others}, texts=[text for _, text in new],
    )  # fmt: skip
    note = f"The names of {len(new)} class{'es' * (len(new) > 1)} count as one example each."
    return concatenate([examples, rows]).replace(notes=[*examples.notes, note])
