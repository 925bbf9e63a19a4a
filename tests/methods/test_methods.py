"""What holds for every registered method."""

import subprocess
import sys
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
from bases import needed
from loops import loop
from random_tasks import random_task

import handful
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
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tasks this small are not worth more
    result = run(name, torch.tensor(support), labels, torch.tensor(query))
    torch.set_num_threads(threads)
    assert isinstance(result.probabilities, torch.Tensor)
    assert isinstance(result.outlier_scores, torch.Tensor)
    same(result, plain(name))


# --------------------------------------------------------------------------------------------- tasks of strange shape


STRANGE = {
    "unequal shots": lambda: easy(1, shots=(1, 2, 7, 3)),
    "one shot": lambda: easy(2, shots=(1,) * 5),
    "one query": lambda: easy(3, known=0, outliers=0, outlier_ways=0),
    "one class of one shot": lambda: easy(4, shots=(1,)),
    "fewer queries than classes": lambda: easy(5, shots=(2,) * 55, known=1, outliers=0, outlier_ways=0, batch=1),
    "copies": lambda: easy(6),
    "zero rows": lambda: easy(7),
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
    elif shape == "copies":  # of examples, of items of the pile, and of an example in the pile
        support[:, :5], query[:, 1:6], query[:, 0] = support[:, :1], query[:, 1:2], support[:, 0]
    elif shape == "zero rows":
        support[:, 2], query[:, 3], truth[:, 3] = 0, 0, -1
    result = run(name, support, labels, query, dtype="float32", **TRAINED.get(name, {}))
    p = result.probabilities
    assert p.shape == (*truth.shape, len(np.unique(labels)))
    assert result.outlier_scores.shape == truth.shape
    assert np.isfinite(p).all()
    assert np.isfinite(result.outlier_scores).all()
    assert p.min() >= 0
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


@loop("name", [name for name in methods() if handful.describe(name).by_shots])
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
    expected = f"{info.name} comes from PyOD: pip install 'handful[ood]'" if info.extra == "ood" else "works"
    try:
        if not info.needs:
            handful.solve(x, y, x, method=info.name)
        said = "works"
    except ImportError as error:
        said = str(error)
    assert said.startswith(expected), said
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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


@loop("name", methods())
def test_without_a_pile_it_learns_from_the_examples_alone(pile, name):
    X, y, _ = pile
    knobs = CHEAP.get(name, {}) | TRAINED.get(name, {}) | needed(name, X.shape[1])
    model = handful.make_estimator(name, **knobs).fit(X[24:], y[24:])
    closest = model.classes_[model.predict_proba(X[24:]).argmax(axis=1)]
    assert np.mean(closest == y[24:]) > 0.9
