"""One task larger than memory: its pile in pieces, and a solve as passes over them."""

from handful.streaming.pile import Shards

__all__ = ["Shards"]
