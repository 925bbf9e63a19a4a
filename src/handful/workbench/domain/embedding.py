"""Embed the items of a project that have no features yet. The cache has the features of items seen before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from handful.workbench.domain.pile import TEXTS, Pile, Source
from handful.workbench.domain.state import State
from handful.workbench.domain.worker import Job

ITEMS_PER_BLOCK = 256  # the features of a block can be used when all its items are embedded

Progress = Callable[[int, int], None]  # items done, all items


class Embeddable(Protocol):
    """What embedding needs of a project."""

    source: Source
    backbone: str | None

    @property
    def state(self) -> State:
        """The state as it is on the disk."""
        ...

    def check_model(self) -> None:
        """Raise ValueError if the model is not the one that was agreed to."""
        ...

    def room(self, dimension: int) -> None:
        """Make room for features of this dimension."""
        ...

    def take_features(self, items: Sequence[int], features: np.ndarray, hashes: Sequence[str]) -> None:
        """Keep the features of items that were embedded."""
        ...

    def skip(self, reasons: dict[int, str]) -> None:
        """Leave out items that cannot be read."""
        ...


def embed_missing(project: Embeddable, job: Job) -> None:
    """Embed the items block by block, in the order of names, in which the page shows them."""
    from handful.backbones import load_backbone
    from handful.backbones.catalogue import DEFAULT, DEFAULT_TEXT

    pile = project.state.pile
    rows = np.argsort(pile.rank)
    rows = rows[(pile.usable & ~pile.ready)[rows]]
    total, done = int(pile.usable.sum()), int((pile.ready & pile.usable).sum())
    if not len(rows):
        return
    source, embed = project.source, _embed_texts if project.source.kind == TEXTS else _embed_pictures
    if source.is_table and source.kind != TEXTS:
        raise ValueError("pictures cannot be added to a table of embeddings: open a folder of pictures instead")
    job.at(done, total, "loading the backbone")
    project.check_model()
    backbone = load_backbone(project.backbone or (DEFAULT_TEXT if source.kind == TEXTS else DEFAULT))
    if backbone.kind != source.kind:
        raise ValueError(
            f"the backbone {backbone.name} is for {backbone.kind}, but these are {source.kind}: name another one with "
            "--backbone, `handful backbones` lists them"
        )
    project.room(backbone.dimension)
    job.at(done, total, "computing features")
    for start in range(0, len(rows), ITEMS_PER_BLOCK):
        block = rows[start : start + ITEMS_PER_BLOCK].tolist()

        def at(n: int, _: int, before: int = done) -> None:
            job.at(before + n, total)

        embed(project, pile, block, backbone, at)
        done += len(block)


def _embed_pictures(project: Embeddable, pile: Pile, block: list[int], backbone: Any, progress: Progress) -> None:
    from handful.backbones import embed_pictures

    items = {str(project.source.file(pile.origins[i], pile.names[i])): int(pile.ids[i]) for i in block}
    opener = project.source.opener((pile.origins[i], pile.names[i]) for i in block)
    embedded = embed_pictures(items, backbone, progress=progress, opener=opener)
    project.take_features([items[path] for path in embedded.names], embedded.features, embedded.hashes or ())
    project.skip({items[path]: reason for path, reason in embedded.skipped})


def _embed_texts(project: Embeddable, pile: Pile, block: list[int], backbone: Any, progress: Progress) -> None:
    from handful.backbones import embed_texts

    assert pile.texts is not None
    embedded = embed_texts([pile.texts[i] for i in block], backbone, progress=progress)
    project.take_features(pile.ids[block].tolist(), embedded.features, embedded.hashes or ())
