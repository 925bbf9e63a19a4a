"""Load a project: find its items on the disk, read what is stored of them, and take over labels that come with them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np

from handful.core.arrays import at_usual_scale
from handful.core.checks import is_no_class
from handful.features import FeatureTable, read
from handful.features.labels import NDArray
from handful.project.edits import KEYS
from handful.project.pile import (
    EMBEDDINGS,
    EXAMPLES,
    EXPORT_PREFIX,
    PICTURES,
    PILE,
    TEXTS,
    UPLOAD_PREFIX,
    UPLOADS,
    Pile,
    Source,
)
from handful.project.runs import NONE, UNKNOWN, RowAnswers, Run
from handful.project.said import Store, next_class
from handful.project.state import Checks, State
from handful.utils.files import printable, unique_names
from handful.utils.limits import TEXT_EXPANSION, check_bytes
from handful.utils.text import is_blank

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
    from handful.project.items import kind_of

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


def remove_leftovers(folder: Path) -> None:
    """Remove uploads and exports that a killed process did not finish. No other process has the project open."""
    for pattern in (f"{UPLOADS}/{UPLOAD_PREFIX}*", f"exports/{EXPORT_PREFIX}*"):
        for leftover in folder.glob(pattern):
            shutil.rmtree(leftover, ignore_errors=True)


def load(store: Store, source: Source, table: OpenedTable | None, given: Mapping[str, str]) -> State:
    """The state of a project as it is stored, for the items that are there now.

    Parameters
    ----------
    store : Store
        The store.
    source : Source
        What was opened.
    table : OpenedTable or None
        The rows of a table. Their labels are taken over once.
    given : mapping of str to str
        The classes of some items of the pile, by name. They are taken over if the project has no labels yet.
    """
    names, skipped = source.scan()
    if table is not None:
        names[PILE] = table.keys
    is_new = not store.labels()
    known_examples = {name for origin, name in store.item_names() if origin == EXAMPLES}
    for origin, items in names.items():
        store.take_items(origin, items)
    named = {} if table is None else dict(zip(table.keys, table.names, strict=True))
    rows = [(item, origin, named.get(key, key) if origin == PILE else key) for item, origin, key, _, _ in store.items()]
    texts, faults = texts_of(source, rows, table)
    pile = Pile.of(rows, texts)
    if faults:
        pile.usable[[pile.row[item] for item in faults]] = False
        store.skip(faults)
        skipped += [(pile.names[pile.row[item]], reason) for item, reason in faults.items()]
    if table is not None:
        of_name = {name: i for i, (_, origin, name) in enumerate(rows) if origin == PILE}
        order = [of_name[name] for name in table.names]
        if table.features is not None:
            pile = pile.with_room(table.features.shape[1])
            pile.features[order], pile.ready[order] = table.features, True
        if "imported" not in store.meta():
            _take_labels(store, {rows[i][0]: name for i, name in zip(order, table.labels, strict=True) if name})
            store.meta(imported="1")
    if given and is_new:
        _take_labels(store, {item: given[name] for item, origin, name in rows if origin == PILE and name in given})
    new = {item: name for item, origin, name in rows if origin == EXAMPLES and name not in known_examples}
    _take_labels(store, {item: source.class_of(name) for item, name in new.items()})
    labels = np.full(len(pile), NONE)
    for item, code in store.labels():
        if item in pile.row:
            labels[pile.row[item]] = code
    classes, shown = store.classes(), store.run()
    run = None if shown is None else Run.unpacked(*shown)
    skipped_files = tuple((printable(name), reason) for name, reason in skipped)
    checks = None if run is None else Checks(run, store.checks(run.id))
    return State(
        pile, labels, classes, run, RowAnswers.of(run, pile, classes), skipped_files, checks, store.steps()
    )  # fmt: skip


def texts_of(
    source: Source, rows: Sequence[tuple[int, str, str]], table: OpenedTable | None = None
) -> tuple[list[str] | None, dict[int, str]]:
    """The text of each item, which are (id, origin, name), and by id why an item has none; None for other items."""
    if source.kind != TEXTS:
        return None, {}
    of_name = {} if table is None else dict(zip(table.names, table.texts or (), strict=True))
    texts, faults, size = [], {}, 0
    for item, origin, name in rows:
        text = ""
        try:
            text = of_name[name] if table is not None and origin == PILE else source.read_text(origin, name)
            if is_blank(text):
                faults[item] = "has no text"
        except (OSError, ValueError) as error:
            faults[item] = str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)
        size += len(text)
        check_bytes(TEXT_EXPANSION * size, "the texts")
        texts.append(text)
    return texts, faults


def _take_labels(store: Store, names: Mapping[int, str]) -> None:
    """Take over labels by the names of their classes. This is not a step that can be undone."""
    if not names:
        return
    with store.write() as tx:
        old = store.classes()
        codes = {name: number for number, (name, _) in old.items()}
        codes |= {name: UNKNOWN for name in names.values() if is_no_class(name)}
        used_keys = {key for _, key in old.values()}
        for name in dict.fromkeys(names.values()):
            if name in codes:
                continue
            number = codes[name] = next_class(tx)
            key = next((key for key in KEYS if key not in used_keys), None)
            used_keys.add(key)
            tx.execute("INSERT INTO classes VALUES (?, ?, ?)", (number, name, key))
        rows = [(item, codes[name]) for item, name in names.items()]
        tx.executemany("INSERT OR REPLACE INTO labels VALUES (?, ?)", rows)
