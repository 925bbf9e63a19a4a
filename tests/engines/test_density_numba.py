"""The fused kernel of KDO and of the share is indistinguishable from the array version (extra `fast`)."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_tasks import random_task

import handful
from handful.core.arrays import with_unknown
from handful.core.prepare import prepare
from handful.engines import density, neighbours, share, share_statistics
from handful.methods.kdo import kdo, score_new

density_numba = pytest.importorskip("handful.engines.density_numba", exc_type=ImportError)

TRIED = np.array([share.TRIED_SHARES])


def prepared_task(seed, shots, n_query, dimension, n_unknown=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    support, labels, query = random_task(rng, 2, shots, n_query, dimension, dtype)
    unknown = rng.normal(size=(2, n_unknown, dimension)).astype(dtype)
    support, codes = with_unknown(support, labels, unknown)
    prepared = prepare(support, query, share.PREPARATION)
    return prepared.support, codes, prepared.query


def by_arrays(support, codes, query, ways, k, shares, passes, min_queries):
    near = neighbours.smooth(support, query, k)
    kernel = density.kernels(near, codes, ways)
    end = density.densities(kernel, shares.astype(support.dtype), passes, min_queries)
    return near, end, share_statistics.measure(kernel, codes, end) if shares.shape[1] == TRIED.shape[1] else None


def assert_alike(a, b, names, **tolerance):
    for name in names:
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), err_msg=name, **tolerance)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shots=st.sampled_from([[1], [3], [1, 4], [2, 1, 3, 2, 2], [1] * 12]),
    n_query=st.integers(2, 90),
    dimension=st.integers(3, 90),
    n_unknown=st.integers(0, 3),
    k=st.sampled_from([1, 10, 200]),
    min_queries=st.sampled_from([20, None]),
)
@example(seed=0, shots=[1], n_query=2, dimension=3, n_unknown=0, k=10, min_queries=20)
def test_it_computes_the_same_in_double_precision(seed, shots, n_query, dimension, n_unknown, k, min_queries):
    support, codes, query = prepared_task(seed, shots, n_query, dimension, n_unknown)
    of = len(shots), k, TRIED, share.PASSES, min_queries
    near, end, measured = by_arrays(support, codes, query, *of)
    fused = density_numba.solve(np.concatenate([support, query], axis=1), codes, *of)
    assert_alike(near, fused[0], ("items", "smooth", "degrees", "k"), rtol=0, atol=1e-10)
    assert_alike(end, fused[1], ("bias", "assignments", "floor", "beta", "probabilities"), rtol=1e-7, atol=1e-8)
    assert_alike(measured, fused[2], ("examples", "best", "spread", "squares", "cover"), rtol=1e-9, atol=1e-9)
    assert_alike(measured, fused[2], ("entropy", "excess"), rtol=1e-6, atol=1e-7)
    if n_query >= share.MIN_ITEMS:  # else the posterior is hardly the pile's
        estimates = [share.from_measured(*of_task).estimate for of_task in ((measured, end), (fused[2], fused[1]))]
        np.testing.assert_allclose(*estimates, rtol=0, atol=1e-5)


def test_one_share_in_single_precision():
    for passes in [1, 11]:
        for shots, n_query, dimension in [([5] * 5, 150, 64), ([1] * 3, 700, 20), ([2] * 30, 90, 130)]:
            support, codes, query = prepared_task(1, shots, n_query, dimension, dtype=np.float32)
            of = len(shots), 10, np.array([[0.3], [0.6]]), passes, None
            near, end, _ = by_arrays(support, codes, query, *of)
            items, fused, _ = density_numba.solve(np.concatenate([support, query], axis=1), codes, *of)
            np.testing.assert_allclose(near.smooth, items.smooth, rtol=0, atol=1e-6)
            difference = np.abs(end.probabilities - fused.probabilities)
            assert np.median(difference) <= 1e-6
            assert difference.max() <= 1e-4


def test_a_solution_is_the_same_on_both_backends():
    for options in [{}, {"outlier_share": 0.4}, {"outlier_share": [0.1, 0.5]}, {"dtype": "float64"}]:
        for method in ["kdo", "eol_kdo"]:
            support, labels, query = random_task(np.random.default_rng(3), 2, [5, 2, 4, 1, 3], 80, 70, np.float32)
            unknown = query[:, :3] + 1
            a, b = (
                handful.solve(support, labels, query, unknown=unknown, method=method, backend=backend, **options)
                for backend in ("array", "fast")
            )
            for x, y in ((a.probabilities, b.probabilities), (a.outlier_scores, b.outlier_scores)):
                assert np.median(np.abs(x - y)) <= 1e-6
                np.testing.assert_allclose(x, y, rtol=0, atol=1e-3)
            np.testing.assert_allclose(a.outlier_share, b.outlier_share, rtol=0, atol=1e-4)


@pytest.mark.parametrize("outlier_share", ["auto", 0.3])
def test_new_items_are_scored_alike_by_the_states_of_both(outlier_share):
    support, labels, query = random_task(np.random.default_rng(5), 1, [4, 4, 4], 60, 40, np.float32)
    new = query[:, :9] + np.float32(0.3)
    states = [
        kdo(support, labels, query, outlier_share=outlier_share, backend=backend).state for backend in ("array", "fast")
    ]
    assert list(states[0]) == list(states[1])
    scores = [score_new(state, new) for state in states]
    np.testing.assert_allclose(scores[0][0], scores[1][0], rtol=0, atol=1e-4)
    np.testing.assert_allclose(scores[0][1], scores[1][1], rtol=0, atol=1e-4)


def test_a_pile_of_hardly_any_items():
    for outlier_share in ["auto", 0.3]:
        for n_query in [0, 1, 2]:
            support, labels, query = random_task(np.random.default_rng(7), 2, [2, 2], n_query, 20, np.float32)
            a, b = (
                kdo(support, labels, query, outlier_share=outlier_share, backend=backend)
                for backend in ("array", "fast")
            )
            assert b.outlier_scores.shape == (2, n_query)
            np.testing.assert_allclose(a.outlier_scores, b.outlier_scores, rtol=0, atol=1e-4)


def test_copies_and_zeros_give_finite_answers():
    support, labels, query = random_task(np.random.default_rng(8), 1, [2, 2], 40, 16, np.float32)
    query[:, :20] = support[:, :1]
    query[:, 20:25] = 0
    for piles in (query, np.repeat(query[:, :1], 30, axis=1)):
        solved = handful.solve(support, labels, piles, method="kdo", backend="fast")
        assert np.isfinite(solved.probabilities).all()
        np.testing.assert_allclose(solved.probabilities.sum(axis=-1) + solved.outlier_scores, 1, atol=1e-5)


def test_a_task_alone_is_solved_as_in_a_batch():
    support, codes, query = prepared_task(9, [3, 3], 50, 30, dtype=np.float32)
    x = np.concatenate([support, query], axis=1)
    together = density_numba.solve(x, codes, 2, 10, TRIED, share.PASSES)
    alone = density_numba.solve(x[1:], codes[1:], 2, 10, TRIED, share.PASSES)
    np.testing.assert_array_equal(together[1].probabilities[1:], alone[1].probabilities)
    np.testing.assert_array_equal(together[0].smooth[1:], alone[0].smooth)


def test_the_share_of_any_method_is_estimated_by_the_kernel():
    support, labels, query = random_task(np.random.default_rng(4), 3, [5, 5, 5], 60, 30, np.float32)
    a, b = (share.of_task(support, labels, query, backend=backend) for backend in ("array", "fast"))
    np.testing.assert_allclose(a.estimate, b.estimate, rtol=0, atol=1e-4)
    np.testing.assert_allclose(a.interval, b.interval, rtol=0, atol=1e-3)


def test_other_arrays_are_refused():
    class Tensor:
        shape = (1, 5, 3)

    with pytest.raises(ValueError, match="NumPy"):
        density.uses_kernel("fast", Tensor())
    assert not density.uses_kernel("array", np.zeros((1, 5, 3)))
