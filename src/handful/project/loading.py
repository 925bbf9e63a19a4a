"""Load a project: find its items on the disk, read what is stored of them, and take over labels that come with them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import numpy as np

from handful.core.arrays import at_usual_scale
from handful.core.checks import UNKNOWN_NAME, is_no_class, is_no_label
from handful.features import FeatureTable
from handful.features.labels import NDArray
from handful.project.items import EMBEDDINGS, PICTURES, TEXTS, Reading, kind_of, read_items, read_rows
from handful.project.job import Job
from handful.project.pile import (
    EXAMPLES,
    EXPORT_PREFIX,
    NO_CLASS,
    PILE,
    UPLOAD_PREFIX,
    UPLOADS,
    Pile,
    Source,
)
from handful.project.said import Store
from handful.project.state import State
from handful.project.text_items import with_class_names
from handful.utils.files import printable, unique_names
from handful.utils.limits import TEXT_EXPANSION, check_bytes
from handful.utils.text import is_blank

TEXT_KEY = "text "  # before the hash of a text, in the store


@dataclass(frozen=True, eq=False)
class OpenedTable:
    """What a project takes from a table. Labels are taken over once; other columns go into exports."""

    names: list[str]  # each once
    keys: list[str]  # what the store calls the rows, each once
    origins: list[str]
    labels: list[str | None]
    features: NDArray | None  # [n, D], of a table of embeddings
    texts: list[str] | None
    others: Mapping[str, NDArray]
    text_column: str | None
    notes: Sequence[str]

    @cached_property
    def row(self) -> dict[str, int]:
        """The row of each name."""
        return {name: k for k, name in enumerate(self.names)}

    def columns_of(self, name: str) -> dict[str, str]:
        """What the page shows beside a text: the other columns of its row that are not blank."""
        cells = {column: values[self.row[name]] for column, values in self.others.items() if column != self.text_column}
        return {column: str(cell) for column, cell in cells.items() if cell is not None and str(cell).strip()}


def open_table(examples: Path, pile: Path | None, how: Reading, unknown: Path | None = None) -> OpenedTable:
    """Read the rows of tables of embeddings, or texts without features; as for `handful.project.items.read_items`.

    One table alone may also have no label, or one in each row.
    """
    if pile is None and unknown is None:
        rows = read_rows(examples, how)
        shown, rest = rows.take(rows.has_label), rows.take(~rows.has_label)
        shown = with_class_names(shown) if how.class_names else shown
    else:
        shown, rest = read_items(examples, pile, how, unknown)
    names = _unique(shown.names, rest.names)
    places = _table_keys(shown, rest, PILE if pile is None else EXAMPLES)
    labels = [*shown.label_names, *[None] * len(rest)]
    features = texts = None
    if how.kind == TEXTS:
        texts = [*(shown.texts or ()), *(rest.texts or ())]
    else:
        features = _scaled(np.concatenate([shown.features, rest.features]), examples)
    others = {
        name: np.concatenate([shown.others.get(name, np.full(len(shown), None, object)), values])
        for name, values in rest.others.items()
    }
    return OpenedTable(
        names, [key for _, key in places], [origin for origin, _ in places], labels, features, texts, others,
        rest.source.get("text"), tuple(shown.notes or rest.notes),
    )  # fmt: skip


def table_of_job(job: Job) -> OpenedTable | None:
    """The rows of the tables or texts of a job; None for pictures."""
    return None if job.kind == PICTURES else open_table(job.examples, job.pile, job.reading(), job.unknown)


def _scaled(x: NDArray, path: Path) -> NDArray:
    features: NDArray = np.ascontiguousarray(at_usual_scale(x), np.float32)
    if (features.any(axis=1) != x.any(axis=1)).any():
        raise ValueError(f"{str(path)!r}: some rows are so much larger than others that float32 cannot hold both")
    return features


def _keys(texts: Sequence[str]) -> list[str]:
    """A hash of each text; the second row with the same text has a 2 behind it, and so on."""
    seen: dict[str, int] = {}
    keys = []
    for text in texts:
        mark = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        seen[mark] = seen.get(mark, 0) + 1
        keys.append(f"{TEXT_KEY}{mark}" + (f" {seen[mark]}" if seen[mark] > 1 else ""))
    return keys


def kind_of_items(
    opened: Path, before: Job | None, text: str | None, label: str | None
) -> tuple[str, str | None, str | None]:
    """What the items of a folder or table are; for texts, the columns of texts and of labels (None: they are found).

    Parameters
    ----------
    opened : Path
        The folder or table.
    before : Job or None
        Of a project that exists. It stays what it was made as.
    text, label : str or None
        The columns that the user named; by default those of before.

    Raises
    ------
    ValueError
        If the columns are not those that the project was made with, or if there are none to name.
    """
    if not opened.is_file():
        _refuse_columns(text, label)
        return TEXTS if opened.is_dir() and kind_of(opened) == TEXTS else PICTURES, None, None
    if before is not None:
        if text is not None and text != before.text:
            was = "embeddings" if before.text is None else f"the texts in the column {before.text!r}"
            raise ValueError(
                f"this project was made with {was}: leave out --text, or keep the new work elsewhere with --project"
            )
        text, label = before.text, label or before.table.get("label")
        if text is None:
            _refuse_columns(None, label)
            return EMBEDDINGS, None, None
    kind = kind_of(opened, {} if label is None else {"label": label}, text)
    if kind != TEXTS:
        _refuse_columns(None, label)
    return kind, text, label


def _refuse_columns(text: str | None, label: str | None) -> None:
    if text is not None or label is not None:
        raise ValueError("--text and --label name columns of a table of texts, and this is none: leave them out")


def remove_leftovers(folder: Path) -> None:
    """Remove uploads and exports that a killed process did not finish. No other process has the project open."""
    for pattern in (f"{UPLOADS}/{UPLOAD_PREFIX}*", f"exports/{EXPORT_PREFIX}*"):
        for leftover in folder.glob(pattern):
            shutil.rmtree(leftover, ignore_errors=True)


def load(store: Store, source: Source, table: OpenedTable | None) -> State:
    """The state of a project as it is stored, for the items that are there now.

    Parameters
    ----------
    store : Store
        The store.
    source : Source
        What was opened.
    table : OpenedTable or None
        The rows of a table.
    """
    names, skipped = source.scan()
    if table is not None:
        for origin in dict.fromkeys(table.origins):
            names[origin] = [key for key, own in zip(table.keys, table.origins, strict=True) if own == origin]
    for origin, items in names.items():
        store.take_items(origin, items)
    numbers = store.item_numbers()
    came_as: dict[int, str | None] = {
        numbers[origin, name]: UNKNOWN_NAME if origin == NO_CLASS else _class_of(source.class_of(name))
        for origin in (EXAMPLES, NO_CLASS)
        for name in names[origin]
    }
    titles: dict[tuple[str, str], str] = {}
    if table is not None:
        places = [*zip(table.origins, table.keys, strict=True)]
        titles = dict(zip(places, table.names, strict=True))
        came_as |= {
            numbers[place]: None if label is None or is_no_label(label) else _class_of(label)
            for place, label in zip(places, table.labels, strict=True)
        }
    store.take_over(came_as)
    rows = [(item, origin, titles.get((origin, key), key)) for item, origin, key in store.items()]
    texts, faults = texts_of(source, rows, table)
    pile = Pile.of(rows, texts)
    if faults:
        pile.usable[[pile.row[item] for item in faults]] = False
        store.skip(faults)
        skipped += [(pile.names[pile.row[item]], reason) for item, reason in faults.items()]
    if table is not None and table.features is not None:
        order = [pile.row[numbers[place]] for place in places]
        pile = pile.with_room(table.features.shape[1])
        pile.features[order], pile.ready[order] = table.features, True
    return State.of(store, pile, tuple((printable(name), reason) for name, reason in skipped))


def _class_of(label: str) -> str:
    return UNKNOWN_NAME if is_no_class(label) else label


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
            text = of_name[name] if origin != UPLOADS and name in of_name else source.read_text(origin, name)
            if is_blank(text):
                faults[item] = "has no text"
        except (OSError, ValueError) as error:
            faults[item] = str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)
        size += len(text)
        check_bytes(TEXT_EXPANSION * size, "the texts")
        texts.append(text)
    return texts, faults


def place_items(store: Store, job: Job, examples: FeatureTable, pile: FeatureTable) -> tuple[NDArray, NDArray]:
    """The numbers of the examples and of the items of the pile; the classes that they came with are taken over."""
    if job.kind == PICTURES:
        keys = _picture_keys(job, examples, pile)
    else:
        keys = _table_keys(examples, pile, PILE if job.pile is None else EXAMPLES)
    for origin in dict.fromkeys((PILE, EXAMPLES, NO_CLASS, *(origin for origin, _ in keys))):
        store.take_items(origin, [name for own, name in keys if own == origin])
    numbers = store.item_numbers()
    ids = np.array([numbers[key] for key in keys], np.int64)
    labels = [*map(str, examples.label_names), *[None] * len(pile)]
    store.take_over(dict(zip(ids.tolist(), labels, strict=True)))
    return ids[: len(examples)], ids[len(examples) :]


def _table_keys(examples: FeatureTable, pile: FeatureTable, origin: str) -> list[tuple[str, str]]:
    """The origin and the name in the store of each row: the examples, which are of one origin, then the pile.

    Texts that have no name of their own are known by their text: if rows are added, removed or sorted between two
    days, each text keeps its label.
    """
    names = _unique(examples.names, pile.names)
    if pile.texts is not None and not any(map(_has_own_name, pile.names if len(pile) else examples.names)):
        names = _keys([*(examples.texts or ()), *pile.texts])
    return list(zip([origin] * len(examples) + [PILE] * len(pile), names, strict=True))


def _unique(examples: Sequence[str], pile: Sequence[str]) -> list[str]:
    """Names of rows that are all different; those of the pile are kept where examples have the same."""
    names = unique_names([printable(name) for name in (*pile, *examples)])
    return [*names[len(pile) :], *names[: len(pile)]]


def _has_own_name(name: str) -> bool:
    return re.fullmatch(r"row \d+", name) is None


def _picture_keys(job: Job, examples: FeatureTable, pile: FeatureTable) -> list[tuple[str, str]]:
    keys = []
    for name, file in zip(examples.names, examples.files or (), strict=True):
        is_of_class = job.unknown is None or job.unknown not in file.parents
        keys.append((EXAMPLES, name) if is_of_class else (NO_CLASS, str(file.relative_to(job.unknown or file))))
    for name, file in zip(pile.names, pile.files or (), strict=True):
        is_upload = job.pile is None or job.pile / name != file
        keys.append((UPLOADS, file.name) if is_upload else (PILE, name))
    return [(origin, printable(name)) for origin, name in keys]
