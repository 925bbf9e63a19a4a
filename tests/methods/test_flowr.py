"""FLOWR: its distributions, the prior of a new class, arrivals, and where its head starts."""

import numpy as np
import pytest
from bases import base_for
from loops import loop
from random_tasks import random_task
from scipy.stats import multivariate_normal

import handful
from handful.core.arrays import unit


def head_64(base):
    return {name: value.astype(np.float64) for name, value in base.heads["flowr"].items()}


def solve(task, base, **options):
    return handful.solve(*task, method="flowr", base=base, preparation="none", dtype="float64", threads=1, **options)


@pytest.fixture
def task():
    return random_task(np.random.default_rng(4), 3, [4, 5, 3], 12, 10)


def item_by_item(support, labels, query, head, unknown=()):
    """P(class), P(new) of each query by scipy, one class at a time."""
    between, within = np.exp(head["log_between"]), np.exp(head["log_within"])
    groups = [support[labels == k] for k in range(labels.max() + 1)] + [u[None] for u in unknown]
    answers = []
    for q in query:
        e, joint = q @ head["embedding"], []
        for group in [*groups, support[:0]]:
            n = len(group)
            variance = 1 / (1 / between + n / within)
            mean = variance * (head["prior_mean"] / between + (group @ head["embedding"]).sum(axis=0) / within)
            density = multivariate_normal(mean, np.diag(variance + within)).pdf(e)
            prior = n if n else np.exp(head["log_alpha"][0])
            joint.append(prior * density ** (1 / np.exp(head["log_temperature"][0])))
        answers.append(np.array(joint) / sum(joint))
    return np.array(answers)


def test_item_by_item(task):
    base = base_for(10)
    result = solve(task, base)
    for i, (support, labels, query) in enumerate(zip(*task, strict=True)):
        p = item_by_item(support, labels, query, head_64(base))
        np.testing.assert_allclose(result.probabilities[i], p[:, :-1], atol=1e-9)
        np.testing.assert_allclose(result.outlier_scores[i], p[:, -1], atol=1e-9)
    np.testing.assert_allclose(result.probabilities.sum(axis=-1) + result.outlier_scores, 1, atol=1e-12)


def test_examples_of_no_class_are_opened_classes_of_one_item(task):
    base, unknown = base_for(10), np.random.default_rng(9).normal(size=(3, 2, 10))
    result = solve(task, base, unknown=unknown)
    for i, (support, labels, query) in enumerate(zip(*task, strict=True)):
        p = item_by_item(support, labels, query, head_64(base), unknown[i])
        np.testing.assert_allclose(result.outlier_scores[i], p[:, 3:].sum(axis=1), atol=1e-9)
    near = 0.1 * task[0][:1], task[1][:1], 0.1 * unknown[:1]
    assert (solve(near, base, unknown=near[2]).outlier_scores > solve(near, base).outlier_scores).all()


@loop("arrivals", [False, True])
@loop(("alpha", "score"), [(1e-30, 0), (1e30, 1)])
def test_alpha_decides_whether_anything_is_new(task, alpha, score, arrivals):
    support, labels, query = task
    result = solve((unit(support), labels, unit(query)), base_for(10), alpha=alpha, arrivals=arrivals)
    np.testing.assert_allclose(result.outlier_scores, score, atol=1e-6)


# ----------------------------------------------------------------------------------------------------------- arrivals


def arrivals_by_hand(support, labels, query, head):
    """The process for one task: lists of members, all computed again for each arrival."""
    groups = [list(support[labels == k]) for k in range(labels.max() + 1)]
    ways, answers, joined = len(groups), [], []
    for q in query:
        members = np.array([item for group in groups for item in group])
        codes = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        p = item_by_item(members, codes, q[None], head)[0]
        answers.append([*p[:ways], p[ways:].sum()])
        joined.append(int(p.argmax()))
        if joined[-1] == len(groups):
            groups.append([])
        groups[joined[-1]].append(q)
    return np.array(answers), joined, groups


def test_arrivals_are_those_of_a_plain_loop():
    base = base_for(4)
    task = random_task(np.random.default_rng(1), 3, [3, 2], 60, 4)
    result = solve(task, base, arrivals=True)
    opened = set()
    for i, (support, labels, query) in enumerate(zip(*task, strict=True)):
        answers, joined, groups = arrivals_by_hand(support, labels, query, head_64(base))
        np.testing.assert_allclose(result.probabilities[i], answers[:, :-1], atol=1e-8)
        np.testing.assert_allclose(result.outlier_scores[i], answers[:, -1], atol=1e-8)
        np.testing.assert_array_equal(result.state["joined"][i], joined)
        k = len(groups)
        np.testing.assert_array_equal(result.state["counts"][i, :k], [len(group) for group in groups])
        assert not result.state["counts"][i, k:].any()
        sums = [np.sum(group, axis=0) @ head_64(base)["embedding"] for group in groups]
        np.testing.assert_allclose(result.state["sums"][i, :k], sums, atol=1e-8)
        opened.add(k)
    assert min(opened) > 2
    assert len(opened) > 1  # tasks of one batch open different numbers of classes


def test_an_estimator_grows_and_a_saved_one_scores_by_the_opened_classes(tmp_path):
    support, labels, query = (x[0] for x in random_task(np.random.default_rng(3), 1, [4, 5], 60, 6))
    given = {"base": base_for(6), "arrivals": True}
    X, y = np.concatenate([support, query]), np.concatenate([labels, np.full(60, -1)])
    whole = handful.estimators.FLOWR(**given).fit(X, y)
    parts = handful.estimators.FLOWR(**given).fit(X[:49], y[:49])
    for i in range(49, len(X), 4):
        parts.partial_fit(X[i : i + 4])
    np.testing.assert_allclose(parts.outlier_scores_, whole.outlier_scores_, atol=1e-5)
    np.testing.assert_array_equal(parts.state_["joined"], whole.state_["joined"])
    assert whole.state_["joined"].max() >= 2  # something was opened
    again = handful.load(whole.save(tmp_path / "m.safetensors", items=True))
    np.testing.assert_array_equal(again.score_samples(query), whole.score_samples(query))
    alone = handful.estimators.FLOWR(base=base_for(6)).fit(X, y)
    assert np.abs(alone.score_samples(query) - whole.score_samples(query)).max() > 0.01


def test_the_start_recovers_the_parameters_of_simulated_data(monkeypatch):
    """Three directions differ between classes, the other five do not."""
    from handful.training.heads import flowr as learning
    from handful.training.heads.head import BaseItems

    monkeypatch.setattr(learning, "SHRINKAGE", 0.0)  # without it the metric is that of s itself
    rng = np.random.default_rng(5)
    between, within = np.array([4.0, 2.0, 1.0, 0, 0, 0, 0, 0]), np.array([1, 0.5, 0.25, 1, 0.5, 1, 0.5, 1.0])
    rotation = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    means = 0.3 + rng.normal(size=(300, 8)) * between**0.5
    features = ((means[:, None] + rng.normal(size=(300, 40, 8)) * within**0.5) @ rotation).reshape(-1, 8)
    codes = np.repeat(np.arange(300), 40)
    items = BaseItems(features, codes, np.arange(300), (1, 5), 5, features, codes)
    arrays = learning.start(items, np.random.default_rng(0))
    ratio = np.exp(arrays["log_between"] - arrays["log_within"])
    np.testing.assert_allclose(ratio[:3], np.sort(between / within)[::-1][:3], rtol=0.15)
    assert (ratio[3:] < 0.02).all()
    np.testing.assert_allclose(np.exp(arrays["log_within"]), 1, rtol=0.05)
    prior_mean = arrays["prior_mean"] @ np.linalg.inv(arrays["embedding"]) @ rotation.T
    np.testing.assert_allclose(prior_mean, 0.3, atol=0.3)
    assert arrays["log_temperature"][0] == pytest.approx(0, abs=0.3)  # the model is true: no heat is needed
    assert np.exp(arrays["log_alpha"][0]) == pytest.approx(5 * 5**0.5)


@pytest.mark.torch
def test_torch_gives_what_numpy_gives_with_arrivals(task):
    import torch

    support, labels, query = task
    given = {"base": base_for(10), "dtype": "float64", "arrivals": True, "method": "flowr"}
    a = handful.solve(*task, **given)
    b = handful.solve(torch.tensor(support), labels, torch.tensor(query), **given)
    np.testing.assert_allclose(b.outlier_scores.numpy(), a.outlier_scores, atol=1e-9)
    np.testing.assert_array_equal(b.state["joined"].numpy(), a.state["joined"])
