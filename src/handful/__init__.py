"""handful: few-shot open-set recognition.

A handful of labelled examples of a few classes, and a pile of unlabelled items of which many belong to no known class:
handful labels the pile and sets the unknowns aside. How much of the pile is unknown is estimated. ::

    import handful

    result = handful.solve(support, labels, query)       # or solve(..., method="eol", outlier_share=0.3)
    model = handful.KDO().fit(X, y)                      # or EOL(outlier_share=0.3); y == -1: unlabelled
"""

from importlib import import_module
from typing import Any

from handful.utils.version import __version__

# Names are imported where they are first used, so that `import handful` and `handful --help` are quick. Editors and
# type checkers read `__init__.pyi`, which `scripts/stubs.py` writes.
_HOMES = {
    "handful.core.base": ("Base",),
    "handful.core.checks": ("NONE_OF_THESE", "UNKNOWN", "UNKNOWN_NAME"),
    "handful.core.task": ("Task",),
    "handful.methods": ("Info", "Solution", "register"),
    "handful.solving.check": ("Checked", "WRONG"),
    "handful.solving": ("Result", "describe", "list_methods", "solve", "solve_each", "solve_task"),
    "handful.streaming": ("Pile", "Streaming"),
    "handful.project": ("Project",),
    "handful.estimators": ("load", "make_estimator", "scorer"),
    "handful.estimators.classes": (
        "BDCSPN", "COPOD", "Conformal", "EOL", "EOLKDO", "FEAT", "FLOWR", "FROB", "Finetune", "GDA", "GDACLIP",
        "IForest", "KDO", "KNN", "LaplacianShot", "MetaBCE", "OCSVM", "OODMAML", "OSLO", "OSTIM", "OpenMax", "PCA",
        "PEELER", "POODLE", "PROSER", "PTMAP", "RPL", "RelativeMahalanobis", "SimpleShot", "SnaTCHerF", "SoftKMeans",
        "TIMGD", "TransCLIP",
    ),
}  # fmt: skip
_MODULES = {name: f"handful.{name}" for name in (
    "backbones", "bench", "cluster", "core", "engines", "estimators", "features", "methods", "project", "report",
    "solving", "streaming", "training", "workbench",
)} | {"metrics": "handful.core.metrics", "datasets": "handful.training.datasets"}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF, *_MODULES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOME_OF:
        raise AttributeError(f"module 'handful' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
