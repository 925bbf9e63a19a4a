"""Embed the pictures of a project that have no features yet. The cache has the features of pictures seen before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from handful.workbench.domain.pile import Source
from handful.workbench.domain.state import State
from handful.workbench.domain.worker import Job

PICTURES_PER_BLOCK = 256  # the features of a block can be used when all its pictures are embedded


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
        """Leave out items that are not pictures."""
        ...


def embed_missing(project: Embeddable, job: Job) -> None:
    """Embed the pictures block by block, in the order of names, in which the page shows them."""
    from handful.backbones import embed_pictures, load_backbone
    from handful.backbones.catalogue import DEFAULT

    pile = project.state.pile
    rows = np.argsort(pile.rank)
    rows = rows[(pile.usable & ~pile.ready)[rows]]
    total, done = int(pile.usable.sum()), int((pile.ready & pile.usable).sum())
    if not len(rows):
        return
    if project.source.is_table:
        raise ValueError("pictures cannot be added to a table of embeddings: open a folder of pictures instead")
    job.at(done, total, "loading the backbone")
    project.check_model()
    backbone = load_backbone(project.backbone or DEFAULT)
    project.room(backbone.dimension)
    job.at(done, total, "computing features")
    for start in range(0, len(rows), PICTURES_PER_BLOCK):
        block = rows[start : start + PICTURES_PER_BLOCK].tolist()
        items = {str(project.source.file(pile.origins[i], pile.names[i])): int(pile.ids[i]) for i in block}
        opener = project.source.opener((pile.origins[i], pile.names[i]) for i in block)

        def at(n: int, _: int, before: int = done) -> None:
            job.at(before + n, total)

        embedded = embed_pictures(items, backbone, progress=at, opener=opener)
        project.take_features([items[path] for path in embedded.names], embedded.features, embedded.hashes or ())
        project.skip({items[path]: reason for path, reason in embedded.skipped})
        done += len(block)
