"""Fitted models on disk: safetensors for the arrays, JSON in its header for the rest. Nothing is ever unpickled.

A file may come from anyone. What a header and its arrays may hold is declared below, and by each method in its `Info`,
where letters stand for: N classes, M classes and one more, D features as prepared, F numbers of evidence, S examples, Q
items of the pile, I items of both, R rounds, K calibration scores, T examples of the classes and U of none. Then one
item is scored: that shows whether the arrays fit together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.answers import mark_unknown
from handful.core.base import Base
from handful.core.checks import NONE_OF_THESE, as_labels
from handful.core.parameters import SHARE, Interval, Limit, Number, Object, Rule, Text, check
from handful.core.prepare import parse
from handful.solving.solve import OPTIONS
from handful.solving.solver import Solver, get_solver, needed_base
from handful.utils.files import write_whole
from handful.utils.tensor_file import check_arrays, read_tensors
from handful.utils.text import shortened
from handful.utils.version import __version__

FORMAT = 1  # raised when a file written now could not be read by an older handful
TOLERANCE = 1e-3  # of probabilities that were computed in single precision


class Numbers(Number):
    """A number, or up to three in a list."""

    def accepts(self, value: Any) -> bool:
        """Whether the entry may have this value."""
        return all(map(super().accepts, value if isinstance(value, list) and 0 < len(value) <= 3 else [value]))


COUNT = Number(1, closed=True, whole=True)
# Entries of the header that are attributes of the same names with "_" behind
ATTRIBUTES: dict[str, Rule] = {
    "threshold": Limit(), "min_confidence": Number(0, 1, closed=True), "outlier_share": Number(0, 1, closed=True),
    "outlier_share_interval": Interval(0, 1, closed=True, optional=True),
    "shots": Number(1, closed=True, optional=True), "shift": Number(-20, 20, closed=True, optional=True),
    "precision_spread": Interval(-30, 30, closed=True, optional=True), "n_iter": COUNT,
}  # fmt: skip
HEADER: dict[str, Rule] = ATTRIBUTES | {
    "format": COUNT, "handful": Text(), "method": Text(), "parameters": Object(), "used": Object(),
    "n_features": Number(1, 10**7, closed=True, whole=True), "feature_names": Text(many=True),
    "made_from": Object(), "base": Object(optional=True), "tensors": Text(many=True),
}  # fmt: skip
MADE_FROM: dict[str, Rule] = {  # what made the features; other entries are for people
    "backbone": Text(), "backbone_fingerprint": Text(optional=True), "text": Text(optional=True),
    "backbone_options": Object(dict.fromkeys(("size", "mean", "std"), Numbers()) | {"preset": Text()}),
}  # fmt: skip
# Estimators' own parameters, beside those of the method
SHARED: dict[str, Rule] = {"threshold": OPTIONS["threshold"], "dtype": OPTIONS["dtype"], "outlier_share": SHARE}
# Arrays that are not of the state: their kind of number and axes
LEARNED = {
    "learned.label_distributions_": ("f", "I N"), "learned.outlier_scores_": ("f", "I"),
    "learned.unknown_": ("b", "I"),
}  # fmt: skip
ITEMS = {"items_": ("f", "I D"), "given_": ("i", "I")}  # what a model grows from; large, and only saved if asked for
MORE = {"pile_scores": ("f", "P"), "parameter.base_mean": ("fiu", "D")}
STEPS = {"task": "1 1 D", "base": "1 1 D", "qr": "1 D R"} | dict.fromkeys(("scale", "power", "signed"), "1 1 1")
CODES = {"labels": "iu", "codes": "iu", "joined": "iuf"}  # arrays of a state that hold whole numbers


def write_model(model: Any, path: str | Path, items: bool = False) -> Path:
    """Write a fitted model; an existing file is replaced whole or not at all. items: with what it was fitted to."""
    from safetensors.numpy import save as serialise

    path = Path(path)
    arrays = {f"state.{name}": value for name, value in model.state_.items()}
    arrays |= {name: getattr(model, name.removeprefix("learned.")) for name in LEARNED}
    if model.pile_scores_ is not None:
        arrays["pile_scores"] = model.pile_scores_
    if items:
        if not hasattr(model, "items_"):
            raise ValueError("this model was read from a file without its items: it can only be saved without them")
        arrays |= {name: getattr(model, name) for name in ITEMS}
    parameters = model.get_params(deep=False)
    if hasattr(model, "base_"):  # with the model goes what it takes of the base, so that the file stands alone
        needed = model.base_.only(*get_solver(model._method).base_parts)
        arrays |= {f"base.{name}": value for name, value in needed.arrays.items()}
        parameters.pop("base")
    if parameters["base_mean"] is not None:
        arrays["parameter.base_mean"] = np.asarray(parameters.pop("base_mean"))
    about = {name: getattr(model, f"{name}_") for name in ATTRIBUTES} | {
        "format": FORMAT,
        "handful": __version__,
        "method": model._method,
        "parameters": parameters,
        "used": model.parameters_,
        "classes": model.classes_.tolist(),
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


def read_model(path: str | Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The method, its parameters and the fitted attributes of the model in a file; ValueError says what is wrong."""
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
        return _checked(about, arrays)
    except KeyError as missing:
        raise ValueError(f"{str(path)!r} is incomplete: {shortened(str(missing))} is missing from it") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{str(path)!r} cannot be loaded: {shortened(str(error), 400)}") from None


def _checked(about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    for names, there in (((*HEADER, "classes"), about), (LEARNED, arrays)):
        if missing := [name for name in names if name not in there]:
            raise KeyError(missing[0])
    check(about, HEADER, "the model")
    check(about["made_from"], MADE_FROM, "what made the model's features")
    if missing := [name for name in about["tensors"] if name not in arrays]:
        raise KeyError(missing[0])
    classes, n_features, names = _classes(about["classes"]), about["n_features"], about["feature_names"]
    if len(names) not in (0, n_features):
        raise ValueError(f"the model has {len(names)} feature_names for {n_features} features")

    declared = {name: of for name, of in (LEARNED | ITEMS | MORE).items() if name in arrays}
    check_arrays(
        {name: arrays[name] for name in declared}, {name: axes for name, (_, axes) in declared.items()},
        {"N": len(classes), "D": n_features},
    )  # fmt: skip
    for name, (kinds, _) in declared.items():
        _check_kind(name, arrays[name], kinds)
    given = arrays.get("given_", np.zeros(0))
    if ((given < NONE_OF_THESE) | (given >= len(classes))).any():
        raise ValueError("given_ of the model names classes that it does not have")
    p = arrays["learned.label_distributions_"]
    if ((p < 0) | (p > 1 + TOLERANCE)).any() or (np.abs(p.sum(axis=1) - 1) > TOLERANCE).any():
        raise ValueError("label_distributions_ of the model are not probabilities: rows from 0 to 1 that sum to 1")

    solver, state = get_solver(about["method"]), _named(arrays, "state.")
    parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in about["parameters"].items()}
    if strange := sorted({*about["used"], *parameters} - {*solver.defaults, *SHARED, "preparation", "base_mean"}):
        raise ValueError(f"{solver.name} has no parameter {shortened(strange[0])!r}, which the model says it used")
    check(parameters, {**SHARED, **solver.rules}, solver.name)
    check(about["used"], solver.rules, solver.name)
    if parameters.get("preparation") is not None:
        parse(parameters["preparation"])
    if parameters.pop("base_mean", None) is not None:
        raise ValueError("base_mean of the model is not an array of the file")
    if "parameter.base_mean" in arrays:
        parameters["base_mean"] = arrays["parameter.base_mean"]
    attributes: dict[str, Any] = {f"{name}_": about[name] for name in ATTRIBUTES}
    attributes = {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()}
    used = {**solver.defaults, **about["used"]}
    if about["base"] is not None:
        base = Base.of(_named(arrays, "base."), about["base"])
        parameters["base"], attributes["base_"] = base, base
    if solver.info.needs == "base":
        needed_base(solver, attributes.get("base_"), n_features)
    _check_state(solver, state, len(classes), n_features)
    _try(solver, state, len(classes), n_features, {**used, **{k: v for k, v in parameters.items() if k == "base"}})

    attributes |= {name.removeprefix("learned."): arrays[name] for name in (*LEARNED, *ITEMS) if name in arrays}
    attributes |= {
        "classes_": classes, "state_": state, "parameters_": used, "n_features_in_": n_features,
        "made_from_": about["made_from"], "pile_scores_": arrays.get("pile_scores"),
        "transduction_": mark_unknown(classes[p.argmax(axis=1)], arrays["learned.unknown_"]),
    }  # fmt: skip
    if names:
        attributes["feature_names_in_"] = np.asarray(names, dtype=object)
    return about["method"], parameters, attributes


def _named(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _classes(names: Any) -> np.ndarray:
    """The names of the classes, sorted, each once."""
    kinds = {type(name) for name in names} if isinstance(names, list) else set()
    if len(kinds) != 1 or not kinds <= {int, float, str}:
        raise ValueError("classes of the model must be a list of texts, or of numbers")
    classes = as_labels(names)
    if (classes[1:] <= classes[:-1]).any():
        raise ValueError("classes of the model must be in order, each once")
    return classes


def _check_kind(name: str, array: np.ndarray, kinds: str) -> None:
    if array.dtype.kind not in kinds:
        raise ValueError(f"array {shortened(name)!r} of the model holds {array.dtype}, which it cannot")


def _check_state(solver: Solver, state: Mapping[str, np.ndarray], classes: int, n_features: int) -> None:
    """Raise unless the arrays that new items are scored by have the axes that the method declares."""
    for prefix, part in solver.parts.items():
        own, width = _named(state, prefix), n_features
        steps = [name for name in own if name.startswith("prepare.")]
        for name in sorted(steps, key=lambda name: int(name.split(".")[1])):
            _, _, kind = name.split(".")
            sizes = {"D": width}
            check_arrays({name: own[name]}, {name: STEPS.get(kind, "1 0")}, sizes)
            width = sizes.get("R", width)
        check_arrays(own, part.axes(own), {"N": classes, "M": classes + 1, "D": width})
        for name, array in own.items():
            _check_kind(name, array, CODES.get(name, "f"))
            highest = classes - 1 if name == "labels" else 2**31
            if name in CODES and ((array < 0) | (array > highest)).any():
                raise ValueError(f"array {shortened(name)!r} of the model has codes that are not from 0 to {highest}")


def _try(
    solver: Solver, state: Mapping[str, np.ndarray], classes: int, n_features: int, parameters: Mapping[str, Any]
) -> None:
    """Score one item: what the checks of single arrays cannot see shows here, not in the middle of a pile."""
    try:
        with np.errstate(all="ignore"):
            answers = solver.score(state, np.zeros((1, 1, n_features)), "float64", parameters)
    except ImportError:
        return  # its method needs a package that is not there, which predict will say
    except Exception as error:
        raise ValueError(f"its arrays do not fit together: {error}") from None
    shapes = [answer.shape for answer in answers]
    if shapes != [(1, 1, classes), (1, 1)] or not all(np.isfinite(answer).all() for answer in answers):
        raise ValueError("its arrays give no probabilities for an item: the file is damaged")
