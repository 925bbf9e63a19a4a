"""A classifier paired with an outlier score: "simpleshot+knn", "tim_gd+knn", "bdcspn+entropy".

Classes come from the first method, outlier scores from the second, each on features prepared as it expects. The second
may also be the name of a score of the first one's probabilities, `maxprob` or `entropy`. The paper notes that
detectors such as kNN would make good partners for the closed-set classifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from handful.core.arrays import Array
from handful.core.parameters import Rule
from handful.core.task import Task
from handful.methods.contract import Info, Method, Scores, Solution
from handful.methods.registry import did_you_mean, find_method, method_names
from handful.methods.scores import SCORES
from handful.solving.solver import MethodSolver, Solver, decision_in_words

SHARED = ("outlier_share", "base")  # parameters that both methods of a pair take under the same name
CLASSIFIER, DETECTOR = "classifier/", "detector/"  # prefixes of their states
T = TypeVar("T")


@dataclass(frozen=True)
class PairSolver(Solver):
    """Two methods that are run as one. The detector's parameters are called knn_k and so on, except for SHARED."""

    classifier: Method
    detector: Method | None
    score_name: str  # of the detector, or of a score in SCORES

    @cached_property
    def info(self) -> Info:
        """What is known about the pair, made from both methods."""
        first = self.classifier.info
        name = f"{first.name}+{self.score_name}"
        if self.detector is None:
            return replace(
                first, name=name, estimator=f"{first.estimator}With{self.score_name.capitalize()}",
                title=f"{first.title} + {self.score_name}", score="rank",
            )  # fmt: skip
        second = self.detector.info
        both = (first.paradigm, second.paradigm)
        return replace(
            first, name=name, estimator=f"{first.estimator}With{second.estimator}",
            title=f"{first.title} + {second.title}", score=second.score,
            by_shots=self._merge(lambda method: method.info.by_shots),
            paradigm="transductive" if "transductive" in both else "inductive",
            new_items=f"classes: {first.new_items}; scores: {second.new_items}", extra=first.extra or second.extra,
            needs=first.needs or second.needs,
        )  # fmt: skip

    @cached_property
    def parts(self) -> Mapping[str, Method]:
        """Both methods, or the classifier alone."""
        return {CLASSIFIER: self.classifier} | ({} if self.detector is None else {DETECTOR: self.detector})

    @cached_property
    def rules(self) -> Mapping[str, Rule]:
        """The rules of both methods."""
        return self._merge(lambda method: method.rules)

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The parameters of both methods."""
        return self._merge(lambda method: method.defaults)

    def run(
        self, task: Task, preparation: Sequence[str] | None, base_mean: Any, dtype: str, parameters: Mapping[str, Any]
    ) -> Solution:
        """Run both methods on a batch of tasks."""
        if self.detector is None and task.unknown.shape[1]:
            raise ValueError(
                f"{self.name} cannot use examples of no class, because {self.score_name} depends on class "
                f"probabilities alone: use {self.classifier.name}, or a pair such as {self.classifier.name}+knn"
            )
        first = MethodSolver(self.classifier).run(task, preparation, base_mean, dtype, self._of_classifier(parameters))
        state = {CLASSIFIER + name: value for name, value in first.state.items()}
        if self.detector is None:
            scores, share, interval, threshold = SCORES[self.score_name](first.probabilities), None, None, None
            posterior = None
        else:
            own = self._of_detector(parameters)
            second = MethodSolver(self.detector).run(task, preparation, base_mean, dtype, own)
            state |= {DETECTOR + name: value for name, value in second.state.items()}
            scores, share, interval = second.outlier_scores, second.outlier_share, second.share_interval
            threshold, posterior = second.threshold, second.share_posterior
        return Solution(
            first.probabilities, scores, state, share, first.n_iter, first.history, interval, threshold=threshold,
            share_posterior=posterior,
        )  # fmt: skip

    def score(self, state: Mapping[str, Array], items: Array, dtype: str, parameters: Mapping[str, Any]) -> Scores:
        """Score new items by both methods."""
        own = self._of_classifier(parameters)
        probabilities, _ = self.classifier.score(_with_prefix(state, CLASSIFIER), items, dtype, own)
        if self.detector is None:
            return probabilities, SCORES[self.score_name](probabilities)
        own = self._of_detector(parameters)
        return probabilities, self.detector.score(_with_prefix(state, DETECTOR), items, dtype, own)[1]

    def decision(self, parameters: Mapping[str, Any]) -> str:
        """How the detector decides itself what is unknown."""
        return "" if self.detector is None else decision_in_words(self.detector, self._of_detector(parameters))

    def _merge(self, facts: Callable[[Method], Mapping[str, T]]) -> dict[str, T]:
        """The classifier's own, and the detector's under its name."""
        merged = dict(facts(self.classifier))
        if self.detector is not None:
            merged |= {self._outer_name(name): value for name, value in facts(self.detector).items()}
        return merged

    def _outer_name(self, name: str) -> str:
        """Two underscores would mean a nested estimator to scikit-learn."""
        return name if name in SHARED else f"{self.score_name}_{name}"

    def _of_classifier(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {name: parameters[name] for name in self.classifier.defaults}

    def _of_detector(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        names = () if self.detector is None else self.detector.defaults
        return {name: parameters[self._outer_name(name)] for name in names}


def pair(classifier: str, detector: str) -> PairSolver:
    """The pair of those names.

    Raises
    ------
    ValueError
        If there is no such method or score. The message lists the valid names.
    """
    first = find_method(classifier)
    if detector in SCORES:
        return PairSolver(first, None, detector)
    try:
        second = find_method(detector)
    except ValueError:
        hint, scores, names = did_you_mean(detector, (*SCORES,)), ", ".join(SCORES), ", ".join(method_names())
        raise ValueError(f"{detector!r} gives no outlier score{hint}; use {scores} or any of: {names}") from None
    return PairSolver(first, second, second.name)


def _with_prefix(state: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
