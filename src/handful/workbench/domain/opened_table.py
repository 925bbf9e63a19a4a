"""The rows of an opened table: embeddings, or texts that are embedded here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import numpy as np

from handful.core.arrays import at_usual_scale
from handful.features import FeatureTable, read
from handful.features.labels import NDArray
from handful.utils.files import printable, unique_names

TEXT_KEY = "text "  # before the hash of a text, in the store


@dataclass(frozen=True, eq=False)
class OpenedTable:
    """What a project takes from a table. Labels are taken over once; other columns go into exports."""

    names: list[str]  # each once
    keys: list[str]  # what the store calls the rows, each once
    labels: list[str | None]
    features: NDArray | None = None  # [n, D], of a table of embeddings
    texts: list[str] | None = None
    others: Mapping[str, NDArray] = field(default_factory=dict)
    text_column: str | None = None
    notes: Sequence[str] = ()

    @cached_property
    def row(self) -> dict[str, int]:
        """The row of each name."""
        return {name: k for k, name in enumerate(self.names)}

    def columns_of(self, name: str) -> dict[str, str]:
        """What the page shows beside a text: the other columns of its row that are not blank."""
        cells = {column: values[self.row[name]] for column, values in self.others.items() if column != self.text_column}
        return {column: str(cell) for column, cell in cells.items() if cell is not None and str(cell).strip()}


def read_table(path: Path) -> OpenedTable:
    """Read a table of embeddings."""
    table = read(path, warn=False)
    names = unique_names([printable(name) for name in table.names])
    features = np.ascontiguousarray(at_usual_scale(table.features), np.float32)
    if (features.any(axis=1) != table.features.any(axis=1)).any():
        raise ValueError(f"{str(path)!r}: some rows are so much larger than others that float32 cannot hold both")
    return OpenedTable(names, names, table.label_names, features)


def read_texts(path: Path, text: str | None = None, label: str | None = None) -> OpenedTable:
    """Read a table of texts.

    Rows that have no name of their own are known by their text: if rows are added, removed or sorted between two days,
    each text keeps its label.
    """
    from handful.features.text_table import read_text_table

    table = read_text_table(path, text=text, label=label)
    names = unique_names([printable(name) for name in table.names])
    texts = list(table.texts or ())
    keys = names if table.paths is not None else _keys(texts)
    column = str(table.source["text"])
    return OpenedTable(names, keys, table.label_names, None, texts, table.others, column, _notes(table))


def _keys(texts: Sequence[str]) -> list[str]:
    """A hash of each text; the second row with the same text has a 2 behind it, and so on."""
    seen: dict[str, int] = {}
    keys = []
    for text in texts:
        mark = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        seen[mark] = seen.get(mark, 0) + 1
        keys.append(f"{TEXT_KEY}{mark}" + (f" {seen[mark]}" if seen[mark] > 1 else ""))
    return keys


def _notes(table: FeatureTable) -> Sequence[str]:
    return tuple(getattr(table, "notes", ()))
