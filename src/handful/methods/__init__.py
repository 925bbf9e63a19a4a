"""One method, one file; the contract that they fulfil, and the table that holds them."""

from handful.core.base import Base
from handful.methods.contract import Info, Method, Solution
from handful.methods.registry import register

__all__ = ["Base", "Info", "Method", "Solution", "register"]
