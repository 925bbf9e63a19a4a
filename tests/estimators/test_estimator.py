"""The scikit-learn face."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import handful
from handful.estimators.factory import EXPECTED_FAILED_CHECKS, EXPECTED_OF_METHOD
from handful.features import Protocol, digits, draw
from handful.solving import get_solver

ESTIMATORS = ("EOL", "KNN", "SimpleShot")


@pytest.fixture(scope="module")
def pile():
    """X, y with -1 for the pile, and what the pile truly is (-1: none of the known digits)."""
    one = draw(*digits(), Protocol(queries=30, outlier_queries=30), seed=5, tasks=[0])
    features, labels = digits()
    support, query = one.support_items[0], one.query_items[0]
    X = np.concatenate([features[query], features[support]])
    y = np.concatenate([np.full(len(query), -1), labels[support]])
    truth = np.where(one.truth[0] < 0, -1, labels[query])
    return X, y, truth


@pytest.mark.parametrize(
    "name", [info.name for info in map(handful.describe, handful.list_methods()) if info.needs is None]
)
def test_scikit_learns_own_checks_with_the_defaults(name):
    if get_solver(name).info.extra == "ood":
        pytest.importorskip("pyod")
    model = handful.make_estimator(name, trees=5) if name == "iforest" else handful.make_estimator(name)
    expected = EXPECTED_FAILED_CHECKS | EXPECTED_OF_METHOD.get(name, {})
    results = check_estimator(model, on_fail=None, on_skip=None, expected_failed_checks=expected)
    assert len(results) > 40
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
    assert {r["check_name"] for r in results if r["status"] == "xfail"} <= set(expected)


def test_fit_labels_the_pile_and_keeps_given_labels(pile):
    X, y, truth = pile
    model = handful.EOL(outlier_share=0.5).fit(X, y)
    n = len(truth)
    np.testing.assert_array_equal(model.transduction_[n:], y[n:])
    assert not model.unknown_[n:].any()
    np.testing.assert_array_equal(model.transduction_ == handful.UNKNOWN, model.unknown_)
    assert np.mean(model.transduction_[:n] == truth) > 0.85
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1)
    assert model.n_features_in_ == 64
    assert model.n_iter_ == 50
    assert model.outlier_share_ == 0.5
    np.testing.assert_array_equal(model.classes_, np.unique(y[n:]))


def test_fit_agrees_with_solve(pile):
    X, y, truth = pile
    n = len(truth)
    model = handful.EOL(outlier_share=0.4).fit(X, y)
    result = handful.solve(X[n:], y[n:], X[:n], method="eol", outlier_share=0.4)
    np.testing.assert_array_equal(model.transduction_[:n], result.labels)
    np.testing.assert_allclose(model.outlier_scores_[:n], result.outlier_scores)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_predict_on_the_pile_gives_what_fit_said_of_it(pile, name):
    X, y, truth = pile
    n = len(truth)
    model = getattr(handful, name)().fit(X, y)
    np.testing.assert_array_equal(model.predict(X[:n]), model.transduction_[:n])
    np.testing.assert_allclose(-model.score_samples(X), model.outlier_scores_, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X[:n]), model.label_distributions_[:n], atol=1e-5)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_item_alone_and_in_a_crowd_gets_the_same_answer(pile, name):
    X, y, _ = pile
    model = getattr(handful, name)().fit(X, y)
    crowd = model.transform(X[:50])
    alone = np.concatenate([model.transform(X[i : i + 1]) for i in range(50)])
    np.testing.assert_allclose(alone, crowd, atol=1e-5)
    np.testing.assert_array_equal([model.predict(X[i : i + 1])[0] for i in range(50)], model.predict(X[:50]))


def test_string_labels_with_none_for_unlabelled(pile):
    X, y, _ = pile
    words = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"], dtype=object)
    named = [None if v == -1 else words[v] for v in y]
    model = handful.EOL().fit(X, named)
    numbered = handful.EOL().fit(X, y)
    expected = ["unknown" if v == -1 else words[v] for v in numbered.transduction_]
    assert model.transduction_.tolist() == expected
    assert set(model.predict(X)) <= {*model.classes_, handful.UNKNOWN_NAME}
    assert model.classes_.dtype.kind == "U"


def test_pandas_in_and_pandas_out(pile):
    pandas = pytest.importorskip("pandas")
    X, y, _ = pile
    frame = pandas.DataFrame(X, columns=[f"pixel{i}" for i in range(64)])
    model = handful.EOL().set_output(transform="pandas").fit(frame, pandas.Series(y))
    table = model.transform(frame)
    assert list(table.columns) == [*(f"p_{c}" for c in model.classes_), "outlier_score"]
    np.testing.assert_allclose(table["outlier_score"], -model.score_samples(frame), atol=1e-6)
    assert list(model.feature_names_in_) == list(frame.columns)


def test_pipeline_clone_and_grid_search(pile):
    X, y, truth = pile
    n = len(truth)
    pipeline = make_pipeline(StandardScaler(), handful.EOL(steps=5))
    assert clone(pipeline).get_params()["eol__steps"] == 5
    pipeline.fit(X, y)
    assert np.mean(pipeline.predict(X[:n]) == truth) > 0.7
    features, labels = digits()
    few = np.flatnonzero(labels < 4)[:60]
    search = GridSearchCV(handful.EOL(), {"temperature": [5.0, 10.0], "steps": [5, 20]}, cv=3, n_jobs=2)
    search.fit(features[few], labels[few])
    assert search.best_score_ > 0.8
    assert cross_val_score(handful.KNN(), features[few], labels[few], cv=3).min() > 0.8


def test_score_counts_labelled_items_only(pile):
    X, y, truth = pile
    n = len(truth)
    model = handful.EOL().fit(X, y)
    known = truth != -1
    assert model.score(X[:n], truth) == pytest.approx(np.mean(model.predict(X[:n])[known] == truth[known]))


def test_pickle_keeps_the_model(pile):
    X, y, _ = pile
    model = handful.EOL().fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_parameters_are_stored_as_given_and_checked_at_fit(pile):
    X, y, _ = pile
    model = handful.EOL(outlier_share=1.5)
    assert model.outlier_share == 1.5
    with pytest.raises(ValueError, match='outlier_share of eol must be "auto", or a number between 0 and 1'):
        model.fit(X, y)
    with pytest.raises(TypeError, match="no parameter 'share'"):
        handful.EOL(share=0.5)


def test_nothing_labelled_is_refused(pile):
    X, _, _ = pile
    with pytest.raises(ValueError, match="at least one labelled example"):
        handful.EOL().fit(X, np.full(len(X), -1))


def test_one_class_with_a_pile_is_one_class_recognition(pile):
    X, y, truth = pile
    n = len(truth)
    digit = y[-1]
    keep = (y == -1) | (y == digit)
    model = handful.EOL(outlier_share=0.9).fit(X[keep], y[keep])
    called = model.transduction_[:n] == digit
    assert np.mean(truth[called] == digit) > 0.8


def test_one_class_without_a_pile_is_refused():
    with pytest.raises(ValueError, match="only one class"):
        handful.EOL().fit(np.eye(4), [1, 1, 1, 1])


def test_the_html_repr_says_what_happened(pile):
    X, y, _ = pile
    model = handful.EOL()
    assert "not fitted yet" in model._repr_html_()
    html = model.fit(X, y)._repr_html_()
    assert f"{int(model.unknown_.sum())} unknown" in html


def test_a_method_by_name_is_its_class():
    assert type(handful.make_estimator("eol")) is handful.EOL
    with pytest.raises(ValueError, match="there is no method 'oel'"):
        handful.make_estimator("oel")
    with pytest.raises(AttributeError):
        _ = handful.Nonsense
