"""Labels for a pile from a few examples: solve, decide, and describe the result in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

import handful
from handful.core import decide
from handful.core.answers import Answers
from handful.core.arrays import at_usual_scale, unit
from handful.core.checks import is_no_class
from handful.core.parameters import AUTO, is_auto
from handful.estimators.classifier import FewShotClassifier
from handful.estimators.factory import make_estimator
from handful.features import FeatureTable, concatenate
from handful.project.base_files import base_parameters
from handful.project.items import NO_TEXT, check_twins, class_label, rows_without_text
from handful.project.summary import Outcome, groups_in_words, share_of
from handful.solving import get_solver
from handful.solving.ask import belief, worth_asking
from handful.solving.clusters import check_detail
from handful.solving.groups import Groups, make_groups, with_words
from handful.utils.shares_in_words import percent

NEAREST_EXAMPLES = 3  # examples that are named beside an item


class Labelled(Answers):
    """A pile with its answers, the model that gave them, and the examples that the model learned from.

    Parameters
    ----------
    pile : FeatureTable
        The items.
    examples : FeatureTable or None
        What the model learned from; None where a saved model labelled the items.
    model : FewShotClassifier
        The fitted model. Its threshold decides what is unknown, and its calibration gives P(unknown).
    probabilities : array [n, N]
        P(class | known) of each item.
    outlier_scores : array [n]
        High means unknown.
    decision : str
        How the threshold was found, in words.
    pile_labels : mapping of int to str, optional
        The class of each item of the pile that is an example too, by its row.
    pile_scores : array [m], optional
        The outlier scores of the items that are no examples. By default, those that the model stored of its own pile.
    group_detail : float
        How fine the groups of unknowns are, from -2 to 2.

    Attributes
    ----------
    warnings : list of str
        After a promotion: what it has changed more than it explains.
    is_share_kept : bool
        Whether the outlier share is that of earlier results, less promoted groups.
    """

    warnings: Sequence[str] = ()
    is_share_kept: bool = False

    def __init__(
        self,
        pile: FeatureTable,
        examples: FeatureTable | None,
        model: FewShotClassifier,
        probabilities: np.ndarray,
        outlier_scores: np.ndarray,
        decision: str,
        pile_labels: Mapping[int, str] | None = None,
        pile_scores: np.ndarray | None = None,
        group_detail: float = 0.0,
    ) -> None:
        self.group_detail = group_detail
        self.pile, self.examples, self.model = pile, examples, model
        self.decision, self.pile_labels = decision, dict(pile_labels or {})
        self.without_text = rows_without_text(pile)
        labelled, of_no_class = (np.zeros(len(pile), bool) for _ in range(2))
        of_no_class[self.without_text] = True
        for row, name in self.pile_labels.items():
            (of_no_class if is_no_class(name) else labelled)[row] = True
        options = model.answer_options | {"labelled": labelled, "of_no_class": of_no_class}
        if pile_scores is not None:
            options["pile_scores"] = pile_scores
        super().__init__(probabilities, outlier_scores, **options)

    @property
    def outcome(self) -> Outcome:
        """The labelled pile in numbers and words."""
        return Outcome(
            self.model, self.examples, self.decision, len(self.pile), Counter(self.labels[~self.unknown].tolist()),
            self.pile_labels, self.expected_precision_by_class, int(self.set_aside.sum()), self.is_share_kept,
            self.noun, self.expected_precision_interval,
        )  # fmt: skip

    def __repr__(self) -> str:
        unknown = int(self.unknown.sum())
        return f"<Labelled: {len(self.pile)} items, {len(self.pile) - unknown} labelled, {unknown} unknown>"

    @property
    def share(self) -> dict[str, Any]:
        """How much of the pile is unknown."""
        return self.outcome.share

    @cached_property
    def groups(self) -> Groups:
        """The unknown items as groups that look alike; none where the examples are not known."""
        if self.examples is None:
            return Groups()
        unknown = self.likely_unknown.copy()  # a label that is too unsure is of a known class all the same
        is_context = ~unknown
        unknown[self.without_text] = False
        is_context[list(self.pile_labels)] = False  # they are among the examples
        context = np.concatenate([self.examples.features, self.pile.features[is_context]])
        groups = make_groups(self.pile.features[unknown], np.flatnonzero(unknown), context, self.group_detail)
        return groups if self.pile.texts is None else with_words(groups, self.pile.texts)

    def ask(self, count: int) -> np.ndarray:
        """The items that are most worth an answer from a person, by their rows, the best first.

        Parameters
        ----------
        count : int
            How many items at most.
        """
        groups, exclude = [group.items for group in self.groups], [*self.pile_labels, *self.without_text]
        return worth_asking(self.pile.features, belief(self), count, groups=groups, exclude=exclude)

    @property
    def nearest(self) -> np.ndarray | None:
        """The most similar examples of each item, [n, 3] or fewer, by the cosine about the mean of all."""
        if self.examples is None:
            return None
        features = at_usual_scale(np.concatenate([self.examples.features, self.pile.features]))
        features = unit(features - features.mean(axis=0))
        cosines = features[len(self.examples) :] @ features[: len(self.examples)].T
        return np.argsort(-cosines, axis=1, kind="stable")[:, :NEAREST_EXAMPLES]

    @property
    def sentences(self) -> list[str]:
        """What happened, in words."""
        lines = [*self.outcome.sentences, *self.notes]
        if twice := self._given_twice():
            are = "item of the pile is an example" if twice == 1 else "items of the pile are examples"
            lines.append(f"{twice} {are} too, the same file: leave examples out of the pile, else labels get worse.")
        lines += groups_in_words(self.groups, int(self.likely_unknown.sum()) - len(self.without_text))
        for name, k in Counter(self.pile_labels.values()).items():
            are = "item of the pile is an example" if k == 1 else "items of the pile are examples"
            lines.append(f"{k} {are} of {'no class' if is_no_class(name) else name}.")
        lines += [f"Warning: {warning}" for warning in self.warnings]
        if skipped := len(self.skipped):
            what = "file" if self.pile.texts is None else "item"
            were = f"{what}s were" if skipped > 1 else f"{what} was"
            lines.append(f"{skipped} {were} skipped; the reasons are listed below.")
        return lines

    def _given_twice(self) -> int:
        """How many items of the pile are files that were given as examples as well."""
        if self.examples is None or self.examples.hashes is None or self.pile.hashes is None:
            return 0
        given = set(self.examples.hashes)
        return sum(one in given for i, one in enumerate(self.pile.hashes) if i not in self.pile_labels)

    @property
    def noun(self) -> str:
        """What one item is called."""
        return "item" if self.pile.texts is None else "text"

    @property
    def notes(self) -> list[str]:
        """What was guessed about the items and what is odd about them, in sentences."""
        lines = [*(self.examples.notes if self.examples is not None else ()), *self.pile.notes]
        if count := len(self.without_text):
            rows = f"{count:,} row{'s' * (count != 1)} of the pile {'have' if count != 1 else 'has'} no text"
            lines.append(f"{rows}: called unknown, and not used for anything else.")
        return lines

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Files that gave no item, and why."""
        return [*(self.examples.skipped if self.examples is not None else ()), *self.pile.skipped]

    @property
    def made_by(self) -> dict[str, Any]:
        """How the labels were made, for people and for machines."""
        model = self.model
        return {
            "handful": handful.__version__,
            "method": model._method,
            "parameters": {name: value for name, value in model.parameters_.items() if name != "history"},
            "threshold": model.threshold_,
            **({"min_confidence": model.min_confidence_} if model.min_confidence_ else {}),
            **share_of(model),
            **self.pile.source,
        }


def label_items(
    examples: FeatureTable,
    pile: FeatureTable,
    *,
    method: str = AUTO,
    outlier_share: float | str = AUTO,
    threshold: float | None = None,
    unknown_rate: float | None = None,
    max_false_unknown: float | None = None,
    precision: float | None = None,
    pile_labels: Mapping[int, str] | None = None,
    group_detail: float = 0.0,
    **parameters: Any,
) -> Labelled:
    """Label a pile from a few examples of each class.

    At most one of `threshold`, `unknown_rate`, `max_false_unknown` and `precision` may be given. Without them, the
    method's own threshold decides.

    Parameters
    ----------
    examples : FeatureTable
        The examples, with labels. Those with the label "unknown" are examples of no class.
    pile : FeatureTable
        The items to label. If they carry the mean of the base classes or a base file, methods that need it get it.
    method : str
        The name of a method, or "auto".
    outlier_share : float or "auto"
        About how much of the pile belongs to none of the classes; "auto" estimates it from the pile.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is called unknown.
    unknown_rate : float, optional
        Call this share of the pile unknown.
    max_false_unknown : float, optional
        Call at most this share of the known items unknown, by P(unknown).
    precision : float, optional
        Keep only as many labels as this part of them should be right, by their probabilities; the least sure ones are
        called unknown, beside those that the method's own threshold calls unknown.
    pile_labels : mapping of int to str, optional
        The class of each item of the pile that is an example too, by its row; "unknown" for an example of no class.
    group_detail : float
        How fine the groups of unknowns are: from -2 (few, coarse groups) to 2 (many, fine groups).
    **parameters
        The method's own parameters.

    Returns
    -------
    Labelled
        The answer for each item of the pile, and the fitted model.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> cats, hens, owls = (rng.normal(scale=0.3, size=(20, 8)) + 2 * np.eye(8)[k] for k in range(3))
    >>> examples = FeatureTable(np.concatenate([cats[:3], hens[:3]]), ["cat"] * 3 + ["hen"] * 3)
    >>> pile = FeatureTable(np.concatenate([cats[3:], hens[3:], owls]))
    >>> labelled = label_items(examples, pile)
    >>> [str(labelled.labels[i]) for i in (0, 20, 40)]
    ['cat', 'hen', 'unknown']
    """
    limits = {"threshold": threshold, "unknown_rate": unknown_rate, "max_false_unknown": max_false_unknown}
    check_decision(
        method, outlier_share, **limits, precision=precision, group_detail=group_detail, fdr=parameters.get("fdr")
    )
    base_file = parameters.get("base") or pile.base or examples.base
    means = examples.base_mean, pile.base_mean
    parameters = base_parameters(method, means, base_file, pile.dimension) | parameters
    empty = set(rows_without_text(pile))
    if no_examples := [(pile.names[row], NO_TEXT) for row in pile_labels or () if row in empty]:
        pile = pile.replace(skipped=[*pile.skipped, *no_examples])
    pile_labels = {row: name for row, name in (pile_labels or {}).items() if row not in empty}
    rest = [row for row in range(len(pile)) if row not in pile_labels and row not in empty]
    if not rest:
        raise ValueError("every item of the pile is an example or has no text: nothing is left to label")
    if pile_labels:
        labels = [*examples.label_names, *pile_labels.values()]
        examples = concatenate([examples, pile.take([*pile_labels])]).replace(labels=labels)
        check_twins(examples)
    check_classes(examples)
    examples = examples.replace(labels=[class_label(str(name)) for name in examples.label_names])
    features = pile.features if len(rest) == len(pile) else pile.features[rest]
    X = np.concatenate([examples.features, features])
    y = np.array([*examples.label_names, *[None] * len(rest)], dtype=object)
    model = make_estimator(method, outlier_share=outlier_share, threshold=threshold, **parameters).fit(X, y)
    is_pile = np.arange(len(X)) >= len(examples)
    decision = decide_pile(model, lambda: model.answers_.take(is_pile), precision=precision, **limits)
    model.made_from_ = dict(pile.source) | ({} if pile.columns is None else {"columns": list(pile.columns)})
    pile_scores = model.outlier_scores_[is_pile]
    probabilities, scores = _spread(model, model.label_distributions_[is_pile], pile_scores, rest, len(pile))
    if pile_labels:
        rows, names = [*pile_labels], np.array([*pile_labels.values()])
        scores[rows] = min(pile_scores.min(initial=0.0), model.threshold_)  # examples are known
        probabilities[rows] = model.classes_ == names[:, None]
    if no_class := [row for row, name in pile_labels.items() if is_no_class(name)]:
        of_no_class = model.answer(pile.features[no_class])
        probabilities[no_class] = of_no_class.probabilities
        scores[no_class] = np.maximum(of_no_class.outlier_scores, model.threshold_)
    return Labelled(pile, examples, model, probabilities, scores, decision, pile_labels, pile_scores, group_detail)


def _spread(
    model: FewShotClassifier, probabilities: np.ndarray, scores: np.ndarray, rows: list[int], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The answers for some of `count` rows as answers for all; those that have no text get no score below another."""
    if len(rows) == count:
        return probabilities, scores
    is_probability = get_solver(model._method).info.score == "probability"
    highest = 1.0 if is_probability else max(scores.max(initial=model.threshold_), model.threshold_)
    ways = len(model.classes_)
    all_scores, all_probabilities = np.full(count, highest), np.full((count, ways), 1 / ways)
    all_scores[rows], all_probabilities[rows] = scores, probabilities
    return all_probabilities, all_scores


def predict_items(model: FewShotClassifier, items: FeatureTable, precision: float | None = None) -> Labelled:
    """Label new items with a model that was fitted before: each item separately; the model does not change."""
    if items.features.shape[1] != model.n_features_in_:
        raise ValueError(
            f"the model knows items of {model.n_features_in_} features, these have {items.features.shape[1]}: "
            "they must come from the same backbone"
        )
    empty = rows_without_text(items)
    rest = [row for row in range(len(items)) if row not in set(empty)]
    if not rest:
        raise ValueError("none of the items has a text: there is nothing to label")
    answers = model.answer(items.features[rest])
    probabilities, scores = _spread(model, answers.probabilities, answers.outlier_scores, rest, len(items))
    unsure = ""
    if model.min_confidence_ and precision is None:
        unsure = f", or when its label is right with a probability below {percent(model.min_confidence_)}"
    decision = threshold_in_words(model.threshold_, answers.is_probability, f"{unsure}, as the model was saved")
    labelled = Labelled(items, None, model, probabilities, scores, decision)
    if precision is None:
        return labelled
    labelled = labelled.at_precision(precision)
    labelled.decision += " " + precision_in_words(precision, labelled.min_confidence, labelled)
    return labelled


def check_classes(examples: FeatureTable) -> None:
    """Raise ValueError for examples whose classes cannot be told apart, or of no class at all."""
    names = [name for name in examples.counts if not is_no_class(name)]
    if not len(examples):
        raise ValueError("no class has an example yet: label a few items of each class first")
    if not names:
        raise ValueError("there are only examples of no class: give a few examples of at least one class too")
    if len(names) > 1 and (examples.features == examples.features[0]).all():
        raise ValueError("all examples have the same features, whatever their class: nothing tells the classes apart")


# ---- what is called unknown


def decide_pile(
    model: FewShotClassifier,
    answers_of_pile: Callable[[], Answers],
    *,
    threshold: float | None = None,
    unknown_rate: float | None = None,
    max_false_unknown: float | None = None,
    precision: float | None = None,
) -> str:
    """Let a fitted model decide what is unknown in its pile, and from now on; say in words how that was found."""
    answers = answers_of_pile()
    doubts, p_unknown = answers.doubts, answers.p_unknown
    limit, solver = model.threshold_, get_solver(model._method)
    if unknown_rate is not None:
        limit, part = decide.at_share(doubts, unknown_rate), percent(unknown_rate)
        decision = f"The {part} of the pile with the highest outlier scores are called unknown, as unknown_rate says."
    elif max_false_unknown is not None:
        assert p_unknown is not None
        limit, most = decide.at_false_unknown(p_unknown, max_false_unknown, doubts), percent(max_false_unknown)
        decision = f"At most {most} of the known ones should be called unknown, by their calibrated probabilities."
    elif threshold is not None:
        decision = threshold_in_words(threshold, p_unknown is not None)
    elif is_auto(model.outlier_share) and solver.decision(model.parameters_):
        decision = solver.decision(model.parameters_)
    elif solver.info.score == "probability":
        decision = threshold_in_words(limit, True)
    else:
        share = percent(share_of(model)["outlier_share"])
        decision = f"The {share} of the pile with the highest outlier scores are called unknown."
    if limit != model.threshold_:
        model._decide(float(limit), 0.0)
    if precision is not None:
        answers = answers_of_pile()
        model._decide(model.threshold_, answers.at_precision(precision).min_confidence)
        decision += " " + precision_in_words(precision, model.min_confidence_, answers)
    return decision


def threshold_in_words(limit: float, is_probability: bool, or_else: str = "") -> str:
    """Return what a threshold decides. or_else: what else makes an item unknown, to stand before the full stop."""
    if not is_probability:
        return f"An item is called unknown when its outlier score is above {limit:.4g}{or_else}."
    if limit == 0.5:
        return f"An item is called unknown when that is more probable than its closest class{or_else}."
    part = f"{percent(limit)} of P(unknown) and P(closest class) together" if 0 <= limit <= 1 else f"{limit:.4g}"
    return f"An item is called unknown when P(unknown) is above {part}{or_else}."


def precision_in_words(precision: float, min_confidence: float, answers: Answers) -> str:
    """What was set aside for a precision, in words. answers: of the pile, at the same threshold."""
    assert answers.p_closest is not None
    p_right = answers.p_closest[~answers.likely_unknown]
    kept = p_right[p_right >= min_confidence]
    if len(p_right) and not len(kept):
        surest = float(p_right.max())
        return (
            f"No label reaches the precision that --precision {precision:g} asks for: the surest is right with a "
            f"probability of {percent(surest)}, so nothing is labelled. Give more examples of each class, or ask "
            "for less."
        )
    if len(kept) == len(p_right):
        return (
            f"All labels are kept, because together they reach the precision that --precision {precision:g} asks for."
        )
    return (
        f"A label that is right with a probability below {percent(min_confidence)} is set aside, so that "
        f"{percent(precision)} of the others should be right, as --precision says."
    )


def check_decision(
    method: str = AUTO,
    outlier_share: float | str = AUTO,
    threshold: float | None = None,
    unknown_rate: float | None = None,
    max_false_unknown: float | None = None,
    precision: float | None = None,
    group_detail: float = 0.0,
    fdr: float | None = None,
) -> None:
    """Raise ValueError for invalid options of `label_items`, before pictures are embedded."""
    check_detail(group_detail)
    if fdr is not None and "fdr" not in get_solver(method).defaults:
        raise ValueError(
            f"{method} does not decide by a false-discovery rate: leave fdr out, or use the method conformal"
        )
    parts = {"unknown_rate": unknown_rate, "max_false_unknown": max_false_unknown, "precision": precision}
    names = [name for name, value in ({"threshold": threshold} | parts).items() if value is not None]
    if len(names) > 1:
        raise ValueError(f"{names[0]} and {names[1]} both say what is unknown: give one of them")
    if not is_auto(outlier_share) and not (isinstance(outlier_share, Real) and 0 < float(outlier_share) < 1):
        raise ValueError(f'outlier_share is {outlier_share}: give "auto", or a number between 0 and 1, both excluded')
    for name, share in parts.items():
        if share is not None and not 0 <= share <= 1:
            raise ValueError(f"{name} is {share}: give a number between 0 and 1")
    if threshold is not None and not isfinite(threshold):
        raise ValueError(f"threshold is {threshold}: give the outlier score above which an item is unknown")
    if get_solver(method).info.score != "probability" and names in (["max_false_unknown"], ["precision"]):
        raise ValueError(f"{method} gives no probabilities, which {names[0]} needs: use unknown_rate, or auto")
