"""What `benchmarks/peers.py` compares with: no rule sees the truth but the one that says so, and figures are right."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score, recall_score

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.exists():
    pytest.skip("the benchmarks are not part of this copy", allow_module_level=True)
pytest.importorskip("pyod")


@pytest.fixture
def methods(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import _peers

    return _peers


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import peers

    return peers


def clusters(shots, noise=0.05):
    """Four known clusters, and a pile of them with a fifth one: support, labels, query, truth."""
    rng = np.random.default_rng(0)
    labels, truth = np.repeat(np.arange(4), shots), np.repeat([0, 1, 2, 3, -1], 10)
    support = np.eye(40)[labels] + noise * rng.normal(size=(len(labels), 40))
    query = np.eye(40)[np.where(truth < 0, 7, truth)] + noise * rng.normal(size=(len(truth), 40))
    return *(x / np.linalg.norm(x, axis=1, keepdims=True) if x.ndim > 1 else x for x in (support, labels, query)), truth


@pytest.mark.parametrize("name", ["OneClassSVM", "Nearest mean", "Logistic regression", "LabelSpreading"])
@pytest.mark.parametrize("shots", [1, 5])
def test_a_tuned_threshold_parts_what_is_easy_to_part(methods, name, shots):
    *task, truth = clusters(shots)
    answer = methods.tuned(methods.Examples(*task), methods.RANKINGS[name], name == "LabelSpreading")
    assert (answer.classes[truth >= 0] == truth[truth >= 0]).all()
    assert answer.unknown[truth >= 0].mean() < 0.1
    if shots == 5:  # with one example of a class the threshold is a guess
        assert answer.unknown[truth < 0].mean() > 0.9


def test_every_detector_answers_for_every_item(methods):
    *task, truth = clusters(3)
    for name, detect in methods.DETECTORS.items():
        answer = detect(methods.Examples(*task))
        assert answer.scores.shape == answer.unknown.shape == answer.classes.shape == truth.shape, name
        assert np.isfinite(answer.scores).all(), name


def test_detectors_on_the_pile_call_a_tenth_of_examples_and_pile_unknown(methods):
    support, labels, query, _ = clusters(5)
    answer = methods.pyod(methods.Examples(support, labels, query), "knn", on_pile=True)
    assert answer.unknown.sum() <= 0.1 * (len(support) + len(query)) + 1


def test_the_probe_is_the_logistic_regression_of_all_features(methods):
    support, labels, query, _ = clusters(3, noise=0.4)
    ranking = methods.logistic_regression(methods.Examples(support, labels, query))
    model = LogisticRegression(C=methods.PENALTY, max_iter=2000, tol=1e-8).fit(support, labels)
    assert len(support) < support.shape[1]
    np.testing.assert_allclose(ranking.scores, 1 - model.predict_proba(query).max(axis=1), atol=1e-3)


def test_a_share_that_is_told_is_called_unknown(methods):
    ranking = methods.Ranking(np.zeros(10, int), np.arange(10.0))
    assert np.flatnonzero(methods.told_share(ranking, 0.3).unknown).tolist() == [7, 8, 9]
    assert not methods.told_share(ranking, 0.0).unknown.any()


def test_the_best_threshold_is_the_best_by_the_truth(methods, script):
    truth = np.array([0, 0, 1, 1, -1, -1])
    ranking = methods.Ranking(np.array([0, 0, 1, 1, 0, 1]), np.array([0.1, 0.2, 0.1, 0.5, 0.6, 0.9]))
    best = methods.at_best(ranking, truth, script.balanced_accuracy)
    assert best.unknown.tolist() == [False] * 4 + [True] * 2


def test_figures_are_those_of_scikit_learn(methods, script):
    rng = np.random.default_rng(1)
    truth = rng.integers(-1, 3, 60)
    answer = methods.Answer(rng.integers(0, 3, 60), rng.random(60), rng.random(60) < 0.3)
    decided, found = np.where(answer.unknown, -1, answer.classes), script.figures(answer, truth)
    assert found["balanced_accuracy"] == pytest.approx(100 * balanced_accuracy_score(truth, decided))
    assert found["macro_f1"] == pytest.approx(100 * f1_score(truth, decided, average="macro"))
    recall = recall_score(truth, decided, labels=[0, 1, 2], average="micro")
    assert found["recall"] == pytest.approx(100 * recall)
    assert found["precision"] == pytest.approx(100 * (decided == truth)[decided >= 0].mean())


def test_fewer_examples_leave_the_pile_as_it_is(script):
    from handful.bench.piles import PileRanges, Source
    from handful.features import FeatureTable, digits

    pile = Source(FeatureTable(*digits(), name="digits"), PileRanges(ways=(4, 4), shots=(10,))).pile(0)
    small = script.with_shots(pile, 2)
    assert np.bincount(small.task.labels[0]).tolist() == [2] * 4
    assert np.array_equal(small.task.query, pile.task.query)
    assert set(small.support_items) < set(pile.support_items)
