"""handful: few-shot open-set recognition.

A handful of labelled examples of a few classes, and a pile of unlabelled items of which many belong to no known class:
handful labels the pile and sets the unknowns aside. How much of the pile is unknown is estimated. ::

    import handful

    result = handful.solve(support, labels, query)       # or solve(..., method="eol", outlier_share=0.3)
    model = handful.KDO().fit(X, y)                      # or EOL(outlier_share=0.3); y == -1: unlabelled

==========================  ============================================================
`solve`, `solve_each`       label a pile, or several piles
`Task`                      examples and piles as a method takes them, one or many
`Result`                    the answers
`Project`                   a folder: a pile, what a person said of it, and its answers
`EOL`, `KDO`, `EOLKDO`      scikit-learn classifiers; `EOLKDO` is the default method
`make_estimator`            the classifier of any method by its name: "oslo", "simpleshot+knn"
`load`                      a fitted classifier from the file that `save` wrote
`list_methods`, `describe`  the names of all methods, and the facts about one
`register`                  add a method of your own
`UNKNOWN`, `NONE_OF_THESE`  labels among whole numbers: unknown (-1), an example of no class (-2)
`handful.estimators`        the classifiers of all methods, such as `handful.estimators.OSLO`
`handful.metrics`           how good answers are, if the truth is known
`handful.features`          feature tables and their files; tasks drawn from them
`handful.backbones`         from pictures and texts to features
`handful.report`            answers as a page, in a notebook, as figures
`handful.bench`             methods compared on many tasks
`handful.training`          backbones and heads learned on base classes
`handful.methods`           what a method is
==========================  ============================================================
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from handful.utils.version import __version__ as __version__

if TYPE_CHECKING:  # the names below as editors and type checkers see them
    from handful import backbones as backbones
    from handful import bench as bench
    from handful import estimators as estimators
    from handful import features as features
    from handful import methods as methods
    from handful import report as report
    from handful import training as training
    from handful.core import metrics as metrics
    from handful.core.checks import NONE_OF_THESE as NONE_OF_THESE
    from handful.core.checks import UNKNOWN as UNKNOWN
    from handful.core.task import Task as Task
    from handful.estimators import EOL as EOL
    from handful.estimators import EOLKDO as EOLKDO
    from handful.estimators import KDO as KDO
    from handful.estimators import load as load
    from handful.estimators import make_estimator as make_estimator
    from handful.methods import register as register
    from handful.project import Project as Project
    from handful.solving import Result as Result
    from handful.solving import describe as describe
    from handful.solving import list_methods as list_methods
    from handful.solving import solve as solve
    from handful.solving import solve_each as solve_each

# Names are imported where they are first used, so that `import handful` and `handful --help` are quick. There is no
# `__all__`: with it, help(handful) would print every inherited method of every class.
_HOMES = {
    "handful.core.checks": ("NONE_OF_THESE", "UNKNOWN"),
    "handful.core.task": ("Task",),
    "handful.estimators": ("EOL", "EOLKDO", "KDO", "load", "make_estimator"),
    "handful.methods": ("register",),
    "handful.project": ("Project",),
    "handful.solving": ("Result", "describe", "list_methods", "solve", "solve_each"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("backbones", "bench", "estimators", "features", "methods", "metrics", "report", "training")


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value
    module = "handful.core.metrics" if name == "metrics" else f"handful.{name}"
    if name.startswith("_") or find_spec(module) is None:
        raise AttributeError(f"module 'handful' has no attribute {name!r}")
    return import_module(module)


def __dir__() -> list[str]:
    return sorted([*_HOME_OF, *_MODULES, "__version__"])
