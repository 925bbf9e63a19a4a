"""OOD-MAML: detectors adapted by written-out gradients, and the gradient of the meta-learning through them."""

import numpy as np
import pytest
from bases import base_for
from loops import loop
from random_tasks import random_task

import handful
from handful.core.arrays import sigmoid, unit
from handful.methods import ood_maml

EXACT = {"preparation": "none", "dtype": "float64", "threads": 1}


@pytest.fixture
def task():
    return random_task(np.random.default_rng(4), 3, [4, 5, 3], 12, 10)


def arrays_of(base):
    return {name: value.astype(np.float64) for name, value in base.heads["ood_maml"].items()}


def seen(z, a):
    z = z + (z @ a["down"]) @ a["up"]
    return z / np.linalg.norm(z)


def detector_by_hand(examples, fakes, a, steps):
    """One detector: each example and each fake adds its slope, one after the other."""
    w, b = a["weight"].copy(), a["bias"][0]
    for _ in range(steps):
        slope_w, slope_b = np.zeros_like(w), 0.0
        for items, target in ((examples, 1), (fakes, 0)):
            for x in items:
                error = (1 / (1 + np.exp(-(w @ x + b))) - target) / len(items)
                slope_w, slope_b = slope_w + error * x, slope_b + error
        w, b = w - np.exp(a["log_rates"][0]) * slope_w, b - np.exp(a["log_rates"][1]) * slope_b
    return w, b


@loop(("steps", "adversarial_steps"), [(5, 3), (2, 0), (0, 1)])
def test_ood_maml_class_by_class(task, steps, adversarial_steps):
    base = base_for(10, strength=0.5)
    a = arrays_of(base)
    result = handful.solve(
        *task, method="ood_maml", base=base, steps=steps, adversarial_steps=adversarial_steps, **EXACT
    )
    originals = [f / np.linalg.norm(f) for f in a["fakes"]]
    for i, (support, labels, query) in enumerate(zip(*task, strict=True)):
        detectors = []
        for k in range(3):
            examples = [seen(z, a) for z, y in zip(support, labels, strict=True) if y == k]
            w, b = detector_by_hand(examples, originals, a, 1)
            moved = []
            for f, log_step in zip(originals, a["log_fake_steps"], strict=True):
                for _ in range(adversarial_steps):
                    g = -(1 - 1 / (1 + np.exp(-(w @ f + b)))) * w
                    f = f - np.exp(log_step) * g / np.linalg.norm(g)
                    f = f / np.linalg.norm(f)
                moved.append(f)
            fakes = originals + moved if adversarial_steps else originals
            detectors.append(detector_by_hand(examples, fakes, a, steps))
        for j, q in enumerate(query):
            s = np.array([w @ seen(q, a) + b for w, b in detectors])
            p = 1 / (1 + np.exp(-(s - a["rejection"][0])))
            np.testing.assert_allclose(result.probabilities[i, j], np.exp(s) / np.exp(s).sum(), atol=1e-9)
            np.testing.assert_allclose(result.outlier_scores[i, j], 1 - p.max(), atol=1e-9)


def test_one_step_from_zero_ranks_by_the_inner_product_with_the_class_means(task):
    """Fakes that are opposite to each other have no weight in the first step from w = 0."""
    base = base_for(10, strength=0)
    fakes = np.stack([base.heads["ood_maml"]["fakes"][0], -base.heads["ood_maml"]["fakes"][0]])
    arrays = arrays_of(base) | {"bias": np.zeros(1), "fakes": fakes, "log_fake_steps": np.zeros(2)}
    base = handful.methods.Base(np.zeros(10), {"ood_maml": arrays})
    result = handful.solve(*task, method="ood_maml", base=base, steps=1, adversarial_steps=0, **EXACT)
    for s, y, q, p, o in zip(*task, result.probabilities, result.outlier_scores, strict=True):
        means = np.array([unit(s)[y == k].mean(axis=0) for k in range(3)])
        inner = unit(q) @ means.T
        np.testing.assert_array_equal(np.argsort(p, axis=1), np.argsort(inner, axis=1))
        np.testing.assert_array_equal(np.argsort(o), np.argsort(-inner.max(axis=1)))


def test_adapted_detectors_fit_their_examples_and_reject_the_fakes(task):
    support, labels, _ = task
    a = arrays_of(base_for(10))
    losses = []
    for steps in (0, 1, 5, 50):
        state = ood_maml.adapt(support, labels, a, steps=steps, adversarial_steps=0)
        s = ood_maml.logits(state, support, a)
        own = np.take_along_axis(s, labels[..., None], axis=-1)
        fake = unit(a["fakes"]) @ np.swapaxes(state["weights"], 1, 2) + state["biases"][:, None]
        losses.append(np.log1p(np.exp(-own)).mean() + np.log1p(np.exp(fake)).mean())
    assert losses == sorted(losses, reverse=True)


# ---------------------------------------------------------------------------------- the gradient of the meta-learning


def toy():
    """One class with three examples, two fakes, one feature: the detector has two parameters, w and b."""
    a = {
        "down": np.zeros((1, 1)), "up": np.zeros((1, 1)), "weight": np.array([0.3]), "bias": np.array([-0.4]),
        "fakes": np.array([[-1.0], [1.0]]), "log_fake_steps": np.zeros(2), "log_rates": np.log([0.7, 0.5]),
    }  # fmt: skip
    return a, np.array([[[2.0], [0.5], [-1.0]]]), np.zeros((1, 3), int), np.array([[[1.0], [-3.0], [2.0], [-1.0]]])


def outer_loss(a, support, labels, query, cut=ood_maml.same, steps=1):
    """Cross-entropy of the detector: the first and the third query are members."""
    import torch

    s = ood_maml.logits(ood_maml.adapt(support, labels, a, steps, 0, cut), query, a)[0, :, 0]
    return torch.nn.functional.softplus(torch.tensor([-1.0, 1.0, -1.0, 1.0]) * s).mean()


def detach(gradient):
    return gradient.detach()


@pytest.mark.torch
def test_the_meta_gradient_of_two_parameters_is_the_second_order_expression():
    """d/dtheta L(theta - A g(theta)) = (I - H A) grad L, by hand, by torch.func and by finite differences."""
    import torch

    a, support, labels, query = toy()
    rates = np.exp(a["log_rates"])

    # By hand. Scaled to length 1, a feature is its sign.
    x = np.sign(np.r_[support[0, :, 0], a["fakes"][:, 0]])
    rows = np.stack([x, np.ones(5)], axis=1)
    targets, weights = np.r_[1, 1, 1, 0, 0], np.r_[np.full(3, 1 / 3), np.full(2, 1 / 2)]
    theta = np.r_[a["weight"], a["bias"]]
    p = sigmoid(rows @ theta)
    g = rows.T @ (weights * (p - targets))
    H = rows.T @ np.diag(weights * p * (1 - p)) @ rows
    adapted = theta - rates * g
    outer_rows, outer_targets = np.stack([np.sign(query[0, :, 0]), np.ones(4)], axis=1), np.r_[1, 0, 1, 0]
    slope = outer_rows.T @ (sigmoid(outer_rows @ adapted) - outer_targets) / 4
    second = (np.eye(2) - H @ np.diag(rates)) @ slope

    # By autograd through the method.
    tensors = {name: torch.tensor(value, requires_grad=True) for name, value in a.items()}
    data = torch.tensor(support), torch.tensor(labels), torch.tensor(query)
    wanted = tensors["weight"], tensors["bias"]
    found = torch.autograd.grad(outer_loss(tensors, *data), wanted)
    first = torch.autograd.grad(outer_loss(tensors, *data, cut=detach), wanted)
    np.testing.assert_allclose(np.concatenate(found), second, rtol=1e-10)
    np.testing.assert_allclose(np.concatenate(first), slope, rtol=1e-10)
    assert np.abs(second - slope).max() > 0.01  # the two orders differ here

    # By torch.func, from the losses alone.
    def inner(t):
        s = torch.tensor(rows) @ t
        return (torch.tensor(weights) * torch.nn.functional.softplus(torch.tensor(1.0 - 2 * targets) * s)).sum()

    def outer(t):
        s = torch.tensor(outer_rows) @ t
        return torch.nn.functional.softplus(torch.tensor(1.0 - 2 * outer_targets) * s).mean()

    t = torch.tensor(theta)
    moved = t - torch.tensor(rates) * torch.func.grad(inner)(t)
    through = torch.func.grad(lambda t: outer(t - torch.tensor(rates) * torch.func.grad(inner)(t)))(t)
    product = (torch.eye(2) - torch.func.hessian(inner)(t) @ torch.diag(torch.tensor(rates))) @ torch.func.grad(outer)(
        moved
    )
    np.testing.assert_allclose(np.concatenate(found), through, rtol=1e-10)
    np.testing.assert_allclose(np.concatenate(found), product, rtol=1e-10)

    # By central differences.
    for i, name in enumerate(("weight", "bias")):
        ends = []
        for step in (1e-5, -1e-5):
            shifted = {key: torch.tensor(value) for key, value in a.items()}
            shifted[name] = shifted[name] + step
            ends.append(float(outer_loss(shifted, *data)))
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(second[i], rel=1e-7)


@pytest.mark.torch
def test_the_meta_gradient_of_every_array_is_that_of_finite_differences(task):
    """With several steps, several classes and moved fakes."""
    import torch

    from handful.training.heads.head import one_class_loss
    from handful.training.heads.ood_maml import score

    support, labels, query = task
    a = {name: torch.tensor(value) for name, value in arrays_of(base_for(10, strength=0.5)).items()}
    truth = np.tile(np.repeat([0, 1, 2, -1], 3), (3, 1))

    def loss(arrays):
        return one_class_loss(score(arrays, torch.tensor(support), labels, torch.tensor(query)), 9, truth)

    tensors = {name: value.clone().requires_grad_() for name, value in a.items()}
    gradients = torch.autograd.grad(loss(tensors), list(tensors.values()))
    rng = np.random.default_rng(0)
    for name, gradient in zip(tensors, gradients, strict=True):
        direction = torch.tensor(rng.normal(size=gradient.shape))
        ends = [float(loss(a | {name: a[name] + step * direction})) for step in (1e-6, -1e-6)]
        expected = float((gradient * direction).sum())
        assert expected != 0
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(expected, rel=1e-5, abs=1e-8), name
