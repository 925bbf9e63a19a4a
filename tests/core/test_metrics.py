"""The figures against scikit-learn, brute force and cases computed by hand."""

from __future__ import annotations

import itertools
import math
import statistics
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from loops import loop
from sklearn.metrics import (
    accuracy_score,
    auc,
    f1_score,
    precision_recall_curve,
    recall_score,
    roc_auc_score,
)

from handful.core import metrics

many_cases = settings(deadline=None, max_examples=150)


@st.composite
def batches(draw, ways=3):
    """probabilities [B, Q, N], scores [B, Q] with many ties, truth [B, Q]; degenerate tasks included."""
    b, q = draw(st.integers(1, 4)), draw(st.integers(1, 25))
    levels = draw(st.sampled_from([1, 2, 4, 1000]))
    scores = draw(hnp.arrays(np.int64, (b, q), elements=st.integers(0, levels))) / levels
    # More copies of -1 among the choices make outliers rare or common.
    choices = draw(st.sampled_from([[0, 1, 2, -1], [0, 1, 2] + [-1] * 12, [0, 1, 2] * 6 + [-1], [-1], [0, 2]]))
    truth = draw(hnp.arrays(np.int64, (b, q), elements=st.sampled_from(choices)))
    probabilities = draw(hnp.arrays(np.int64, (b, q, ways), elements=st.integers(0, 9))) / 10
    return probabilities, scores, truth


def random_batch(b, q, share, levels, seed):
    rng = np.random.default_rng(seed)
    truth = np.where(rng.random((b, q)) < share, -1, rng.integers(0, 5, (b, q)))
    scores = np.round(rng.normal(size=(b, q)) + 0.8 * (truth == -1), levels)
    return rng.dirichlet(np.ones(5), (b, q)), scores, truth


# Independent computations, one task at a time


def sklearn_auroc(scores, outlier):
    return roc_auc_score(outlier, scores) if 0 < outlier.sum() < outlier.size else math.nan


def sklearn_aupr(scores, outlier):
    if not outlier.any():
        return math.nan
    precision, recall, _ = precision_recall_curve(outlier, scores)
    return auc(recall, precision)


def sklearn_precision_at_recall(scores, outlier, target=0.9):
    if not outlier.any():
        return math.nan
    precision, recall, _ = precision_recall_curve(outlier, scores)  # recall falls along the arrays
    return next(p for p, r in zip(precision[::-1], recall[::-1], strict=True) if r >= target)


def sklearn_accuracy(probabilities, truth):
    known = truth != -1
    return accuracy_score(truth[known], probabilities[known].argmax(-1)) if known.any() else math.nan


def brute_force_oscr(probabilities, scores, truth):
    known = truth != -1
    if known.all() or not known.any():
        return math.nan
    right = probabilities.argmax(-1) == truth
    area, x, y = 0.0, 0.0, 0.0
    for threshold in [*sorted(set(scores)), math.inf]:
        fpr = np.mean(scores[~known] < threshold)
        ccr = np.mean(right[known] & (scores[known] < threshold))
        area += (fpr - x) * (ccr + y) / 2
        x, y = fpr, ccr
    return area


def brute_force_calibration_error(p, outlier, bins):
    error = 0.0
    for k in range(bins):
        low, high = k / bins, (k + 1) / bins
        inside = (p >= low) & ((p < high) | (k == bins - 1))
        if inside.any():
            error += inside.mean() * abs(p[inside].mean() - outlier[inside].mean())
    return error


def each(function, *arrays):
    return np.array([function(*task) for task in zip(*arrays, strict=True)])


# The four figures of the tables


@many_cases
@given(batches())
def test_outlier_figures_equal_scikit_learn_on_every_task(batch):
    _, scores, truth = batch
    outlier = truth == -1
    np.testing.assert_allclose(metrics.auroc(scores, outlier), each(sklearn_auroc, scores, outlier), rtol=1e-12)
    np.testing.assert_allclose(metrics.aupr(scores, outlier), each(sklearn_aupr, scores, outlier), rtol=1e-12)
    np.testing.assert_array_equal(
        metrics.precision_at_recall(scores, outlier), each(sklearn_precision_at_recall, scores, outlier)
    )


@loop(
    ("b", "q", "share", "levels"),
    [(1, 150, 0.5, 1), (40, 150, 1 / 6, 1), (40, 150, 5 / 6, 1), (7, 30, 0.5, 0), (5, 1000, 0.02, 8)],
)
def test_all_four_figures_equal_scikit_learn_on_tasks_of_realistic_size(b, q, share, levels):
    probabilities, scores, truth = random_batch(b, q, share, levels, seed=q)
    outlier = truth == -1
    found = metrics.figures(probabilities, scores, truth)
    assert list(found) == ["accuracy", "auroc", "aupr", "prec@0.9"]
    np.testing.assert_allclose(found["accuracy"], each(sklearn_accuracy, probabilities, truth), rtol=1e-12)
    np.testing.assert_allclose(found["auroc"], each(sklearn_auroc, scores, outlier), rtol=1e-12)
    np.testing.assert_allclose(found["aupr"], each(sklearn_aupr, scores, outlier), rtol=1e-12)
    np.testing.assert_array_equal(found["prec@0.9"], each(sklearn_precision_at_recall, scores, outlier))


@loop("recall", [0.01, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0])
@loop("outliers", [1, 3, 10, 20, 30, 100])
def test_precision_at_recall_reaches_recalls_that_land_on_the_target(recall, outliers):
    """9 of 10 outliers is a recall of 0.9, not a hair below it."""
    rng = np.random.default_rng(outliers)
    outlier = np.arange(2 * outliers) < outliers
    scores = np.stack([rng.permutation(2 * outliers) for _ in range(5)]).astype(float)
    masks = np.tile(outlier, (5, 1))
    expected = each(lambda s, o: sklearn_precision_at_recall(s, o, recall), scores, masks)
    np.testing.assert_array_equal(metrics.precision_at_recall(scores, masks, recall), expected)


def test_precision_at_recall_takes_the_first_of_several_points_with_the_same_recall():
    # After the 9th of 10 outliers recall stays 0.9 while five inliers pull the precision to 9/14.
    outlier = np.array([True] * 9 + [False] * 5 + [True])
    assert metrics.precision_at_recall(-np.arange(15.0), outlier) == 1.0


def test_precision_at_recall_counts_a_whole_group_of_equal_scores():
    # The 9th outlier is tied with three inliers: 9 of 12.
    outlier = np.array([True] * 9 + [False] * 3 + [True])
    scores = np.array([9.0] * 8 + [5.0] * 4 + [1.0])
    assert metrics.precision_at_recall(scores, outlier) == 9 / 12


def test_a_reversed_ranking_gives_the_closed_forms():
    outlier = np.array([True, True, False, False])
    scores = np.arange(4.0)
    assert metrics.auroc(scores, outlier) == 0.0
    # Points (recall, precision): (0, 1) (0, 0) (0, 0) (1/2, 1/3) (1, 1/2).
    assert metrics.aupr(scores, outlier) == pytest.approx(1 / 2 * (0 + 1 / 3) / 2 + 1 / 2 * (1 / 3 + 1 / 2) / 2)
    assert metrics.precision_at_recall(scores, outlier) == 0.5


def test_all_scores_tied_gives_the_closed_forms():
    outlier = np.array([True, False, False, False])
    scores = np.full(4, 0.3)
    assert metrics.auroc(scores, outlier) == 0.5
    assert metrics.aupr(scores, outlier) == pytest.approx((1 + 1 / 4) / 2)  # from (0, 1) to (1, 1/4)
    assert metrics.precision_at_recall(scores, outlier) == 0.25


def test_aupr_is_the_trapezoid_area_and_not_average_precision():
    outlier = np.array([False, True, False, True])
    scores = np.array([4.0, 3.0, 2.0, 1.0])
    # (0, 1) (0, 0) (1/2, 1/2) (1/2, 1/3) (1, 1/2); average precision would be 1/2.
    expected = 1 / 2 * (0 + 1 / 2) / 2 + 1 / 2 * (1 / 3 + 1 / 2) / 2
    assert metrics.aupr(scores, outlier) == pytest.approx(expected)


@many_cases
@given(batches())
def test_accuracy_equals_scikit_learn_on_every_task(batch):
    probabilities, _, truth = batch
    np.testing.assert_allclose(
        metrics.accuracy(probabilities, truth), each(sklearn_accuracy, probabilities, truth), rtol=1e-12
    )


def test_infinite_scores_rank_at_the_ends():
    outlier = np.array([True, False, True, False, True])
    infinite = np.array([np.inf, np.inf, 0.5, -np.inf, -np.inf])
    finite = np.array([9.0, 9.0, 0.5, -9.0, -9.0])
    assert metrics.auroc(infinite, outlier) == pytest.approx(sklearn_auroc(finite, outlier))
    assert metrics.aupr(infinite, outlier) == pytest.approx(sklearn_aupr(finite, outlier))
    assert metrics.precision_at_recall(infinite, outlier) == sklearn_precision_at_recall(finite, outlier)


@loop("dtype", [np.float16, np.float32, np.int8, np.uint8, bool])
def test_scores_of_any_real_type_are_ranked_as_they_are(dtype):
    rng = np.random.default_rng(3)
    scores, outlier = rng.integers(0, 5, (6, 40)).astype(dtype), rng.random((6, 40)) < 0.4
    expected = each(sklearn_auroc, scores.astype(float), outlier)
    np.testing.assert_allclose(metrics.auroc(scores, outlier), expected, rtol=1e-12)


# Degenerate tasks


def test_figures_are_nan_only_where_a_task_cannot_define_them():
    truth = np.array([[-1, -1, -1], [0, 1, 0], [0, -1, 1]])  # outliers only, inliers only, both
    probabilities = np.tile([[0.9, 0.1]], (3, 3, 1))
    scores = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 3.0, 2.0]])
    nan = np.nan
    with np.errstate(all="raise"):
        found = metrics.figures(probabilities, scores, truth)
        area = metrics.oscr(probabilities, scores, truth)
    np.testing.assert_allclose(found["accuracy"], [nan, 2 / 3, 1 / 2])
    np.testing.assert_allclose(found["auroc"], [nan, nan, 1.0])
    np.testing.assert_allclose(found["aupr"], [1.0, nan, 1.0])
    np.testing.assert_allclose(found["prec@0.9"], [1.0, nan, 1.0])
    np.testing.assert_allclose(area, [nan, nan, 1 / 2])


@loop(("inlier", "expected"), [(False, 1.0), (True, math.nan)])
def test_a_task_of_one_query_has_a_precision_only_if_it_is_an_outlier(inlier, expected):
    found = metrics.precision_at_recall([0.4], np.array([not inlier]))
    assert found == pytest.approx(expected, nan_ok=True)
    assert math.isnan(metrics.auroc([0.4], np.array([not inlier])))


def test_a_batch_of_no_tasks_gives_no_figures():
    found = metrics.figures(np.zeros((0, 4, 2)), np.zeros((0, 4)), np.zeros((0, 4), dtype=int))
    assert {name: value.shape for name, value in found.items()} == dict.fromkeys(found, (0,))


# Decisions and probabilities


@many_cases
@given(hnp.arrays(bool, (2, 3, 12)))
def test_unknown_f1_equals_scikit_learn_on_every_task(masks):
    unknown, outlier = masks
    expected = each(lambda u, o: f1_score(o, u, zero_division=1.0), unknown, outlier)
    np.testing.assert_allclose(metrics.unknown_f1(unknown, outlier), expected, rtol=1e-12)


@loop(
    ("unknown", "outlier", "expected"),
    [
        ([False, False], [False, False], 1.0),  # nothing to find, nothing called
        ([True, False], [False, False], 0.0),  # a false alarm
        ([False, False], [True, False], 0.0),  # a miss
        ([True, True], [True, False], 2 / 3),
    ],
)
def test_unknown_f1_is_defined_without_outliers(unknown, outlier, expected):
    assert metrics.unknown_f1(np.array(unknown), np.array(outlier)) == pytest.approx(expected)


@many_cases
@given(hnp.arrays(np.int64, (2, 3, 12), elements=st.integers(-1, 3)))
def test_open_set_balanced_accuracy_is_the_macro_recall_of_the_classes_that_occur(labels):
    predicted, truth = labels
    expected = each(
        lambda p, y: recall_score(y, p, labels=np.unique(y), average="macro", zero_division=0),
        predicted,
        truth,
    )
    np.testing.assert_allclose(metrics.open_set_balanced_accuracy(predicted, truth, 4), expected, rtol=1e-12)


def test_open_set_balanced_accuracy_by_hand():
    # Recalls: class 0 2/4, unknown 1/1, class 1 0/1; class 2 does not occur.
    predicted, truth = [0, 0, -1, 2, -1, 0], [0, 0, 0, 0, -1, 1]
    assert metrics.open_set_balanced_accuracy(predicted, truth, ways=3) == pytest.approx((1 / 2 + 1 + 0) / 3)


@loop("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_open_set_balanced_accuracy_takes_labels_of_any_integer_type(dtype):
    # 127 + 1 does not fit into int8, and unsigned types hold no -1.
    predicted, truth = np.array([0, 126, 127], dtype=dtype), np.array([0, 127, 127], dtype=dtype)
    assert metrics.open_set_balanced_accuracy(predicted, truth, ways=128) == pytest.approx((1 + 1 / 2) / 2)


@many_cases
@given(hnp.arrays(bool, (2, 3, 12)))
def test_false_unknown_is_one_minus_the_recall_of_the_knowns(masks):
    unknown, outlier = masks
    expected = each(lambda u, o: 1 - recall_score(~o, ~u, zero_division=np.nan), unknown, outlier)
    np.testing.assert_allclose(metrics.false_unknown(unknown, outlier), expected, rtol=1e-12, atol=1e-12)


@many_cases
@given(batches())
def test_decision_figures_are_those_of_scikit_learn_on_every_task(batch):
    probabilities, scores, truth = batch
    unknown = scores > np.median(scores)
    decided = np.where(unknown, -1, probabilities.argmax(axis=-1))
    found = metrics.decision_figures(probabilities, unknown, truth)
    expected = {
        "unknown_f1": lambda d, y: f1_score(y, d, labels=[-1], average="macro", zero_division=1.0),
        "balanced_accuracy": lambda d, y: recall_score(y, d, labels=np.unique(y), average="macro"),
        "false_unknown": lambda d, y: (d[y != -1] == -1).mean() if (y != -1).any() else np.nan,
    }
    assert list(found) == list(expected)
    for name, figure in expected.items():
        np.testing.assert_allclose(found[name], each(figure, decided, truth), rtol=1e-12, err_msg=name)


def test_decision_figures_without_unknowns():
    p, truth = np.eye(2)[[0, 0, 1, 1]], np.array([0, 0, 1, 1])
    quiet = metrics.decision_figures(p, np.zeros(4, bool), truth)
    assert quiet == {"unknown_f1": 1.0, "balanced_accuracy": 1.0, "false_unknown": 0.0}
    loud = metrics.decision_figures(p, np.array([True, False, False, False]), truth)
    assert loud == {"unknown_f1": 0.0, "balanced_accuracy": 0.75, "false_unknown": 0.25}


def test_oscr_by_hand():
    # In order of score: right known, unknown, wrong known, {right known, unknown} tied, right known.
    # (FPR, CCR): (0, 0) (0, 1/4) (1/2, 1/4) (1/2, 1/4) (1, 2/4) (1, 3/4).
    probabilities = [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.3, 0.7], [0.6, 0.4], [1.0, 0.0]]
    truth = [0, -1, 0, 1, -1, 0]
    scores = [0.1, 0.2, 0.3, 0.4, 0.4, 0.5]
    expected = 1 / 2 * 1 / 4 + 1 / 2 * (1 / 4 + 2 / 4) / 2
    assert metrics.oscr(probabilities, scores, truth) == pytest.approx(expected)


@many_cases
@given(batches())
def test_oscr_equals_brute_force_over_thresholds(batch):
    np.testing.assert_allclose(metrics.oscr(*batch), each(brute_force_oscr, *batch), rtol=1e-9, atol=1e-12)


@many_cases
@given(batches())
def test_oscr_is_the_auroc_where_every_known_is_classified_right(batch):
    _, scores, truth = batch
    certain = np.eye(3)[np.maximum(truth, 0)]
    np.testing.assert_allclose(
        metrics.oscr(certain, scores, truth), each(sklearn_auroc, scores, truth == -1), rtol=1e-9
    )


def test_calibration_error_by_hand():
    # [0, 1/2): p 0.1, 0.3 with shares 0 and 1: mean 0.2 against 1/2. [1/2, 1]: 0.6, 1.0, 0.8 against 2/3.
    p = [0.1, 0.6, 0.3, 1.0, 0.8]
    outlier = np.array([False, True, True, False, True])
    expected = 2 / 5 * abs(0.2 - 1 / 2) + 3 / 5 * abs(0.8 - 2 / 3)
    assert metrics.calibration_error(p, outlier, bins=2) == pytest.approx(expected)


def test_calibration_error_is_zero_for_certain_and_right_and_one_for_certain_and_wrong():
    outlier = np.array([True, False, True, True])
    assert metrics.calibration_error(outlier.astype(float), outlier) == 0.0
    assert metrics.calibration_error(1.0 - outlier, outlier) == 1.0


@many_cases
@given(
    st.integers(1, 20),
    hnp.arrays(np.int64, (3, 10), elements=st.integers(0, 100)),
    hnp.arrays(bool, (3, 10)),
)
def test_calibration_error_equals_brute_force_with_probabilities_on_bin_edges(bins, hundredths, outlier):
    for p in (hundredths / 100, np.minimum(hundredths, bins) / bins):
        expected = each(lambda a, o: brute_force_calibration_error(a, o, bins), p, outlier)
        np.testing.assert_allclose(metrics.calibration_error(p, outlier, bins), expected, atol=1e-12)


def test_a_probability_on_an_edge_falls_into_the_bin_above():
    # 0.29 * 100 is 28.999999999999996; together in bin 29 the two cancel partly, apart they would not.
    error = metrics.calibration_error([0.29, 0.295], np.array([True, False]), bins=100)
    assert error == pytest.approx(abs((0.29 + 0.295) / 2 - 1 / 2))


def test_pooled_calibration_lets_gaps_of_tasks_cancel():
    p = np.full((2, 2), 0.5)
    outlier = np.array([[True, True], [False, False]])
    np.testing.assert_allclose(metrics.calibration_error(p, outlier), [0.5, 0.5])
    assert metrics.calibration_error(p.ravel(), outlier.ravel()) == 0.0


# Mean and half-width


def test_half_width_is_1_96_standard_errors_with_the_sample_deviation():
    values = [0.2, 0.9, 0.4, 0.4, 0.7]
    found = metrics.mean_and_half_width(values)
    assert found.mean == pytest.approx(statistics.mean(values))
    assert found.half_width_95 == pytest.approx(1.96 * statistics.stdev(values) / math.sqrt(5))


def test_nan_values_count_neither_in_the_mean_nor_in_n():
    mean, half_width_95 = metrics.mean_and_half_width([[1.0, np.nan, 3.0], [np.nan, 5.0, np.nan]])
    assert mean == pytest.approx(3.0)
    assert half_width_95 == pytest.approx(1.96 * 2.0 / math.sqrt(3))  # of 1, 3, 5


@loop(("values", "mean"), [([0.7], 0.7), ([np.nan, 0.7], 0.7), ([], math.nan), ([np.nan], math.nan)])
def test_fewer_than_two_values_have_no_half_width(values, mean):
    with np.errstate(all="raise"):
        found = metrics.mean_and_half_width(values)
    assert found.mean == pytest.approx(mean, nan_ok=True)
    assert math.isnan(found.half_width_95)


def test_mean_and_half_width_run_along_the_axis_asked_for():
    values = np.array([[1.0, 10.0, np.nan], [3.0, 14.0, 8.0]])
    down = metrics.mean_and_half_width(values, axis=0)
    np.testing.assert_allclose(down.mean, [2.0, 12.0, 8.0])
    np.testing.assert_allclose(down.half_width_95, [1.96 * 1.0, 1.96 * 2.0, np.nan])
    across = metrics.mean_and_half_width(values, axis=-1)
    np.testing.assert_allclose(across.mean, [5.5, 25 / 3])
    assert across.half_width_95[0] == pytest.approx(1.96 * statistics.stdev([1, 10]) / math.sqrt(2))


# What holds for all of them

FIGURES = {
    "accuracy": lambda p, s, y: metrics.accuracy(p, y),
    "auroc": lambda p, s, y: metrics.auroc(s, y == -1),
    "aupr": lambda p, s, y: metrics.aupr(s, y == -1),
    "precision_at_recall": lambda p, s, y: metrics.precision_at_recall(s, y == -1),
    "unknown_f1": lambda p, s, y: metrics.unknown_f1(s > 0.5, y == -1),
    "open_set_balanced_accuracy": lambda p, s, y: metrics.open_set_balanced_accuracy(
        np.where(s > 0.5, -1, p.argmax(-1)), y, p.shape[-1]
    ),
    "false_unknown": lambda p, s, y: metrics.false_unknown(s > 0.5, y == -1),
    "oscr": metrics.oscr,
    "calibration_error": lambda p, s, y: metrics.calibration_error(np.clip(s, 0, 1), y == -1),
    **{
        f"figures {name}": lambda p, s, y, name=name: metrics.figures(p, s, y)[name]
        for name in ("accuracy", "auroc", "aupr", "prec@0.9")
    },
    **{
        f"decisions {name}": lambda p, s, y, name=name: metrics.decision_figures(p, s > 0.5, y)[name]
        for name in ("unknown_f1", "balanced_accuracy", "false_unknown")
    },
}


@pytest.fixture
def batch():
    """Ties, and a task without inliers and one without outliers among ordinary ones."""
    probabilities, scores, truth = random_batch(12, 30, 0.4, 1, seed=11)
    truth[3], truth[7] = -1, 2
    return probabilities, scores, truth


@loop("name", FIGURES)
def test_neither_the_other_tasks_nor_the_order_of_queries_matters_and_arguments_stay(name, batch):
    before = [array.copy() for array in batch]
    for array in batch:
        array.flags.writeable = False  # writing would raise
    together = FIGURES[name](*batch)
    alone = [FIGURES[name](*task) for task in zip(*batch, strict=True)]
    assert together.shape == (12,)
    assert all(type(value) is float for value in alone)
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    np.testing.assert_allclose(FIGURES[name](*(array[::-1] for array in batch))[::-1], together, rtol=1e-12)
    order = np.random.default_rng(1).permutation(30)
    np.testing.assert_allclose(FIGURES[name](*(array[:, order] for array in batch)), together, rtol=1e-12)
    for array, copy in zip(batch, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@loop("name", ["auroc", "aupr", "precision_at_recall", "oscr", "figures aupr"])
def test_ranking_figures_depend_on_the_order_of_scores_alone(name, batch):
    probabilities, scores, truth = batch
    moved = FIGURES[name](probabilities, np.exp(3 * scores) - 50, truth)
    np.testing.assert_allclose(moved, FIGURES[name](*batch), rtol=1e-12)


def test_figures_sorts_the_whole_batch_once(batch, monkeypatch):
    calls = []
    for sort in ("argsort", "sort", "lexsort", "unique"):
        original = getattr(np, sort)
        monkeypatch.setattr(np, sort, lambda *args, _original=original, **kw: calls.append(1) or _original(*args, **kw))
    metrics.figures(*batch)
    assert len(calls) == 1


# Errors

SCORES, MASK, TRUTH = np.zeros((2, 3)), np.array([[True, False, False]] * 2), np.array([[-1, 0, 1]] * 2)
PROBABILITIES = np.full((2, 3, 2), 0.5)


@loop("figure", [metrics.auroc, metrics.aupr, metrics.precision_at_recall])
def test_outlier_figures_say_what_is_wrong_with_their_arguments(figure):
    with pytest.raises(ValueError, match=r"scores has shape \(2, 3\) but outlier has shape \(3,\); give"):
        figure(SCORES, MASK[0])
    with pytest.raises(ValueError, match=r"outlier has dtype int64; give a boolean mask.*truth == -1"):
        figure(SCORES, MASK.astype(np.int64))
    with pytest.raises(ValueError, match=r"outlier has shape \(1, 2, 3\); give \[Q\].*\[B, Q\]"):
        figure(SCORES[None], MASK[None])
    with pytest.raises(ValueError, match=r"outlier has shape \(2, 0\); .*Q >= 1"):
        figure(SCORES[:, :0], MASK[:, :0])
    with pytest.raises(ValueError, match="scores has dtype complex128; give real numbers"):
        figure(SCORES * 1j, MASK)
    holed = SCORES.copy()
    holed[1, 1:] = np.nan
    with pytest.raises(ValueError, match=r"scores holds 2 NaN, the first at task 1, query 1; .*find out why"):
        figure(holed, MASK)


@loop("figure", [metrics.figures, metrics.oscr, lambda p, s, y: metrics.accuracy(p, y)])
def test_figures_with_probabilities_say_what_is_wrong_with_them(figure):
    with pytest.raises(ValueError, match=r"probabilities has shape \(2, 3\) but truth has shape \(2, 3\)"):
        figure(PROBABILITIES[..., 0], SCORES, TRUTH)
    with pytest.raises(ValueError, match=r"probabilities has shape \(2, 3, 2\) .*give probabilities as \[B, Q, N\]"):
        figure(PROBABILITIES, SCORES[0], TRUTH[0])
    with pytest.raises(ValueError, match=r"probabilities has shape \(2, 3, 0\)"):
        figure(PROBABILITIES[..., :0], SCORES, TRUTH)
    with pytest.raises(ValueError, match=r"truth runs from -1 to 2; with 2 classes give 0 to 1, and -1"):
        figure(PROBABILITIES, SCORES, np.where(TRUTH == 1, 2, TRUTH))
    with pytest.raises(ValueError, match=r"truth runs from -2 to 1"):
        figure(PROBABILITIES, SCORES, np.where(TRUTH == -1, -2, TRUTH))
    with pytest.raises(ValueError, match="truth has dtype float64; give integer labels"):
        figure(PROBABILITIES, SCORES, TRUTH.astype(float))
    with pytest.raises(ValueError, match="probabilities holds 12 NaN, the first at task 0, query 0"):
        figure(PROBABILITIES * np.nan, SCORES, TRUTH)


@loop("figure", [metrics.figures, metrics.oscr])
def test_figures_with_scores_and_truth_refuse_nan_scores_and_other_shapes(figure):
    with pytest.raises(ValueError, match="scores holds 6 NaN"):
        figure(PROBABILITIES, SCORES * np.nan, TRUTH)
    with pytest.raises(ValueError, match=r"scores has shape \(2, 2\) but truth has shape \(2, 3\)"):
        figure(PROBABILITIES, SCORES[:, :2], TRUTH)


def test_decisions_say_what_is_wrong_with_their_arguments():
    with pytest.raises(ValueError, match="unknown has dtype float64; give a boolean mask"):
        metrics.unknown_f1(SCORES, MASK)
    with pytest.raises(ValueError, match=r"unknown has shape \(3,\) but outlier has shape \(2, 3\)"):
        metrics.unknown_f1(MASK[0], MASK)
    with pytest.raises(ValueError, match="unknown has dtype float64; give a boolean mask"):
        metrics.false_unknown(SCORES, MASK)
    with pytest.raises(ValueError, match=r"unknown has shape \(3,\) but truth has shape \(2, 3\)"):
        metrics.decision_figures(PROBABILITIES, MASK[0], TRUTH)
    with pytest.raises(ValueError, match="predicted runs from -1 to 1; with 1 classes"):
        metrics.open_set_balanced_accuracy(TRUTH, TRUTH, ways=1)
    with pytest.raises(ValueError, match="predicted has dtype bool; give integer labels"):
        metrics.open_set_balanced_accuracy(MASK, TRUTH, ways=2)


def test_settings_out_of_range_are_refused():
    for recall, bins in itertools.product([0.0, -0.1, 1.1, math.nan], [0, -3, 2.5]):
        with pytest.raises(ValueError, match=r"recall is .*; give a share"):
            metrics.precision_at_recall(SCORES, MASK, recall)
        with pytest.raises(ValueError, match=r"bins is .*; give a whole number"):
            metrics.calibration_error(SCORES, MASK, bins)


def test_calibration_refuses_scores_that_are_no_probabilities():
    with pytest.raises(ValueError, match=r"p_unknown runs from -1.0 to -1.0; give probabilities in \[0, 1\]"):
        metrics.calibration_error(SCORES - 1, MASK)
    with pytest.raises(ValueError, match=r"p_unknown runs from 1.5 to 1.5"):
        metrics.calibration_error(SCORES + 1.5, MASK)
    with pytest.raises(ValueError, match="p_unknown holds 6 NaN"):
        metrics.calibration_error(SCORES * np.nan, MASK)


# The module itself


def test_the_module_needs_numpy_alone():
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[1]);"
        "print(*({'sklearn', 'scipy', 'torch', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, metrics.__file__], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
