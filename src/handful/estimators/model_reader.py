"""Reading fitted models: every entry is checked before a model is made of it. Nothing is ever unpickled.

A file may come from anyone. Its header is checked entry by entry, its arrays against the classes, the features and the
axes that the method declares in its `Info`, where letters stand for: N classes, M classes and one more, D features
as prepared, F numbers of evidence, S examples, Q items of the pile, I items of both, R rounds, K calibration scores, T
examples of the classes and U of none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from handful.core.answers import mark_unknown
from handful.core.base import Base
from handful.core.checks import NONE_OF_THESE, as_labels
from handful.core.parameters import SHARE, Interval, Limit, Number, Object, Rule, Text, check
from handful.core.prepare import POWERS, SCALE, STEPS, parse
from handful.estimators.classifier import FewShotClassifier
from handful.estimators.factory import make_estimator
from handful.estimators.model_writer import FORMAT, ITEMS, LEARNED
from handful.solving.solve import OPTIONS
from handful.solving.solver import Solver, get_solver, needed_base
from handful.utils.tensor_file import check_arrays, read_tensors
from handful.utils.text import shortened
from handful.utils.version import __version__

TOLERANCE = 1e-3  # of probabilities that were computed in single precision
PREPARE = re.compile(r"prepare\.(\d{1,3})\.(\w+)", re.ASCII)
COUNT = Number(1, closed=True, whole=True)
FEATURES = Number(1, 10**7, closed=True, whole=True)  # no backbone has a thousandth of it
CODES = ("labels", "codes")  # arrays of whole numbers: classes of the examples
CODES_OR_FLOATS = ("joined",)  # the classes that the pile joined; a method may write them as floats


@dataclass(frozen=True)
class Numbers:
    """A number, or a few."""

    def accepts(self, value: Any) -> bool:
        """Whether the entry may have this value."""
        values = value if isinstance(value, list) and 0 < len(value) <= 3 else [value]
        return all(map(Number().accepts, values))

    def __str__(self) -> str:
        return "a number, or up to three"


MADE_FROM: dict[str, Rule] = {  # what made the features; other entries are for people
    "backbone": Text(), "backbone_fingerprint": Text(optional=True), "text": Text(optional=True),
    "backbone_options": Object(dict.fromkeys(("size", "mean", "std"), Numbers()) | {"preset": Text()}),
}  # fmt: skip
HEADER: dict[str, Rule] = {
    "format": COUNT, "handful": Text(), "method": Text(), "parameters": Object(), "used": Object(),
    "threshold": Limit(), "min_confidence": Number(0, 1, closed=True), "outlier_share": Number(0, 1, closed=True),
    "outlier_share_interval": Interval(0, 1, closed=True, optional=True), "n_iter": COUNT,
    "shots": Number(1, closed=True, optional=True), "shift": Number(-20, 20, closed=True, optional=True),
    "precision_spread": Interval(-30, 30, closed=True, optional=True),
    "n_features": FEATURES,
    "feature_names": Text(many=True), "made_from": Object(), "base": Object(optional=True), "tensors": Text(many=True),
}  # fmt: skip
OPTIONAL = ("handful", "outlier_share_interval", "precision_spread", "made_from", "base")
# Estimators' own parameters, beside those of the method
SHARED: dict[str, Rule] = {"threshold": OPTIONS["threshold"], "dtype": OPTIONS["dtype"], "outlier_share": SHARE}


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
    check_learned(learned, solver, len(classes), n_features)

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


def check_header(about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError for an entry of a wrong type or value, KeyError for one that is missing."""
    for name in (*HEADER, "classes"):
        if name not in about and name not in OPTIONAL:
            raise KeyError(name)
    check(about, HEADER, "the model")
    check(about.get("made_from", {}), MADE_FROM, "what made the model's features")
    for name in about["tensors"]:
        if name not in arrays:
            raise KeyError(name)
    count = len(about["feature_names"])
    if count not in (0, about["n_features"]):
        raise ValueError(f"the model has {count} feature_names for {about['n_features']} features")


def check_classes(classes: Any) -> np.ndarray:
    """The names of the classes, sorted, each once."""
    kinds = {type(name) for name in classes} if isinstance(classes, list) else set()
    if len(kinds) != 1 or not kinds <= {int, float, str}:
        raise ValueError("classes of the model must be a list of texts, or of numbers")
    names = as_labels(classes)
    if (names[1:] <= names[:-1]).any():
        raise ValueError("classes of the model must be in order, each once")
    return names


def check_parameters(solver: Solver, parameters: Mapping[str, Any], used: Mapping[str, Any], n_features: int) -> None:
    """Raise unless a method of these parameters could have been fitted."""
    if strange := sorted({*used} - {*solver.defaults}):
        raise ValueError(f"{solver.name} has no parameter {shortened(strange[0])!r}, which the model says it used")
    check(parameters, {**SHARED, **solver.rules}, solver.name)
    check(used, solver.rules, solver.name)
    if parameters.get("preparation") is not None:
        parse(parameters["preparation"])
    mean = parameters.get("base_mean")
    if mean is not None:
        if not isinstance(mean, np.ndarray):
            raise ValueError("base_mean of the model is not an array of the file")
        check_arrays({"base_mean": mean}, {"base_mean": "D"}, {"D": n_features})


def check_state(solver: Solver, state: Mapping[str, np.ndarray], classes: int, n_features: int) -> None:
    """Raise unless the arrays that new items are scored by have the axes that the method declares."""
    parts = solver.parts
    if strange := [name for name in state if not name.startswith(tuple(parts))]:
        raise ValueError(f"the model has an array {shortened(strange[0])!r} that {solver.name} does not know")
    for prefix, part in parts.items():
        own = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
        declared = part.axes(own)
        if declared and (strange := [n for n in own if n not in (*declared, *CODES) and not n.startswith("prepare.")]):
            raise ValueError(f"the model has an array {shortened(strange[0])!r} that {part.name} does not know")
        sizes = {"N": classes, "M": classes + 1, "D": _check_steps(own, n_features)}
        check_arrays(own, declared, sizes)
        for name, array in own.items():
            if name in CODES or (name in CODES_OR_FLOATS and array.dtype.kind in "iu"):
                check_codes(array, 0, classes if name == "labels" else 2**31, name)
            elif array.dtype.kind != "f":
                raise ValueError(f"array {shortened(name)!r} of the model is {array.dtype}: floats are needed")


def _check_steps(state: Mapping[str, np.ndarray], n_features: int) -> int:
    """How many features there are after the steps of preparation, whose arrays must fit."""
    names = {name: PREPARE.fullmatch(name) for name in state if name.startswith("prepare.")}
    for name, match in names.items():
        if match is None or match[2] not in (SCALE, *STEPS):
            raise ValueError(f"the model has a step of preparation {shortened(name)!r} that is not known")
    steps = sorted((int(match[1]), match[2], name) for name, match in names.items() if match)
    if [number for number, _, _ in steps] != list(range(len(steps))):
        raise ValueError("the model's steps of preparation are not numbered 0, 1, 2, ...")
    width = n_features
    for _, kind, name in steps:
        axes = {"task": "1 1 D", "base": "1 1 D", "qr": "1 D R"} | dict.fromkeys((SCALE, *POWERS), "1 1 1")
        sizes = {"D": width}
        check_arrays({name: state[name]}, {name: axes.get(kind, "1 0")}, sizes)
        width = sizes.get("R", width)
    return width


def check_learned(arrays: Mapping[str, np.ndarray], solver: Solver, classes: int, n_features: int) -> None:
    """Raise unless what the model says of the items it was fitted to can be so; `arrays` by their plain names."""
    distributions, scores, unknown = (arrays[n] for n in ("label_distributions_", "outlier_scores_", "unknown_"))
    if unknown.dtype != np.bool_ or unknown.ndim != 1:
        raise ValueError(f"unknown_ of the model is {unknown.dtype} of shape {unknown.shape}: one yes or no an item")
    count = len(unknown)
    shapes = {"label_distributions_": (count, classes), "outlier_scores_": (count,)}
    for name, shape in shapes.items():
        if arrays[name].dtype.kind != "f" or arrays[name].shape != shape:
            kind = f"{arrays[name].dtype} of shape {arrays[name].shape}"
            raise ValueError(f"{name} of the model is {kind}, and floats of shape {shape} are needed")
    undefined = np.isnan(distributions).all(axis=1) & unknown  # 0 / 0 where an item is surely of no class
    rest = distributions[~undefined]
    if not ((rest >= 0) & (rest <= 1 + TOLERANCE)).all() or (np.abs(rest.sum(axis=1) - 1) > TOLERANCE).any():
        raise ValueError("label_distributions_ of the model are not probabilities: rows from 0 to 1 that sum to 1")
    if np.isnan(scores).any():
        raise ValueError("outlier_scores_ of the model contain NaN")
    if solver.info.score == "probability" and ((scores < -TOLERANCE) | (scores > 1 + TOLERANCE)).any():
        raise ValueError("outlier_scores_ of the model are not probabilities: numbers from 0 to 1 are needed")
    if "pile_scores" in arrays:
        ordered = arrays["pile_scores"]
        if ordered.dtype.kind != "f" or ordered.ndim != 1 or np.isnan(ordered).any():
            raise ValueError(f"pile_scores of the model are {ordered.dtype} of shape {ordered.shape}: give floats")
        if (ordered[1:] < ordered[:-1]).any():
            raise ValueError("pile_scores of the model are not in order")
    if "items_" in arrays:
        check_arrays(arrays, {"items_": "I D", "given_": "I"}, {"I": count, "D": n_features})
        check_codes(arrays["given_"], NONE_OF_THESE, classes, "given_")


def check_codes(codes: np.ndarray, low: int, high: int, what: str) -> None:
    """Raise ValueError unless the codes are whole numbers in this range."""
    if codes.dtype.kind not in "iu" or (codes.size and not low <= codes.min() <= codes.max() < high):
        raise ValueError(f"{what} of the model must be whole numbers from {low} to {high - 1}")
