"""The labels of a project as files: labels by a person, and for other items the decisions of the run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from handful.core.answers import Answers
from handful.core.checks import UNKNOWN_NAME
from handful.features import FeatureTable
from handful.label.exports import FORMATS
from handful.label.outputs import write_json
from handful.label.tables import table_of_answers, write_rows
from handful.workbench.domain.pile import EXPORT_PREFIX
from handful.workbench.domain.project import Project
from handful.workbench.domain.runs import NONE, UNKNOWN
from handful.workbench.domain.state import State

TABLES = ("csv", "parquet")


def export(project: Project, formats: Sequence[str]) -> dict[str, Any]:
    """Write labels to a new folder in the folder of the project, in all formats or in none.

    Parameters
    ----------
    project : Project
        The project.
    formats : sequence of str
        "csv", "parquet", or any of `handful.label.exports.FORMATS`.

    Returns
    -------
    dict
        The folder, and the names of the files in it.
    """
    state, folder = project.state, project.folder / "exports"
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=EXPORT_PREFIX, dir=folder, ignore_cleanup_errors=True) as scratch:
        unfinished = Path(scratch, "made")
        unfinished.mkdir()
        table = _table(state) if set(formats) & set(TABLES) else None
        rows = _labelled_rows(state)
        items, answers = _items(project, state, rows), answers_of(state, rows)
        method = "a person" if state.run is None else state.run.facts["method"]
        for name in dict.fromkeys(formats):
            if name in TABLES:
                write_rows(table, unfinished / f"labels.{name}")
            else:
                file, content = FORMATS[name](items, answers, method, classes=_class_names(state))
                write_json(content, unfinished / file)
        place = _new_folder(folder)
        os.rename(unfinished, place)
    return {"folder": str(place.resolve()), "files": sorted(path.name for path in place.iterdir())}


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
    probabilities = np.zeros((len(rows), len(numbers)))
    if run is not None:
        decided = np.flatnonzero(~by_person)
        places = state.row_answers.place[rows[decided]]
        probabilities[decided[:, None], [column[n] for n in run_classes]] = run.answers.class_probabilities[places]
    named = np.flatnonzero(labels > UNKNOWN)
    probabilities[named, [column[n] for n in labels[named].tolist()]] = 1.0

    is_probability = run is None or run.answers.is_probability
    threshold = 0.5 if run is None else run.threshold
    pile_scores = np.array([0.0, 1.0]) if run is None or is_probability else run.answers.outlier_scores
    lowest, highest = min(pile_scores.min(), threshold), max(pile_scores.max(), np.nextafter(threshold, np.inf))
    labelled_unknown = labels == UNKNOWN
    return Answers(
        probabilities,
        np.where(by_person, np.where(labelled_unknown, highest, lowest), state.row_answers.score[rows]),
        np.array(names, dtype=object),
        threshold,
        is_probability=is_probability,
        pile_scores=pile_scores,
        p_unknown=np.where(by_person, labelled_unknown.astype(np.float64), state.row_answers.p_unknown[rows]),
    )


def _table(state: State) -> Any:
    """One row for each item, by name: label ("" where there is none), who gave it, and the answer in numbers."""
    import pyarrow as pa

    rows, labelled = _rows(state), _labelled_rows(state)
    names = {NONE: "", UNKNOWN: UNKNOWN_NAME} | {number: name for number, (name, _) in state.classes.items()}
    labels, answers = state.labels[labelled], answers_of(state, labelled)
    closest = [None if code == UNKNOWN else str(name) for code, name in zip(labels, answers.closest, strict=True)]
    columns: dict[str, Any] = {
        "closest": pa.array(closest, pa.string()),
        "outlier_score": pa.array(
            answers.outlier_scores, pa.float64(), mask=labels != NONE
        ),  # a label by a person has no score
        "labelled_by": pa.array(np.where(labels != NONE, "person", "handful").tolist(), pa.string()),
        "decision": pa.array([names[code] for code in state.row_answers.decision[labelled].tolist()], pa.string()),
        "group": pa.array([k or None for k in state.row_answers.group[labelled].tolist()], pa.int64()),
    }
    paths = [state.pile.names[i] for i in labelled.tolist()]
    table = table_of_answers(answers, paths, columns, _class_names(state))
    others = rows[~np.isin(rows, labelled)]
    blank = {name: pa.array([""] * len(others), pa.string()) for name in ("label", "labelled_by", "decision")}
    blank["path"] = pa.array([state.pile.names[i] for i in others.tolist()], pa.string())
    whole = pa.concat_tables([table, pa.table(blank)], promote_options="default")
    return whole.take(np.argsort(state.pile.rank[np.concatenate([labelled, others])]))


def _items(project: Project, state: State, rows: np.ndarray) -> FeatureTable:
    pairs = [(state.pile.origins[i], state.pile.names[i]) for i in rows.tolist()]
    files = [project.source.file(origin, name) for origin, name in pairs]
    names = [name for _, name in pairs]
    return FeatureTable(np.empty((len(rows), 0)), paths=names, files=files, opener=project.source.opener(pairs))


def _class_names(state: State) -> list[str]:
    return [name for name, _ in state.classes.values()]


def _rows(state: State) -> np.ndarray:
    """The rows of usable items, in the order of names."""
    rows = np.argsort(state.pile.rank)
    return rows[state.pile.usable[rows]]


def _labelled_rows(state: State) -> np.ndarray:
    """The rows that have a label, by a person or by the run."""
    rows = _rows(state)
    return np.asarray(rows[(state.labels[rows] != NONE) | (state.row_answers.decision[rows] != NONE)])


def _new_folder(folder: Path) -> Path:
    """A folder that does not exist yet: the time, with a number if needed."""
    time, k = datetime.now().strftime("%Y-%m-%dT%H-%M-%S"), 1
    place = folder / time
    while place.exists():
        k += 1
        place = folder / f"{time}-{k}"
    return place
