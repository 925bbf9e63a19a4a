"""The pictures of a project that have no features yet, through the backbone; those seen before come from the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from handful.workbench.domain.worker import Job

if TYPE_CHECKING:
    from handful.workbench.domain.project import Project

PART = 256  # pictures after which features are there to be used


def embed_missing(project: Project, job: Job) -> None:
    """Part by part, in the order of names: what is seen first is ready first."""
    from handful.backbones import embed_pictures, load_backbone
    from handful.backbones.catalogue import DEFAULT

    pile = project.state.pile
    rows = np.argsort(pile.rank)
    rows = rows[(pile.there & ~pile.ready)[rows]]
    total, done = int(pile.there.sum()), int((pile.ready & pile.there).sum())
    if not len(rows):
        return
    if project.source.is_table:
        raise ValueError("pictures cannot be added to a table of embeddings: open a folder of pictures instead")
    job.at(done, total, "loading the backbone")
    project.check_model()
    backbone = load_backbone(project.backbone or DEFAULT)
    project.room(backbone.dimension)
    job.at(done, total, "looking at the pictures")
    for start in range(0, len(rows), PART):
        part = rows[start : start + PART].tolist()
        items = {str(project.source.file(pile.origins[i], pile.names[i])): int(pile.ids[i]) for i in part}
        opener = project.source.opener((pile.origins[i], pile.names[i]) for i in part)

        def at(n: int, _: int, before: int = done) -> None:
            job.at(before + n, total)

        found = embed_pictures(items, backbone, progress=at, opener=opener)
        project.take_features([items[path] for path in found.names], found.features, found.hashes or ())
        project.skip({items[path]: reason for path, reason in found.skipped})
        done += len(part)
