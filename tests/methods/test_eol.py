"""EOL: what b means, and what must not change the answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import loop
from random_tasks import random_task

import handful
from handful.core import metrics
from handful.features import Protocol, digits, draw
from handful.methods.eol import balance, loss_head, share_of

CLOSE = {"rtol": 0, "atol": 2e-5}


@given(st.floats(1e-6, 1 - 1e-6))
def test_balance_inverts_share_of(share):
    assert share_of(balance(share)) == pytest.approx(share, rel=1e-9)


@loop("b", [0.2, 0.5, 0.7])
def test_share_of_b_is_where_the_marginal_term_is_smallest(b):
    """Independent of the derivation: minimise MA over the outlier share on a fine grid."""
    share = np.linspace(1e-4, 1 - 1e-4, 200001)
    m, m_out = (1 - share) / (1 - b), share / b
    best = share[np.argmin(m * np.log(m) + m_out * np.log(m_out))]
    assert share_of(b) == pytest.approx(best, abs=1e-4)


def landing(share, ways, shots, seed):
    """The mean predicted share where `share` of the pile is unknown and EOL is told so, over draws of the digits."""
    outlier_ways = min(5, 10 - ways)
    known, outliers = max(1, round(150 * (1 - share) / ways)), max(1, round(150 * share / outlier_ways))
    tasks = draw(*digits(), Protocol(ways, shots, known, outlier_ways, outliers), seed=seed, tasks=5).task
    return handful.solve(tasks, method="eol", outlier_share=share, backend="array").outlier_scores.mean()


@loop("share", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
def test_over_random_ways_and_shots_the_predicted_share_lands_where_it_was_asked(share):
    rng = np.random.default_rng(int(100 * share))
    landed = [landing(share, int(rng.integers(2, 9)), int(rng.integers(1, 11)), seed) for seed in range(12)]
    assert np.mean(landed) == pytest.approx(share, abs=0.05)


def test_it_beats_both_yardsticks_on_the_digits():
    tasks = draw(*digits(), Protocol(), seed=11, tasks=60)
    results = {name: handful.solve(tasks.task, method=name) for name in ("eol", "knn", "simpleshot")}
    eol, *others = (metrics.figures(r.probabilities, r.outlier_scores, tasks.truth) for r in results.values())
    for other in others:
        for name, values in other.items():
            mean, half_width = metrics.mean_and_half_width(eol[name] - values)
            assert mean > half_width, name


def test_a_constant_added_to_all_features_changes_nothing_under_task_centring():
    """On features that all vary: of a constant one Adam sees only rounding, and takes its sign for a direction."""
    rng = np.random.default_rng(2)
    support, labels, query = random_task(rng, 5, [5] * 5, 60, 64)
    shift = rng.normal(size=64) * 100
    told = {"method": "eol", "outlier_share": 0.5, "dtype": "float64"}
    plain = handful.solve(support, labels, query, **told)
    moved = handful.solve(support + shift, labels, query + shift, **told)
    np.testing.assert_allclose(moved.outlier_scores, plain.outlier_scores, **CLOSE)
    other = handful.solve(support + shift, labels, query + shift, **told, preparation="l2")
    assert np.abs(other.outlier_scores - plain.outlier_scores).max() > 0.01


def test_telling_b_or_the_share_it_means_is_the_same(episodes):
    told = handful.solve(episodes.task, method="eol", outlier_share=float(share_of(0.3)))
    given_b = handful.solve(episodes.task, method="eol", b=0.3)
    np.testing.assert_allclose(told.outlier_scores, given_b.outlier_scores, **CLOSE)
    assert given_b.outlier_share == pytest.approx(0.1812, abs=1e-4)


def test_a_share_for_each_task_is_used_for_that_task(episodes):
    shares = np.linspace(0.2, 0.8, 20)
    together = handful.solve(episodes.task, method="eol", outlier_share=shares)
    alone = handful.solve(episodes.task[13:14], method="eol", outlier_share=float(shares[13]))
    np.testing.assert_allclose(together.outlier_scores[13], alone.outlier_scores[0], **CLOSE)
    np.testing.assert_array_equal(together.outlier_share, shares)


def test_class_weights_by_ways_and_shots_agree_only_where_both_are_equal(episodes):
    five = [handful.solve(episodes.task, method="eol", marginal_weight=w).outlier_scores for w in ("ways", "shots")]
    np.testing.assert_allclose(*five, **CLOSE)
    one_shot = draw(*digits(), Protocol(shots=1), tasks=2).task
    one = [handful.solve(one_shot, method="eol", marginal_weight=w).outlier_scores for w in ("ways", "shots")]
    assert np.abs(one[0] - one[1]).max() > 0.1


def test_history_is_kept_when_asked_and_falls(episodes):
    result = handful.solve(episodes.task, method="eol", history=True, steps=20)
    assert result.history.shape == (20, 21)
    assert np.all(result.history[:, -1] < result.history[:, 0])
    assert result[4].history.shape == (21,)
    assert handful.solve(episodes.task, method="eol").history is None


def test_the_conditional_entropy_is_the_mean_over_the_classes_and_not_over_unknown():
    rng = np.random.default_rng(0)
    l_s, l_q = rng.normal(size=(1, 4, 2)), rng.normal(size=(1, 6, 2))
    labels = np.array([[0, 0, 1, 1]])
    head, b = loss_head(labels, 2, 0.3, None, "ways", 0.0, 1.0, 0.0)
    p = np.exp(np.column_stack([l_q[0], np.full(6, np.log(2 / b[0]))]))
    p /= p.sum(axis=1, keepdims=True)
    expected = -np.mean((p * np.log(p))[:, :2].sum(axis=1)) / 2
    assert head(l_s, np.eye(2)[labels], l_q)[0] == pytest.approx(expected, abs=1e-9)
