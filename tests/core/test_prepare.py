"""Each step of the preparation against its closed form, and what was learned against the task it was learned from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from loops import loop

from handful import solve
from handful.core.prepare import parse, prepare, replay

BATCH, N_SUPPORT, N_QUERY, DIMENSION = 3, 4, 5, 8
RNG = np.random.default_rng(0)
SUPPORT = RNG.normal(size=(BATCH, N_SUPPORT, DIMENSION)) + 1
QUERY = RNG.normal(size=(BATCH, N_QUERY, DIMENSION)) + 1
BASE = RNG.normal(size=DIMENSION)
CHAINS = [
    "none",
    "none, task",
    "base",
    "power(0.3)",
    "qr",
    "base, l2",
    "power, l2, task, l2",
    "task, l2, qr",
    "task, task",
]


def both(prepared):
    """Support and query of each task in one array, [B, S + Q, D]."""
    return np.concatenate([prepared.support, prepared.query], axis=1)


@pytest.fixture(scope="module")
def items():
    return np.concatenate([SUPPORT, QUERY], axis=1)


# --- closed forms ---


def test_base_without_a_mean_is_task():
    prepared, expected = prepare(SUPPORT, QUERY, "base, l2"), prepare(SUPPORT, QUERY, "task, l2")
    np.testing.assert_array_equal(both(prepared), both(expected))
    assert [kind for kind, _ in prepared.steps] == ["task", "l2"]


@loop(("step", "beta"), [("power", 0.5), ("power(0.3)", 0.3), ("power(2)", 2.0), ("POWER(.25)", 0.25)])
def test_power_raises_the_positive_part(items, step, beta):
    expected = (np.where(items > 0, items, 0.0) + 1e-6) ** beta
    assert (items < 0).any()
    np.testing.assert_allclose(both(prepare(SUPPORT, QUERY, step)), expected)


def test_steps_are_applied_in_the_order_given(items):
    centred = items - items.mean(axis=1, keepdims=True)
    then_unit = centred / np.linalg.norm(centred, axis=-1, keepdims=True)
    unit = items / np.linalg.norm(items, axis=-1, keepdims=True)
    then_centred = unit - unit.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(both(prepare(SUPPORT, QUERY, "task, l2")), then_unit, atol=1e-12)
    np.testing.assert_allclose(both(prepare(SUPPORT, QUERY, "l2, task")), then_centred, atol=1e-12)


@loop("dimension", [3, 9, 40])
def test_qr_keeps_distances_and_cosines_in_at_most_as_many_dimensions_as_items(dimension):
    rng = np.random.default_rng(1)
    support, query = rng.normal(size=(2, 4, dimension)), rng.normal(size=(2, 5, dimension))
    before, prepared = np.concatenate([support, query], axis=1), prepare(support, query, "qr")
    after = both(prepared)
    assert after.shape == (2, 9, min(9, dimension))
    np.testing.assert_allclose(after @ after.swapaxes(1, 2), before @ before.swapaxes(1, 2), atol=1e-12)


# --- replay ---


@loop("chain", CHAINS)
def test_replay_prepares_items_each_on_its_own_as_those_of_the_task(items, chain):
    support, query = SUPPORT.copy(), QUERY.copy()
    prepared = prepare(support, query, chain, BASE)
    np.testing.assert_array_equal(np.concatenate([support, query], axis=1), items)  # left as they were
    np.testing.assert_allclose(prepared.replay(items), both(prepared), atol=1e-12)
    np.testing.assert_array_equal(replay(prepared.state(), QUERY), prepared.query)
    np.testing.assert_allclose(prepared.replay(items[:, 2:3]), prepared.replay(items)[:, 2:3], atol=1e-12)
    alone = prepare(SUPPORT[1:2], QUERY[1:2], chain, BASE)
    np.testing.assert_allclose(both(prepared)[1:2], both(alone), atol=1e-12)
    single = prepare(SUPPORT.astype("float32"), QUERY.astype("float32"), chain, BASE)
    assert single.support.dtype == single.query.dtype == np.float32
    np.testing.assert_allclose(np.abs(both(single)), np.abs(both(prepared)), atol=1e-5)


# --- what is refused ---


@loop(
    "step",
    ["tsak", "", "power()", "power(1.2.3)", "power(-1)", "power(2", "task(2)"],
)
def test_an_unknown_step_is_told_the_known_ones(step):
    with pytest.raises(ValueError, match=r"^preparation '.*' is not known: use any of task, .*, qr") as e:
        parse(["l2", step])
    assert repr(step) in str(e.value)
    with pytest.raises(ValueError, match=r'^preparation must be names of steps, as "task, l2"'):
        parse(["l2", 3])


@loop(
    ("mean", "message"),
    [
        *((np.zeros(shape), r"^base_mean has shape \(.*\) but items have 8 features: .*same backbone")
          for shape in ((3,), (1, DIMENSION), ())),
        (np.r_[BASE[1:], np.nan], r"^base_mean contains NaN or infinity"),
        (["a"] * DIMENSION, r"^base_mean is not a row of numbers"),
    ],
)  # fmt: skip
def test_a_wrong_base_mean_is_refused(mean, message):
    with pytest.raises(ValueError, match=message):
        prepare(SUPPORT, QUERY, "base", mean)
    with pytest.raises(ValueError, match=message):
        solve(SUPPORT, [[0, 0, 1, 1]] * BATCH, QUERY, method="knn", base_mean=mean)


def test_a_base_mean_is_taken_however_it_is_held(torch):
    for hold in (np.ndarray.tolist, pd.Series, pl.Series):
        for as_array in (np.asarray, torch.asarray):
            prepared = prepare(as_array(SUPPORT), as_array(QUERY), "base", hold(BASE))
            np.testing.assert_allclose(prepared.query, QUERY - BASE, atol=1e-12)
