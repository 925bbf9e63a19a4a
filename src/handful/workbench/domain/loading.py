"""Load a project: find its items on the disk, read what is stored of them, and take over labels that come with them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from handful.core.checks import is_no_class
from handful.utils.files import printable
from handful.utils.limits import TEXT_EXPANSION, check_bytes
from handful.utils.text import is_blank
from handful.workbench.domain.checks import Checks
from handful.workbench.domain.edits import KEYS
from handful.workbench.domain.opened_table import OpenedTable
from handful.workbench.domain.pile import EXAMPLES, EXPORT_PREFIX, PILE, TEXTS, UPLOAD_PREFIX, UPLOADS, Pile, Source
from handful.workbench.domain.runs import NONE, UNKNOWN, RowAnswers, Run
from handful.workbench.domain.state import State
from handful.workbench.domain.store import Store, next_class


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
