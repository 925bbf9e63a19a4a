"""The scikit-learn estimator of each method, by name as in `handful.estimators.OSLO`, and fitted models on disk."""

from typing import Any

from handful.estimators.classifier import FewShotClassifier
from handful.estimators.factory import estimator_class, estimator_names, load, make_estimator
from handful.estimators.given_labels import scorer

__all__ = ["FewShotClassifier", "load", "make_estimator", "scorer"]  # the estimators are in dir()


# The classes are made when they are first used. Editors and type checkers read `__init__.pyi`, which
# `scripts/stubs.py` writes.
def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in estimator_names():
        raise AttributeError(f"module 'handful.estimators' has no attribute {name!r}")
    return estimator_class(estimator_names()[name])


def __dir__() -> list[str]:
    return sorted([*__all__, *estimator_names()])
