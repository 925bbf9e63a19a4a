"""Episodes: disjoint, reproducible, and clear about what cannot be drawn."""

import numpy as np
import pytest

from handful.features import Protocol, digits, draw


@pytest.fixture(scope="module")
def drawn():
    return draw(*digits(), Protocol(ways=4, shots=3, queries=7, outlier_ways=5, outlier_queries=2), seed=9, tasks=30)


def test_examples_and_queries_share_no_item(drawn):
    for support, query in zip(drawn.support_items, drawn.query_items, strict=True):
        together = np.concatenate([support, query])
        assert len(np.unique(together)) == len(together)


def test_truth_is_the_label_of_each_item(drawn):
    _, labels = digits()
    for i in range(30):
        true = labels[drawn.query_items[i]]
        known = drawn.truth[i] >= 0
        np.testing.assert_array_equal(drawn.task.classes[i][drawn.truth[i][known]], true[known])
        assert not set(true[~known]) & set(drawn.task.classes[i])
        np.testing.assert_array_equal(drawn.task.classes[i][drawn.task.labels[i]], labels[drawn.support_items[i]])


def test_counts_are_as_the_protocol_says(drawn):
    assert drawn.task.support.shape == (30, 12, 64)
    assert drawn.task.query.shape == (30, 38, 64)
    assert (drawn.outlier.sum(axis=1) == 10).all()
    assert (drawn.task.shots == 3).all()
    assert Protocol(ways=4, queries=7, outlier_queries=2).outlier_share == pytest.approx(10 / 38)


def test_a_task_can_be_drawn_again_alone(drawn):
    protocol = Protocol(ways=4, shots=3, queries=7, outlier_ways=5, outlier_queries=2)
    alone = draw(*digits(), protocol, seed=9, tasks=[21])
    np.testing.assert_array_equal(alone.query_items[0], drawn.query_items[21])
    np.testing.assert_array_equal(alone.task.support[0], drawn.task.support[21])
    other = draw(*digits(), protocol, seed=10, tasks=[21])
    assert (other.query_items[0] != drawn.query_items[21]).any()


def test_too_few_classes_or_items_are_named():
    features, labels = digits()
    with pytest.raises(ValueError, match="need 12 classes, but there are 10"):
        draw(features, labels, Protocol(ways=6, outlier_ways=6))
    with pytest.raises(ValueError, match="class 0 has 178 items, but tasks need 200"):
        draw(features, labels, Protocol(shots=100, queries=100))
