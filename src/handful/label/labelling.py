"""Examples and a pile to labels: solve, decide, and say in words what came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from handful.core import decide
from handful.core.answers import mark_unknown
from handful.core.arrays import at_usual_scale, unit
from handful.core.checks import UNKNOWN_NAME
from handful.core.parameters import AUTO, is_auto
from handful.estimators.classifier import FewShotClassifier
from handful.estimators.factory import make_estimator
from handful.features import FeatureTable, concatenate
from handful.label.base_files import told_of_base
from handful.label.items import check_twins
from handful.label.summary import Answers, Outcome, made_by, share_of
from handful.solving import get_solver
from handful.solving.groups import Group, make_groups
from handful.utils.shares_in_words import percent

NEAREST = 3


@dataclass
class Labelled(Answers):
    """A pile with its labels; the model that gave them; the examples it learned from."""

    pile: FeatureTable
    examples: FeatureTable | None  # not known for items that a saved model labelled
    model: FewShotClassifier
    probabilities: np.ndarray  # [n, N] P(class | known)
    scores: np.ndarray  # [n], high means unknown: what the decision is made by
    decision: str  # how the threshold was found, in words
    given: Mapping[int, str] = field(default_factory=dict)  # items of the pile that are examples too, and their class

    @property
    def p_unknown(self) -> np.ndarray | None:
        """P(unknown) [n], calibrated on the pile: among items with 0.8 about 80 % are unknown.

        None where scores only rank, and for items that a saved model labelled: they are no pile that has a share.
        """
        if self.examples is None or not self.is_probability:
            return None
        rest = [i for i in range(len(self.pile)) if i not in self.given]
        p = np.zeros(len(self.pile))  # the given ones are known
        p[rest] = _calibrate(self.model, self.scores[rest], self.examples)
        return p

    @property
    def share(self) -> dict[str, Any]:
        return share_of(self.model)

    @cached_property
    def groups(self) -> list[Group]:
        """The unknown items as groups that look alike; none where the examples are not known."""
        if self.examples is None:
            return []
        known = ~self.unknown
        known[list(self.given)] = False  # they are among the examples
        context = np.concatenate([self.examples.features, self.pile.features[known]])
        return make_groups(self.pile.features[self.unknown], np.flatnonzero(self.unknown), context)

    @property
    def nearest(self) -> np.ndarray | None:
        """The most similar examples of each item, [n, 3] or fewer, by the cosine about the mean of all."""
        if self.examples is None:
            return None
        every = at_usual_scale(np.concatenate([self.examples.features, self.pile.features]))
        every = unit(every - every.mean(axis=0))
        similar = every[len(self.examples) :] @ every[: len(self.examples)].T
        return np.argsort(-similar, axis=1, kind="stable")[:, :NEAREST]

    @property
    def sentences(self) -> list[str]:
        """What happened, in words."""
        counts = Counter(self.labels[~self.unknown].tolist())
        lines = Outcome(self.model, self.examples, self.decision, len(self.pile), counts, self.given).sentences
        if self.groups:
            lines.append(self._in_groups())
        made = Counter(self.given.values())
        lines += [f"{k} item{'s' * (k != 1)} of the pile {_are(k)} shown as {name}." for name, k in made.items()]
        if skipped := len(self.skipped):
            lines.append(f"{skipped} file{'s were' if skipped > 1 else ' was'} skipped; why is said below.")
        return lines

    def _in_groups(self) -> str:
        sizes = [group.size for group in self.groups]
        unknown = int(self.unknown.sum())
        of = " and ".join(filter(None, (", ".join(map(str, sizes[:-1])), str(sizes[-1]))))
        if len(sizes) > 12:
            of = f"{sizes[-1]} to {sizes[0]}"
        many = f"about {len(sizes)} groups of {of}" if len(sizes) > 1 else f"one group of {of}"
        left = unknown - sum(sizes)
        alone = f"; {left} belong{'s' * (left == 1)} to none" if left else ""
        return f"The {unknown} unknowns fall into {many}{alone}."

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Files that gave no item, and why."""
        return [*(self.examples.skipped if self.examples is not None else ()), *self.pile.skipped]

    @property
    def made_by(self) -> dict[str, Any]:
        return made_by(self.model, self.pile.source)


def label_items(
    examples: FeatureTable,
    pile: FeatureTable,
    *,
    method: str = AUTO,
    outlier_share: float | str = AUTO,
    threshold: float | None = None,
    unknown_rate: float | None = None,
    max_false_unknown: float | None = None,
    given: Mapping[int, str] | None = None,
    **parameters: Any,
) -> Labelled:
    """Label the pile from the examples; given: items of the pile, by their place, that are examples too.

    outlier_share: about how much of the pile is of no class shown; "auto" estimates it. By default an item is unknown
    if its score says that this is the likelier answer; `threshold` moves that, `unknown_rate` calls just that share of
    the pile unknown, and `max_false_unknown` lets at most that share of the known ones be called unknown, by the
    calibrated probabilities (`Labelled.p_unknown`). A method that centres on the base classes' mean, or needs a base
    file, is given what the items carry of it.
    """
    check_decision(method, outlier_share, threshold, unknown_rate, max_false_unknown)
    check_classes(examples)
    file = parameters.get("base") or pile.base or examples.base
    means = examples.base_mean, pile.base_mean
    parameters = told_of_base(method, means, file, pile.features.shape[1]) | parameters
    whole, given = pile, dict(given or {})
    examples, pile = _move(examples, pile, given)
    X = np.concatenate([examples.features, pile.features])
    y = np.array([*examples.label_names, *[None] * len(pile)], dtype=object)
    model = make_estimator(method, outlier_share=outlier_share, threshold=threshold, **parameters).fit(X, y)
    is_pile = np.arange(len(X)) >= len(examples)
    scores = model.outlier_scores_[is_pile]
    limit, decision = find_threshold(model, scores, examples, threshold, unknown_rate, max_false_unknown)
    if limit != model.threshold_:
        _decide(model, is_pile, limit)
    model.made_from_ = dict(pile.source) | ({} if pile.columns is None else {"columns": list(pile.columns)})
    probabilities = model.label_distributions_[is_pile]
    if given:
        rest = [i for i in range(len(whole)) if i not in given]
        everyone = np.empty((len(whole), len(model.classes_)))
        everyone[rest], everyone[list(given)] = probabilities, model.classes_ == np.array([*given.values()])[:, None]
        surest = min(scores.min(initial=0.0), model.threshold_)
        scores, probabilities = np.full(len(whole), surest), everyone
        scores[rest] = model.outlier_scores_[is_pile]
    return Labelled(whole, examples, model, probabilities, scores, decision, given)


def check_classes(examples: FeatureTable) -> None:
    for name in examples.counts:
        if name.casefold() == UNKNOWN_NAME:
            raise ValueError(f'a class is called "{name}", which is what items of no class are called: rename it')
    if len(examples.counts) > 1 and (examples.features == examples.features[0]).all():
        raise ValueError("all examples have the same features, whatever their class: nothing tells the classes apart")


def find_threshold(
    model: FewShotClassifier,
    scores: np.ndarray,
    examples: FeatureTable,
    threshold: float | None = None,
    unknown_rate: float | None = None,
    max_false_unknown: float | None = None,
) -> tuple[float, str]:
    """The outlier score above which an item of the pile is unknown, as asked or else the model's; and why, in words."""
    limit = model.threshold_
    if unknown_rate is not None:
        limit = decide.at_share(scores, unknown_rate)
        part = percent(unknown_rate)
        decision = f"The {part} of the pile with the highest outlier scores are called unknown, as asked."
        if abs(int((scores > limit).sum()) - unknown_rate * len(scores)) > 0.5:
            decision = decision[:-1] + ", as far as their scores differ."
    elif max_false_unknown is not None:
        p = _calibrate(model, scores, examples)
        count = (p > decide.at_false_unknown(p, max_false_unknown)).sum()  # scores have the same order
        limit = decide.at_share(scores, count / len(scores))
        most = percent(max_false_unknown)
        decision = f"At most {most} of the known ones should be called unknown, by their calibrated probabilities."
    elif threshold is not None:
        decision = f"An item is called unknown if its outlier score is above {threshold:g}."
    elif get_solver(model._method).info.score == "probability":
        decision = f"An item is called unknown if its outlier score is above {limit:g}, where that is likelier."
    else:
        share = percent(share_of(model)["outlier_share"])
        decision = f"The {share} of the pile with the highest outlier scores are called unknown."
    return float(limit), decision


def _move(examples: FeatureTable, pile: FeatureTable, given: Mapping[int, str]) -> tuple[FeatureTable, FeatureTable]:
    """The given items from the pile to the examples."""
    if not given:
        return examples, pile
    labels = [*examples.label_names, *given.values()]
    shown = concatenate([examples, pile.take([*given])]).replace(labels=labels)
    check_twins(shown)
    rest = pile.take([i for i in range(len(pile)) if i not in given])
    if not len(rest):
        raise ValueError("every item of the pile is an example: nothing is left to label")
    return shown, rest


def check_decision(
    method: str = AUTO,
    outlier_share: float | str = AUTO,
    threshold: float | None = None,
    unknown_rate: float | None = None,
    max_false_unknown: float | None = None,
) -> None:
    """Refuse what cannot be decided by: told before pictures are embedded, not after."""
    given = {"threshold": threshold, "unknown_rate": unknown_rate, "max_false_unknown": max_false_unknown}
    said = [name for name, value in given.items() if value is not None]
    if len(said) > 1:
        raise ValueError(f"{said[0]} and {said[1]} both say what is unknown: give one of them")
    if not is_auto(outlier_share) and not (isinstance(outlier_share, Real) and 0 < outlier_share < 1):
        raise ValueError(f'outlier_share is {outlier_share}: give "auto", or a number between 0 and 1, both excluded')
    for name, share in {"unknown_rate": unknown_rate, "max_false_unknown": max_false_unknown}.items():
        if share is not None and not 0 <= share <= 1:
            raise ValueError(f"{name} is {share}: give a number between 0 and 1")
    if threshold is not None and not np.isfinite(threshold):
        raise ValueError(f"threshold is {threshold}: give the outlier score above which an item is unknown")
    if get_solver(method).info.score != "probability" and max_false_unknown is not None:
        raise ValueError(f"{method} has no probabilities to find max_false_unknown by: use unknown_rate, or auto")


def predict_items(model: FewShotClassifier, items: FeatureTable) -> Labelled:
    """Label new items by a model that was fitted before: each on its own, nothing is refitted."""
    if items.features.shape[1] != model.n_features_in_:
        raise ValueError(
            f"the model knows items of {model.n_features_in_} features, these have {items.features.shape[1]}: "
            "they must come from the same backbone"
        )
    return Labelled(
        items, None, model, model.predict_proba(items.features), -model.score_samples(items.features),
        f"An item is called unknown if its outlier score is above {model.threshold_:.3g}, as the model was saved.",
    )  # fmt: skip


def _calibrate(model: FewShotClassifier, scores: np.ndarray, examples: FeatureTable) -> np.ndarray:
    return decide.calibrate(scores[None], model.outlier_share_, shots_of(model, examples))[0]


def shots_of(model: FewShotClassifier, examples: FeatureTable) -> float:
    """Examples of a class, as `decide.calibrate` takes them."""
    return len(examples) / len(model.classes_)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _decide(model: FewShotClassifier, is_pile: np.ndarray, threshold: float) -> None:
    model.threshold_ = float(threshold)
    model.unknown_ = is_pile & (model.outlier_scores_ > threshold)
    closest = model.classes_[model.label_distributions_.argmax(axis=1)]
    model.transduction_ = mark_unknown(closest, model.unknown_)
