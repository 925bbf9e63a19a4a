"""The kernels in C do what the array code does, on every level of the processor and in threads."""

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_tasks import random_task
from test_descent import some_head

import handful
from handful.core.arrays import unit, with_unknown
from handful.core.prepare import prepare as prepare_arrays
from handful.core.task import Task
from handful.engines import kernels, share
from handful.engines.descent import descend, descend_all
from handful.engines.evidence import look
from handful.engines.hidden import hide_each
from handful.engines.preparation import prepare
from handful.methods.kdo import kdo, score_new

ROOT = Path(__file__).parents[2]
BACKENDS = ("array", "auto")
LEVELS = kernels.levels()
needs_kernels = pytest.mark.skipif(not LEVELS, reason="needs the kernels: python hatch_build.py")


def close(a, b, names, **tolerance):
    for name in names:
        np.testing.assert_allclose(getattr(b, name), getattr(a, name), err_msg=name, **tolerance)


@pytest.fixture
def at_level(monkeypatch):
    """A function that lets only one level of the processor be used."""
    return lambda level: monkeypatch.setattr(kernels, "levels", lambda: (level,))


# The library


@needs_kernels
def test_the_best_level_is_called_and_no_memory_is_an_error_in_words(monkeypatch):
    assert LEVELS in (("plain",), ("v2",), ("v2", "v3"), ("v2", "v3", "v4"))
    for dtype, level, name in (
        ("float32", None, f"prepare_float_{LEVELS[-1]}"),
        ("float64", "v2", "prepare_double_v2"),
    ):
        full = SimpleNamespace(**{name: lambda *_: 1})  # a library without memory, of this function alone
        monkeypatch.setattr(kernels, "_library", lambda full=full: full)
        with pytest.raises(MemoryError, match="solve fewer tasks"):
            kernels.call("prepare", np.dtype(dtype), level=level)


def test_without_a_library_the_array_code_gives_the_answers(monkeypatch):
    support, labels, query = random_task(np.random.default_rng(0), 2, [3, 3], 30, 20, np.float32)
    expected = handful.solve(support, labels, query, backend="array")
    monkeypatch.setattr(kernels, "levels", tuple)
    monkeypatch.setattr(kernels, "_library", lambda: None)
    result = handful.solve(support, labels, query)
    np.testing.assert_array_equal(result.probabilities, expected.probabilities)


@pytest.mark.parametrize("is_stale", [False, True])
def test_a_library_of_another_platform_or_of_other_sources_is_left_alone(tmp_path, monkeypatch, is_stale):
    (tmp_path / "kernels.so").write_bytes(b"\x7fELF of another machine")
    if is_stale:
        if not LEVELS:
            pytest.skip("no compiler here")
        shutil.copytree(Path(kernels.__file__).parent, tmp_path, dirs_exist_ok=True)
        (tmp_path / "tiles.h").write_text("/* changed since */")
    monkeypatch.setattr(kernels, "__file__", str(tmp_path / "__init__.py"))
    for function in (kernels._library, kernels.levels):
        function.cache_clear()
    try:
        assert kernels.levels() == ()
    finally:
        monkeypatch.undo()
        for function in (kernels._library, kernels.levels):
            function.cache_clear()
    assert kernels.levels() == LEVELS


@needs_kernels
def test_other_arrays_are_left_to_the_array_code():
    floats = np.zeros((1, 5, 3), np.float32)
    assert kernels.can_use("auto", floats, floats)
    for other in (floats.astype(np.float16), floats.astype(np.float64), floats.astype(int)):
        assert not kernels.can_use("auto", floats, other)
    assert not kernels.can_use("array", floats)


def test_the_build_finds_no_compiler_where_none_works(tmp_path, monkeypatch):
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(build, "LIBRARY", tmp_path / "kernels.so")
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    assert build.find_compiler() is None
    assert build.KernelsHook.dependencies(None) == [build.ZIGLANG]
    data = {"artifacts": []}
    build.KernelsHook.initialize(None, "standard", data)
    assert data == {"artifacts": []}  # a wheel of pure Python
    monkeypatch.setenv("HANDFUL_KERNELS", "none")
    assert build.KernelsHook.dependencies(None) == []


# The descent


@needs_kernels
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shots=st.sampled_from([[1], [3], [1, 4], [2, 1, 3, 2, 2], [1, 2, 1, 2, 1, 2, 1]]),  # 1, 2, 5, 2 x 4 in a tile
    n_query=st.integers(0, 40),
    dimension=st.integers(3, 150),  # in one or two, cosines are all but fixed and rounding decides
    outlier=st.sampled_from([None, "mean", 1.3]),
    n_unknown=st.sampled_from([0, 1, 9]),
    learn=st.sampled_from([("prototypes", "eta", "delta"), ("prototypes",), ("eta", "delta"), ("delta",)]),
)
def test_a_descent_in_double_precision(seed, shots, n_query, dimension, outlier, n_unknown, learn):
    rng = np.random.default_rng(seed)
    support, labels, query = random_task(rng, 3, shots, n_query, dimension)
    unknown = rng.normal(size=(3, n_unknown if outlier is not None else 0, dimension))
    support, codes = with_unknown(support, labels, unknown)
    support, query = support + 2, query + 2  # away from zero cosines, whose signs Adam would amplify
    head = some_head(rng, len(shots), outlier)
    options = {"ways": len(shots), "steps": 8, "learn": learn, "refine": True}
    ends = [descend(support, codes, query, head, backend=backend, **options) for backend in BACKENDS]
    names = [field.name for field in fields(ends[0]) if field.name != "history"]
    close(*ends, names, rtol=0, atol=1e-6)


@needs_kernels
@pytest.mark.parametrize("level", LEVELS)
def test_any_number_of_classes_in_single_precision(level, at_level):
    at_level(level)
    for ways in [1, 5, 7, 12, 53]:
        for n_query, dimension in ((40, 70), (60, 700)):  # items kept as rows and columns, and as rows alone
            support, labels, query = random_task(np.random.default_rng(ways), 2, [2] * ways, n_query, dimension, "f4")
            results = [handful.solve(support, labels, query, method="eol", backend=b) for b in BACKENDS]
            difference = np.abs(results[0].probabilities - results[1].probabilities)
            assert np.median(difference) <= 1e-6
            assert difference.max() <= 2e-3


@needs_kernels
@pytest.mark.parametrize("ways", [5, 7])  # one tile of prototypes, and two with padding
def test_several_losses_side_by_side_end_as_each_alone(ways):
    rng = np.random.default_rng(ways)
    support, labels, query = random_task(rng, 2, [2] * ways, 30, 40)
    heads = [some_head(rng, ways, outlier) for outlier in (0.7, 1.3, 2.0)]
    together = descend_all(support, labels, query, heads, steps=8, refine=True)
    for head, end in zip(heads, together, strict=True):
        alone = descend(support, labels, query, head, steps=8, refine=True)
        close(alone, end, [f.name for f in fields(alone) if f.name != "history"], rtol=0, atol=1e-12)
    assert np.abs(together[0].query_probabilities - together[1].query_probabilities).max() > 1e-3


@needs_kernels
def test_labels_that_are_none_are_refused():
    support, labels, query = random_task(np.random.default_rng(0), 1, [2, 2], 5, 10)
    head = some_head(np.random.default_rng(0), 2, 1.0)
    for wrong in (-1, 3):
        with pytest.raises(ValueError, match="from 0 to 2"):
            descend(support, np.where(labels == 1, wrong, labels), query, head, ways=2)


@needs_kernels
def test_threads_chunks_and_company_change_nothing(episodes):
    # NumPy's last bits depend on the place of a number in its array
    for method, digits in (("eol", 0), ("kdo", 1e-6), ("eol_kdo", 1e-5)):
        one, two = (
            handful.solve(episodes.task, method=method, threads=threads, outlier_share=0.5) for threads in (1, 8)
        )
        np.testing.assert_allclose(one.probabilities, two.probabilities, rtol=0, atol=digits)
        alone = handful.solve(episodes.task[3], method=method, outlier_share=0.5)
        np.testing.assert_allclose(alone.outlier_scores, one.outlier_scores[3], rtol=0, atol=digits)


@pytest.mark.torch
def test_torch_keeps_its_threads():
    script = """
import numpy as np, torch, handful
torch.set_num_threads(2)
rng = np.random.default_rng(0)
s, q = rng.normal(size=(4, 10, 16)), rng.normal(size=(4, 20, 16))
handful.solve(s, [[0, 1, 2, 3, 4] * 2] * 4, q, method="eol", threads=2)
assert torch.get_num_threads() == 2, torch.get_num_threads()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# The preparation

STEPS = [
    "task, l2", "base, l2", "none", "signed(0.6), l2, task, l2", "power, l2, task", "power(0.3), task, l2, task, l2",
    "l2, signed, base", "task, qr, l2", "signed(2), l2",  # the last two are computed by the array code
]  # fmt: skip
SHAPES = [(1, 1, 0, 1), (2, 1, 1, 1), (3, 5, 7, 64), (2, 25, 30, 65), (1, 3, 700, 40), (1, 2, 2, 2560)]


def features(shape, dtype=np.float32):
    batch, n_support, n_query, dimension = shape
    rng = np.random.default_rng(sum(shape))
    x = rng.normal(size=(batch, n_support + n_query, dimension)) + 0.5
    x[:, 0, ::3] = 0
    return x[:, :n_support].astype(dtype), x[:, n_support:].astype(dtype)


def prepared_alike(support, query, steps, base_mean=None, scale=None, tolerance=2e-6):
    both = (function(support, query, steps, base_mean, scale) for function in (prepare_arrays, prepare))
    a, b = ([("support", one.support), ("query", one.query), *one.steps] for one in both)
    for (kind, x), (kind_in_c, y) in zip(a, b, strict=True):
        assert (kind_in_c, y.dtype, y.shape) == (kind, x.dtype, x.shape)
        limit = tolerance * max(1, np.abs(x).max(initial=0))
        np.testing.assert_allclose(y, x, rtol=tolerance, atol=limit, err_msg=kind)


@needs_kernels
@pytest.mark.parametrize("level", LEVELS)
def test_preparation(level, at_level):
    at_level(level)
    for steps in STEPS:
        for shape in SHAPES:
            if shape[-1] > 1 or "task" not in steps:  # one feature minus its mean may be rounding alone
                prepared_alike(*features(shape), steps, np.linspace(-1, 1, shape[-1]))
        prepared_alike(*features((2, 4, 150, 30), np.float64), steps, tolerance=1e-12)


@needs_kernels
def test_preparation_of_unusual_features():
    support, query = features((2, 4, 9, 33))
    before = support.copy()
    for steps in ["task, l2", "signed(0.6), l2, task, l2", "power, l2"]:
        for factor in np.float32([1e-15, 1e-5, 1e4, 1e15]):
            task = Task(support * factor, [[0, 0, 1, 1]] * 2, query * factor)
            prepared_alike(task.support, task.query, steps, scale=task.is_extreme)
        prepared_alike(np.asfortranarray(support), query[:, ::2, ::-1], steps)
    for steps in ["l2", "signed(0.6), l2", "power, l2", "signed(0.6), l2, task"]:
        prepared_alike(np.zeros((1, 2, 20), np.float32), np.full((1, 3, 20), 0.25, np.float32), steps)
    np.testing.assert_array_equal(support, before)


# The densities

TRIED = np.array([share.TRIED_SHARES])


def prepared_task(seed, shots, n_query, dimension, n_unknown=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    support, labels, query = random_task(rng, 2, shots, n_query, dimension, dtype)
    support, codes = with_unknown(support, labels, rng.normal(size=(2, n_unknown, dimension)).astype(dtype))
    prepared = prepare_arrays(support, query, share.PREPARATION)
    return prepared.support, codes, prepared.query


@needs_kernels
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
def test_densities_in_double_precision(seed, shots, n_query, dimension, n_unknown, k, min_queries):
    of = *prepared_task(seed, shots, n_query, dimension, n_unknown), len(shots), k, TRIED, share.PASSES, min_queries
    (near, end, measured), (items, end_in_c, measured_in_c) = (share.solve(*of, backend) for backend in BACKENDS)
    close(near, items, ("items", "smooth", "degrees", "k"), rtol=0, atol=1e-10)
    close(end, end_in_c, ("bias", "assignments", "floor", "beta", "probabilities", "h"), rtol=1e-7, atol=1e-8)
    close(measured, measured_in_c, ("examples", "best", "spread", "squares", "cover"), rtol=1e-9, atol=1e-9)
    close(measured, measured_in_c, ("entropy", "excess"), rtol=1e-6, atol=1e-7)
    if n_query >= share.MIN_ITEMS:  # else the posterior is hardly the pile's
        estimates = [share.from_measured(*of).estimate for of in ((measured, end), (measured_in_c, end_in_c))]
        np.testing.assert_allclose(*estimates, rtol=0, atol=1e-5)


@needs_kernels
@pytest.mark.parametrize("level", LEVELS)
def test_densities_in_single_precision(level, at_level):
    at_level(level)
    for shots, n_query, dimension in [([5] * 5, 150, 64), ([1] * 3, 700, 20), ([2] * 30, 90, 130)]:
        for passes in [1, 11]:
            task = prepared_task(1, shots, n_query, dimension, dtype=np.float32)
            of = *task, len(shots), 10, np.array([[0.3], [0.6]], np.float32), passes, None
            (near, end, _), (items, end_in_c, _) = (share.solve(*of, backend) for backend in BACKENDS)
            close(near, items, ["smooth"], rtol=0, atol=1e-6)
            difference = np.abs(end.probabilities - end_in_c.probabilities)
            assert np.median(difference) <= 1e-6
            assert difference.max() <= 1e-4


@needs_kernels
def test_a_solution_is_the_same_on_both_backends_and_at_every_level(at_level):
    support, labels, query = random_task(np.random.default_rng(3), 2, [5, 2, 4, 1, 3], 80, 70, np.float32)
    unknown = query[:, :3] + 1
    for options in [{}, {"outlier_share": 0.4}, {"outlier_share": [0.1, 0.5]}, {"dtype": "float64"}]:
        for method in ["kdo", "eol_kdo", "eol", "ostim"]:
            of = {"unknown": unknown, "method": method, **options}
            a = handful.solve(support, labels, query, backend="array", **of)
            for level in LEVELS:
                at_level(level)
                b = handful.solve(support, labels, query, **of)
                for x, y in ((a.probabilities, b.probabilities), (a.outlier_scores, b.outlier_scores)):
                    assert np.median(np.abs(x - y)) <= 1e-6
                    np.testing.assert_allclose(x, y, rtol=0, atol=1e-3)
                np.testing.assert_allclose(a.outlier_share, b.outlier_share, rtol=0, atol=1e-4)


@needs_kernels
@pytest.mark.parametrize("outlier_share", ["auto", 0.3])
def test_a_pile_of_any_size_and_new_items_are_scored_alike_by_both(outlier_share):
    for n_query in [0, 1, 2, 60]:
        support, labels, query = random_task(np.random.default_rng(7), 2, [4, 2, 4], n_query, 40, np.float32)
        a, b = (kdo(support, labels, query, outlier_share=outlier_share, backend=backend) for backend in BACKENDS)
        assert b.outlier_scores.shape == (2, n_query)
        np.testing.assert_allclose(a.outlier_scores, b.outlier_scores, rtol=0, atol=1e-4)
        assert list(a.state) == list(b.state)
        new = [score_new(one.state, support + np.float32(0.3)) for one in (a, b)]
        for x, y in zip(*new, strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-4)


# The evidence and the folds


@needs_kernels
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shots=st.sampled_from([[1], [3], [1, 4], [2, 1, 3, 2, 2], [1] * 12, [2] * 60]),
    n_query=st.integers(2, 90),
    dimension=st.integers(3, 90),
    n_unknown=st.integers(0, 3),
)
def test_evidence_and_folds_in_double_precision(seed, shots, n_query, dimension, n_unknown):
    support, codes, query = prepared_task(seed, shots, n_query, dimension, n_unknown)
    h, ways = kernels.joined(support, query), len(shots)
    h = unit(h) @ unit(h).swapaxes(1, 2)
    h = (h + h.swapaxes(1, 2)) / 2
    rng = np.random.default_rng(seed)
    p_unknown, classes = rng.uniform(0.1, 0.9, (2, n_query)), rng.dirichlet(np.ones(ways), (2, n_query))
    numbers = np.array([5.0, 9.0]), np.array([0.02, 0.1]), np.array([0.3, 0.6]), np.array([-1.0, 0.5])
    a, b = (look(h, codes, ways, p_unknown, classes, backend) for backend in BACKENDS)
    np.testing.assert_allclose(b.items, a.items, rtol=0, atol=1e-7)
    for name, value in a.carried.items():
        np.testing.assert_allclose(b.carried[name], value, rtol=0, atol=1e-8, err_msg=name)
    a, b = (hide_each(h, codes, ways, *numbers, backend) for backend in BACKENDS)
    close(a, b, ("p_unknown", "p_own", "certainty"), rtol=0, atol=1e-7)


@needs_kernels
def test_features_are_handed_from_kernel_to_kernel_without_a_copy():
    prepared = prepare(*features((2, 4, 9, 33)), "task, l2")
    whole = kernels.joined(prepared.support, prepared.query)
    assert np.shares_memory(whole, prepared.support)
    for support, query in ((prepared.support, prepared.query[:, 1:]), (prepared.query, prepared.support)):
        other = kernels.joined(support, query)
        assert not np.shares_memory(other, prepared.support)
        np.testing.assert_array_equal(other, np.concatenate([support, query], axis=1))
