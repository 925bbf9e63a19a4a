"""A solve as passes over the pile: what a pass is, the threads that make it, and the record of what it gave.

A method that streams is a generator. It yields a `Pass`, a function whose results over some rows add up, is sent the
sums over the whole pile, and returns what it learned::

    def passes(support, labels, count, view, **parameters):
        sums = yield Pass(function, {"prototypes": c}, view)        # {"pull": [N, D], ...}
        ...
        return state

It does not know who makes the pass: threads here, or actors on other machines. Nor does it know whether one was
made now: sent the sums that a `Journal` kept, it comes to where it was when it was killed, bit for bit.
"""

from __future__ import annotations

import io
import os
import struct
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from handful.core.arrays import FLOOR
from handful.core.prepare import apply, as_dtype
from handful.streaming.pile import Pile, Span
from handful.utils.files import locked
from handful.utils.threads import available_threads, one_blas_thread

Sums = dict[str, np.ndarray]  # float64
Blocks = Iterator[tuple[int, np.ndarray]]  # rows with the place of the first
T = TypeVar("T")


@dataclass(frozen=True)
class View:
    """How a method sees rows: the steps of their preparation with what each learned, [1, ...], and the dtype."""

    steps: tuple[tuple[str, np.ndarray], ...]
    dtype: str

    def rows(self, block: np.ndarray, room: np.ndarray | None = None) -> Rows:
        """The block prepared; in `room`, [at least as many rows, D] of the block's dtype, if that is given."""
        steps = [step for step in self.steps if step[0] != "none"]
        by_length = bool(steps) and steps[-1][0] == "l2"
        if by_length:
            steps = steps[:-1]
        centre = None
        if steps and steps[-1][0] in ("task", "base"):
            centre = steps.pop()[1][0]
        x, own = block, False
        for kind, value in steps:
            x, own = apply(kind, value, x[None], own)[0], True
        return Rows(as_dtype(x, self.dtype), centre, by_length, room)


class Rows:
    """The prepared items of a block.

    The last centring is done when it is needed. The last division by lengths is done on the few sums of the items.
    """

    def __init__(
        self, source: np.ndarray, centre: np.ndarray | None, by_length: bool, room: np.ndarray | None = None
    ) -> None:
        self.source = source  # [n, D]
        self.centre = np.zeros(source.shape[1], source.dtype) if centre is None else centre.reshape(-1)
        self.by_length = by_length
        self._plain, self._room = centre is None, room

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def x(self) -> np.ndarray:
        """Centred, [n, D]."""
        if self._plain:
            return self.source
        centre = self.centre.astype(self.source.dtype, copy=False)
        if self._room is None or self._room.dtype != self.source.dtype:
            return np.asarray(self.source - centre)
        values: np.ndarray = np.subtract(self.source, centre, out=self._room[: len(self)])
        return values

    @cached_property
    def per_length(self) -> np.ndarray:
        """One divided by the length of each item, [n]."""
        values: np.ndarray = 1 / np.maximum(np.sqrt(np.vecdot(self.x, self.x)), self.x.dtype.type(FLOOR))
        return values

    def cosines(self, directions: np.ndarray) -> np.ndarray:
        """To unit vectors [N, D], as [N, n]: what follows runs along items."""
        cosines = directions @ self.x.T
        cosines *= self.per_length
        return np.asarray(cosines)

    def unit_sums(self, weights: np.ndarray) -> np.ndarray:
        """Items at unit length summed by weights [C, n], as [C, D]."""
        values: np.ndarray = (weights * self.per_length) @ self.x
        return values

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """Items as prepared summed by weights [C, n], as [C, D]."""
        return self.unit_sums(weights) if self.by_length else weights @ self.x


@dataclass(frozen=True)
class Pass:
    """`function(rows, **arrays)` over all rows of the pile, summed; `left`: so many passes are still to come."""

    function: Callable[..., Mapping[str, np.ndarray]]
    arrays: Mapping[str, Any]
    view: View
    left: int = 0


Passes = Generator[Pass, Sums, T]


@dataclass
class Learned:
    """What a method learned of a pile: the `state` from which it scores items, one by one."""

    state: dict[str, Any]
    outlier_share: Any = None
    n_iter: int = 1


class Crew(Protocol):
    """Who makes passes over a pile."""

    def sums(self, each: Pass) -> Sums:
        """The sums of one pass over all rows."""
        ...

    def each(self, function: Callable[[Blocks], T]) -> Iterator[tuple[Span, T]]:
        """The function of every span's blocks, in any order."""
        ...  # pragma: no cover

    def close(self) -> None:
        """Release what the workers hold."""
        ...


def sums_of(blocks: Blocks, each: Pass) -> Sums:
    """A pass over some blocks."""
    total: Sums = {}
    room: np.ndarray | None = None
    for _, block in blocks:
        if room is None or len(room) < len(block) or room.dtype != block.dtype:
            room = np.empty_like(block)
        add(total, each.function(each.view.rows(block, room), **each.arrays))
    return total


def add(total: Sums, part: Mapping[str, np.ndarray]) -> None:
    """Add the sums of some rows to a total."""
    for name, values in part.items():
        if name in total:
            total[name] += values
        else:
            total[name] = np.array(values, np.float64)


class Threads:
    """Threads of this process. `chunk` rows are held at a time by each; sums do not depend on who was first."""

    def __init__(self, pile: Pile, threads: int | None = None, chunk: int | None = None) -> None:
        self.pile, self.chunk = pile, chunk
        self.threads = threads or available_threads()
        self.pool = ThreadPoolExecutor(self.threads, thread_name_prefix="handful-pile")

    def sums(self, each: Pass) -> Sums:
        """The sums of one pass over all rows."""
        total: Sums = {}
        for _, part in self.each(lambda blocks: sums_of(blocks, each)):
            add(total, part)
        return total

    def each(self, function: Callable[[Blocks], T]) -> Iterator[tuple[Span, T]]:
        """In order, and only so far ahead that results do not pile up."""
        with one_blas_thread():
            waiting: deque[tuple[Span, Future[T]]] = deque()
            try:
                for span in self.pile.spans(self._rows()):
                    waiting.append((span, self.pool.submit(function, self.pile.blocks(span, self.chunk))))
                    if len(waiting) > self.threads:
                        done, result = waiting.popleft()
                        yield done, result.result()
                while waiting:
                    done, result = waiting.popleft()
                    yield done, result.result()
            finally:
                for _, left in waiting:
                    left.cancel()

    def _rows(self) -> int:
        """Of a span: as usual, or fewer, that a small pile gives work to all."""
        return min(self.pile.usual_span, -(-len(self.pile) // self.threads))

    def close(self) -> None:
        """Release what the workers hold."""
        self.pool.shutdown(cancel_futures=True)


@dataclass
class Threaded:
    """The engine of one machine: opens a crew of threads."""

    threads: int | None = None

    def open(self, pile: Pile, chunk: int | None = None) -> Threads:
        """A crew of threads for this pile."""
        return Threads(pile, self.threads, chunk)


@dataclass
class Journal:
    """What every pass gave, in a file as it comes: a solve that was killed is sent it again, and goes on from there.

    `about` tells what is solved; a file of something else is refused. Records are checked by their digest: one that
    was cut off in the middle is made again. Without a path nothing is kept.
    """

    path: Path | None
    about: bytes = b""
    _records: list[Sums] = field(default_factory=list)
    _file: Any = None

    def __post_init__(self) -> None:
        if self.path is None:
            return
        self._file = locked(self.path, "checkpoint")
        self._file.seek(0)
        first, good = True, 0
        for content in _records(self._file):
            if first and content != self.about:
                self._file.close()
                raise ValueError(f"{self.path} is of another solve: remove it, or name another file")
            if not first:
                with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                    self._records.append({name: arrays[name] for name in arrays})
            first, good = False, self._file.tell()
        self._file.truncate(good)
        if first:
            self._write(self.about)

    @property
    def kept(self) -> int:
        """Passes that need not be made again."""
        return len(self._records)

    def replay(self) -> Iterator[Sums]:
        """The sums of the passes that were kept."""
        return iter(self._records)

    def keep(self, sums: Sums) -> None:
        """Keep the sums of a pass."""
        if self._file is not None:
            content = io.BytesIO()
            np.savez(content, **sums)  # type: ignore[arg-type]  # names of sums, not of arguments
            self._write(content.getvalue())

    def _write(self, content: bytes) -> None:
        digest = blake2b(content, digest_size=16).digest()
        self._file.write(struct.pack("<Q", len(content)) + digest + content)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self, finished: bool) -> None:
        """Release what the workers hold."""
        if self._file is not None and self.path is not None:
            self._file.close()
            if finished:
                self.path.unlink(missing_ok=True)


def _records(file: Any) -> Iterator[bytes]:
    """Those that are whole."""
    while len(head := file.read(24)) == 24:
        (size,) = struct.unpack("<Q", head[:8])
        if size > os.fstat(file.fileno()).st_size:
            return
        content = file.read(size)
        if len(content) < size or blake2b(content, digest_size=16).digest() != head[8:]:
            return
        yield content


def follow(
    passes: Passes[T], crew: Crew, journal: Journal, progress: Callable[[int, int], object] = lambda done, total: None
) -> T:
    """Make the passes that a method asks for, but for those that the journal holds; what it learned."""
    records = journal.replay()
    done = 0
    with closing(passes):
        try:
            each = next(passes)
            while True:
                sums = next(records, None)
                if sums is None:
                    sums = crew.sums(each)
                    journal.keep(sums)
                done += 1
                progress(done, done + each.left)
                each = passes.send(sums)
        except StopIteration as end:
            learned: T = end.value
            return learned
