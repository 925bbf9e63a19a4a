"""What the items of a project are: pictures, texts or embeddings. A project stays what it was made as."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from handful.workbench.domain.opened_table import OpenedTable, read_table, read_texts
from handful.workbench.domain.pile import EMBEDDINGS, PICTURES, TEXTS, Source
from handful.workbench.domain.store import Store


class ItemsKind(NamedTuple):
    """The kind, and for a table of texts the columns of texts and of labels; None: they are found."""

    kind: str
    text: str | None = None
    label: str | None = None

    def read(self, source: Source) -> OpenedTable | None:
        """The rows of a table; None for a folder."""
        if not source.is_table:
            return None
        return read_texts(source.opened, self.text, self.label) if self.kind == TEXTS else read_table(source.opened)


def kind_of_items(opened: Path, store: Store | None, text: str | None, label: str | None) -> ItemsKind:
    """What the items of a folder or table are.

    Parameters
    ----------
    opened : Path
        The folder or table.
    store : Store or None
        The store of a project that exists.
    text, label : str or None
        The columns that the user named; by default those of before.

    Raises
    ------
    ValueError
        If the columns are not those that the project was made with, or if there are none to name.
    """
    from handful.label.items import kind_of

    if not opened.is_file():
        _refuse_columns(text, label)
        return ItemsKind(TEXTS if opened.is_dir() and kind_of(opened) == TEXTS else PICTURES)
    before = None
    if store is not None and store.item_names():
        metadata = store.meta()
        before = metadata.get("text")
        if text is not None and text != before:
            was = "embeddings" if before is None else f"the texts in the column {before!r}"
            raise ValueError(
                f"this project was made with {was}: leave out --text, or keep the new work elsewhere with --project"
            )
        label = label or metadata.get("label")
        if before is None:
            _refuse_columns(None, label)
            return ItemsKind(EMBEDDINGS)
    kind = kind_of(opened, {} if label is None else {"label": label}, text or before)
    if kind != TEXTS:
        _refuse_columns(None, label)
    return ItemsKind(kind, text or before, label)


def remember_columns(store: Store, table: OpenedTable | None, label: str | None) -> None:
    """Store the columns of a table of texts, so that they need not be named again."""
    if table is not None and table.text_column is not None:
        store.meta(text=table.text_column, **({} if label is None else {"label": label}))


def _refuse_columns(text: str | None, label: str | None) -> None:
    if text is not None or label is not None:
        raise ValueError("--text and --label name columns of a table of texts, and this is none: leave them out")
