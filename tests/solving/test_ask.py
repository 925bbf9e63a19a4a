"""What to ask next: few, different items whose answers change most."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import handful
from handful.solving.ask import belief, worth_asking


def test_of_copies_one_is_asked_and_items_that_are_sure_are_not():
    chosen = worth_asking(np.repeat(np.eye(3), 4, axis=0), np.full((12, 2), 0.5), 3)
    assert sorted(chosen // 4) == [0, 1, 2]
    probabilities = np.tile([1.0, 0.0], (20, 1))
    probabilities[[3, 11]] = 0.5
    assert sorted(worth_asking(np.random.default_rng(0).normal(size=(20, 5)), probabilities, 2)) == [3, 11]


def test_the_first_choice_is_the_argmax_of_the_formula():
    rng = np.random.default_rng(1)
    features, probabilities = rng.normal(size=(30, 6)), rng.dirichlet(np.ones(4), size=30)
    x = features - features.mean(axis=0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    openness = [(-sum(q * np.log(q) for q in row) / np.log(4)) ** 0.5 for row in probabilities]
    gains = [openness[i] * sum(openness[j] * np.exp(4 * (x[i] @ x[j] - 1)) for j in range(30)) for i in range(30)]
    assert worth_asking(features, probabilities, 1)[0] == np.argmax(gains)


def test_each_new_group_is_asked_about():
    rng = np.random.default_rng(2)
    features = np.concatenate([5 * np.eye(6)[k] + rng.normal(scale=0.1, size=(10, 6)) for k in range(6)])
    probabilities = np.tile([0.02, 0.98], (60, 1))  # all look surely unknown
    groups = [np.arange(10 * k, 10 * k + 10) for k in range(3, 6)]
    chosen = worth_asking(features, probabilities, 3, groups=groups)
    assert sorted(chosen // 10) == [3, 4, 5]


def test_excluded_items_and_more_items_than_there_are():
    probabilities = np.full((5, 2), 0.5)
    assert sorted(worth_asking(np.eye(5), probabilities, 9, exclude=[1, 3])) == [0, 2, 4]
    assert len(worth_asking(np.eye(5), probabilities, 0)) == 0
    with pytest.raises(ValueError, match="5 items and probabilities of 4"):
        worth_asking(np.eye(5), probabilities[:4], 2)


def test_beliefs_are_probabilities_also_where_scores_only_rank():
    rng = np.random.default_rng(3)
    features = 3 * np.eye(12)[np.repeat([0, 1], 20)] + rng.normal(scale=0.5, size=(40, 12))
    for method in ("auto", "knn"):
        solved = handful.solve(features[[0, 1, 20, 21]], [0, 0, 1, 1], features[2:20], method=method)
        p = belief(solved)
        assert p.shape == (18, 3)
        assert np.allclose(p.sum(axis=1), 1)
    assert ((p[:, -1] > 0.5) == solved.unknown).mean() > 0.9


def test_answers_to_what_is_asked_help_more_than_random_ones():
    X, digit = load_digits(return_X_y=True)
    accuracy = {"none": [], "ask": [], "random": []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(X))
        support = np.concatenate([order[digit[order] == k][:2] for k in range(4)])
        pile = np.setdiff1d(order, support)[:150]
        truth = np.where(digit[pile] < 4, digit[pile], -1)
        first = handful.solve(X[support], digit[support], X[pile])
        accuracy["none"].append((first.labels == truth).mean())
        for name, rows in (("ask", first.ask(10)), ("random", rng.permutation(150)[:10])):
            known, unknown = rows[truth[rows] >= 0], rows[truth[rows] < 0]
            rest = np.setdiff1d(np.arange(150), rows)
            examples = np.concatenate([support, pile[known]])
            after = handful.solve(X[examples], digit[examples], X[pile[rest]], unknown=X[pile[unknown]])
            accuracy[name].append(((after.labels == truth[rest]).sum() + 10) / 150)
    means = {name: np.mean(values) for name, values in accuracy.items()}
    assert means["ask"] > means["random"] > means["none"], means
