"""Meta-BCE and OOD-MAML, one-class classifiers in a learned representation; their loss, start and meta-gradient."""

import numpy as np
import pytest
from bases import base_for
from loops import loop
from random_tasks import random_task

import handful
from handful.core.arrays import sigmoid, unit

EXACT = {"preparation": "none", "dtype": "float64", "threads": 1}


@pytest.fixture
def task():
    return random_task(np.random.default_rng(4), 3, [4, 5, 3], 12, 10)


def arrays_of(base, head):
    return {name: value.astype(np.float64) for name, value in base.heads[head].items()}


def test_meta_bce_item_by_item(task):
    base = base_for(10, strength=0.5)
    a = arrays_of(base, "meta_bce")
    result = handful.solve(*task, method="meta_bce", base=base, **EXACT)
    for i, (support, labels, query) in enumerate(zip(*task, strict=True)):
        projected = [z + (z @ a["down"]) @ a["up"] for z in support]
        for j, q in enumerate(query):
            q = q + (q @ a["down"]) @ a["up"]
            logits = []
            for k in range(3):
                members = [z for z, y in zip(projected, labels, strict=True) if y == k]
                c = sum(members) / len(members)
                u = np.exp(np.tanh(c @ a["inner"]) @ a["outer"])
                d = 1 - (u * q) @ (u * c) / np.linalg.norm(u * q) / np.linalg.norm(u * c)
                logits.append(-(np.exp(a["log_scale"][0]) * d + a["threshold"][0] + a["threshold"][1] / len(members)))
            s = np.array(logits)
            p = 1 / (1 + np.exp(-(s - a["rejection"][0])))
            np.testing.assert_allclose(result.probabilities[i, j], np.exp(s) / np.exp(s).sum(), atol=1e-9)
            np.testing.assert_allclose(result.outlier_scores[i, j], 1 - p.max(), atol=1e-9)


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
    a = arrays_of(base, "ood_maml")
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
    a = {name: torch.tensor(value) for name, value in arrays_of(base_for(10, strength=0.5), "ood_maml").items()}
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


# ------------------------------------------------------------------------------------------------- loss and start


@pytest.mark.torch
def test_the_loss_is_the_binary_cross_entropy_of_torch_with_equal_weights():
    import torch
    from torch.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits

    from handful.training.heads.head import one_class_loss, pair_loss

    rng = np.random.default_rng(0)
    logits = torch.tensor(4 * rng.normal(size=(2, 6, 3)))
    o, truth = torch.tensor(rng.uniform(0.1, 0.9, size=(2, 6))), np.array([[0, 0, 1, 2, -1, -1]] * 2)
    pairs = {True: [], False: []}
    queries = {True: [], False: []}
    for b in range(2):
        for i in range(6):
            is_unknown = truth[b, i] < 0
            target = torch.tensor(float(is_unknown), dtype=torch.float64)
            queries[bool(is_unknown)].append(float(binary_cross_entropy(o[b, i], target)))
            for j in range(3):
                is_member = bool(truth[b, i] == j)
                target = torch.tensor(float(is_member), dtype=torch.float64)
                pairs[is_member].append(float(binary_cross_entropy_with_logits(logits[b, i, j], target)))
    expected = [(np.mean(losses[True]) + np.mean(losses[False])) / 2 for losses in (pairs, queries)]
    assert float(pair_loss(logits, truth)) == pytest.approx(expected[0])
    assert float(one_class_loss((logits, o), 4, truth)) == pytest.approx(sum(expected))
    assert float(pair_loss(logits.numpy(), truth)) == pytest.approx(expected[0])


def test_the_regression_is_that_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    from handful.training.heads.meta_bce import logistic_regression

    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=400), np.ones(400), rng.choice([0.2, 1.0], size=400)], axis=-1)
    is_member = rng.uniform(size=400) < sigmoid(2 * x[:, 0] - 1.5 + 0.5 * x[:, 2])
    theirs = LogisticRegression(C=1e8, fit_intercept=False, class_weight="balanced", tol=1e-10, max_iter=1000)
    coefficients = theirs.fit(x, is_member).coef_[0]
    np.testing.assert_allclose(logistic_regression(x, is_member), coefficients, rtol=2e-2)


def items_of_classes(dimension=12, shots=(1, 5)):
    """Items of 12 classes whose last features are noise."""
    from handful.training.heads.head import BaseItems

    rng = np.random.default_rng(1)
    spread = np.where(np.arange(dimension) < 6, 0.4, 2.0)
    centres = (np.arange(dimension) < 6) * rng.normal(size=(12, dimension))
    features = centres[:, None] + spread * rng.normal(size=(12, 20, dimension))
    codes = np.repeat(np.arange(12), 20)
    features = unit(features.reshape(-1, dimension)).astype(np.float32)
    return BaseItems(features, codes, np.arange(12), shots, 4, features, codes)


@loop("name", ["meta_bce", "ood_maml"])
def test_the_start_rejects_as_many_items_as_are_unknown(name):
    """On other tasks than those that set the threshold, half of which is unknown."""
    from handful.training.heads.head import TaskSampler
    from handful.training.heads.learned_base import HEADS

    items = items_of_classes()
    head = HEADS[name]
    arrays = {key: np.asarray(a, np.float32) for key, a in head.start(items, np.random.default_rng(0)).items()}
    drawer = TaskSampler(items.codes, items.classes, 4, 4, 10)
    means = []
    for shots in items.shots:
        tasks = drawer.draw(np.random.default_rng(9), 60, shots)
        scores = head.score(arrays, items.features[tasks.support], tasks.labels, items.features[tasks.query])[1]
        assert (scores >= 0).all()
        assert (scores <= 1).all()
        means.append(scores.mean())
    assert np.mean(means) == pytest.approx(0.5, abs=0.03)
