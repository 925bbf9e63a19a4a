"""Pictures to features on the machines of a Ray cluster.

    pictures, in order -> parts of a fixed number -> workers that read, decode, embed, write -> part-00012.parquet

A part is written whole or not at all. It records its pictures, their state and the backbone. So no row is lost or
doubled when Ray runs a task twice, when a machine seems dead but is not, or when an interrupted run continues. The
features are the same to the last bit, because a batch never contains pictures of two parts.

A worker decodes its own pictures, in a thread next to the network. Separate tasks for decoding would send 600 kB for
each picture through the object store and wait for the cores that the workers hold. On two machines of one core they
took 1.3 to 3 times as long.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from handful.backbones.embedding import LOADING_VERSION, embed_pictures
from handful.backbones.folders import Skipped
from handful.backbones.pictures import BadPicture, find_pictures
from handful.features import FeatureTable, read, write
from handful.features.parts import (
    BASE_MEAN,
    PART,
    PLAN,
    mean_of_folder,
    part_name,
    part_numbers,
    read_note,
    write_mean,
    write_part,
)
from handful.utils.files import first_folder, printable, read_json, write_whole
from handful.utils.ray import Row, Worker, map_on_ray

if TYPE_CHECKING:
    from handful.backbones import Backbone

PART_PICTURES = 256  # pictures of a part: seconds of work, a file of one megabyte
BATCH_SIZE = 32
MAX_TRIES = 5  # of a part whose worker died, with its machine or by a picture that crashes the decoder
UNREAD_REASON = "cannot be read"  # the start of the reason when a file could not be opened
MAX_SCRATCH_AGE_S = 3600  # after this time nobody writes to a scratch file any more
DIFFERENCES = {  # field of a plan: what to say when it differs
    "of": "pictures of another folder",
    "backbone_fingerprint": "features of another backbone",
    "shard_size": "parts of another size",
    "pictures": "another number of pictures",
    "digest": "other pictures",
}


@dataclass(frozen=True)
class PartFolder:
    """A complete folder of parts, with the names and hashes of its pictures, and the skipped ones."""

    folder: Path
    names: list[str]  # paths relative to the folder of pictures
    hashes: list[str]
    skipped: list[tuple[str, str]]  # path and reason

    def join(self, path: Path) -> None:
        """Join the parts in one file, whose suffix gives the format, and remove the folder."""
        write(read(self.folder), path)
        shutil.rmtree(self.folder, ignore_errors=True)  # `_take` has checked that it holds no other files


def embed_folder(top: Path, recipe: Recipe, output: Path, backbone: Backbone, **options: Any) -> PartFolder:
    """Embed all pictures below a folder into a folder of parts, or into one file.

    For a file, the parts are first written to a folder next to it. `options` are those of `embed_to_parts`.
    """
    pictures, skipped = find_pictures(top, strict=options.get("strict", False))
    place = output if into_parts(output) else output.with_name(f"{output.name}.shards")
    part_folder = embed_to_parts(top, pictures, recipe, place, backbone, **options)
    if not part_folder.names:
        raise ValueError(f"{str(top)!r} holds no pictures to label" + (", none that could be read" if pictures else ""))
    if place != output:
        part_folder.join(output)
    return replaced(part_folder, skipped=[(s.path, s.reason) for s in skipped] + part_folder.skipped)


def into_parts(output: Path) -> bool:
    """Return whether the output is a folder: it exists as one, or has no suffix."""
    return output.is_dir() or not output.suffix


def embed_to_parts(
    top: Path,
    paths: Sequence[Path],
    recipe: Recipe,
    folder: Path,
    backbone: Backbone,
    *,
    size: int = PART_PICTURES,
    address: str | None = None,
    until: ExitStack | None = None,
    replace: bool = False,
    strict: bool = False,
    base_mean: np.ndarray | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> PartFolder:
    """Embed pictures below `top` on the cluster at `address`, into a folder of parts that all its machines share.

    Parts that exist and are still valid are kept. So an interrupted run continues, and Ray is not started when nothing
    is left to do.

    Parameters
    ----------
    top : Path
        The folder of pictures.
    paths : sequence of Path
        The pictures to embed, in order.
    recipe : Recipe
        How the machines load `backbone`.
    folder : Path
        The folder of the parts.
    backbone : Backbone
        The network, loaded on this machine.
    size : int
        Pictures of a part.
    address : str, optional
        The cluster. None starts one on this machine.
    until : ExitStack, optional
        Keeps the connection open for the next call.
    replace : bool
        Whether to replace invalid parts. Otherwise a folder with parts of something else is an error.
    strict : bool
        Whether to raise the first picture that cannot be used as `BadPicture`. Otherwise such pictures are skipped.
    base_mean : array [D], optional
        The mean of the base classes, to be stored with the features.
    progress : callable
        Called with the number of finished pictures and the number of all pictures.
    """
    if size < 1:
        raise ValueError(f"the part size is {size}: at least 1 picture is needed")
    if not paths:
        return PartFolder(folder, [], [], [])
    names = [os.fsencode(os.path.relpath(path, top)) for path in paths]
    order = Order(
        os.path.abspath(top), os.path.abspath(folder), recipe.from_anywhere(), backbone.fingerprint, uuid4().hex[:8]
    )
    parts = [PicturePart(number, names[i : i + size]) for number, i in enumerate(range(0, len(names), size))]
    plan = {
        "shards": len(parts), "shard_size": size, "pictures": len(names), "of": printable(order.top),
        "backbone": backbone.name, "backbone_fingerprint": backbone.fingerprint, "digest": digest(order.key, *names),
    }  # fmt: skip
    _take(folder, plan, base_mean, replace)
    notes = _valid_notes(order, parts)
    missing_parts = [part for part in parts if part.number not in notes]
    for part in missing_parts:
        (folder / part.file).unlink(missing_ok=True)  # it belongs to other pictures or to an older state
    run = _Run(parts, paths, strict, progress)
    for number, note in notes.items():
        run.settle(number, note["skipped"])
    run.tell()
    if missing_parts:
        try:
            rows = [{"part": part.number, "names": b"\0".join(part.names)} for part in missing_parts]
            with closing(map_on_ray(PartMaker, (order,), rows, address=address, until=until)) as answers:
                for answer in answers:
                    run.settle(answer["part"], answer["skipped"])
                    run.tell()
        finally:
            _sweep(folder, order.run)
        notes = _valid_notes(order, parts, as_they_are=False)
    if missing := [part.file for part in parts if part.number not in notes]:
        raise OSError(
            f"{missing[0]} was written, but {str(folder)!r} does not show it on this machine: give a folder that all "
            "machines of the cluster share, and run the same command again"
        )
    rows_embedded = [i for part in parts for i in _embedded_rows(part, notes[part.number], part.number * size)]
    hashes = [content for part in parts for content in notes[part.number]["hashes"]]
    return PartFolder(folder, [os.fsdecode(names[i]) for i in rows_embedded], hashes, run.skipped)


class RayEmbedder:
    """The embedder that `read_examples` and `read_pile` use on a cluster. The parts stay in `folder` for later runs.

    Ray starts with the first pictures to embed. It ends when the `with` block ends.
    """

    def __init__(self, recipe: Recipe, folder: Path, address: str | None = None, size: int = PART_PICTURES) -> None:
        self.recipe, self.folder, self.address, self.size = recipe, folder, address, size
        self._stack = ExitStack()

    def __enter__(self) -> RayEmbedder:
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
        part_folder = embed_to_parts(
            top, paths, self.recipe, self.folder / what, backbone, size=self.size, address=self.address,
            until=self._stack, replace=True, strict=strict, progress=lambda done, total: progress(what, done, total),
        )  # fmt: skip
        empty = np.empty((0, backbone.dimension), np.float32)
        features = read(part_folder.folder).features if part_folder.names else empty
        skipped = [Skipped(*entry) for entry in part_folder.skipped]
        names = np.array([str(top / name) for name in part_folder.names], dtype=str)
        return FeatureTable(features, paths=names, hashes=part_folder.hashes, skipped=skipped)


# ---- what a worker does


@dataclass(frozen=True)
class Recipe:
    """The arguments of `load_backbone`, with which every machine loads the same backbone."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def load(self, **more: Any) -> Backbone:
        """Load the backbone."""
        from handful.backbones import load_backbone

        backbone: Backbone = load_backbone(self.name, **self.options, **more)
        return backbone

    def from_anywhere(self) -> Recipe:
        """Return the recipe with an absolute path, which is valid in every working folder."""
        is_file = self.name.lower().endswith(".onnx")
        return Recipe(os.path.abspath(self.name) if is_file else self.name, dict(self.options))


@dataclass(frozen=True)
class Order:
    """What every worker must know: the folders of the pictures and of the parts, and the backbone."""

    top: str
    folder: str
    recipe: Recipe
    fingerprint: str
    run: str  # marks the scratch files of this run

    @property
    def key(self) -> bytes:
        """Everything except the pictures that determines the features, to the last bit."""
        return f"{self.fingerprint} {LOADING_VERSION} {BATCH_SIZE} ".encode() + os.fsencode(self.top)


@dataclass(frozen=True)
class PicturePart:
    """One part of the features: its number and the pictures that belong to it."""

    number: int
    names: list[bytes]  # paths relative to the folder of pictures; file names are not always text

    @property
    def file(self) -> str:
        """The name of the part's file."""
        return part_name(self.number)

    def paths(self, order: Order) -> list[str]:
        """Return the whole path of each picture."""
        return [os.path.join(order.top, os.fsdecode(name)) for name in self.names]

    def mark(self, order: Order) -> str:
        """Return the digest that the file of this part must carry."""
        return digest(order.key, *self.names)

    def state(self, order: Order) -> str:
        """Return a digest of the present state of the pictures; "" if none of them exists."""
        states = [_state(path) for path in self.paths(order)]
        return digest(*states) if any(states) else ""


class PartMaker(Worker):
    """Holds the backbone and writes one part for each row of work: a part's number and names."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._net: Backbone | None = None

    def work(self, row: Row) -> Row:
        """Make one part; the answer has its number and the skipped pictures."""
        part = PicturePart(int(row["part"]), row["names"].split(b"\0"))
        return {"part": part.number, "skipped": self._make(part)["skipped"]}

    def _make(self, part: PicturePart) -> dict[str, Any]:
        order = self.order
        for place, what in ((order.top, "pictures"), (os.path.join(order.folder, PLAN), "parts")):
            if not os.path.exists(place):  # otherwise all of its pictures would be skipped
                raise FileNotFoundError(
                    f"there is no {place!r}: {what} must be under the same path on every machine of the cluster"
                )
        path, paths = Path(order.folder, part.file), part.paths(order)
        mark = {"digest": part.mark(order), "state": part.state(order)}
        if not mark["state"]:  # probably a drive that is not mounted
            raise FileNotFoundError(f"{paths[0]!r} and the {len(paths) - 1} pictures after it do not exist")
        note = read_note(path)
        if note is not None and note.items() >= mark.items():  # it was written before its worker died
            return note
        tries = self._try(part)
        embedded = embed_pictures(paths, self._backbone(), cache=False, batch=BATCH_SIZE, threads=1)
        places = {path: i for i, path in enumerate(paths)}
        skipped = [(places[path], reason) for path, reason in embedded.skipped]
        names = [printable(os.path.relpath(path, order.top)) for path in embedded.names]
        note = {**mark, "hashes": embedded.hashes, "skipped": skipped}
        table = FeatureTable(embedded.features, list(map(first_folder, names)), names)
        write_part(table, path, note, order.run)
        tries.unlink(missing_ok=True)
        return note

    def _try(self, part: PicturePart) -> Path:
        """Count the attempts in a file, which outlives the worker: Ray would restart it without end."""
        tries = Path(self.order.folder, f".{part.file}.{self.order.run}.tries.tmp")
        with open(tries, "ab") as file:
            before = file.tell()
            file.write(b".")
        if before >= MAX_TRIES:
            first, last = (os.fsdecode(part.names[i]) for i in (0, -1))
            raise OSError(
                f"{before} workers died over the pictures from {first!r} to {last!r}: check whether one of them "
                "crashes the decoder, or whether memory is short"
            )
        return tries

    def _backbone(self) -> Backbone:
        if self._net is None:
            net = self.order.recipe.load(threads=1)  # a worker has one core
            if net.fingerprint != self.order.fingerprint:
                raise ValueError(
                    f"the backbone {self.order.recipe.name!r} is another one, or another version of it: "
                    "install the same version on all machines of the cluster"
                )
            self._net = net
        return self._net


def digest(*parts: bytes) -> str:
    """Return a digest of several byte strings."""
    return hashlib.blake2b(b"\0".join(parts), digest_size=20).hexdigest()


def _state(path: str) -> bytes:
    """Return size and time of a picture, b"" if it does not exist. Other fields differ between two machines."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return b""
    return f"{status.st_size} {int(status.st_mtime)}".encode()


# ---- the folder of parts


def _take(folder: Path, plan: dict[str, Any], base_mean: np.ndarray | None, replace: bool) -> None:
    """Prepare the folder, or raise ValueError if it cannot be used. Called before Ray is started."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is a file: give a folder for the parts")
    folder.mkdir(parents=True, exist_ok=True)
    if other_files := [file.name for file in folder.iterdir() if not _is_own_file(file.name)]:
        raise ValueError(f"{str(folder)!r} holds other files than parts, {other_files[0]!r}: give another folder")
    stored_plan: dict[str, Any] | None = None
    with suppress(FileNotFoundError, ValueError):  # a damaged plan counts as none
        stored_plan = read_json(folder / PLAN)
    if stored_plan != plan and not replace and (stored_plan is not None or part_numbers(folder)):
        kinds = [words for name, words in DIFFERENCES.items() if stored_plan and stored_plan.get(name) != plan[name]]
        raise ValueError(
            f"{str(folder)!r} holds {kinds[0] if kinds else 'parts of unknown origin'}: "
            "give another folder, or --overwrite to replace them"
        )
    stored_mean = None
    with suppress(ValueError):
        stored_mean = mean_of_folder(folder)
    if stored_mean is not None and not replace and (base_mean is None or not np.array_equal(stored_mean, base_mean)):
        raise ValueError(
            f"{str(folder)!r} holds features with another base mean: give another folder, or --overwrite to replace it"
        )
    write_mean(folder, base_mean)
    for number in part_numbers(folder):
        if number >= plan["shards"]:
            (folder / part_name(number)).unlink()
    if stored_plan != plan:
        write_whole(folder / PLAN, (json.dumps(plan, indent=1) + "\n").encode())


def _is_own_file(name: str) -> bool:
    return name in (PLAN, BASE_MEAN) or bool(PART.fullmatch(name)) or (name.startswith(".") and name.endswith(".tmp"))


def _valid_notes(order: Order, parts: Sequence[PicturePart], as_they_are: bool = True) -> dict[int, dict[str, Any]]:
    """Return the notes of the parts that exist and hold these pictures.

    as_they_are: whether the pictures must also be unchanged since the part was written.
    """
    numbers = set(part_numbers(Path(order.folder)))

    def check(part: PicturePart) -> dict[str, Any] | None:
        note = read_note(Path(order.folder, part.file)) if part.number in numbers else None
        if note is None or note.get("digest") != part.mark(order):
            return None
        unread = any(reason.startswith(UNREAD_REASON) for _, reason in note["skipped"])  # perhaps it can be read now
        return note if not as_they_are or (not unread and note["state"] == part.state(order)) else None

    with ThreadPoolExecutor(16) as pool:  # a network drive answers many requests at once
        notes = pool.map(check, parts)
        return {part.number: note for part, note in zip(parts, notes, strict=True) if note is not None}


def _embedded_rows(part: PicturePart, note: dict[str, Any], start: int) -> Iterator[int]:
    skipped = {i for i, _ in note["skipped"]}
    return (start + i for i in range(len(part.names)) if i not in skipped)


def _sweep(folder: Path, run: str) -> None:
    """Remove scratch files of dead machines: those of this run, and those too old for another running process."""
    for file in folder.glob(".part-*.tmp"):
        with suppress(OSError):
            if f".{run}." in file.name or file.stat().st_mtime < time.time() - MAX_SCRATCH_AGE_S:
                file.unlink()


class _Run:
    """The progress and the skipped pictures. In strict mode it raises the first picture in order that is skipped."""

    def __init__(
        self, parts: Sequence[PicturePart], paths: Sequence[Path], strict: bool, progress: Callable[[int, int], object]
    ) -> None:
        self.parts, self.paths, self.strict, self.progress = parts, paths, strict, progress
        self.skipped_by_part: dict[int, list[tuple[str, str]]] = {}  # by number of the part

    def settle(self, number: int, skipped: list[tuple[int, str]]) -> None:
        start = number * len(self.parts[0].names)
        self.skipped_by_part[number] = [(os.fsdecode(self.paths[start + i]), reason) for i, reason in skipped]

    def tell(self) -> None:
        self.progress(sum(len(self.parts[number].names) for number in self.skipped_by_part), len(self.paths))
        bad = min((number for number, skipped in self.skipped_by_part.items() if skipped), default=None)
        if self.strict and bad is not None and all(number in self.skipped_by_part for number in range(bad)):
            raise BadPicture(*self.skipped_by_part[bad][0])

    @property
    def skipped(self) -> list[tuple[str, str]]:
        return [entry for number in sorted(self.skipped_by_part) for entry in self.skipped_by_part[number]]
