"""FROB: boundary samples, a rejection that is trained against them, and examples of no class."""

import numpy as np
import pytest
from bases import base_for
from loops import loop
from random_tasks import random_task

import handful
from handful.core.arrays import unit
from handful.methods import frob
from handful.methods.frob import Items, boundary, slopes

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


def test_boundary_samples_item_by_item():
    arrays = head(log_radius=np.log(1.5))
    means = np.random.default_rng(0).normal(size=(2, 3, D))
    samples = boundary(means, arrays)
    assert samples.shape == (2, 12, D)
    for b in range(2):
        for j in range(3):
            for m in range(4):
                x = means[b, j] / np.linalg.norm(means[b, j]) + 1.5 * arrays["offsets"][m] / D**0.5
                np.testing.assert_allclose(samples[b, 4 * j + m], x / np.linalg.norm(x), atol=1e-12)


def test_an_offset_at_a_right_angle_gives_the_angle_of_the_radius():
    means = np.eye(D)[None, :2]
    samples = boundary(means, head(log_radius=np.log(2.0)) | {"offsets": D**0.5 * np.eye(D)[5:7]})
    np.testing.assert_allclose(samples[0, :2] @ means[0, 0], 1 / 5**0.5, atol=1e-12)


# ---------------------------------------------------------------------------------------------------- limit cases


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


@pytest.mark.torch
def test_the_slopes_are_those_of_autograd():
    """At a random place, where prototypes are of any length and the rejection is not 0."""
    import torch

    rng = np.random.default_rng(8)
    arrays = {name: torch.tensor(value) for name, value in head().items()}
    x = unit(torch.tensor(rng.normal(size=(2, 9, D))))
    targets = torch.tensor(rng.uniform(0.1, 1, size=(2, 9, 1)) * np.eye(4)[rng.integers(4, size=(2, 9))])
    a, b = torch.tensor(rng.normal(size=(2, 3, 9))), torch.tensor(rng.normal(size=(2, 1, 9)))
    w, v, r = (t.requires_grad_() for t in (a @ x, b @ x, torch.tensor(rng.normal(size=(2, 1)))))
    tau = arrays["log_tau"].exp()
    cosines = x @ torch.nn.functional.normalize(w, dim=-1).mT
    l = torch.cat([tau * cosines, tau * x @ v.mT + r[..., None]], -1)
    wanted = torch.autograd.grad(-(targets * torch.log_softmax(l, -1)).sum(), (w, v, r))
    state = {"prototypes": a, "rejection": b, "bias": r.detach()}
    found = slopes(state, Items(x, targets).products(), targets, arrays)
    torch.testing.assert_close(found["prototypes"] @ x, wanted[0])
    torch.testing.assert_close(found["rejection"] @ x, wanted[1])
    torch.testing.assert_close(found["bias"], wanted[2])


def test_products_are_the_same_whether_items_or_features_are_more():
    rng = np.random.default_rng(2)
    for n in (4, 30):
        x, a = rng.normal(size=(2, n, D)), rng.normal(size=(2, 3, n))
        found = Items(x, x).products()(a)
        for b in range(2):
            for k in range(3):
                w = sum(a[b, k, i] * x[b, i] for i in range(n))
                np.testing.assert_allclose(found[b, k], [w @ x[b, i] for i in range(n)], atol=1e-10)


# -------------------------------------------------------------------------------------------- what rejection does


def test_boundary_samples_are_rejected_more_after_training(task):
    support, labels, _ = task
    means = [[unit(z)[y == j].mean(axis=0) for j in range(3)] for z, y in zip(support, labels, strict=True)]
    samples = boundary(np.array(means), head())
    before, after = (
        solve((support, labels, samples), steps=steps, lambda_boundary=1.0).outlier_scores.mean() for steps in (0, 30)
    )
    assert after > before + 0.05


def clusters(likeness):
    """Two classes and a cluster of unknowns, which share a direction: support, labels, queries and unknowns."""
    rng = np.random.default_rng(3)
    centres = np.eye(D)[:3] + likeness * np.eye(D)[3]
    items = unit(centres[:, None] + 0.15 * rng.normal(size=(3, 25, D)))
    query = items[:, 5:].reshape(1, -1, D)  # 20 of each
    return items[None, :2, :5].reshape(1, 10, D), np.repeat([[0, 1]], 5, axis=1), query, items[None, 2, :5]


@loop(("likeness", "tolerance"), [(0.0, 0.01), (0.6, 0.05)])
def test_exposure_rejects_the_cluster_of_the_examples_of_no_class_and_not_the_known(likeness, tolerance):
    support, labels, query, unknown = clusters(likeness)
    arrays = head(threshold=0.2, log_lambda=np.log(1e-9), log_rate_bias=np.log(1e-9))
    before, none, after = (
        frob.frob(support, labels, query, u, base=arrays, steps=30).outlier_scores[0]
        for u in (None, unknown[:, :0], unknown)
    )
    assert after[40:].mean() > before[40:].mean() + 0.3
    assert after[40:].min() > 0.5 > after[:40].max()
    assert after[:40].mean() < before[:40].mean() + tolerance
    np.testing.assert_array_equal(none, before)


def test_a_weight_of_0_ignores_the_examples_of_no_class():
    support, labels, query, unknown = clusters(0.6)
    with_them = solve((support, labels, query), unknown=unknown, lambda_exposure=0.0)
    np.testing.assert_allclose(with_them.outlier_scores, solve((support, labels, query)).outlier_scores, atol=1e-9)


def test_probabilities_and_rejection_sum_to_1(task):
    result = solve(task)
    np.testing.assert_allclose(result.probabilities.sum(-1) + result.outlier_scores, 1, atol=1e-9)


# ------------------------------------------------------------------------------------------------ shapes of tasks


def test_a_batch_is_its_tasks_alone_with_examples_of_no_class_too(task):
    unknown = np.random.default_rng(1).normal(size=(3, 2, D))
    together = solve(task, unknown=unknown)
    for i in range(3):
        alone = solve([x[i] for x in task], unknown=unknown[i])
        np.testing.assert_allclose(alone.probabilities, together.probabilities[i], atol=1e-9)
        np.testing.assert_allclose(alone.outlier_scores, together.outlier_scores[i], atol=1e-9)


@loop(
    ("wrong", "message"), [({"steps": -1}, "steps"), ({"lambda_boundary": -0.1}, "lambda_boundary"),
                           ({"lambda_exposure": -1.0}, "lambda_exposure")],
)  # fmt: skip
def test_parameters_out_of_range_are_refused(task, wrong, message):
    with pytest.raises(ValueError, match=message):
        solve(task, **wrong)


# ------------------------------------------------------------------------------------------------------ learning


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


@pytest.mark.torch
def test_the_loss_is_the_cross_entropy_over_the_classes_and_rejection(task):
    import torch

    from handful.training.heads.frob import HEAD

    arrays = {name: torch.tensor(value) for name, value in head().items()}
    support, query = (torch.tensor(unit(x)) for x in (task[0], task[2]))
    truth = np.tile(np.r_[np.arange(7) % 3, np.full(5, -1)], (3, 1))
    found = HEAD.loss(HEAD.score(arrays, support, task[1], query), 7, truth)
    l = frob.logits(frob.train(support, task[1], None, arrays), query, arrays)
    wanted = torch.nn.functional.cross_entropy(l.reshape(-1, 4), torch.tensor(truth % 4).reshape(-1))
    torch.testing.assert_close(found, wanted)


@pytest.mark.torch
def test_every_array_is_learned_by_the_derivative(task):
    import torch

    from handful.training.heads.frob import HEAD

    support, query = (torch.tensor(unit(x)) for x in (task[0], task[2]))
    truth = np.tile(np.r_[np.arange(7) % 3, np.full(5, -1)], (3, 1))

    def loss(arrays):
        return HEAD.loss(HEAD.score(arrays, support, task[1], query), 7, truth)

    arrays = {name: torch.tensor(value, requires_grad=True) for name, value in head().items()}
    loss(arrays).backward()
    assert all(array.grad is not None and array.grad.abs().max() > 0 for array in arrays.values())
    plain = {name: torch.tensor(value) for name, value in head().items()}
    for name in ("log_radius", "log_lambda", "log_tau", "log_cosine", "log_rate_rejection"):
        high, low = (loss(plain | {name: plain[name] + step}) for step in (1e-5, -1e-5))
        np.testing.assert_allclose(arrays[name].grad, [(high - low) / 2e-5], rtol=1e-4, atol=1e-8)
