"""What a method is, and the table of methods. Registering one is a decorator; what it is stands in its own file.

A method is a function ::

    solve(support, labels, query, **parameters) -> Solution

of prepared features [B, S, D], codes [B, S] and prepared features [B, Q, D]. It sees nothing else: no argument can
carry the truth about the queries into it. A method that can use examples of no class takes them as a fourth argument,
`unknown`, prepared features [B, U, D]; for all others they enter by a margin (`handful.methods.margin`). The docstring
of a method explains its own parameters, and their annotations say what values they may take.

A package of yours adds methods by an entry point in the group `handful.methods` that names a module of it.
"""

from __future__ import annotations

import inspect
import pkgutil
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from difflib import get_close_matches
from functools import cache, cached_property
from importlib import import_module, metadata
from math import inf
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array
from handful.core.base import BaseArrays
from handful.core.parameters import AUTO, OneOf, Rule, rules_of
from handful.core.prepare import as_dtype, replay
from handful.engines.loss import BACKENDS
from handful.methods import margin

BY_SHOTS: Any = None  # the default of a parameter whose value depends on the number of shots
Backend = Annotated[str, OneOf(BACKENDS)]
Scores = tuple[Array, Array]  # probabilities [B, n, N] and outlier scores [B, n]
EXAMPLES = {"support": "1 S D", "labels": "1 S"}  # the state of a method that solves again for new items


def maxprob(probabilities: Array) -> Array:
    """Minus the largest class probability (Hendrycks and Gimpel 2017), as in the EOL paper for closed-set methods."""
    return -array_namespace(probabilities).max(probabilities, axis=-1)


def entropy(probabilities: Array) -> Array:
    """The entropy of the class probabilities."""
    xp = array_namespace(probabilities)
    return -xp.sum(probabilities * xp.log(probabilities + FLOOR), axis=-1)


SCORES = {"maxprob": maxprob, "entropy": entropy}  # outlier scores that are high where the classifier is unsure


@dataclass
class Solution:
    """What a method answers, before any decision.

    Parameters
    ----------
    probabilities : array [B, Q, N]
        One number for each known class.
    outlier_scores : array [B, Q]
        High means more likely unknown.
    state : dict of arrays [B, ...]
        What `score_new` needs to score items that were not in the task.
    outlier_share : float or array [B], optional
        The share of unknowns that the method worked with, if it has such a thing.
    n_iter : int
        Steps that were made.
    history : array [B, steps + 1], optional
        Losses, if they were asked for.
    share_interval : array [B, 2], optional
        Where the share was estimated: it should lie in this interval four times in five.
    is_calibrated : bool
        Whether outlier scores are probabilities that can be taken at their word, so that nothing corrects them.
    threshold : array [B], optional
        The outlier score above which an item is unknown, if the method decides that itself.
    share_posterior : array [B, G], optional
        Where the share was estimated: P(share > g) for each of `handful.engines.share_statistics.TRIED_SHARES`.
    examples : dict of arrays [B, S], optional
        Where each example landed when it was hidden in the pile, if the method tries that.
    precision_spread : array [B, 2], optional
        How far the precision of labels may be below and above the expected one, in log-odds.
    """

    probabilities: Array
    outlier_scores: Array
    state: dict[str, Array] = field(default_factory=dict)
    outlier_share: Any = None
    n_iter: int = 1
    history: Array | None = None
    share_interval: np.ndarray | None = None
    is_calibrated: bool = False
    threshold: Array | None = None
    share_posterior: np.ndarray | None = None
    examples: dict[str, np.ndarray] | None = None
    precision_spread: np.ndarray | None = None

    def of_task(self, i: int) -> Solution:
        """That of one task of the batch: arrays without the first axis, but for `state`."""
        parts = {name: value[i] if np.ndim(value) else value for name, value in vars(self).items()}
        examples = None if self.examples is None else {name: values[i] for name, values in self.examples.items()}
        return Solution(**parts | {"state": {k: v[i : i + 1] for k, v in self.state.items()}, "examples": examples})

    @staticmethod
    def join(parts: Sequence[Solution]) -> Solution:
        """The solution of a batch from those of its parts."""
        return parts[0] if len(parts) == 1 else Solution(**_join([vars(part) for part in parts]))


def _join(parts: Sequence[Any]) -> Any:
    """Arrays one after the other, also inside of dictionaries; of anything else that of the first part."""
    first = parts[0]
    if isinstance(first, dict):
        return {name: _join([part[name] for part in parts]) for name in first}
    return array_namespace(first).concat(parts, axis=0) if np.ndim(first) else first


@dataclass(frozen=True)
class Info:
    """What is known about a method, as data. Only the name must be given; `register` fills in what can be derived.

    Parameters
    ----------
    name : str
        The name that `handful.solve(..., method=name)` takes.
    estimator : str
        The name of its scikit-learn class.
    title, authors, year, paper : str, str, int, str
        The publication.
    paradigm : {"inductive", "transductive"}
        Whether it learns from the pile.
    setting : {"open-set", "closed-set", "detector"}
        What it was made for.
    preparation : tuple of str
        The preparation of features that it expects.
    score : {"rank", "probability"}
        "probability": above 0.5 means unknown. "rank": only the order of outlier scores means something.
    summary : str
        What it does, in a sentence.
    new_items : str
        How `predict` scores items that were not in the task.
    by_shots : mapping, optional
        Defaults that depend on the number of shots: parameter -> {"1": value, "5": value}.
    extra : str, optional
        The extra of handful that must be installed for it.
    needs : {"base"}, optional
        "base" if it takes what was learned on the base classes, as its parameter `base`: if it has a `base_part`.
    base_part : str, optional
        The part of the base that it takes: the name of a head, or "negatives".
    state : mapping, optional
        Its state arrays and their axes, as in "1 N D": see `handful.estimators.model_file`. By default the examples.
    decision : str, optional
        For a method that decides itself what is unknown: how, in a sentence. `{name}` stands for a parameter
        that is a share, in percent.
    """

    name: str
    estimator: str = ""
    title: str = ""
    authors: str = ""
    year: int = 0
    paper: str = ""
    paradigm: str = "inductive"
    setting: str = "open-set"
    preparation: tuple[str, ...] = ("base", "l2")
    score: str = "rank"
    summary: str = ""
    new_items: str = "by the stored examples"
    by_shots: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    extra: str | None = None
    needs: str | None = None
    base_part: str | None = None
    state: Mapping[str, str] = field(default_factory=dict)
    decision: str = ""


@dataclass(frozen=True)
class Method:
    """A registered method: its function, and what running it needs to know. See `register`."""

    info: Info
    solve: Callable[..., Solution]
    rules: Mapping[str, Rule] = field(default_factory=dict)
    score_new: Callable[..., Scores] | None = None
    chunk_factor: float = 1
    estimates_share: bool = False
    max_queries: float = inf

    @property
    def name(self) -> str:
        """The name of the method."""
        return self.info.name

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The method's own parameters with their default values; None where the number of shots decides."""
        parameters = inspect.signature(self.solve).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    @cached_property
    def takes_unknown(self) -> bool:
        """Whether it takes examples of no class itself."""
        return "unknown" in inspect.signature(self.solve).parameters

    def axes(self, names: Iterable[str]) -> Mapping[str, str]:
        """The axes of its state arrays, where these names are in the state; none if the method declares none."""
        has_margin = bool(self.info.state) and any(name in margin.STATE for name in names)
        return {**self.info.state, **margin.STATE} if has_margin else self.info.state

    def with_base(self, parameters: Mapping[str, Any], state: Mapping[str, Array], like: Array) -> Mapping[str, Any]:
        """The parameters with `base` replaced by the arrays of it that the method takes, of the type of `like`."""
        if self.info.base_part is None:
            return parameters
        return {**parameters, "base": BaseArrays(parameters["base"], self.info.base_part, state, like)}

    def score(self, state: Mapping[str, Array], items: Array, dtype: str, parameters: Mapping[str, Any]) -> Scores:
        """Probabilities and outlier scores of new items [B, n, D] as they come, from a solution's state."""
        items = as_dtype(replay(state, items), dtype)
        parameters = self.with_base(parameters, state, items)
        if self.score_new is not None:
            probabilities, scores = self.score_new(state, items, **parameters)
        else:
            solution = self.solve(state["support"], state["labels"], items, **parameters)
            probabilities, scores = solution.probabilities, solution.outlier_scores
        return probabilities, margin.add_margin(state, scores, items)


METHODS: dict[str, Method] = {}
DEFAULT = "eol_kdo"  # what "auto" stands for: best where the share of unknowns is not known
NOT_METHODS = ("margin", "registry")  # files of this folder that hold no method


def register(
    info: Info | str,
    *,
    score_new: Callable[..., Scores] | None = None,
    chunk_factor: float = 1,
    estimates_share: bool = False,
    max_queries: float = inf,
) -> Callable[[Callable[..., Solution]], Callable[..., Solution]]:
    """Register the decorated function as a method.

    Parameters
    ----------
    info : Info or str
        What the method is, or its name alone: it is then taken for inductive, with scores that rank.
    score_new : callable, optional
        `score_new(state, items, **parameters)` gives probabilities and outlier scores of new items. Without it they
        are scored by calling `solve` again with the stored support, which suits inductive methods.
    chunk_factor : float, default 1
        How many times the usual number of tasks are best solved in one chunk: more for a method of many small steps,
        fewer for one whose own matrices are larger than the features.
    estimates_share : bool, default False
        Whether it takes outlier_share="auto" itself. For other methods the share is estimated beforehand.
    max_queries : float, optional
        How many queries it can solve together. Of a larger pile a sample is solved, and `score_new` scores the rest.

    Examples
    --------
    See "Add a method" in docs/building/extend.md.
    """

    def decorate(solve: Callable[..., Solution]) -> Callable[..., Solution]:
        facts = info if isinstance(info, Info) else Info(info)
        name, doc = facts.name, inspect.getdoc(solve)
        if name in METHODS and METHODS[name].solve.__module__ != solve.__module__:
            raise ValueError(f"{solve.__module__} cannot register {name!r}: {METHODS[name].solve.__module__} has it")
        facts = replace(
            facts,
            estimator=facts.estimator or "".join(part.capitalize() for part in name.split("_")),
            title=facts.title or name,
            year=facts.year or date.today().year,
            preparation=tuple(facts.preparation),
            summary=facts.summary or (doc.splitlines()[0] if doc else ""),
            state=facts.state or ({} if score_new else EXAMPLES),
            needs="base" if facts.base_part else None,
        )
        METHODS[name] = Method(facts, solve, rules_of(solve), score_new, chunk_factor, estimates_share, max_queries)
        return solve

    return decorate


def find_method(name: str) -> Method:
    """The method of that name, in upper or lower case; "auto" is the default method.

    Raises
    ------
    ValueError
        If there is no such method. The message lists the valid names.
    """
    load_methods()
    key = name.lower() if isinstance(name, str) else name
    if key == AUTO:
        return METHODS[DEFAULT]
    if key not in METHODS:
        raise ValueError(
            f"there is no method {name!r}{did_you_mean(name)}; there are: {', '.join([AUTO, *list_methods()])}"
        )
    return METHODS[key]


def did_you_mean(name: Any, others: tuple[str, ...] = ()) -> str:
    """The end of a sentence about a wrong name: the name that is most like it, if there is one."""
    names = get_close_matches(str(name).lower(), [AUTO, *METHODS, *others], 1)
    return f" (did you mean {names[0]!r}?)" if names else ""


def list_methods() -> list[str]:
    """The names of all methods, sorted.

    Examples
    --------
    >>> "eol" in list_methods()
    True
    """
    load_methods()
    return sorted(METHODS)


@cache
def load_methods() -> None:
    """Import the methods of this package, one file each, and those that other packages bring."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.name.startswith("_") and module.name not in NOT_METHODS:
            import_module(f"handful.methods.{module.name}")
    for entry in metadata.entry_points(group="handful.methods"):
        try:
            entry.load()
        except Exception as error:  # a fault of another package must not stop this one
            warnings.warn(f"methods of {entry.value!r} could not be loaded: {error!r}", RuntimeWarning, stacklevel=2)
