"""The labels of a project as files: labels by a person, and for other items the decisions of the run."""

from __future__ import annotations

import os
import re
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np

from handful.core.answers import Answers
from handful.core.checks import UNKNOWN_NAME
from handful.features import FeatureTable
from handful.features.feature_columns import one_kind
from handful.features.table import free_name
from handful.project.export_formats import FORMATS
from handful.project.live import LiveProject, formats_of
from handful.project.outputs import table_of_answers, write_json, write_rows
from handful.project.pile import EXAMPLES, EXPORT_PREFIX, PILE, Source
from handful.project.refusal import Refusal
from handful.project.runs import NONE, UNKNOWN
from handful.project.sorting import plan_places
from handful.project.state import State
from handful.project.text_items import FILE_COLUMN
from handful.utils.columns import ColumnTable, masked_numbers, object_array
from handful.utils.files import is_within, printable


def checked_place(source: Source, typed: str) -> Path:
    """The folder that an export makes; Refusal if it may not.

    It must be below the user's home folder or beside what was opened, with all links followed. It must not exist, or be
    empty, and be no link. It must not be among the opened files or the examples: copies would become items.
    """
    if not typed.isprintable():
        raise Refusal("the folder has characters that cannot be read: type it again", 422)
    path = Path(source.opened.absolute().parent, os.path.expanduser(typed))
    above = os.path.realpath(path.parent)
    place = Path(above, path.name)
    if path.name in ("", "..") or not os.path.isdir(above):
        raise Refusal("there is no folder to make this one in: make it first, or type another one", 404)
    roots = [os.path.realpath(os.path.expanduser("~")), os.path.dirname(os.path.realpath(source.opened))]
    if not any(is_within(above, root) for root in roots):
        raise Refusal("an export goes into your home folder, or beside what was opened: type a folder there", 403)
    for origin, root in source.roots.items():
        is_pile = origin == EXAMPLES or (origin == PILE and not source.is_table)
        if is_pile and is_within(str(place), os.path.realpath(root)):
            raise Refusal(
                f"this folder is among the {source.kind}, and its copies would become items: type another one", 409
            )
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        raise Refusal("there is a file or a link of this name: type another folder", 409)
    if place.is_dir() and any(place.iterdir()):
        raise Refusal("this folder is not empty, and an export overwrites nothing: type a new one", 409)
    return place


TABLES = ("csv", "parquet")
SORTED = "sorted"
COPY_BYTES = 2**20  # that are read at a time
SortedFiles = list[tuple[Path, Callable[[], int]]]  # where a copy goes, `<label>/<its name>`, and what opens the file


def export(project: LiveProject, formats: Sequence[str], folder: str | None = None) -> dict[str, Any]:
    """Write labels to a new folder, in all formats or in none.

    Parameters
    ----------
    project : LiveProject
        The project.
    formats : sequence of str
        "csv", "parquet", any of `export_formats.FORMATS`, or "sorted": copies of the files in a folder for each label.
    folder : str, optional
        A folder that a person typed, see `checked_place`. By default a new one in the folder of the project.

    Returns
    -------
    dict
        The folder, the names of the files in it, and how many files could not be copied.
    """
    if folder is None:
        above = project.folder / "exports"
        above.mkdir(parents=True, exist_ok=True)
    else:
        place = checked_place(project.source, folder)
        above = place.parent
    with TemporaryDirectory(prefix=EXPORT_PREFIX, dir=above, ignore_cleanup_errors=True) as scratch:
        unfinished = Path(scratch, "made")
        unfinished.mkdir()
        files = _write_tables(project, formats, unfinished)
        missing = sum(not _copy(open_file, unfinished / SORTED / target) for target, open_file in files)
        place = _new_folder(above) if folder is None else place
        if place.is_dir():
            place.rmdir()  # it is empty
        os.rename(unfinished, place)
    names = sorted(path.name + "/" * path.is_dir() for path in place.iterdir())
    return {"folder": str(place.resolve()), "files": names, "missing": missing}


def _write_tables(project: LiveProject, formats: Sequence[str], folder: Path) -> SortedFiles:
    """Write the files of all formats that are no folders; return what goes into the folder of sorted files."""
    offered, state = formats_of(project.source), project.state
    for name in formats:
        if name == "parquet" and name not in offered:
            raise Refusal("a Parquet file needs PyArrow: pip install 'handful[parquet]', or export csv", 409)
        if name not in offered:
            raise Refusal(f"{name} is not for these {project.source.kind}: choose among {', '.join(offered)}", 409)
    rows = _rows(state)
    labelled = rows[(state.labels[rows] != NONE) | (state.row_answers.decision[rows] != NONE)]
    items, answers = _items(project, state, labelled), answers_of(state, labelled)
    if set(formats) & set(TABLES):
        table = _table(project, state, rows, labelled, answers)
    for name in dict.fromkeys(formats):
        if name in TABLES:
            write_rows(table, folder / f"labels.{name}")
        elif name != SORTED:
            method = "a person" if state.run is None else state.run.facts["method"]
            file, content = FORMATS[name](items, answers, method, _class_names(state))
            write_json(content, folder / file)
    if SORTED not in formats:
        return []
    openers = [partial(project.source.open, state.pile.origins[i], state.pile.names[i]) for i in labelled.tolist()]
    return list(zip(plan_places(items, answers.labels.tolist(), Path()), openers, strict=True))


def _copy(open_file: Callable[[], int], target: Path) -> bool:
    """Copy a file to a new file; return whether it is there."""
    try:
        descriptor = open_file()
    except (OSError, ValueError):
        return False
    with open(descriptor, "rb") as file:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as copy:
            shutil.copyfileobj(file, copy, COPY_BYTES)
    return True


def answers_of(state: State, rows: np.ndarray) -> Answers:
    """The answers for rows that have a label. Labels by a person are certain; the others are answers of the run.

    Parameters
    ----------
    state : State
        The state of the project.
    rows : int array [n]
        Rows of the pile that a person labelled or the run decided.

    Returns
    -------
    Answers
        The outlier score of an item that a person labelled is the lowest or the highest of all. Classes that were
        deleted after the run keep their columns, under names that no label has.
    """
    labels, run = state.labels[rows], state.run
    by_person = labels != NONE
    run_classes = [] if run is None else run.answers.classes.tolist()
    numbers = list(dict.fromkeys([*state.classes, *run_classes])) or [NONE]
    names = [state.classes[n][0] if n in state.classes else f"(deleted class {n})" for n in numbers]
    column = {number: k for k, number in enumerate(numbers)}
    probabilities, scores = np.zeros((len(rows), len(numbers))), np.zeros(len(rows))
    if run is not None:
        decided = np.flatnonzero(~by_person)
        places = state.row_answers.place[rows[decided]]
        probabilities[decided[:, None], [column[n] for n in run_classes]] = run.answers.class_probabilities[places]
        scores[decided] = run.answers.outlier_scores[places]
    named = np.flatnonzero(labels > UNKNOWN)
    probabilities[named, [column[n] for n in labels[named].tolist()]] = 1.0

    is_probability = run is None or run.answers.is_probability
    threshold = 0.5 if run is None else run.threshold
    pile_scores = np.array([0.0, 1.0]) if run is None or is_probability else run.answers.outlier_scores
    lowest, highest = min(pile_scores.min(), threshold), max(pile_scores.max(), np.nextafter(threshold, np.inf))
    labelled_unknown = labels == UNKNOWN
    return Answers(
        probabilities,
        np.where(by_person, np.where(labelled_unknown, highest, lowest), scores),
        np.array(names, dtype=object),
        threshold,
        is_probability=is_probability,
        pile_scores=pile_scores,
        p_unknown=np.where(by_person, labelled_unknown.astype(np.float64), state.row_answers.p_unknown[rows]),
    )


def _table(project: LiveProject, state: State, rows: np.ndarray, labelled: np.ndarray, answers: Answers) -> ColumnTable:
    """One row for each item, by name: label ("" where there is none), who gave it, and the answer in numbers.

    Rows of a table of texts keep all their columns, also those that have no text.
    """
    pile, labels = state.pile, state.labels[labelled]
    names = {NONE: "", UNKNOWN: UNKNOWN_NAME} | {number: name for number, (name, _) in state.classes.items()}
    closest = [None if code == UNKNOWN else str(name) for code, name in zip(labels, answers.closest, strict=True)]
    columns: dict[str, Any] = {
        "closest": closest,
        "outlier_score": np.ma.array(
            answers.outlier_scores, np.float64, mask=labels != NONE
        ),  # a label by a person has no score
        "labelled_by": np.where(labels != NONE, "person", "handful").tolist(),
        "decision": [names[code] for code in state.row_answers.decision[labelled].tolist()],
        "group": masked_numbers([k or None for k in state.row_answers.group[labelled].tolist()], np.int64),
    }
    table = table_of_answers(answers, [pile.names[i] for i in labelled.tolist()], columns, _class_names(state))
    if project.source.is_table and pile.texts is not None:
        rows = np.flatnonzero([origin == PILE for origin in pile.origins])
    others = rows[~np.isin(rows, labelled)]
    blank: dict[str, list[Any]] = {name: [""] * len(others) for name in ("label", "labelled_by", "decision")}
    blank["path"] = [pile.names[i] for i in others.tolist()]
    whole = {}  # the answers, and blank rows below them
    for name, values in table.items():
        more = blank.get(name, [None] * len(others))
        if values.dtype == object:
            whole[name] = np.concatenate([values, object_array(more)])
        else:
            whole[name] = np.ma.concatenate([values, masked_numbers(more, values.dtype)])  # type: ignore[no-untyped-call]
    rows = np.concatenate([labelled, others])
    order = np.argsort(pile.rank[rows])
    table, rows = ColumnTable(whole).take(order), rows[order]
    own: dict[str, Any] = {}  # the other columns of the opened table, or the texts of files
    if project.source.is_table:
        places = [project.table.row[pile.names[i]] for i in rows.tolist()]
        own = {name: values[places] for name, values in project.table.others.items()}
    elif pile.texts is not None:
        own = {FILE_COLUMN: np.array([pile.texts[i] for i in rows.tolist()], object)}
    for name, values in own.items():
        table[free_name(printable(name), table)] = one_kind(values, name)
    return table


def _items(project: LiveProject, state: State, rows: np.ndarray) -> FeatureTable:
    pairs = [(state.pile.origins[i], state.pile.names[i]) for i in rows.tolist()]
    names, features = [name for _, name in pairs], np.empty((len(rows), 0))
    texts = None if state.pile.texts is None else [state.pile.texts[i] for i in rows.tolist()]
    if project.source.is_table and texts is not None:
        return FeatureTable(features, paths=names, texts=texts)
    files = [project.source.file(origin, name) for origin, name in pairs]
    return FeatureTable(features, paths=names, files=files, opener=project.source.opener(pairs), texts=texts)


def _class_names(state: State) -> list[str]:
    return [name for name, _ in state.classes.values()]


def _rows(state: State) -> np.ndarray:
    """The rows of usable items, in the order of names; examples from another folder are no part of the pile."""
    rows = np.argsort(state.pile.rank)
    is_item = state.pile.usable & np.array([origin != EXAMPLES for origin in state.pile.origins], bool)
    return np.asarray(rows[is_item[rows]])


def _new_folder(folder: Path) -> Path:
    """A folder that does not exist yet: the time, with a number if needed."""
    time, k = datetime.now().strftime("%Y-%m-%dT%H-%M-%S"), 1
    place = folder / time
    while place.exists():
        k += 1
        place = folder / f"{time}-{k}"
    return place


MISSING_FILE = "missing.txt"  # lists the files that are gone


def download(project: LiveProject, formats: Sequence[str]) -> tuple[str, Iterator[bytes]]:
    """The name of a file and its content: a .zip, unless one format is one file."""
    folder = project.folder / "exports"
    folder.mkdir(parents=True, exist_ok=True)
    scratch = TemporaryDirectory(prefix=EXPORT_PREFIX, dir=folder, ignore_cleanup_errors=True)
    try:
        sorted_files = _write_tables(project, formats, Path(scratch.name))
        tables = sorted(Path(scratch.name).iterdir())
    except BaseException:
        scratch.cleanup()
        raise
    if len(tables) == 1 and SORTED not in formats:
        return tables[0].name, _with_cleanup(scratch, _blocks(tables[0]))
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", project.source.opened.resolve().stem)[:80].strip("._") or "items"
    return f"{name}-labels.zip", _with_cleanup(scratch, _archive(tables, sorted_files))


def _with_cleanup(scratch: TemporaryDirectory[str], blocks: Iterator[bytes]) -> Iterator[bytes]:
    with scratch:
        yield from blocks


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(COPY_BYTES):
            yield block


class _Sink:
    """A file that can only be written; `take` gives what was written since."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data


def _archive(tables: Sequence[Path], sorted_files: SortedFiles) -> Iterator[bytes]:
    sink, missing = _Sink(), list[str]()
    with zipfile.ZipFile(sink, "w") as archive:  # type: ignore[call-overload]
        for path in tables:
            with path.open("rb") as file:
                yield from _entry(archive, sink, path.name, file, zipfile.ZIP_DEFLATED)
        for place, open_file in sorted_files:
            # A name of one file here could be a path on the machine where the archive is unpacked
            name = re.sub(r"[\\:\x00-\x1f]", "_", Path(SORTED, place).as_posix())
            try:
                descriptor = open_file()
            except (OSError, ValueError):
                missing.append(name)
                continue
            with open(descriptor, "rb") as file:
                yield from _entry(archive, sink, name, file, zipfile.ZIP_STORED)  # a picture is compressed already
        if missing:
            archive.writestr(MISSING_FILE, "".join(f"{name}\n" for name in missing))
    yield sink.take()


def _entry(archive: zipfile.ZipFile, sink: _Sink, name: str, file: BinaryIO, compression: int) -> Iterator[bytes]:
    """Add a file to the archive, and give the bytes that this makes."""
    info = zipfile.ZipInfo(name, time.localtime()[:6])
    info.compress_type = compression
    with archive.open(info, "w", force_zip64=True) as entry:
        while block := file.read(COPY_BYTES):
            entry.write(block)
            yield sink.take()
    yield sink.take()
