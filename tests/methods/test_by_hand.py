"""Each method against a computation of its own kind, in the equations' own words.

On features as they are given (preparation="none"), one task and one item at a time, in double precision.
"""

from math import exp, log

import numpy as np
import pytest
from loops import loop
from random_tasks import means_of, random_task, softmax_of
from scipy.special import expit, log_softmax, logsumexp, softmax
from scipy.stats import skew, weibull_min

import handful


def run(name, *task, **options):
    return handful.solve(*task, method=name, **{"dtype": "float64", "threads": 1, "preparation": "none"} | options)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


# ------------------------------------------------------------------------------------------------ rounds over a pile


def simpleshot(support, labels, query, *, temperature):
    p = np.array([softmax_of([temperature * cosine(q, m) for m in means_of(support, labels)]) for q in query])
    return p, -p.max(axis=1)


def rectified(support, labels, query):
    """BD-CSPN's prototypes."""
    means = means_of(support, labels)
    shifted = query + support.mean(axis=0) - query.mean(axis=0)
    pseudo = np.array([np.argmax([cosine(q, c) for c in means]) for q in shifted])
    prototypes = []
    for j, mean in enumerate(means):
        members = [*support[labels == j], *shifted[pseudo == j]]
        weights = np.array([exp(cosine(z, mean)) for z in members])
        prototypes.append(weights @ members / weights.sum())
    return prototypes


def bdcspn(support, labels, query):
    prototypes = rectified(support, labels, query)
    p = np.array([softmax_of([cosine(q, c) for c in prototypes]) for q in query])
    return p, -p.max(axis=1)


def laplacianshot(support, labels, query):
    a = np.array([[(q - c) @ (q - c) for c in rectified(support, labels, query)] for q in query])
    w = np.zeros((len(query), len(query)))
    for i, q in enumerate(query):
        w[i, np.argsort(((query - q) ** 2).sum(axis=1))[1:3]] = 1
    y, energy = softmax(-a, axis=1), None
    for i in range(20):
        y = softmax(-a + 0.1 * w @ y, axis=1)
        now = (y * np.log(np.maximum(y, 1e-20)) + a * y - 0.1 * (w @ y) * y).sum()
        if i >= 2 and abs(now - energy) <= 1e-6 * abs(energy):
            break
        energy = now
    return y, -y.max(axis=1)


def oslo(support, labels, query):
    c = means_of(support, labels)
    z = np.full((len(query), len(c)), 1 / len(c))
    for _ in range(2):
        cosines = np.array([[cosine(q, m) for m in c] for q in query])
        inlier = expit((z * cosines).sum(axis=1) / 0.05)
        z = softmax(inlier[:, None] * cosines / 0.1, axis=1)
        for j in range(len(c)):
            own, weights = support[labels == j], inlier * z[:, j]
            c[j] = (own.sum(axis=0) + weights @ query) / (len(own) + weights.sum())
    return np.array([softmax_of([cosine(q, m) for m in c]) for q in query]), 1 - inlier


def soft_kmeans(support, labels, query, *, rounds, radius, temperature, beta, gamma):
    c = means_of(support, labels)

    def assign():
        d = np.array([[(q - m) @ (q - m) for m in c] for q in query])
        origin = [-temperature * (q @ q) / radius**2 - log(radius) for q in query]
        return d, softmax(np.column_stack([-temperature * d, origin]), axis=1)

    for _ in range(rounds):
        d, z = assign()
        for j in range(len(c)):
            weights = z[:, j] * expit(gamma * (beta - d[:, j] / d[:, j].mean()))
            own = support[labels == j]
            c[j] = (own.sum(axis=0) + weights @ query) / (len(own) + weights.sum())
    z = assign()[1]
    return z[:, :-1], z[:, -1]


def pt_map(support, labels, query):
    c = means_of(support, labels)

    def plan():
        """By plain scaling of rows and columns in turn, long enough."""
        kernel, column = np.exp(-10 * ((query[:, None] - c) ** 2).sum(axis=-1)), np.ones(len(c))
        for _ in range(3000):
            row = 1 / (kernel @ column)
            column = len(query) // len(c) / (kernel.T @ row)
        return row[:, None] * kernel * column

    for _ in range(10):
        p = plan()
        for j in range(len(c)):
            own = support[labels == j]
            c[j] += 0.2 * ((own.sum(axis=0) + p[:, j] @ query) / (len(own) + p[:, j].sum()) - c[j])
    p = plan()
    p /= p.sum(axis=1, keepdims=True)
    return p, -p.max(axis=1)


KNOBS = {
    simpleshot: {"temperature": 3.0},
    soft_kmeans: {"rounds": 4, "radius": 1.3, "temperature": 2.0, "beta": 0.8, "gamma": 4.0},
}


@loop("n_query", [16, 18])  # as many for each class, and two too many
@loop("by_hand", [simpleshot, bdcspn, laplacianshot, oslo, soft_kmeans, pt_map])
def test_it_is_its_equations_item_by_item(by_hand, n_query):
    """Its transport comes to rest at a tolerance of 1e-6, so PT-MAP is that near; the rest are exact."""
    support, labels, query = random_task(np.random.default_rng(n_query), 2, [5, 4, 6, 5], n_query, 8)
    support, query = support / 4, query / 4  # distances around 1
    result = run(by_hand.__name__, support, labels, query, **KNOBS.get(by_hand, {}))
    for i in range(2):
        p, scores = by_hand(support[i], labels[i], query[i], **KNOBS.get(by_hand, {}))
        near = {"atol": 1e-4 if by_hand is pt_map else 1e-10, "rtol": 0}
        np.testing.assert_allclose(result.probabilities[i], p, **near)
        np.testing.assert_allclose(result.outlier_scores[i], scores, **near)


def test_sigmoids_saturate_without_overflow():
    """Single precision, where exp(89) is infinite; a warning of it would be an error here."""
    task = random_task(np.random.default_rng(17), 1, [3, 3], 12, 6, np.float32)
    support, labels, query = (x[0] for x in task)
    scores = run("oslo", *task, rounds=1, lambda_xi=1e-5, dtype="float32").outlier_scores[0]
    cosines = [[cosine(q, c) for c in means_of(support, labels)] for q in query]
    np.testing.assert_allclose(scores, np.mean(cosines, axis=1) < 0, atol=1e-7)
    knobs = {"rounds": 1, "radius": 1.0, "temperature": 0.1, "beta": 1.0, "gamma": 1e6}
    steep = run("soft_kmeans", *task, **knobs, dtype="float32")
    p, scores = soft_kmeans(support, labels, query, **knobs)
    np.testing.assert_allclose(steep.probabilities[0], p, atol=1e-5)
    np.testing.assert_allclose(steep.outlier_scores[0], scores, atol=1e-5)


# --------------------------------------------------------------------------------- descents, by differences of the loss

TASK = random_task(np.random.default_rng(14), 1, [5, 3, 4], 14, 9)
SUPPORT, LABELS, QUERY = (x[0] for x in TASK)
ROWS = np.arange(len(LABELS))


def descent(loss, x, learning_rate, steps=5):
    """Adam, by the central differences of the loss of each number in x."""
    first, second, apart = 0, 0, 1e-5 * np.eye(x.size).reshape(-1, *x.shape)
    for t in range(1, steps + 1):
        slope = np.array([loss(x + d) - loss(x - d) for d in apart]).reshape(x.shape) / 2e-5
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        x = x - learning_rate * first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
    return x


def cross_entropy(logits, classes):
    return -log_softmax(logits, axis=1)[np.arange(len(classes)), classes].mean()


def negative_entropy(p):
    return (p * np.log(p)).sum(axis=-1)


def eol_joint(l, b=0.3):
    known = expit(logsumexp(l, axis=1) - log(l.shape[1]) + log(b))
    return known[:, None] * softmax(l, axis=1)


def eol_loss(l_support, l_query, b=0.3):
    p, ways = eol_joint(l_query), l_query.shape[1]
    m, m_out = ways / (1 - b) * p.mean(axis=0), (1 - p.sum(axis=1)).mean() / b
    ce = -np.log(eol_joint(l_support)[ROWS, LABELS]).mean()
    return ce - negative_entropy(p).mean() / ways + negative_entropy(m) / ways + m_out * log(m_out)


def and_outlier(l):
    return np.column_stack([l, -l.mean(axis=1)])


def ostim_loss(l_support, l_query):
    return tim_gd_loss(and_outlier(l_support), and_outlier(l_query))


def tim_gd_loss(l_support, l_query):
    p = softmax(l_query, axis=1)
    return cross_entropy(l_support, LABELS) + negative_entropy(p.mean(axis=0)) - 0.1 * negative_entropy(p).mean()


def finetune_loss(l_support, l_query):
    return cross_entropy(l_support, LABELS)


def least_sure(l):
    return -softmax(l, axis=1).max(axis=1)


DESCENTS = {  # the loss of the logits of examples and pile; the outlier scores by those of the pile
    "eol": (eol_loss, lambda l: 1 - eol_joint(l).sum(axis=1), {"b": 0.3, "learn": ("prototypes",)}),
    "ostim": (ostim_loss, lambda l: softmax(and_outlier(l), axis=1)[:, -1], {}),
    "tim_gd": (tim_gd_loss, least_sure, {}),
    "finetune": (finetune_loss, least_sure, {}),
}


@loop("backend", ["array", "auto"])
@loop("name", DESCENTS)
def test_methods_on_the_engine_descend_their_loss(name, backend):
    """The mean is subtracted inside: OSTIM's own equations, and what centring first means for the others."""
    loss, score, knobs = DESCENTS[name]
    mu = np.concatenate([SUPPORT, QUERY]).mean(axis=0)

    def logits(items, c):
        return 6 * unit(items - mu) @ unit(c - mu).T

    c = descent(lambda c: loss(logits(SUPPORT, c), logits(QUERY, c)), means_of(SUPPORT, LABELS), 0.01)
    knobs = knobs | {"temperature": 6.0, "steps": 5, "learning_rate": 0.01}
    result = run(name, *TASK, preparation="task", backend=backend, **knobs)
    np.testing.assert_allclose(result.state["prototypes"][0], c - mu, atol=1e-6)
    np.testing.assert_allclose(result.outlier_scores[0], score(logits(QUERY, c)), atol=1e-6)
    if name != "eol":  # which refines its prototypes once more for the classes
        np.testing.assert_allclose(result.probabilities[0], softmax(logits(QUERY, c), axis=1), atol=1e-6)


def test_proser_descends_its_loss():
    start = run("proser", *TASK, steps=0).state
    start = np.column_stack([start["weight"][0], start["bias"][0]])
    assert np.abs(start[:, :-1]).max() <= 9**-0.5
    assert start[:, :-1].std() == pytest.approx(9**-0.5 / 3**0.5, rel=0.3)  # uniform in +-1/sqrt(D)

    def loss(head):
        logits = SUPPORT @ head[:, :-1].T + head[:, -1]
        masked = np.where(np.eye(4, dtype=bool)[LABELS], -np.inf, logits)
        return cross_entropy(logits, LABELS) + 0.3 * cross_entropy(masked, np.full_like(LABELS, 3))

    head = descent(loss, start, 0.01)
    result = run("proser", *TASK, steps=5, learning_rate=0.01, lambda_dummy=0.3)
    np.testing.assert_allclose(np.column_stack([result.state["weight"][0], result.state["bias"][0]]), head, atol=1e-6)
    logits = QUERY @ head[:, :-1].T + head[:, -1]
    np.testing.assert_allclose(result.outlier_scores[0], logits[:, 3], atol=1e-5)
    np.testing.assert_allclose(result.probabilities[0], softmax(logits[:, :3], axis=1), atol=1e-5)


def test_rpl_descends_its_loss():
    """Not to the last digit: the slopes of the margins are 0 at the start, and Adam enlarges what rounding leaves."""

    def squares(items, points):
        return ((items[:, None] - points) ** 2).sum(axis=-1)

    def loss(parameters):
        d, margin = squares(SUPPORT, parameters[:, :-1]), parameters[LABELS, -1]
        return cross_entropy(0.5 * d, LABELS) + 0.2 * ((d[ROWS, LABELS] - margin) ** 2).mean()

    start = [np.delete(means_of(SUPPORT, LABELS), j, axis=0).mean(axis=0) for j in range(3)]
    margin = [squares(SUPPORT, start)[j == LABELS, j].mean() for j in range(3)]
    points = descent(loss, np.column_stack([start, margin]), 0.02)[:, :-1]
    result = run("rpl", *TASK, steps=5, learning_rate=0.02, gamma=0.5, lambda_open=0.2)
    np.testing.assert_allclose(result.state["points"][0], points, atol=2e-4)
    d = squares(QUERY, points)
    np.testing.assert_allclose(result.outlier_scores[0], -d.max(axis=1), atol=2e-3)
    np.testing.assert_allclose(result.probabilities[0], softmax(0.5 * d, axis=1), atol=1e-3)


# ------------------------------------------------------------------------------------ distances, Gaussians and forests


@loop(("shots", "tail"), [(5, 20), (10, 20), (10, 6)])  # of 5, too few for a class's own, all classes have one model
def test_openmax_revises_an_item_as_by_hand(shots, tail):
    support, labels, query = random_task(np.random.default_rng(7), 1, [shots] * 3, 4, 6)
    result = run("openmax", support, labels, query, preparation="l2", alpha=2, tail=tail)
    support, query = unit(support[0]), unit(query[0])
    means = means_of(support, labels[0])

    def left_out(j):
        own = support[labels[0] == j]
        return [np.linalg.norm(own[i] - np.delete(own, i, axis=0).mean(axis=0)) for i in range(shots)]

    for item, p, outlier in zip(query, result.probabilities[0], result.outlier_scores[0], strict=True):
        d = [float(np.linalg.norm(item - m)) for m in means]
        v, w = [2 - x for x in d], [1.0] * 3
        for rank, j in enumerate(np.argsort(d)[:2]):
            distances = left_out(j) if shots == 10 else left_out(0) + left_out(1) + left_out(2)
            fit = weibull_min.fit(sorted(distances)[-tail:], floc=0)
            w[j] = 1 - (2 - rank) / 2 * weibull_min.cdf(d[j], *fit)
        expected = softmax_of([*(v[j] * w[j] for j in range(3)), sum(v[j] * (1 - w[j]) for j in range(3))])[3]
        assert outlier == pytest.approx(expected, abs=1e-4)
        np.testing.assert_allclose(p, (1 - expected) * softmax_of(v), atol=1e-4)


@loop(("k", "neighbours"), [(1, 1), (3, 3), (100, 15)])  # more than there are: all of them
def test_knn_is_scikit_learns_mean_distance(k, neighbours):
    from sklearn.neighbors import NearestNeighbors

    support, labels, query = random_task(np.random.default_rng(10), 2, [5, 5, 5], 9, 6)
    result = run("knn", support, labels, query, k=k)
    for i in range(2):
        distances, _ = NearestNeighbors(n_neighbors=neighbours).fit(support[i]).kneighbors(query[i])
        np.testing.assert_allclose(result.outlier_scores[i], distances.mean(axis=1), atol=1e-12)


def test_gda_is_the_mahalanobis_distance_of_scikit_learns_shrunk_covariance():
    from sklearn.covariance import OAS

    support, labels, query = random_task(np.random.default_rng(13), 2, [5, 4, 6], 9, 20)
    result, relative = (run(name, support, labels, query) for name in ("gda", "relative_mahalanobis"))
    for i in range(2):
        means = means_of(support[i], labels[i])
        within = OAS(assume_centered=True).fit(support[i] - means[labels[i]])
        d = np.stack([within.mahalanobis(query[i] - mean) for mean in means], axis=1)
        np.testing.assert_allclose(result.outlier_scores[i], d.min(axis=1), rtol=1e-9)
        np.testing.assert_allclose(result.probabilities[i], softmax(-d / 2, axis=1), atol=1e-9)
        background = OAS().fit(support[i]).mahalanobis(query[i])
        np.testing.assert_allclose(relative.outlier_scores[i], d.min(axis=1) - background, rtol=1e-7, atol=1e-9)


def test_isolation_forest_is_pyods_on_centred_unit_features():
    models = pytest.importorskip("pyod.models.iforest")
    result = run("iforest", *TASK, preparation="task, l2", trees=15, random_state=4)
    both = np.concatenate([SUPPORT, QUERY])
    both = unit(both - both.mean(axis=0))
    fitted = models.IForest(n_estimators=15, max_features=0.75, random_state=4).fit(both[: len(SUPPORT)])
    np.testing.assert_allclose(result.outlier_scores[0], fitted.decision_function(both[len(SUPPORT) :]), rtol=1e-9)


SHAPES = {  # shots, items, features
    "more features than examples": ([5, 4, 6], 9, 20), "fewer features than examples": ([9, 7, 8], 9, 6),
    "unequal shots": ([1, 2, 7], 9, 12), "one class": ([4], 9, 8), "one item": ([3, 3], 1, 8),
    "one shot": ([1, 1, 1], 12, 9), "fewer items than neighbours": ([2, 3], 3, 8),
}  # fmt: skip


@loop("shape", list(SHAPES)[:4])
def test_gda_clip_is_the_papers_linear_classifier(shape):
    shots, n_query, dimension = SHAPES[shape]
    support, labels, query = random_task(np.random.default_rng(0), 2, shots, n_query, dimension)
    result = run("gda_clip", support, labels, query)
    for i in range(2):
        means, n = means_of(support[i], labels[i]), len(labels[i])
        covariance = np.cov((support[i] - means[labels[i]]).T)
        ridge = (n - 1) * covariance + np.trace(covariance) * np.eye(dimension)
        precision = dimension * np.linalg.inv(ridge)
        for q, p, outlier in zip(query[i], result.probabilities[i], result.outlier_scores[i], strict=True):
            logits = [q @ precision @ mu + log(1 / len(shots)) - mu @ precision @ mu / 2 for mu in means]
            np.testing.assert_allclose(p, softmax_of(logits), atol=1e-9)
            assert outlier == pytest.approx(min((q - mu) @ precision @ (q - mu) for mu in means), rel=1e-9)


# ----------------------------------------------------------------------------------------------------------- TransCLIP


def log_densities(items, mu, variances, temperature):
    """Of normal distributions, without the constant that all classes share, as a mean over the features."""
    return np.array([[-temperature / 2 * ((f - m) ** 2 / variances).mean() for m in mu] for f in items])


def nearest_cosines(items, pile, k):
    """To the k nearest of the pile, of which an item itself is none."""
    cosines = items @ pile.T - 9 * (items[:, None] == pile).all(axis=-1)
    limit = np.sort(cosines, axis=1)[:, len(pile) - k :].min(axis=1, initial=9, keepdims=True)
    return np.where(cosines >= limit, np.maximum(cosines, 0), 0)


def transclip(support, labels, query, *, rounds, gamma, shrinkage, temperature, neighbours, strength):
    support, query = unit(support), unit(query)
    s, n, ways = len(support), len(query), labels.max() + 1
    spread = support.var(axis=0).mean() / 2  # half of the variance of all examples
    mu, variances = unit(means_of(support, labels)), np.full(support.shape[1], spread)
    k = min(neighbours, n - 1)
    w = nearest_cosines(query, query, k)
    logits = log_densities(query, mu, variances, temperature)
    z = softmax(logits, axis=1)
    for i in range(rounds + 1):
        for _ in range(5):
            votes = strength / (2 * k) * (w + w.T) @ z if k else 0 * z
            z = softmax(logits + votes, axis=1)
        if i == rounds:
            return z, -np.log(np.exp(logits).sum(axis=1)), mu, variances
        for j in range(ways):
            mu[j] = unit(gamma / s * support[labels == j].sum(axis=0) + z[:, j] @ query / n)
        v = gamma / s * ((support - mu[labels]) ** 2).sum(axis=0)
        v = (v + sum(z[i, j] / n * (query[i] - mu[j]) ** 2 for i in range(n) for j in range(ways))) / (gamma + 1)
        variances = (1 - shrinkage) * v + shrinkage * v.mean()
        logits = log_densities(query, mu, variances, temperature)
    raise AssertionError("the last round returns")


TRANSCLIP = {"rounds": 3, "gamma": 0.7, "shrinkage": 0.4, "temperature": 4.0, "neighbours": 3, "strength": 2.0}


@loop("shape", SHAPES)
def test_transclip_is_its_equations_item_by_item(shape):
    shots, n_query, dimension = SHAPES[shape]
    support, labels, query = random_task(np.random.default_rng(4), 2, shots, n_query, dimension)
    result = run("transclip", support, labels, query, **TRANSCLIP)
    for i in range(2):
        z, scores, _, _ = transclip(support[i], labels[i], query[i], **TRANSCLIP)
        np.testing.assert_allclose(result.probabilities[i], z, atol=1e-9)
        np.testing.assert_allclose(result.outlier_scores[i], scores, atol=1e-9)


def test_transclip_solves_a_sample_of_a_large_pile_and_scores_the_rest(monkeypatch):
    """The graph is quadratic in the pile; each item outside the sample is scored as a new item."""
    from dataclasses import replace

    from handful.engines import share
    from handful.methods.registry import METHODS

    monkeypatch.setitem(METHODS, "transclip", replace(METHODS["transclip"], max_queries=9))
    result, rows = run("transclip", *TASK, **TRANSCLIP), share.sample(14, 9)
    z, scores, _, _ = transclip(SUPPORT, LABELS, QUERY[rows], **TRANSCLIP)
    np.testing.assert_allclose(result.probabilities[0, rows], z, atol=1e-9)
    np.testing.assert_allclose(result.outlier_scores[0, rows], scores, atol=1e-9)
    assert result.probabilities.shape == (1, 14, 3)
    assert np.isfinite(result.outlier_scores).all()


# ------------------------------------------------------------------------------- new items, which the pile did not hold

X, Y = np.concatenate([QUERY, SUPPORT]), np.r_[np.full(len(QUERY), -1), LABELS]
NEW = QUERY + np.random.default_rng(8).normal(scale=0.5, size=QUERY.shape)


def fitted(name, x=X, **knobs):
    return handful.make_estimator(name, dtype="float64", preparation="none", **knobs).fit(x, Y)


def test_a_new_item_takes_the_votes_of_its_nearest_of_the_pile_in_transclip():
    model = fitted("transclip", **TRANSCLIP)
    z, _, mu, variances = transclip(SUPPORT, LABELS, QUERY, **TRANSCLIP)
    logits = log_densities(unit(NEW), mu, variances, TRANSCLIP["temperature"])
    votes = TRANSCLIP["strength"] / 3 * nearest_cosines(unit(NEW), unit(QUERY), 3) @ z
    np.testing.assert_allclose(model.predict_proba(NEW), softmax(logits + votes, axis=1), atol=1e-9)
    np.testing.assert_allclose(-model.score_samples(NEW), -np.log(np.exp(logits).sum(axis=1)), atol=1e-9)


def test_a_new_item_takes_the_votes_of_its_two_nearest_of_the_pile_in_laplacianshot():
    model = fitted("laplacianshot", X / 4, strength=0.4)
    prototypes = np.array(rectified(SUPPORT / 4, LABELS, QUERY / 4))
    for item, p in zip(NEW / 4, model.predict_proba(NEW / 4), strict=True):
        near = np.argsort(((QUERY / 4 - item) ** 2).sum(axis=1))[:2]
        votes = model.label_distributions_[near].sum(axis=0)
        np.testing.assert_allclose(p, softmax_of(-((item - prototypes) ** 2).sum(axis=1) + 0.4 * votes), atol=1e-10)


def test_a_new_item_is_held_against_examples_and_pile_in_copod():
    """Counting by hand; an item beyond all others counts as the outermost."""
    pytest.importorskip("pyod")
    new = np.concatenate([NEW, [X.max(axis=0) + 5, X.max(axis=0)]])
    scores = -fitted("copod").score_samples(new)
    assert scores[-2] == scores[-1]
    for item, score in zip(new, scores, strict=True):
        total = 0.0
        for column, v in zip(X.T, item, strict=True):
            left = -log(max(1, sum(column <= v)) / len(column))
            right = -log(max(1, sum(column >= v)) / len(column))
            total += max(right if skew(column) > 0 else left, (left + right) / 2)
        assert score == pytest.approx(total, rel=1e-9)
