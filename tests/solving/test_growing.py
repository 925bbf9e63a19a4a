"""A pile that grows: what is learned of it agrees with a fresh fit to everything, whichever way the items came."""

import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import handful
from handful.core.metrics import auroc
from handful.engines.growing import renew
from handful.engines.neighbours import Graph, smooth
from handful.engines.share import MAX_QUERIES, sample
from handful.features import Protocol, digits, draw

TINY_IMAGENET = Path(__file__).resolve().parents[3] / "shared" / "data" / "tiny_imagenet_val.npz"


def tasks_of(features, labels, tasks, protocol):
    """Of each task: support, labels, queries in random order, and which of them are unknown."""
    drawn = draw(features, labels, protocol, seed=3, tasks=tasks)
    mixed = np.random.default_rng(3).permuted(np.tile(np.arange(drawn.truth.shape[1]), (tasks, 1)), axis=1)
    parts = zip(drawn.task.support, drawn.task.labels, drawn.task.query, drawn.outlier, mixed, strict=True)
    return [(support, labels, query[order], outlier[order]) for support, labels, query, outlier, order in parts]


@pytest.fixture(scope="module")
def one():
    """Support and labels of one task, five ways and shots, and its 150 queries."""
    return tasks_of(*digits(), 1, Protocol())[0][:3]


def fitted(name, support, labels, pile, **parameters):
    X, y = np.concatenate([support, pile]), np.concatenate([labels, np.full(len(pile), -1)])
    return handful.make_estimator(name, **parameters).fit(X, y)


def grown(name, support, labels, pile, sizes, **parameters):
    model = fitted(name, support, labels, pile[: sizes[0]], **parameters)
    for low, high in pairwise(sizes):
        model.partial_fit(pile[low:high])
    return model


# --- agreement with a fresh fit ---


def differences(name, tasks, sizes):
    """Of grown models, and of fits to piles with a tenth replaced, from fresh fits.

    Each [2, tasks, 3]: decisions that differ, AUROC, share.
    """
    found = []
    for support, labels, pile, outlier in tasks:
        n, n_support = sizes[-1], len(support)
        whole, bit_by_bit = fitted(name, support, labels, pile[:n]), grown(name, support, labels, pile, sizes)
        tenth = len(pile) - n
        other = fitted(name, support, labels, np.concatenate([pile[tenth:n], pile[n:]]))
        for model, left in ((bit_by_bit, 0), (other, tenth)):
            both = slice(n_support + left, n_support + n), slice(n_support, n_support + n - left)
            labels_of = [m.transduction_[part] for m, part in zip((whole, model), both, strict=True)]
            scores = [m.outlier_scores_[part] for m, part in zip((whole, model), both, strict=True)]
            first, second = auroc(np.stack(scores), np.stack([outlier[left:n]] * 2))
            share = abs(whole.outlier_share_ - model.outlier_share_)
            found.append((np.mean(labels_of[0] != labels_of[1]), abs(first - second), share))
    return np.reshape(found, (-1, 2, 3)).swapaxes(0, 1)


@pytest.mark.parametrize("name", ["kdo", "eol"])
@pytest.mark.parametrize("data", ["digits", "tiny_imagenet"])
def test_a_grown_model_is_nearer_to_a_fresh_one_than_a_tenth_of_other_items_would_be(name, data):
    if data == "digits":
        features, labels = digits()
    elif TINY_IMAGENET.exists():
        stored = np.load(TINY_IMAGENET)
        features, labels = stored["features"].astype("float32"), np.unique(stored["labels"], return_inverse=True)[1]
    else:
        pytest.skip("no features of Tiny ImageNet here")
    tasks = tasks_of(features, labels, 5, Protocol(queries=17, outlier_queries=16))
    grown_by, noise = differences(name, tasks, (90, 110, 130, 150)).mean(axis=1)
    assert (noise[0], noise[2]) > (0, 0)
    assert np.all(grown_by <= 1.2 * noise + 0.005), (grown_by, noise)


def test_a_share_that_changes_far_is_followed():
    features, labels = digits()
    rng = np.random.default_rng(0)
    known, unknown = (rng.permutation(np.flatnonzero(part)) for part in (labels < 5, labels >= 5))
    examples = np.concatenate([known[labels[known] == k][:5] for k in range(5)])
    known = np.setdiff1d(known, examples, assume_unique=True)
    few = rng.permutation(np.concatenate([known[:180], unknown[:20]]))
    many = rng.permutation(np.concatenate([known[180:212], unknown[20:150]]))
    for name in ("kdo", "eol", "knn"):
        model = fitted(name, features[examples], labels[examples], features[few])
        assert model.outlier_share_interval_[0] < 0.1
        before = model.outlier_share_ if name != "knn" else np.mean(model.unknown_[25:])
        for part in np.split(many, 3):
            model.partial_fit(features[part])  # never doubles it
        assert model.n_whole_ == 200
        after = model.outlier_share_ if name != "knn" else np.mean(model.unknown_[25:])
        assert before < 0.2
        assert after == pytest.approx(150 / 362, abs=0.12)
        low, high = model.outlier_share_interval_
        assert low < 150 / 362 < high


def test_kdo_grown_is_kdo_on_features_that_were_were_prepared_alike(one):
    """With nothing learned by the preparation, only rounding tells them apart: neighbours, examples and all."""
    support, labels, pile = one
    same = {"preparation": "signed(0.6), l2", "dtype": "float64"}
    first = np.r_[0:2, 5:7, 10:12, 15:17, 20:22]  # two examples of each class
    rest = np.setdiff1d(np.arange(25), first)
    model = fitted("kdo", support[first], labels[first], pile[:80], **same)
    model.partial_fit(pile[80:110])
    X = np.concatenate([support[rest], pile[110:150]])
    model.partial_fit(X, np.concatenate([labels[rest], np.full(40, -1)]))
    assert model.n_whole_ == 80
    whole = handful.KDO(**same).fit(model.items_, np.where(model.given_ < 0, -1, model.classes_[model.given_]))
    np.testing.assert_allclose(model.outlier_scores_, whole.outlier_scores_, atol=1e-6)
    np.testing.assert_allclose(model.label_distributions_, whole.label_distributions_, atol=1e-6)
    assert model.outlier_share_ == pytest.approx(whole.outlier_share_, abs=1e-6)
    np.testing.assert_array_equal(model.predict(pile), whole.predict(pile))


# --- the graph ---


def test_a_changed_graph_smooths_as_one_made_at_once():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    keep = rng.permutation(40)[:30]  # ten leave, in any order, and twenty come
    graph = Graph.of(x[:40], 7).changed(keep, x[40:]).ordered(order := rng.permutation(50))
    items = np.concatenate([x[keep], x[40:]])[order]
    changed, whole = graph.neighbours(), smooth(items[None, :9], items[None, 9:], 7)
    for field in ("items", "smooth", "degrees"):
        np.testing.assert_allclose(getattr(changed, field), getattr(whole, field), atol=1e-12)
    assert changed.k == whole.k == 7


def test_a_graph_of_fewer_items_than_neighbours_grows():
    x = np.random.default_rng(2).normal(size=(20, 4))
    graph = Graph.of(x[:3], 10).changed(np.arange(3), x[3:8]).changed(np.arange(8), x[8:])
    np.testing.assert_allclose(graph.neighbours().smooth, smooth(x[None, :5], x[None, 5:], 10).smooth, atol=1e-12)


# --- piles too large to be solved whole ---


def test_a_sample_stays_fair_as_items_come():
    """Of a pile that trebles in four parts, each third has a third of the sample."""
    thirds = np.zeros(3)
    for first in range(15, 315):
        shown, seen = sample(first, 20), first
        for now in (first + 1, first + 9, 2 * first, 3 * first):
            stayed, fresh = renew(shown, seen, now, size=20)
            shown, seen = np.concatenate([shown[stayed], fresh]), now
            assert len(np.unique(shown)) == min(20, now)
        thirds += np.bincount(shown // first, minlength=3)
    np.testing.assert_allclose(thirds, 300 * 20 / 3, rtol=0.05)


@pytest.fixture(scope="module")
def large():
    """Two classes of three, and more than can be solved whole; unknowns come late."""
    rng = np.random.default_rng(0)
    kinds = np.concatenate([rng.integers(0, 2, MAX_QUERIES - 100), np.tile([0, 1, 2, 2], 225)])
    pile = 2 * np.eye(6)[kinds] + rng.normal(scale=0.5, size=(len(kinds), 6))
    return 2 * np.eye(6)[[0, 0, 1, 1]], np.array([0, 0, 1, 1]), pile.astype("float32"), kinds == 2


def test_growing_past_the_largest_pile_that_is_solved_whole(large):
    support, labels, pile, outlier = large
    model = grown("kdo", support, labels, pile, (MAX_QUERIES - 100, MAX_QUERIES + 200, len(pile)))
    whole = fitted("kdo", support, labels, pile)
    assert model.n_whole_ == MAX_QUERIES - 100
    assert model.state_["items"].shape[1] == MAX_QUERIES + 4
    assert len(model.transduction_) == len(pile) + 4
    np.testing.assert_array_equal(model.items_[4:], pile)
    assert model.outlier_share_ == pytest.approx(whole.outlier_share_, abs=0.08)
    assert np.mean(model.transduction_ == whole.transduction_) > 0.97
    assert np.mean(model.unknown_[4:] == outlier) > 0.95
    assert np.mean(model.predict(pile) == model.transduction_[4:]) > 0.97


def test_a_pile_that_was_too_large_from_the_start_grows(large):
    support, labels, pile, outlier = large
    order = np.random.default_rng(3).permutation(len(pile))
    model = grown("kdo", support, labels, pile[order], (MAX_QUERIES + 300, MAX_QUERIES + 400, len(pile)))
    assert model.state_["items"].shape[1] == MAX_QUERIES + 4
    assert np.mean(model.unknown_[4:] == outlier[order]) > 0.95


# --- what a model says after it grew ---


@pytest.mark.parametrize("name", ["kdo", "eol", "eol_kdo", "knn", "simpleshot", "simpleshot+knn", "tim_gd"])
def test_all_items_so_far_are_spoken_of_in_their_order(one, name):
    support, labels, pile = one
    model = grown(name, support, labels, pile, (70, 90, 100))
    np.testing.assert_array_equal(model.items_, np.concatenate([support, pile[:100]]))
    np.testing.assert_array_equal(model.transduction_[:25], labels)
    assert not model.unknown_[:25].any()
    assert model.transduction_.shape == model.outlier_scores_.shape == model.unknown_.shape == (125,)
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), np.ones(125))
    np.testing.assert_array_equal(model.transduction_ == -1, model.unknown_)
    assert np.mean(model.predict(pile[:100]) == model.transduction_[25:]) > 0.85
    fresh = fitted(name, support, labels, pile[:100])
    assert np.mean(model.transduction_ == fresh.transduction_) > 0.85
    low, high = model.outlier_share_interval_
    assert low < high


def test_a_share_that_was_told_stays(one):
    support, labels, pile = one
    for name in ("kdo", "eol", "knn"):
        model = grown(name, support, labels, pile, (70, 100), outlier_share=0.3)
        assert model.outlier_share_ == pytest.approx(0.3, abs=0.01)
        assert model.outlier_share_interval_ is None


def test_a_pile_that_has_doubled_is_fitted_from_the_start(one):
    support, labels, pile = one
    model = fitted("kdo", support, labels, pile[:60]).partial_fit(pile[60:119])
    assert model.n_whole_ == 60
    model.partial_fit(pile[119:120])
    assert model.n_whole_ == 120
    np.testing.assert_array_equal(model.outlier_scores_, fitted("kdo", support, labels, pile[:120]).outlier_scores_)


def test_a_model_without_a_pile_takes_one(one):
    support, labels, pile = one
    model = handful.KDO().fit(support, labels).partial_fit(pile[:5])
    np.testing.assert_array_equal(model.outlier_scores_, fitted("kdo", support, labels, pile[:5]).outlier_scores_)
    more = handful.KDO().fit(support[::2], labels[::2]).partial_fit(support[1::2], labels[1::2])
    assert len(more.transduction_) == 25
    assert np.mean(more.predict(support) == labels) > 0.9


def test_names_may_be_strings_and_missing_ones_none(one):
    support, labels, pile = one
    names = np.array(["ant", "bee", "cat", "dog", "elk"])[labels].tolist()
    model = handful.EOL().fit(np.concatenate([support, pile[:60]]), names + [None] * 60)
    model.partial_fit(pile[60:62], ["bee", None]).partial_fit(pile[62:63], [None]).partial_fit(pile[63:65])
    assert model.transduction_[85] == "bee"
    assert set(model.transduction_) <= {*model.classes_, "unknown"}
    assert len(model.transduction_) == 90


# --- what cannot be ---


def test_a_class_without_an_example_is_refused_and_the_model_stays_as_it_was(one):
    support, labels, pile = one
    model = fitted("kdo", support, labels, pile[:60])
    before = model.outlier_scores_
    with pytest.raises(ValueError, match=r"^classes names 5, of which there is no example"):
        model.partial_fit(pile[60:62], classes=[0, 1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match=r"^y has the label 77, and classes does not name it"):
        model.partial_fit(pile[60:62], [-1, 77], classes=range(5))
    with pytest.raises(ValueError, match=r"^'cat' in y is no name .* classes are numbers, such as 0: give numbers"):
        model.partial_fit(pile[60:62], ["cat", None])
    assert model.outlier_scores_ is before
    assert len(model.items_) == 85


def test_a_model_that_is_not_fitted_needs_labels(one):
    support, labels, pile = one
    with pytest.raises(ValueError, match="KDO is not fitted yet: begin with labelled examples of each class"):
        handful.KDO().partial_fit(pile)
    with pytest.raises(ValueError, match="at least one labelled example"):
        handful.KDO().partial_fit(pile, np.full(len(pile), -1))
    new = handful.KDO()
    with pytest.raises(ValueError, match="classes names 5, of which there is no example"):
        new.partial_fit(support, labels, classes=range(6))
    assert not hasattr(new, "classes_")
    begun = new.partial_fit(support, labels, classes=range(5))
    np.testing.assert_array_equal(begun.outlier_scores_, handful.KDO().fit(support, labels).outlier_scores_)


def test_only_a_method_with_probabilities_can_bring_a_way_to_grow():
    with pytest.raises(ValueError, match="cannot grow, as its score is a rank"):
        handful.register("never", grow=lambda growth: None)(lambda support, labels, query: None)


# --- models on disk ---


@pytest.mark.parametrize("name", ["kdo", "eol"])
def test_a_model_saved_with_its_items_grows_as_the_one_that_was_saved(one, name, tmp_path):
    support, labels, pile = one
    model = grown(name, support, labels, pile, (70, 90))
    path = model.save(tmp_path / "model", items=True)
    loaded, copy = handful.load(path), pickle.loads(pickle.dumps(model))
    for twin in (model, loaded, copy):
        twin.partial_fit(pile[90:120])
    if name == "kdo":
        np.testing.assert_allclose(loaded.outlier_scores_, model.outlier_scores_, atol=1e-3)
    else:  # centred anew where its share is estimated
        assert loaded.outlier_share_ == pytest.approx(model.outlier_share_, abs=0.05)
        assert np.mean(loaded.transduction_ == model.transduction_) > 0.95
    np.testing.assert_array_equal(copy.outlier_scores_, model.outlier_scores_)
    np.testing.assert_array_equal(loaded.items_, model.items_)
    assert (loaded.n_whole_, loaded.n_features_in_) == (70, 64)


def test_a_model_saved_without_its_items_says_that_it_cannot_grow(one, tmp_path):
    support, labels, pile = one
    loaded = handful.load(fitted("eol", support, labels, pile[:60]).save(tmp_path / "model"))
    with pytest.raises(ValueError, match=r"does not hold the items .* save\(path, items=True\)"):
        loaded.partial_fit(pile[60:70])
    with pytest.raises(ValueError, match="without its items"):
        loaded.save(tmp_path / "again", items=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
