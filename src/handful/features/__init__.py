"""Feature sets, in memory and on disk, and episodes drawn from them."""

from handful.features.embedded import digits
from handful.features.episodes import Episodes, Protocol, draw
from handful.features.featureset import FeatureSet, describe, read, write

__all__ = ["Episodes", "FeatureSet", "Protocol", "describe", "digits", "draw", "read", "write"]
