"""Feature sets: embeddings with their labels, in memory and on disk.

    read, write     .parquet, .npz, .npy, .safetensors, a folder of Hugging Face `datasets`; pickles are read only, and
                    folders of Parquet parts, which `handful embed --engine ray` writes
    describe        what is in a set, and which tasks can be drawn from it

A set is checked when it is made: features are finite, every row has a label. What lies behind can trust it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from errno import EIO
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from handful.core.arrays import norms, to_numpy
from handful.core.checks import as_features, is_missing, label_array, shortened
from handful.features import formats, tables
from handful.features import parts as shards
from handful.features.columns import BASE_MEAN, Columns, checked_mean
from handful.features.episodes import Protocol
from handful.features.pickles import read_pickle
from handful.utils.interrupts import cleanup
from handful.utils.limits import check_bytes

PICKLES = (".pkl", ".pickle", ".plk")
READERS: dict[str, Callable[[Path, str, str], Columns]] = {
    ".parquet": tables.read_parquet,
    ".npz": formats.read_npz,
    ".npy": formats.read_npy,
    ".safetensors": formats.read_safetensors,
    **dict.fromkeys(PICKLES, read_pickle),
}
WRITERS: dict[str, Callable[[Columns, Path], None]] = {
    ".parquet": tables.write_parquet,
    ".npz": formats.write_npz,
    ".npy": formats.write_npy,
    ".safetensors": formats.write_safetensors,
    "": tables.write_dataset,
}


@dataclass(frozen=True, eq=False, repr=False)  # arrays have no single truth: == would raise
class FeatureSet:
    """Embeddings and what is known of each: a class, and perhaps the file it came from and a split.

    base_mean: what these embeddings are centred on by methods that centre on the base classes' mean, if it is known.

    >>> birds = FeatureSet([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], ["hen", "hen", "owl"])
    >>> birds
    <FeatureSet features: 3 items of 2 classes, 2 features>
    >>> birds.counts
    {'hen': 2, 'owl': 1}
    """

    features: np.ndarray  # [n, D] float32, or float64 if it was
    labels: np.ndarray  # [n] int64 or strings
    paths: np.ndarray | None = None  # [n] strings, "" where there is none
    splits: np.ndarray | None = None  # [n] strings, "" where there is none
    name: str = "features"
    base_mean: np.ndarray | None = None  # [D] float32, of the classes that the backbone was trained on

    def __post_init__(self) -> None:
        features = _features(self.features)
        beside = {
            "labels": _labels(self.labels),
            "paths": _strings(self.paths, "path"),
            "splits": _strings(self.splits, "split"),
        }
        for name, values in beside.items():
            if values is not None and len(values) != len(features):
                raise ValueError(
                    f"there are {len(features)} rows of features but {len(values)} {name}: "
                    "one for each row is needed, in the same order"
                )
        mean = checked_mean(self.base_mean, features.shape[1])
        for name, values in {"features": features, **beside, "base_mean": mean}.items():
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        size = f"{len(self):,} items of {len(self.classes):,} classes, {self.dimension:,} features"
        return f"<FeatureSet {self.name}: {size}>"

    @property
    def classes(self) -> np.ndarray:
        """Sorted, as in a task."""
        return np.unique(self.labels)

    @property
    def counts(self) -> dict[Any, int]:
        """Items of each class."""
        return _counts(self.labels)

    @property
    def dimension(self) -> int:
        return self.features.shape[1]

    @property
    def mean(self) -> np.ndarray:
        """Mean feature [D] float32, summed in float64: of a base set, the `base_mean` that methods take."""
        return self.features.mean(axis=0, dtype=np.float64).astype(np.float32)

    def of_split(self, split: str) -> FeatureSet | None:
        """The items of a split, None where there are none: a set may name its splits or not."""
        return self.select(split=split) if self.splits is not None and split in self.splits else None

    def select(self, *, split: str | Iterable[str] | None = None, classes: Any = None) -> FeatureSet:
        """The items of a split (or several) and of some classes, in their order.

        >>> FeatureSet([[1.0], [2.0], [3.0]], [7, 8, 7]).select(classes=[7]).features.ravel()
        array([1., 3.])
        """
        keep = np.ones(len(self), bool)
        for wanted, values, what in ((split, self.splits, "split"), (classes, self.labels, "class")):
            if wanted is None:
                continue
            names = [wanted] if np.isscalar(wanted) else list(wanted)
            there = {} if values is None else _counts(values)
            for name in names:
                if name not in there:
                    some = ", ".join(map(repr, list(there)[:20])) + (", ..." if len(there) > 20 else "")
                    raise ValueError(f"{self.name} has no {what} {name!r}: there are {some or 'none'}")
            keep &= np.isin(values, np.array(names)) if values is not None else False
        if not keep.any():
            raise ValueError(f"{self.name} has no items of that split and those classes: nothing is left")
        paths, splits = (None if values is None else values[keep] for values in (self.paths, self.splits))
        return FeatureSet(self.features[keep], self.labels[keep], paths, splits, self.name, self.base_mean)


def read(path: str | Path, *, embedding: str = "embedding", label: str = "label") -> FeatureSet:
    """Read a feature set; the suffix says how. A folder holds part-00000.parquet and so on, or is a dataset of Hugging
    Face `datasets`.

    `embedding` and `label` name the columns of a table. In .npz and .safetensors the arrays are called `features` and
    `labels`, unless other names are given; .npy files and pickles have no names.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    of_folder = shards.read_shards if shards.is_sharded(path) else tables.read_dataset
    reader = of_folder if path.is_dir() else READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(
            f"{str(path)!r} has {_suffix(path)}: features are read from {', '.join(READERS)}, or a dataset folder"
        )
    if not path.is_dir() and not path.is_file():
        raise ValueError(f"{str(path)!r} is neither a file nor a folder: features are read from these alone")
    try:
        columns = reader(path, embedding, label)
        return FeatureSet(**columns._asdict(), name=path.resolve().name if path.is_dir() else path.stem)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None


def write(featureset: FeatureSet, path: str | Path) -> Path:
    """Write a feature set; the suffix says how, none means a folder of Hugging Face `datasets`.

    What was there is replaced whole or not at all. A .npy file gets its labels beside it, in <stem>.labels.npy, and its
    base mean in <stem>.base_mean.npy; a dataset folder has that in base_mean.json, which `datasets` does not copy.

    >>> with TemporaryDirectory() as folder:
    ...     read(write(FeatureSet([[1.0, 0.0]], ["hen"]), f"{folder}/birds.npz"))
    <FeatureSet birds: 1 items of 1 classes, 2 features>
    """
    path = Path(path)
    writer = WRITERS.get("" if path.is_dir() else path.suffix.lower())
    if path.suffix.lower() in PICKLES:
        raise ValueError(
            f"{str(path)!r}: pickles are read, never written, for they can run code: write .npz or .parquet"
        )
    if writer is None:
        known = ", ".join(filter(None, WRITERS))
        raise ValueError(f"{str(path)!r} has {_suffix(path)}: write {known}, or no suffix for a dataset folder")
    place = path.resolve() if path.is_dir() else path
    if path.is_dir() and not all(map(_of_dataset, path.iterdir())):
        raise ValueError(f"{str(path)!r} is a folder that holds other things than a dataset: it was not replaced")
    if not place.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(place.parent)!r} to write {place.name} to: make it first")
    columns = Columns(*(getattr(featureset, name) for name in Columns._fields))
    gone = [formats.beside_npy(place).name] if path.suffix.lower() == ".npy" and columns.base_mean is None else []
    try:
        with TemporaryDirectory(".tmp", f".{place.name}.", place.parent, ignore_cleanup_errors=True) as scratch:
            (made := Path(scratch, "new")).mkdir()
            with cleanup(lambda: rmtree(scratch)):
                writer(columns, made / place.name)
            _swap(made, place.parent, Path(scratch, "old"), gone)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None
    except OSError as error:  # its own message would name the temporary file
        reason = error.strerror or f"{error} (is the disk full?)"  # NumPy only counts what it could write
        raise OSError(error.errno or EIO, f"the features were not written: {reason}", str(path)) from None
    return path


def describe(featureset: FeatureSet) -> dict[str, Any]:
    """What is in a set, as plain numbers and strings.

    `ways` says for 1, 5 and 10 shots how many known classes a task can have beside 5 outlier classes, with 15 queries
    of each: classes with too few items for that are not counted.
    """
    x, counts = featureset.features, featureset.counts
    protocols = [Protocol(shots=shots) for shots in (1, 5, 10)]
    enough = {p.shots: sum(count >= p.shots + p.queries for count in counts.values()) for p in protocols}
    return {
        "name": featureset.name,
        "items": len(featureset),
        "classes": len(counts),
        "counts": counts,
        "items_per_class": _spread(np.array(list(counts.values()))),
        "dimension": featureset.dimension,
        "dtype": str(x.dtype),
        "norms": _spread(norms(x)),
        "mean_norm": float(np.linalg.norm(featureset.mean)),
        "base_mean_norm": None if featureset.base_mean is None else float(np.linalg.norm(featureset.base_mean)),
        "zero_rows": int((~x.any(axis=1)).sum()),
        "duplicate_rows": len(x) - len({blake2b((row + 0.0).data, digest_size=16).digest() for row in x}),  # -0 is 0
        "ways": {p.shots: max(0, enough[p.shots] - p.outlier_ways) for p in protocols},
        "paths": featureset.paths is not None,
        "splits": {} if featureset.splits is None else _counts(featureset.splits),
    }


def _counts(values: np.ndarray) -> dict[Any, int]:
    names, counts = np.unique(values, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def _spread(values: np.ndarray) -> dict[str, float]:
    return {"min": values.min().item(), "median": float(np.median(values)), "max": values.max().item()}


def _features(x: Any) -> np.ndarray:
    if isinstance(x, np.ndarray) and x.dtype.kind in "biu":
        x = x.astype(np.float32)
    elif isinstance(x, np.ndarray) and x.dtype.kind == "f":
        x = x.astype(x.dtype.newbyteorder("="), copy=False)
    x = to_numpy(as_features(x, "features"))
    if x.ndim != 2:
        raise ValueError(f"features have shape {x.shape}: rows of features are needed, [items, features]")
    return np.ascontiguousarray(x)  # tasks gather rows


def _labels(labels: Any) -> np.ndarray:
    """int64 or strings; whole numbers kept as floats become integers."""
    values = to_numpy(labels) if hasattr(labels, "dtype") else np.asarray(labels, dtype=object)
    if values.ndim != 1:
        raise ValueError(f"labels have shape {values.shape}: one label for each row is needed")
    if values.dtype.kind in "SOT":
        values = _decoded(values.astype(object), "label")
        missing = is_missing(values)
    else:
        missing = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    if missing.any():
        raise ValueError(f"the label of row {int(missing.argmax())} is missing: label that row or remove it")
    values = label_array(values)
    if values.dtype.kind == "f":
        if (odd := values != np.floor(values)).any():
            at = int(odd.argmax())
            raise ValueError(f"the label of row {at} is {values[at]}: labels are integers or strings")
        return label_array([int(value) for value in values])
    return values if values.dtype.kind == "i" else _texts(values, "label")


def _strings(values: Any, what: str) -> np.ndarray | None:
    if values is None:
        return None
    if isinstance(values, np.ndarray) and values.dtype.kind == "U" and values.ndim == 1:
        return values
    values = np.asarray(values, dtype=object)
    if values.ndim != 1:
        raise ValueError(f"{what}s have shape {values.shape}: one for each row is needed")
    values = _decoded(values, what)
    values[is_missing(values)] = ""
    for row, value in enumerate(values):
        if not isinstance(value, str | int):
            raise ValueError(f"the {what} of row {row} is a {type(value).__name__}: strings are needed")
    return _texts(values, what)


def _texts(values: np.ndarray, what: str) -> np.ndarray:
    """An array of NumPy's strings, in which every row takes as much as the longest."""
    longest = max((len(value) if isinstance(value, str) else len(str(value)) for value in values), default=0)
    check_bytes(4 * longest * len(values), f"{len(values):,} {what}s, the longest of {longest:,} letters,")
    return values.astype(str)


def _decoded(values: np.ndarray, what: str) -> np.ndarray:
    """Bytes as strings, in a copy."""
    values = values.copy()
    for row, value in enumerate(values):
        if isinstance(value, bytes):
            try:
                values[row] = value.decode()
            except UnicodeDecodeError:
                raise ValueError(
                    f"the {what} of row {row} is {shortened(repr(value))}, which is not UTF-8: write it as text"
                ) from None
    return values


def _suffix(path: Path) -> str:
    return f"the suffix {path.suffix!r}" if path.suffix else "no suffix"


def _of_dataset(file: Path) -> bool:
    known = "state.json", "dataset_info.json", BASE_MEAN
    return file.name in known or file.match("data-*.arrow") or file.match("cache-*.arrow")


def _swap(made: Path, folder: Path, old: Path, gone: Iterable[str] = ()) -> None:
    """Move what was made into `folder`, out of which the files `gone` go. One file replaces another in one step;
    several, or a folder, are moved out of the way first, and come back should a step fail."""
    new = sorted(made.iterdir(), reverse=True)
    if len(new) == 1 and not new[0].is_dir():
        os.replace(new[0], folder / new[0].name)
        return
    old.mkdir()
    kept: list[str] = []
    placed: list[str] = []
    try:
        for name in gone:
            if (folder / name).is_file():
                os.replace(folder / name, old / name)
                kept.append(name)
        for item in new:
            target = folder / item.name
            if target.exists() and target.is_dir() == item.is_dir():  # else the move fails, and should
                os.replace(target, old / item.name)
                kept.append(item.name)
            os.replace(item, target)
            placed.append(item.name)
    except BaseException:
        for name in set(placed) - set(kept):
            (folder / name).unlink()
        for name in kept:
            os.replace(old / name, folder / name)
        raise
