"""Feature sets, and episodes drawn from them."""

from handful.features.embedded import digits
from handful.features.episodes import Episodes, Protocol, draw

__all__ = ["Episodes", "Protocol", "digits", "draw"]
