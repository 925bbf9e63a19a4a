"""What people use in place of handful: detectors and classifiers of PyOD and scikit-learn, and how each decides.

Every function takes prepared features (centred on the mean of examples and pile, then divided by their norm). A ranking
gives for each item of the pile its likeliest class and a score that is high for an unknown item. A rule turns scores
into a decision; what it is told stands in its name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import LocalOutlierFactor
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import OneClassSVM

from handful.methods._pyod import detector

PENALTY = 10.0  # C of the logistic regression
SPREAD_GAMMA = 5.0  # of the kernel of label spreading
NU = 0.1  # of one-class SVMs: the part of the examples that may lie outside
MAX_NEIGHBOURS = 5  # of kNN: PyOD's default
MAX_FOLDS = 5
LEFT_OUT_QUANTILE = 0.75  # of the scores of left-out classes: the threshold where a class has one example


class Examples(NamedTuple):
    """The problem as a method gets it: no truth, no share."""

    support: np.ndarray  # [S, D]
    labels: np.ndarray  # [S] 0 .. N - 1
    query: np.ndarray  # [Q, D]

    @property
    def shots(self) -> int:
        return int(np.bincount(self.labels).min())


class Ranking(NamedTuple):
    """The likeliest class of each item [Q], and its score [Q], high for an unknown item."""

    classes: np.ndarray
    scores: np.ndarray


class Answer(NamedTuple):
    """A ranking with a decision: which items are called unknown [Q]."""

    classes: np.ndarray
    scores: np.ndarray
    unknown: np.ndarray


Rank = Callable[[Examples], Ranking]


# ---- classifiers that rank


def nearest_mean(task: Examples) -> Ranking:
    """Cosine to the nearest class mean."""
    means = np.stack([task.support[task.labels == k].mean(axis=0) for k in np.unique(task.labels)])
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    cosines = task.query @ means.T
    return Ranking(np.unique(task.labels)[cosines.argmax(axis=1)], -cosines.max(axis=1))


def logistic_regression(task: Examples) -> Ranking:
    """A linear probe; the score is 1 - the largest probability."""
    support, query = task.support, task.query
    if support.shape[1] > len(support):  # its weights lie in the span of the examples: a rotation changes nothing
        basis = np.linalg.qr(support.T).Q
        support, query = support @ basis, query @ basis
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=PENALTY, max_iter=300).fit(support, task.labels)
    p = model.predict_proba(query)
    return Ranking(model.classes_[p.argmax(axis=1)], 1 - p.max(axis=1))


def label_spreading(task: Examples) -> Ranking:
    """Labels spread over the graph of examples and pile; the score is 1 - the largest probability."""
    both = np.concatenate([task.support, task.query])
    given = np.concatenate([task.labels, np.full(len(task.query), -1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an item that no label reaches has 0 / 0
        model = LabelSpreading(kernel="rbf", gamma=SPREAD_GAMMA, max_iter=100).fit(both, given)
    p = np.nan_to_num(model.label_distributions_[len(task.support) :])
    return Ranking(model.classes_[p.argmax(axis=1)], 1 - p.max(axis=1))


def one_class_svm(task: Examples) -> Ranking:
    """One region around all examples; the class is that of the nearest mean.

    The score is a mean of kernels: scikit-learn's own is a sum, which grows with the number of examples, so that a
    threshold which is tuned on fewer examples would be too low.
    """
    model = OneClassSVM(nu=NU, gamma="scale").fit(task.support)
    return Ranking(nearest_mean(task).classes, -model.score_samples(task.query) / model.dual_coef_.sum())


# ---- detectors that decide by themselves; the class is that of the nearest mean


def pyod(task: Examples, name: str, on_pile: bool = False, **options: Any) -> Answer:
    """A detector of PyOD with its default contamination, 0.1, fitted on the examples, or on examples and pile."""
    if name == "knn" and not on_pile:
        options["n_neighbors"] = max(1, min(MAX_NEIGHBOURS, task.shots - 1))
    model = detector(name, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if on_pile:
            model.fit(np.concatenate([task.support, task.query]))
            scores = model.decision_scores_[len(task.support) :]
        else:
            scores = model.fit(task.support).decision_function(task.query)
    scores = np.nan_to_num(np.asarray(scores, float), posinf=1e30, neginf=-1e30)
    return Answer(nearest_mean(task).classes, scores, scores > model.threshold_)


def scikit_learn(task: Examples, model: Any) -> Answer:
    """A novelty detector of scikit-learn, fitted on the examples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LocalOutlierFactor takes fewer neighbours where there are few examples
        scores = -model.fit(task.support).decision_function(task.query)
    return Answer(nearest_mean(task).classes, scores, scores > 0)


# ---- rules that turn a ranking into a decision


def tuned(task: Examples, rank: Rank, with_pile: bool = False) -> Answer:
    """By the threshold that is best on the examples, with one class at a time left out as unknown.

    with_pile: the ranking learns from what it ranks, so it gets the pile beside the left-out examples.
    """
    known, unknown = [], []
    for is_unknown, scores in _left_out(task, rank, with_pile):
        known.append(scores[~is_unknown])
        unknown.append(scores[is_unknown])
    classes, scores = rank(task)
    return Answer(classes, scores, scores > _threshold(np.concatenate(known), np.concatenate(unknown)))


def _left_out(task: Examples, rank: Rank, with_pile: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each class that is left out: which of the left-out examples are unknown, and their scores."""
    number = np.zeros(len(task.labels), int)  # of an example within its class
    for k in np.unique(task.labels):
        number[task.labels == k] = np.arange((task.labels == k).sum())
    folds = min(task.shots, MAX_FOLDS)
    for k in np.unique(task.labels):
        is_unknown = task.labels == k
        is_tested = is_unknown | (number % folds == k % folds) if folds > 1 else is_unknown
        support, labels = task.support[~is_tested], task.labels[~is_tested]
        query = task.support[is_tested]
        if with_pile:
            query = np.concatenate([query, task.query])
        yield is_unknown[is_tested], rank(Examples(support, labels, query)).scores[: is_tested.sum()]


def _threshold(known: np.ndarray, unknown: np.ndarray) -> float:
    """The middle of those with the best balanced accuracy; without known ones, a quantile of the unknown ones."""
    if not len(known):
        return float(np.quantile(unknown, LEFT_OUT_QUANTILE))
    values = np.unique(np.concatenate([known, unknown]))
    tried = np.concatenate([[values[0] - 1e-9], (values[1:] + values[:-1]) / 2, [values[-1] + 1e-9]])
    balanced = (known[:, None] <= tried).mean(axis=0) + (unknown[:, None] > tried).mean(axis=0)
    best = np.flatnonzero(balanced >= balanced.max() - 1e-12)
    return float(tried[best[len(best) // 2]])


def told_share(ranking: Ranking, share: float) -> Answer:
    """So many items with the highest scores are unknown."""
    unknown = np.zeros(len(ranking.scores), bool)
    unknown[np.argsort(-ranking.scores, kind="stable")[: round(share * len(unknown))]] = True
    return Answer(*ranking, unknown)


def at_best(ranking: Ranking, truth: np.ndarray, judge: Callable[[Answer, np.ndarray], float]) -> Answer:
    """At the threshold that is best by the truth: what no one can do who does not know it."""
    values = np.unique(ranking.scores)
    answers = (Answer(*ranking, ranking.scores > t) for t in (-np.inf, *values))
    return max(answers, key=lambda answer: judge(answer, truth))


DETECTORS: dict[str, Callable[[Examples], Answer]] = {  # each decides by its own threshold
    "PyOD KNN": partial(pyod, name="knn"),
    "PyOD ECOD": partial(pyod, name="ecod"),
    "PyOD COPOD": partial(pyod, name="copod"),
    "PyOD KNN, on the pile": partial(pyod, name="knn", on_pile=True),
    "PyOD IForest, on the pile": partial(pyod, name="iforest", on_pile=True, random_state=0),
    "PyOD ECOD, on the pile": partial(pyod, name="ecod", on_pile=True),
    "OneClassSVM": lambda task: scikit_learn(task, OneClassSVM(nu=NU, gamma="scale")),
    "LocalOutlierFactor": lambda task: scikit_learn(
        task, LocalOutlierFactor(min(20, len(task.support) - 1), novelty=True)
    ),
    "IsolationForest": lambda task: scikit_learn(task, IsolationForest(random_state=0)),
}
RANKINGS: dict[str, Rank] = {  # each decides by a rule
    "OneClassSVM": one_class_svm,
    "Nearest mean": nearest_mean,
    "Logistic regression": logistic_regression,
    "LabelSpreading": label_spreading,
}
