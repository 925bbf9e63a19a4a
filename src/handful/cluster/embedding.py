"""Pictures to features on many machines, by Ray Data.

    pictures, in order -> shards of a fixed number -> actors that read, decode, embed, write -> part-00012.parquet

A part is written whole or not at all, and says itself which pictures, in which state, by which backbone it holds. So
a task that Ray runs twice, a machine that was thought dead and an interrupted run that goes on can neither lose nor
double a row, and the last bits are the same: a batch never crosses the border of a shard.

An actor decodes its own pictures, in a thread beside the network. Tasks of their own for that, ahead of the actors,
hand 600 kB a picture through the object store and wait for the cores that the actors hold: on two machines of one core
they took 1.3 to 3 times as long (and Ray Data makes one stage of the two where both ask for the same).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from handful.backbones.pictures import BadPicture, Skipped, find_pictures
from handful.cluster.connection import connected, need
from handful.cluster.embedding_part import Order, Recipe, Shard, ShardMaker, digest
from handful.cluster.ray_logging import quiet
from handful.features import FeatureTable, read, write
from handful.features.base_mean import BASE_MEAN, mean_of_folder
from handful.features.file_checks import read_json
from handful.features.parts import PART, PLAN, part_name, part_numbers, read_note, write_mean
from handful.utils.files import printable, write_whole

if TYPE_CHECKING:
    from handful.backbones import Backbone

SIZE = 256  # pictures a shard: seconds of work, a file of a megabyte
UNREAD = "cannot be read"  # how the reason begins where a file could not even be opened
STALE = 3600  # seconds after which nobody writes to a scratch file any more
DIFFERENCES = {  # what a plan says, in words
    "of": "pictures of another folder",
    "backbone_fingerprint": "features of another backbone",
    "shard_size": "shards of another size",
    "pictures": "another number of pictures",
    "digest": "other pictures",
}


@dataclass(frozen=True)
class Sharded:
    """A folder of shards that is complete; of its pictures what a `FeatureTable` has, but for their features."""

    folder: Path
    names: list[str]  # below the folder of pictures
    hashes: list[str]
    skipped: list[tuple[str, str]]  # path and reason

    def join(self, path: Path) -> None:
        """Make one file of them, whose suffix says of which kind, and remove them."""
        write(read(self.folder), path)
        shutil.rmtree(self.folder, ignore_errors=True)  # it was made sure that nothing of anybody else's is in it


def embed_folder(top: Path, recipe: Recipe, output: Path, backbone: Backbone, **options: Any) -> Sharded:
    """Embed all pictures below a folder, into a folder of shards or, by way of one beside it, into a file.

    options: those of `embed_to_shards`.
    """
    found, left = find_pictures(top, strict=options.get("strict", False))
    place = output if into_parts(output) else output.with_name(f"{output.name}.shards")
    made = embed_to_shards(top, found, recipe, place, backbone, **options)
    if not made.names:
        raise ValueError(f"{str(top)!r} holds no pictures to label" + (", none that could be read" if found else ""))
    if place != output:
        made.join(output)
    return replaced(made, skipped=[(s.path, s.reason) for s in left] + made.skipped)


def into_parts(output: Path) -> bool:
    """Whether the name is that of a folder."""
    return output.is_dir() or not output.suffix


def embed_to_shards(
    top: Path,
    paths: Sequence[Path],
    recipe: Recipe,
    folder: Path,
    backbone: Backbone,
    *,
    size: int = SIZE,
    address: str | None = None,
    until: ExitStack | None = None,
    replace: bool = False,
    strict: bool = False,
    base_mean: np.ndarray | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Sharded:
    """Embed pictures below `top` on the cluster at `address`, into a folder of shards that all its machines share.

    recipe: how the machines come by `backbone`. base_mean: of the base classes, to be kept with the features.

    Pile that are there and still right are kept: an interrupted run goes on where it was, and where nothing is left
    to do Ray is not started. A folder with shards of other things is an error, or with `replace` made anew as far as
    it is not right. Pictures that cannot be used are skipped, or with `strict` the first is raised as `BadPicture`.
    `until`: what keeps the connection for the next call.
    """
    if size < 1:
        raise ValueError(f"a shard of {size} pictures: at least 1 is needed")
    if not paths:
        return Sharded(folder, [], [], [])
    names = [os.fsencode(os.path.relpath(path, top)) for path in paths]
    order = Order(
        os.path.abspath(top), os.path.abspath(folder), recipe.from_anywhere(), backbone.fingerprint, uuid4().hex[:8]
    )
    shards = [Shard(number, names[i : i + size]) for number, i in enumerate(range(0, len(names), size))]
    plan = {
        "shards": len(shards), "shard_size": size, "pictures": len(names), "of": printable(order.top),
        "backbone": backbone.name, "backbone_fingerprint": backbone.fingerprint, "digest": digest(order.key, *names),
    }  # fmt: skip
    _take(folder, plan, base_mean, replace)
    notes = _right_ones(order, shards)
    todo = [shard for shard in shards if shard.number not in notes]
    for shard in todo:
        (folder / shard.file).unlink(missing_ok=True)  # it holds what nobody should read for this set
    run = _Run(shards, paths, strict, progress)
    for number, note in notes.items():
        run.settle(number, note["skipped"])
    run.tell()
    if todo:
        try:
            with closing(_made(order, todo, address, until)) as rows:
                for said in rows:
                    if "error" in said:
                        raise (OSError if said["system"] else ValueError)(said["error"])
                    run.settle(said["shard"], said["skipped"])
                    run.tell()
        finally:
            _sweep(folder, order.run)
        notes = _right_ones(order, shards, as_they_are=False)
    if missing := [shard.file for shard in shards if shard.number not in notes]:
        raise OSError(
            f"{missing[0]} was made, and is not to be seen in {str(folder)!r} from here: give a folder that all "
            "machines of the cluster share, and run the same command again"
        )
    kept = [i for shard in shards for i in _kept(shard, notes[shard.number], shard.number * size)]
    hashes = [content for shard in shards for content in notes[shard.number]["hashes"]]
    return Sharded(folder, [os.fsdecode(names[i]) for i in kept], hashes, run.skipped)


class ClusterEmbedder:
    """What `read_examples` and `read_pile` embed with on a cluster; the shards are kept in `folder`, for another time.

    Ray is started with the first pictures that are to be embedded, and ended with the `with`.
    """

    def __init__(self, recipe: Recipe, folder: Path, address: str | None = None, size: int = SIZE) -> None:
        self.recipe, self.folder, self.address, self.size = recipe, folder, address, size
        self._stack = ExitStack()

    def __enter__(self) -> ClusterEmbedder:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def __call__(
        self,
        top: Path,
        paths: Sequence[Path],
        backbone: Backbone,
        what: str,
        progress: Callable[[str, int, int], object],
        strict: bool,
    ) -> FeatureTable:
        """Embed pictures on the cluster, write the features in parts, and read them back."""
        made = embed_to_shards(
            top, paths, self.recipe, self.folder / what, backbone, size=self.size, address=self.address,
            until=self._stack, replace=True, strict=strict, progress=lambda done, total: progress(what, done, total),
        )  # fmt: skip
        empty = np.empty((0, backbone.dimension), np.float32)
        features = read(made.folder).features if made.names else empty
        skipped = [Skipped(*each) for each in made.skipped]
        names = np.array([str(top / name) for name in made.names], dtype=str)
        return FeatureTable(features, paths=names, hashes=made.hashes, skipped=skipped)


# ---- the machines


def _made(
    order: Order, todo: Sequence[Shard], address: str | None, until: ExitStack | None
) -> Generator[dict[str, Any], None, None]:
    """What the actors say, shard by shard as they are made.

    An actor takes a core. Those that die with a machine start again where there is a free one; on fewer machines than
    before that is when an actor there has run out of shards and Ray Data lets it go.
    """
    need()
    try:
        from ray import data
    except ImportError as error:  # Ray alone can be installed without what this part of it needs
        raise ImportError(f"--engine ray needs Ray Data: pip install 'handful[scale]' ({error})") from error
    with ExitStack() as here, quiet(data):
        ray = (here if until is None else until).enter_context(connected(address))
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        pool = data.ActorPoolStrategy(min_size=1, max_size=len(todo), initial_size=min(cores, len(todo)))
        rows = [{"shard": shard.number, "names": b"\0".join(shard.names)} for shard in todo]
        maker: Any = ShardMaker  # Ray Data makes the object, in the actor
        made = data.from_items(rows, override_num_blocks=len(rows)).map(
            maker, fn_constructor_args=(order,), compute=pool, num_cpus=1
        )
        try:
            for batch in made.iter_batches(batch_size=None, prefetch_batches=0):
                yield from map(json.loads, batch["said"])
        except ray.exceptions.RayActorError as error:
            if missing := re.search(r"No module named '[\w.]+'", str(error)):
                raise ImportError(
                    f"a machine of the cluster says: {missing[0]}. Install handful on all of them, in the same version "
                    "and with the same extras"
                ) from None
            raise


# ---- the folder of shards


def _take(folder: Path, plan: dict[str, Any], base_mean: np.ndarray | None, replace: bool) -> None:
    """Make the folder ours, or say why not. Before Ray is started."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is a file: give a folder for the shards")
    folder.mkdir(parents=True, exist_ok=True)
    if strange := [file.name for file in folder.iterdir() if not _ours(file.name)]:
        raise ValueError(f"{str(folder)!r} holds other things than shards, {strange[0]!r}: give another folder")
    there: dict[str, Any] | None = None
    with suppress(FileNotFoundError, ValueError):  # of a damaged one nothing is known
        there = read_json(folder / PLAN)
    if there != plan and not replace and (there is not None or part_numbers(folder)):
        kinds = [words for name, words in DIFFERENCES.items() if there and there.get(name) != plan[name]]
        raise ValueError(
            f"{str(folder)!r} holds {kinds[0] if kinds else 'shards of which nothing is known'}: "
            "give another folder, or --overwrite to replace them"
        )
    before = None
    with suppress(ValueError):
        before = mean_of_folder(folder)
    if before is not None and not replace and (base_mean is None or not np.array_equal(before, base_mean)):
        raise ValueError(
            f"{str(folder)!r} holds features with another base mean: give another folder, or --overwrite to replace it"
        )
    write_mean(folder, base_mean)
    for number in part_numbers(folder):
        if number >= plan["shards"]:
            (folder / part_name(number)).unlink()
    if there != plan:
        write_whole(folder / PLAN, (json.dumps(plan, indent=1) + "\n").encode())


def _ours(name: str) -> bool:
    return name in (PLAN, BASE_MEAN) or bool(PART.fullmatch(name)) or (name.startswith(".") and name.endswith(".tmp"))


def _right_ones(order: Order, shards: Sequence[Shard], as_they_are: bool = True) -> dict[int, dict[str, Any]]:
    """The notes of those parts that are there and are of these pictures; as they are now, or were when it began."""
    there = set(part_numbers(Path(order.folder)))

    def look(shard: Shard) -> dict[str, Any] | None:
        note = read_note(Path(order.folder, shard.file)) if shard.number in there else None
        if note is None or note.get("digest") != shard.mark(order):
            return None
        unread = any(reason.startswith(UNREAD) for _, reason in note["skipped"])  # perhaps it can be by now
        return note if not as_they_are or (not unread and note["state"] == shard.state(order)) else None

    with ThreadPoolExecutor(16) as pool:  # a network drive answers many at once
        notes = pool.map(look, shards)
        return {shard.number: note for shard, note in zip(shards, notes, strict=True) if note is not None}


def _kept(shard: Shard, note: dict[str, Any], start: int) -> Iterator[int]:
    skipped = {i for i, _ in note["skipped"]}
    return (start + i for i in range(len(shard.names)) if i not in skipped)


def _sweep(folder: Path, run: str) -> None:
    """Remove what dead machines left of parts: this run's, and what is too old to be another's that is at work."""
    for file in folder.glob(".part-*.tmp"):
        with suppress(OSError):
            if f".{run}." in file.name or file.stat().st_mtime < time.time() - STALE:
                file.unlink()


class _Run:
    """How far it is, and what was skipped; strict, it stops at the picture that would have been the first."""

    def __init__(
        self, shards: Sequence[Shard], paths: Sequence[Path], strict: bool, progress: Callable[[int, int], object]
    ) -> None:
        self.shards, self.paths, self.strict, self.progress = shards, paths, strict, progress
        self.found: dict[int, list[tuple[str, str]]] = {}  # by shard

    def settle(self, number: int, skipped: list[tuple[int, str]]) -> None:
        start = number * len(self.shards[0].names)
        self.found[number] = [(os.fsdecode(self.paths[start + i]), reason) for i, reason in skipped]

    def tell(self) -> None:
        self.progress(sum(len(self.shards[number].names) for number in self.found), len(self.paths))
        bad = min((number for number, skipped in self.found.items() if skipped), default=None)
        if self.strict and bad is not None and all(number in self.found for number in range(bad)):
            raise BadPicture(*self.found[bad][0])

    @property
    def skipped(self) -> list[tuple[str, str]]:
        return [each for number in sorted(self.found) for each in self.found[number]]
