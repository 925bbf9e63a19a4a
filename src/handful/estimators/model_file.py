"""Fitted models on disk: safetensors for the arrays, JSON in its header for the rest. Nothing is ever unpickled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import handful
from handful.core.answers import mark_unknown
from handful.core.base import Base
from handful.core.checks import shortened
from handful.core.parameters import check
from handful.core.prepare import SCALE
from handful.estimators.classifier import FewShotClassifier, make_estimator
from handful.estimators.model_check import (
    HEADER,
    check_classes,
    check_header,
    check_learned,
    check_parameters,
    check_state,
)
from handful.methods import get
from handful.methods.registry import needed_base
from handful.utils.files import write_whole
from handful.utils.tensor_file import read_tensors

FORMAT = 2  # raised when a file written now could not be read by an older handful
FORMAT_WITHOUT_SCALE = 1  # what 0.1.0 reads: no preparation of such a model scales features
LEARNED = ("transduction_", "label_distributions_", "outlier_scores_", "unknown_")
ITEMS = ("items_", "given_")  # what a model grows from; large, and only saved if asked for


def save(model: FewShotClassifier, path: str | Path, items: bool = False) -> Path:
    """Write a fitted model; an existing file is replaced whole or not at all. items: with what it was fitted to."""
    from safetensors.numpy import save as serialise
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    path = Path(path)
    arrays = {f"state.{name}": value for name, value in model.state_.items()}
    arrays |= {f"learned.{name}": getattr(model, name) for name in LEARNED if name != "transduction_"}
    if model.pile_scores_ is not None:
        arrays["pile_scores"] = model.pile_scores_
    if items:
        if not hasattr(model, "items_"):
            raise ValueError("this model was read from a file without its items: it can only be saved without them")
        arrays |= {name: getattr(model, name) for name in ITEMS}
    parameters = model.get_params(deep=False)
    if hasattr(model, "base_"):  # with the model goes what it takes of the base, so that the file stands alone
        arrays |= {
            f"base.{name}": value for name, value in model.base_.only(*get(model._method).base_parts).arrays.items()
        }
        parameters.pop("base")
    if parameters["base_mean"] is not None:
        arrays["parameter.base_mean"] = np.asarray(parameters.pop("base_mean"))
    about = {
        "format": FORMAT if any(name.endswith(f".{SCALE}") for name in model.state_) else FORMAT_WITHOUT_SCALE,
        "handful": handful.__version__,
        "method": model._method,
        "parameters": parameters,
        "classes": model.classes_.tolist(),
        "used": model.parameters_,
        "threshold": model.threshold_,
        "outlier_share": model.outlier_share_,
        "outlier_share_interval": model.outlier_share_interval_,
        "shots": model.shots_,
        "shift": model.shift_,
        "n_iter": model.n_iter_,
        "n_whole": model.n_whole_ if items else None,
        "n_features": model.n_features_in_,
        "feature_names": getattr(model, "feature_names_in_", np.empty(0, object)).tolist(),
        "made_from": getattr(model, "made_from_", {}),
        "base": model.base_.about if hasattr(model, "base_") else None,
        "tensors": sorted(arrays),
    }
    contiguous = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    data = serialise(contiguous, metadata={"handful": json.dumps(about, default=_plain)})
    try:
        write_whole(path, data)
    except OSError as error:  # its own message would name the temporary file
        raise OSError(error.errno, f"the model was not saved: {error.strerror}", str(path)) from None
    return path


def load(path: str | Path) -> FewShotClassifier:
    """Read a model that `save` wrote; a broken or newer file is refused with a reason."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no model file {str(path)!r}")
    about, arrays = read_tensors(path, "handful", "not one that handful wrote")
    try:
        check({"format": about["format"]}, HEADER, "the model")
        if about["format"] > FORMAT:
            raise ValueError(
                f"it was written by handful {shortened(str(about.get('handful')))} in format {about['format']}; "
                f"this is handful {handful.__version__}, which reads up to format {FORMAT}: "
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
    method = get(about["method"])
    parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in about["parameters"].items()}
    if "parameter.base_mean" in arrays:
        parameters["base_mean"] = arrays["parameter.base_mean"]
    check_parameters(method, parameters, about["used"], n_features)
    base = None
    if about.get("base") is not None:
        base = parameters["base"] = Base.of(_named(arrays, "base."), about["base"])
    if method.info.needs == "base":
        needed_base(method, base, n_features)
    state = _named(arrays, "state.")
    learned = _named(arrays, "learned.") | {name: arrays[name] for name in (*ITEMS, "pile_scores") if name in arrays}
    check_state(method, state, len(classes), n_features)
    check_learned(learned, method, len(classes), n_features, about.get("n_whole"))

    model = make_estimator(about["method"], **parameters)
    if base is not None:
        model.base_ = base
    model.state_, model.classes_ = state, classes
    model.parameters_ = method.defaults | about["used"]
    model.threshold_, model.outlier_share_ = float(about["threshold"]), float(about["outlier_share"])
    interval = about.get("outlier_share_interval")
    model.outlier_share_interval_ = None if interval is None else tuple(interval)
    model.shots_, model.shift_, model.pile_scores_ = about.get("shots"), about.get("shift"), arrays.get("pile_scores")
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


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a parameter of type {type(value).__name__} cannot be written to a model file")
