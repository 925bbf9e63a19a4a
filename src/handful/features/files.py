"""Feature tables on disk: `read` and `write`, by the suffix of the file.

.csv .parquet .npz .npy .safetensors    read and written
a folder of Parquet parts               which `handful embed --engine ray` writes, read only
.pkl .pickle .plk                       per-class pickles, read only, without running code

A reader for each kind gives columns, and `feature_columns.from_columns` makes the table. CSV is read here.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from errno import EIO
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

from handful.features import array_files, parquet_file, parts
from handful.features.feature_columns import (
    EMBEDDING,
    LABEL,
    PATH,
    SPLIT,
    ColumnChoice,
    Content,
    check_header,
    from_columns,
    looks_like_no_feature,
    one_kind,
    to_columns,
)
from handful.features.labels import NDArray, numbers_if_whole
from handful.features.table import FeatureTable, free_name
from handful.utils import csv_file
from handful.utils.columns import ColumnTable, object_array
from handful.utils.files import damaged
from handful.utils.interrupts import cleanup
from handful.utils.limits import check_bytes

PICKLES = (".pkl", ".pickle", ".plk")
CSV_BYTES = 4  # of memory for each byte of a file: itself, its text, and numbers


def read(
    path: str | Path,
    *,
    embedding: str | None = None,
    label: str | None = None,
    columns: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] = (),
    warn: bool = True,
) -> FeatureTable:
    r"""Read a feature table; the suffix of the file gives the format.

    Rows may have a label or not: a blank label or -1 means unlabelled. Other columns are carried along in `others`.

    Parameters
    ----------
    path : str or Path
        A .csv, .parquet, .npz, .npy, .safetensors or pickle file; or a folder of Parquet parts, part-00000.parquet and
        so on.
    embedding, label : str, optional
        The name of the column of features and of labels. Without it, the column `embedding` (a list of numbers in each
        row; in a CSV, a JSON list) or else every column of numbers, and the column `label` if there is one. In .npz and
        .safetensors they are names of arrays, `features` and `labels` unless others are given.
    columns : str or sequence of str, optional
        The columns of numbers that are features, in this order; names or patterns, such as ["f*"].
    exclude : str or sequence of str
        Columns of numbers that are not features; names or patterns.
    warn : bool
        Warn (UserWarning) of columns of numbers that look like ids, row numbers or labels. They are not used as
        features unless `columns` names them.

    Returns
    -------
    table : FeatureTable

    Examples
    --------
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "birds.csv").write_text("id,f0,f1,label\n7,1,0,hen\n8,0.9,0.1,\n9,0,1,owl\n")
    ...     read(f"{folder}/birds.csv", warn=False)
    <FeatureTable birds: 3 items of 2 classes, 1 without a label, 2 features>
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    if path.is_dir() and not parts.is_sharded(path):
        raise ValueError(f"{str(path)!r} {_about_folder(path)}")
    reader = parts.read_sharded if path.is_dir() else READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{str(path)!r} has {_suffix(path)}: features are read from {', '.join(READERS)}")
    if not path.is_dir() and not path.is_file():
        raise ValueError(f"{str(path)!r} is neither a file nor a folder: features are only read from these")
    choice = ColumnChoice(embedding, label, None if columns is None else _several(columns), _several(exclude))
    try:
        name = path.resolve().name if path.is_dir() else path.stem
        table = from_columns(reader(path, choice), choice, name, str(path))
        if not table.features.size:
            raise ValueError(f"features is empty, shape {table.features.shape}: it has no items or no features")
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None
    if warn and table.set_aside:
        warnings.warn(f"{path}: {table.about_columns}", stacklevel=2)
    return table


def write(table: FeatureTable, path: str | Path) -> Path:
    """Write a feature table; the suffix gives the format.

    An existing file is replaced whole or not at all. The labels of a .npy file go to <stem>.labels.npy beside it, and
    its base mean to <stem>.base_mean.npy.

    Parameters
    ----------
    table : FeatureTable
        The table.
    path : str or Path
        Ends in .parquet, .csv, .npz, .npy or .safetensors. It is returned.

    Examples
    --------
    >>> with TemporaryDirectory() as folder:
    ...     read(write(FeatureTable([[1.0, 0.0]], ["hen"]), f"{folder}/birds.npz"))
    <FeatureTable birds: 1 items of 1 classes, 2 features>
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in PICKLES:
        raise ValueError(f"{str(path)!r}: pickles can run code and are never written: write .npz or .parquet")
    if suffix not in WRITERS:
        raise ValueError(f"{str(path)!r} has {_suffix(path)}: write {', '.join(WRITERS)}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(path.parent)!r} to write {path.name} to: make it first")
    try:
        with TemporaryDirectory(".tmp", f".{path.name}.", path.parent, ignore_cleanup_errors=True) as scratch:
            with cleanup(lambda: rmtree(scratch)):
                WRITERS[suffix](table, Path(scratch, path.name))
            for file in sorted(Path(scratch).iterdir(), key=lambda file: file.name == path.name):  # the features last
                os.replace(file, path.with_name(file.name))
        for what, values in (("labels", table.labels), ("base_mean", table.base_mean)):
            if suffix == ".npy" and values is None:  # what was beside the file that was replaced
                array_files.beside(path, what).unlink(missing_ok=True)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None
    except OSError as error:  # its message would name the temporary file
        reason = error.strerror or f"{error} (is the disk full?)"  # NumPy gives no reason
        raise OSError(error.errno or EIO, f"the features were not written: {reason}", str(path)) from None
    return path


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _suffix(path: Path) -> str:
    return f"the suffix {path.suffix!r}" if path.suffix else "no suffix"


def _about_folder(path: Path) -> str:
    if any((path / name).is_file() for name in ("state.json", "dataset_info.json", "dataset_dict.json")):
        advice = "write it as a file, load_from_disk(...).to_parquet('features.parquet'), and give that"
        return f"is a folder that Hugging Face `datasets` saved: {advice}"
    return "is a folder, but not of Parquet parts: give a file of features"


# ---- CSV: a column for each feature, or a column `embedding` of JSON lists


def _read_csv(path: Path, choice: ColumnChoice) -> Content:
    check_bytes(CSV_BYTES * path.stat().st_size, "the table")
    try:
        parsed = csv_file.parse(path)
    except ValueError as error:
        raise damaged("csv", error) from None
    check_header([name for name, _ in parsed], choice)
    columns: dict[str, NDArray] = {}
    written: dict[str, NDArray] = {}
    for header, cells in parsed:
        if not header.strip():
            continue  # the index of a frame
        name = free_name(header, columns)
        texts = csv_file.texts_of(cells)
        values = numbers_if_whole([text or None for text in texts])  # a CSV has no types
        written[name] = object_array(values) if isinstance(values, list) else values
        numbers = None if name in (PATH, SPLIT, choice.embedding_column) else csv_file.numbers_of(cells)
        columns[name] = object_array(texts) if numbers is None else numbers
        if name == choice.label_column:
            columns[name] = written[name]
    return Content(columns, written=written)


def _write_csv(table: FeatureTable, path: Path) -> None:
    """One column for each feature, unless another column could be taken for a feature: then lists in one column."""
    if table.base_mean is not None:
        raise ValueError("a .csv file has no place for base_mean: write .parquet or .npz, or set it to None")
    data: dict[str, Any] = {name: one_kind(values, name) for name, values in to_columns(table).columns.items()}
    names = [str(name) for name in table.columns or [f"f{i}" for i in range(table.dimension)]]
    texts = data.pop(EMBEDDING).astype(str)  # the shortest text that gives the same number
    if _may_be_wide(table, names, list(data)):
        data |= {name: texts[:, i] for i, name in enumerate(names)}
    else:
        data[EMBEDDING] = [f"[{', '.join(row)}]" for row in texts.tolist()]
    for name, values in data.items():
        for row, text in enumerate(values):
            if isinstance(text, str) and csv_file.escape(text) != text:
                where = f"column {name!r} has {text[:40]!r} in row {row}"
                raise ValueError(f"{where}, which spreadsheets take for a formula: write .parquet")
    csv_file.write_table(ColumnTable(data), path, change=str)


def _may_be_wide(table: FeatureTable, names: Sequence[str], beside: Sequence[str]) -> bool:
    if len(set(names)) < len(names) or {*names} & {*beside, EMBEDDING, LABEL}:
        return False
    has_labels = table.labels is not None
    if any(map(looks_like_no_feature, names, table.features.T, [has_labels] * len(names))):
        return False
    return all(
        values.dtype.kind == "O"
        and any(isinstance(value, str) and not csv_file.NUMBER.fullmatch(value.strip()) for value in values)
        for values in table.others.values()
    )


READERS: dict[str, Callable[[Path, ColumnChoice], Content]] = {
    ".parquet": parquet_file.read_parquet,
    ".npz": array_files.read_npz,
    ".npy": array_files.read_npy,
    ".safetensors": array_files.read_safetensors,
    ".csv": _read_csv,
    **dict.fromkeys(PICKLES, array_files.read_pickle),
}
WRITERS: dict[str, Callable[[FeatureTable, Path], None]] = {
    ".parquet": parquet_file.write_parquet,
    ".npz": array_files.write_npz,
    ".npy": array_files.write_npy,
    ".safetensors": array_files.write_safetensors,
    ".csv": _write_csv,
}
