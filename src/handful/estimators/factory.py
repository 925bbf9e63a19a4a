"""The scikit-learn class of each method: its signature and its docstring are made from the method's own."""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

from handful.estimators.classifier import FewShotClassifier
from handful.estimators.model_file import read_model
from handful.solving.solver import Solver, describe, get_solver, list_methods

# Parameters that every estimator has, beside its method's own.
SHARED_PARAMETERS: dict[str, Any] = {
    "outlier_share": "auto", "preparation": None, "base_mean": None, "threshold": None, "dtype": "float32",
}  # fmt: skip
SHARED_DOC = {
    "outlier_share": """float or "auto", default "auto"
    How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.""",
    "preparation": """str or sequence of str, optional
    Steps of preparation in place of the method's own, as in "task, l2".""",
    "base_mean": """array [D], optional
    Mean feature of the backbone's training set, for methods that centre on it.""",
    "threshold": """float, optional
    The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.""",
    "dtype": """{"float32", "float64"}
    What to compute in.""",
}
ATTRIBUTES = """Attributes
----------
classes_ : array [N]
    The names of the classes, sorted.
transduction_ : array [n]
    The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
label_distributions_ : array [n, N]
    P(class | known) of each item.
outlier_scores_ : array [n]
    High means more likely unknown. Labelled items are scored as new ones would be.
unknown_ : array [n] of bool
    Whether each item is called unknown.
groups_ : list of Group
    The unknown items as groups that look alike, the largest first; computed when it is asked for.
outlier_share_ : float
    The share of unknowns that the method worked with.
outlier_share_interval_ : tuple of two floats, or None
    Where the share was estimated: it should lie in this interval four times in five.
threshold_ : float
    The doubt (`Answers.doubts`) above which an item is unknown.
n_iter_, n_features_in_ : int
    Steps that were made; features of an item."""

# What scikit-learn's `check_estimator` expects and these estimators mean otherwise.
EXPECTED_FAILED_CHECKS = {
    "check_classifiers_classes": "it uses -1 as the name of a class; here -1 means unlabelled, as in LabelPropagation"
}
ORDER_CHECKS = ("check_methods_subset_invariance", "check_methods_sample_order_invariance")
ROUNDING = "single precision: a few 1e-7 where 1e-7 is asked, on some processors"
# And what single methods do not pass with their defaults.
EXPECTED_OF_METHOD = {
    **dict.fromkeys(
        ("eol_kdo", "gda", "gda_clip", "relative_mahalanobis", "soft_kmeans", "transclip"),
        dict.fromkeys(ORDER_CHECKS, ROUNDING),
    ),
    "kdo": {
        "check_classifiers_train": "without a pile it calls 3 of the 200 examples themselves unknown",
        **dict.fromkeys(ORDER_CHECKS, ROUNDING),
    },
    "proser": {"check_classifiers_train": "50 small steps do not outweigh the random start on two or three features"},
    "pt_map": {"check_classifiers_train": "its power step cuts off negative features; embeddings have none"},
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


def load(path: str | Path) -> FewShotClassifier:
    """Read a model that `save` of an estimator wrote.

    Parameters
    ----------
    path : path
        A .safetensors file. It may come from anyone: nothing in it is executed.

    Returns
    -------
    FewShotClassifier
        The fitted estimator. A file that is damaged, or of a newer version, raises ValueError.
    """
    method, parameters, attributes = read_model(path)
    model = make_estimator(method, **parameters)
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


@cache
def estimator_class(name: str) -> type[FewShotClassifier]:
    """The class of a method, whose parameters are the method's own and `SHARED_PARAMETERS`."""
    solver = get_solver(name)
    defaults = {**SHARED_PARAMETERS, **solver.defaults}

    def __init__(self: FewShotClassifier, **parameters: Any) -> None:
        FewShotClassifier.__init__(self, **parameters)

    # scikit-learn reads the parameters, and help() shows them, from here
    options = [inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY, default=v) for k, v in defaults.items()]
    self_ = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = inspect.Signature([self_, *options])  # type: ignore[attr-defined]
    body = {
        "__init__": __init__,
        "__reduce__": lambda self: (restore, (solver.name,), self.__getstate__()),
        "__doc__": describe_estimator(solver),
        "__module__": "handful.estimators",
        "_method": solver.name,
        "_defaults": defaults,
    }
    return type(solver.info.estimator, (FewShotClassifier,), body)


def restore(name: str) -> FewShotClassifier:
    """An estimator of this method without its attributes, for `pickle` and `copy`: pairs have no name in a module."""
    return object.__new__(estimator_class(name))


def estimator_names() -> dict[str, str]:
    """The name of each estimator class and of its method."""
    return {describe(name).estimator: name for name in list_methods()}


def describe_estimator(solver: Solver) -> str:
    """The docstring of the estimator of a method, in numpydoc sections."""
    info, parameters = solver.info, dict(SHARED_DOC)
    for prefix, method in solver.parts.items():
        for name, text in parameter_texts(inspect.getdoc(method.solve) or "").items():
            own = name if name in solver.defaults and prefix != "detector/" else f"{method.name}_{name}"
            if own in solver.defaults:
                parameters[own] = text
    listed = "\n".join(f"{name} : {text}" for name, text in parameters.items())
    source = f"{info.authors}: {info.paper}, {info.year}." if info.paper and not info.paper.startswith("none") else ""
    return (
        f"{info.title}.\n\n{info.summary}\n\nIt is {info.paradigm} and made for the {info.setting} setting. New items "
        f"are scored {info.new_items}. {source}\n\nParameters\n----------\n{listed}\n\n{ATTRIBUTES}\n"
    )


def parameter_texts(docstring: str) -> dict[str, str]:
    """The entries of the section "Parameters" of a numpydoc docstring."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S+\n-+\n|\Z)", docstring, re.M | re.S)
    if section is None:
        return {}
    entries: dict[str, str] = {}
    names: list[str] = []
    for line in section[1].splitlines():
        if match := re.match(r"(\w[\w, ]*?) : (.*)", line):
            names = [name.strip() for name in match[1].split(",")]
            entries |= dict.fromkeys(names, match[2])
        elif line.strip():
            for name in names:
                entries[name] += f"\n{line}"
    return entries
