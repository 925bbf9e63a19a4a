"""The pictures of EOL step by step are of the solver's own states: a short run is the beginning of a longer one."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import handful
from handful.core.arrays import one_hot
from handful.features import Protocol, digits, draw

DOCS = Path(__file__).resolve().parents[2] / "docs"
if not DOCS.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)


@pytest.fixture(scope="module")
def descent():
    pytest.importorskip("matplotlib")
    sys.path.insert(0, str(DOCS))  # it imports its neighbours, as a script does
    try:
        spec = importlib.util.spec_from_file_location("docs_descent", DOCS / "descent.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS))
    return module


@pytest.fixture(scope="module")
def tasks():
    return draw(*digits(), Protocol(queries=15, outlier_queries=15), seed=3, tasks=2).task


def eol(tasks, steps, **options):
    return handful.solve(tasks, method="eol", outlier_share=0.5, steps=steps, backend="array", threads=1, **options)


@pytest.mark.parametrize("steps", [0, 1, 7, 20])
def test_a_short_run_is_the_beginning_of_a_longer_one(tasks, steps):
    short, whole = eol(tasks, steps, history=True).history, eol(tasks, 50, history=True).history
    assert np.array_equal(short, whole[:, : steps + 1])
    again = eol(tasks, steps)
    assert np.array_equal(eol(tasks, steps).outlier_scores, again.outlier_scores)


def test_the_terms_of_the_curves_add_up_to_the_loss_of_the_solver(descent, tasks):
    losses = eol(tasks, 50, history=True).history
    onehot = one_hot(tasks.labels, 5, like=tasks.support)
    for steps in (0, 6, 50):
        result = eol(tasks, steps)
        terms = [descent.term(result, onehot, weights) for weights in descent.TERMS.values()]
        assert sum(terms) == pytest.approx(losses[:, steps], abs=1e-5)


def test_a_prototype_is_drawn_where_an_item_is_most_similar_to_it(descent):
    start = descent.state(0)
    toy = descent.toy.toy()
    means = np.stack([toy.points[toy.labels == j].mean(axis=0) for j in range(3)])
    assert np.linalg.norm(start.places - means, axis=1).max() < 0.5  # prototypes begin at the mean of the examples
    assert start.share < descent.state(12).share == pytest.approx(toy.outlier_share, abs=0.05)
