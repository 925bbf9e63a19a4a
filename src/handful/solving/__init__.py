"""From a task to a result: run a method on a batch of tasks, pair methods, group the unknowns."""

from handful.solving.solve import solve, solve_each

__all__ = ["solve", "solve_each"]
