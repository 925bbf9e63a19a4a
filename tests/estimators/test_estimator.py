"""The scikit-learn face."""

import numpy as np
import pytest
from loops import loop
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency, check_estimator

import handful
from handful.core import metrics
from handful.core.checks import is_no_class
from handful.estimators.factory import EXPECTED_FAILED_CHECKS, EXPECTED_OF_METHOD
from handful.features import Protocol, digits, draw

KINDS = {  # one of each: by a verdict, prototypes that move, rounds, a kernel density, a detector, a pair, powers
    "eol_kdo": {}, "tim_gd": {}, "soft_kmeans": {"dtype": "float64"}, "kdo": {"dtype": "float64"}, "knn": {},
    "simpleshot+knn": {"dtype": "float64"},  # in double precision where rounding alone would exceed the 1e-7 allowed
    "pt_map": {"preparation": "task, l2", "dtype": "float64"},  # power(0.5) cuts off the negative features of the check
}  # fmt: skip


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


@pytest.mark.filterwarnings("ignore")
@loop("name, knobs", KINDS.items())
def test_scikit_learns_own_checks(name, knobs):
    expected = EXPECTED_FAILED_CHECKS | ({} if "preparation" in knobs else EXPECTED_OF_METHOD.get(name, {}))
    model = handful.make_estimator(name, **knobs)
    results = check_estimator(model, on_fail=None, on_skip=None, expected_failed_checks=expected)
    assert len(results) > 40
    assert [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"] == []
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
    assert list(model.get_feature_names_out()) == [*(f"p_{name}" for name in model.classes_), "outlier_score"]
    np.testing.assert_array_equal(model.classes_, np.unique(y[n:]))
    result = handful.solve(X[n:], y[n:], X[:n], method="eol", outlier_share=0.5)
    np.testing.assert_array_equal(model.transduction_[:n], result.labels)
    np.testing.assert_allclose(model.outlier_scores_[:n], result.outlier_scores)


def test_string_labels_with_none_for_unlabelled(pile):
    X, y, _ = pile
    words = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"], dtype=object)
    named = [None if v == -1 else words[v] for v in y]
    model = handful.EOL().fit(X, named)
    numbered = handful.EOL().fit(X, y)
    expected = ["unknown" if v == -1 else words[v] for v in numbered.transduction_]
    assert model.transduction_.tolist() == expected
    assert set(model.predict(X)) <= {*model.classes_, handful.core.checks.UNKNOWN_NAME}
    assert model.classes_.dtype.kind == "U"


def test_what_means_no_label_and_no_class_among_strings():
    for label in [None, np.nan, "", " ", "nan", "<NA>", -1, "-1", -2, "-2", "unknown", " Unknown "]:
        X = np.random.default_rng(0).normal(size=(30, 4)) + 4 * np.eye(4)[np.repeat([0, 1, 2], 10)]
        code = -2 if is_no_class(label) and label != -1 else -1
        names = [*["cat"] * 3, *["dog"] * 3, label, label, *[None] * 4]
        X = X[[0, 1, 2, 10, 11, 12, 20, 21, 3, 4, 13, 22]]
        model = handful.estimators.SimpleShot().fit(X, names)
        assert model.classes_.tolist() == ["cat", "dog"]
        assert model.given_.tolist() == [0, 0, 0, 1, 1, 1, code, code, -1, -1, -1, -1]
        assert model.partial_fit(X[:2], ["cat", label]).given_[-2:].tolist() == [0, code]
        assert model.score(X[:7], names[:7]) == 1


def test_integers_with_gaps_stay_integers():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    large = 2**60 + 1  # a float has no such number
    labels = [3, large, None, None]
    numbers = pandas.Series(pandas.array(labels, dtype="Int64"))
    for y in (numbers, numbers.astype("category"), polars.Series(labels)):
        model = handful.estimators.SimpleShot().fit(np.eye(4)[[0, 1, 0, 1]], y)
        assert model.classes_.dtype == np.int64
        assert model.transduction_.tolist() == [3, large, 3, large]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_other_columns_of_frames_are_refused_with_the_way_out(pile, kind, tmp_path):
    frames, (X, y, _) = pytest.importorskip(kind), pile
    frame = frames.DataFrame({f"pixel{i}": X[:, i] for i in range(64)})
    back = frame[frame.columns[::-1]]
    model = handful.estimators.SimpleShot().fit(frame, y)
    for fitted in (model, handful.load(model.save(tmp_path / "model.safetensors", items=True))):
        for call in (fitted.predict, fitted.transform, fitted.answer, fitted.partial_fit):
            with pytest.raises(
                ValueError, match=r"feature names should match.*\n.*order.*\n+Give X\[list\(model.feature"
            ):
                call(back)
        columns = list(fitted.feature_names_in_)
        np.testing.assert_array_equal(fitted.predict(back[columns]), fitted.predict(frame))
        with pytest.raises(ValueError, match="unseen at fit time:\n- other"):
            fitted.predict(frames.DataFrame({"other" if i == 7 else f"pixel{i}": X[:, i] for i in range(64)}))
    check_dataframe_column_names_consistency("SimpleShot", handful.estimators.SimpleShot())


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
    assert cross_val_score(handful.estimators.KNN(), features[few], labels[few], cv=3).min() > 0.8


SCORES = ("balanced_accuracy", "unknown_f1", "auroc", "aupr", "oscr")


def test_a_scorer_counts_what_is_of_no_class(pile):
    X, y, truth = pile
    n, is_unknown = len(truth), truth == -1
    model = handful.EOL().fit(X, np.where(y == -1, "", y.astype(str)))
    marked = np.where(is_unknown, "unknown", truth.astype(str))
    new, called = X[:n], model.unknown_[:n]
    codes = np.where(is_unknown, -1, np.searchsorted(np.unique(truth[~is_unknown]), truth))
    p, scores = model.predict_proba(new), model.outlier_scores_[:n]
    expected = {
        "balanced_accuracy": metrics.open_set_balanced_accuracy(np.where(called, -1, p.argmax(axis=1)), codes, 5),
        "unknown_f1": metrics.unknown_f1(called, is_unknown), "auroc": metrics.auroc(scores, is_unknown),
        "aupr": metrics.aupr(scores, is_unknown), "oscr": metrics.oscr(p, scores, codes),
    }  # fmt: skip
    for name, value in expected.items():
        found = handful.estimators.scorer(name)(model, X[: n + 5], [*marked.tolist(), *[None] * 5])
        assert 0.5 < value < 1
        assert found == pytest.approx(value, abs=1e-5)
    other = np.where(is_unknown, "11", marked)  # a class that the model does not have
    assert handful.estimators.scorer("auroc")(model, new, other) == pytest.approx(expected["auroc"], abs=1e-5)
    with pytest.raises(ValueError, match=r"y has no true unknown, .* 'auroc' .* label them"):
        handful.estimators.scorer("auroc")(model, new[~is_unknown], marked[~is_unknown])


def test_searches_over_strings_take_scorers_and_blanks():
    features, digit = (x[:240] for x in digits())
    y = np.where(digit < 3, np.array([f"digit {k}" for k in digit]), np.where(digit < 7, "unknown", ""))
    scoring = {name: handful.estimators.scorer(name) for name in SCORES}
    model = make_pipeline(StandardScaler(), handful.EOL(steps=5))
    search = GridSearchCV(model, {"eol__temperature": [5.0, 10.0]}, scoring=scoring, refit="auroc", cv=3, n_jobs=2)
    search.fit(features, y)
    assert search.best_estimator_.classes_.tolist() == ["digit 0", "digit 1", "digit 2"]
    for name in SCORES:
        assert search.cv_results_[f"mean_test_{name}"].min() > 0.5
    with_none = np.where(y == "", None, y.astype(object))
    folds = KFold(3)  # stratified folds sort the labels, which None does not allow
    assert cross_val_score(handful.EOL(), features, with_none, scoring=scoring["oscr"], cv=folds).min() > 0.5


def test_parameters_are_stored_as_given_and_checked_at_fit(pile):
    X, y, _ = pile
    model = handful.EOL(outlier_share=1.5)
    assert model.outlier_share == 1.5
    with pytest.raises(ValueError, match='outlier_share of eol must be "auto", or a number between 0 and 1'):
        model.fit(X, y)
    with pytest.raises(TypeError, match="no parameter 'share'"):
        handful.EOL(share=0.5)
    with pytest.raises(ValueError, match="at least one labelled example"):
        handful.EOL().fit(X, np.full(len(X), -1))
    with pytest.raises(ValueError, match="only one class"):
        handful.EOL().fit(np.eye(4), [1, 1, 1, 1])
    with pytest.raises(ValueError, match="there is no scorer 'roc'; there are: balanced_accuracy, "):
        handful.estimators.scorer("roc")


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
