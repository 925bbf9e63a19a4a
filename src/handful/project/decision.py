"""What is called unknown: the options that say it, and the threshold that follows from them."""

from __future__ import annotations

from collections.abc import Callable
from math import floor, isfinite
from numbers import Real

from handful.core import decide
from handful.core.answers import Answers
from handful.core.parameters import AUTO, is_auto
from handful.estimators.classifier import FewShotClassifier
from handful.project.summary import share_of
from handful.solving import get_solver
from handful.solving.clusters import check_detail
from handful.utils.shares_in_words import percent


def decide_pile(
    model: FewShotClassifier,
    answers_of_pile: Callable[[], Answers],
    *,
    threshold: float | None = None,
    unknown_rate: float | None = None,
    max_false_unknown: float | None = None,
    precision: float | None = None,
) -> str:
    """Let a fitted model decide what is unknown in its pile, and from now on; say in words how that was found.

    answers_of_pile: gives the answers as the model decides at that moment. The others are as `label_items` takes them;
    where none of the first three is given, the model's own threshold is used.
    """
    answers = answers_of_pile()
    doubts, p_unknown = answers.doubts, answers.p_unknown
    limit, solver = model.threshold_, get_solver(model._method)
    if unknown_rate is not None:
        limit, part = decide.at_share(doubts, unknown_rate), percent(unknown_rate)
        decision = f"The {part} of the pile with the highest outlier scores are called unknown, as unknown_rate says."
        if abs(int((doubts > limit).sum()) - unknown_rate * len(doubts)) > 0.5:
            decision = decision[:-1] + ", as far as their scores differ."
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
    if not len(p_right):
        return f"There is no label, so --precision {precision:g} changes nothing."
    if not len(kept):
        surest = float(p_right.max())
        less = floor(20 * surest) / 20
        hint = f", or ask for less, as in --precision {less:g}" if less > 0 else ""
        return (
            f"No label reaches the precision that --precision {precision:g} asks for: the surest is right with a "
            f"probability of {percent(surest)}, so nothing is labelled. Give more examples of each class{hint}."
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
