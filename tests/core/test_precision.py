"""Labels at a precision: which are kept, and how many of them should be right."""

import numpy as np
import pytest

import handful
from handful.core.answers import Answers
from handful.core.decide import at_false_unknown, at_precision
from handful.features import Protocol, digits, draw


def kept(p, precision, **options):
    p = np.asarray(p, float)
    return sorted(p[p >= at_precision(p, precision, **options)].tolist())


def test_the_longest_beginning_is_kept_whose_mean_reaches_the_precision():
    rng = np.random.default_rng(0)
    for _ in range(200):
        p, precision = rng.random(rng.integers(1, 30)) ** 0.3, rng.random()
        ordered = np.sort(p)[::-1]
        counts = [n for n in range(1, len(p) + 1) if ordered[:n].mean() >= precision]  # by trying every number
        assert len(kept(p, precision)) == max(counts, default=0)


def test_labels_of_one_probability_are_kept_or_set_aside_together():
    assert kept([0.95, 0.8, 0.8], 0.87) == [0.95]  # one of the two alone would do
    assert kept([0.95, 0.8, 0.8], 0.85) == [0.8, 0.8, 0.95]
    assert kept([0.9] * 7, 0.9) == [0.9] * 7  # a mean of equal numbers is not below them by rounding
    assert at_precision(np.empty(0), 0.9) == 0.9  # without labels each further one has to reach it alone


def test_items_that_may_get_no_label_do_not_count():
    p, is_label = np.array([0.99, 0.7, 0.9, 0.6]), np.array([False, True, True, True])
    assert at_precision(p, 0.79, is_label) == pytest.approx(0.65)  # between 0.7 and 0.6
    assert at_precision(p, 0.79) == 0.0  # with the first, all together reach it


def test_a_precision_is_between_0_and_1():
    for precision in (-0.1, 90, float("nan")):
        with pytest.raises(ValueError, match="give a number between 0 and 1"):
            at_precision(np.array([0.5]), precision)


@pytest.fixture(scope="module")
def task():
    return draw(*digits(), Protocol(queries=12, outlier_queries=8), seed=0, tasks=[0, 1, 2]).task


@pytest.fixture(scope="module")
def result(task):
    return handful.solve(task[0])


def test_the_expected_precision_is_the_mean_confidence_of_the_labels(result):
    assert result.expected_precision == pytest.approx(result.confidence[~result.unknown].mean())
    by_class = result.expected_precision_by_class
    assert list(by_class) == result.classes.tolist()
    for name, expected in by_class.items():
        own = result.labels == name
        assert expected.labels == own.sum()
        assert expected.right == pytest.approx(result.confidence[own].sum())
    total = sum(expected.right for expected in by_class.values()) / sum(e.labels for e in by_class.values())
    assert total == pytest.approx(result.expected_precision)


def test_a_precision_sets_the_least_sure_labels_aside(result):
    strict = result.at_precision(0.95)
    assert strict.expected_precision >= 0.95 > result.expected_precision
    assert 0 < (~strict.unknown).sum() < (~result.unknown).sum()
    assert strict.p_closest[~strict.unknown].min() > strict.p_closest[strict.set_aside].max()
    assert not (strict.set_aside & strict.likely_unknown).any()
    np.testing.assert_array_equal(strict.unknown, strict.likely_unknown | strict.set_aside)
    np.testing.assert_array_equal(result.unknown, strict.likely_unknown)  # the old one is as it was
    assert (strict.labels[strict.set_aside] == -1).all()
    np.testing.assert_allclose(strict.confidence[strict.set_aside], strict.p_unknown[strict.set_aside])


def test_a_batch_has_a_precision_for_each_task(task):
    batch = handful.solve(task)
    assert batch.expected_precision.shape == (3,)
    strict = batch.at_precision(0.9)
    for i in range(3):
        alone = batch[i].at_precision(0.9)
        np.testing.assert_array_equal(strict[i].unknown, alone.unknown)
        np.testing.assert_array_equal(strict.unknown[i], alone.unknown)
        assert strict.expected_precision[i] == pytest.approx(alone.expected_precision)
    with pytest.raises(ValueError, match=r"take result\[i\]"):
        batch.expected_precision_by_class  # noqa: B018


def test_ranks_promise_nothing(task):
    ranked = handful.solve(task[0], method="knn")
    assert ranked.expected_precision is None
    assert ranked.expected_precision_by_class is None
    assert not ranked.set_aside.any()
    with pytest.raises(ValueError, match="a precision needs a method that gives probabilities"):
        ranked.at_precision(0.9)


def test_items_whose_class_was_given_promise_nothing_of_the_others():
    answers = Answers(
        np.array([[1.0, 0.0], [0.6, 0.2], [0.1, 0.7]]), np.array([0.0, 0.2, 0.2]), np.array(["cat", "hen"]), 0.5,
        is_probability=True, labelled=np.array([True, False, False]),
    )  # fmt: skip
    assert answers.expected_precision == pytest.approx((0.6 + 0.7) / 2)
    assert answers.expected_precision_by_class["cat"].labels == 1
    assert answers.at_precision(0.69).labels.tolist() == ["cat", "unknown", "hen"]


def test_as_many_items_are_called_unknown_as_the_rate_of_lost_knowns_allows():
    rng = np.random.default_rng(0)
    for p in (rng.uniform(size=50), np.array([1.0, 0.5, 0.25, 0.25])):
        for rate in (0.0, 0.1, 0.25, 0.5, 1.0):
            called = p > at_false_unknown(p, rate)
            lost = (1 - p[called]).sum() / (1 - p).sum()
            assert lost <= rate + 1e-9
            if not called.all():  # the next ones, which are alike, would be too much
                following = p[p == p[~called].max()]
                assert lost + (1 - following).sum() / (1 - p).sum() > rate + 1e-9
