"""One method, one file; the registry that knows them; the way from a task to a result."""

from handful.methods.registry import Info, Method, Solution, get, list_methods, register
from handful.methods.solving import solve, solve_each

__all__ = ["Info", "Method", "Solution", "get", "list_methods", "register", "solve", "solve_each"]
