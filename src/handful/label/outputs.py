"""What a labelled pile becomes on disk: tables, the model, the report, and on request exports and sorted folders.

Everything is made in a scratch folder beside its place and moved there at the end: a full disk or a Ctrl-C leaves
no half-written file, and earlier results stay as they were.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from errno import EIO
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from handful.features.arrow_table import column_array
from handful.features.parts import part_name, part_numbers, read_note
from handful.features.table import free_name
from handful.label import exports
from handful.label.labelling import Labelled
from handful.label.pile_report import write_report
from handful.label.record import RECORD, Job, record_of
from handful.label.sorting import check_places, check_sorting, plan_places, sort_pictures
from handful.label.summary import Answers, marked
from handful.utils import csv_file as csvfile
from handful.utils.files import printable
from handful.utils.interrupts import cleanup

OWN = ("labels.csv", "labels.parquet", "model.safetensors", "report.html", RECORD)
LABELS = "labels"  # the folder of labels in parts
HOLDS_LABELS = {"holds": "labels"}  # the note of such a part
SORTED = "sorted"  # the folder of sorted pictures


def check_output(folder: Path, overwrite: bool, formats: Sequence[str] = (), sort: str | None = None) -> None:
    """Say before the work begins if its results would replace others, or could not be written."""
    if strange := [name for name in formats if name not in exports.FORMATS]:
        raise ValueError(f"there is no export {strange[0]!r}; there are: {', '.join(exports.FORMATS)}")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is a file: give a folder for the results")
    there = [name for name in (*OWN, *(f"{name}.json" for name in formats)) if os.path.lexists(folder / name)]
    there += [LABELS] * holds_labels(folder / LABELS)
    if there and not overwrite:
        raise ValueError(
            f"{str(folder / there[0])!r} is there already: give another folder, or --overwrite to replace these results"
        )
    if sort is not None:
        check_sorting(sort, folder / SORTED)
    _check_writable(folder)


def check_file(path: Path, overwrite: bool, suffixes: Sequence[str]) -> None:
    """The same for results that are a single file."""
    if path.suffix.lower() not in suffixes:
        known = [suffix or "no suffix" for suffix in suffixes]
        raise ValueError(f"{str(path)!r}: give a name that ends in {', '.join(known[:-1])} or {known[-1]}")
    if path.is_dir() and path.suffix:
        raise ValueError(f"{str(path)!r} is a folder: give the name of a file")
    if os.path.lexists(path) and not overwrite:
        raise ValueError(f"{str(path)!r} is there already: give another name, or --overwrite to replace it")
    _check_writable(path.parent)


def write_outputs(
    labelled: Labelled,
    folder: Path,
    *,
    formats: Iterable[str] = (),
    sort: str | None = None,
    title: str = "A pile, labelled",
    job: Job | None = None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> dict[str, Path]:
    """Write all of it; gives the files by name. formats: any of `exports.FORMATS`; sort: copy, link or move.

    job: what was asked, for `handful promote` to ask again.
    """
    formats = list(formats)
    check_output(folder, True, formats, sort)
    places = None
    if sort is not None:
        places = plan_places(labelled.pile, marked(labelled), folder / SORTED)
        check_places(labelled.pile, places, folder / SORTED, sort)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".handful-", dir=folder, ignore_cleanup_errors=True) as scratch:
            made = Path(scratch)
            with cleanup(lambda: rmtree(scratch)):
                for name in ("labels.csv", "labels.parquet"):
                    _write_rows(labelled, made / name)
                write_json(record_of(labelled, job), made / RECORD)
                if labelled.examples is not None:
                    labelled.model.save(made / "model.safetensors")
                write_report(labelled, made / "report.html", title, progress)
                for name in formats:
                    file, content = exports.FORMATS[name](labelled, places if sort == "move" else None)
                    write_json(content, made / file)
            files = {}
            for path in sorted(made.iterdir()):
                files[path.name] = folder / path.name
                os.replace(path, files[path.name])
        remove_labels(folder / LABELS)  # of the results that these replace
    except OSError as error:
        raise not_written(error, folder) from None
    if sort is not None and places is not None:
        files["sorted"] = sort_pictures(labelled.pile, places, folder / SORTED, sort)
    return files


def table_of(labelled: Labelled) -> Any:
    """One row an item (a `pyarrow.Table`): path, label, closest class, confidence, ...

    confidence: in the label, a probability. p_unknown: calibrated, so that about 80 % of those with 0.8 are unknown
    (only where a pile was labelled, by a method with probabilities). outlier_score: the method's own number, which the
    label is decided by. group: of an unknown. nearest_1, ...: the most similar examples. p_<class>: P(class | known).
    """
    import pyarrow as pa

    shown: dict[str, Any] = {}
    if labelled.examples is not None:
        shown["group"] = pa.array([k or None for k in group_numbers(labelled)], pa.int64())
    nearest = labelled.nearest
    if nearest is not None and labelled.examples is not None:
        names = np.array([printable(name) for name in labelled.examples.names], dtype=object)
        shown |= {f"nearest_{k + 1}": names[nearest[:, k]] for k in range(nearest.shape[1])}
    return table_of_answers(labelled, labelled.pile.names, shown, labelled.pile.others)


def table_of_answers(
    answers: Answers,
    names: Sequence[str],
    beside: Mapping[str, Any] | None = None,
    others: Mapping[str, np.ndarray] | None = None,
) -> Any:
    """What is said of each item alone, as in `table_of`, with the columns `beside` that are of the whole pile.

    others: the columns of the items' own table, which are carried along.
    """
    import pyarrow as pa

    shown: dict[str, Any] = {
        "path": pa.array([printable(name) for name in names], pa.string()),
        "label": pa.array(marked(answers), pa.string()),
        "closest": pa.array([str(name) for name in answers.closest.tolist()], pa.string()),
        "confidence": answers.confidence.astype(np.float64),
    }
    if (p := answers.p_unknown) is not None:
        shown["p_unknown"] = p
    shown["outlier_score"] = answers.scores.astype(np.float64)
    shown |= beside or {}
    for k, name in enumerate(answers.model.classes_.tolist()):
        shown[f"p_{name}"] = answers.probabilities[:, k].astype(np.float64)
    for name, values in (others or {}).items():
        shown[free_name(printable(name), shown)] = column_array(values, name)
    return pa.table(shown)


def group_numbers(labelled: Labelled) -> list[int]:
    """The group of each item, 0 where it is in none."""
    numbers = np.zeros(len(labelled.pile), int)
    for group in labelled.groups:
        numbers[group.items] = group.number
    return numbers.tolist()


def write_table(labelled: Labelled, path: Path) -> None:
    """As .csv or .parquet, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".handful-", dir=path.parent, ignore_cleanup_errors=True) as scratch:
            made = Path(scratch, path.name)
            with cleanup(lambda: rmtree(scratch)):
                _write_rows(labelled, made)
            os.replace(made, path)
    except OSError as error:
        raise not_written(error, path) from None


def holds_labels(folder: Path) -> bool:
    """Whether it is a folder of labels in parts, as written here: one of somebody's features is none."""
    return folder.is_dir() and (read_note(folder / part_name(0)) or {}).get("holds") == HOLDS_LABELS["holds"]


def remove_labels(folder: Path) -> None:
    """Remove labels in parts; what else somebody has put beside them stays."""
    if not holds_labels(folder):
        return
    for number in reversed(part_numbers(folder)):  # the first, which says whose they are, goes last
        (folder / part_name(number)).unlink()
    with suppress(OSError):
        folder.rmdir()


def write_json(content: Any, path: Path) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n", "utf-8")


def _write_rows(labelled: Labelled, path: Path) -> None:
    from pyarrow import parquet

    write = csvfile.write_table if path.suffix.lower() == ".csv" else parquet.write_table
    write(table_of(labelled), path)


def _check_writable(folder: Path) -> None:
    """Nothing is left of the check: a run that fails later makes no empty folder."""
    there = next(part for part in (folder, *folder.absolute().parents) if os.path.lexists(part))
    try:
        with TemporaryDirectory(prefix=".handful-", dir=there):
            pass
    except OSError as error:
        raise OSError(error.errno, f"results cannot be written there: {error.strerror}", str(folder)) from None


def not_written(error: OSError, where: Path) -> OSError:
    """Its own message would name a scratch file, or be Arrow's."""
    number = error.errno or EIO
    return OSError(number, f"the results were not written: {os.strerror(number)}", str(where))
