"""Results on disk: a small Parquet file for each (configuration, seed, block of tasks), written whole or not at all."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from errno import EIO
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

import handful
from handful.bench.settings import FIGURES, Cell
from handful.features import FeatureTable
from handful.solving import get_solver
from handful.utils.extras import need_pyarrow
from handful.utils.files import write_whole

BLOCK_TASKS = 100  # tasks
ROOMS = ("core", "engines", "features", "methods", "solving")  # whose code decides a figure


@dataclass(frozen=True)
class Block:
    """Tasks first .. last - 1 of a seed."""

    seed: int
    first: int
    last: int

    @property
    def size(self) -> int:
        """The number of tasks."""
        return self.last - self.first


def blocks(seeds: int, tasks: int) -> list[Block]:
    """Return the blocks that the tasks of all seeds are computed in."""
    return [Block(s, i, min(i + BLOCK_TASKS, tasks)) for s in range(seeds) for i in range(0, tasks, BLOCK_TASKS)]


class Store:
    """A folder with the figures of solved tasks, in blocks. Runs that use the same folder share them."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).absolute()  # workers that are used again may have another working directory
        self.run = uuid4().hex  # marks the temporary files of this run and of its workers

    def open(self) -> None:
        """Make the folder, and check that it can be written."""
        need_pyarrow("a benchmark, whose figures are stored as Parquet files,")
        try:
            (self.folder / "blocks").mkdir(parents=True, exist_ok=True)
            write_whole(self.folder / ".writable", b"", self.run)
            (self.folder / ".writable").unlink(missing_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(error.errno, f"results cannot be written there: {reason}", str(self.folder)) from None

    def tidy(self) -> None:
        """Remove the temporary files of this run, which workers may leave when they are ended."""
        for leftover in self.folder.rglob(f".*.{self.run}.*.tmp"):
            leftover.unlink(missing_ok=True)

    def path(self, key: str, block: Block) -> Path:
        """Return the file of a block."""
        return self.folder / "blocks" / key / f"seed{block.seed}.tasks{block.first}-{block.last - 1}.parquet"

    def read(self, key: str, block: Block, names: tuple[str, ...]) -> dict[str, np.ndarray] | None:
        """Return the figures of a block by name, [tasks] each; None if they are missing or incomplete."""
        from pyarrow import ArrowException, parquet

        try:
            with parquet.ParquetFile(self.path(key, block)) as file:  # a dataset would import pandas
                table = file.read()
            figures = {name: table[name].to_numpy() for name in ("seed", "task", *names)}
        except (FileNotFoundError, ArrowException, OSError, KeyError):
            return None
        whole = np.array_equal(figures.pop("task"), np.arange(block.first, block.last))
        return figures if whole and (figures.pop("seed") == block.seed).all() else None

    def write(self, key: str, about: Mapping[str, Any], block: Block, figures: Mapping[str, np.ndarray]) -> None:
        """Write the figures of a block to its file, which appears whole or not at all; `about` is for people."""
        import pyarrow as pa
        from pyarrow import parquet

        path = self.path(key, block)
        columns = {"seed": np.full(block.size, block.seed), "task": np.arange(block.first, block.last), **figures}
        text = json.dumps(about, indent=2, sort_keys=True, default=repr)
        sink = pa.BufferOutputStream()
        parquet.write_table(pa.table(columns).replace_schema_metadata({"handful": text}), sink)
        with disk_errors_in_words(self.folder):
            path.parent.mkdir(exist_ok=True)
            if not (path.parent / "cell.json").exists():
                write_whole(path.parent / "cell.json", text.encode(), self.run)
            write_whole(path, sink.getvalue(), self.run)


@contextmanager
def disk_errors_in_words(folder: Path) -> Iterator[None]:
    """Turn an error of the disk into one that says what was not written, where, and that nothing else is lost."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or f"{error} (is the disk full?)"  # NumPy reports only how much it could write
        advice = "finished results are kept, and the same command continues from there"
        raise OSError(error.errno or EIO, f"the results were not written: {reason}: {advice}", str(folder)) from None


def describe(
    cell: Cell, features: str, base: str | None, figures: tuple[str, ...] = FIGURES, learned: str | None = None
) -> dict[str, Any]:
    """Return all that decides the figures of a cell; `features`, `base` and `learned` (a `Base`) are fingerprints."""
    method = get_solver(cell.contender.method)
    return {
        **({} if figures == FIGURES else {"figures": list(figures)}),
        **({"learned": learned} if method.info.needs == "base" and not cell.contender.parameters.get("base") else {}),
        "features": features,
        "base": base,
        "protocol": asdict(cell.protocol),
        "block": BLOCK_TASKS,
        "method": method.name,
        "parameters": {**method.defaults, **cell.contender.parameters},
        "by_shots": {name: dict(values) for name, values in method.info.by_shots.items()},
        "preparation": list(method.info.preparation),
        "handful": handful.__version__,
        "code": code_of(method.name),
    }


def key_of(about: Mapping[str, Any]) -> str:
    """Return a name for the folder of all blocks that were computed with these settings."""
    return blake2b(json.dumps(about, sort_keys=True, default=repr).encode(), digest_size=10).hexdigest()


def fingerprint(features: FeatureTable) -> str:
    """Return a digest of the features and labels of a set."""
    labels = np.empty(0, str) if features.labels is None else features.labels
    about = features.features.dtype.str, features.features.shape, labels.dtype.kind  # 10 > 2, but "10" < "2"
    hasher = blake2b(repr(about).encode(), digest_size=16)
    hasher.update(np.ascontiguousarray(features.features).data)
    hasher.update("\0".join(map(str, labels)).encode())
    return hasher.hexdigest()


def code_of(name: str) -> str:
    """Return a digest of the rooms of handful that decide a figure, and of the folder of a method of one's own."""
    files = list(_rooms())
    for module in {part.solve.__module__ for part in get_solver(name).parts.values()}:
        if module.startswith("handful."):
            continue
        file = getattr(sys.modules.get(module), "__file__", None)
        if file is None or not Path(file).is_file():
            return uuid4().hex  # of an interactive session: nobody can say whether it is the same
        files += sorted(Path(file).parent.glob("*.py"))
    hasher = blake2b(digest_size=10)
    for path in files:
        hasher.update(path.name.encode() + path.read_bytes())
    return hasher.hexdigest()


@cache
def _rooms() -> tuple[Path, ...]:
    here = Path(handful.__file__).parent
    return tuple(file for room in ROOMS for file in sorted((here / room).rglob("*.py")))
