"""The pile of one task in pieces that need not fit into memory: arrays, .npy files, Parquet files, in this order.

A piece is read in spans, a span in blocks of rows. What is on disk is read into a block and forgotten: a mapped
page would stay in memory until something else wants its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from glob import glob, has_magic
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from handful.core.task import LargePile
from handful.features.arrow_table import check_vectors, vectors_of
from handful.features.npy_files import check_npy
from handful.features.parquet_file import check_once, check_sizes, open_parquet
from handful.utils.text import shortened

SPAN = 32 << 20  # bytes of features that one thread takes at a time
BLOCK = 4 << 20  # bytes that stay near a core while they are worked on
COLUMN = "embedding"  # as `handful embed` writes it


class Span(NamedTuple):
    """Rows start .. stop - 1 of a piece, which are rows `at` and up of the pile."""

    piece: int
    start: int
    stop: int
    at: int


class Piece(Protocol):
    """Some rows of the pile."""

    rows: int
    dimension: int
    dtype: np.dtype

    def cuts(self, rows: int) -> list[int]:
        """Where spans of about so many rows may end, the last at the end of the piece."""
        ...  # pragma: no cover

    def blocks(self, start: int, stop: int, rows: int) -> Iterator[np.ndarray]:
        """Rows start .. stop - 1, at most so many at a time; a block is good until the next is asked for."""
        ...  # pragma: no cover


@dataclass(frozen=True)
class InMemory:
    """Rows in memory."""

    array: np.ndarray

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.array.shape[0])

    @property
    def dimension(self) -> int:
        """How many features a row has."""
        return int(self.array.shape[1])

    @property
    def dtype(self) -> np.dtype:
        """The type of the numbers."""
        return self.array.dtype

    def cuts(self, rows: int) -> list[int]:
        """Where spans of about this many rows may end."""
        return _every(rows, self.rows)

    def blocks(self, start: int, stop: int, rows: int) -> Iterator[np.ndarray]:
        """The rows from start to stop, a block at a time."""
        for i in range(start, stop, rows):
            yield self.array[i : min(i + rows, stop)]


@dataclass(frozen=True)
class OnDisk:
    """Rows one after the other in a file: an .npy, or what a memory map shows."""

    path: str
    offset: int  # bytes
    rows: int
    dimension: int
    dtype: np.dtype

    def cuts(self, rows: int) -> list[int]:
        """Where spans of about this many rows may end."""
        return _every(rows, self.rows)

    def blocks(self, start: int, stop: int, rows: int) -> Iterator[np.ndarray]:
        """The rows from start to stop, a block at a time."""
        block = np.empty((min(rows, stop - start), self.dimension), self.dtype)
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self.offset + start * self.dimension * self.dtype.itemsize)
            for i in range(start, stop, rows):
                part = block[: min(rows, stop - i)]
                _fill(file, part)
                yield part


@dataclass(frozen=True)
class InParquet:
    """A column of lists of a Parquet file. Its row groups are what can be read side by side."""

    path: str
    column: str
    ends: tuple[int, ...]  # of the row groups, in rows
    dimension: int
    dtype: np.dtype

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.ends[-1] if self.ends else 0

    def cuts(self, rows: int) -> list[int]:
        """Where spans of about this many rows may end."""
        return list(self.ends)

    def blocks(self, start: int, stop: int, rows: int) -> Iterator[np.ndarray]:
        """The rows from start to stop, a block at a time."""
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile

        groups = [g for g, end in enumerate(self.ends) if start < end <= stop]
        at = start
        try:
            # Buffered, not read ahead: a row group may be larger than memory
            with ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False) as file:
                for batch in file.iter_batches(rows, row_groups=groups, columns=[self.column], use_threads=False):
                    vectors = vectors_of(
                        pa.chunked_array([batch.column(0)]), f"column {self.column!r} of {self.path}, from row {at},"
                    )
                    if vectors.shape[1] != self.dimension:
                        raise ValueError(
                            f"{self.path} has {vectors.shape[1]} numbers in row {at}, not {self.dimension}"
                        )
                    at += len(vectors)
                    yield vectors
        except (pa.ArrowException, OSError, MemoryError) as error:
            raise OSError(f"{self.path} cannot be read: {error}") from None
        if at != stop:
            raise OSError(f"{self.path} has changed while it was read: {at - start} rows, not {stop - start}")


class Pile(LargePile):
    """The queries of one task in pieces, for `handful.solve` in place of an array [Q, D].

    Parameters
    ----------
    source : array [n, D], path, or list of these
        Arrays, also memory-mapped ones; paths of .npy and .parquet files; folders of such files, which are read in
        the order of their names; or patterns such as "pile/part-*.parquet".
    column : str
        The column of features in Parquet files.

    Examples
    --------
    >>> pile = Pile([np.zeros((3, 2)), np.ones((1, 2))])
    >>> pile
    <Pile: 4 rows of 2 features in 2 pieces>
    >>> pile.take([2, 3])
    array([[0., 0.],
           [1., 1.]])
    """

    def __init__(self, source: Any, column: str = COLUMN) -> None:
        if isinstance(source, str | os.PathLike | np.ndarray | Pile):
            source = [source]
        pieces = [piece for each in source for piece in _pieces(each, column)]
        self.pieces: list[Any] = [piece for piece in pieces if piece.rows]
        if not self.pieces:
            raise ValueError("the pile is empty: it has no items")
        widths = {piece.dimension: piece for piece in self.pieces}
        if len(widths) > 1:
            sizes = " and ".join(f"{width} ({_name(piece)})" for width, piece in list(widths.items())[:2])
            raise ValueError(f"pieces of the pile have different numbers of features, {sizes}: use one backbone's")
        self.dtype = np.result_type(*(piece.dtype for piece in self.pieces))

    @cached_property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def dimension(self) -> int:  # type: ignore[override]  # known from the first part
        """How many features a row has."""
        return int(self.pieces[0].dimension)

    @property
    def shape(self) -> tuple[int, int, int]:
        """As a batch of one task: [1, Q, D]."""
        return 1, self.rows, self.dimension

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        pieces = f"{len(self.pieces):,} piece{'s' * (len(self.pieces) != 1)}"
        return f"<Pile: {self.rows:,} rows of {self.dimension:,} features in {pieces}>"

    def __getitem__(self, tasks: Any) -> Any:
        if isinstance(tasks, slice) and tasks in (slice(0, 1), slice(None)):  # all of the batch of one
            return self
        raise TypeError("this pile is read in pieces and was not loaded: take(rows) reads some of it into memory")

    @property
    def usual_span(self) -> int:
        """How many rows a thread takes at a time."""
        return max(1, SPAN // (self.dimension * self.dtype.itemsize))

    def spans(self, rows: int | None = None) -> list[Span]:
        """Divide all rows into parts that can be read side by side.

        Parameters
        ----------
        rows : int, optional
            About how many rows a part has.
        """
        rows = rows or self.usual_span
        found, at = [], 0
        for number, piece in enumerate(self.pieces):
            start = 0
            for stop in piece.cuts(rows):
                found.append(Span(number, start, stop, at + start))
                start = stop
            at += piece.rows
        return found

    def blocks(self, span: Span, rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """Read a span as blocks, float32 or float64, each with the place of its first row in the pile.

        Parameters
        ----------
        span : Span
            One of `spans()`.
        rows : int, optional
            How many rows a block has at most.
        """
        rows = rows or max(1, BLOCK // (self.dimension * self.dtype.itemsize))
        at = span.at
        for block in self.pieces[span.piece].blocks(span.start, span.stop, rows):
            yield at, block.astype(_floating(block.dtype), copy=False)
            at += len(block)

    @property
    def coded(self) -> int:
        """Bytes of what is decoded whenever it is read."""
        return sum(p.rows * p.dimension * p.dtype.itemsize for p in self.pieces if isinstance(p, InParquet))

    def decoded(self, folder: Path, threads: int) -> Pile:
        """The same pile with its Parquet pieces written to .npy files, which are read many times as fast.

        Parameters
        ----------
        folder : Path
            Where the files are written.
        threads : int
            How many pieces are written at a time.
        """
        with ThreadPoolExecutor(threads) as pool:
            pieces = pool.map(partial(_decoded, folder), range(len(self.pieces)), self.pieces)
            plain: Pile = object.__new__(Pile)
            plain.pieces, plain.dtype = list(pieces), self.dtype
        return plain

    def take(self, rows: Any) -> np.ndarray:
        """Read some rows into memory.

        Parameters
        ----------
        rows : sequence of int
            Their places in the pile, ascending.

        Returns
        -------
        array [n, D]
        """
        rows = np.asarray(rows, np.int64)
        parts = [taken for span in self.spans() if len(taken := taken_of(self.blocks(span), rows))]
        return np.concatenate(parts) if parts else np.empty((0, self.dimension), _floating(self.dtype))


def taken_of(blocks: Iterator[tuple[int, np.ndarray]], rows: np.ndarray) -> np.ndarray:
    """Those of the rows, ascending places in the pile, that are in these blocks."""
    parts = []
    for at, block in blocks:
        low, high = np.searchsorted(rows, [at, at + len(block)])
        parts.append(block[rows[low:high] - at])
    return np.concatenate(parts)


def _decoded(folder: Path, number: int, piece: Any) -> Any:
    if not isinstance(piece, InParquet):
        return piece
    path = folder / f"{number}.npy"
    with path.open("wb") as file:
        about = {"descr": piece.dtype.str, "fortran_order": False, "shape": (piece.rows, piece.dimension)}
        np.lib.format.write_array_header_2_0(file, about)
        offset = file.tell()
        for block in piece.blocks(0, piece.rows, max(1, BLOCK // (piece.dimension * piece.dtype.itemsize))):
            file.write(np.ascontiguousarray(block, piece.dtype).data)
    return OnDisk(str(path), offset, piece.rows, piece.dimension, piece.dtype)


def _pieces(source: Any, column: str) -> list[Any]:
    if isinstance(source, Pile):
        return source.pieces
    if isinstance(source, np.ndarray):
        return [_of_array(source)]
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"a piece of the pile is a {type(source).__name__}: give arrays [n, D], or paths of files")
    return [_of_file(path, column) for path in _files(os.fsdecode(source))]


def _files(path: str) -> list[str]:
    if os.path.isdir(path):
        found = [name for name in sorted(os.listdir(path)) if name[0] not in "._" and Path(name).suffix in _OPENERS]
        kinds = {Path(name).suffix for name in found}
        if len(kinds) != 1:
            raise ValueError(
                f"{path!r} holds {'files of both kinds' if kinds else 'no files'}, .npy or .parquet: "
                "give a folder of one kind, or the files"
            )
        return [os.path.join(path, name) for name in found]
    if has_magic(path) and not os.path.exists(path):
        found = sorted(glob(path))
        if not found:
            raise FileNotFoundError(f"there is no file {path!r}")
        return found
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no file or folder {path!r}")
    return [path]


def _of_file(path: str, column: str) -> Any:
    opener = _OPENERS.get(Path(path).suffix)
    if opener is None:
        raise ValueError(f"{path!r} is no .npy and no .parquet: only these are read in pieces")
    if not os.path.isfile(path):
        raise ValueError(f"{path!r} is not a file: a pile is read from .npy and .parquet files")
    return opener(os.path.abspath(path), column)


def _of_npy(path: str, _: str) -> Any:
    try:
        with open(path, "rb") as file:
            check_npy(file, "it", whole=False)
        return _of_array(np.load(path, mmap_mode="r", allow_pickle=False), path)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path!r} cannot be read in pieces: {error}") from None


def _of_parquet(path: str, column: str) -> InParquet:
    import pyarrow as pa

    try:
        with open_parquet(path) as file:
            names = file.schema_arrow.names
            if column not in names:
                there = shortened(", ".join(names[:20]), 300)
                raise ValueError(f"it has no column {column!r}; it has: {there}")
            check_once(names, [column])
            check_vectors(file.schema_arrow.field(column).type, f"column {column!r}")
            check_sizes(path, file, [column])
            ends = np.cumsum(
                [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
            ).tolist()
            first = next(file.iter_batches(1, columns=[column]), None)
        if first is None:
            return InParquet(path, column, (), 0, np.dtype(np.float32))
        vectors = vectors_of(pa.chunked_array([first.column(0)]), f"column {column!r}")
    except ValueError as error:
        raise ValueError(f"{path!r} cannot be read in pieces: {error}") from None
    return InParquet(path, column, tuple(ends), vectors.shape[1], vectors.dtype)


_OPENERS: dict[str, Callable[[str, str], Any]] = {".npy": _of_npy, ".parquet": _of_parquet}


def _of_array(array: np.ndarray, name: str = "a piece of the pile") -> Any:
    if array.ndim != 2 or not array.shape[1]:
        raise ValueError(f"{name} has shape {array.shape}: rows of features are needed, [items, features]")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {array.dtype}: numbers are needed")
    place = file_of(array)
    if place is None:
        return InMemory(np.asarray(array))
    path, offset = place
    return OnDisk(path, offset, array.shape[0], array.shape[1], array.dtype)


def file_of(array: np.ndarray) -> tuple[str, int] | None:
    """The file and the place in it that a memory-mapped array shows, if its rows lie there one after the other."""
    base: Any = array
    while isinstance(base, np.ndarray) and not (isinstance(base, np.memmap) and not isinstance(base.base, np.ndarray)):
        base = base.base
    if not isinstance(base, np.memmap) or base.filename is None or not array.flags.c_contiguous:
        return None
    if base.mode == "c":  # what was changed is in memory alone
        return None
    return os.fsdecode(base.filename), base.offset + array.ctypes.data - base.ctypes.data


def _fill(file: Any, block: np.ndarray) -> None:
    view = block.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(view):
        got = file.readinto(view[done:])
        if not got:
            raise OSError(f"{file.name} ends too early: it has changed while it was read")
        done += got


def _every(rows: int, total: int) -> list[int]:
    return [*range(rows, total, rows), total]


def _floating(dtype: np.dtype) -> np.dtype:
    """Half precision and small integers widen to float32, others to float64, as everywhere."""
    if dtype in (np.float32, np.float64):
        return dtype
    return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)


def _name(piece: Any) -> str:
    return getattr(piece, "path", "an array")
