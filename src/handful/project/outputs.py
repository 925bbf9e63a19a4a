"""Write the results of a labelled pile: tables, the model, the report, and if asked for, exports and sorted files.

All files are written to a scratch folder and moved to their place at the end. After a full disk or Ctrl-C there is no
half-written file, and earlier results are unchanged. If a run is killed, its scratch folder stays until the next run.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import EIO
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import numpy as np

import handful
from handful.core.answers import Answers
from handful.features import FeatureTable
from handful.features.feature_columns import one_kind
from handful.features.parquet_file import arrow_table
from handful.features.parts import part_name, part_numbers, read_note
from handful.features.table import free_name
from handful.project import export_formats
from handful.project.database import FILE
from handful.project.items import Progress, silent
from handful.project.job import Job, job_entries
from handful.project.labelling import Labelled
from handful.project.runs import MAX_ASKED_ITEMS
from handful.project.sorting import check_replaced, check_sorting, plan_places, sort_files, sorted_files
from handful.project.summary import EXPECTED_HEAD, expected_in_words, expected_rows, label_texts, total_of
from handful.report.contents import Expected, Figures, Run, make_report
from handful.report.html_page import write
from handful.solving.telling_words import telling_words
from handful.utils import csv_file
from handful.utils.columns import ColumnTable, masked_numbers
from handful.utils.extras import has_pyarrow, need_pyarrow
from handful.utils.files import in_brief, printable
from handful.utils.interrupts import cleanup
from handful.utils.shares_in_words import is_low

KNOWN_WELL = 0.2  # an interval of the share this wide: probabilities were seen to hold within single piles
RECORD = "results.json"
RESULT_FILES = ("labels.csv", "labels.parquet", "model.safetensors", "report.html", RECORD, FILE)
LABEL_FOLDER = "labels"  # the folder of labels in parts
HOLDS_LABELS = {"holds": "labels"}  # the metadata of such a part
SORTED_FOLDER = "sorted"  # the folder of sorted files
SCRATCH_FOLDER = ".handful-unfinished"
CORRECTIONS_FILE = "corrections.json"  # as the report calls what it gives
NOT_EXPECTED = "This method gives no probabilities: how many labels are right is not known before a check."
MAX_MARKED_WORDS = 15  # of a class, that the report marks in its texts


# ---- tables


def table_of(labelled: Labelled) -> ColumnTable:
    """A labelled pile as a table: its answers, groups and most similar examples."""
    columns: dict[str, Any] = {}
    nearest = labelled.nearest
    if nearest is not None and labelled.examples is not None:
        group_of = {item: group for group in labelled.groups for item in group.items.tolist()}
        groups = [group_of.get(row) for row in range(len(labelled.pile))]
        columns["group"] = masked_numbers([None if group is None else group.number for group in groups], np.int64)
        if any(group.words for group in labelled.groups):
            columns["group_name"] = [None if group is None else group.name for group in groups]
        names = np.array([printable(name) for name in labelled.examples.names], dtype=object)
        for k in range(nearest.shape[1]):
            columns[f"nearest_{k + 1}"] = names[nearest[:, k]]
            columns[f"nearest_{k + 1}"][labelled.without_text] = None
    return table_of_answers(labelled, labelled.pile.names, columns, others=labelled.pile.others)


def table_of_answers(
    answers: Answers,
    names: Sequence[str],
    columns: Mapping[str, Any] | None = None,
    classes: Sequence[str] | None = None,
    others: Mapping[str, np.ndarray] | None = None,
) -> ColumnTable:
    """The answers for named items as a table, as docs/reference/outputs.md describes it; `columns` may replace some."""
    table: dict[str, Any] = {
        "path": [printable(name) for name in names],
        "label": label_texts(answers),
        "closest": [str(name) for name in answers.closest.tolist()],
        "confidence": answers.confidence.astype(np.float64),
    }
    if (p := answers.p_unknown) is not None:
        table["p_unknown"] = p.astype(np.float64)
    table["outlier_score"] = answers.outlier_scores.astype(np.float64)
    table |= columns or {}
    probabilities = answers.class_probabilities.astype(np.float64)
    for k, name in enumerate(answers.classes.tolist()):
        if classes is None or name in classes:
            table[f"p_{name}"] = probabilities[:, k]
    return with_others(ColumnTable(table), others or {})


def with_others(table: ColumnTable, others: Mapping[str, np.ndarray]) -> ColumnTable:
    """A table with more columns at its end; one whose name is taken gets a number."""
    for name, values in others.items():
        table |= ColumnTable({free_name(printable(name), table): one_kind(values, name)})
    return table


def write_rows(table: ColumnTable, path: Path) -> None:
    """Write a table as .csv or .parquet, by the suffix of the path."""
    if path.suffix.lower() == ".csv":
        csv_file.write_table(table, path)
        return
    need_pyarrow("a Parquet file")
    from pyarrow import parquet

    parquet.write_table(arrow_table(table), path)


def table_files() -> list[str]:
    """The files of labels that can be written: labels.parquet only if PyArrow is installed."""
    return ["labels.csv", *["labels.parquet"] * has_pyarrow()]


def write_table(labelled: Labelled, path: Path) -> None:
    """Write a table of labels as .csv or .parquet, completely or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".handful-", dir=path.parent, ignore_cleanup_errors=True) as scratch:
            unfinished = Path(scratch, path.name)
            with cleanup(lambda: rmtree(scratch)):
                write_rows(table_of(labelled), unfinished)
            os.replace(unfinished, path)
    except OSError as error:
        raise not_written(error, path) from None


def write_json(content: Any, path: Path) -> None:
    """Write JSON in ASCII, with a line for each entry."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n", "utf-8")


# ---- checks before the work begins


def check_output(folder: Path, overwrite: bool, formats: Sequence[str] = (), sort: str | None = None) -> None:
    """Raise an error if the results of a run would replace others or cannot be written."""
    if unknown_formats := [name for name in formats if name not in export_formats.FORMATS]:
        raise ValueError(f"there is no export {unknown_formats[0]!r}; there are: {', '.join(export_formats.FORMATS)}")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is a file: give a folder for the results")
    names = (*RESULT_FILES, *(f"{name}.json" for name in formats))
    existing = [name for name in names if os.path.lexists(folder / name)]
    existing += [LABEL_FOLDER] * holds_labels(folder / LABEL_FOLDER)
    if sort is not None:
        check_sorting(sort, folder / SORTED_FOLDER)
        existing += [SORTED_FOLDER] * bool(sorted_files(folder / SORTED_FOLDER))
    if existing and not overwrite:
        raise ValueError(
            f"{str(folder / existing[0])!r} exists already: give another folder, or --overwrite to replace the results"
        )
    _check_writable(folder)


def check_file(path: Path, overwrite: bool, suffixes: Sequence[str]) -> None:
    """The same for results that are a single file."""
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"{str(path)!r}: give a name that ends in {', '.join(suffixes[:-1])} or {suffixes[-1]}")
    if path.suffix.lower() == ".parquet":
        need_pyarrow(f"{path.name!r}, a Parquet file,")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder: give the name of a file")
    if os.path.lexists(path) and not overwrite:
        raise ValueError(f"{str(path)!r} exists already: give another name, or --overwrite to replace it")
    _check_writable(path.parent)


def _check_writable(folder: Path) -> None:
    """The check leaves nothing behind: a run that fails later makes no empty folder."""
    existing = next(part for part in (folder, *folder.absolute().parents) if os.path.lexists(part))
    try:
        with TemporaryDirectory(prefix=".handful-", dir=existing):
            pass
    except OSError as error:
        raise OSError(error.errno, f"results cannot be written there: {error.strerror}", str(folder)) from None


def need_project(folder: Path) -> None:
    """Raise an error if a folder holds no project."""
    if is_project(folder):
        return
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {in_brief(folder)}: give one that `handful label` wrote")
    if holds_labels(folder / LABEL_FOLDER):
        raise ValueError(
            f"{in_brief(folder)} has no {FILE}: the labels of a pile in parts cannot be used here: label one part of it"
        )
    raise ValueError(f"{in_brief(folder)} has no {FILE}: label the pile with `handful label` first")


def is_project(folder: Path) -> bool:
    """Whether a folder holds a project."""
    return (folder / FILE).is_file()


# ---- all files of a run


def write_outputs(
    labelled: Labelled,
    folder: Path,
    *,
    formats: Iterable[str] = (),
    sort: str | None = None,
    title: str = "A pile, labelled",
    job: Job | None = None,
    progress: Progress = silent,
    before_move: Callable[[Path], None] = lambda scratch: None,
) -> dict[str, Path]:
    """Write the tables, the model, the report and the record of a labelled pile; all of them or none.

    Parameters
    ----------
    labelled : Labelled
        What `label_items` gave.
    folder : Path
        Where to write; files of earlier results are replaced.
    formats : iterable of str
        Exports for other tools: any of `export_formats.FORMATS`.
    sort : {"copy", "link"}, optional
        Put copies of the files, or links to them, into a folder for each label. It replaces that of an earlier run.
    title : str
        The title of the report.
    job : Job, optional
        What was labelled and how, so that `handful promote` can run it again.
    progress : callable
        Called with what is being done, the items done and the number of items.
    before_move : callable
        Called with the scratch folder when all files are complete, before they are moved to their place.

    Returns
    -------
    dict of str to Path
        The files, by name; "sorted" is the folder of sorted files.
    """
    formats, pile, examples = list(formats), labelled.pile, labelled.examples
    check_output(folder, True, formats, sort)
    export_formats.check_formats(formats, pile.texts is not None)
    sources, places = pile.files or (), list[Path]()
    if sort is not None:
        places = plan_places(pile, label_texts(labelled), folder / SCRATCH_FOLDER / SORTED_FOLDER)
        example_files = () if examples is None else examples.files or ()
        check_replaced(folder / SORTED_FOLDER, [*sources, *example_files])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _scratch(folder) as unfinished:
            table = table_of(labelled)
            for name in table_files():
                write_rows(table, unfinished / name)
            record = record_of(labelled, job)
            write_json(record, unfinished / RECORD)
            if examples is not None:
                labelled.model.save(unfinished / "model.safetensors")
            run = report_run(record["run"], None if job is None else folder)
            write_report(labelled, unfinished / "report.html", title, progress, run, folder)
            classes = [str(one) for one in labelled.classes.tolist()]
            for name in formats:
                file, content = export_formats.FORMATS[name](pile, labelled, labelled.model._method, classes)
                write_json(content, unfinished / file)
            if sort is not None:
                sort_files(pile, places, sort)
            before_move(unfinished)
            files = {}
            for path in sorted(unfinished.iterdir()):
                files[path.name] = place = folder / path.name
                if path.is_dir() and place.exists():  # a folder with files cannot be replaced
                    os.replace(place, unfinished / "earlier")
                os.replace(path, place)
        if "labels.parquet" not in files:
            (folder / "labels.parquet").unlink(missing_ok=True)  # of earlier results
        remove_labels(folder / LABEL_FOLDER)  # earlier results in parts
    except OSError as error:
        source = next((file for file in sources if str(file) == error.filename), folder)  # it may have gone
        raise not_written(error, source) from None
    return files


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A new hidden folder for files that are not complete. That of a run that was killed is removed first."""
    place = folder / SCRATCH_FOLDER
    rmtree(place, ignore_errors=True)
    place.mkdir(0o700)
    try:
        with cleanup(lambda: rmtree(place)):
            yield place
    finally:
        rmtree(place, ignore_errors=True)


def not_written(error: OSError, where: Path) -> OSError:
    """An error with the place of the results: the original one may name a scratch file."""
    number = error.errno or EIO
    return OSError(number, f"the results were not written: {os.strerror(number)}", str(where))


def marks(items: FeatureTable) -> list[tuple[str, str]]:
    """Name and content of each item: of the picture, or of the row of features."""
    if items.hashes is not None:
        return list(zip(items.names, items.hashes, strict=True))
    rows = (sha256(row.tobytes()).hexdigest()[:16] for row in items.features)
    return list(zip(items.names, rows, strict=True))


def record_of(labelled: Labelled, job: Job | None) -> dict[str, Any]:
    """The record of a labelled pile, `results.json`: the numbers, the groups and the job, for people and programs."""
    marked, groups = marks(labelled.pile), []
    for group in labelled.groups:
        place = {item: k for k, item in enumerate(group.items.tolist())}
        parts = [part.exemplars(part.size) for part in group.split()] * (group.kinds > 1)
        facts = {"number": group.number, "name": group.name, "size": group.size, "cohesion": group.cohesion}
        facts["items"] = [marked[i] for i in group.items]
        facts["exemplars"] = [place[item] for item in group.exemplars().tolist()]
        groups.append({**facts, "parts": [[place[item] for item in part.tolist()] for part in parts]})
    record = {"handful": handful.__version__, "run": uuid4().hex, **labelled.outcome.numbers, "groups": groups}
    record |= {"worth_asking": labelled.ask(MAX_ASKED_ITEMS).tolist(), "job": None}
    if job is not None:
        promoted: dict[str, list[tuple[str, str]]] = {}  # also what a person said
        for row, name in labelled.pile_labels.items():
            promoted.setdefault(name, []).append(marked[row])
        record["job"] = {**job_entries(job), "promoted": promoted}
    return record


# ---- the report


def write_report(
    labelled: Labelled, path: Path, title: str, progress: Progress, run: Run | None = None, folder: Path | None = None
) -> None:
    """Write the report of a labelled pile. folder: where the page will be, so that it can link to the pictures."""
    expected = _expected(labelled)
    contents = make_report(
        labelled,
        labelled.pile,
        title=title,
        sentences=[sentence for sentence in labelled.sentences if sentence != expected.sentence],
        examples=labelled.examples,
        folder=folder,
        nearest=labelled.nearest,
        groups=labelled.groups,
        skipped=labelled.skipped,
        made_by=labelled.made_by,
        tables=_tables(labelled),
        expected=expected,
        run=run,
        words=words_of_classes(labelled),
        chances=chances_in_words(labelled.noun, labelled.share["outlier_share_interval"]),
        progress=progress,
    )
    write(path, contents)


def chances_in_words(noun: str, interval: Sequence[float] | None) -> str:
    """What P(unknown) says of a pile, by the interval of its share of unknowns (None: it was told)."""
    if interval is None:
        return f"If the share of unknowns is as told, about 80 of 100 {noun}s with a P(unknown) of 80 % are unknown."
    low, high = interval
    if high - low <= KNOWN_WELL:
        return f"Of 100 {noun}s with a P(unknown) of 80 %, about 80 are unknown."
    ends = f"between {100 * low:.0f} and {100 * high:.0f} % may be unknown"
    return f"P(unknown) orders the {noun}s; as percentages it may be far off here, where {ends}."


def report_run(run_id: str, folder: Path | None) -> Run:
    """A run, with the commands that go on from its results. folder: None if these do not say what was labelled."""
    if folder is None:
        return Run(run_id)
    place = shlex.quote(printable(str(folder.resolve())))  # the page may be opened from any folder
    return Run(run_id, f"handful check {place}", f"handful label {place} --corrections {CORRECTIONS_FILE}")


def _expected(labelled: Labelled) -> Expected:
    """How many labels should be right; in words also where the method gives no probabilities."""
    expected = labelled.expected_precision_by_class
    if expected is None:
        return Expected(NOT_EXPECTED if not labelled.unknown.all() else "")
    sentence = expected_in_words(expected, bool(labelled.pile_labels))
    by_class = {str(name): labels for name, labels in expected.items()}
    return Expected(sentence, is_low(*total_of(expected)), by_class)


def _tables(labelled: Labelled) -> list[Figures]:
    """How many labels of each class should be right; nothing where the method gives no probabilities."""
    expected = labelled.expected_precision_by_class or {}
    rows = expected_rows(expected)
    doubtful = [n for n, labels in enumerate(e for e in expected.values() if e.labels) if is_low(*labels)]
    note = "By the probabilities of the labels, at the threshold that they were made with."
    if doubtful:
        note += " The labels of a doubtful class need a check."
    title = "How many labels should be right"
    return [Figures(title, EXPECTED_HEAD, rows, note, doubtful, id="expected")] if rows else []


def words_of_classes(labelled: Labelled) -> dict[str, list[str]]:
    """Where items are texts: by class the words that speak for its examples and for the items that have its label."""
    pile, examples = labelled.pile, labelled.examples
    if pile.texts is None:
        return {}
    texts, labels = list(pile.texts), label_texts(labelled)
    if examples is not None and examples.texts is not None:
        texts, labels = [*texts, *examples.texts], [*labels, *map(str, examples.label_names)]
    classes = [str(name) for name in labelled.classes.tolist()]
    rows = [np.flatnonzero(np.array(labels, object) == name) for name in classes]
    return dict(zip(classes, telling_words(texts, rows, MAX_MARKED_WORDS), strict=True))


# ---- labels in parts


def holds_labels(folder: Path) -> bool:
    """Whether it is a folder of labels in parts, as handful writes them. A folder of features is not."""
    return (
        not folder.is_symlink()
        and folder.is_dir()
        and (read_note(folder / part_name(0)) or {}).get("holds") == HOLDS_LABELS["holds"]
    )


def remove_labels(folder: Path) -> None:
    """Remove labels in parts; other files in the folder stay."""
    if not holds_labels(folder):
        return
    for number in reversed(part_numbers(folder)):  # the first part marks the folder as one of handful: it goes last
        (folder / part_name(number)).unlink()
    with suppress(OSError):
        folder.rmdir()
