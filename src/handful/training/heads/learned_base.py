"""What base classes teach: their mean, the heads of methods, and a sample of the items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.base import HEADS as AXES
from handful.core.base import Base
from handful.features import FeatureTable
from handful.solving.solve import versions
from handful.training.heads import conformal, feat, flowr, frob, meta_bce, ood_maml, peeler
from handful.training.heads.head import Head
from handful.training.heads.trainer import SAVE_EVERY_S, HeadTrainer, LearningFile, Progress
from handful.utils.extras import TORCH, need
from handful.utils.tensor_file import check_arrays

HEADS: dict[str, Head] = {
    "feat": feat.HEAD,
    "peeler": peeler.HEAD,
    "flowr": flowr.HEAD,
    "meta_bce": meta_bce.HEAD,
    "ood_maml": ood_maml.HEAD,
    "frob": frob.HEAD,
    "conformal": conformal.HEAD,
}  # by the name that `handful base --heads` takes
DEFAULT_HEADS = tuple(HEADS)


def learn_base(
    features: FeatureTable,
    *,
    validation: FeatureTable | None = None,
    heads: Sequence[str] = DEFAULT_HEADS,
    negatives: int = 1000,
    episodes: int = 20_000,
    ways: int = 5,
    shots: Sequence[int] = (1, 5),
    order: int = 2,
    seed: int = 0,
    start: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    checkpoint: str | Path | None = None,
    save_every: float = SAVE_EVERY_S,
    progress: Progress | None = None,
) -> Base:
    """Learn from base classes what methods need: the mean of their features, heads, and a sample of the items.

    Parameters
    ----------
    features : FeatureTable
        Features of the base classes, with labels.
    validation : FeatureTable, optional
        Classes to hold out instead of base classes. Best are classes on which the backbone was not trained.
    heads : sequence of str
        Names of heads, as `handful base --help` lists them; an empty sequence needs no torch.
    negatives : int
        The largest number of items to keep.
    episodes : int
        The largest number of tasks from which a head learns.
    ways, shots : int, sequence of int
        The known classes of these tasks, and the examples of each class.
    order : {1, 2}
        For heads with an inner descent (OOD-MAML, FROB): 2 follows the gradient through the inner steps, 1 takes their
        gradients as constants, which is faster.
    seed : int
        The same seed gives the same base.
    start : mapping of str to mapping, optional
        For a head, arrays to start from instead of its usual start, such as those that were trained together with the
        backbone.
    checkpoint : path, optional
        A file that keeps the state. If a call is killed, the same call continues from it and ends with the same base.
        Remove it when the base is saved.
    save_every : float
        Seconds between two writings of that file.
    progress : callable, optional
        Called with the number of tasks learned from and of all tasks, for all heads together.

    Returns
    -------
    Base
        Its `about` holds the accuracy and AUROC on the held-out classes, before and after learning.
    """
    check_heads(heads)
    if order not in (1, 2):
        raise ValueError(f"the order is {order}: give 1 or 2")
    if heads:
        features = features.labelled()
        validation = None if validation is None else validation.labelled()
    mean, start = features.mean, start or {}
    _check_start(start, heads, features.dimension)
    about: dict[str, Any] = {
        "name": features.name, "classes": len(features.classes), "items": len(features), "seed": seed,
        "episodes": episodes, "ways": ways, "shots": list(shots), "versions": dict(versions()), "heads": {},
    }  # fmt: skip
    learned = {}
    if heads:
        if any(HEADS[name].loss is not None for name in heads):
            about["versions"]["torch"] = need("torch", "learning heads", TORCH).__version__
        trainer = HeadTrainer(features, validation, mean, ways, shots, seed, order)
        about |= {"held_out": trainer.held_out, "ways": trainer.ways}
        digests = [None if table is None else _digest(table) for table in (features, validation)]
        made_from = {"features": digests, "order": order} | {k: about[k] for k in ("seed", "episodes", "ways", "shots")}
        if start:
            made_from["start"] = {name: _digest_of(arrays) for name, arrays in start.items()}
        file = LearningFile(None if checkpoint is None else Path(checkpoint), made_from, save_every)
        names = list(dict.fromkeys(heads))
        for i, name in enumerate(names):
            if name not in file.finished:
                report = partial(_report, progress, i, len(names), episodes)
                file.finish(name, *trainer.train(name, HEADS[name], episodes, file, report, start.get(name)))
            learned[name], about["heads"][name] = file.finished[name]
    negative_rows = np.random.default_rng([seed, 1]).permutation(len(features))[: max(0, negatives)]
    sample = features.features[negative_rows].astype(np.float32) if len(negative_rows) else None
    return Base(mean, learned, sample, about)


def check_heads(names: Sequence[str]) -> None:
    """Raise ValueError listing the heads that can be learned if a name is not one of them."""
    for name in names:
        if name not in HEADS:
            raise ValueError(f"there is no head {name!r} to learn; there are: {', '.join(HEADS)}")


def _report(progress: Progress | None, before: int, count: int, episodes: int, done: int, total: int) -> None:
    """Report the progress of all heads together: each counts as many tasks."""
    if progress is not None:
        progress(before * episodes + episodes * done // total, count * episodes)


def _check_start(start: Mapping[str, Mapping[str, np.ndarray]], heads: Sequence[str], dimension: int) -> None:
    """Raise ValueError unless these are arrays of heads that are to be learned."""
    for name, arrays in start.items():
        if name not in heads:
            raise ValueError(f"there is a start for head {name!r}, which is not learned here: name it in heads too")
        try:
            check_arrays(arrays, AXES.get(name, {}), {"D": dimension})
        except KeyError as missing:
            raise ValueError(f"the start of head {name!r} has no array {missing}") from None
        except ValueError as error:
            raise ValueError(f"the start of head {name!r}: {error}") from None


def _digest_of(arrays: Mapping[str, np.ndarray]) -> str:
    """Return a digest of the arrays of a head."""
    hasher = blake2b(digest_size=16)
    for name, array in sorted(arrays.items()):
        hasher.update(f"{name} {array.shape};".encode())
        hasher.update(np.ascontiguousarray(array, np.float32).data)
    return hasher.hexdigest()


def _digest(table: FeatureTable) -> str:
    """Return a digest of the features and labels."""
    hasher = blake2b(np.ascontiguousarray(table.features).data, digest_size=16)
    hasher.update("\0".join(map(str, table.need_labels())).encode())
    return hasher.hexdigest()
