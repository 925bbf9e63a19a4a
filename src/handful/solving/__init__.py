"""From a task to a result: run a method on a batch of tasks, group the unknowns."""

from handful.solving.check import WRONG, Checked
from handful.solving.result import Result
from handful.solving.solve import solve, solve_each
from handful.solving.solver import describe, get_solver, list_methods

__all__ = ["WRONG", "Checked", "Result", "describe", "get_solver", "list_methods", "solve", "solve_each"]
