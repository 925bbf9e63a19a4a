"""Large piles: a model learns from a sample of the pile, and scores all of it in blocks.

    pile -> 10,000 rows, drawn at random -> a fitted model -> blocks of rows, each row scored alone -> answers

The pile is an array, which may be memory-mapped (for `handful.solve`, which scores it), or a folder of Parquet parts
(`PileParts`, for `handful label PARTS/`). The work on parts is done by threads of this machine or on a Ray cluster:
`on_threads` and `handful.utils.ray.map_on_ray` are called in the same way. A worker reads one part and writes one part
of answers, whole or not at all. So a worker that is killed loses nothing, and a run that was stopped goes on with the
parts that are missing. Rows are scored in the same blocks by one BLAS thread everywhere: the answers are the same on
one machine and on many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.core.checks import as_features
from handful.engines.share import sample
from handful.features.parquet_file import check_once, check_vectors, open_parquet, vectors_of
from handful.features.parts import complete, part_name, read_note
from handful.utils.ray import DATA, Row, Worker
from handful.utils.text import shortened
from handful.utils.threads import available_threads, one_blas_thread

SAMPLE_ROWS = 10_000  # of a large pile, from which a model learns
BLOCK_ROWS = 2_000  # that are scored at a time: methods compare each of them with the sample
EMBEDDING = "embedding"  # the column of features, as `handful embed` writes it
Engine = Callable[[type[Worker], tuple[Any, ...], Sequence[Row]], Iterator[Row]]


def sample_rows(count: int) -> np.ndarray:
    """The rows of a pile of this size that a model learns from, ascending: always the same ones."""
    return sample(count, SAMPLE_ROWS)


def checked(rows: np.ndarray, start: int) -> np.ndarray:
    """Some rows as features, the first at this place in the pile; errors name a row by its place."""
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
        value = "NaN" if np.isnan(rows[row, column]) else "infinity"
        raise ValueError(f"query contains {value} at row {start + row}, column {column}: remove or repair that row")
    features: np.ndarray = as_features(rows, "query")
    return features


# ---- folders of parts


class Part(NamedTuple):
    """One file of a pile: its number, its path, the place of its first row in the pile, and how many rows it has."""

    number: int
    path: str
    start: int
    rows: int


class Block(NamedTuple):
    """Some rows of a part: the place of the first in the pile, features [n, D], and other columns as Arrow arrays."""

    start: int
    features: np.ndarray
    others: list[Any]


@dataclass(frozen=True)
class PileParts:
    """The files of a pile in a folder: part-00000.parquet, part-00001.parquet, ..., with a column `embedding`."""

    parts: tuple[Part, ...]  # in the order of their rows
    dimension: int  # how many features a row has

    @classmethod
    def of(cls, folder: str | Path) -> PileParts:
        """The parts of a folder, from their footers: rows are read later. ValueError if one is missing or damaged."""
        parts, dimension, start = [], 0, 0
        for number in complete(Path(folder)):
            path = Path(folder, part_name(number)).absolute()
            with open_parquet(path, where=f"{path.name}: ") as file:
                names = file.schema_arrow.names
                if EMBEDDING not in names:
                    there = shortened(", ".join(names[:20]), 300)
                    raise ValueError(f"{path.name} has no column {EMBEDDING!r}; it has: {there}")
                check_once(names, [EMBEDDING], f"{path.name}: ")
                check_vectors(file.schema_arrow.field(EMBEDDING).type, f"{path.name}: column {EMBEDDING!r}")
                rows = file.metadata.num_rows
                if rows and not dimension:
                    first = next(file.iter_batches(1, columns=[EMBEDDING]))
                    dimension = len(first.column(0)[0].as_py() or ())
            parts.append(Part(number, str(path), start, rows))
            start += rows
        if not start:
            raise ValueError("the pile is empty: it has no items")
        return cls(tuple(parts), dimension)

    @cached_property
    def rows(self) -> int:
        """How many rows there are in all parts."""
        return sum(part.rows for part in self.parts)

    def sample(self, engine: Engine | None = None, progress: Callable[[int, int], object] | None = None) -> np.ndarray:
        """Read the rows that a model learns from, [n, D]; progress(parts that were read, parts to read)."""
        rows = sample_rows(self.rows)
        needed = [
            part for part in self.parts
            if np.diff(np.searchsorted(rows, [part.start, part.start + part.rows]))[0]
        ]  # fmt: skip
        features: dict[int, np.ndarray] = {}
        answers = (engine or on_threads)(_Sampler, (self.dimension, rows), [part._asdict() for part in needed])
        for answer in answers:
            features[answer["number"]] = np.frombuffer(answer[DATA], answer["dtype"]).reshape(-1, self.dimension)
            if progress is not None:
                progress(len(features), len(needed))
        return np.concatenate([features[number] for number in sorted(features)])

    def write(
        self,
        worker: type[Worker],
        arguments: tuple[Any, ...],
        folder: Path,
        engine: Engine | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> list[dict[str, Any]]:
        """Write a part of answers by `worker` for each part of the pile that has none; give the notes of all."""
        progress = progress or (lambda done, total: None)
        notes = self._notes(folder)
        missing = [part for part in self.parts if part.number not in notes]
        progress(len(notes), len(self.parts))
        for done, _ in enumerate((engine or on_threads)(worker, arguments, [part._asdict() for part in missing]), 1):
            progress(len(notes) + done, len(self.parts))
        notes = self._notes(folder)
        if absent := [part for part in self.parts if part.number not in notes]:
            raise OSError(
                f"{part_name(absent[0].number)} was written, but {str(folder)!r} does not show it on this machine: "
                "give a folder that all machines of the cluster share, and run the same command again"
            )
        return [notes[part.number] for part in self.parts]

    def _notes(self, folder: Path) -> dict[int, dict[str, Any]]:
        notes = {part.number: read_note(folder / part_name(part.number)) for part in self.parts}
        return {number: note for number, note in notes.items() if note is not None}


def read_blocks(part: Part, dimension: int, columns: Sequence[str] = ()) -> Iterator[Block]:
    """Read a part. OSError if its file does not do, ValueError if a row is not `dimension` finite numbers."""
    for block in _stored_blocks(part, columns):
        if block.features.shape[1] != dimension:
            raise ValueError(
                f"{Path(part.path).name} has {block.features.shape[1]} features in row {block.start - part.start}, and "
                f"the parts before it have {dimension}: use one backbone's"
            )
        yield block._replace(features=checked(block.features, block.start))


def _stored_blocks(part: Part, columns: Sequence[str]) -> Iterator[Block]:
    import pyarrow as pa

    start = part.start
    try:
        with open_parquet(part.path) as file:
            for batch in file.iter_batches(BLOCK_ROWS, columns=[EMBEDDING, *columns], use_threads=False):
                batch.validate(full=True)
                rows = vectors_of(pa.chunked_array([batch.column(EMBEDDING)]), f"column {EMBEDDING!r}")
                yield Block(start, rows, [batch.column(name) for name in columns])
                start += len(rows)
    except (ValueError, OSError) as error:
        raise OSError(f"{part.path} cannot be read: {error}") from None
    if start != part.start + part.rows:
        raise OSError(f"{part.path} has changed while it was read: run the same command again")


class _Sampler(Worker):
    """Reads those of the rows that are in one part."""

    def __init__(self, dimension: int, rows: np.ndarray) -> None:
        self.dimension, self.rows = dimension, rows

    def work(self, row: Row) -> Row:
        part = Part(**row)
        chosen = []
        for block in read_blocks(part, self.dimension):
            low, high = np.searchsorted(self.rows, [block.start, block.start + len(block.features)])
            chosen.append(block.features[self.rows[low:high] - block.start])
        features = np.concatenate(chosen)
        return {"number": int(part.number), "dtype": features.dtype.str, DATA: features.tobytes()}


def on_threads(worker: type[Worker], arguments: tuple[Any, ...], rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the answer of one worker for each row of work, on threads of this machine, in the order they finish."""
    shared = worker(*arguments)
    pool = ThreadPoolExecutor(available_threads(), thread_name_prefix="handful-parts")
    try:
        with one_blas_thread():
            for future in as_completed([pool.submit(shared.work, row) for row in rows]):
                yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)
