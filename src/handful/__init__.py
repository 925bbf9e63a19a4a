"""handful: few-shot open-set recognition.

A handful of labelled examples, a pile of unlabelled items of which many belong to no known class: handful labels
the pile and sets the unknowns aside. How much of it is unknown is estimated. ::

    import handful

    result = handful.solve(support, labels, query)       # or solve("eol", ..., outlier_share=0.3)
    model = handful.make_estimator("auto").fit(X, y)          # or EOL(outlier_share=0.3); y == -1: unlabelled
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from handful.core.base import Base
    from handful.core.task import UNKNOWN, UNKNOWN_NAME, Result, Task
    from handful.estimators.classifier import make_estimator
    from handful.estimators.model_file import load
    from handful.methods import Solution, list_methods, register
    from handful.solving import solve, solve_each
    from handful.streaming import Shards

__all__ = [
    "UNKNOWN",
    "UNKNOWN_NAME",
    "Base",
    "Result",
    "Shards",
    "Solution",
    "Task",
    "__version__",
    "list_methods",
    "load",
    "make_estimator",
    "register",
    "solve",
    "solve_each",
]  # and an estimator class for each method: EOL, KNN, SimpleShot

ROOMS = (
    "backbones",
    "bench",
    "cluster",
    "core",
    "engines",
    "estimators",
    "features",
    "label",
    "methods",
    "report",
    "solving",
)
ROOMS += ("streaming", "training", "workbench")

# Names are imported where they are first used, so that `import handful` and `handful --help` are quick.
_HOMES = {
    "handful.core.base": ("Base",),
    "handful.core.task": ("UNKNOWN", "UNKNOWN_NAME", "Result", "Task"),
    "handful.methods": ("Solution", "list_methods", "register"),
    "handful.solving": ("solve", "solve_each"),
    "handful.estimators.model_file": ("load",),
    "handful.streaming": ("Shards",),
}


def __getattr__(name: str) -> Any:
    if name in ROOMS:
        return import_module(f"handful.{name}")
    if name == "make_estimator":
        return import_module("handful.estimators.classifier").make_estimator
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None and not name[0].isupper():
        raise AttributeError(f"module 'handful' has no attribute {name!r}")
    value = getattr(import_module(home or "handful.estimators.classifier"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from handful.methods import list_methods

    return sorted([*__all__, *(info.estimator for info in list_methods())])
