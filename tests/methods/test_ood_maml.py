"""OOD-MAML: detectors adapted by written-out gradients, and the gradient of the meta-learning through them."""

import numpy as np
import pytest
from bases import base_for
from loops import loop
from random_tasks import random_task

import handful

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


# ---------------------------------------------------------------------------------- the gradient of the meta-learning


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
