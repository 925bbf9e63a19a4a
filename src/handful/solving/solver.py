"""A method as it is run: prepare a batch of tasks, estimate the share of unknowns, solve, sample a large pile.

`Solver` is the contract that `solve` and the estimators use. It is the same for one method (`MethodSolver`) and for a
pair of methods (`handful.solving.pairs.PairSolver`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array

from handful.core.arrays import Array, with_unknown
from handful.core.base import HOW, Base, read_base
from handful.core.parameters import AUTO, Rule, is_auto
from handful.core.prepare import Prepared, as_dtype, prepare
from handful.core.task import Task
from handful.engines import share
from handful.engines.compiling import Kernel, chosen_backend, is_ready
from handful.engines.growing import Growth
from handful.methods.contract import Info, Method, Scores, Solution, defaults_by_shots
from handful.methods.margin import add_margin, margin_state
from handful.utils.shares_in_words import percent


class Solver(ABC):
    """What `solve` and the estimators need of a method, or of a pair of methods."""

    @property
    @abstractmethod
    def info(self) -> Info:
        """What it is."""

    @property
    @abstractmethod
    def rules(self) -> Mapping[str, Rule]:
        """What values its parameters may take."""

    @property
    @abstractmethod
    def defaults(self) -> Mapping[str, Any]:
        """Its parameters with their default values; None where the number of shots decides."""

    @property
    @abstractmethod
    def parts(self) -> Mapping[str, Method]:
        """The methods that it consists of, by the prefix of their names in the state."""

    @abstractmethod
    def run(
        self, task: Task, preparation: Sequence[str] | None, base_mean: Any, dtype: str, parameters: Mapping[str, Any]
    ) -> Solution:
        """Prepare a batch of tasks and solve it; the state of the solution holds what `score` needs."""

    @abstractmethod
    def score(self, state: Mapping[str, Array], items: Array, dtype: str, parameters: Mapping[str, Any]) -> Scores:
        """Probabilities and outlier scores of new items [B, n, D] as they come, from a solution's state."""

    @property
    def method(self) -> Method | None:
        """The one method that it consists of; None for a pair."""
        return None

    @property
    def can_grow(self) -> bool:
        """Whether it can go on from an earlier solution when the pile has grown."""
        return False

    def grow(self, growth: Growth, parameters: Mapping[str, Any]) -> Solution:
        """Solve a task whose pile has grown, from the earlier solution."""
        raise NotImplementedError(f"{self.name} cannot grow: solve the whole pile again")

    @property
    def name(self) -> str:
        """The name of the method or pair."""
        return self.info.name

    @property
    def chunk_factor(self) -> float:
        """See `handful.methods.contract.Method`."""
        return next(iter(self.parts.values())).chunk_factor

    @property
    def estimates_share(self) -> bool:
        """Whether it takes outlier_share="auto" itself."""
        return self.method is not None and self.method.estimates_share

    @property
    def base_parts(self) -> tuple[str, ...]:
        """What it takes of a base: names of heads, or "negatives"."""
        return tuple(m.info.base_part for m in self.parts.values() if m.info.base_part is not None)

    def decision(self, parameters: Mapping[str, Any]) -> str:
        """How it decides itself what is unknown, in a sentence; empty if it does not."""
        return "" if self.method is None else decision_in_words(self.method, parameters)

    def defaults_by_shots(self, shots: float) -> dict[str, Any]:
        """The defaults that depend on the mean number of examples per class."""
        return defaults_by_shots(self.info, shots)


@dataclass(frozen=True)
class MethodSolver(Solver):
    """One method."""

    _method: Method

    @property
    def method(self) -> Method:
        """The method."""
        return self._method

    @property
    def info(self) -> Info:
        """What is known about the method."""
        return self._method.info

    @property
    def rules(self) -> Mapping[str, Rule]:
        """What values its parameters may take."""
        return self._method.rules

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Its parameters with their default values."""
        return self._method.defaults

    @cached_property
    def parts(self) -> Mapping[str, Method]:
        """The method alone."""
        return {"": self._method}

    def run(
        self, task: Task, preparation: Sequence[str] | None, base_mean: Any, dtype: str, parameters: Mapping[str, Any]
    ) -> Solution:
        """Prepare and solve a batch of tasks, by the fused kernels if they are there."""
        if parameters.get("backend") != AUTO:
            return self._run(task, preparation, base_mean, dtype, parameters)
        fits = is_numpy_array(task.support) and task.query.shape[1] and not parameters.get("history")
        with chosen_backend(self._kernels(task, dtype, parameters) if fits else ()) as backend:
            return self._run(task, preparation, base_mean, dtype, {**parameters, "backend": backend})

    def _run(
        self, task: Task, preparation: Sequence[str] | None, base_mean: Any, dtype: str, parameters: Mapping[str, Any]
    ) -> Solution:
        method = self._method
        steps = method.info.preparation if preparation is None else preparation
        examples, _ = with_unknown(task.support, task.labels, task.unknown)
        prepared = _preparation(examples, parameters)(examples, task.query, steps, base_mean, task.is_extreme)
        examples, query = (as_dtype(x, dtype) for x in (prepared.support, prepared.query))
        n_support = task.support.shape[1]
        support, unknown = examples[:, :n_support], examples[:, n_support:]
        estimate = None
        if self._needs_estimate(parameters):
            backend = parameters.get("backend", AUTO)
            estimate = share.of_task(task.support, task.labels, task.query, task.unknown, backend=backend)
            parameters = {**parameters, "outlier_share": estimate.estimate}
        parameters = method.with_base(parameters, prepared.state(), support)
        solution = self._solve(support, task.labels, query, unknown, parameters)
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

    def _kernels(self, task: Task, dtype: str, parameters: Mapping[str, Any]) -> list[Kernel]:
        """The fused kernels that solve these tasks; features are prepared in the type that they come in."""
        given = str(task.query.dtype)
        names = {name: given if name == "prepare" else dtype for name in self._method.kernels}
        kernels = [Kernel.of(name, task.ways, kind) for name, kind in names.items()]
        return kernels + [Kernel.of("density", task.ways, given)] * self._needs_estimate(parameters)

    def _needs_estimate(self, parameters: Mapping[str, Any]) -> bool:
        """Whether the share is estimated before the method is called, which does not do it itself."""
        is_open = is_auto(parameters.get("outlier_share")) and parameters.get("b") is None
        return is_open and not self._method.estimates_share

    def score(self, state: Mapping[str, Array], items: Array, dtype: str, parameters: Mapping[str, Any]) -> Scores:
        """Score new items."""
        return self._method.score(state, items, dtype, parameters)

    @property
    def can_grow(self) -> bool:
        """Whether the method can go on from an earlier solution."""
        return self._method.grow is not None

    def grow(self, growth: Growth, parameters: Mapping[str, Any]) -> Solution:
        """Solve a task whose pile has grown."""
        if self._method.grow is None:
            return super().grow(growth, parameters)
        query = growth.task.query
        parameters = self._method.with_base(parameters, growth.state, growth.prepared(query[:, :0]))
        solution = self._method.grow(growth, **parameters)
        if query.shape[1] > self._method.max_queries:
            rows = solution.state["shown"][0]
            solution = self._score_rest(solution, rows, growth.prepared(query), parameters)
        solution.state |= {name: value for name, value in growth.state.items() if name.startswith("prepare.")}
        return solution

    def _solve(
        self, support: Array, labels: Array, query: Array, unknown: Array, parameters: Mapping[str, Any]
    ) -> Solution:
        """Of a pile too large to be solved whole, a sample is solved and the other items are scored by it."""
        method = self._method
        own = (unknown,) if method.takes_unknown else ()
        if query.shape[1] <= method.max_queries or method.score_new is None:
            return method.solve(support, labels, query, *own, **parameters)
        rows = share.sample(query.shape[1], int(method.max_queries))
        solution = method.solve(support, labels, query[:, rows], *own, **parameters)
        return self._score_rest(solution, rows, query, parameters)

    def _score_rest(
        self, solution: Solution, rows: np.ndarray, query: Array, parameters: Mapping[str, Any]
    ) -> Solution:
        """The solution of the queries `rows` as a solution of all queries."""
        score_new = self._method.score_new
        assert score_new is not None
        xp, step = array_namespace(query), int(self._method.max_queries)
        rest = np.setdiff1d(np.arange(query.shape[1]), rows)
        blocks = [
            score_new(solution.state, query[:, rest[i : i + step]], **parameters) for i in range(0, len(rest), step)
        ]
        blocks.append((solution.probabilities, solution.outlier_scores))
        order = np.argsort(np.concatenate([rest, rows]))
        probabilities, scores = (xp.concat(block, axis=1)[:, order] for block in zip(*blocks, strict=True))
        return replace(solution, probabilities=probabilities, outlier_scores=scores)


def _preparation(features: Array, parameters: Mapping[str, Any]) -> Callable[..., Prepared]:
    """What prepares: the fused kernel, where it computes the method too."""
    backend = parameters.get("backend")
    is_there = backend == "fast" or (backend == AUTO and is_ready("prepare", 1, str(features.dtype)))
    if not is_there or not is_numpy_array(features):
        return prepare
    from handful.engines import prepare_numba  # numba is imported only where it is used

    fused: Callable[..., Prepared] = prepare_numba.prepare
    return fused


def decision_in_words(method: Method, parameters: Mapping[str, Any]) -> str:
    """The sentence of a method that decides itself, with its shares in percent."""
    shares = {name: percent(value) for name, value in parameters.items() if f"{{{name}}}" in method.info.decision}
    return method.info.decision.format(**shares)


def needed_base(solver: Solver, base: Any, dimension: int) -> Base:
    """The base that a method takes, read and checked for features of this dimension.

    Raises
    ------
    ValueError
        If there is none, or if it does not fit. The message says how one is made.
    """
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
