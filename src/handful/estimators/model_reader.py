"""Reading fitted models: every entry is checked before a model is made of it. Nothing is ever unpickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from handful.core.answers import mark_unknown
from handful.core.base import Base
from handful.core.checks import shortened
from handful.core.parameters import check
from handful.estimators.classifier import FewShotClassifier
from handful.estimators.factory import make_estimator
from handful.estimators.model_check import (
    HEADER,
    check_classes,
    check_header,
    check_learned,
    check_parameters,
    check_state,
)
from handful.estimators.model_writer import FORMAT, ITEMS, LEARNED
from handful.solving.lookup import get_solver
from handful.solving.solver import needed_base
from handful.utils.tensor_file import read_tensors
from handful.utils.version import __version__


def load(path: str | Path) -> FewShotClassifier:
    """Read a model that `save` of an estimator wrote.

    Parameters
    ----------
    path : path
        A .safetensors file. It may come from anyone: nothing in it is executed.

    Returns
    -------
    FewShotClassifier
        The fitted estimator.

    Raises
    ------
    ValueError
        If the file is damaged, or of a newer version. The message says what is wrong.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no model file {str(path)!r}")
    about, arrays = read_tensors(path, "handful", "not one that handful wrote")
    try:
        check({"format": about["format"]}, HEADER, "the model")
        if about["format"] > FORMAT:
            raise ValueError(
                f"it was written by handful {shortened(str(about.get('handful')))} in format {about['format']}; "
                f"this is handful {__version__}, which reads up to format {FORMAT}: "
                "upgrade with pip install -U handful"
            )
        return _rebuild(about, arrays)
    except KeyError as missing:
        raise ValueError(f"{str(path)!r} is incomplete: {shortened(str(missing))} is missing from it") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{str(path)!r} cannot be loaded: {shortened(str(error), 400)}") from None


def _rebuild(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> FewShotClassifier:
    check_header(about, arrays)
    classes, n_features = check_classes(about["classes"]), about["n_features"]
    solver = get_solver(about["method"])
    parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in about["parameters"].items()}
    used = about["used"]
    if "parameter.base_mean" in arrays:
        parameters["base_mean"] = arrays["parameter.base_mean"]
    check_parameters(solver, parameters, used, n_features)
    base = None
    if about.get("base") is not None:
        base = parameters["base"] = Base.of(_named(arrays, "base."), about["base"])
    if solver.info.needs == "base":
        needed_base(solver, base, n_features)
    state = _named(arrays, "state.")
    learned = _named(arrays, "learned.") | {name: arrays[name] for name in (*ITEMS, "pile_scores") if name in arrays}
    check_state(solver, state, len(classes), n_features)
    check_learned(learned, solver, len(classes), n_features, about.get("n_whole"))

    model = make_estimator(about["method"], **parameters)
    if base is not None:
        model.base_ = base
    model.state_, model.classes_ = state, classes
    model.parameters_ = {**solver.defaults, **used}
    model.threshold_, model.outlier_share_ = float(about["threshold"]), float(about["outlier_share"])
    model.min_confidence_ = float(about["min_confidence"])
    interval = about.get("outlier_share_interval")
    model.outlier_share_interval_ = None if interval is None else tuple(interval)
    model.shots_, model.shift_, model.pile_scores_ = about["shots"], about["shift"], arrays.get("pile_scores")
    spread = about.get("precision_spread")
    model.precision_spread_ = None if spread is None else tuple(spread)
    model.n_iter_, model.n_features_in_ = about["n_iter"], n_features
    model.made_from_ = about.get("made_from", {})
    if "items_" in arrays:
        model.items_, model.given_ = (arrays[name] for name in ITEMS)
        model.n_whole_, model._kept = about["n_whole"], {}
    if about["feature_names"]:
        model.feature_names_in_ = np.asarray(about["feature_names"], dtype=object)
    for name in LEARNED:
        if name != "transduction_":
            setattr(model, name, learned[name])
    closest = model.classes_[model.label_distributions_.argmax(axis=1)]
    model.transduction_ = mark_unknown(closest, model.unknown_)
    _try(model)
    return model


def _try(model: FewShotClassifier) -> None:
    """Score one item: what the checks of single arrays cannot see shows here, not in the middle of a pile."""
    try:
        with np.errstate(all="ignore"):
            answers = model._score(np.zeros((1, model.n_features_in_), model.dtype))
    except ImportError:
        return  # its method needs a package that is not there, which predict will say
    except Exception as error:
        raise ValueError(f"its arrays do not fit together: {error}") from None
    shapes = [answer.shape for answer in answers]
    if shapes != [(1, len(model.classes_)), (1,)] or not all(np.isfinite(answer).all() for answer in answers):
        raise ValueError("its arrays give no probabilities for an item: the file is damaged")


def _named(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
