"""The figures against scikit-learn, brute force and cases computed by hand."""

from __future__ import annotations

import math
import statistics

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


@many_cases
@given(batches())
def test_all_four_figures_equal_scikit_learn_on_every_task(batch):
    probabilities, scores, truth = batch
    outlier = truth == -1
    found = metrics.figures(probabilities, scores, truth)
    expected = {
        "accuracy": each(sklearn_accuracy, probabilities, truth), "auroc": each(sklearn_auroc, scores, outlier),
        "aupr": each(sklearn_aupr, scores, outlier), "prec@0.9": each(sklearn_precision_at_recall, scores, outlier),
    }  # fmt: skip
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12, err_msg=name)


@loop("recall", [0.01, 0.3, 0.7, 0.9, 0.95, 1.0])
@loop("outliers", [1, 10, 30, 100])
def test_precision_at_recall_reaches_recalls_that_land_on_the_target(recall, outliers):
    """9 of 10 outliers is a recall of 0.9, not a hair below it."""
    rng = np.random.default_rng(outliers)
    outlier = np.arange(2 * outliers) < outliers
    scores = np.stack([rng.permutation(2 * outliers) for _ in range(5)]).astype(float)
    masks = np.tile(outlier, (5, 1))
    expected = each(lambda s, o: sklearn_precision_at_recall(s, o, recall), scores, masks)
    np.testing.assert_array_equal(metrics.precision_at_recall(scores, masks, recall), expected)


@loop("dtype", [np.int8, np.uint64])
def test_open_set_balanced_accuracy_takes_labels_of_any_integer_type(dtype):
    # 127 + 1 does not fit into int8, and unsigned types hold no -1.
    predicted, truth = np.array([0, 126, 127], dtype=dtype), np.array([0, 127, 127], dtype=dtype)
    assert metrics.open_set_balanced_accuracy(predicted, truth, ways=128) == pytest.approx((1 + 1 / 2) / 2)


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


@many_cases
@given(batches())
def test_oscr_equals_brute_force_over_thresholds(batch):
    np.testing.assert_allclose(metrics.oscr(*batch), each(brute_force_oscr, *batch), rtol=1e-9, atol=1e-12)


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


# Errors

SCORES, MASK, TRUTH = np.zeros((2, 3)), np.array([[True, False, False]] * 2), np.array([[-1, 0, 1]] * 2)
PROBABILITIES = np.full((2, 3, 2), 0.5)
REFUSALS = [
    (metrics.auroc, (SCORES, MASK[0]), r"scores has shape \(2, 3\) but outlier has shape \(3,\); give"),
    (metrics.auroc, (SCORES[None], MASK[None]), r"outlier has shape \(1, 2, 3\); give \[Q\].*\[B, Q\]"),
    (metrics.auroc, (SCORES[:, :0], MASK[:, :0]), r"outlier has shape \(2, 0\); .*Q >= 1"),
    (metrics.aupr, (SCORES, MASK.astype(np.int64)), r"outlier has dtype int64; give a boolean mask.*truth == -1"),
    (metrics.aupr, (SCORES * 1j, MASK), "scores has dtype complex128; give real numbers"),
    (metrics.precision_at_recall, (np.array([[0, 0, 0], [0, np.nan, np.nan]]), MASK),
     "scores holds 2 NaN, the first at task 1, query 1; .*why"),
    (metrics.accuracy, (PROBABILITIES[..., 0], TRUTH), r"probabilities has shape \(2, 3\) but truth has shape"),
    (metrics.accuracy, (PROBABILITIES[..., :0], TRUTH), r"probabilities has shape \(2, 3, 0\)"),
    (metrics.accuracy, (PROBABILITIES, TRUTH.astype(float)), "truth has dtype float64; give integer labels"),
    (metrics.figures, (PROBABILITIES, SCORES[0], TRUTH[0]),
     r"probabilities has shape \(2, 3, 2\) .*give .* as \[B, Q, N\]"),
    (metrics.figures, (PROBABILITIES, SCORES, np.where(TRUTH == 1, 2, TRUTH)),
     r"truth runs from -1 to 2; with 2 .* 0 to 1, and -1"),
    (metrics.figures, (PROBABILITIES, SCORES[:, :2], TRUTH), r"scores has shape \(2, 2\) but truth has shape \(2, 3\)"),
    (metrics.oscr, (PROBABILITIES * np.nan, SCORES, TRUTH), "probabilities holds 12 NaN, the first at task 0, query 0"),
    (metrics.oscr, (PROBABILITIES, SCORES * np.nan, TRUTH), "scores holds 6 NaN"),
    (metrics.unknown_f1, (SCORES, MASK), "unknown has dtype float64; give a boolean mask"),
    (metrics.decision_figures, (PROBABILITIES, MASK[0], TRUTH), r"unknown has shape \(3,\) but truth has shape"),
    (metrics.open_set_balanced_accuracy, (TRUTH, TRUTH, 1), "predicted runs from -1 to 1; with 1 classes"),
    (metrics.open_set_balanced_accuracy, (MASK, TRUTH, 2), "predicted has dtype bool; give integer labels"),
    *[(metrics.precision_at_recall, (SCORES, MASK, recall), "recall is .*; give") for recall in (0, 1.1, np.nan)],
    *[(metrics.calibration_error, (SCORES, MASK, bins), "bins is .*; give a whole number") for bins in (0, 2.5)],
    (metrics.calibration_error, (SCORES - 1, MASK), r"p_unknown runs from -1.0 to -1.0; give .* in \[0, 1\]"),
]  # fmt: skip


@loop("figure, arguments, message", REFUSALS)
def test_wrong_arguments_are_refused_with_what_is_wrong(figure, arguments, message):
    with pytest.raises(ValueError, match=message):
        figure(*arguments)
