"""The items of a project in memory: numbers, names, their texts or the places of their pictures, and features."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from handful.features import FeatureTable
from handful.features.labels import NDArray
from handful.project.items import of_files
from handful.utils.files import is_within

_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_READ |= getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait


class LeadsOut(OSError):
    """A name whose file does not lie below the folder."""

    def __init__(self, name: str) -> None:
        super().__init__(errno.EXDEV, "it is outside of the folder", name)


def open_below(root: str | os.PathLike[str], name: str) -> int:
    """Open a regular file below a folder, also if somebody changes the path meanwhile; OSError if there is none."""
    real_root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(real_root, name))
    if real == real_root or not is_within(real, real_root):
        raise LeadsOut(name)
    _check_regular(os.stat(real, follow_symlinks=False), name)  # opening a device may do something
    descriptor = os.open(real, _READ)
    try:
        status = os.fstat(descriptor)
        _check_regular(status, name)
        if os.path.realpath(real) != real or not os.path.samestat(status, os.stat(real, follow_symlinks=False)):
            raise LeadsOut(name)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(status: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", name)


UPLOAD_PREFIX, EXPORT_PREFIX = ".incoming-", ".making-"  # folders of uploads and exports that are not complete
# Where the file of an item is: in the opened folder, in the folder of the project, or in a folder of examples
MAX_NAME_CHARACTERS = 200  # of a class's name
PILE, UPLOADS, EXAMPLES, NO_CLASS = "pile", "uploads", "examples", "unknown"


@dataclass(frozen=True, eq=False)
class Pile:
    """The items of a project by row. Features and hashes are filled in place when they are computed."""

    ids: NDArray  # [n]
    table: FeatureTable  # names, features, hashes, texts; features have no columns until the first are computed
    origins: list[str]
    usable: NDArray  # [n] bool: False if the picture cannot be read, or if there is no text
    ready: NDArray  # [n] bool: features are computed
    rank: NDArray = field(init=False)  # [n], the position in the natural order of names
    row: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        order = sorted(range(len(self)), key=lambda i: (_natural(self.names[i]), self.origins[i]))
        rank = np.empty(len(order), int)
        rank[order] = np.arange(len(order))
        object.__setattr__(self, "rank", rank)
        object.__setattr__(self, "row", {item: i for i, item in enumerate(self.ids.tolist())})

    def __len__(self) -> int:
        return len(self.table)

    @property
    def names(self) -> list[str]:
        """The name of each item."""
        return self.table.names

    @property
    def features(self) -> NDArray:
        """[n, D]."""
        return self.table.features

    @property
    def hashes(self) -> list[str]:
        """A hash of each picture, "" while it is not known."""
        hashes = self.table.hashes
        assert isinstance(hashes, list)  # it is filled in place
        return hashes

    @property
    def texts(self) -> Sequence[str] | None:
        """The text of each item, None if items are no texts."""
        return self.table.texts

    @property
    def noun(self) -> str:
        """What one item is called."""
        return "picture" if self.texts is None else "text"

    @cached_property
    def folded(self) -> list[str]:
        """What to search in: the name of each item, and its text."""
        if self.texts is None:
            return [name.casefold() for name in self.names]
        return [folded(f"{name}\n{text}") for name, text in zip(self.names, self.texts, strict=True)]

    @classmethod
    def of(cls, rows: list[tuple[int, str, str]], texts: Sequence[str] | None = None) -> Pile:
        """From (id, origin, name), and their texts."""
        n = len(rows)
        ids = np.array([item for item, _, _ in rows], np.int64)
        names = [name for _, _, name in rows]
        table = FeatureTable(np.zeros((n, 0), np.float32), paths=names, hashes=[""] * n, texts=texts)
        return cls(ids, table, [origin for _, origin, _ in rows], np.ones(n, bool), np.zeros(n, bool))

    def grown(self, rows: list[tuple[int, str, str]], texts: Sequence[str] | None = None) -> Pile:
        """With more items, which have no features yet."""
        new = Pile.of(rows, texts)
        room = np.zeros((len(new), self.features.shape[1]), self.features.dtype)
        table = FeatureTable(
            np.concatenate([self.features, room]), paths=self.names + new.names, hashes=self.hashes + new.hashes,
            texts=None if self.texts is None else [*self.texts, *(new.texts or ())],
        )  # fmt: skip
        return Pile(
            np.concatenate([self.ids, new.ids]), table, self.origins + new.origins,
            np.concatenate([self.usable, new.usable]), np.concatenate([self.ready, new.ready]),
        )  # fmt: skip

    def with_room(self, dimension: int) -> Pile:
        """With room for features, which are all zeros."""
        table = self.table.replace(features=np.zeros((len(self), dimension), np.float32))
        return replace(self, table=table, ready=np.zeros(len(self), bool))

    def items(self, rows: NDArray, labels: list[str] | None = None) -> FeatureTable:
        """Some rows for the solver: without hashes, unless all of them have one."""
        table = self.table.take(rows)
        return table.replace(labels=labels, hashes=table.hashes if all(table.hashes or ()) else None)

    def similarity(self, row: int) -> NDArray:
        """[n] cosines between one item and each item, centred on the mean of all; -inf where there are no features."""
        x, ready = self.features, self.ready
        mean = x[ready].mean(axis=0)
        direction = x[row] - mean
        # Centred without a second copy of all features
        length = np.sqrt(np.maximum(np.vecdot(x, x) - 2 * (x @ mean) + mean @ mean, 1e-12))
        cosine = (x @ direction - mean @ direction) / (length * max(float(np.linalg.norm(direction)), 1e-6))
        return np.where(ready, cosine, -np.inf)


class Source:
    """Where the files of a project are: what was opened, the folder of uploads, and those of examples."""

    def __init__(
        self, opened: Path, project: Path, kind: str, examples: Path | None = None, no_class: Path | None = None
    ) -> None:
        self.opened, self.project, self.kind = opened, project, kind
        self.is_table, self.uploads = not of_files(opened), project / UPLOADS
        # Only files below these folders are served
        self.roots = {PILE: opened.parent if self.is_table else opened, UPLOADS: self.uploads}
        for origin, folder in ((EXAMPLES, examples), (NO_CLASS, no_class)):
            if folder is not None and of_files(folder):
                self.roots[origin] = folder

    def file(self, origin: str, name: str) -> Path:
        """The path of an item's file; it is not looked up on the disk."""
        return self.roots[origin] / name

    def open(self, origin: str, name: str) -> int:
        """Open an item's file and return the descriptor; raise OSError if it is not below the opened folder."""
        if origin == UPLOADS:  # from the folder of the project, so that `uploads` itself cannot be a link
            return open_below(self.project, os.path.join(UPLOADS, name))
        return open_below(self.roots[origin], name)

    def opener(self, items: Iterable[tuple[str, str]]) -> Callable[[str], int]:
        """A function that opens the files of items, which are (origin, name), by path."""
        by_path = {str(self.file(origin, name)): (origin, name) for origin, name in items}
        return lambda path: self.open(*by_path[path])


def folded(text: str) -> str:
    """A text to search in, or for: without case, and with one space in place of many."""
    return " ".join(text.casefold().split())


def _natural(name: str) -> list[Any]:
    """2.jpg before 10.jpg."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d{1,18})", name.casefold()))]
