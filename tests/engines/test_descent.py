"""The engine: hand-derived gradients, Adam, and what a loss head may rely on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_tasks import random_task

from handful.core.arrays import class_means, one_hot, unit
from handful.engines.descent import Adam, descend, loss_and_gradients
from handful.engines.loss import PARAMETERS, InfoMax

shots_of_classes = st.lists(st.integers(1, 4), min_size=1, max_size=7)


def some_head(rng, ways, outlier):
    outputs = ways + (outlier is not None)
    return InfoMax(
        co=rng.uniform(0, 1, outputs), ma=rng.uniform(0, 1, outputs), w=rng.uniform(0.5, 5, outputs),
        ce=rng.uniform(0.5, 2), outlier=outlier,
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shots=shots_of_classes,
    n_query=st.integers(0, 9),
    dimension=st.integers(2, 12),
    outlier=st.sampled_from([None, "mean", 1.3]),
)
def test_analytic_gradients_agree_with_central_differences(seed, shots, n_query, dimension, outlier):
    rng = np.random.default_rng(seed)
    support, labels, query = random_task(rng, 2, shots, n_query, dimension)
    onehot = one_hot(labels, len(shots), like=support)
    items = unit(np.concatenate([support, query], axis=1))
    head = some_head(rng, len(shots), outlier)
    at = {
        "prototypes": class_means(support, onehot) + 0.3 * rng.normal(size=(2, len(shots), dimension)),
        "eta": 0.2 * rng.normal(size=(2, len(shots))),
        "delta": 0.2 * rng.normal(size=(2, len(shots))),
    }

    def loss(parameters):
        return loss_and_gradients(parameters, items, onehot, head, 10.0)[0]

    _, gradients = loss_and_gradients(at, items, onehot, head, 10.0)
    for name in PARAMETERS:
        numeric = np.empty_like(at[name])
        step = 1e-5
        for index in np.ndindex(at[name].shape[1:]):
            moved = []
            for sign in (1, -1):
                other = at[name].copy()
                other[(slice(None), *index)] += sign * step
                moved.append(loss(at | {name: other}))
            numeric[(slice(None), *index)] = (moved[0] - moved[1]) / (2 * step)
        scale = max(1.0, np.abs(numeric).max())
        assert np.abs(gradients[name] - numeric).max() <= 1e-6 * scale, name


def test_infomax_matches_its_definition_term_by_term():
    rng = np.random.default_rng(0)
    l_s, l_q = rng.normal(size=(1, 4, 3)), rng.normal(size=(1, 6, 3))
    onehot = np.eye(3)[[[0, 1, 2, 2]]]
    head = InfoMax(co=[0.3, 0.2, 0.1, 0.4], ma=[1.0, 2.0, 3.0, 4.0], w=[2.0, 2.0, 1.0, 0.5], ce=1.5, outlier=0.7)
    e_s, e_q = np.exp(l_s[0]), np.exp(l_q[0])
    p_s = np.column_stack([e_s, np.full(4, np.exp(0.7))])
    p_s /= p_s.sum(1, keepdims=True)
    p_q = np.column_stack([e_q, np.full(6, np.exp(0.7))])
    p_q /= p_q.sum(1, keepdims=True)
    m = np.array(head.w) * p_q.mean(0)
    expected = (
        -1.5 * np.mean(np.log(p_s[range(4), [0, 1, 2, 2]]))
        - np.sum(head.co * np.mean(p_q * np.log(p_q), axis=0))
        + np.sum(head.ma * m * np.log(m))
    )
    assert head(l_s, onehot, l_q)[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.torch
def test_adam_follows_torch():
    import torch

    rng = np.random.default_rng(1)
    start, gradients = rng.normal(size=(3, 4)), rng.normal(size=(20, 3, 4))
    ours = start.copy()
    adam = Adam(ours, 0.05)
    theirs = torch.tensor(start, requires_grad=True)
    optimiser = torch.optim.Adam([theirs], lr=0.05)
    for g in gradients:
        adam.move(ours, g.copy())
        theirs.grad = torch.tensor(g)
        optimiser.step()
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=0, atol=1e-12)


def test_it_starts_at_the_class_means_and_only_named_parameters_move():
    support, labels, query = random_task(np.random.default_rng(2), 1, [3, 3], 8, 6)
    head = InfoMax(co=[0.5, 0.5], ma=[1.0, 1.0], w=[1.0, 1.0])
    end = descend(support, labels, query, head, steps=0, temperature=7.0, backend="array")
    means = unit(np.stack([support[0, :3].mean(0), support[0, 3:].mean(0)]))
    np.testing.assert_allclose(end.query_logits[0], 7.0 * unit(query[0]) @ means.T, atol=1e-12)
    end = descend(support, labels, query, head, learn=("delta",), backend="array")
    start = class_means(support, one_hot(labels, 2, like=support))
    np.testing.assert_array_equal(end.prototypes, start)
    assert np.all(end.eta == 0)
    assert np.any(end.delta != 0)


def test_a_method_may_bring_its_own_head():
    """A head is any callable; here squared logits, whose minimum is known: every cosine at zero."""

    def head(of_support, onehot, of_query):
        loss = 0.5 * (of_support**2).sum(axis=(1, 2)) + 0.5 * (of_query**2).sum(axis=(1, 2))
        return loss, of_support, of_query

    support, labels, query = random_task(np.random.default_rng(5), 2, [2, 2], 6, 32)
    end = descend(support, labels, query, head, steps=1500, learning_rate=0.05, learn=("prototypes",))
    assert np.abs(end.query_logits).max() < 0.1
