"""What base classes teach: their mean, the heads of methods, and a sample of the items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.base import Base
from handful.features import FeatureTable
from handful.solving.solve import versions
from handful.training.heads import conformal, feat, flowr, frob, meta_bce, ood_maml, peeler
from handful.training.heads.head import Head
from handful.training.heads.trainer import HeadStage, HeadTasks
from handful.training.learning import Checkpoint, Progress, learn
from handful.utils.extras import TORCH, need

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
    seed: int = 0,
    start: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    checkpoint: str | Path | None = None,
    save_every: float = 10.0,
    progress: Progress = lambda done, total: None,
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
    if heads:
        features = features.labelled()
        validation = None if validation is None else validation.labelled()
    mean, start = features.mean, start or {}
    about: dict[str, Any] = {
        "name": features.name, "classes": len(features.classes), "items": len(features), "seed": seed,
        "episodes": episodes, "ways": ways, "shots": list(shots), "versions": dict(versions()), "heads": {},
    }  # fmt: skip
    learned = {}
    if heads:
        if any(HEADS[name].loss is not None for name in heads):
            about["versions"]["torch"] = need("torch", "learning heads", TORCH).__version__
        tasks = HeadTasks(features, validation, mean, ways, shots, seed)
        about |= {"held_out": tasks.held_out, "ways": tasks.ways}
        made_from = {name: about[name] for name in ("seed", "episodes", "ways", "shots")}
        for what, table in (("features", features), ("validation", validation)):
            made_from[what] = None if table is None else _digest(table.features, table.need_labels())
        made_from["start"] = {name: _digest(*arrays.values()) for name, arrays in start.items()}
        file = Checkpoint(None if checkpoint is None else Path(checkpoint), save_every)
        names = list(dict.fromkeys(heads))
        for i, name in enumerate(names):

            def report(done: int, total: int, before: int = i * episodes) -> None:
                progress(before + episodes * done // max(total, 1), len(names) * episodes)

            stage = HeadStage(name, HEADS[name], tasks, episodes, made_from, start.get(name))
            learn(stage, file, report)
            report(1, 1)  # a head may stop early
            reached, learned[name] = stage.reached, stage.best
            about["heads"][name] = {
                "step": reached.best_step, "steps": reached.step, "before": reached.before, "after": reached.best,
            }  # fmt: skip
    negative_rows = np.random.default_rng([seed, 1]).permutation(len(features))[: max(0, negatives)]
    sample = features.features[negative_rows].astype(np.float32) if len(negative_rows) else None
    return Base(mean, learned, sample, about)


def check_heads(names: Sequence[str]) -> None:
    """Raise ValueError listing the heads that can be learned if a name is not one of them."""
    for name in names:
        if name not in HEADS:
            raise ValueError(f"there is no head {name!r} to learn; there are: {', '.join(HEADS)}")


def _digest(*arrays: np.ndarray) -> str:
    hasher = blake2b(digest_size=16)
    for array in arrays:
        hasher.update(f"{array.shape};".encode())
        hasher.update(
            "\0".join(map(str, array)).encode() if array.dtype.kind in "OU" else np.ascontiguousarray(array).data
        )
    return hasher.hexdigest()
