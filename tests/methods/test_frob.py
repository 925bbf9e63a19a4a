"""FROB: boundary samples, a rejection that is trained against them, and examples of no class."""

import numpy as np
import pytest
from bases import base_for
from loops import loop
from random_tasks import random_task

import handful
from handful.core.arrays import unit
from handful.methods import frob

D = 10


@pytest.fixture
def task():
    return random_task(np.random.default_rng(4), 3, [4, 1, 3], 12, D)


def head(**values):
    """The arrays of a head of random offsets, in double precision, with some of its scalars replaced."""
    arrays = {name: value.astype(np.float64) for name, value in base_for(D).heads["frob"].items()}
    return arrays | {name: np.array([value], np.float64) for name, value in values.items()}


def solve(task, arrays=None, **options):
    base = base_for(D)
    if arrays is not None:
        base = handful.methods.Base(base.mean, {"frob": arrays}, about=base.about)
    return handful.solve(*task, method="frob", base=base, preparation="l2", dtype="float64", threads=1, **options)


def cosine(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


def test_without_steps_it_is_simpleshot_with_a_constant_rejection(task):
    arrays = head()
    result = solve(task, steps=0)
    plain = handful.solve(*task, method="simpleshot", preparation="l2", dtype="float64")
    np.testing.assert_array_equal(result.probabilities.argmax(-1), plain.probabilities.argmax(-1))
    for i, (support, labels, query) in enumerate(zip(*task, strict=True)):
        means = [unit(support[labels == j]).mean(axis=0) for j in range(3)]
        m, shots = 0.4, 8 / 3
        r = 5 * arrays["threshold"][0] * m / np.sqrt(m + (1 - m) / shots) + np.log(3)
        for j, q in enumerate(query):
            e = np.exp([5 * cosine(q, c) for c in means])
            np.testing.assert_allclose(result.outlier_scores[i, j], np.exp(r) / (np.exp(r) + e.sum()), atol=1e-6)
            np.testing.assert_allclose(result.probabilities[i, j], e / (np.exp(r) + e.sum()), atol=1e-6)


def trained_by_autograd(task, arrays, steps, lambda_boundary, unknown=None, lambda_exposure=0.0):
    """Prototypes, v and r of one task after plain gradient steps on the loss as it is defined, in double precision."""
    import torch

    support, labels, _ = task
    z, ways = torch.tensor(unit(support)), int(labels.max()) + 1
    tau = np.exp(arrays["log_tau"][0])
    w = torch.stack([z[labels == j].mean(0) for j in range(ways)])
    samples = [
        w[j] / w[j].norm() + np.exp(arrays["log_radius"][0]) * torch.tensor(g) / D**0.5
        for j in range(ways)
        for g in arrays["offsets"]
    ]
    samples = torch.stack([x / x.norm() for x in samples])
    m = np.exp(arrays["log_cosine"][0])
    expected = m / np.sqrt(m + (1 - m) * ways / len(labels))
    state = [w, torch.zeros(D, dtype=w.dtype), torch.tensor(tau * arrays["threshold"][0] * expected + np.log(ways))]
    rates = [np.exp(arrays[f"log_rate_{name}"][0]) for name in ("prototypes", "rejection", "bias")]

    def log_p(x, w, v, r):
        cosines = (x / x.norm(dim=1, keepdim=True)) @ (w / w.norm(dim=1, keepdim=True)).T
        return torch.log_softmax(torch.cat([tau * cosines, (r + tau * x @ v)[:, None]], 1), 1)

    for _ in range(steps):
        state = [x.detach().requires_grad_() for x in state]
        loss = -log_p(z, *state)[torch.arange(len(z)), torch.tensor(labels)].mean()
        loss = loss - lambda_boundary * log_p(samples, *state)[:, -1].mean()
        if unknown is not None:
            loss = loss - lambda_exposure * log_p(torch.tensor(unit(unknown)), *state)[:, -1].mean()
        gradients = torch.autograd.grad(loss, state)
        state = [x - rate * g for x, rate, g in zip(state, rates, gradients, strict=True)]
    return [x.detach().numpy() for x in state]


@pytest.mark.torch
@loop(("weight", "count"), [(0.0, 0), (1.3, 0), (0.7, 4), (0.0, 2)])
def test_the_steps_are_those_of_autograd_on_the_loss(task, weight, count):
    """A weight of 0 and no examples of no class: prototypes and rejection fine-tuned on the examples alone."""
    arrays = head()
    unknown = np.random.default_rng(1).normal(size=(3, count, D))
    state = frob.train(
        unit(task[0]), task[1], unknown, arrays, steps=6, lambda_boundary=weight, lambda_exposure=0.4
    )  # fmt: skip
    for i in range(3):
        given = unknown[i] if count else None
        w, v, r = trained_by_autograd([x[i] for x in task], arrays, 6, weight, given, 0.4)
        np.testing.assert_allclose(state["prototypes"][i], w, atol=1e-10)
        np.testing.assert_allclose(state["rejection"][i, 0], v, atol=1e-10)
        np.testing.assert_allclose(state["bias"][i, 0], r, atol=1e-10)
    assert np.abs(state["rejection"]).max() > 0.01


def base_items(rng, n_classes=12, n_items=9):
    from handful.training.heads.head import BaseItems

    spread = np.r_[2.0, np.full(D - 1, 0.1)]  # classes are long in one direction
    centres = np.r_[0.0, np.ones(D - 1)] * rng.normal(size=(n_classes, D))
    features = unit((centres[:, None] + spread * rng.normal(size=(n_classes, n_items, D))).reshape(-1, D))
    codes = np.repeat(np.arange(n_classes), n_items)
    return BaseItems(features, codes, np.arange(n_classes), (1, 5), 5, features, codes)


def test_learning_starts_at_the_directions_and_the_edge_of_base_classes():
    from handful.training.heads.frob import HEAD, QUANTILE

    items = base_items(np.random.default_rng(0))
    arrays = HEAD.start(items, np.random.default_rng(0))
    assert abs(arrays["offsets"][0, 0]) / np.linalg.norm(arrays["offsets"][0]) > 0.95
    np.testing.assert_allclose(arrays["offsets"].sum(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(arrays["offsets"], axis=1), D**0.5)
    cosines, pairs = [], []
    for k in items.classes:
        z = items.features[items.codes == k]
        cosines += [cosine(z[i], np.delete(z, i, axis=0).mean(axis=0)) for i in range(len(z))]
        pairs.append(np.mean([z[i] @ z[l] for i in range(len(z)) for l in range(len(z)) if i != l]))
    edge = max(np.quantile(cosines, 1 - QUANTILE), 0.1)
    np.testing.assert_allclose(np.cos(np.arctan(np.exp(arrays["log_radius"]))), edge, atol=1e-6)
    np.testing.assert_allclose(np.exp(arrays["log_cosine"]), np.mean(pairs), atol=1e-6)
