"""The base of a benchmark: a mean to centre on and, for methods that need one, a `Base` that is learned once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path

from handful.bench.settings import Contender
from handful.bench.store import Store, fingerprint, source_of
from handful.core.base import NEGATIVES, Base, read_base
from handful.features import FeatureTable
from handful.solving import get_solver
from handful.solving.solver import needed_base

LearnBase = Callable[..., Base]  # `handful.training.heads.learn_base`, which this room must not import


@dataclass(frozen=True)
class BenchmarkBase:
    """The base with which tasks are solved (at least its mean), and a digest of the data behind that mean."""

    base: Base
    mark: str
    name: str


def benchmark_base(
    base: FeatureTable | Base | None, features: FeatureTable, learned: Base | None = None
) -> BenchmarkBase | None:
    """Return the base of a benchmark: from `base`, or from the base mean that is stored with the features.

    learned: what was learned from `base`, if `base` is a table of features.
    """
    if isinstance(base, FeatureTable):
        return BenchmarkBase(learned or Base(base.mean, about={"name": base.name}), fingerprint(base), base.name)
    if base is None:
        if features.base_mean is None:
            return None
        base = Base(features.base_mean, about={"name": f"{features.name}'s own base mean"})
    name = str(base.about.get("name", "base"))
    return BenchmarkBase(base, f"mean {blake2b(base.mean.data, digest_size=16).hexdigest()}", name)


def check_dimension(base: BenchmarkBase | None, features: FeatureTable) -> None:
    """Raise ValueError if the base and the features have different numbers of dimensions."""
    if base is not None and base.base.dimension != features.dimension:
        raise ValueError(
            f"{base.name} has {base.base.dimension} features and {features.name} {features.dimension}: "
            "the base set must come from the same backbone"
        )


def base_dependents(contenders: Iterable[Contender]) -> list[Contender]:
    """Return the contenders that need a base and have none among their parameters."""
    return [c for c in contenders if get_solver(c.method).info.needs == "base" and c.parameters.get("base") is None]


def learn(
    base: FeatureTable | Base | None,
    contenders: Iterable[Contender],
    store: Store,
    progress: Callable[[str, int, int], object],
    learn_base: LearnBase | None,
) -> Base | None:
    """Learn from the features `base` what the contenders need, once: a file in the store keeps it.

    Returns None if no contender needs it, or if `base` is already a `Base`.
    """
    dependent = base_dependents(contenders)
    if isinstance(base, Base):
        for contender in dependent:  # raises now if something is missing
            needed_base(get_solver(contender.method), base, base.dimension)
    if not dependent or isinstance(base, Base):
        return None
    if base is None:
        raise ValueError(
            f"{dependent[0].method} learns from base classes: give --base, features of the backbone's training classes "
            "or a base file that `handful base` or `handful train` wrote"
        )
    if learn_base is None:
        raise ValueError(
            f"{dependent[0].method} needs heads that are learned from base classes, but no function to learn them was "
            "given: give a base file, or learn_base=handful.training.heads.learn_base"
        )
    heads = sorted({part for c in dependent for part in get_solver(c.method).base_parts} - {NEGATIVES})
    mark = blake2b(
        f"{fingerprint(base)} {heads} {source_of([learn_base.__module__])}".encode(), digest_size=6
    ).hexdigest()
    path = Path(store.folder, f"base-{mark}.safetensors")
    if not path.exists():
        store.open()
        checkpoint = path.with_suffix(".learning.safetensors")
        learn_base(base, heads=heads, checkpoint=checkpoint, progress=partial(progress, "learning heads")).save(path)
        checkpoint.unlink(missing_ok=True)
    return read_base(path)
