"""The fused preparation gives what `handful.core.prepare` gives, learned values included (extra `fast`)."""

import numpy as np
import pytest

from handful.core.prepare import prepare
from handful.core.task import Task

pytest.importorskip("numba")
from handful.engines import prepare_numba

STEPS = [
    "task, l2",
    "base, l2",
    "none",
    "signed(0.6), l2, task, l2",
    "power, l2, task",
    "power(0.3), task, l2, task, l2",
    "l2, signed, base",
    "task, qr, l2",  # computed by the reference
    "signed(2), l2",  # so is this
]
SHAPES = [(1, 1, 0, 1), (2, 1, 1, 1), (3, 5, 7, 64), (2, 25, 30, 65), (1, 3, 700, 40), (1, 2, 2, 2560)]


def features(shape, dtype=np.float32):
    batch, n_support, n_query, dimension = shape
    rng = np.random.default_rng(sum(shape))
    x = rng.normal(size=(batch, n_support + n_query, dimension)) + 0.5
    x[:, 0, ::3] = 0
    return x[:, :n_support].astype(dtype), x[:, n_support:].astype(dtype)


def assert_same(support, query, steps, base_mean=None, scale=None, tolerance=1e-6):
    expected, got = (f(support, query, steps, base_mean, scale) for f in (prepare, prepare_numba.prepare))
    for name in ("support", "query"):
        a, b = getattr(expected, name), getattr(got, name)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance * max(1, np.abs(a).max(initial=0)))
    assert [kind for kind, _ in got.steps] == [kind for kind, _ in expected.steps]
    for (kind, a), (_, b) in zip(expected.steps, got.steps, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance, err_msg=kind)


def test_single_precision():
    for shape in SHAPES:
        for steps in STEPS:
            if shape[-1] > 1 or "task" not in steps:  # one feature minus its mean may be rounding alone
                assert_same(*features(shape), steps, np.linspace(-1, 1, shape[-1]), tolerance=2e-6)


def test_double_precision():
    for steps in STEPS:
        assert_same(*features((2, 4, 150, 30), np.float64), steps, tolerance=1e-12)


def test_scales():
    for scale in [1e-15, 1e-5, 1e4, 1e15]:
        for steps in ["task, l2", "signed(0.6), l2, task, l2", "power, l2"]:
            support, query = (x * np.float32(scale) for x in features((2, 4, 9, 33)))
            assert_same(
                support, query, steps, scale=Task(support, [[0, 0, 1, 1]] * 2, query).is_extreme, tolerance=2e-6
            )


def test_rows_of_zeros_and_constant_rows():
    for steps in ["l2", "signed(0.6), l2", "power, l2", "signed(0.6), l2, task"]:
        support, query = np.zeros((1, 2, 20), np.float32), np.full((1, 3, 20), 0.25, np.float32)
        assert_same(support, query, steps)


def test_the_features_of_the_caller_stay():
    support, query = features((2, 4, 9, 33))
    before = support.copy(), query.copy()
    prepare_numba.prepare(support, query, "task, l2")
    np.testing.assert_array_equal(support, before[0])
    np.testing.assert_array_equal(query, before[1])


def test_columns_first_and_views_of_features():
    support, query = features((2, 4, 9, 33))
    assert_same(np.asfortranarray(support), query[:, ::2, ::-1], "signed(0.6), l2, task, l2", tolerance=2e-6)
