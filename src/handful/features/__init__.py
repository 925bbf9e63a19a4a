"""Feature tables, in memory and on disk, and episodes drawn from them."""

from handful.features.episodes import Episodes, Protocol, draw
from handful.features.files import read, write
from handful.features.practice import digits, practice
from handful.features.table import FeatureTable, concatenate

__all__ = ["Episodes", "FeatureTable", "Protocol", "concatenate", "digits", "draw", "practice", "read", "write"]
