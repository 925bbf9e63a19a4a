"""The registry of methods: a function, the rules of its parameters, and what is known about it.

A method is a pure function ::

    method(support, labels, query, **parameters) -> Solution

of prepared features [B, S, D], codes [B, S] and prepared features [B, Q, D]. It sees nothing else: no
argument can carry the truth about the queries into it. Registering it is one decorator; what it is (title,
paper, year, paradigm, the preparation it expects) is data, in `metadata.json` or given to the decorator.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, resources
from typing import Any

from handful.arrays import Array
from handful.parameters import Rule

METHODS: dict[str, Method] = {}
OWN = ("eol", "knn", "simpleshot")  # the modules of this package that hold a method each


@dataclass
class Solution:
    """What a method answers, before any decision: probabilities [B, Q, N] and outlier scores [B, Q].

    `state` holds arrays [B, ...] from which `Method.score_new` scores items that were not there.
    """

    probabilities: Array
    outlier_scores: Array
    state: dict[str, Array] = field(default_factory=dict)
    outlier_share: Any = None  # the share of unknowns it worked with, if it has such a thing: [B] or a number
    n_iter: int = 1
    history: Array | None = None


@dataclass(frozen=True)
class Info:
    """What is known about a method, as data."""

    name: str
    estimator: str  # the name of its scikit-learn class
    title: str
    authors: str
    year: int
    paper: str
    paradigm: str  # "inductive" or "transductive"
    setting: str  # "open-set", "closed-set" or "detector"
    preparation: tuple[str, ...]
    score: str  # "probability": above 0.5 means unknown; "rank": only the order means something
    summary: str


@dataclass(frozen=True)
class Method:
    info: Info
    solve: Callable[..., Solution]
    rules: Mapping[str, Rule]
    score_new: Callable[..., tuple[Array, Array]] | None

    @property
    def name(self) -> str:
        return self.info.name

    def score(self, state: dict[str, Array], items: Array, **parameters: Any) -> tuple[Array, Array]:
        """Probabilities and outlier scores of new items [B, n, D], each on its own, from a solution's state."""
        if self.score_new is not None:
            return self.score_new(state, items, **parameters)
        again = self.solve(state["support"], state["labels"], items, **parameters)
        return again.probabilities, again.outlier_scores

    @property
    def defaults(self) -> dict[str, Any]:
        """The method's own parameters with their default values."""
        knobs = inspect.signature(self.solve).parameters.values()
        return {p.name: p.default for p in knobs if p.kind is p.KEYWORD_ONLY}


def register(
    name: str,
    *,
    rules: Mapping[str, Rule] | None = None,
    score_new: Callable[..., tuple[Array, Array]] | None = None,
    info: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Solution]], Callable[..., Solution]]:
    """Register a method under `name`.

    `score_new(state, items, **parameters)` gives probabilities and outlier scores of new items; without it
    they are scored by calling the method again with the stored support, which suits inductive methods.
    """

    def decorate(solve: Callable[..., Solution]) -> Callable[..., Solution]:
        data = dict(info if info is not None else metadata()[name])
        data["preparation"] = tuple(data["preparation"])
        METHODS[name] = Method(Info(name=name, **data), solve, rules or {}, score_new)
        return solve

    return decorate


def get(name: str) -> Method:
    """The method of that name; a wrong name gets the right ones told."""
    load()
    if name not in METHODS:
        raise ValueError(f"there is no method {name!r}; there are: {', '.join(sorted(METHODS))}")
    return METHODS[name]


def list_methods() -> list[Info]:
    """Every registered method with its metadata, sorted by name."""
    load()
    return [METHODS[name].info for name in sorted(METHODS)]


@cache
def load() -> None:
    for module in OWN:
        import_module(f"handful.methods.{module}")


@cache
def metadata() -> dict[str, dict[str, Any]]:
    return json.loads(resources.files("handful.methods").joinpath("metadata.json").read_text("utf-8"))
