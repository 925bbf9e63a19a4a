"""The labels of a project as files: labels by a person, and for other items the decisions of the run."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from handful.core.answers import Answers
from handful.core.checks import UNKNOWN_NAME
from handful.features import FeatureTable
from handful.project.export_formats import FORMATS
from handful.project.live import LiveProject, formats_of
from handful.project.outputs import table_of_answers, with_others, write_json, write_rows
from handful.project.pile import EXAMPLES, EXPORT_PREFIX, PILE, Source
from handful.project.refusal import Refusal
from handful.project.runs import NONE, UNKNOWN
from handful.project.sorting import COPY_BYTES, plan_places, sort_files
from handful.project.state import State
from handful.project.text_items import FILE_COLUMN
from handful.utils.columns import ColumnTable, masked_numbers, object_array
from handful.utils.files import is_within


def checked_place(source: Source, typed: str) -> Path:
    """The folder that an export makes: new, in the home folder or beside what was opened, and not among items."""
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
MISSING_FILE = "missing.txt"  # lists the files that are gone


def export(project: LiveProject, formats: Sequence[str], folder: str | None = None) -> dict[str, Any]:
    """Write labels to a new folder, in all formats or in none; say what was written and how many files are gone."""
    place = None if folder is None else checked_place(project.source, folder)
    with _scratch(project.folder / "exports" if place is None else place.parent) as scratch:
        missing = _write(project, formats, scratch / "made")
        place = place or _new_folder(scratch.parent)
        if place.is_dir():
            place.rmdir()  # it is empty
        os.rename(scratch / "made", place)
    names = sorted(path.name + "/" * path.is_dir() for path in place.iterdir())
    return {"folder": str(place.resolve()), "files": names, "missing": len(missing)}


def download(project: LiveProject, formats: Sequence[str]) -> tuple[str, Iterator[bytes]]:
    """The name of a file and its content: what `export` writes as a .zip, unless one format is one file."""
    with ExitStack() as stack:
        scratch = stack.enter_context(_scratch(project.folder / "exports"))
        missing = _write(project, formats, scratch / "made")
        files = sorted(path for path in (scratch / "made").rglob("*") if path.is_file())
        if len(files) == 1 and SORTED not in formats:
            return files[0].name, _blocks(files[0], stack.pop_all())
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", project.source.opened.resolve().stem)[:80].strip("._") or "items"
        with zipfile.ZipFile(scratch / "archive", "w", strict_timestamps=False) as archive:
            for path in files:
                is_table = path.parent == scratch / "made"
                compression = zipfile.ZIP_DEFLATED if is_table else zipfile.ZIP_STORED  # pictures are compressed
                archive.write(path, _portable(path.relative_to(scratch / "made")), compression)
                path.unlink()  # so that a large pile is there only once
            if missing:
                archive.writestr(MISSING_FILE, "".join(f"{_portable(place)}\n" for place in missing))
        return f"{name}-labels.zip", _blocks(scratch / "archive", stack.pop_all())


def _portable(place: Path) -> str:
    """A path in an archive: a name of one file here could be a path on the machine where it is unpacked."""
    return re.sub(r"[\\:\x00-\x1f]", "_", place.as_posix())


@contextmanager
def _scratch(above: Path) -> Iterator[Path]:
    """A new folder for files that are not complete."""
    above.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=EXPORT_PREFIX, dir=above, ignore_cleanup_errors=True) as scratch:
        yield Path(scratch)


def _blocks(path: Path, until: ExitStack) -> Iterator[bytes]:
    with until, path.open("rb") as file:
        while block := file.read(COPY_BYTES):
            yield block


def _write(project: LiveProject, formats: Sequence[str], folder: Path) -> list[Path]:
    """Write the labels in all formats to a new folder; return the places, in it, of files that could not be copied."""
    offered, state = formats_of(project.source), project.state
    for name in formats:
        if name == "parquet" and name not in offered:
            raise Refusal("a Parquet file needs PyArrow: pip install 'handful[parquet]', or export csv", 409)
        if name not in offered:
            raise Refusal(f"{name} is not for these {project.source.kind}: choose among {', '.join(offered)}", 409)
    folder.mkdir()
    rows = _rows(state)
    labelled = rows[(state.labels[rows] != NONE) | (state.row_answers.decision[rows] != NONE)]
    items, answers = _items(project, state, labelled), answers_of(state, labelled)
    if set(formats) & set(TABLES):
        table = _table(project, state, rows, labelled, answers)
    missing: list[Path] = []
    for name in dict.fromkeys(formats):
        if name in TABLES:
            write_rows(table, folder / f"labels.{name}")
        elif name == SORTED:
            sort_files(items, plan_places(items, answers.labels.tolist(), folder / SORTED), "copy", missing)
        else:
            method = "a person" if state.run is None else state.run.facts["method"]
            file, content = FORMATS[name](items, answers, method, _class_names(state))
            write_json(content, folder / file)
    return [place.relative_to(folder) for place in missing]


def answers_of(state: State, rows: np.ndarray) -> Answers:
    """The answers for rows that a person labelled, which are certain, or that the run decided."""
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
    """One row for each item, by name: its label, who gave it, and the answer in numbers."""
    pile, labels = state.pile, state.labels[labelled]
    names = {NONE: "", UNKNOWN: UNKNOWN_NAME} | {number: name for number, (name, _) in state.classes.items()}
    closest = [None if code == UNKNOWN else str(name) for code, name in zip(labels, answers.closest, strict=True)]
    columns: dict[str, Any] = {
        "closest": closest,
        "outlier_score": np.ma.array(answers.outlier_scores, np.float64, mask=labels != NONE),  # none of a person's
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
    return with_others(table, own)


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
