"""Pictures to features on the machines of a Ray cluster.

    pictures, in order -> parts of a fixed number -> workers that read, decode, embed, write -> part-00012.parquet

A part is written whole or not at all. Its note holds a digest of its pictures, their state and the backbone. So no row
is lost or doubled when Ray runs a task twice, when a machine seems dead but is not, or when an interrupted run
continues. The features are the same to the last bit, because a batch never contains pictures of two parts.

A worker decodes its own pictures, in a thread next to the network. Separate tasks for decoding would send 600 kB for
each picture through the object store and wait for the cores that the workers hold.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from handful.backbones.embedding import LOADING_VERSION, embed_pictures
from handful.backbones.folders import Skipped
from handful.backbones.pictures import BadPicture, find_pictures
from handful.features import FeatureTable, read, write
from handful.features.parts import BASE_MEAN, PART, PLAN, part_name, part_numbers, read_note, write_mean, write_part
from handful.utils.files import first_folder, printable, read_json, write_whole
from handful.utils.ray import Row, Worker, map_on_ray

if TYPE_CHECKING:
    from handful.backbones import Backbone

PART_PICTURES = 256  # pictures of a part: seconds of work, a file of one megabyte
BATCH_SIZE = 32
MAX_TRIES = 5  # of a part whose worker died, with its machine or by a picture that crashes the decoder
UNREAD_REASON = "cannot be read"  # the start of the reason when a file could not be opened


class Recipe(NamedTuple):
    """The arguments of `load_backbone`, with which every machine loads the same backbone."""

    name: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class PartFolder:
    """A complete folder of parts, with the names and hashes of its pictures, and the skipped ones."""

    folder: Path
    names: list[str]  # paths relative to the folder of pictures
    hashes: list[str]
    skipped: list[Skipped]

    @property
    def label_names(self) -> list[str]:
        """The label of each picture: the first folder that it is in."""
        return [first_folder(printable(name)) for name in self.names]


class PartMaker(Worker):
    """Holds the backbone and writes one part for each row of work: its number, its pictures and their digest."""

    def __init__(self, recipe: Recipe, fingerprint: str, top: str, folder: str) -> None:
        self.recipe, self.fingerprint, self.top, self.folder = recipe, fingerprint, top, folder

    @cached_property
    def backbone(self) -> Backbone:
        """The backbone, loaded by the worker itself."""
        from handful.backbones import load_backbone

        backbone: Backbone = load_backbone(self.recipe.name, **self.recipe.options, threads=1)  # a worker has one core
        if backbone.fingerprint != self.fingerprint:
            raise ValueError(
                f"the backbone {self.recipe.name!r} is another one, or another version of it: "
                "install the same version on all machines of the cluster"
            )
        return backbone

    def work(self, row: Row) -> Row:
        """Make one part, unless a worker that died has written it. The answer lists the skipped pictures."""
        path = Path(self.folder, part_name(row["part"]))
        paths = [os.path.join(self.top, os.fsdecode(name)) for name in row["names"].split(b"\0")]
        # Otherwise all of its pictures would be skipped where a drive is not mounted.
        if not os.path.exists(os.path.join(self.folder, PLAN)) or not any(map(os.path.exists, paths)):
            raise FileNotFoundError(
                f"{paths[0]!r} or {self.folder!r} does not exist: pictures and parts must be under the same path on "
                "every machine of the cluster"
            )
        note = read_note(path) or {}
        if note.get("digest") != row["digest"]:
            tries = path.with_name(
                f".{path.name}.tries.tmp"
            )  # it outlives the worker: Ray would restart it without end
            with open(tries, "ab") as file:
                file.write(b".")
            if tries.stat().st_size > MAX_TRIES:
                raise OSError(
                    f"{MAX_TRIES} workers died over the pictures from {paths[0]!r} to {paths[-1]!r}: check whether one "
                    "of them crashes the decoder, or whether memory is short"
                )
            embedded = embed_pictures(paths, self.backbone, cache=False, batch=BATCH_SIZE, threads=1)
            skipped = [(paths.index(path), reason) for path, reason in embedded.skipped]
            note = {"digest": row["digest"], "hashes": embedded.hashes, "skipped": skipped}
            names = [printable(os.path.relpath(path, self.top)) for path in embedded.names]
            write_part(FeatureTable(embedded.features, list(map(first_folder, names)), names), path, note)
            tries.unlink(missing_ok=True)
        return {"part": int(row["part"]), "skipped": note["skipped"]}


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
    """Embed pictures below `top` into a folder of parts that all machines share; valid ones are kept."""
    if not paths:
        return PartFolder(folder, [], [], [])
    names = [os.fsencode(os.path.relpath(path, top)) for path in paths]
    starts = range(0, len(names), size)
    key = f"{backbone.fingerprint} {LOADING_VERSION} {BATCH_SIZE} {os.path.abspath(top)}".encode(errors="replace")
    mean = b"" if base_mean is None else base_mean.tobytes()
    plan = {"shards": len(starts), "of": _digest(key, b"%d" % size, mean, *names)}
    _prepare_folder(folder, plan, replace)
    write_mean(folder, base_mean)
    with ThreadPoolExecutor(16) as pool:  # a network drive answers many requests at once
        states = list(pool.map(_state, map(os.fspath, paths)))
    digests = [_digest(key, *names[i : i + size], *states[i : i + size]) for i in starts]
    finished = 0

    def settle(number: int, skipped: Sequence[tuple[int, str]]) -> None:
        nonlocal finished
        for i, reason in skipped if strict else ():
            raise BadPicture(paths[number * size + i], reason)
        finished += len(names[number * size : (number + 1) * size])
        progress(finished, len(names))

    rows, notes = [], _notes(folder, digests)
    for number, start in enumerate(starts):
        skipped = notes[number]["skipped"] if number in notes else [(0, UNREAD_REASON)]
        if any(reason.startswith(UNREAD_REASON) for _, reason in skipped):  # perhaps it can be read now
            (folder / part_name(number)).unlink(missing_ok=True)
            part = b"\0".join(names[start : start + size])
            rows.append({"part": number, "names": part, "digest": digests[number]})
        else:
            settle(number, skipped)
    if rows:
        is_file = recipe.name.lower().endswith(".onnx")  # its path must be valid in every working folder
        recipe = Recipe(os.path.abspath(recipe.name) if is_file else recipe.name, dict(recipe.options))
        arguments = (recipe, backbone.fingerprint, os.path.abspath(top), os.path.abspath(folder))
        try:
            with closing(map_on_ray(PartMaker, arguments, rows, address=address, until=until)) as answers:
                for answer in answers:
                    settle(answer["part"], answer["skipped"])
        finally:
            for file in folder.glob(".part-*.tmp"):  # of workers that were killed
                file.unlink(missing_ok=True)
        notes = _notes(folder, digests)
    if absent := [number for number in range(len(starts)) if number not in notes]:
        raise OSError(
            f"{part_name(absent[0])} was written, but {str(folder)!r} does not show it on this machine: give a folder "
            "that all machines of the cluster share, and run the same command again"
        )
    bad = {number * size + i: reason for number, note in notes.items() for i, reason in note["skipped"]}
    return PartFolder(
        folder,
        names=[os.fsdecode(name) for i, name in enumerate(names) if i not in bad],
        hashes=[content for note in notes.values() for content in note["hashes"]],
        skipped=[Skipped(os.fsdecode(paths[i]), reason) for i, reason in bad.items()],
    )


def _prepare_folder(folder: Path, plan: dict[str, Any], replace: bool) -> None:
    """Prepare the folder, or raise ValueError if it cannot be used. Called before Ray is started."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is a file: give a folder for the parts")
    folder.mkdir(parents=True, exist_ok=True)
    own = re.compile(rf"{PART.pattern}|{re.escape(PLAN)}|{re.escape(BASE_MEAN)}|\..*\.tmp", re.DOTALL)
    if other_files := [file.name for file in folder.iterdir() if not own.fullmatch(file.name)]:
        raise ValueError(f"{str(folder)!r} holds other files than parts, {other_files[0]!r}: give another folder")
    stored: dict[str, Any] = {}
    with suppress(FileNotFoundError, ValueError):  # a damaged plan counts as none
        stored = read_json(folder / PLAN)
    if stored != plan and not replace and (stored or part_numbers(folder)):
        raise ValueError(
            f"{str(folder)!r} holds parts of other pictures, of another size, backbone or base: give another folder, "
            "or --overwrite to replace them"
        )
    for number in part_numbers(folder):
        if number >= plan["shards"]:
            (folder / part_name(number)).unlink()
    if stored != plan:
        write_whole(folder / PLAN, (json.dumps(plan, indent=1) + "\n").encode())


def _notes(folder: Path, digests: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Return the notes of the parts that hold these pictures, by number."""
    with ThreadPoolExecutor(16) as pool:
        notes = pool.map(lambda number: read_note(folder / part_name(number)) or {}, range(len(digests)))
        return {i: note for i, note in enumerate(notes) if note.get("digest") == digests[i]}


def _digest(*parts: bytes) -> str:
    return hashlib.blake2b(b"\0".join(parts), digest_size=20).hexdigest()


def _state(path: str) -> bytes:
    """Return size and time of a picture, b"" if it does not exist. Other fields differ between two machines."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return b""
    return f"{status.st_size} {int(status.st_mtime)}".encode()


# ---- what commands call


def embed_folder(top: Path, recipe: Recipe, output: Path, backbone: Backbone, **options: Any) -> PartFolder:
    """Embed all pictures below a folder into a folder of parts, or, where the output has a suffix, into a file."""
    pictures, skipped = find_pictures(top, strict=options.get("strict", False))
    place = output if output.is_dir() or not output.suffix else output.with_name(f"{output.name}.shards")
    embedded = embed_to_parts(top, pictures, recipe, place, backbone, **options)
    if not embedded.names:
        raise ValueError(f"{str(top)!r} holds no pictures to label" + (", none that could be read" if pictures else ""))
    if place != output:
        write(read(place), output)
        shutil.rmtree(place, ignore_errors=True)  # `_prepare_folder` has checked that it holds no other files
    embedded.skipped[:0] = skipped
    return embedded


@contextmanager
def ray_embedder(recipe: Recipe, folder: Path, address: str | None = None) -> Iterator[Callable[..., FeatureTable]]:
    """Give the embedder of `handful label` on a cluster, from the first pictures to the end of the block."""
    with ExitStack() as until:

        def embed(
            top: Path, paths: Sequence[Path], backbone: Backbone, what: str, progress: Any, strict: bool
        ) -> FeatureTable:
            parts = embed_to_parts(
                top, paths, recipe, folder / what, backbone, address=address, until=until, replace=True, strict=strict,
                progress=lambda done, total: progress(what, done, total),
            )  # fmt: skip
            features = read(parts.folder).features if parts.names else np.empty((0, backbone.dimension), np.float32)
            names = np.array([str(top / name) for name in parts.names], dtype=str)
            return FeatureTable(features, paths=names, hashes=parts.hashes, skipped=parts.skipped)

        yield embed
