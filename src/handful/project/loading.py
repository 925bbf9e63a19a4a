"""Load a project: find its items on the disk, read what is stored of them, and take over labels that come with them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import numpy as np

from handful.core.arrays import at_usual_scale
from handful.features import FeatureTable
from handful.features.labels import NDArray
from handful.project.events import Store
from handful.project.items import EMBEDDINGS, TEXTS, kind_of, of_files, read_both
from handful.project.job import Job, with_uploads
from handful.project.pile import (
    EXAMPLES,
    EXPORT_PREFIX,
    MAX_NAME_CHARACTERS,
    NO_CLASS,
    PILE,
    UPLOAD_PREFIX,
    UPLOADS,
    Pile,
    Source,
)
from handful.project.state import State
from handful.project.text_items import read_text_files
from handful.utils.files import printable, unique_names
from handful.utils.text import is_blank

TEXT_KEY = "text "  # before the hash of a text, in the store


@dataclass(frozen=True, eq=False)
class Opened:
    """The items of a project as they are on the disk: its examples, then its pile. Files have no features yet."""

    places: list[tuple[str, str]]  # where each item is from, and what the store calls it; each once
    names: list[str]  # as people see them; each once, but for files
    labels: list[str | None]  # that they came with: they are taken over once
    features: NDArray | None  # [n, D], of tables of embeddings
    texts: list[str] | None
    others: Mapping[str, NDArray]  # other columns, which go into exports
    text_column: str | None
    notes: Sequence[str]
    skipped: Sequence[tuple[str, str]]  # files, and why

    @cached_property
    def row(self) -> dict[str, int]:
        """The row of each name."""
        return {name: k for k, name in enumerate(self.names)}

    def columns_of(self, name: str) -> dict[str, str]:
        """What the page shows beside a text: the other columns of its row that are not blank."""
        cells = {column: values[self.row[name]] for column, values in self.others.items() if column != self.text_column}
        return {column: str(cell) for column, cell in cells.items() if cell is not None and str(cell).strip()}


def open_items(job: Job, kind: str, project: Path) -> Opened:
    """Find the items of a project, as `handful label` does, without computing features."""
    how = replace(job.reading(lenient=True), kind=kind)
    examples, pile = map(_showable, read_both(job.examples, job.pile, how, job.unknown))
    if pile.files is not None:
        pile = with_uploads(pile, project / UPLOADS, how)
    places = item_places(job, examples, pile)
    names = _unique(examples.names, pile.names) if pile.files is None else [name for _, name in places]
    features = texts = None
    if kind == TEXTS:
        texts = [*(examples.texts or ()), *(pile.texts or ())]
    elif kind == EMBEDDINGS:
        scaled = at_usual_scale(np.concatenate([examples.features, pile.features]))
        features = np.ascontiguousarray(scaled, np.float32)
    others = {
        name: np.concatenate([examples.others.get(name, np.full(len(examples), None, object)), values])
        for name, values in pile.others.items()
    }
    return Opened(
        places, names, [*examples.label_names, *[None] * len(pile)], features, texts, others, pile.source.get("text"),
        tuple(examples.notes or pile.notes), [*examples.skipped, *pile.skipped],
    )  # fmt: skip


def _showable(items: FeatureTable) -> FeatureTable:
    """Without files that the page could not show."""
    faults: dict[int, str] = {}
    for row, (file, label) in enumerate(zip(items.files or (), items.label_names, strict=False)):
        if printable(str(file)) != str(file):
            faults[row] = "has a name that is not valid text: rename it"
        elif len(label or "") > MAX_NAME_CHARACTERS:
            faults[row] = f"is in a folder whose name has more than {MAX_NAME_CHARACTERS} characters: rename it"
    if not faults:
        return items
    skipped = [*items.skipped, *((items.names[row], reason) for row, reason in faults.items())]
    return items.take([row for row in range(len(items)) if row not in faults]).replace(skipped=skipped)


def _keys(texts: Sequence[str]) -> list[str]:
    """A hash of each text; the second row with the same text has a 2 behind it, and so on."""
    seen: dict[str, int] = {}
    keys = []
    for text in texts:
        mark = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        seen[mark] = seen.get(mark, 0) + 1
        keys.append(f"{TEXT_KEY}{mark}" + (f" {seen[mark]}" if seen[mark] > 1 else ""))
    return keys


def new_job(
    opened: Path,
    project: Path,
    before: Job | None,
    *,
    backbone: str | None = None,
    examples: Path | None = None,
    text: str | None = None,
    label: str | None = None,
) -> tuple[Job, str]:
    """What a folder or table is opened as, and what its items are. before: the job of a project that exists."""
    if not opened.exists():
        raise FileNotFoundError(
            f"there is nothing at {str(opened)!r}: give a folder of pictures or of texts, or a table"
        )
    if before is not None and not of_files(opened):
        if text is not None and text != before.text:
            was = "embeddings" if before.text is None else f"the texts in the column {before.text!r}"
            raise ValueError(
                f"this project was made with {was}: leave out --text, or keep the new work elsewhere with --project"
            )
        text, label = before.text, label or before.table.get("label")
    columns = {} if label is None else {"label": label}
    was_embedded = before is not None and text is None and not of_files(opened)
    kind = EMBEDDINGS if was_embedded else kind_of(opened, columns, text)
    if (text is not None or label is not None) and (of_files(opened) or kind != TEXTS):
        raise ValueError("--text and --label name columns of a table of texts, and this is none: leave them out")
    job = Job(
        opened if examples is None else examples, opened if examples is not None or of_files(opened) else None,
        backbone=backbone or (before.backbone if before is not None else ""), results=[project], text=text,
        table=columns,
    )  # fmt: skip
    if examples is not None and (not of_files(examples) or kind_of(examples) != kind):
        raise ValueError(
            f"{str(examples)!r}: examples are a folder of pictures beside a folder of pictures, or of .txt files "
            "beside texts"
        )
    return job, kind


def remove_leftovers(folder: Path) -> None:
    """Remove uploads and exports that a killed process did not finish. No other process has the project open."""
    for pattern in (f"{UPLOADS}/{UPLOAD_PREFIX}*", f"exports/{EXPORT_PREFIX}*"):
        for leftover in folder.glob(pattern):
            shutil.rmtree(leftover, ignore_errors=True)


def load(store: Store, opened: Opened) -> State:
    """The state of a project as it is stored, for the items that are there now."""
    ids = place_items(store, opened.places, opened.labels)
    origins = [origin for origin, _ in opened.places]
    pile = Pile.of(list(zip(ids.tolist(), origins, opened.names, strict=True)), opened.texts)
    skipped = list(opened.skipped)
    if empty := [row for row, text in enumerate(opened.texts or ()) if is_blank(text)]:
        pile.usable[empty] = False
        store.skip({int(ids[row]): "has no text" for row in empty})
        skipped += [(pile.names[row], "has no text") for row in empty]
    if opened.features is not None:
        pile = pile.with_room(opened.features.shape[1])
        pile.features[:], pile.ready[:] = opened.features, True
    return State.of(store, pile, tuple((printable(name), reason) for name, reason in skipped))


def uploaded_texts(source: Source, names: Sequence[str]) -> list[str] | None:
    """The texts of files that were uploaded; None where items are no texts."""
    if source.kind != TEXTS:
        return None
    items = read_text_files([source.uploads / name for name in names])
    texts = dict(zip(items.files or (), items.texts or (), strict=True))
    return [texts.get(source.uploads / name, "") for name in names]


def place_items(store: Store, places: Sequence[tuple[str, str]], labels: Sequence[str | None]) -> NDArray:
    """The numbers of the items of a project, which are in these places; the classes they came with are taken over."""
    for origin in (PILE, UPLOADS, EXAMPLES, NO_CLASS):
        store.take_items(origin, [name for own, name in places if own == origin])
    numbers = store.item_numbers()
    ids = np.array([numbers[place] for place in places], np.int64)
    store.take_over(dict(zip(ids.tolist(), labels, strict=True)))
    return ids


def item_places(job: Job, examples: FeatureTable, pile: FeatureTable) -> list[tuple[str, str]]:
    """Where each item is from, and its name in the store. Texts without a name are known by their text."""
    names = _unique(examples.names, pile.names)
    if pile.texts is not None and not any(map(_has_own_name, pile.names if len(pile) else examples.names)):
        names = _keys([*(examples.texts or ()), *pile.texts])
    origins = [PILE if job.pile is None else EXAMPLES] * len(examples) + [PILE] * len(pile)
    for row, file in enumerate(examples.files or ()):
        names[row] = printable(examples.names[row])
        if job.unknown is not None and job.unknown in file.parents:
            origins[row], names[row] = NO_CLASS, printable(str(file.relative_to(job.unknown)))
    for row, (name, file) in enumerate(zip(pile.names, pile.files or (), strict=False), len(examples)):
        names[row] = printable(name)
        if job.pile is None or file not in (job.pile, job.pile / name):
            origins[row], names[row] = UPLOADS, file.name
    return list(zip(origins, names, strict=True))


def _unique(examples: Sequence[str], pile: Sequence[str]) -> list[str]:
    """Names of rows that are all different; those of the pile are kept where examples have the same."""
    names = unique_names([printable(name) for name in (*pile, *examples)])
    return [*names[len(pile) :], *names[: len(pile)]]


def _has_own_name(name: str) -> bool:
    return re.fullmatch(r"row \d+", name) is None
