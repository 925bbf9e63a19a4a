"""A method, or a pair of methods, ready to run: prepare a batch of tasks, estimate the share of unknowns, solve.

`get_solver(name)` gives a `Solver`; `solve` and the estimators use it. In a pair, as "simpleshot+knn" or
"tim_gd+entropy", classes come from the first method and outlier scores from the second, each on features prepared as it
expects. The second may also be the name of a score of the first one's probabilities, `maxprob` or `entropy`. The paper
notes that detectors such as kNN would make good partners for the closed-set classifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import Array, with_unknown
from handful.core.base import HOW, Base, read_base
from handful.core.parameters import AUTO, Rule, is_auto
from handful.core.prepare import as_dtype
from handful.core.task import Task
from handful.engines import share
from handful.engines.preparation import prepare
from handful.methods.margin import add_margin, margin_state
from handful.methods.registry import SCORES, Info, Method, Scores, Solution, did_you_mean, find_method
from handful.methods.registry import list_methods as list_methods
from handful.utils.shares_in_words import percent

SHARED = ("outlier_share", "base")  # parameters that both methods of a pair take under the same name
CLASSIFIER, DETECTOR = "classifier/", "detector/"  # prefixes of the states of a pair
T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """How tasks are solved: the same for all tasks of one call."""

    parameters: Mapping[str, Any]  # of the method
    preparation: Sequence[str] | None = None  # steps in place of the method's own
    base_mean: Any = None  # [D] the mean feature of the base classes
    dtype: str = "float32"
    threads: int | None = None
    estimates_share: bool = False  # also where the method's scores only rank


@dataclass(frozen=True)
class Solver:
    """One method, or a pair of them. Of a pair, the detector's parameters are called knn_k and so on (see `SHARED`)."""

    classifier: Method  # the method, in a pair the one that gives the classes
    second: str = ""  # what gives the outlier scores of a pair: the name of the detector, or of a score in `SCORES`
    detector: Method | None = None  # the method of that name

    @cached_property
    def parts(self) -> Mapping[str, Method]:
        """The methods that it consists of, by the prefix of their names in the state."""
        if not self.second:
            return {"": self.classifier}
        return {CLASSIFIER: self.classifier} | ({} if self.detector is None else {DETECTOR: self.detector})

    @cached_property
    def info(self) -> Info:
        """What it is; of a pair, made from both."""
        first = self.classifier.info
        if not self.second:
            return first
        second = Info(self.second, estimator=self.second.capitalize(), title=self.second, new_items="")
        second = second if self.detector is None else self.detector.info
        return replace(
            first, name=f"{first.name}+{self.second}", estimator=f"{first.estimator}With{second.estimator}",
            title=f"{first.title} + {second.title}", score=second.score, decision=second.decision,
            by_shots=self._merge(lambda method: method.info.by_shots),
            paradigm="transductive" if "transductive" in (first.paradigm, second.paradigm) else "inductive",
            new_items=f"classes: {first.new_items}; scores: {second.new_items}" if self.detector else first.new_items,
            extra=first.extra or second.extra, needs=first.needs or second.needs,
        )  # fmt: skip

    @cached_property
    def rules(self) -> Mapping[str, Rule]:
        """What values its parameters may take."""
        return self._merge(lambda method: method.rules)

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """Its parameters with their default values; None where the number of shots decides."""
        return self._merge(lambda method: method.defaults)

    @property
    def name(self) -> str:
        """The name of the method or pair."""
        return self.info.name

    @property
    def base_parts(self) -> tuple[str, ...]:
        """What it takes of a base: names of heads, or "negatives"."""
        return tuple(m.info.base_part for m in self.parts.values() if m.info.base_part is not None)

    def decision(self, parameters: Mapping[str, Any]) -> str:
        """How it decides itself what is unknown, in a sentence with its shares in percent; empty if it does not."""
        sentence = self.info.decision
        own = self._own([*self.parts][-1], parameters)
        return sentence.format(**{name: percent(value) for name, value in own.items() if f"{{{name}}}" in sentence})

    def run(self, task: Task, call: Call) -> Solution:
        """Prepare a batch of tasks and solve it. The state of the solution holds what `score` needs."""
        if self.second and self.detector is None and task.unknown.shape[1]:
            raise ValueError(
                f"{self.name} cannot use examples of no class, because {self.second} depends on class "
                f"probabilities alone: use {self.classifier.name}, or a pair such as {self.classifier.name}+knn"
            )
        solutions = {
            prefix: _run(method, task, replace(call, parameters=self._own(prefix, call.parameters)))
            for prefix, method in self.parts.items()
        }
        if not self.second:
            return solutions[""]
        first = solutions[CLASSIFIER]
        p = first.probabilities
        second = solutions[DETECTOR] if self.detector else Solution(p, SCORES[self.second](p))
        return Solution(
            p, second.outlier_scores, {k + name: x for k, one in solutions.items() for name, x in one.state.items()},
            second.outlier_share, first.n_iter, first.history, second.share_interval, threshold=second.threshold,
            share_posterior=second.share_posterior,
        )  # fmt: skip

    def score(self, state: Mapping[str, Array], items: Array, dtype: str, parameters: Mapping[str, Any]) -> Scores:
        """Probabilities and outlier scores of new items [B, n, D] as they come, from a solution's state."""
        parts = [
            method.score(
                {name.removeprefix(prefix): x for name, x in state.items() if name.startswith(prefix)},
                items, dtype, self._own(prefix, parameters),
            )
            for prefix, method in self.parts.items()
        ]  # fmt: skip
        probabilities = parts[0][0]
        is_score = self.second and self.detector is None
        return probabilities, SCORES[self.second](probabilities) if is_score else parts[-1][1]

    def _merge(self, facts: Callable[[Method], Mapping[str, T]]) -> dict[str, T]:
        """The facts about the parameters of each part, by the parameters' names in the whole."""
        return {
            self._outer_name(prefix, name): value
            for prefix, method in self.parts.items()
            for name, value in facts(method).items()
        }

    def _own(self, prefix: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of one part."""
        return {name: parameters[self._outer_name(prefix, name)] for name in self.parts[prefix].defaults}

    def _outer_name(self, prefix: str, name: str) -> str:
        """Two underscores would mean a nested estimator to scikit-learn."""
        return f"{self.second}_{name}" if prefix == DETECTOR and name not in SHARED else name


def get_solver(name: str) -> Solver:
    """The method of that name, ready to run.

    Parameters
    ----------
    name : str
        A name of `list_methods()`, "auto", or a pair as in "simpleshot+knn"; upper and lower case mean the same.

    Raises
    ------
    ValueError
        If there is no such method. The message lists the valid names.
    """
    if not isinstance(name, str) or name.count("+") != 1:
        return Solver(find_method(name))
    classifier, detector = name.lower().split("+")
    first = find_method(classifier)
    if detector in SCORES:
        return Solver(first, detector)
    try:
        second = find_method(detector)
    except ValueError:
        hint, scores, names = did_you_mean(detector, (*SCORES,)), ", ".join(SCORES), ", ".join(list_methods())
        raise ValueError(f"{detector!r} gives no outlier score{hint}; use {scores} or any of: {names}") from None
    return Solver(first, second.name, second)


def describe(name: str) -> Info:
    """What is known about a method: title, authors, paper, paradigm, preparation and more.

    Parameters
    ----------
    name : str
        The name of a method, or of a pair.

    Returns
    -------
    Info
        The facts.

    Examples
    --------
    >>> describe("eol").year
    2024
    """
    return get_solver(name).info


def needed_base(solver: Solver, base: Any, dimension: int) -> Base:
    """The base that a method takes, read and checked for features of this dimension."""
    if base is None:
        raise ValueError(
            f"{solver.name} needs what the backbone's base classes have taught: give base=, a handful.methods.Base or "
            f"the path of its file; {HOW}, `handful train` writes one beside the backbone, and `handful bench` takes "
            "--base"
        )
    checked = read_base(base)
    if checked.dimension != dimension:
        raise ValueError(
            f"the base {checked.about.get('name', '')!r} is for {checked.dimension} features, and items have "
            f"{dimension}: give the base of the same backbone"
        )
    for part in solver.base_parts:
        checked.part(part)
    return checked


def _run(method: Method, task: Task, call: Call) -> Solution:
    """Prepare a batch of tasks and solve it by one method."""
    parameters = call.parameters
    steps = method.info.preparation if call.preparation is None else call.preparation
    examples, _ = with_unknown(task.support, task.labels, task.unknown)
    backend = parameters.get("backend")  # methods without a kernel leave the preparation to the array code as well
    prepared = prepare(examples, task.query, steps, call.base_mean, task.is_extreme, backend or "array")
    examples, query = (as_dtype(x, call.dtype) for x in (prepared.support, prepared.query))
    n_support = task.support.shape[1]
    support, unknown = examples[:, :n_support], examples[:, n_support:]
    estimate = None
    is_open = is_auto(parameters.get("outlier_share")) and parameters.get("b") is None
    if is_open and not method.estimates_share:
        estimate = share.of_task(task.support, task.labels, task.query, task.unknown, backend=backend or AUTO)
        parameters = {**parameters, "outlier_share": estimate.estimate}
    parameters = method.with_base(parameters, prepared.state(), support)
    solution = _solve(method, support, task.labels, query, unknown, parameters)
    if estimate is not None:
        solution.share_interval, solution.share_posterior = estimate.interval, estimate.above
    if not solution.state:  # an inductive method scores new items by the support
        solution.state = {"support": support, "labels": task.labels}
    if unknown.shape[1] and not method.takes_unknown:
        solution.state |= margin_state(solution.outlier_scores, support, unknown, query)
        solution.outlier_scores = add_margin(solution.state, solution.outlier_scores, query)
        solution.threshold = None  # it was of the scores without the margin
    solution.state |= prepared.state()
    return solution


def _solve(
    method: Method, support: Array, labels: Array, query: Array, unknown: Array, parameters: Mapping[str, Any]
) -> Solution:
    """Solve prepared tasks. Of a pile too large for the method a sample is solved, by which the rest is scored."""
    own = (unknown,) if method.takes_unknown else ()
    if query.shape[1] <= method.max_queries or method.score_new is None:
        return method.solve(support, labels, query, *own, **parameters)
    step = int(method.max_queries)
    rows = share.sample(query.shape[1], step)
    solution = method.solve(support, labels, query[:, rows], *own, **parameters)
    xp, rest = array_namespace(query), np.setdiff1d(np.arange(query.shape[1]), rows)
    blocks = [
        method.score_new(solution.state, query[:, rest[i : i + step]], **parameters) for i in range(0, len(rest), step)
    ]
    blocks.append((solution.probabilities, solution.outlier_scores))
    order = np.argsort(np.concatenate([rest, rows]))
    probabilities, scores = (xp.concat(block, axis=1)[:, order] for block in zip(*blocks, strict=True))
    return replace(solution, probabilities=probabilities, outlier_scores=scores)
