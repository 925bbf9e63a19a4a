"""Writing fitted models: safetensors for the arrays, JSON in its header for the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from handful.solving.solver import get_solver
from handful.utils.files import write_whole
from handful.utils.version import __version__

FORMAT = 1  # raised when a file written now could not be read by an older handful
LEARNED = ("transduction_", "label_distributions_", "outlier_scores_", "unknown_")
ITEMS = ("items_", "given_")  # what a model grows from; large, and only saved if asked for


def save_model(model: Any, path: str | Path, items: bool = False) -> Path:
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
            f"base.{name}": value
            for name, value in model.base_.only(*get_solver(model._method).base_parts).arrays.items()
        }
        parameters.pop("base")
    if parameters["base_mean"] is not None:
        arrays["parameter.base_mean"] = np.asarray(parameters.pop("base_mean"))
    about = {
        "format": FORMAT,
        "handful": __version__,
        "method": model._method,
        "parameters": parameters,
        "classes": model.classes_.tolist(),
        "used": model.parameters_,
        "threshold": model.threshold_,
        "min_confidence": model.min_confidence_,
        "outlier_share": model.outlier_share_,
        "outlier_share_interval": model.outlier_share_interval_,
        "shots": model.shots_,
        "shift": model.shift_,
        "precision_spread": model.precision_spread_,
        "n_iter": model.n_iter_,
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


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a parameter of type {type(value).__name__} cannot be written to a model file")
