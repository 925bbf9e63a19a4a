"""A classifier paired with an outlier score: "simpleshot+knn", "tim_gd+knn", "bdcspn+entropy".

Classes come from the first method, outlier scores from the second, each on features prepared as it expects; the
second may also be the name of a score of the first one's probabilities, `maxprob` or `entropy`. The paper notes
that detectors such as kNN would make good partners for the closed-set classifiers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from handful.core.arrays import Array
from handful.core.parameters import AUTO, Rule
from handful.methods.registry import DEFAULT, METHODS, Info, Method, Solution
from handful.methods.scores import SCORES

SHARED = ("outlier_share", "base")  # what is known of pile and backbone is told once, to whichever part can use it


@dataclass(frozen=True)
class Pair:
    """Two methods with the face of one. The detector's parameters are called knn_k and so on, but for SHARED."""

    classifier: Method
    detector: Method | str

    @property
    def name(self) -> str:
        return f"{self.classifier.name}+{self._second}"

    @property
    def _second(self) -> str:
        return self.detector if isinstance(self.detector, str) else self.detector.name

    @cached_property
    def info(self) -> Info:
        first = self.classifier.info
        if isinstance(self.detector, str):
            return replace(
                first, name=self.name, estimator=f"{first.estimator}With{self.detector.capitalize()}",
                title=f"{first.title} + {self.detector}", score="rank", by_shots=self._merge("by_shots"),
            )  # fmt: skip
        second = self.detector.info
        both = (first.paradigm, second.paradigm)
        return replace(
            first, name=self.name, estimator=f"{first.estimator}With{second.estimator}",
            title=f"{first.title} + {second.title}", score=second.score, by_shots=self._merge("by_shots"),
            paradigm="transductive" if "transductive" in both else "inductive",
            new_items=f"classes: {first.new_items}; scores: {second.new_items}", extra=first.extra or second.extra,
            needs=first.needs or second.needs,
        )  # fmt: skip

    @property
    def base_parts(self) -> tuple[str, ...]:
        return self.classifier.base_parts + (() if isinstance(self.detector, str) else self.detector.base_parts)

    @property
    def together(self) -> float:
        return self.classifier.together

    @cached_property
    def rules(self) -> dict[str, Rule]:
        return self._merge("rules")

    @cached_property
    def defaults(self) -> dict[str, Any]:
        return self._merge("defaults")

    def by_shots(self, shots: float) -> dict[str, Any]:
        return Method.by_shots(self, shots)  # type: ignore[arg-type]  # it reads self.info alone

    def run(self, task, preparation, base_mean, dtype, parameters: Mapping[str, Any]) -> Solution:
        own, others = self._split(parameters)
        first = self.classifier.run(task, preparation, base_mean, dtype, own)
        state = {f"classifier/{name}": value for name, value in first.state.items()}
        if isinstance(self.detector, str):
            scores, share, interval = SCORES[self.detector](first.probabilities), None, None
        else:
            second = self.detector.run(task, preparation, base_mean, dtype, others)
            state |= {f"detector/{name}": value for name, value in second.state.items()}
            scores, share, interval = second.outlier_scores, second.outlier_share, second.share_interval
        return Solution(first.probabilities, scores, state, share, first.n_iter, first.history, interval)

    def score(self, state, items: Array, dtype: str, parameters: Mapping[str, Any]) -> tuple[Array, Array]:
        own, others = self._split(parameters)
        probabilities, _ = self.classifier.score(_part(state, "classifier/"), items, dtype, own)
        if isinstance(self.detector, str):
            return probabilities, SCORES[self.detector](probabilities)
        return probabilities, self.detector.score(_part(state, "detector/"), items, dtype, others)[1]

    def _merge(self, what: str) -> dict[str, Any]:
        """The classifier's own, and the detector's under its name."""

        def of(method: Method) -> Mapping[str, Any]:
            return method.info.by_shots if what == "by_shots" else getattr(method, what)

        merged = dict(of(self.classifier))
        if not isinstance(self.detector, str):
            merged |= {self._outside(name): value for name, value in of(self.detector).items()}
        return merged

    def _outside(self, name: str) -> str:
        return (
            name if name in SHARED else f"{self._second}_{name}"
        )  # two underscores would mean a nested estimator to scikit-learn

    def _split(self, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        others = () if isinstance(self.detector, str) else self.detector.defaults
        return (
            {name: parameters[name] for name in self.classifier.defaults},
            {name: parameters[self._outside(name)] for name in others},
        )


def pair(classifier: str, detector: str) -> Pair:
    """The pair of those names."""
    classifier, detector = (DEFAULT if name == AUTO else name for name in (classifier, detector))
    if classifier not in METHODS:
        raise ValueError(f"there is no method {classifier!r}; there are: {', '.join(sorted(METHODS))}")
    if detector not in METHODS and detector not in SCORES:
        raise ValueError(
            f"{detector!r} gives no outlier score; use {', '.join(SCORES)} or any of: {', '.join(sorted(METHODS))}"
        )
    return Pair(METHODS[classifier], detector if detector in SCORES else METHODS[detector])


def _part(state: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
