"""One method, one file; the contract that they fulfil, and the table that holds them."""

from handful.methods.contract import Info, Method, Solution
from handful.methods.registry import register

__all__ = ["Info", "Method", "Solution", "register"]
