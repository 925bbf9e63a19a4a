"""The registry of methods: a function, the rules of its parameters, and what is known about it.

A method is a pure function ::

    method(support, labels, query, **parameters) -> Solution

of prepared features [B, S, D], codes [B, S] and prepared features [B, Q, D]. It sees nothing else: no
argument can carry the truth about the queries into it. Registering it is one decorator; what it is (title,
paper, year, paradigm, the preparation it expects) is data, in `metadata.json` or given to the decorator.

A package of yours adds methods by an entry point in the group `handful.methods` that names a module of it.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache, cached_property
from importlib import import_module, metadata, resources
from math import inf
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import Array
from handful.core.base import HOW, Base, read_base
from handful.core.base_arrays import Part
from handful.core.parameters import AUTO, Rule, is_auto
from handful.core.prepare import as_dtype, prepare, replay
from handful.core.task import Task
from handful.engines import share
from handful.engines.growing import Growth
from handful.streaming.passes import Learned, Passes

METHODS: dict[str, Method] = {}
DEFAULT = "kdo"  # what "auto" stands for: found best where the share of outliers is not known
BY_SHOTS: Any = None  # the default of a parameter whose value the number of shots decides
FEW = 5**0.5  # below so many examples a class, on average, the defaults for 1 shot hold, else those for 5


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
    share_interval: np.ndarray | None = None  # [B, 2], where the share was estimated
    kept: dict[str, Any] = field(default_factory=dict)  # what saves time when the pile grows; never on disk


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
    new_items: str  # what `predict` does with items that were not in the task
    by_shots: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # parameter -> {"1": ..., "5": ...}
    extra: str | None = None  # the extra that must be installed for it
    needs: str | None = None  # "base": what the backbone's base classes leave behind, its parameter `base`
    of_base: str | None = None  # which part of it: a head's name, or "negatives"
    state: Mapping[str, str] = field(default_factory=dict)  # its arrays and their axes, as in "1 N D"; see `modelcheck`


@dataclass(frozen=True)
class Method:
    info: Info
    solve: Callable[..., Solution]
    rules: Mapping[str, Rule]
    score_new: Callable[..., tuple[Array, Array]] | None
    together: float = 1
    finds_share: bool = False
    most: float = inf
    grow_from: Callable[..., Solution] | None = None
    passes: Callable[..., Passes[Learned]] | None = None

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def base_parts(self) -> tuple[str, ...]:
        """What it takes of a base."""
        return () if self.info.of_base is None else (self.info.of_base,)

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The method's own parameters with their default values; None where the number of shots decides."""
        knobs = inspect.signature(self.solve).parameters.values()
        return {p.name: p.default for p in knobs if p.kind is p.KEYWORD_ONLY}

    def by_shots(self, shots: float) -> dict[str, Any]:
        """The defaults that depend on how many examples a class has."""
        return {name: values["1" if shots < FEW else "5"] for name, values in self.info.by_shots.items()}

    def run(
        self, task: Task, preparation: Sequence[str] | None, base_mean: Any, dtype: str, parameters: Mapping[str, Any]
    ) -> Solution:
        """Prepare a batch of tasks and solve it; the solution's state holds what `score` needs."""
        steps = self.info.preparation if preparation is None else preparation
        prepared = prepare(task.support, task.query, steps, base_mean, task.is_extreme)
        support, query = (as_dtype(x, dtype) for x in (prepared.support, prepared.query))
        found = None
        if is_auto(parameters.get("outlier_share")) and parameters.get("b") is None and not self.finds_share:
            found = share.of_task(task.support, task.labels, task.query)
            parameters = {**parameters, "outlier_share": found.estimate}
        given = self.with_base(parameters, prepared.state(), support)
        solution = self._solve(support, task.labels, query, given)
        if found is not None:
            solution.share_interval = found.interval
        if not solution.state:  # an inductive method meets new items with the support it was given
            solution.state = {"support": support, "labels": task.labels}
        solution.state |= prepared.state()
        return solution

    def with_base(self, parameters: Mapping[str, Any], state: Mapping[str, Array], like: Array) -> Mapping[str, Any]:
        """The parameters with, for `base`, the arrays of it that the method needs, as features `like` are."""
        if self.info.of_base is None:
            return parameters
        return {**parameters, "base": Part(parameters["base"], self.info.of_base, state, like)}

    def _solve(self, support: Array, labels: Array, query: Array, parameters: Mapping[str, Any]) -> Solution:
        """A pile too large to be solved whole is scored by what a sample of it taught."""
        if query.shape[1] <= self.most or self.score_new is None:
            return self.solve(support, labels, query, **parameters)
        shown = share.sample(query.shape[1], int(self.most))
        return self._spread(self.solve(support, labels, query[:, shown], **parameters), shown, query, parameters)

    def _spread(self, solution: Solution, shown: np.ndarray, query: Array, parameters: Mapping[str, Any]) -> Solution:
        """The solution of the queries `shown` as one of all."""
        assert self.score_new is not None
        xp, step = array_namespace(query), int(self.most)
        rest = np.setdiff1d(np.arange(query.shape[1]), shown)
        parts = [
            self.score_new(solution.state, query[:, rest[i : i + step]], **parameters)
            for i in range(0, len(rest), step)
        ]
        parts.append((solution.probabilities, solution.outlier_scores))
        place = np.argsort(np.concatenate([rest, shown]))
        probabilities, scores = (xp.concat(part, axis=1)[:, place] for part in zip(*parts, strict=True))
        return replace(solution, probabilities=probabilities, outlier_scores=scores)

    def grow(self, growth: Growth, parameters: Mapping[str, Any]) -> Solution:
        """Solve a task whose pile has grown, from where it stood; only for methods with a `grow_from`."""
        assert self.grow_from is not None
        solution = self.grow_from(growth, **parameters)
        query = growth.task.query
        if query.shape[1] > self.most:
            solution = self._spread(solution, solution.state["shown"][0], growth.prepared(query), parameters)
        solution.state |= {name: value for name, value in growth.state.items() if name.startswith("prepare.")}
        return solution

    def score(
        self, state: Mapping[str, Array], items: Array, dtype: str, parameters: Mapping[str, Any]
    ) -> tuple[Array, Array]:
        """Probabilities and outlier scores of new items [B, n, D] as they come, from a solution's state."""
        items = as_dtype(replay(state, items), dtype)
        parameters = self.with_base(parameters, state, items)
        if self.score_new is not None:
            return self.score_new(state, items, **parameters)
        again = self.solve(state["support"], state["labels"], items, **parameters)
        return again.probabilities, again.outlier_scores


def needed_base(method: Any, base: Any, dimension: int) -> Base:
    """What `base` of a method says, read and fit for features of this dimension; errors say how one is made."""
    if base is None:
        raise ValueError(
            f"{method.name} needs what the backbone's base classes have taught: give base=, a handful.Base or the path "
            f"of its file; {HOW}, `handful train` writes one beside the backbone, and `handful bench` takes --base"
        )
    found = read_base(base)
    if found.dimension != dimension:
        raise ValueError(
            f"the base {found.about.get('name', '')!r} is for {found.dimension} features, and items have {dimension}: "
            "give the base of the same backbone"
        )
    for part in method.base_parts:
        found.part(part)
    return found


def register(
    name: str,
    *,
    rules: Mapping[str, Rule] | None = None,
    score_new: Callable[..., tuple[Array, Array]] | None = None,
    info: Mapping[str, Any] | None = None,
    together: float = 1,
    finds_share: bool = False,
    most: float = inf,
    grow: Callable[..., Solution] | None = None,
    passes: Callable[..., Passes[Learned]] | None = None,
) -> Callable[[Callable[..., Solution]], Callable[..., Solution]]:
    """Register a method under `name`.

    `score_new(state, items, **parameters)` gives probabilities and outlier scores of new items; without it
    they are scored by calling the method again with the stored support, which suits inductive methods.
    `together` is how many times the usual number of tasks are best solved at once: more if it takes many small steps,
    between which threads would pass the GIL around; fewer if its own matrices outgrow the features.
    `finds_share` says that it takes outlier_share="auto" itself; for others the share is estimated beforehand.
    `most` is how many queries it can solve together; of more, a sample is solved and `score_new` scores the rest.
    `grow(growth, **parameters)` solves a task whose pile has grown from where it stood (`handful.engines.growing`), for
    methods whose score is a probability; without it all items are solved again, which suits those that are quick.
    `passes(support, labels, count, view, **parameters)` solves a task over a pile in pieces
    (`handful.streaming.passes`); an inductive method, or one that says `most`, needs none.
    `info` is what `Info` holds, or as much of it as there is to say; for the methods of this package it is in
    `metadata.json`.
    """

    def decorate(solve: Callable[..., Solution]) -> Callable[..., Solution]:
        data = _unsaid(name, solve) | dict(info if info is not None else own_metadata().get(name, {}))
        data["preparation"] = tuple(data["preparation"])
        if name in METHODS and METHODS[name].solve.__module__ != solve.__module__:
            raise ValueError(f"{solve.__module__} cannot register {name!r}: {METHODS[name].solve.__module__} has it")
        if grow is not None and data["score"] != "probability":  # its threshold would have to follow the pile
            raise ValueError(f"{name!r} cannot grow, as its score is a rank: leave out grow=")
        METHODS[name] = Method(
            Info(name=name, **data), solve, rules or {}, score_new, together, finds_share, most, grow, passes
        )
        return solve

    return decorate


def _unsaid(name: str, solve: Callable[..., Solution]) -> dict[str, Any]:
    """What is taken of a method that says no more than its name."""
    said = inspect.getdoc(solve)
    return {
        "estimator": "".join(part.capitalize() for part in name.split("_")),
        "title": name,
        "authors": "",
        "year": date.today().year,
        "paper": "",
        "paradigm": "inductive",
        "setting": "open-set",
        "preparation": ("base", "l2"),
        "score": "rank",
        "summary": said.splitlines()[0] if said else "",
        "new_items": "with the stored examples",
    }


def get(name: str) -> Any:
    """The method of that name, "auto", or a pair as in "simpleshot+knn"; a wrong name gets the right ones told."""
    load()
    if name == AUTO:
        return METHODS[DEFAULT]
    if name in METHODS:
        return METHODS[name]
    if isinstance(name, str) and name.count("+") == 1:
        from handful.solving.pairs import pair

        return pair(*name.split("+"))
    raise ValueError(f"there is no method {name!r}; there are: auto, {', '.join(sorted(METHODS))}")


def list_methods() -> list[Info]:
    """Every registered method with its metadata, sorted by name."""
    load()
    return [METHODS[name].info for name in sorted(METHODS)]


@cache
def load() -> None:
    """Import this package's methods, a file each, and those that other packages bring."""
    for name in own_metadata():
        import_module(f"handful.methods.{name}")
    for entry in metadata.entry_points(group="handful.methods"):
        try:
            entry.load()
        except Exception as error:  # another package's trouble must not stop this one
            warnings.warn(f"methods of {entry.value!r} could not be loaded: {error!r}", RuntimeWarning, stacklevel=2)


@cache
def own_metadata() -> dict[str, dict[str, Any]]:
    return json.loads(resources.files("handful.methods").joinpath("metadata.json").read_text("utf-8"))
