"""GDA-CLIP and TransCLIP against dense inverses and densities, item by item, and at their limits."""

from math import log

import numpy as np
import pytest
from loops import loop
from random_tasks import means_of, random_task, softmax_of
from scipy.stats import multivariate_normal

import handful

SHAPES = {
    "more features than examples": ([5, 4, 6], 9, 20),
    "fewer features than examples": ([9, 7, 8], 9, 6),
    "unequal shots": ([1, 2, 7], 9, 12),
    "one class": ([4], 9, 8),
    "one item": ([3, 3], 1, 8),
}


def run(name, *task, **options):
    return handful.solve(*task, method=name, **{"dtype": "float64", "threads": 1, "preparation": "none"} | options)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def assert_same(a, b, **near):
    near = near or {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(a.probabilities, b.probabilities, **near)
    np.testing.assert_allclose(a.outlier_scores, b.outlier_scores, **near)


# ------------------------------------------------------------------------------------------------------------ GDA-CLIP


def ridge_precision(support, labels):
    """P of the paper, by an explicit inverse of a matrix of D x D."""
    n, d = support.shape
    residuals = support - means_of(support, labels)[labels]
    covariance = np.cov(residuals.T)  # divides by n - 1; the mean of residuals is 0
    return d * np.linalg.inv((n - 1) * covariance + np.trace(covariance) * np.eye(d))


@loop("shape", SHAPES)
def test_gda_clip_is_the_papers_linear_classifier(shape):
    shots, n_query, dimension = SHAPES[shape]
    support, labels, query = random_task(np.random.default_rng(0), 2, shots, n_query, dimension)
    result = run("gda_clip", support, labels, query)
    for i in range(2):
        means, precision = means_of(support[i], labels[i]), ridge_precision(support[i], labels[i])
        for q, p, outlier in zip(query[i], result.probabilities[i], result.outlier_scores[i], strict=True):
            logits = [q @ precision @ mu + log(1 / len(shots)) - mu @ precision @ mu / 2 for mu in means]
            np.testing.assert_allclose(p, softmax_of(logits), atol=1e-9)
            assert outlier == pytest.approx(min((q - mu) @ precision @ (q - mu) for mu in means), rel=1e-9)


@loop("shots", [(1,), (1, 1, 1), (4, 4)])
def test_gda_clip_is_gda_where_examples_show_no_covariance(shots):
    """One example of each class, or copies of one. GDA keeps a millionth of the residuals there."""
    support, labels, query = random_task(np.random.default_rng(3), 2, [1] * len(shots), 9, 7)
    support, labels = np.repeat(support, shots[0], axis=1), np.repeat(labels, shots[0], axis=1)
    assert_same(run("gda_clip", support, labels, query), run("gda", support, labels, query), rtol=1e-5, atol=1e-5)


# ----------------------------------------------------------------------------------------------------------- TransCLIP


def half_variance(support):
    """Half of the variance of all examples: the first variance of all features."""
    spread = ((support - support.mean(axis=0)) ** 2).mean() / 2
    return spread if spread > 1e-12 else 1.0


def log_densities(items, mu, variances, temperature):
    """SciPy's densities, without the constant that all classes share, as a mean over the features."""
    d = len(variances)
    constant = multivariate_normal.logpdf(np.zeros(d), np.zeros(d), np.diag(variances))
    rows = [[multivariate_normal.logpdf(f, m, np.diag(variances)) - constant for m in mu] for f in items]
    return temperature / d * np.array(rows)


def nearest_cosines(items, pile, k, is_pile):
    w = np.zeros((len(items), len(pile)))
    for i, f in enumerate(items):
        others = sorted((-float(f @ g), j) for j, g in enumerate(pile) if not (is_pile and i == j))
        for negative, j in others[:k]:
            w[i, j] = max(0.0, -negative)
    return w


def transclip_by_hand(support, labels, query, *, rounds, gamma, shrinkage, temperature, neighbours, strength):
    support, query = unit(support), unit(query)
    s, n, ways = len(support), len(query), labels.max() + 1
    mu, variances = unit(means_of(support, labels)), np.full(support.shape[1], half_variance(support))
    k = min(neighbours, n - 1)
    w = nearest_cosines(query, query, k, is_pile=True)
    logits = log_densities(query, mu, variances, temperature)
    z = np.array([softmax_of(row) for row in logits])
    for i in range(rounds + 1):
        for _ in range(5):
            votes = strength / (2 * k) * (w + w.T) @ z if k else 0 * z
            z = np.array([softmax_of(row) for row in logits + votes])
        if i == rounds:
            return z, -np.log(np.exp(logits).sum(axis=1)), mu, variances
        for j in range(ways):
            pull = gamma / s * support[labels == j].sum(axis=0) + sum(z[i, j] * query[i] for i in range(n)) / n
            mu[j] = unit(pull)
        v = sum(gamma / s * (f - mu[y]) ** 2 for f, y in zip(support, labels, strict=True))
        v = v + sum(z[i, j] / n * (query[i] - mu[j]) ** 2 for i in range(n) for j in range(ways))
        v = v / (gamma + 1)
        variances = (1 - shrinkage) * v + shrinkage * v.mean()
        logits = log_densities(query, mu, variances, temperature)
    raise AssertionError("the last round returns")


KNOBS = {"rounds": 3, "gamma": 0.7, "shrinkage": 0.4, "temperature": 4.0, "neighbours": 3, "strength": 2.0}


@loop("shape", [*SHAPES, "one shot", "fewer items than neighbours"])
def test_transclip_is_its_equations_item_by_item(shape):
    more = {"one shot": ([1, 1, 1], 12, 9), "fewer items than neighbours": ([2, 3], 3, 8)}
    shots, n_query, dimension = (SHAPES | more)[shape]
    support, labels, query = random_task(np.random.default_rng(4), 2, shots, n_query, dimension)
    result = run("transclip", support, labels, query, **KNOBS)
    for i in range(2):
        z, scores, _, _ = transclip_by_hand(support[i], labels[i], query[i], **KNOBS)
        np.testing.assert_allclose(result.probabilities[i], z, atol=1e-9)
        np.testing.assert_allclose(result.outlier_scores[i], scores, atol=1e-9)


def test_a_new_item_takes_the_votes_of_its_nearest_of_the_pile_in_transclip():
    support, labels, query = random_task(np.random.default_rng(7), 1, [3, 4, 5], 15, 8)
    new = query[0] + np.random.default_rng(8).normal(scale=0.5, size=query[0].shape)
    X, y = np.concatenate([query[0], support[0]]), np.r_[np.full(15, -1), labels[0]]
    model = handful.estimators.TransCLIP(dtype="float64", preparation="none", **KNOBS).fit(X, y)
    z, _, mu, variances = transclip_by_hand(support[0], labels[0], query[0], **KNOBS)
    logits = log_densities(unit(new), mu, variances, KNOBS["temperature"])
    votes = KNOBS["strength"] / 3 * nearest_cosines(unit(new), unit(query[0]), 3, is_pile=False) @ z
    expected = np.array([softmax_of(row) for row in logits + votes])
    np.testing.assert_allclose(model.predict_proba(new), expected, atol=1e-9)
    np.testing.assert_allclose(-model.score_samples(new), -np.log(np.exp(logits).sum(axis=1)), atol=1e-9)


# ---------------------------------------------------------------------------------------------------------------- both


def test_transclip_solves_a_sample_of_a_large_pile_and_scores_the_rest(monkeypatch):
    """The graph is quadratic in the pile; each item outside the sample is scored as a new item."""
    from dataclasses import replace

    from handful.engines import share
    from handful.methods.registry import METHODS

    support, labels, query = random_task(np.random.default_rng(10), 1, [4, 4], 40, 6)
    monkeypatch.setitem(METHODS, "transclip", replace(METHODS["transclip"], max_queries=25))
    result = run("transclip", support, labels, query, **KNOBS)
    rows = share.sample(40, 25)
    z, scores, _, _ = transclip_by_hand(support[0], labels[0], query[0, rows], **KNOBS)
    np.testing.assert_allclose(result.probabilities[0, rows], z, atol=1e-9)
    np.testing.assert_allclose(result.outlier_scores[0, rows], scores, atol=1e-9)
    assert result.probabilities.shape == (1, 40, 2)
    assert np.isfinite(result.outlier_scores).all()
