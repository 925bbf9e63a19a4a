"""Conformal novelty: p-values, the rule of the false-discovery rate, and the way of the decision to the labels."""

import sys

import numpy as np
import pytest
from loops import loop
from scipy.special import expit
from scipy.stats import false_discovery_control

import handful
from handful.core.base import Base
from handful.features import FeatureTable
from handful.methods import conformal
from handful.methods.conformal import at_false_discovery, storey_share
from handful.solving import get_solver

DIMENSION = 24


def classes(count, items, seed, near=1.0):
    """Items [C, items, D] of exchangeable classes, of different widths; near: how near to each other they are."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(count, 1, DIMENSION)) / near
    widths = rng.uniform(0.5, 0.9, size=(count, 1, 1))
    return (centres + widths * rng.normal(size=(count, items, DIMENSION))).astype(np.float32)


def base_of(items):
    count, each, dimension = items.shape
    rows = items.reshape(-1, dimension)
    return Base(rows.mean(axis=0), {"conformal": {"items": rows, "codes": np.repeat(np.arange(count), each)}})


def tasks_of(items, shots, tasks, known, unknown, ways=4, seed=0):
    """Tasks of random classes: support, labels and query, whose last `unknown` items belong to other classes."""
    rng = np.random.default_rng(seed)
    support, query = [], []
    for _ in range(tasks):
        order = rng.permutation(len(items))
        own = [rng.permutation(items[k]) for k in order[:ways]]
        support.append(np.concatenate([x[:n] for x, n in zip(own, shots, strict=True)]))
        rest = rng.permutation(np.concatenate([x[n:] for x, n in zip(own, shots, strict=True)]))
        query.append(np.concatenate([rest[:known], rng.permutation(np.concatenate(items[order[ways:]]))[:unknown]]))
    return np.stack(support), np.tile(np.repeat(np.arange(ways), shots), (tasks, 1)), np.stack(query)


@pytest.fixture(scope="module")
def base():
    return base_of(classes(75, 20, seed=1))


def p_of(result):
    steps = result.state["calibration"].shape[1] + 1
    return np.ceil((1 - np.asarray(result.outlier_scores, np.float64)) * steps - 0.05) / steps


# ---------------------------------------------------------------------------------------------------------- p-values


def test_p_values_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    calibration = np.sort(rng.integers(0, 30, size=(3, 50)) / 10, axis=1)  # with ties
    scores = rng.integers(-5, 40, size=(3, 80)) / 10
    p, place = conformal.p_values(calibration, scores)
    for i in range(3):
        for j in range(80):
            assert p[i, j] == (1 + sum(c >= scores[i, j] for c in calibration[i])) / 51
    assert ((place >= 0) & (place <= 1)).all()


@loop("shots", [(3, 3), (1, 1), (4, 1)])
def test_scores_of_a_task_by_hand(shots):
    """The whole path: preparation, spread, nearest class, p-value against the calibration scores of the state."""
    base = base_of(classes(8, 9, seed=2))
    support, labels, query = tasks_of(classes(6, 12, seed=3), shots, 1, 10, 10, ways=2)
    result = handful.solve(support[0], labels[0], query[0], method="conformal", base=base, dtype="float64")

    def prepared(x):
        x = x.astype(np.float64) - base.mean
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    z, q = prepared(support[0]), prepared(query[0])
    of_class = prepared(base.heads["conformal"]["items"]).reshape(8, 9, DIMENSION)
    v0 = np.mean([x.var(axis=0, ddof=1).sum() for x in of_class])
    groups = [z[labels[0] == j] for j in range(2)]
    squares = sum(((x - x.mean(axis=0)) ** 2).sum() for x in groups)
    v = (16 * 2 * v0 + squares) / (16 * 2 + len(z) - 2)
    calibration = result.state["calibration"][0]
    for i, item in enumerate(q):
        s = min(((item - x.mean(axis=0)) ** 2).sum() / ((1 + 1 / len(x)) * v) for x in groups)
        p = (1 + (calibration >= s).sum()) / (len(calibration) + 1)
        assert 0 <= result.outlier_scores[i] - (1 - p) <= 0.9 / (len(calibration) + 1) + 1e-12
        cosines = [item @ x.mean(axis=0) / np.linalg.norm(x.mean(axis=0)) for x in groups]
        assert result.probabilities[i, 0] == pytest.approx(expit(10 * (cosines[0] - cosines[1])), rel=1e-5)


def test_ranks_beyond_the_largest_calibration_score_are_kept():
    calibration = np.sort(np.random.default_rng(0).random((1, 2000)), axis=1).astype(np.float32)
    scores = np.linspace(0, 5, 400, dtype=np.float32)[None]
    p, place = conformal.p_values(calibration, scores)
    outlier_scores = (1 - p + 0.9 * place / 2001).astype(np.float32)
    assert (np.diff(outlier_scores[0]) > 0).all()
    assert (p[0] == 1 / 2001).sum() > 300


@loop("shots", [(1, 1, 1, 1), (5, 5, 5, 5), (8, 4, 2, 1)])
def test_inliers_of_classes_like_the_base_have_uniform_p_values(base, shots):
    support, labels, query = tasks_of(classes(150, 20, seed=7), shots, 150, 40, 0)
    p = p_of(handful.solve(support, labels, query, method="conformal", base=base))
    assert p.size == 6000
    for level in (0.05, 0.1, 0.3):
        assert level - 0.04 < (p <= level).mean() < level + 0.025


# ------------------------------------------------------------------------------------------------------ the decision


def test_the_rule_of_benjamini_and_hochberg_is_that_of_scipy():
    rng = np.random.default_rng(3)
    p = rng.random((40, 30)) ** rng.choice([1, 3], size=(40, 1))
    p[:, :5] = p[:, 5:10]  # ties
    for rate in (0.05, 0.1, 0.4):
        expected = false_discovery_control(p, axis=1) <= rate
        np.testing.assert_array_equal(p <= at_false_discovery(p, rate)[:, None], expected)
        scaled = false_discovery_control(p / 2, axis=1) <= rate
        np.testing.assert_array_equal(p <= at_false_discovery(p, rate, 0.5)[:, None], scaled)
    assert expected.any()
    assert at_false_discovery(np.array([[0.1, 0.2, 0.3]]), 0.3, limit=0.25) == 0.2


def test_storeys_share_by_hand():
    p = np.array([[0.1, 0.2, 0.6, 0.9], [0.1, 0.5, 0.2, 0.3], [0.9, 0.8, 0.7, 0.6]])
    assert storey_share(p).tolist() == [1.0, 0.5, 1.0]  # (1 + 2) / 2 is cut at 1; 0.5 itself is not above
    assert storey_share(np.r_[np.zeros(15), np.ones(5)]) == pytest.approx(6 / 10)
    assert storey_share(np.empty((2, 0))).tolist() == [1.0, 1.0]
    assert at_false_discovery(np.empty((2, 0)), 0.1).tolist() == [0.0, 0.0]


@loop("fdr", [0.05, 0.2])
@loop(("known", "unknown"), [(40, 10), (25, 25), (10, 40)])
def test_the_false_discovery_rate_is_kept(base, fdr, known, unknown):
    support, labels, query = tasks_of(classes(150, 20, seed=7), (5,) * 4, 100, known, unknown)
    result = handful.solve(support, labels, query, method="conformal", base=base, fdr=fdr)
    called = np.asarray(result.unknown)
    false = called[:, :known].sum(axis=1) / np.maximum(1, called.sum(axis=1))
    assert false.mean() < fdr + 0.025
    assert called[:, known:].mean() > 0.5


def test_items_are_unknown_whose_p_value_is_not_above_the_rule(base):
    result = handful.solve(*tasks_of(classes(50, 20, seed=7), (3,) * 4, 20, 20, 20), method="conformal", base=base)
    p = p_of(result)
    largest = at_false_discovery(p, 0.1, np.minimum(1, 1.25 * storey_share(p)), 0.5)  # 1 + 1 / 4 classes
    assert (largest > 0).mean() > 0.5
    np.testing.assert_array_equal(result.labels == -1, p <= largest[:, None])


def test_no_query_one_item_and_more_ways_than_the_base_has():
    given = {"method": "conformal", "base": base_of(classes(5, 6, seed=2))}
    items = classes(9, 10, seed=3)
    support, labels = items[:, :8].reshape(-1, DIMENSION), np.repeat(np.arange(9), 8)  # nine ways, eight shots
    many = handful.solve(support, labels, items[:, 8:].reshape(-1, DIMENSION), **given)
    assert np.isfinite(many.outlier_scores).all()
    none = handful.solve(handful.Task.of_examples(support, labels), **given)
    assert len(none.labels) == 0
    assert none.threshold > 1 - 0.1 / 2001
    assert handful.solve(support, labels, items[0, 9:], **given).labels.tolist() == [0]
    lonely = Base(np.zeros(3), {"conformal": {"items": np.eye(3), "codes": np.arange(3)}})
    with pytest.raises(ValueError, match="the base has 0 classes with two or more items.*more classes"):
        handful.solve(np.eye(3), [0, 0, 1], np.eye(3), method="conformal", base=lonely)


def test_examples_of_no_class_help_and_p_values_stay_valid():
    items = classes(150, 20, seed=7, near=2.0)
    base = base_of(classes(75, 20, seed=1, near=2.0))
    support, labels, query = tasks_of(items, (3,) * 4, 100, 30, 0)
    strangers = classes(100, 20, seed=11, near=2.0)
    query = np.concatenate([query, strangers[:, 5:]], axis=1)
    before = handful.solve(support, labels, query, method="conformal", base=base)
    after = handful.solve(support, labels, query, unknown=strangers[:, :5], method="conformal", base=base)
    assert (p_of(after)[:, :30] <= 0.1).mean() < 0.125
    assert np.asarray(after.unknown)[:, 30:].mean() > np.asarray(before.unknown)[:, 30:].mean() + 0.1


# -------------------------------------------------------------------------------------------- where the decision goes


@pytest.fixture(scope="module")
def pile(base):
    support, labels, query = tasks_of(classes(50, 20, seed=7), (3,) * 4, 1, 30, 30, seed=1)
    return support[0], np.array(list("abcd"))[labels[0]], query[0]


def test_the_decision_reaches_pairs_batches_and_chunks(base, pile, monkeypatch):
    whole = handful.solve(*pile, method="conformal", base=base)
    assert 5 < (whole.labels == "unknown").sum() < 50
    assert whole.outlier_share == pytest.approx((whole.labels == "unknown").mean())
    paired = handful.solve(*pile, method="simpleshot+conformal", base=base)
    assert (paired.labels == whole.labels).all()
    strict = handful.solve(*pile, method="simpleshot+conformal", base=base, conformal_fdr=0.01)
    assert strict.threshold > paired.threshold
    words = get_solver("simpleshot+conformal").decision(strict.made_by["parameters"])
    assert "about 1 % at most should belong to a class" in words
    monkeypatch.setattr(sys.modules["handful.solving.solve"], "CHUNK_BYTES", (1, 1))
    batch = handful.solve(*(np.stack([x, x, x]) for x in pile), method="conformal", base=base)
    assert (batch.labels == whole.labels).all()
    assert batch[1].threshold == whole.threshold


@loop("method", ["conformal", "simpleshot+conformal"])
def test_the_decision_reaches_the_estimator_and_its_file(base, pile, method, tmp_path):
    support, labels, query = pile
    X, y = np.concatenate([support, query]), np.concatenate([labels.astype(object), [None] * len(query)])
    model = handful.make_estimator(method, base=base).fit(X, y)
    solved = handful.solve(*pile, method=method, base=base)
    assert model.threshold_ == pytest.approx(float(solved.threshold))
    np.testing.assert_array_equal(model.transduction_[len(support) :], solved.labels)
    np.testing.assert_array_equal(model.predict(query), solved.labels)
    again = handful.load(model.save(tmp_path / "m.safetensors", items=True))
    np.testing.assert_array_equal(again.predict(query), solved.labels)
    again.partial_fit(query[:5])
    twice = handful.solve(support, labels, np.concatenate([query, query[:5]]), method=method, base=base)
    np.testing.assert_array_equal(again.transduction_[len(support) :], twice.labels)


# --------------------------------------------------------------------------------------------------------- the head


def test_the_head_is_a_sample_with_equal_numbers_of_each_class():
    from handful.training.heads import learn_base

    rng = np.random.default_rng(0)
    counts = np.r_[np.full(90, 30), [7, 40]]
    labels = np.repeat(np.arange(92), counts)
    table = FeatureTable((labels[:, None] + rng.random((len(labels), 4))).astype(np.float32), labels)
    head = learn_base(table, heads=("conformal",)).heads["conformal"]
    assert len(head["items"]) == 1500
    of_class = np.floor(head["items"][:, 0]).reshape(75, 20)
    assert (of_class == of_class[:, :1]).all()  # the classes are in order
    assert len(np.unique(of_class)) == 75
    assert 90 not in of_class  # it has too few
    np.testing.assert_array_equal(head["codes"], np.repeat(np.arange(75), 20))
    other = FeatureTable(table.features + 1000, labels)  # classes that the backbone did not learn
    assert learn_base(table, validation=other, heads=("conformal",)).heads["conformal"]["items"].min() >= 1000
