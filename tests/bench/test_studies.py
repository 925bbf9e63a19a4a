"""What the studies in benchmarks/ are made of: random piles, estimators of the share, streams, other tools."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score, recall_score

import handful
from handful.core.task import Task
from handful.engines import share_posterior as engine
from handful.engines.share_posterior import Posterior
from handful.engines.share_statistics import TRIED_SHARES
from handful.features import digits
from handful.solving.groups import Group

piles = pytest.importorskip("_random_piles", reason="the benchmarks are not part of this copy")
import _open_world as world  # noqa: E402
import share  # noqa: E402
import share_estimators as estimators  # noqa: E402

# Random piles


@pytest.fixture(scope="module")
def drawn(embedded):
    return list(piles.Source(embedded).piles(80))


def test_piles_are_true_and_differ_in_everything(embedded, drawn):
    features, labels = digits()
    for pile in drawn:
        assert len({*pile.support_items, *pile.query_items}) == len(pile.support_items) + len(pile.query_items)
        np.testing.assert_array_equal(pile.task.query[0], features[pile.query_items].astype(pile.task.query.dtype))
        names = labels[pile.support_items].reshape(pile.ways, pile.shots)[:, 0]
        is_known = pile.truth >= 0
        np.testing.assert_array_equal(labels[pile.query_items][is_known], names[pile.truth[is_known]])
        assert not np.isin(labels[pile.query_items][~is_known], names).any()
    facts = [pile.facts for pile in drawn]
    assert {f["ways"] for f in facts} == set(range(2, 9))
    assert {f["shots"] for f in facts} == {1, 2, 3, 5, 10}
    shares = np.array([f["share"] for f in facts])
    assert (shares == 0).mean() == pytest.approx(0.1, abs=0.08)
    assert shares.max() > 0.85
    alone = piles.Source(embedded).pile(7)  # the same, whichever piles are drawn beside it
    np.testing.assert_array_equal(alone.query_items, drawn[7].query_items)


# The posterior of the share that is learned from them


@pytest.fixture(scope="module")
def shown(drawn):
    return piles.Shown.of(drawn[:50])


def test_the_posterior_is_the_logistic_regression_of_scikit_learn(shown):
    some = {name: shown.columns[name] for name in ("r", "log c", "g")}
    tried = np.array(TRIED_SHARES)
    found = piles.learn_posterior(some, shown.shares, tried)
    x = np.stack([(some[n] - m) / s for n, m, s in zip(some, found.means, found.scales, strict=True)], axis=-1)
    steps = np.gradient(tried)
    weight = np.tile(steps / steps.mean(), len(shown.shares))
    truth = (shown.shares[:, None] > tried).ravel()
    other = LogisticRegression(C=1 / piles.RIDGE, tol=1e-8, max_iter=1000).fit(x.reshape(-1, 3), truth, weight)
    np.testing.assert_allclose(found.weights, other.coef_[0], rtol=0.01, atol=1e-3)
    assert found.constant == pytest.approx(other.intercept_[0], abs=0.01)
    assert (np.diff(found.above(some), axis=1) <= 0).all()  # it never rises with the share
    again = Posterior.from_json(piles.posterior_as_json(found, {"piles": 50}))
    np.testing.assert_allclose(again.above(some), found.above(some), atol=1e-4)
    assert set(engine.shipped().names) == set(shown.columns)  # the shipped one takes what is measured


def test_the_shipped_posterior_is_honest_on_pixels_that_it_never_saw(drawn):
    some = drawn[:40]
    results = [handful.solve(pile.task, method="kdo") for pile in some]
    errors = [abs(float(r.outlier_share) - pile.share) for r, pile in zip(results, some, strict=True)]
    covered = [
        low <= pile.share <= high
        for (low, high), pile in zip((r.outlier_share_interval for r in results), some, strict=True)
    ]
    assert np.mean(errors) < 0.14
    assert 0.7 < np.mean(covered) < 0.97


# Estimators of the share


def pile(share, ways=5, shots=5, items=150, noise=0.08, dimension=64):
    """Clusters far apart, each around its own axis."""
    rng = np.random.default_rng(0)
    unknowns = round(share * items)
    kinds = np.concatenate([np.arange(items - unknowns) % ways, ways + np.arange(unknowns) % ways])
    labels = np.repeat(np.arange(ways), shots)
    axes = np.eye(dimension)
    support, query = (axes[codes] + noise * rng.normal(size=(len(codes), dimension)) for codes in (labels, kinds))
    return Task(support, labels, query)


def test_clusters_far_apart_show_their_share():
    for name in estimators.ESTIMATORS:
        for wanted in (0.3, 0.8):
            limit = 0.15 if name == "km2" else 0.05  # kernels see 25 examples in 64 dimensions poorly
            assert estimators.estimate(name, pile(wanted)) == pytest.approx(wanted, abs=limit), name
        if name in ("em", "bbse", "mixture"):
            assert estimators.estimate(name, pile(0.0)) < 0.05, name


def test_only_eol_is_told_the_share_and_queries_stay_as_many_while_more_are_unknown():
    of = share.benchmark(handful.features.Protocol(), share.contenders("knn, kdo"))
    pairs = {cell.column: (cell.protocol.queries, cell.protocol.outlier_queries) for cell in of.cells}
    assert pairs == {
        "0%": (30, 0), "17%": (25, 5), "33%": (20, 10), "50%": (15, 15), "67%": (10, 20), "83%": (5, 25),
    }  # fmt: skip
    given = {(cell.column, cell.row): cell.contender.parameters for cell in of.cells}
    told = [given[column, share.TOLD]["outlier_share"] for column in pairs]
    assert told == pytest.approx([0.01, 1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6])
    for row, parameters in {
        share.AUTO: {}, share.HALF: {"outlier_share": 0.5}, "KDO": {}, "kNN distance": {"outlier_share": 0.5},
    }.items():  # fmt: skip
        assert all(given[column, row] == parameters for column in pairs), row


# The open world


def test_a_stream_has_each_item_once_and_a_seed_is_a_stream():
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(30), np.arange(2, 32)))
    codes[codes == 7] = -1
    for context, ways in (("small", 5), ("large", 14)):
        stream = world.draw_stream(codes, context, seed=3)
        assert (stream.classes, len(stream.context)) == (29, ways)
        both = np.concatenate([stream.examples, stream.arrivals])
        assert sorted(both.tolist()) == np.flatnonzero(codes >= 0).tolist()
        for k in stream.context:
            assert np.sum(codes[stream.examples] == k) == min(5, np.sum(codes == k) - 1)
        np.testing.assert_array_equal(stream.truth, codes[stream.arrivals])
    one, same, other = (world.draw_stream(codes, items=200, classes=12, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.arrivals, same.arrivals)
    assert one.arrivals.tolist() != other.arrivals.tolist()
    with pytest.raises(ValueError, match="there are 5 classes, 5 of them with two items or more: a small context"):
        world.draw_stream(np.repeat(np.arange(5), 9))


class Notebook:
    """Stands for a model: notes what it is given, calls everything unknown and shows four groups."""

    def __init__(self, examples):
        self.examples, self.calls, self.items, self.labels = examples, [], np.zeros((0, 1)), []

    def partial_fit(self, X, y=None):
        self.calls.append(("items", X[:, 0].tolist(), None if y is None else y.tolist()))
        self.items = np.concatenate([self.items, X])
        self.transduction_ = np.full(len(self.items), -1)
        self.outlier_scores_ = self.items[:, 0].astype(float)
        free = [row for row in range(self.examples, len(self.items)) if row not in self.labels]
        self.groups_ = [Group(k + 1, np.array(free[k::4]), 1.0) for k in range(4)]

    def teach(self, answers):
        self.calls.append(("answers", answers))
        self.labels += list(answers)


def test_a_model_is_told_only_what_has_come():
    codes = np.random.default_rng(5).permutation(np.repeat(np.arange(6), [3, 3, 3, 3, 12, 12]))
    stream = world.draw_stream(codes, "small", items=16, seed=1)
    n = len(stream.examples)
    run = world.Run("notebook", "small", 1, stream, 6, np.zeros(16, int), np.zeros(16))
    model = Notebook(n)
    assert list(world.follow(run, model, np.arange(len(codes), dtype=float)[:, None])) == [0, 1, 2]
    assert model.calls[0] == ("items", stream.examples.tolist(), codes[stream.examples].tolist())
    blocks = [call[1:] for call in model.calls[1:] if call[0] == "items"]
    assert blocks == [(stream.arrivals[low : low + 6].tolist(), None) for low in (0, 6, 12)]
    assert (run.answers == -1).all()
    order, seen = np.concatenate([stream.examples, stream.arrivals]), n
    assert any(call[0] == "answers" for call in model.calls)
    for call in model.calls[1:]:
        if call[0] == "items":
            seen += len(call[1])
        else:
            assert max(call[1]) < seen
            assert call[1] == {row: codes[order[row]] for row in call[1]}
    assert [place + n for place, _ in run.told] == model.labels


def test_figures_of_a_small_stream_by_hand():
    """Classes 0 to 4 are known; 5 is named after block 0 and 6 never."""
    codes = np.array([0, 1, 2, 3, 4, 0, 5, 6, 1, 5, 5, 6, 0])
    stream = world.Stream(np.arange(5), np.arange(5, 13), codes, np.arange(5), 7)  # 0 5 6 1 | 5 5 6 0
    answers, scores = np.array([0, -1, 2, 3, 5, -1, -1, 0]), np.array([1, 3, 0, 2, 0, 1, 9, 1.0])
    run = world.Run("m", "small", 0, stream, 4, answers, scores, [(1, 0), (3, 0), (5, 1)], [1.0, 3.0])
    first, second, both = (world.figures(run, blocks) for blocks in ([0], [1], [0, 1]))
    assert (first["context"], second["context"], both["context"]) == (50, 100, pytest.approx(200 / 3))
    assert np.isnan(first["named"])
    assert (second["named"], both["named"]) == (50, 50)
    assert (first["unknown"], second["unknown"], both["unknown"]) == (50, 100, pytest.approx(200 / 3))
    assert [(f["told"], f["mistakes"], f["classes"]) for f in (first, second, both)] == [
        (2, 1, 1), (1, 1, 1), (3, 2, 1),
    ]  # fmt: skip
    assert [f["seconds"] for f in (first, second, both)] == [1, 3, 2]


# Other tools, for peers.py


def test_rules_decide_as_they_are_named_and_figures_are_those_of_scikit_learn():
    pytest.importorskip("pyod")
    import peers

    methods = peers._peers
    ranking = methods.Ranking(np.zeros(10, int), np.arange(10.0))
    assert np.flatnonzero(methods.told_share(ranking, 0.3).unknown).tolist() == [7, 8, 9]
    assert not methods.told_share(ranking, 0.0).unknown.any()
    rng = np.random.default_rng(1)
    truth = rng.integers(-1, 3, 60)
    answer = methods.Answer(rng.integers(0, 3, 60), rng.random(60), rng.random(60) < 0.3)
    decided, found = np.where(answer.unknown, -1, answer.classes), peers.figures(answer, truth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found["balanced_accuracy"] == pytest.approx(100 * balanced_accuracy_score(truth, decided))
    assert found["macro_f1"] == pytest.approx(100 * f1_score(truth, decided, average="macro"))
    assert found["recall"] == pytest.approx(100 * recall_score(truth, decided, labels=[0, 1, 2], average="micro"))
    assert found["precision"] == pytest.approx(100 * (decided == truth)[decided >= 0].mean())
