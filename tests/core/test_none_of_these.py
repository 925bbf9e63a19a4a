"""Examples of no class: what a task takes, what methods do with them, and what an estimator keeps."""

import numpy as np
import pytest
from loops import loop

import handful
from handful.core.metrics import auroc
from handful.engines.loss import example_weights
from handful.methods.registry import METHODS, Solution, find_method

rng = np.random.default_rng(0)
CENTRES = 3 * np.eye(10)[:3]
CENTRES[2] = CENTRES[0] + 1.5 * np.eye(10)[6]  # no class, and like class 0
ITEMS = np.concatenate([c + rng.normal(scale=0.6, size=(40, 10)) for c in CENTRES]).astype(np.float32)
TRUTH = np.repeat([0, 1, -1], 40)
SUPPORT, LABELS = ITEMS[[0, 1, 2, 40, 41, 42]], np.repeat([0, 1], 3)
UNKNOWN = ITEMS[80:85]
REST = np.r_[3:40, 43:80, 85:120]
QUERY, QUERY_TRUTH = ITEMS[REST], TRUTH[REST]
USED_BY = ["auto", "eol", "kdo", "ostim", "oslo", "knn", "simpleshot", "simpleshot+knn", "tim_gd", "pt_map", "gda"]


@loop("method", USED_BY)
def test_they_help_every_method_to_find_the_others_of_their_kind(method):
    before = handful.solve(SUPPORT, LABELS, QUERY, method=method)
    after = handful.solve(SUPPORT, LABELS, QUERY, unknown=UNKNOWN, method=method)
    found, found_before = (auroc(result.outlier_scores, QUERY_TRUTH < 0) for result in (after, before))
    assert found > max(found_before, 0.8)


def test_a_task_checks_them():
    task = handful.Task(SUPPORT, LABELS, QUERY, unknown=UNKNOWN.tolist())
    assert task.unknown.shape == (1, 5, 10)
    assert "5 examples of no class" in repr(task)
    assert handful.Task.stack([task, task])[1].unknown.shape == (1, 5, 10)
    with pytest.raises(ValueError, match=r"unknown has shape \(5, 9\).*10 features"):
        handful.Task(SUPPORT, LABELS, QUERY, unknown=UNKNOWN[:, :9])
    with pytest.raises(ValueError, match="NaN"):
        handful.Task(SUPPORT, LABELS, QUERY, unknown=UNKNOWN * np.nan)
    with pytest.raises(ValueError, match="give examples of no class as unknown="):
        handful.Task(SUPPORT, np.where(LABELS == 1, handful.NONE_OF_THESE, 0), QUERY)


def test_the_margin_is_that_of_the_definition():
    after = handful.solve(SUPPORT, LABELS, QUERY, unknown=UNKNOWN, method="knn", preparation="l2", dtype="float64")
    before = handful.solve(SUPPORT, LABELS, QUERY, method="knn", preparation="l2", dtype="float64")
    z, s, u = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (QUERY, SUPPORT, UNKNOWN))
    margin = (z @ u.T).max(axis=1) - (z @ s.T).max(axis=1)
    own = before.outlier_scores
    assert np.allclose(after.outlier_scores, own + own.std() / margin.std() * margin, atol=1e-5)


def test_scores_of_class_probabilities_say_that_they_cannot():
    with pytest.raises(ValueError, match=r"simpleshot\+entropy cannot use examples of no class.*simpleshot\+knn"):
        handful.solve(SUPPORT, LABELS, QUERY, unknown=UNKNOWN, method="simpleshot+entropy")


def test_a_method_that_takes_them_is_known_by_its_arguments():
    load = {name for name in handful.list_methods() if find_method(name).takes_unknown}
    assert load == {"conformal", "eol", "eol_kdo", "flowr", "frob", "kdo", "ostim"}

    def own(support, labels, query, unknown=None):
        return Solution(np.ones((*query.shape[:2], 2)), np.full(query.shape[:2], float(unknown.shape[1])))

    handful.register("counts_unknown")(own)
    try:
        result = handful.solve(SUPPORT, LABELS, QUERY, unknown=UNKNOWN, method="counts_unknown")
        assert (result.outlier_scores == 5).all()
    finally:
        METHODS.pop("counts_unknown")


@loop(("count", "weight"), [(1, 1.0), (3, 1.0), (6, 0.5)])
def test_together_they_weigh_at_most_as_one_class(count, weight):
    no_class = np.concatenate([np.zeros(6), np.ones(count)])[None, :, None]  # two classes of 3 examples
    weights = example_weights(no_class, 2)[0, :, 0]
    assert weights.sum() == pytest.approx(1)
    assert weights[-1] / weights[0] == pytest.approx(weight)


@loop(
    "y",
    [
        ["a"] * 3 + ["b"] * 3 + [handful.NONE_OF_THESE] * 5 + [None] * len(REST),
        ["a"] * 3 + ["b"] * 3 + ["unknown"] * 5 + [None] * len(REST),
        np.array([0.0] * 3 + [1.0] * 3 + [-2.0] * 5 + [np.nan] * len(REST)),
    ],
)
def test_an_estimator_takes_them_in_y(y):
    model = handful.EOLKDO().fit(np.concatenate([SUPPORT, UNKNOWN, QUERY]), y)
    direct = handful.solve(SUPPORT, LABELS, QUERY, unknown=UNKNOWN)
    assert len(model.classes_) == 2
    assert np.abs(model.outlier_scores_[11:] - direct.outlier_scores).max() < 1e-3
    assert model.unknown_[6:11].all()
    assert (model.answers_.p_unknown[6:11] == 1).all()
    assert (model.given_[:11] == [0, 0, 0, 1, 1, 1, -2, -2, -2, -2, -2]).all()
    with pytest.raises(ValueError, match="only examples of no class"):
        handful.KDO().fit(ITEMS[:4], [-2, -2, -1, -1])


@loop("method", ["eol_kdo", "simpleshot+knn"])
def test_a_saved_model_keeps_them_and_predict_uses_them(tmp_path, method):
    X = np.concatenate([SUPPORT, UNKNOWN, QUERY[::2]])
    y = np.concatenate([LABELS, np.full(5, handful.NONE_OF_THESE), np.full(len(QUERY[::2]), -1)])
    model = handful.make_estimator(method).fit(X, y)
    without = handful.make_estimator(method).fit(np.delete(X, np.s_[6:11], 0), np.delete(y, np.s_[6:11]))
    read = handful.load(model.save(tmp_path / "model.safetensors", items=True))
    new = QUERY[1::2]
    assert np.allclose(read.score_samples(new), model.score_samples(new))
    with_them, without_them = (auroc(-each.score_samples(new), QUERY_TRUTH[1::2] < 0) for each in (read, without))
    assert with_them > without_them
    assert (read.partial_fit(new).given_ == handful.NONE_OF_THESE).sum() == 5
