"""One task larger than memory: its pile in parts on disk, and a solve as passes over it."""

from handful.streaming.options import Streaming
from handful.streaming.pile import Pile

__all__ = ["Pile", "Streaming"]
