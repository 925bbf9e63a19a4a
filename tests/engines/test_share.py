"""The estimate of the share of unknowns: against its equations, on real tasks, and at the edges."""

from functools import cache
from itertools import product

import numpy as np
import pytest

import handful
from handful.core.prepare import prepare
from handful.engines import density, neighbours, share, share_statistics
from handful.features import Protocol, digits, draw, read
from handful.solving import get_solver

SHARES = [(30, 0), (25, 5), (15, 15), (5, 25)]


def kernels(task, ways=5):
    prepared = prepare(task.support, task.query, share.PREPARATION)
    return density.kernels(neighbours.smooth(prepared.support, prepared.query), task.labels, ways)


def estimate(task):
    return share.of_task(task.support, task.labels, task.query)


def tasks_at(known, outlier, shots=5, tasks=30, **options):
    return draw(
        *digits(), Protocol(shots=shots, queries=known, outlier_queries=outlier, **options), seed=6, tasks=tasks
    )


@cache
def estimated_at(known, outlier, shots=5):
    return estimate(tasks_at(known, outlier, shots).task)


# What it is made of


def test_the_law_is_the_equation_written_out(episodes):
    of = kernels(episodes.task)
    g, shots, n_query = 0.3, 5, 150
    for i in range(3):
        among = of.h[i, 25:, 25:].astype(float)
        pairs = among[~np.eye(n_query, dtype=bool)].reshape(n_query, -1)
        beta = 12 * np.sqrt(0.18 / pairs.std())
        kernel = np.exp(beta * (pairs - 1))
        e0, e10 = kernel.mean(), np.sort(kernel, axis=1)[:, -10:].mean()
        members = (1 - g) * n_query / 5 + 2 * shots + 4
        sizes = np.log(members * e10) / 2 - np.log((g * n_query + 5) * e0)
        expected = np.log(g / (1 - g)) + sizes + 5.2 * g * (1 - g) - 0.5
        assert of.law(np.array([[g]], np.float32))[i, 0] == pytest.approx(expected, abs=1e-3)


def test_cover_is_the_mean_over_all_ways_to_draw_one_example_of_each_class_and_n_queries():
    task = draw(
        *digits(), Protocol(ways=2, shots=3, queries=3, outlier_ways=2, outlier_queries=2), seed=1, tasks=2
    ).task
    of = kernels(task, ways=2)
    for i in range(2):
        h, labels, n_query = of.h[i].astype(float), task.labels[i], 10
        groups = [np.flatnonzero(labels == k) for k in range(2)]
        to = h[:6, 6:]
        best = np.mean([to[list(pick)].max(axis=0).mean() for pick in product(*groups)])
        among = h[6:, 6:]
        usual = []
        for q in range(n_query):
            others = [j for j in range(n_query) if j != q]
            usual.append(np.mean([max(among[q, a], among[q, b]) for a in others for b in others if a < b]))
        spread = among[~np.eye(n_query, dtype=bool)].std()
        assert share_statistics.cover(of, task.labels)[i] == pytest.approx((best - np.mean(usual)) / spread, abs=1e-4)


def test_the_pressure_at_the_true_share_follows_the_law(episodes):
    """Half of these tasks are outliers: there pressure and law agree, below it is less, above it is more."""
    of = kernels(episodes.task)
    tried = np.array([[0.15, 0.5, 0.85]], np.float32)
    excess = (density.densities(of, tried, min_queries=1).pressure - of.law(tried)).mean(axis=0)
    assert excess[0] < -0.4
    assert abs(excess[1]) < 0.7
    assert excess[2] > 0.4


# How near it comes


def test_it_is_near_on_raw_pixels_of_digits_and_on_features_of_photographs(shared):
    table = read(shared / "data" / "tiny_imagenet_val.npz")
    for known, outlier in SHARES:
        for shots, limit, limit_of_photographs in [(1, 0.2, 0.17), (5, 0.11, 0.07), (10, 0.11, 0.07)]:
            protocol = Protocol(shots=shots, queries=known, outlier_queries=outlier)
            found, truth = estimated_at(known, outlier, shots), protocol.outlier_share
            assert np.abs(found.estimate - truth).mean() < limit
            assert ((found.interval[:, 0] <= truth) & (truth <= found.interval[:, 1])).mean() > 0.5
            found = estimate(draw(table.features, table.labels, protocol, seed=3, tasks=30).task)
            assert np.abs(found.estimate - truth).mean() < limit_of_photographs


@pytest.mark.parametrize("shots", [1, 5])
def test_where_nothing_is_unknown_hardly_anything_is_called_so(shots):
    found = handful.solve(tasks_at(30, 0, shots, tasks=60, outlier_ways=0).task)
    assert found.unknown.mean() < (0.12 if shots == 1 else 0.03)
    assert np.median(found.outlier_share) < (0.15 if shots == 1 else 0.1)


# How it is used


def test_the_default_is_eol_and_kdo_over_the_shares_that_may_be_true(episodes):
    task = episodes.task[:4]
    found, blend = handful.solve(task), handful.solve(task, method="eol_kdo", outlier_share="auto")
    np.testing.assert_array_equal(found.outlier_scores, blend.outlier_scores)
    np.testing.assert_allclose(found.outlier_share, found.p_unknown.mean(axis=1), atol=1e-6)
    assert found.made_by["method"] == get_solver("auto").name == "eol_kdo"
    told = handful.solve(task, method="eol_kdo", outlier_share=found.outlier_share)
    assert told.outlier_share_interval is None
    assert found.outlier_share_interval.shape == (4, 2)
    assert found[2].outlier_share_interval.tolist() == found.outlier_share_interval[2].tolist()


def test_a_method_that_is_told_nothing_works_with_the_estimate(episodes):
    task = episodes.task[:4]
    for method in ("eol", "simpleshot+eol"):
        found = handful.solve(task, method=method)
        np.testing.assert_allclose(found.outlier_share, estimate(task).estimate, atol=1e-4)
        told = handful.solve(task, method=method, outlier_share=found.outlier_share)
        np.testing.assert_allclose(found.outlier_scores, told.outlier_scores, atol=1e-4)
        assert found.outlier_share_interval.shape == (4, 2)
    assert handful.solve(task, method="eol", b=0.3).outlier_share_interval is None  # the paper's b comes first
    ranked = handful.solve(task, method="knn")  # which only ranks
    np.testing.assert_allclose(ranked.unknown.mean(axis=1), estimate(task).estimate, atol=1 / 150)
    np.testing.assert_allclose(ranked.outlier_share_interval, estimate(task).interval, atol=0.01)


# The edges


def test_one_query_of_a_known_class_is_known_and_a_stranger_is_not():
    rng = np.random.default_rng(5)
    means = rng.normal(size=(4, 30)) * 3
    support = np.repeat(means[:3], 5, axis=0) + rng.normal(size=(15, 30))
    labels = np.repeat(["a", "b", "c"], 5)
    for k in range(3):
        assert handful.solve(support, labels, means[k : k + 1]).labels.tolist() == ["abc"[k]]
    assert handful.solve(support, labels, means[3:]).labels.tolist() == ["unknown"]


def test_other_ways_and_unequal_classes():
    for unequal in [{}, {"unequal_shots": 4.0, "unequal_queries": 4.0}]:
        for options in [{"ways": 2, "outlier_ways": 8}, {"ways": 8, "outlier_ways": 2}]:
            protocol = Protocol(shots=5, queries=12, outlier_queries=12, **options, **unequal)
            found = estimate(draw(*digits(), protocol, seed=2, tasks=20).task)
            assert np.abs(found.estimate - protocol.outlier_share).mean() < 0.2


def test_of_a_large_pile_a_sample_is_solved_and_the_rest_scored():
    rng = np.random.default_rng(1)
    means = rng.normal(size=(6, 20)) * 2
    truth = rng.integers(6, size=5000)
    pile = (means[truth] + rng.normal(size=(5000, 20))).astype(np.float32)
    support = np.repeat(means[:3], 5, axis=0) + rng.normal(size=(15, 20))
    found = handful.solve(support, np.repeat([0, 1, 2], 5), pile)
    assert found.state["items"].shape[1] == 15 + share.MAX_QUERIES
    assert found.outlier_share == pytest.approx(0.5, abs=0.06)
    assert np.mean(found.unknown == (truth >= 3)) > 0.95
    assert np.mean((found.closest == truth)[truth < 3]) > 0.98
    again = handful.solve(support, np.repeat([0, 1, 2], 5), pile)
    np.testing.assert_array_equal(found.outlier_scores, again.outlier_scores)


def test_one_class_alone_hardly_shows_the_share():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(2, 30)) * 2
    support = means[:1] + rng.normal(size=(5, 30))
    query = np.repeat(means, 60, axis=0) + rng.normal(size=(120, 30))
    ((low, high),) = share.of_task(support[None], np.zeros((1, 5), int), query[None]).interval
    assert low < 0.2
    assert high > 0.8
