"""Episodes: disjoint, reproducible, and clear about what cannot be drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handful.features import Protocol, digits, draw


@pytest.fixture(scope="module")
def drawn():
    return draw(*digits(), Protocol(ways=4, shots=3, queries=7, outlier_ways=5, outlier_queries=2), seed=9, tasks=30)


def test_truth_is_the_label_of_each_item(drawn):
    _, labels = digits()
    for i in range(30):
        true = labels[drawn.query_items[i]]
        known = drawn.truth[i] >= 0
        np.testing.assert_array_equal(drawn.task.classes[i][drawn.truth[i][known]], true[known])
        assert not set(true[~known]) & set(drawn.task.classes[i])
        np.testing.assert_array_equal(drawn.task.classes[i][drawn.task.labels[i]], labels[drawn.support_items[i]])


def test_too_few_classes_or_items_are_named():
    features, labels = digits()
    with pytest.raises(ValueError, match="need 12 classes, but there are 10"):
        draw(features, labels, Protocol(ways=6, outlier_ways=6))
    with pytest.raises(ValueError, match="class 0 has 178 items, but tasks need 200"):
        draw(features, labels, Protocol(shots=100, queries=100))


# Broad and unequal tasks


def items_of(drawn, i):
    """Of task i: the labels of its examples, of its known queries and of its outliers."""
    outlier = drawn.outlier[i]
    return drawn.support_items[i], drawn.query_items[i][~outlier], drawn.query_items[i][outlier]


def test_broad_outliers_come_from_all_the_other_classes_and_are_as_many():
    features, labels = digits()
    protocol = Protocol(ways=3, outlier_ways=2, outlier_queries=40, broad=True)
    drawn = draw(features, labels, protocol, seed=1, tasks=10)
    for i in range(10):
        support, _, outliers = items_of(drawn, i)
        assert len(outliers) == len(set(outliers)) == 80
        assert set(labels[outliers]) == set(range(10)) - set(labels[support])


def test_a_small_concentration_is_very_unequal_and_a_large_one_is_not():
    def spread(concentration):
        protocol = Protocol(unequal_shots=concentration, unequal_queries=concentration)
        drawn = draw(*digits(), protocol, seed=2, tasks=200)
        shots = np.sort(drawn.task.shots, axis=1)
        queries = np.sort([np.bincount(t[t >= 0], minlength=5) for t in drawn.truth], axis=1)
        return (shots[:, -1] - shots[:, 0]).mean(), (queries[:, -1] - queries[:, 0]).mean()

    small, middle, large = map(spread, (0.1, 2, 1e9))
    assert small[0] > middle[0] + 5 > large[0] + 5
    assert small[1] > middle[1] + 15 > large[1] + 15
    assert large == (0, 0)


def test_counts_and_concentrations_that_are_none_are_refused():
    for value in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"unequal_shots is {value}: give a concentration above 0"):
            Protocol(unequal_shots=value)
    for name in ("ways", "shots", "queries", "outlier_ways", "outlier_queries"):
        with pytest.raises(ValueError, match=f"{name} is -1: at least"):
            Protocol(**{name: -1})


@given(st.data())
def test_whatever_is_drawn_keeps_what_the_protocol_promises(data):
    counts = data.draw(st.lists(st.integers(1, 12), min_size=2, max_size=6), "counts")
    concentrations = st.none() | st.floats(1e-300, 1e300)
    protocol = Protocol(
        ways=data.draw(st.integers(1, len(counts))),
        shots=data.draw(st.integers(1, 4)),
        queries=data.draw(st.integers(0, 4)),
        outlier_ways=data.draw(st.integers(0, 5)),
        outlier_queries=data.draw(st.integers(0, 6)),
        broad=data.draw(st.booleans()),
        unequal_shots=data.draw(concentrations),
        unequal_queries=data.draw(concentrations),
    )
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    x = np.arange(len(labels), dtype=np.float32)[:, None]
    others = 1 if protocol.broad and protocol.outliers else protocol.outlier_ways
    least = max(protocol.shots + protocol.queries, 0 if protocol.broad or not others else protocol.outlier_queries)
    rest = sum(sorted(counts)[: len(counts) - protocol.ways])
    enough = protocol.ways + others <= len(counts) and min(counts) >= least and protocol.inliers + protocol.outliers > 0
    if not enough or (protocol.broad and rest < protocol.outliers):
        with pytest.raises(ValueError, match="classes need|items"):
            draw(x, labels, protocol)
        return
    drawn = draw(x, labels, protocol, seed=3, tasks=4)
    for i in range(4):
        support, known, outliers = items_of(drawn, i)
        everything = np.concatenate([support, known, outliers])
        assert len(set(everything)) == len(everything)  # no item twice, so no more of a class than it has
        assert (len(support), len(known)) == (protocol.ways * protocol.shots, protocol.inliers)
        assert len(outliers) == protocol.outliers
        assert len(set(labels[support])) == protocol.ways  # an example of each
        assert set(labels[known]) <= set(labels[support])
        assert not set(labels[outliers]) & set(labels[support])
        assert protocol.broad or len(set(labels[outliers])) <= protocol.outlier_ways
        if protocol.unequal_shots is None:
            assert (drawn.task.shots[i] == protocol.shots).all()
        if protocol.unequal_queries is None:
            assert (np.bincount(labels[known], minlength=1)[np.unique(labels[known])] == protocol.queries).all()
        alone = draw(x, labels, protocol, seed=3, tasks=[i])
        np.testing.assert_array_equal(alone.support_items[0], drawn.support_items[i])
        np.testing.assert_array_equal(alone.query_items[0], drawn.query_items[i])
