"""handful: few-shot open-set recognition.

A handful of labelled examples, a pile of unlabelled items of which many belong to no known class: handful labels
the pile and sets the unknowns aside. ::

    import handful

    result = handful.solve("eol", support, labels, query, outlier_share=0.3)
    model = handful.EOL(outlier_share=0.3).fit(X, y)     # y == -1: unlabelled
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Names are imported where they are first used, so that `import handful` and `handful --help` are quick.
_HOMES = {
    "Task": "handful.task",
    "Result": "handful.task",
    "UNKNOWN": "handful.task",
    "UNKNOWN_NAME": "handful.task",
    "solve": "handful.methods",
    "solve_each": "handful.methods",
    "list_methods": "handful.methods",
    "register": "handful.methods",
    "Solution": "handful.methods",
    "load": "handful.modelfile",
}

__all__ = ["__version__", "estimator", *_HOMES]  # and an estimator class for each method: EOL, KNN, ...

if TYPE_CHECKING:
    from handful.estimator import estimator
    from handful.methods import Solution, list_methods, register, solve, solve_each
    from handful.modelfile import load
    from handful.task import UNKNOWN, UNKNOWN_NAME, Result, Task


def __getattr__(name: str) -> Any:
    if name == "estimator":  # a module that can be called
        return import_module("handful.estimator")
    if name not in _HOMES and not name[0].isupper():
        raise AttributeError(f"module 'handful' has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "handful.estimator")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from handful.methods import list_methods

    return sorted([*__all__, *(info.estimator for info in list_methods())])
