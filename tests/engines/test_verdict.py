"""The verdict of the default method: the decision, hidden examples, the evidence, and what new items get."""

import numpy as np
import pytest
from _random_piles import Source
from sklearn.datasets import load_digits

import handful
from handful.core.arrays import FLOOR
from handful.core.metrics import auroc
from handful.engines.density import DENSITY_FLOOR, MAX_CLASS_WEIGHT, OUTLIER_FLOOR
from handful.engines.evidence import ITEM, PILE, look
from handful.engines.hidden import Hidden, hide_each
from handful.engines.verdict import TRIED_SHARES, Share, Weights, judge, shipped
from handful.features import FeatureTable


@pytest.fixture(scope="module")
def piles():
    digits = load_digits()
    table = FeatureTable(digits.data.astype(np.float32), [f"digit {n}" for n in digits.target], name="digits")
    return [pile for pile in Source(table).piles(24, seed=3) if len(pile.truth) >= 20]


def solve(pile, **options):
    return handful.solve(pile.task.support[0], pile.task.labels[0], pile.task.query[0], **options)


@pytest.fixture(scope="module")
def solved(piles):
    return [solve(pile) for pile in piles]


# The decision


def test_a_label_is_given_where_its_class_is_more_probable_than_unknown(piles, solved):
    between = 0
    for pile, result in zip(piles, solved, strict=True):
        most_probable = result.p_unknown > result.joint_probabilities.max(axis=1)
        assert (result.unknown == most_probable).all()
        between += int((most_probable & (result.p_unknown < 0.5)).sum())
        model = handful.make_estimator("auto").fit(
            np.concatenate([pile.task.support[0], pile.task.query[0]]),
            np.append(pile.task.labels[0], np.full(len(pile.truth), -1)),
        )
        assert (model.unknown_[len(pile.task.labels[0]) :] == most_probable).mean() > 0.99
        answers = model.answer(pile.task.query[0])
        assert (answers.unknown == (answers.p_unknown > answers.joint_probabilities.max(axis=1))).all()
    assert between > 0  # items that are unknown though P(unknown) is below one half


def test_the_threshold_is_a_number_that_can_be_moved(solved):
    result = solved[0]
    counts = [int(result.at(limit).unknown.sum()) for limit in (0.05, 0.3, 0.5, 0.7, 0.95)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]
    doubts = result.p_unknown / (result.p_unknown + result.p_closest)
    np.testing.assert_allclose(result.doubts, doubts, atol=1e-6)
    assert (result.at(0.7).unknown == (result.doubts > 0.7)).all()


# Where the numbers come from


def test_estimate_interval_and_chances_come_from_one_place(piles, solved):
    held = 0
    for pile, result in zip(piles, solved, strict=True):
        low, high = result.outlier_share_interval
        assert result.outlier_share == pytest.approx(result.p_unknown.mean(), abs=1e-6)
        assert low <= result.outlier_share <= high
        held += low <= pile.share <= high
        low, high = result.expected_precision_interval
        assert 0 < low <= result.expected_precision <= high <= 1
    assert held >= 0.6 * len(piles)


def test_the_estimate_is_halfway_between_the_mean_chance_and_the_median_of_the_posterior():
    rng = np.random.default_rng(0)
    items, pile = rng.normal(size=(2, 60, len(ITEM))), rng.normal(size=(2, len(PILE)))
    weights, constant = shipped().of_pile(pile)
    chance = 1 / (1 + np.exp(-np.einsum("bqf,bf->bq", items, weights) - constant[:, None]))
    nowhere = Hidden(*np.full((4, 2, 10), np.nan))
    above = np.linspace(0.9, 0.1, len(TRIED_SHARES))[None].repeat(2, axis=0)
    verdict = judge(items, pile, rng.dirichlet(np.ones(3), (2, 60)), nowhere, above, None)
    median = Share(verdict.above).estimate
    assert (abs(median - chance.mean(axis=1)) > 0.01).all()  # else the two could not be told apart
    np.testing.assert_allclose(verdict.share, (chance.mean(axis=1) + median) / 2, atol=1e-4)


def test_a_share_that_is_told_is_the_mean_chance(piles):
    for share in (0.1, 0.5, 0.9):
        told = solve(piles[0], outlier_share=share)
        assert told.p_unknown.mean() == pytest.approx(share, abs=1e-4)
        assert told.outlier_share_interval is None


def test_the_verdict_ranks_better_than_its_parts(piles, solved):
    both = [(p, r) for p, r in zip(piles, solved, strict=True) if 0 < p.share < 1]
    own = np.mean([auroc(r.outlier_scores, p.truth < 0) for p, r in both])
    for name in ("kdo", "eol"):
        assert own > np.mean([auroc(solve(p, method=name).outlier_scores, p.truth < 0) for p, _ in both])


# Hidden examples


def test_examples_with_wrong_labels_land_elsewhere(piles):
    wrong, chance = [], []
    for pile in piles:
        labels, support = pile.task.labels[0].copy(), pile.task.support[0]
        if pile.shots < 3 or pile.ways < 2:
            continue
        first, last = np.flatnonzero(labels == 0)[0], np.flatnonzero(labels == labels.max())[0]
        labels[[first, last]] = labels[[last, first]]
        examples = handful.solve(support, labels, pile.task.query[0]).examples
        assert examples["label"].tolist() == labels.tolist()
        assert ((examples["rank"] >= 0) & (examples["rank"] <= 1)).all()
        wrong.append(np.isin(np.arange(len(labels)), [first, last]))
        chance.append(examples["p_own"])
    assert len(wrong) >= 5
    assert auroc(-np.concatenate(chance), np.concatenate(wrong)) > 0.9


def test_the_only_example_of_a_class_is_not_hidden(piles):
    pile = next(p for p in piles if p.shots >= 3 and p.ways >= 2)
    support, labels = pile.task.support[0], pile.task.labels[0]
    keep = np.flatnonzero((labels > 0) | (np.arange(len(labels)) == 0))
    examples = handful.solve(support[keep], labels[keep], pile.task.query[0]).examples
    assert np.isnan(examples["p_own"][0])
    assert np.isfinite(examples["p_own"][1:]).all()
    single = np.unique(labels, return_index=True)[1]
    result = handful.solve(support[single], labels[single], pile.task.query[0])
    assert np.isnan(result.examples["rank"]).all()
    assert np.isfinite(result.p_unknown).all()
    assert handful.solve(support, labels, pile.task.query[0], method="eol").examples is None


@pytest.mark.parametrize("backend", ["array", "auto"])
def test_a_hidden_example_lands_where_the_equations_of_kdo_say(backend):
    """One task, each class shown twice: the passes of KDO as matrices of one fold, without anything shared."""
    rng, ways, share, beta, e0 = np.random.default_rng(1), 3, 0.3, 6.0, 0.02
    labels = np.repeat(np.arange(ways), 2)
    x = np.eye(4)[np.append(labels, rng.integers(0, 4, 80))] + 0.4 * rng.normal(size=(86, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    h = x @ x.T
    of_task = np.array([beta]), np.array([e0]), np.array([share]), np.zeros(1)
    landed = hide_each(h[None], labels[None], ways, *of_task, backend)
    target = np.append(np.full(ways, (1 - share) / ways), share)
    e = np.exp(beta * (h - 1)) * (1 - np.eye(len(h)))
    central = h[:6].sum(axis=1)
    for k in range(ways):
        first, second = sorted((2 * k, 2 * k + 1), key=lambda i: central[i])
        for example, rank_in_class in ((first, 0), (second, 1)):
            hidden = [sorted((2 * j, 2 * j + 1), key=lambda i: central[i])[rank_in_class] for j in range(ways)]
            p = np.zeros((86, ways + 1))
            for i in set(range(6)) - set(hidden):
                p[i, labels[i]] = 2 + 4 / 1
            free, weight = np.array([*hidden, *range(6, 86)]), np.ones(ways + 1)
            for step in range(6):
                length = np.sqrt(np.maximum(np.einsum("ik,ij,jk->k", p, h, p), FLOOR))
                density = e @ p
                logits = (beta * (h @ p) / length + np.log(density + DENSITY_FLOOR)) / 2
                logits[:, ways] = np.log(density[:, ways] + OUTLIER_FLOOR * e0)
                odds = np.exp(logits)
                for _ in range(10 if step in (0, 1, 5) else 2):
                    held = odds[6:] * weight
                    weight = weight * target / (held / held.sum(axis=1, keepdims=True)).mean(axis=0)
                    weight /= np.exp(np.log(weight[:ways]).mean())
                    weight[:ways] = weight[:ways].clip(1 / MAX_CLASS_WEIGHT, MAX_CLASS_WEIGHT)
                answers = odds * weight / (odds * weight).sum(axis=1, keepdims=True)
                p[free] = answers[free]
            assert landed.p_own[0, example] == pytest.approx(answers[example, k], rel=1e-4)
            assert landed.p_unknown[0, example] == pytest.approx(answers[example, ways], rel=1e-4)
            assert landed.rank[0, example] == (answers[6:, ways] < answers[example, ways]).mean()
    assert landed.p_own[0].min() < 0.9  # the densities matter


# The evidence


@pytest.mark.parametrize("backend", ["array", "auto"])
def test_the_numbers_of_an_item_are_those_of_their_definitions(backend):
    rng, ways = np.random.default_rng(2), 2
    labels, n = np.array([0, 0, 0, 1, 1, ways]), 6 + 40  # two classes, one example of no class
    x = np.eye(3)[np.append(labels, rng.integers(0, 3, 40))] + 0.5 * rng.normal(size=(n, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    h, p_unknown, classes = x @ x.T, rng.uniform(0.05, 0.95, 40), rng.dirichlet(np.ones(ways), 40)
    seen = look(h[None], labels[None], ways, p_unknown[None], classes[None], backend).items[0]
    number = {name: seen[:, k] for k, name in enumerate(ITEM)}

    pile = range(6, n)
    pairs = np.array([h[i, j] for i in pile for j in pile if i != j])
    mean, spread = pairs.mean(), pairs.std()
    odds = np.log(p_unknown / (1 - p_unknown))
    nearest = [sorted(set(range(n)) - {i}, key=lambda j: -h[i, j])[:10] for i in range(n)]
    w = np.array([[max(h[i, j], 0) * ((j in nearest[i]) + (i in nearest[j])) for j in range(n)] for i in range(n)])
    w /= w.sum(axis=1, keepdims=True)
    start = np.zeros((n, ways + 1))
    for k in range(ways + 1):
        start[np.flatnonzero(labels == k), k] = 1 / (labels == k).sum()
    mass = start
    for _ in range(12):
        mass = 0.9 * w @ mass
        mass[:6] = start[:6]
    all_odds = np.concatenate([np.where(labels == ways, 4, -4), odds])
    score = (h @ np.linalg.solve(h + np.eye(n), start[:, :ways])).max(axis=1)[6:]
    widest = np.where(np.eye(n, dtype=bool), -np.inf, h)
    for k in range(n):  # as Floyd and Warshall
        widest = np.maximum(widest, np.minimum(widest[:, k, None], widest[k]))
    own = [np.flatnonzero(labels == k) for k in range(ways)]
    within = [np.mean([max(h[i, j] for j in own[k] if j != i) for i in own[k]]) for k in range(ways)]
    for q, i in enumerate(pile):
        k, others = classes[q].argmax(), sorted((h[i, j] for j in pile if j != i), reverse=True)
        link, rank = widest[i, own[k]].max(), (np.sum(odds < odds[q]) + 0.5) / 40
        expected = {
            "log-odds": odds[q], "rank": np.log(rank / (1 - rank)),
            "walk": np.log(0.9 * (w @ mass)[i, :ways].max() + 1e-6), "neighbours": w[i] @ all_odds,
            "link": (link - mean) / spread, "link, own": (link - within[k]) / spread,
            "surplus": (h[i, :5].max() - np.mean(others[:20])) / spread,
            "density": (np.mean(others[:5]) - mean) / spread, "ridge": (np.sum(score < score[q]) + 0.5) / 40,
        }  # fmt: skip
        for name, value in expected.items():
            assert number[name][q] == pytest.approx(value, abs=1e-3), name


def test_weights_survive_their_file():
    weights = shipped()
    again = Weights.from_json(pytest.importorskip("learn_verdict").as_json(weights, {"about": "a test"}))
    assert again.constant == weights.constant
    for name in ("columns", "powers", "spreads"):
        np.testing.assert_array_equal(getattr(again, name), getattr(weights, name))
    assert again.share.names == weights.share.names


def test_odd_piles_get_finite_answers():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 1, 6)) + 0.1 * rng.normal(size=(2, 9, 6))
    examples, labels = np.concatenate([a[:2], b[:2]]), [0, 0, 1, 1]
    odd = {
        "few items": (examples, labels, a[5:6]), "four items": (examples, labels, a[5:9]),
        "copies": (examples, labels, np.repeat(a[5:6], 30, axis=0)),
        "one class": (a[:3], [0] * 3, np.concatenate([a[3:], b])), "one example": (a[:1], [0], np.concatenate([a, b])),
        "copies of examples": (np.repeat(examples, 5, axis=0), np.repeat(labels, 5), np.concatenate([a, b])),
        "unequal": (np.concatenate([a[:6], b[:1]]), [0] * 6 + [1], np.concatenate([a[6:], b[1:]])),
        "constant": (np.append(examples, np.ones((4, 1)), 1), labels, np.append(a, np.ones((9, 1)), 1)),
    }  # fmt: skip
    for name, (support, given, pile) in odd.items():
        for backend in ("array", "auto"):
            result = handful.solve(support, given, pile, backend=backend)
            assert np.isfinite(result.probabilities).all(), name
            assert ((result.p_unknown >= 0) & (result.p_unknown <= 1)).all(), name
            low, high = result.outlier_share_interval
            assert 0 <= low <= result.outlier_share <= high <= 1, name
            assert not name.endswith("items") or high - low > 0.1  # so few items say little
