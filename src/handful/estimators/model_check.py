"""What a model file may say, declared once and checked before a model is made of it.

A file may come from anyone. Its header is checked entry by entry, its arrays against the classes, the features and the
axes that the method declares in its `Info`, where letters stand for: N classes, M classes and one more, D features
as prepared, F numbers of evidence, S examples, Q items of the pile, I items of both, R rounds, K calibration scores, T
examples of the classes and U of none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from handful.core.checks import NONE_OF_THESE, as_labels, shortened
from handful.core.parameters import SHARE, Interval, Limit, Number, Object, Rule, Text, check
from handful.core.prepare import POWERS, SCALE, STEPS, parse
from handful.solving.solve import OPTIONS
from handful.solving.solver import Solver
from handful.utils.tensor_file import check_arrays

TOLERANCE = 1e-3  # of probabilities that were computed in single precision
PREPARE = re.compile(r"prepare\.(\d{1,3})\.(\w+)", re.ASCII)
COUNT = Number(1, closed=True, whole=True)
FEATURES = Number(1, 10**7, closed=True, whole=True)  # no backbone has a thousandth of it
CODES = ("labels", "codes", "shown")  # arrays of whole numbers: classes of the examples, rows of the pile
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
    "n_whole": Number(0, closed=True, whole=True, optional=True), "n_features": FEATURES,
    "feature_names": Text(many=True), "made_from": Object(), "base": Object(optional=True), "tensors": Text(many=True),
}  # fmt: skip
OPTIONAL = ("handful", "outlier_share_interval", "precision_spread", "n_whole", "made_from", "base")
# Estimators' own parameters, beside those of the method
SHARED: dict[str, Rule] = {"threshold": OPTIONS["threshold"], "dtype": OPTIONS["dtype"], "outlier_share": SHARE}


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


def check_learned(
    arrays: Mapping[str, np.ndarray], solver: Solver, classes: int, n_features: int, n_whole: Any
) -> None:
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
        if n_whole is None or n_whole > count:
            raise ValueError(f"n_whole of the model is {n_whole}, and it has {count} items")


def check_codes(codes: np.ndarray, low: int, high: int, what: str) -> None:
    """Raise ValueError unless the codes are whole numbers in this range."""
    if codes.dtype.kind not in "iu" or (codes.size and not low <= codes.min() <= codes.max() < high):
        raise ValueError(f"{what} of the model must be whole numbers from {low} to {high - 1}")
