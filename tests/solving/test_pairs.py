"""A classifier paired with an outlier score: each part answers as it would alone."""

import pickle

import numpy as np
import pytest
from random_tasks import random_task
from sklearn.base import clone

import handful
from handful.solving import get_solver


@pytest.fixture(scope="module")
def task():
    """Three tasks whose classes are not equally large, so that task and base centring differ."""
    return random_task(np.random.default_rng(0), 3, [5, 3, 4], 18, 10)


@pytest.fixture(scope="module")
def pile(task):
    support, labels, query = (x[0] for x in task)
    return np.concatenate([query, support]), np.concatenate([np.full(18, -1), labels])


def run(name, task, **options):
    return handful.solve(*task, method=name, dtype="float64", **options)


def test_classes_are_the_first_ones_and_scores_the_second_ones(task):
    """Though the parts prepare the features differently: PT-MAP by powers and a rotation, TIM-GD by the task mean."""
    for first, second in [("simpleshot", "knn"), ("tim_gd", "knn"), ("knn", "oslo"), ("pt_map", "eol"), ("eol", "eol")]:
        for options in ({"base_mean": np.linspace(-1, 1, 10)}, {"preparation": "none"}):
            both = run(f"{first}+{second}", task, **options)
            np.testing.assert_array_equal(both.probabilities, run(first, task, **options).probabilities)
            np.testing.assert_array_equal(both.outlier_scores, run(second, task, **options).outlier_scores)
            assert both.made_by["method"] == f"{first}+{second}"


def test_a_score_by_name_is_of_the_first_ones_probabilities(task):
    for name in ["bdcspn", "eol"]:
        p = run(name, task).probabilities
        unsure, spread = run(f"{name}+maxprob", task), run(f"{name}+entropy", task)
        np.testing.assert_array_equal(unsure.probabilities, p)
        np.testing.assert_array_equal(unsure.outlier_scores, -p.max(axis=-1))
        np.testing.assert_allclose(spread.outlier_scores, -(p * np.log(p)).sum(axis=-1), atol=1e-9)


def test_parameters_reach_the_part_they_name(task):
    both = run("simpleshot+knn", task, temperature=7.0, knn_k=2)
    np.testing.assert_array_equal(both.probabilities, run("simpleshot", task, temperature=7.0).probabilities)
    np.testing.assert_array_equal(both.outlier_scores, run("knn", task, k=2).outlier_scores)
    with pytest.raises(ValueError, match=r"knn_k of simpleshot\+knn must be a whole number from 1"):
        run("simpleshot+knn", task, knn_k=0)
    with pytest.raises(TypeError, match=r"simpleshot\+knn has no parameter 'k'; it has: temperature, knn_k"):
        run("simpleshot+knn", task, k=1)
    twice = run("ostim+tim_gd", task, temperature=7.0, tim_gd_temperature=3.0, steps=4, tim_gd_steps=9)
    np.testing.assert_array_equal(twice.probabilities, run("ostim", task, temperature=7.0, steps=4).probabilities)
    np.testing.assert_array_equal(twice.outlier_scores, run("tim_gd", task, temperature=3.0, steps=9).outlier_scores)


def test_the_share_of_unknowns_is_told_once_and_reaches_whichever_part_can_use_it(task):
    scores = run("eol", task, outlier_share=0.8).outlier_scores
    second = run("simpleshot+eol", task, outlier_share=0.8)
    np.testing.assert_array_equal(second.outlier_scores, scores)
    np.testing.assert_array_equal(second.outlier_share, [0.8] * 3)


def test_what_a_pair_is_follows_from_its_parts():
    info = get_solver("simpleshot+oslo").info
    facts = info.title, info.paradigm, info.setting, info.score
    assert facts == ("SimpleShot + OSLO", "transductive", "closed-set", get_solver("oslo").info.score)
    assert get_solver("simpleshot+knn").info.paradigm == "inductive"
    assert get_solver("eol+entropy").info.score == "rank"
    assert get_solver("simpleshot+pca").info.extra == "ood"


def test_a_pair_is_an_estimator_with_a_class_of_its_own(pile, tmp_path):
    X, y = pile
    for name, of_class in {"simpleshot+knn": "SimpleShotWithKNN", "eol+maxprob": "EOLWithMaxprob"}.items():
        model = handful.make_estimator(name, outlier_share=0.4).fit(X, y)
        assert type(model).__name__ == of_class
        result = handful.solve(X[18:], y[18:], X[:18], method=name, outlier_share=0.4)
        np.testing.assert_array_equal(model.transduction_[:18], result.labels)
        np.testing.assert_array_equal(model.predict(X[:18]), model.transduction_[:18])
        np.testing.assert_allclose(model.transform(X[:1])[0], model.transform(X)[0], atol=1e-5)
        for again in (pickle.loads(pickle.dumps(model)), handful.load(model.save(tmp_path / "pair.safetensors"))):
            assert type(again) is type(model)
            np.testing.assert_array_equal(again.transform(X), model.transform(X))
        copy = clone(model)
        assert copy.get_params() == model.get_params()
        assert not hasattr(copy, "classes_")


def test_parameters_of_both_parts_are_parameters_of_the_estimator(pile):
    model = handful.make_estimator("simpleshot+knn", knn_k=1, temperature=4.0)
    assert (model.get_params()["knn_k"], clone(model).knn_k) == (1, 1)
    scores = model.fit(*pile).outlier_scores_[:18]
    np.testing.assert_allclose(scores, handful.estimators.KNN(k=1).fit(*pile).outlier_scores_[:18])
    like = handful.estimators.SimpleShot(temperature=4.0).fit(*pile).predict_proba(pile[0])
    np.testing.assert_allclose(model.predict_proba(pile[0]), like)


def test_names_that_are_none_are_told_what_there_is():
    for name, message in {
        "simpleshot+nothing": r"'nothing' gives no outlier score; use maxprob, entropy or any of: bdcspn",
        "nothing+knn": r"there is no method 'nothing'; there are: (auto, )?bdcspn",
        "simpleshot+knn+eol": r"there is no method 'simpleshot\+knn\+eol' \(did you mean 'simpleshot'\?\); there are",
        "maxprob+knn": "there is no method 'maxprob'",
    }.items():
        with pytest.raises(ValueError, match=message):
            handful.make_estimator(name)
