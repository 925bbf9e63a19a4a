"""Results on disk: a small Parquet file for each (configuration, seed, block of tasks), written whole or not at all.

    DIR/blocks/<configuration>/cell.json               what the configuration is, for people
    DIR/blocks/<configuration>/seed0.tasks0-99.parquet

A configuration is everything that decides a figure: the features, the protocol, the method and its parameters, and
the code. So any run may use what any other has left there, two may work side by side, and one that was killed goes
on where it was.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import numpy as np

import handful
from handful.bench.settings import Cell
from handful.features import FeatureSet
from handful.methods import get

BLOCK = 100  # tasks
MEASURING = ("handful.methods.solving", "handful.methods.pairing", "handful.metrics", "handful.features.episodes")
STALE = 3600  # seconds after which a temporary file is surely nobody's


@dataclass(frozen=True)
class Block:
    """Tasks first .. last - 1 of a seed."""

    seed: int
    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first


def blocks(seeds: int, tasks: int) -> list[Block]:
    return [Block(s, i, min(i + BLOCK, tasks)) for s in range(seeds) for i in range(0, tasks, BLOCK)]


class Store:
    """A folder of blocks."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def open(self) -> None:
        """Make the folder, find out now rather than later whether it can be written, clear away what kills left."""
        try:
            (self.folder / "blocks").mkdir(parents=True, exist_ok=True)
            write_whole(self.folder / ".writable", b"")
            (self.folder / ".writable").unlink(missing_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(error.errno, f"results cannot be written there: {reason}", str(self.folder)) from None
        for left in self.folder.rglob(".*.tmp"):
            try:
                if time.time() - left.stat().st_mtime > STALE:
                    left.unlink()
            except FileNotFoundError:  # another run was quicker
                pass

    def scratch(self, name: str) -> Path:
        """A name of one's own for something that is not to last."""
        return scratch(self.folder / name)

    def path(self, key: str, block: Block) -> Path:
        return self.folder / "blocks" / key / f"seed{block.seed}.tasks{block.first}-{block.last - 1}.parquet"

    def read(self, key: str, block: Block, names: tuple[str, ...]) -> dict[str, np.ndarray] | None:
        """The figures of a block by name, [tasks] each; None if they are not there or not whole."""
        from pyarrow import ArrowException, parquet

        try:
            table = parquet.read_table(self.path(key, block), partitioning=None)
            found = {name: table[name].to_numpy() for name in ("seed", "task", *names)}
        except (FileNotFoundError, ArrowException, OSError, KeyError):
            return None
        whole = np.array_equal(found.pop("task"), np.arange(block.first, block.last))
        return found if whole and (found.pop("seed") == block.seed).all() else None

    def write(self, key: str, about: Mapping[str, Any], block: Block, figures: Mapping[str, np.ndarray]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        path = self.path(key, block)
        columns = {"seed": np.full(block.size, block.seed), "task": np.arange(block.first, block.last), **figures}
        text = json.dumps(about, indent=2, sort_keys=True)
        sink = pa.BufferOutputStream()
        parquet.write_table(pa.table(columns).replace_schema_metadata({"handful": text}), sink)
        try:
            path.parent.mkdir(exist_ok=True)
            if not (path.parent / "cell.json").exists():
                write_whole(path.parent / "cell.json", text.encode())
            write_whole(path, sink.getvalue())
        except OSError as error:
            reason = f"{error.strerror or error}: what was finished is kept, the same command goes on from there"
            raise OSError(error.errno, f"the results were not written: {reason}", str(self.folder)) from None


def scratch(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid4().hex}.tmp")


def write_whole(path: Path, content: Any) -> None:
    """Under a temporary name first: `path` is never seen half written."""
    temporary = scratch(path)
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def describe(cell: Cell, features: str, base: str | None) -> dict[str, Any]:
    """Everything that decides the figures of a cell, as plain data. `features` and `base` are fingerprints."""
    method = get(cell.contender.method)
    return {
        "features": features,
        "base": base,
        "protocol": asdict(cell.protocol),
        "block": BLOCK,
        "method": method.name,
        "parameters": method.defaults | dict(cell.contender.parameters),
        "by_shots": {name: dict(values) for name, values in method.info.by_shots.items()},
        "preparation": list(method.info.preparation),
        "handful": handful.__version__,
        "code": code_of(method.name),
        "fast": "backend" in method.defaults and find_spec("numba") is not None,
    }


def key_of(about: Mapping[str, Any]) -> str:
    return blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=10).hexdigest()


def fingerprint(features: FeatureSet | None) -> str | None:
    if features is None:
        return None
    found = blake2b(repr((features.features.dtype.str, features.features.shape)).encode(), digest_size=16)
    found.update(np.ascontiguousarray(features.features).data)
    found.update("\0".join(map(str, features.labels)).encode())
    return found.hexdigest()


def modules_of(name: str) -> list[str]:
    """Where a method is defined; a pair is in two places."""
    method = get(name)
    parts = (method.classifier, method.detector) if hasattr(method, "classifier") else (method,)
    return [part.solve.__module__ for part in parts if not isinstance(part, str)]


@cache
def code_of(name: str) -> str:
    """A digest of the source that a method's figures come from: its module, what that uses, and the measuring."""
    seen: dict[str, ModuleType] = {}
    for start in (*modules_of(name), *MEASURING):
        _follow(start, seen)
    found = blake2b(digest_size=10)
    for module_name in sorted(seen):
        file = getattr(seen[module_name], "__file__", None)
        found.update(module_name.encode() + (Path(file).read_bytes() if file and Path(file).is_file() else b""))
    return found.hexdigest()


def _follow(name: str, seen: dict[str, ModuleType]) -> None:
    """The module and those of its own package, or of handful, that it takes something from."""
    if name in seen or (module := sys.modules.get(name)) is None:
        return
    seen[name] = module
    for used in _uses(module):
        if used.split(".")[0] in ("handful", name.split(".")[0]):
            _follow(used, seen)


def _uses(module: ModuleType) -> Iterator[str]:
    for value in vars(module).values():
        yield value.__name__ if isinstance(value, ModuleType) else str(getattr(value, "__module__", None))
