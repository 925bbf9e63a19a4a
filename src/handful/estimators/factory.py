"""The scikit-learn class of each method, made from its parameters."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from handful.estimators.classifier import FewShotClassifier
from handful.estimators.documentation import describe_estimator
from handful.solving.solver import get_solver

# Parameters that every estimator has, beside its method's own.
SHARED_PARAMETERS: dict[str, Any] = {
    "outlier_share": "auto",
    "preparation": None,
    "base_mean": None,
    "threshold": None,
    "dtype": "float32",
}

# What scikit-learn's `check_estimator` expects and these estimators mean otherwise.
EXPECTED_FAILED_CHECKS = {
    "check_classifiers_classes": "it uses -1 as the name of a class; here -1 means unlabelled, as in LabelPropagation",
}
ORDER_CHECKS = ("check_methods_subset_invariance", "check_methods_sample_order_invariance")
ROUNDING = "single precision: a few 1e-7 where 1e-7 is asked, on some processors"
# And what single methods do not pass with their defaults.
EXPECTED_OF_METHOD = {
    "eol_kdo": dict.fromkeys(ORDER_CHECKS, ROUNDING),
    "gda": dict.fromkeys(ORDER_CHECKS, ROUNDING),
    "gda_clip": dict.fromkeys(ORDER_CHECKS, ROUNDING),
    "kdo": {
        "check_classifiers_train": "without a pile it calls 3 of the 200 examples themselves unknown",
        **dict.fromkeys(ORDER_CHECKS, ROUNDING),
    },
    "proser": {"check_classifiers_train": "50 small steps do not outweigh the random start on two or three features"},
    "pt_map": {"check_classifiers_train": "its power step cuts off negative features; embeddings have none"},
    "relative_mahalanobis": dict.fromkeys(ORDER_CHECKS, ROUNDING),
    "soft_kmeans": dict.fromkeys(ORDER_CHECKS, ROUNDING),
    "transclip": dict.fromkeys(ORDER_CHECKS, ROUNDING),
}


def make_estimator(name: str, **parameters: Any) -> FewShotClassifier:
    """The scikit-learn estimator of a method.

    Parameters
    ----------
    name : str
        A name of `handful.list_methods()`, "auto", or a pair as in "simpleshot+knn".
    **parameters
        Parameters of the method, and those that every estimator has.

    Returns
    -------
    FewShotClassifier
        Not fitted yet.

    Examples
    --------
    >>> make_estimator("knn", k=1).get_params()["k"]
    1
    """
    return estimator_class(get_solver(name).name)(**parameters)


@cache
def estimator_class(name: str) -> type[FewShotClassifier]:
    """The class of a method, whose parameters are the method's own and `SHARED_PARAMETERS`."""
    solver = get_solver(name)
    defaults = {**SHARED_PARAMETERS, **solver.defaults}

    def __init__(self: FewShotClassifier, **parameters: Any) -> None:
        strange = sorted(set(parameters) - set(defaults))
        if strange:
            raise TypeError(f"{type(self).__name__} has no parameter {strange[0]!r}; it has: {', '.join(defaults)}")
        for key, default in defaults.items():
            setattr(self, key, parameters.get(key, default))

    # scikit-learn reads the parameters, and help() shows them, from here
    options = [inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY, default=v) for k, v in defaults.items()]
    self_ = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = inspect.Signature([self_, *options])  # type: ignore[attr-defined]

    def __reduce__(self: FewShotClassifier) -> tuple[Any, ...]:
        return restore, (solver.name,), self.__getstate__()

    body = {
        "__init__": __init__,
        "__reduce__": __reduce__,
        "__doc__": describe_estimator(solver),
        "_method": solver.name,
    }
    return type(solver.info.estimator, (FewShotClassifier,), body | {"__module__": "handful.estimators.classes"})


def restore(name: str) -> FewShotClassifier:
    """An estimator of this method without its attributes, for `pickle` and `copy`: pairs have no name in a module."""
    return object.__new__(estimator_class(name))
