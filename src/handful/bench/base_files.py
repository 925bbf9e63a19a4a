"""The base of a benchmark: a mean to centre on and, for methods that learn from base classes, a base file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from handful.bench.settings import Contender
from handful.bench.store import fingerprint
from handful.core.base import Base
from handful.features import FeatureTable
from handful.solving import get_solver
from handful.solving.solver import needed_base


@dataclass(frozen=True)
class BenchmarkBase:
    """The base with which tasks are solved (at least its mean), and a digest of the data behind that mean."""

    base: Base
    mark: str
    name: str


def benchmark_base(base: FeatureTable | Base | None, features: FeatureTable) -> BenchmarkBase | None:
    """Return the base of a benchmark: from `base`, or from the base mean that is stored with the features."""
    if isinstance(base, FeatureTable):
        return BenchmarkBase(Base(base.mean, about={"name": base.name}), fingerprint(base), base.name)
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


def check_base(base: FeatureTable | Base | None, contenders: Iterable[Contender]) -> None:
    """Raise ValueError if a contender learns from base classes, and the base does not have what it needs."""
    for contender in base_dependents(contenders):
        if not isinstance(base, Base):
            raise ValueError(
                f"{contender.method} learns from base classes: give --base a base file, which `handful base FEATURES` "
                "makes of features of the backbone's training classes, and `handful train` of a backbone"
            )
        needed_base(get_solver(contender.method), base, base.dimension)
