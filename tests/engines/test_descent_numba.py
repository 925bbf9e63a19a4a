"""The fused kernel is indistinguishable from the array engine, and leaves torch's threads alone (extra `fast`)."""

import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_tasks import random_task
from test_descent import some_head

import handful
from handful.engines.descent import descend, descend_all
from handful.methods.eol import eol, eol_at_shares

pytest.importorskip("numba")


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shots=st.sampled_from([[3], [1, 4], [2, 1, 3, 2, 2], [1, 2, 1, 2, 1, 2, 1]]),  # 1, 2, 5 and 2 x 4 prototypes a tile
    n_query=st.integers(1, 40),
    dimension=st.integers(3, 150),  # in one or two, cosines are all but fixed and rounding decides
    outlier=st.sampled_from([None, "mean", 1.3]),
    learn=st.sampled_from([("prototypes", "eta", "delta"), ("prototypes",), ("eta", "delta"), ("delta",)]),
)
def test_it_does_the_same_arithmetic_in_double_precision(seed, shots, n_query, dimension, outlier, learn):
    rng = np.random.default_rng(seed)
    support, labels, query = random_task(rng, 3, shots, n_query, dimension)
    support, query = support + 2, query + 2  # away from zero cosines, whose signs Adam would amplify
    head = some_head(rng, len(shots), outlier)
    ends = [
        descend(support, labels, query, head, steps=8, learn=learn, refine=True, backend=backend)
        for backend in ("array", "fast")
    ]
    compared = ("prototypes", "eta", "delta", "support_logits", "query_logits", "query_probabilities")
    for name in (*compared, "refined", "refined_logits"):
        a, b = (getattr(end, name) for end in ends)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("ways", [5, 7])  # one tile of prototypes, and two with padding
def test_several_losses_side_by_side_end_as_each_alone(ways):
    rng = np.random.default_rng(ways)
    support, labels, query = random_task(rng, 2, [2] * ways, 30, 40)
    heads = [some_head(rng, ways, outlier) for outlier in (0.7, 1.3, 2.0)]
    options = {"steps": 8, "refine": True, "backend": "fast"}
    together = descend_all(support, labels, query, heads, **options)
    for head, end in zip(heads, together, strict=True):
        alone = descend(support, labels, query, head, **options)
        for field in fields(alone):
            a, b = (getattr(x, field.name) for x in (alone, end))
            if field.name != "history":
                np.testing.assert_allclose(b, a, rtol=0, atol=1e-12, err_msg=field.name)
    assert np.abs(together[0].query_probabilities - together[1].query_probabilities).max() > 1e-3


@pytest.mark.parametrize("backend", ["array", "fast"])
def test_eol_at_several_shares_is_eol_at_each(backend):
    support, labels, query = random_task(np.random.default_rng(0), 2, [2] * 5, 30, 40)
    shares = [np.array([0.2, 0.3]), 0.6]
    for share, solution in zip(
        shares, eol_at_shares(support, labels, query, shares=shares, backend=backend), strict=True
    ):
        alone = eol(support, labels, query, outlier_share=share, backend=backend)
        np.testing.assert_allclose(solution.probabilities, alone.probabilities, rtol=0, atol=1e-10)
        np.testing.assert_allclose(solution.outlier_scores, alone.outlier_scores, rtol=0, atol=1e-10)
        np.testing.assert_allclose(solution.state["b"], alone.state["b"])
        np.testing.assert_array_equal(solution.outlier_share, share)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_is_compiled_after_warming(dtype):
    from handful.engines import descent_numba, prepare_numba

    for kernel in (descent_numba, prepare_numba):
        kernel.warm(5, dtype)
    entries = descent_numba._descend, prepare_numba._prepare
    compiled = [len(entry.signatures) for entry in entries]
    support, labels, query = random_task(np.random.default_rng(0), 2, [2] * 5, 30, 40, np.dtype(dtype))
    unknown = query[:, :3]
    for method in ("eol", "ostim"):
        handful.solve(support, labels, query, unknown=unknown, method=method, dtype=dtype, backend="fast")
    handful.solve(support[0], labels[0], query[0], method="eol", outlier_share=0.5, dtype=dtype, backend="fast")
    assert [len(entry.signatures) for entry in entries] == compiled


def test_any_number_of_ways_in_single_precision():
    for ways in [1, 5, 7, 12, 53]:
        support, labels, query = random_task(np.random.default_rng(ways), 2, [2] * ways, 40, 70, np.float32)
        results = [handful.solve(support, labels, query, method="eol", backend=b) for b in ("array", "fast")]
        difference = np.abs(results[0].probabilities - results[1].probabilities)
        assert np.median(difference) <= 2e-6
        assert difference.max() <= 2e-3


def test_exponential_and_logarithm_are_exact_to_single_precision():
    from numba import njit

    from handful.engines import _tiles

    @njit(fastmath=True)
    def both(x, e, l):
        for i in range(len(x)):
            e[i] = _tiles.exp(-x[i])
            l[i] = _tiles.log(x[i])

    x = np.concatenate([np.linspace(1e-3, 80, 40001), np.geomspace(1e-30, 1e30, 10001)]).astype(np.float32)
    e, l = np.empty_like(x), np.empty_like(x)
    both(x, e, l)
    inside = x < 80
    np.testing.assert_allclose(e[inside], np.exp(-x[inside].astype(np.float64)), rtol=3e-6)
    near = x < 10  # where probabilities matter
    np.testing.assert_allclose(e[near], np.exp(-x[near].astype(np.float64)), rtol=5e-7)
    np.testing.assert_allclose(l, np.log(x.astype(np.float64)), rtol=3e-7, atol=1e-7)


def test_threads_and_chunks_change_nothing(episodes):
    def scores(threads, **options):
        return handful.solve(episodes.task, method="eol", backend="fast", threads=threads, **options).outlier_scores

    np.testing.assert_array_equal(scores(1, outlier_share=0.5), scores(2, outlier_share=0.5))
    # An estimated share may differ in its last digit: some processors round exp() by the place of a number in its array
    np.testing.assert_allclose(scores(1), scores(2), rtol=1e-4, atol=1e-5)


@pytest.mark.torch
def test_torch_keeps_its_threads():
    script = """
import numpy as np, torch, handful
torch.set_num_threads(2)
rng = np.random.default_rng(0)
s, q = rng.normal(size=(4, 10, 16)), rng.normal(size=(4, 20, 16))
y = [[0, 1, 2, 3, 4] * 2] * 4  # five classes, for which the kernel is compiled already
handful.solve(s, y, q, method="eol", backend="fast", threads=2)
assert torch.get_num_threads() == 2, torch.get_num_threads()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_its_absence_names_the_install_command():
    script = """
import sys; sys.modules["numba"] = None
import numpy as np, handful
rng = np.random.default_rng(0)
s, q = rng.normal(size=(4, 4, 16)), rng.normal(size=(4, 20, 16))
handful.solve(s, [[0, 0, 1, 1]] * 4, q, method="eol")
try:
    handful.solve(s, [[0, 0, 1, 1]] * 4, q, method="eol", backend="fast")
except ImportError as error:
    assert "handful[fast]" in str(error), error
else:
    raise AssertionError("no error")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
