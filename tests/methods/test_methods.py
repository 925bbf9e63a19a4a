"""What holds for every registered method, and each method against a computation of its own."""

import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from math import exp, log

import numpy as np
import pytest
from bases import needed
from loops import loop
from random_tasks import means_of, random_task, softmax_of

import handful
from handful.methods.registry import entropy, maxprob
from handful.solving import get_solver

NEEDS = {"ood": "pyod"}  # extra -> a package it brings
WITHOUT = {extra: find_spec(package) is None for extra, package in NEEDS.items()}


def methods(but=()):
    """The names of all methods whose extra is installed."""
    infos = map(handful.describe, handful.list_methods())
    return [info.name for info in infos if info.name not in but and not WITHOUT.get(info.extra, False)]


NEED_BASE = {info.name for info in map(handful.describe, handful.list_methods()) if info.needs == "base"}
# A hundred trees say no more about these properties than ten.
CHEAP = {"iforest": {"trees": 10}}
# The published 50 steps of 0.001 are meant for 1,280 features: in a few dimensions the random start outweighs them.
TRAINED = {"proser": {"steps": 100, "learning_rate": 0.03}}
# In double precision: Adam takes the sign of a gradient near 0 for a direction, so that rounding shows.
CLOSE = {"rtol": 1e-7, "atol": 1e-7}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tasks this small are not worth torch's threads."""
    if find_spec("torch"):
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(before)
    else:
        yield


def run(name, *task, **options):
    given = {"dtype": "float64", "threads": 1} | CHEAP.get(name, {}) | needed(name, task[0].shape[-1])
    return handful.solve(*task, method=name, **given | options)


def same(a, b):
    np.testing.assert_allclose(a.probabilities, b.probabilities, **CLOSE)
    np.testing.assert_allclose(a.outlier_scores, b.outlier_scores, **CLOSE)


def easy(seed, shots=(5,) * 5, known=15, outlier_ways=5, outliers=15, dimension=60, batch=1):
    """Clusters far apart, each in features of its own: support, labels, query and what the queries are."""
    ways = len(shots)
    rng = np.random.default_rng(seed)
    width = dimension // (ways + outlier_ways)
    centres = np.repeat(np.eye(ways + outlier_ways), width, axis=1) / width**0.5
    labels = np.tile(np.repeat(np.arange(ways), shots), (batch, 1))
    kind = np.r_[np.repeat(np.arange(ways), known), ways + np.arange(outliers) % max(1, outlier_ways)]
    truth = np.tile(np.where(kind < ways, kind, -1), (batch, 1))
    support = centres[labels] + 0.02 * rng.normal(size=(*labels.shape, centres.shape[1]))
    query = centres[kind] + 0.02 * rng.normal(size=(*truth.shape, centres.shape[1]))
    return support, labels, query, truth


@pytest.fixture(scope="module")
def batch():
    return random_task(np.random.default_rng(0), 4, [5, 4, 6, 5], 24, 20)


# ------------------------------------------------------------------------------------------- what must change nothing


@pytest.fixture(scope="module")
def plain(batch):
    """The result of each method for the batch."""
    return cache(lambda name: run(name, *batch))


@loop("name", methods())
def test_a_task_of_a_batch_does_not_depend_on_the_others(batch, plain, name):
    for i in range(4):
        same(run(name, *(x[i] for x in batch)), plain(name)[i])
    support, labels, query = (x.copy() for x in batch)
    support[1:], query[1:] = 100 * support[:0:-1] ** 3, query[1:, :1]  # others far away, all queries alike
    labels[1:] = labels[1:, ::-1]
    same(run(name, support, labels, query)[0], plain(name)[0])


@loop("name", methods())
def test_chunks_and_threads_change_nothing(batch, plain, name, monkeypatch):
    monkeypatch.setattr(sys.modules["handful.solving.solve"], "CHUNK_BYTES", (1, 1))  # a chunk a task
    same(run(name, *batch, threads=3), plain(name))


@loop("name", methods())
def test_the_order_of_queries_examples_and_class_names_does_not_matter(batch, plain, name):
    support, labels, query = batch
    order = np.random.default_rng(1).permutation(query.shape[1])
    moved = run(name, support, labels, query[:, order])
    np.testing.assert_allclose(moved.probabilities, plain(name).probabilities[:, order], **CLOSE)
    np.testing.assert_allclose(moved.outlier_scores, plain(name).outlier_scores[:, order], **CLOSE)
    if name != "proser":  # its head starts at random, each column elsewhere
        names = np.array([2, 0, 3, 1])  # the class in column j gets this name, and so this column
        renamed = run(name, support, names[labels], query)
        np.testing.assert_allclose(renamed.probabilities[..., names], plain(name).probabilities, **CLOSE)
        np.testing.assert_allclose(renamed.outlier_scores, plain(name).outlier_scores, **CLOSE)
    if name != "iforest":  # its trees draw items by their place
        # One-class SVM at its published tolerance does not train: it stays where it starts, at the first half of them.
        knobs = {"tolerance": 1e-12} if name == "ocsvm" else {}
        order = np.random.default_rng(2).permutation(labels.shape[1])
        shuffled = run(name, support[:, order], labels[:, order], query, **knobs)
        same(shuffled, run(name, *batch, **knobs) if knobs else plain(name))


@pytest.mark.torch
@loop("name", methods())
def test_torch_tensors_give_what_numpy_gives_as_torch_tensors(batch, plain, name):
    import torch

    support, labels, query = batch
    result = run(name, torch.tensor(support), labels, torch.tensor(query))
    assert isinstance(result.probabilities, torch.Tensor)
    assert isinstance(result.outlier_scores, torch.Tensor)
    same(result, plain(name))


# --------------------------------------------------------------------------------------------- tasks of strange shape


def with_copies():
    """A class whose examples are copies of one, copies in the pile, and an example in the pile as well."""
    support, labels, query, truth = easy(6)
    support[:, :5], query[:, 1:6], query[:, 0] = support[:, :1], query[:, 1:2], support[:, 0]
    return support, labels, query, truth


def with_zero_rows():
    """An example and a query of nothing but zeros, whatever they are."""
    support, labels, query, truth = easy(7)
    support[:, 2], query[:, 3], truth[:, 3] = 0, 0, -1
    return support, labels, query, truth


STRANGE = {
    "unequal shots": lambda: easy(1, shots=(1, 2, 7, 3)),
    "one shot": lambda: easy(2, shots=(1,) * 5),
    "one query": lambda: easy(3, known=0, outliers=0, outlier_ways=0),
    "one class": lambda: easy(4, shots=(5,)),
    "one class of one shot": lambda: easy(4, shots=(1,)),
    "fewer queries than classes": lambda: easy(5, shots=(2,) * 55, known=1, outliers=0, outlier_ways=0, batch=1),
    "copies": with_copies,
    "zero rows": with_zero_rows,
}


@pytest.mark.filterwarnings("ignore:invalid value|divide by zero|Precision loss")  # what PyOD says of copies
@loop("shape", STRANGE)
@loop("name", methods())
def test_strange_shapes_get_finite_answers_and_every_known_item_its_class(name, shape):
    support, labels, query, truth = STRANGE[shape]()
    if shape == "one query":
        query, truth = support[:, -1:] * 1.01, labels[:, -1:]
    elif shape == "fewer queries than classes":
        query, truth = query[:, 20:60], truth[:, 20:60]
    result = run(name, support, labels, query, dtype="float32", **TRAINED.get(name, {}))
    p = result.probabilities
    assert p.shape == (*truth.shape, len(np.unique(labels)))
    assert result.outlier_scores.shape == truth.shape
    assert np.isfinite(p).all()
    assert np.isfinite(result.outlier_scores).all()
    assert p.min() >= 0
    assert p.max() <= 1 + 1e-6
    assert p.sum(axis=-1).max() <= 1 + 1e-5
    known = truth >= 0
    np.testing.assert_array_equal(p.argmax(axis=-1)[known], truth[known])


# An outlier that lies between the examples, as far from each class as these from one another, escapes some.
BLIND = {
    "copod": "adds up the tails of single features, where items of other classes lie as far out",
    "iforest": "cuts single features where the examples have them, and not where the outliers do",
    "ocsvm": "the cube of a cosine hardly tells an outlier from an item of another class",
    "openmax": "a Weibull of the examples' distances puts half of a class's own new items past its middle; these hand "
    "the outlier output most of a large activation, more than all that an outlier has",
}


@loop("name", methods(but=BLIND))
def test_outliers_between_far_apart_classes_are_found(name):
    """PROSER by its few published steps: further ones pull the dummy up where the examples are, and turn it round."""
    *task, truth = easy(8, dimension=400)
    assert auroc(run(name, *task), truth < 0) > 0.95


def auroc(result, outlier):
    """Chance that an outlier scores above a known item, by counting pairs; of the worst task."""
    pairs = [np.subtract.outer(s[o], s[~o]) for s, o in zip(result.outlier_scores, outlier, strict=True)]
    return min(np.mean(difference > 0) + np.mean(difference == 0) / 2 for difference in pairs)


# ------------------------------------------------------------------------------------------- defaults, chance, extras

BY_SHOTS = {  # the published settings, for 1 shot and for 5
    "ostim": {"steps": (200, 50)},
    "laplacianshot": {"strength": (0.7, 0.1)},
    "finetune": {"temperature": (1.0, 10.0), "steps": (200, 100)},
    "knn": {"k": (1, 3)},
    "iforest": {"max_features": (0.5, 0.75)},
    "ocsvm": {"kernel": ("linear", "poly")},
    "pca": {"components": (2, 1)},
}


def test_the_methods_whose_defaults_depend_on_the_shots():
    assert {info.name for info in map(handful.describe, handful.list_methods()) if info.by_shots} == set(BY_SHOTS)


@loop("name", methods(but=set(handful.list_methods()) - set(BY_SHOTS)))
def test_defaults_follow_the_shots_and_give_way_to_what_is_asked_for(name):
    for_one, for_five = ({k: v[i] for k, v in BY_SHOTS[name].items()} for i in (0, 1))
    for shots, default, other in ((1, for_one, for_five), (5, for_five, for_one)):
        task = random_task(np.random.default_rng(3), 2, [shots] * 4, 12, 20)
        result = run(name, *task)
        assert {k: result.made_by["parameters"][k] for k in default} == default
        same(run(name, *task, **default), result)
        asked = run(name, *task, **other)
        assert {k: asked.made_by["parameters"][k] for k in other} == other
        answers = [np.r_[r.probabilities.ravel(), r.outlier_scores.ravel()] for r in (asked, result)]
        assert np.abs(answers[0] - answers[1]).max() > 1e-7


@loop("name", methods(but=set(handful.list_methods()) - {"iforest", "proser"}))
def test_chance_is_fixed_by_random_state(batch, name):
    first, again, other = (run(name, *batch, random_state=seed) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first.outlier_scores, again.outlier_scores)
    assert np.abs(first.outlier_scores - other.outlier_scores).max() > 1e-3


def test_without_pyod_its_detectors_name_the_extra_and_the_rest_works():
    script = """
import sys
sys.modules["pyod"] = None
import numpy as np
import handful
x, y = np.random.default_rng(0).normal(size=(6, 4)), [0, 0, 0, 1, 1, 1]
for info in map(handful.describe, handful.list_methods()):
    if info.needs:
        continue
    try:
        handful.solve(x, y, x, method=info.name)
        print(info.name, "works")
    except ImportError as error:
        print(info.name, error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    for info in (info for info in map(handful.describe, handful.list_methods()) if not info.needs):
        expected = f"{info.name} comes from PyOD: pip install 'handful[ood]'" if info.extra == "ood" else "works"
        assert said[info.name].startswith(expected)


# ------------------------------------------------------------------------ each method by a computation of its own kind
# On features as they are given (preparation="none"), one task and one item at a time, in the equations' own words.


def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def rectified_by_hand(support, labels, query):
    """BD-CSPN's prototypes."""
    means = means_of(support, labels)
    shifted = query + support.mean(axis=0) - query.mean(axis=0)
    pseudo = [int(np.argmax([cosine(q, c) for c in means])) for q in shifted]
    prototypes = []
    for j, mean in enumerate(means):
        members = [z for z, y in zip(support, labels, strict=True) if y == j]
        members += [q for q, y in zip(shifted, pseudo, strict=True) if y == j]
        weights = [exp(cosine(z, mean)) for z in members]
        prototypes.append(sum(w * z for w, z in zip(weights, members, strict=True)) / sum(weights))
    return prototypes


def soft_kmeans_by_hand(support, labels, query, *, rounds, radius, temperature, beta, gamma):
    ways = labels.max() + 1
    c = means_of(support, labels)

    def assign():
        d = np.array([[float((q - m) @ (q - m)) for m in c] for q in query])
        origin = [-temperature * float(q @ q) / radius**2 - log(radius) for q in query]
        return d, np.array([softmax_of([*(-temperature * row), o]) for row, o in zip(d, origin, strict=True)])

    for _ in range(rounds):
        d, z = assign()
        for j in range(ways):
            mask = [1 / (1 + exp(min(700, -gamma * (beta - x / d[:, j].mean())))) for x in d[:, j]]
            weights = z[:, j] * mask
            own = support[labels == j]
            c[j] = (own.sum(axis=0) + weights @ query) / (len(own) + weights.sum())
    z = assign()[1]
    return z[:, :ways], z[:, ways]


def rpl_start(support, labels):
    means = means_of(support, labels)
    points = np.array([np.mean([m for k, m in enumerate(means) if k != j], axis=0) for j in range(len(means))])
    margin = [((support[labels == j] - points[j]) ** 2).sum(axis=1).mean() for j in range(len(means))]
    return points, np.array(margin)


def test_soft_kmeans_is_its_equations_item_by_item():
    knobs = {"rounds": 4, "radius": 1.3, "temperature": 2.0, "beta": 0.8, "gamma": 4.0}
    support, labels, query = random_task(np.random.default_rng(16), 2, [5, 4, 6, 5], 18, 8)
    support, query = support / 4, query / 4  # distances around 1
    result = run("soft_kmeans", support, labels, query, preparation="none", **knobs)
    for i in range(2):
        p, scores = soft_kmeans_by_hand(support[i], labels[i], query[i], **knobs)
        np.testing.assert_allclose(result.probabilities[i], p, atol=1e-10)
        np.testing.assert_allclose(result.outlier_scores[i], scores, atol=1e-10)


def test_sigmoids_saturate_without_overflow():
    """Single precision, where exp(89) is infinite; a warning of it would be an error here."""
    support, labels, query = random_task(np.random.default_rng(17), 1, [3, 3], 12, 6, np.float32)
    options = {"preparation": "none", "dtype": "float32"}
    scores = run("oslo", support, labels, query, rounds=1, lambda_xi=1e-5, **options).outlier_scores[0]
    cosines = [[cosine(q, c) for c in means_of(support[0], labels[0])] for q in query[0]]
    np.testing.assert_allclose(scores, np.mean(cosines, axis=1) < 0, atol=1e-7)
    knobs = {"rounds": 1, "radius": 1.0, "temperature": 0.1, "beta": 1.0, "gamma": 1e6}
    steep = run("soft_kmeans", support, labels, query, **knobs, **options)
    p, scores = soft_kmeans_by_hand(*(x[0] for x in (support, labels, query)), **knobs)
    np.testing.assert_allclose(steep.probabilities[0], p, atol=1e-5)
    np.testing.assert_allclose(steep.outlier_scores[0], scores, atol=1e-5)


@loop(("shots", "tail"), [(5, 20), (10, 20), (10, 6)])  # of 5, too few for a class's own, all classes have one model
def test_openmax_revises_an_item_as_by_hand(shots, tail):
    from scipy.stats import weibull_min

    support, labels, query = random_task(np.random.default_rng(7), 1, [shots] * 3, 4, 6)
    result = run("openmax", support, labels, query, preparation="l2", alpha=2, tail=tail)
    support, query = (x[0] / np.linalg.norm(x[0], axis=1, keepdims=True) for x in (support, query))
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
    result = run("knn", support, labels, query, preparation="none", k=k)
    for i in range(2):
        distances, _ = NearestNeighbors(n_neighbors=neighbours).fit(support[i]).kneighbors(query[i])
        np.testing.assert_allclose(result.outlier_scores[i], distances.mean(axis=1), atol=1e-12)


def test_gda_is_the_mahalanobis_distance_of_scikit_learns_shrunk_covariance():
    from sklearn.covariance import OAS

    support, labels, query = random_task(np.random.default_rng(13), 2, [5, 4, 6], 9, 20)
    result = run("gda", support, labels, query, preparation="none")
    relative = run("relative_mahalanobis", support, labels, query, preparation="none")
    for i in range(2):
        means = np.array(means_of(support[i], labels[i]))
        within = OAS(assume_centered=True).fit(support[i] - means[labels[i]])
        d = np.stack([within.mahalanobis(query[i] - mean) for mean in means], axis=1)
        np.testing.assert_allclose(result.outlier_scores[i], d.min(axis=1), rtol=1e-9)
        np.testing.assert_allclose(result.probabilities[i], [softmax_of(-row / 2) for row in d], atol=1e-9)
        background = OAS().fit(support[i]).mahalanobis(query[i])
        np.testing.assert_allclose(relative.outlier_scores[i], d.min(axis=1) - background, rtol=1e-7, atol=1e-9)
    same(relative, run("relative_mahalanobis", support, labels, query, preparation="none", shrinkage=None))


def test_maxprob_and_entropy_by_hand():
    p = np.array([[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]])
    np.testing.assert_array_equal(maxprob(p), [-0.5, -1.0, -0.75])
    np.testing.assert_allclose(entropy(p), [log(2), 0, -0.25 * log(0.25) - 0.75 * log(0.75)], atol=1e-11)


def test_isolation_forest_is_pyods_on_centred_unit_features(batch):
    models = pytest.importorskip("pyod.models.iforest")
    result = run("iforest", *batch, trees=15, random_state=4)
    support, _, query = (x[2] for x in batch)
    both = np.concatenate([support, query]) - np.concatenate([support, query]).mean(axis=0)
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    fitted = models.IForest(n_estimators=15, max_features=0.75, random_state=4).fit(both[: len(support)])
    np.testing.assert_allclose(result.outlier_scores[2], fitted.decision_function(both[len(support) :]), rtol=1e-9)
    np.testing.assert_allclose(result.probabilities, run("simpleshot", *batch).probabilities, atol=1e-12)


# ----------------------------------------------------------------- methods that descend: five steps of torch's autograd


def descent(parameters, loss, learning_rate, steps=5):
    import torch

    parameters = [torch.tensor(p, requires_grad=True) for p in parameters]
    adam = torch.optim.Adam(parameters, lr=learning_rate)
    for _ in range(steps):
        adam.zero_grad()
        loss(*parameters).backward()
        adam.step()
    return [p.detach().numpy() for p in parameters]


@pytest.fixture(scope="module")
def one(torch):
    """A task as torch tensors, and as it is given."""
    support, labels, query = random_task(np.random.default_rng(14), 1, [5, 3, 4], 14, 9)
    return *(torch.tensor(x[0]) for x in (support, labels, query)), (support, labels, query)


def test_proser_follows_autograd(one):
    import torch
    from torch.nn.functional import cross_entropy

    support, labels, _, task = one
    start = run("proser", *task, preparation="none", steps=0).state
    assert np.abs(start["weight"]).max() <= 9**-0.5
    assert start["weight"].std() == pytest.approx(9**-0.5 / 3**0.5, rel=0.3)  # uniform in +-1/sqrt(D)

    def loss(weight, bias):
        logits = support @ weight.T + bias
        masked = logits.masked_fill(torch.nn.functional.one_hot(labels, 4).bool(), -torch.inf)
        return cross_entropy(logits, labels) + 0.3 * cross_entropy(masked, torch.full_like(labels, 3))

    weight, bias = descent([start["weight"][0], start["bias"][0]], loss, 0.01)
    result = run("proser", *task, preparation="none", steps=5, learning_rate=0.01, lambda_dummy=0.3)
    np.testing.assert_allclose(result.state["weight"][0], weight, atol=1e-10)
    np.testing.assert_allclose(result.state["bias"][0], bias, atol=1e-10)
    logits = task[2][0] @ weight.T + bias
    np.testing.assert_allclose(result.outlier_scores[0], logits[:, 3], atol=1e-9)
    np.testing.assert_allclose(result.probabilities[0], [softmax_of(row[:3]) for row in logits], atol=1e-9)


def test_rpl_follows_autograd(one):
    import torch

    support, labels, _, task = one
    n = torch.arange(len(labels))

    def loss(points, margin):
        d = ((support[:, None] - points) ** 2).sum(dim=-1)
        fit = -torch.log_softmax(0.5 * d, dim=1)[n, labels].mean()
        return fit + 0.2 * ((d[n, labels] - margin[labels]) ** 2).mean()

    points, _ = descent(rpl_start(task[0][0], task[1][0]), loss, 0.02)
    result = run("rpl", *task, preparation="none", steps=5, learning_rate=0.02, gamma=0.5, lambda_open=0.2)
    np.testing.assert_allclose(result.state["points"][0], points, atol=1e-8)
    d = ((task[2][0][:, None] - points) ** 2).sum(axis=-1)
    np.testing.assert_allclose(result.outlier_scores[0], -d.max(axis=1), atol=1e-7)
    np.testing.assert_allclose(result.probabilities[0], [softmax_of(0.5 * row) for row in d], atol=1e-8)


# --------------------------------------------------------------------------------------------- the scikit-learn face


@pytest.fixture(scope="module")
def pile():
    """X, y with -1 for the pile of 24, and 20 new items."""
    rng = np.random.default_rng(15)
    support, labels, query = random_task(rng, 1, [5, 4, 6, 5], 24, 20)
    new = query[0, :20] + rng.normal(scale=0.5, size=(20, 20))
    return np.concatenate([query[0], support[0]]), np.concatenate([np.full(24, -1), labels[0]]), new


def fitted(name, pile):
    return handful.make_estimator(name, **CHEAP.get(name, {}), **needed(name, pile[0].shape[1])).fit(*pile[:2])


VOTERS = ("laplacianshot", "transclip", "kdo", "eol_kdo")


@loop("name", methods())
def test_a_fitted_model_scores_the_pile_and_new_items_and_comes_back_from_its_file(pile, name, tmp_path):
    X, new = pile[0][:24], pile[2]
    model = fitted(name, pile)
    if name not in VOTERS:  # whose items of the pile do not vote for themselves, and get a little other an answer
        np.testing.assert_array_equal(model.predict(X), model.transduction_[:24])
        np.testing.assert_allclose(-model.score_samples(pile[0]), model.outlier_scores_, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(model.predict_proba(X), model.label_distributions_[:24], atol=1e-5)
    crowd, labels = model.transform(new), model.predict(new)
    for i in range(0, 20, 3):  # alone as in a crowd
        np.testing.assert_allclose(model.transform(new[i : i + 1])[0], crowd[i], rtol=1e-5, atol=1e-5)
        assert model.predict(new[i : i + 1])[0] == labels[i]
    again = handful.load(model.save(tmp_path / "model.safetensors"))
    assert type(again) is type(model)
    parameters, before = again.get_params(), model.get_params()
    if name in NEED_BASE:
        part = get_solver(name).info.base_part
        kept, given = parameters.pop("base").part(part), before.pop("base").part(part)
        assert all(np.array_equal(kept[key], given[key]) for key in given)
    assert parameters == before
    np.testing.assert_array_equal(again.transform(new), crowd)
    np.testing.assert_array_equal(again.predict(new), labels)
    np.testing.assert_array_equal(again.transduction_, model.transduction_)


def test_a_new_item_takes_the_votes_of_its_two_nearest_of_the_pile_in_laplacianshot(pile):
    X, y, new = pile
    model = handful.make_estimator("laplacianshot", dtype="float64", preparation="none", strength=0.4).fit(X / 4, y)
    prototypes = np.array(rectified_by_hand(X[24:] / 4, y[24:], X[:24] / 4))
    for item, p in zip(new / 4, model.predict_proba(new / 4), strict=True):
        near = np.argsort(((X[:24] / 4 - item) ** 2).sum(axis=1))[:2]
        votes = model.label_distributions_[near].sum(axis=0)
        np.testing.assert_allclose(p, softmax_of(-((item - prototypes) ** 2).sum(axis=1) + 0.4 * votes), atol=1e-10)


def test_a_new_item_is_held_against_examples_and_pile_in_copod(pile):
    """Counting by hand; an item beyond all others counts as the outermost."""
    pytest.importorskip("pyod")
    from scipy.stats import skew

    X, y, new = pile
    model = handful.make_estimator("copod", dtype="float64", preparation="none").fit(X, y)
    new = np.concatenate([new, [X.max(axis=0) + 5, X.max(axis=0)]])
    scores = -model.score_samples(new)
    assert scores[-2] == scores[-1]
    for item, score in zip(new, scores, strict=True):
        total = 0.0
        for column, v in zip(X.T, item, strict=True):
            left = -log(max(1, sum(column <= v)) / len(column))
            right = -log(max(1, sum(column >= v)) / len(column))
            total += max(right if skew(column) > 0 else left, (left + right) / 2)
        assert score == pytest.approx(total, rel=1e-9)


@loop("name", methods())
def test_without_a_pile_it_learns_from_the_examples_alone(pile, name):
    X, y, _ = pile
    knobs = CHEAP.get(name, {}) | TRAINED.get(name, {}) | needed(name, X.shape[1])
    model = handful.make_estimator(name, **knobs).fit(X[24:], y[24:])
    closest = model.classes_[model.predict_proba(X[24:]).argmax(axis=1)]
    assert np.mean(closest == y[24:]) > 0.9
