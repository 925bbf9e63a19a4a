"""KDO against the same equations written out item by item in double precision, and what its blend with EOL is."""

import math

import numpy as np
import pytest
from loops import loop
from scipy.special import expit, softmax

import handful
from handful.engines.share_statistics import TRIED_SHARES
from handful.features import Protocol, digits, draw


def kdo_by_hand(support, labels, query, share, k=10, passes=11):
    """The equations of `handful.engines.density`, with loops: probabilities [Q, N], log-odds of an outlier [Q]."""
    x = [np.sign(z) * np.abs(z) ** 0.6 for z in np.concatenate([support, query]).astype(float)]
    x = np.array([z / np.linalg.norm(z) for z in x])
    x = np.array([z / np.linalg.norm(z) for z in x - x.mean(axis=0)])
    n, n_support, ways = len(x), len(support), max(labels) + 1
    nearest = np.zeros((n, n))
    for i in range(n):
        for j in sorted((j for j in range(n) if j != i), key=lambda j: -(x[i] @ x[j]))[:k]:
            nearest[i, j] = max(x[i] @ x[j], 0)
    graph = nearest + nearest.T
    degree = graph.sum(axis=1)
    y = np.empty_like(x)
    for i in range(n):
        pulled = x[i] + sum(graph[i, j] / math.sqrt(degree[i] * degree[j]) * x[j] for j in range(n)) / 2
        y[i] = pulled / np.linalg.norm(pulled)
    queries = range(n_support, n)
    beta = 12 * math.sqrt(0.18 / np.std([y[i] @ y[j] for i in queries for j in queries if i != j]))
    kernel = {(i, j): math.exp(beta * (y[i] @ y[j] - 1)) for i in queries for j in range(n) if i != j}
    e0 = np.mean([kernel[i, j] for i in queries for j in queries if i != j])
    p = np.zeros((n, ways + 1))
    for s, label in enumerate(labels):
        p[s, label] = 2 + 4 / list(labels).count(label)
    target = np.array([(1 - share) / ways] * ways + [share])
    bias = np.zeros(ways + 1)
    for t in range(passes):
        prototypes = p.T @ y
        logits = np.empty((len(query), ways + 1))
        for row, i in enumerate(queries):
            mass = sum(kernel[i, j] * p[j] for j in range(n) if j != i)
            for c in range(ways):
                cosine = y[i] @ prototypes[c] / np.linalg.norm(prototypes[c])
                logits[row, c] = (beta * cosine + math.log(mass[c])) / 2
            logits[row, ways] = math.log(mass[ways] + 5 * e0)
        bias = np.zeros(ways + 1) if t < 2 else bias
        for _ in range(10 if t in (0, 1, passes - 1) else 1):
            bias += np.log(target) - np.log(softmax(logits + bias, axis=1).mean(axis=0))
            bias -= bias[:-1].mean()
            bias[:-1] = np.clip(bias[:-1], -0.4, 0.4)
        p[n_support:] = softmax(logits + bias, axis=1)
    z = logits + bias
    return p[n_support:, :ways], z[:, ways] - np.log(np.exp(z[:, :ways]).sum(axis=1))


@pytest.fixture(scope="module")
def few():
    """Two ways, so that forty queries are enough to hold shares by."""
    return draw(*digits(), Protocol(ways=2, shots=3, queries=12, outlier_ways=4, outlier_queries=5), seed=4, tasks=2)


@loop("share", [0.2, 0.45])
def test_it_is_the_equations_written_out(few, share):
    found = handful.solve(few.task, method="kdo", outlier_share=share, dtype="float64")
    for i in range(2):
        p, odds = kdo_by_hand(few.task.support[i], few.task.labels[i].tolist(), few.task.query[i], share)
        np.testing.assert_allclose(found.probabilities[i], p, atol=1e-5)  # prepared in single precision
        np.testing.assert_allclose(found.outlier_scores[i], expit(odds), atol=1e-5)


@loop("name", ["kdo", "eol_kdo"])
@loop("share", [0.1, 0.5, 0.9])
def test_the_mean_predicted_share_is_the_one_it_was_told(episodes, name, share):
    found = handful.solve(episodes.task, method=name, outlier_share=share)
    limit = 0.02 if name == "kdo" else 0.1  # EOL ends only near the share
    assert found.outlier_scores.mean(axis=1) == pytest.approx(share, abs=limit)


@loop("name", ["eol", "kdo", "eol_kdo"])
@loop("backend", ["array", "auto"])
def test_a_share_beside_0_or_1_gives_finite_answers(episodes, name, backend):
    task = episodes.task[0]
    for n_query in (5, 40):  # few items draw the bias towards a law of the share
        for share, is_unknown in ((0.99999999, True), (1e-50, False)):
            query = task.query[:, :n_query]
            result = handful.solve(
                task.support, task.labels, query, method=name, outlier_share=share, backend=backend, dtype="float32"
            )
            assert np.isfinite(result.class_probabilities).all()
            assert np.isfinite(result.outlier_scores).all()
            assert (result.outlier_scores.mean() > 0.5) == is_unknown, (n_query, share)


def test_the_classes_of_known_items_are_nudged_towards_equal_sizes_but_not_forced():
    spreads = []
    for unequal in (None, 1.0):
        protocol = Protocol(queries=20, outlier_queries=10, unequal_queries=unequal)
        tasks = draw(*digits(), protocol, seed=1, tasks=20)
        found = handful.solve(tasks.task, method="kdo", outlier_share=1 / 3).probabilities.mean(axis=1)
        spreads.append(found.std(axis=1).mean())
    assert spreads[0] < 0.01  # of 2 / 15 each
    assert spreads[1] > 2 * spreads[0]
    sizes = (tasks.truth[..., None] == np.arange(5)).mean(axis=1)
    assert np.corrcoef(found.ravel(), sizes.ravel())[0, 1] > 0.5


def test_without_the_share_kdo_averages_over_those_that_may_be_true(episodes):
    """By the posterior's weights, of KDO at each share."""
    found = handful.solve(episodes.task, method="kdo", dtype="float64")
    weights = found.state["weights"]
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert (weights > 0.02).sum(axis=1).min() >= 2  # no single share is believed in
    mean = weights @ np.array(TRIED_SHARES)
    assert found.outlier_scores.mean(axis=1) == pytest.approx(mean, abs=0.02)
    low, high = found.outlier_share_interval.T
    assert (low <= found.outlier_share).all()
    assert (found.outlier_share <= high).all()
    np.testing.assert_array_equal(found.p_unknown, found.outlier_scores)  # nothing corrects them


@loop("name", ["kdo", "eol_kdo"])
def test_new_items_are_scored_much_as_those_of_the_pile(episodes, name):
    X = np.concatenate([episodes.task.support[0], episodes.task.query[0]])
    y = np.concatenate([episodes.task.labels[0], np.full(150, -1)])
    model = handful.make_estimator(name, outlier_share=0.5).fit(X, y)
    pile = np.arange(len(X)) >= 25
    assert np.mean(model.predict(X[pile]) == model.transduction_[pile]) > 0.93
    assert np.corrcoef(-model.score_samples(X[pile]), model.outlier_scores_[pile])[0, 1] > 0.93
