"""One method, one file; the registry that knows them."""

from handful.methods.registry import Info, Method, Solution, get, list_methods, register

__all__ = ["Info", "Method", "Solution", "get", "list_methods", "register"]
