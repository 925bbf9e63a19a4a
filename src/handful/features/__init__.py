"""Feature sets, in memory and on disk, and episodes drawn from them."""

from handful.features.digits import digits
from handful.features.episodes import Episodes, Protocol, draw
from handful.features.featureset import FeatureSet, describe, read, write
from handful.features.partly import Partly, read_partly
from handful.features.parts import is_sharded

__all__ = [
    "Episodes",
    "FeatureSet",
    "Partly",
    "Protocol",
    "describe",
    "digits",
    "draw",
    "is_sharded",
    "read",
    "read_partly",
    "write",
]
