"""What a machine of the cluster makes of a shard: some pictures, read, decoded, embedded and written as one part."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handful.backbones.embedding import LOADING, embed_pictures
from handful.features import FeatureTable
from handful.features.parts import PLAN, part_name, read_note, write_part
from handful.utils.files import first_folder, printable

if TYPE_CHECKING:
    from handful.backbones import Backbone

BATCH = 32
TRIES = 5  # of a shard whose actor died: with its machine, or by a picture that no decoder survives


@dataclass(frozen=True)
class Recipe:
    """How every machine comes by the same backbone: what `load_backbone` is given."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def load(self, **more: Any) -> Backbone:
        """Load the backbone."""
        from handful.backbones import load_backbone

        return load_backbone(self.name, **self.options, **more)

    def from_anywhere(self) -> Recipe:
        """A file is found from another folder too."""
        is_file = self.name.lower().endswith(".onnx")
        return Recipe(os.path.abspath(self.name) if is_file else self.name, dict(self.options))


@dataclass(frozen=True)
class Order:
    """What every actor must know: where pictures and shards are, on each machine, and the backbone."""

    top: str
    folder: str
    recipe: Recipe
    fingerprint: str
    run: str  # tells its scratch files from another's

    @property
    def key(self) -> bytes:
        """What decides features beside the pictures, to the last bit."""
        return f"{self.fingerprint} {LOADING} {BATCH} ".encode() + os.fsencode(self.top)


@dataclass(frozen=True)
class Shard:
    """One part of the features: its number and the pictures that belong to it."""

    number: int
    names: list[bytes]  # below the folder of pictures; names of files need not be text

    @property
    def file(self) -> str:
        """The name of the part's file."""
        return part_name(self.number)

    def paths(self, order: Order) -> list[str]:
        """Return the whole path of each picture."""
        return [os.path.join(order.top, os.fsdecode(name)) for name in self.names]

    def mark(self, order: Order) -> str:
        """What a part must carry to be this shard."""
        return digest(order.key, *self.names)

    def state(self, order: Order) -> str:
        """What it must carry to be of the pictures as they are now; "" where none is to be seen."""
        states = [_state(path) for path in self.paths(order)]
        return digest(*states) if any(states) else ""


class ShardMaker:
    """What an actor does: it holds the backbone, and makes of a row, a shard's number and names, a part on disk."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._net: Backbone | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, str]:
        """Make one part; return its number, the skipped pictures or an error as JSON."""
        shard = Shard(int(row["shard"]), row["names"].split(b"\0"))
        said: dict[str, Any] = {"shard": shard.number}
        try:
            said["skipped"] = self._make(shard)["skipped"]
        except (ValueError, OSError, ImportError) as error:  # what people can mend: told in a sentence
            said |= {"error": f"{error} (on {_here()})", "system": isinstance(error, OSError)}
        return {"said": json.dumps(said)}

    def _make(self, shard: Shard) -> dict[str, Any]:
        order = self.order
        for place, what in ((order.top, "pictures"), (os.path.join(order.folder, PLAN), "shards")):
            if not os.path.exists(place):  # else all of its pictures would be skipped
                raise FileNotFoundError(
                    f"there is no {place!r}: {what} must be under the same path on every machine of the cluster"
                )
        path, paths = Path(order.folder, shard.file), shard.paths(order)
        mark = {"digest": shard.mark(order), "state": shard.state(order)}
        if not mark["state"]:  # a drive that is not mounted, more likely than pictures that were all removed just now
            raise FileNotFoundError(f"{paths[0]!r} and the {len(paths) - 1} after it are not to be seen")
        note = read_note(path)
        if note is not None and note.items() >= mark.items():  # made before its actor died
            return note
        tries = self._try(shard)
        found = embed_pictures(paths, self._backbone(), cache=False, batch=BATCH, threads=1)
        places = {path: i for i, path in enumerate(paths)}
        skipped = [(places[path], reason) for path, reason in found.skipped]
        names = [printable(os.path.relpath(path, order.top)) for path in found.names]
        note = {**mark, "hashes": found.hashes, "skipped": skipped}
        table = FeatureTable(found.features, list(map(first_folder, names)), names)
        write_part(table, path, note, order.run)
        tries.unlink(missing_ok=True)
        return note

    def _try(self, shard: Shard) -> Path:
        """Count it, in a file, as nothing else outlives an actor: Ray would start another for ever."""
        tries = Path(self.order.folder, f".{shard.file}.{self.order.run}.tries.tmp")
        with open(tries, "ab") as file:
            before = file.tell()
            file.write(b".")
        if before >= TRIES:
            first, last = (os.fsdecode(shard.names[i]) for i in (0, -1))
            raise OSError(
                f"{before} actors died over the pictures from {first!r} to {last!r}: see whether one of them breaks "
                "the decoder, or memory is short"
            )
        return tries

    def _backbone(self) -> Backbone:
        if self._net is None:
            net = self.order.recipe.load(threads=1)  # an actor has one core
            if net.fingerprint != self.order.fingerprint:
                raise ValueError(
                    f"the backbone {self.order.recipe.name!r} is another one, or another version of it: "
                    "see that all machines of the cluster have the same"
                )
            self._net = net
        return self._net


def digest(*parts: bytes) -> str:
    """Return a digest of several byte strings."""
    return hashlib.blake2b(b"\0".join(parts), digest_size=20).hexdigest()


def _state(path: str) -> bytes:
    """What changes when a picture does; b"" where there is none. The drives of two machines agree on no more of it."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return b""
    return f"{status.st_size} {int(status.st_mtime)}".encode()


def _here() -> str:
    import ray

    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]  # Ray has no annotations for it
