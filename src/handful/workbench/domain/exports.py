"""The labels of a project as files: what a person said, and where nobody did, what was decided."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from handful.core.checks import UNKNOWN_NAME
from handful.features import FeatureTable
from handful.label.exports import FORMATS
from handful.label.labelling import Labelled
from handful.utils import csv_file as csvfile
from handful.workbench.domain.pile import MAKING
from handful.workbench.domain.project import Project, State
from handful.workbench.domain.runs import NONE, UNKNOWN

TABLES = ("csv", "parquet")


def export(project: Project, formats: Sequence[str]) -> dict[str, Any]:
    """Write the formats into a new folder below the project's, all of them or none."""
    state, folder = project.state, project.folder / "exports"
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=MAKING, dir=folder, ignore_cleanup_errors=True) as scratch:
        made = Path(scratch, "made")
        made.mkdir()
        table = _table(project, state) if set(formats) & set(TABLES) else None
        for name in dict.fromkeys(formats):
            if name in TABLES:
                _write_table(table, made / f"labels.{name}")
            else:
                file, content = FORMATS[name](cast(Labelled, _Shown.of(project, state)))
                (made / file).write_text(json.dumps(content, indent=1) + "\n", "utf-8")
        place = _name(folder)
        os.rename(made, place)
    return {"folder": str(place.resolve()), "files": sorted(path.name for path in place.iterdir())}


def _name(folder: Path) -> Path:
    """The time, and a number where that is taken."""
    time, k = datetime.now().strftime("%Y-%m-%dT%H-%M-%S"), 1
    place = folder / time
    while place.exists():
        k += 1
        place = folder / f"{time}-{k}"
    return place


def _table(project: Project, state: State) -> Any:
    """One row an item, by name: path, label ("" where there is none), and who gave it."""
    import pyarrow as pa

    rows, seen = _rows(state), state.seen
    names = {NONE: "", UNKNOWN: UNKNOWN_NAME} | {number: name for number, (name, _) in state.classes.items()}
    given, decision = state.given[rows], seen.decision[rows]
    said = np.where(given != NONE, given, decision)
    by = np.where(given != NONE, "person", np.where(decision != NONE, "handful", ""))
    sure = np.where(given != NONE, 1.0, seen.confidence[rows])
    columns: dict[str, Any] = {
        "path": [state.pile.names[i] for i in rows.tolist()],
        "label": [names[code] for code in said.tolist()],
        "labelled_by": by.tolist(),
        "decision": [names[code] for code in decision.tolist()],
        "confidence": _column(sure),
        "p_unknown": _column(seen.p_unknown[rows]),
        "outlier_score": _column(seen.score[rows]),
        "group": pa.array([k or None for k in seen.group[rows].tolist()], pa.int64()),
    }
    if state.run is not None:
        place = seen.place[rows]
        for k, code in enumerate(state.run.classes.tolist()):
            if code in state.classes:
                p = np.where(place >= 0, state.run.probabilities[np.maximum(place, 0), k], np.nan)
                columns[f"p_{names[code]}"] = _column(p)
    return pa.table(columns)


def _column(values: np.ndarray) -> Any:
    import pyarrow as pa

    return pa.array(values.astype(np.float64), mask=np.isnan(values))


def _write_table(table: Any, path: Path) -> None:
    from pyarrow import parquet

    (csvfile.write_table if path.suffix == ".csv" else parquet.write_table)(table, path)


def _rows(state: State) -> np.ndarray:
    rows = np.argsort(state.pile.rank)
    return rows[state.pile.there[rows]]


@dataclass
class _Shown:
    """As much of a `Labelled` as the formats of other tools look at; items that have a label."""

    pile: FeatureTable
    closest: np.ndarray
    unknown: np.ndarray
    confidence: np.ndarray
    scores: np.ndarray
    p_unknown: np.ndarray
    model: SimpleNamespace

    @classmethod
    def of(cls, project: Project, state: State) -> _Shown:
        said = np.where(state.given != NONE, state.given, state.seen.decision)
        rows = _rows(state)
        rows = rows[said[rows] != NONE]
        said, given = said[rows], state.given[rows]
        class_names = {UNKNOWN: UNKNOWN_NAME} | {number: name for number, (name, _) in state.classes.items()}
        files = [project.source.file(state.pile.origins[i], state.pile.names[i]) for i in rows.tolist()]
        labels = np.array([class_names[code] for code in said.tolist()], dtype=object)
        told = np.where(given == UNKNOWN, 1.0, 0.0)  # P(unknown) of what a person said
        p, score = (np.where(given != NONE, told, x[rows]) for x in (state.seen.p_unknown, state.seen.score))
        sure = np.where(given != NONE, 1.0, state.seen.confidence[rows])
        classes = np.array([name for name, _ in state.classes.values()], dtype=object)
        method = "a person" if state.run is None else state.run.facts["method"]
        opener = project.source.opener((state.pile.origins[i], state.pile.names[i]) for i in rows.tolist())
        names = [state.pile.names[i] for i in rows.tolist()]
        items = FeatureTable(np.empty((len(rows), 0)), paths=names, files=files, opener=opener)
        return cls(
            items, labels, said == UNKNOWN, sure, np.nan_to_num(score), np.nan_to_num(p),
            SimpleNamespace(classes_=classes, _method=method),
        )  # fmt: skip
