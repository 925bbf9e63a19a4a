"""A model in use: new classes come by `partial_fit` and by `teach`, and unknown items are shown as groups."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import handful
from handful.features import digits

METHODS = ("eol_kdo", "simpleshot+knn", "soft_kmeans")
LEARNED = ("classes_", "transduction_", "label_distributions_", "outlier_scores_", "unknown_", "given_", "items_")


@pytest.fixture(scope="module")
def world():
    """150 digits in random order, and which they are: examples of 0 to 3 first, three of each."""
    features, labels = digits()
    rng = np.random.default_rng(4)
    order = rng.permutation(len(labels))
    examples = np.concatenate([order[labels[order] == digit][:3] for digit in range(4)])
    rows = np.concatenate([examples, np.setdiff1d(order, examples, assume_unique=True)[:138]])
    return features[rows], labels[rows]


def pile_labels(truth, examples=12):
    return np.where(np.arange(len(truth)) < examples, truth, -1)


def assert_same(model, other):
    for name in LEARNED:
        np.testing.assert_array_equal(getattr(model, name), getattr(other, name), err_msg=name)
    assert model.outlier_share_ == other.outlier_share_
    assert model.outlier_share_interval_ == other.outlier_share_interval_
    np.testing.assert_array_equal(model.predict(model.items_), other.predict(model.items_))


# --- items that arrive, also of new classes, by partial_fit


def test_a_model_that_grew_is_a_fit_to_everything(world):
    X, truth = world
    y = pile_labels(truth)
    y[[110, 130]] = truth[[110, 130]]  # later examples of a known and of a new class
    y[np.flatnonzero(truth[100:] == 7)[:2] + 100] = 7
    assert set(y[:100]) < set(y)
    for name in METHODS:
        model = handful.make_estimator(name).partial_fit(X[:100], y[:100])
        model.partial_fit(X[100:101]).partial_fit(X[101:], y[101:])
        assert model.classes_.tolist() == sorted(set(y) - {-1})
        assert_same(model, handful.make_estimator(name).fit(X, y))
    told = handful.EOL(outlier_share=0.3).fit(X[:100], y[:100]).partial_fit(X[100:])
    assert told.outlier_share_ == pytest.approx(0.3)
    assert told.outlier_share_interval_ is None


def test_what_cannot_be_taken_in_is_refused_and_the_model_stays_as_it_was(world):
    X, truth = world
    model = handful.EOL().fit(X[:60], pile_labels(truth)[:60])
    before = model.outlier_scores_
    with pytest.raises(ValueError, match=r"^classes names 5, of which there is no example"):
        model.partial_fit(X[60:62], classes=[0, 1, 2, 3, 5])
    with pytest.raises(ValueError, match=r"^y has the label 77, and classes does not name it"):
        model.partial_fit(X[60:62], [-1, 77], classes=range(4))
    with pytest.raises(ValueError, match=r"^'cat' in y is no name .* classes are numbers, such as 0: give numbers"):
        model.partial_fit(X[60:62], ["cat", None])
    assert model.outlier_scores_ is before
    new = handful.KDO()
    with pytest.raises(ValueError, match="KDO is not fitted yet: begin with labelled examples of each class"):
        new.partial_fit(X)
    with pytest.raises(ValueError, match="classes names 4, of which there is no example"):
        new.partial_fit(X[:12], truth[:12], classes=range(6))


def test_a_saved_and_a_pickled_model_go_on_as_the_one_that_was_saved(world, tmp_path):
    X, truth = world
    with pytest.raises(NotFittedError):
        handful.KDO().teach({0: 1})
    model = handful.KDO().fit(X[:90], pile_labels(truth)[:90])
    twins = handful.load(model.save(tmp_path / "model", items=True)), pickle.loads(pickle.dumps(model))
    without = handful.load(model.save(tmp_path / "without"))
    for grow in (lambda: without.partial_fit(X[60:70]), lambda: without.teach({0: 1})):
        with pytest.raises(ValueError, match=r"does not hold the items .* save\(path, items=True\)"):
            grow()
    with pytest.raises(ValueError, match="without its items"):
        without.save(tmp_path / "again", items=True)
    with pytest.raises(AttributeError, match="without its items"):
        _ = without.groups_
    model.partial_fit(X[90:120]).teach({50: 8})
    for twin in twins:
        assert_same(twin.partial_fit(X[90:120]).teach({50: 8}), model)


# --- teach


def test_taught_labels_give_the_model_of_a_fit_with_all_labels(world):
    X, truth = world
    y = pile_labels(truth)
    answers = {140: 8, 20: int(truth[20]), 77: handful.NONE_OF_THESE, 13: 8}
    told = y.copy()
    told[list(answers)] = list(answers.values())
    for name in METHODS:
        model = handful.make_estimator(name).fit(X, y).teach(answers)
        assert_same(model, handful.make_estimator(name).fit(X, told))
        np.testing.assert_array_equal(model.items_, X)
        assert [int(label) for label in model.transduction_[list(answers)]] == [8, truth[20], -1, 8]


def test_answers_may_be_texts_counted_from_the_end_and_correct_a_label(world):
    X, truth = world
    names = np.array(list("abcdefghij"), dtype=object)
    y = np.where(pile_labels(truth) < 0, None, names[truth])
    model = handful.estimators.SimpleShot().fit(X, y)
    model.teach({-1: "z", np.int64(0): "b", 40: "unknown", 41: handful.NONE_OF_THESE})
    assert model.transduction_[[149, 0, 40, 41]].tolist() == ["z", "b", "unknown", "unknown"]
    assert model.classes_.tolist() == ["a", "b", "c", "d", "z"]
    model.teach({149: "b"})
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    assert model.teach({}).transduction_[149] == "b"


WRONG_ANSWERS = [
    ({150: 1}, "there is no item 150: the model has 150, numbered from 0 to 149"),
    ({-151: 1}, "there is no item -151"),
    ({"12": 1}, "'12' is not the row of an item: give a whole number"),
    ({1.0: 1}, "1.0 is not the row of an item"),
    ({149: 1, -1: 2}, "two answers are for the same row"),
    ({20: "cat"}, "'cat' in the answers is no name .* are numbers, such as 0: give numbers"),
    ({20: "cat", 21: 4}, "labels are of several types"),
    ({20: 1.5}, "labels that are no whole numbers"),
    ({20: -1}, "the answer for item 20 is -1, which means that it has no label"),
    ({20: None}, "the answer for item 20 is None"),
    *(({20: word}, f"the answer for item 20 is '{word}', which means") for word in ("", " ", "nan", "-1")),
    ({20: float("nan")}, "the answer for item 20 is nan"),
    (dict.fromkeys(range(12), -2), "no example of a class would be left"),
    (dict.fromkeys(range(150), 1), "all items would be of one class"),
]


def test_a_wrong_answer_is_refused_and_the_model_stays_as_it_was(world):
    X, truth = world
    model = handful.estimators.SimpleShot().fit(X, pile_labels(truth))
    before, codes = model.transduction_, model.given_.copy()
    for answers, message in WRONG_ANSWERS:
        with pytest.raises(ValueError, match=message):
            model.teach(answers)
        assert model.transduction_ is before
        np.testing.assert_array_equal(model.given_, codes)


# --- groups


def as_sets(groups):
    return [set(group.items.tolist()) for group in groups]


@pytest.mark.parametrize("name", ["kdo", "simpleshot"])
def test_groups_are_those_of_solve_by_their_rows(world, name):
    X, truth = world
    mixed = np.random.default_rng(0).permutation(150)  # examples among the pile
    y = pile_labels(truth)[mixed]
    model, pile = handful.make_estimator(name).fit(X[mixed], y), np.flatnonzero(y == -1)
    result = handful.solve(X[mixed][y >= 0], y[y >= 0], X[mixed][pile], method=name)
    assert model.groups_
    assert [group.items.tolist() for group in model.groups_] == [pile[g.items].tolist() for g in result.groups]
    for own, other in zip(model.groups_, result.groups, strict=True):
        assert own.representative == pile[other.representative]
        np.testing.assert_array_equal(own.exemplars(), pile[other.exemplars()])
        assert as_sets(own.split()) == [set(pile[part.items].tolist()) for part in other.split()]
    assert set().union(*as_sets(model.groups_)) <= set(np.flatnonzero(model.unknown_))


def test_groups_follow_what_the_model_learns(world):
    X, truth = world
    model = handful.KDO().fit(X[:120], pile_labels(truth)[:120])
    first = model.groups_
    assert model.groups_ is first
    row = first[0].representative
    model.partial_fit(X[120:])
    assert model.groups_ is not first
    assert any(max(items) >= 120 for items in as_sets(model.groups_))
    model.teach({row: int(truth[row])})
    assert not any(row in items for items in as_sets(model.groups_))


def test_a_model_without_unknown_items_has_no_groups(world):
    X, truth = world
    assert handful.estimators.SimpleShot(threshold=1e9).fit(X, pile_labels(truth)).groups_ == []
    assert handful.estimators.SimpleShot().fit(X[:12], truth[:12]).groups_ == []
    assert not hasattr(handful.estimators.SimpleShot(), "groups_")
