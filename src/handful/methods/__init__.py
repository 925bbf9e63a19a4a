"""One method, one file; what all of them fulfil, and the table that holds them."""

from handful.core.base import Base
from handful.methods.registry import Info, Solution, register

__all__ = ["Base", "Info", "Solution", "register"]
