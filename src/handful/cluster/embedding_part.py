"""One part of an embedding, on one machine of the cluster: pictures are read, decoded, embedded and written."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handful.backbones.embedding import LOADING_VERSION, embed_pictures
from handful.features import FeatureTable
from handful.features.parts import PLAN, part_name, read_note, write_part
from handful.utils.files import first_folder, printable

if TYPE_CHECKING:
    from handful.backbones import Backbone

BATCH_SIZE = 32
MAX_TRIES = 5  # of a part whose actor died, with its machine or by a picture that crashes the decoder


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
    """What every actor must know: the folders of the pictures and of the parts, and the backbone."""

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


class PartMaker:
    """The work of an actor: it holds the backbone and writes one part for each row (a part's number and names)."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._net: Backbone | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, str]:
        """Make one part; return its number, the skipped pictures or an error as JSON."""
        part = PicturePart(int(row["part"]), row["names"].split(b"\0"))
        answer: dict[str, Any] = {"part": part.number}
        try:
            answer["skipped"] = self._make(part)["skipped"]
        except (ValueError, OSError, ImportError) as error:  # users can fix these: they get the message only
            answer |= {"error": f"{error} (on {_machine_address()})", "system": isinstance(error, OSError)}
        return {"answer": json.dumps(answer)}

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
        if note is not None and note.items() >= mark.items():  # it was written before its actor died
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
        """Count the attempts in a file, which outlives the actor: Ray would restart it without end."""
        tries = Path(self.order.folder, f".{part.file}.{self.order.run}.tries.tmp")
        with open(tries, "ab") as file:
            before = file.tell()
            file.write(b".")
        if before >= MAX_TRIES:
            first, last = (os.fsdecode(part.names[i]) for i in (0, -1))
            raise OSError(
                f"{before} actors died over the pictures from {first!r} to {last!r}: check whether one of them crashes "
                "the decoder, or whether memory is short"
            )
        return tries

    def _backbone(self) -> Backbone:
        if self._net is None:
            net = self.order.recipe.load(threads=1)  # an actor has one core
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


def _machine_address() -> str:
    import ray

    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]  # Ray has no annotations for it
