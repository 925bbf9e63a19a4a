"""Random piles, the posterior that is learned from them, and the benchmark over a folder of feature sets."""

import csv
import json

import numpy as np
import pytest
from piles import assert_refused

import handful as package
from handful.bench import domains
from handful.bench.piles import KINDS, PileRanges, Source
from handful.bench.posterior import Shown, leave_one_out, piles_to_learn_from
from handful.engines import posterior as engine
from handful.engines.posterior import Posterior
from handful.engines.share_statistics import TRIED_SHARES
from handful.features import FeatureTable, digits, write


@pytest.fixture(scope="module")
def source():
    return Source(FeatureTable(*digits(), name="digits"))


@pytest.fixture(scope="module")
def drawn(source):
    return list(source.piles(120))


# Piles


def test_a_pile_is_the_same_whichever_piles_are_drawn_beside_it(source, drawn):
    again = source.pile(7)
    np.testing.assert_array_equal(again.query_items, drawn[7].query_items)
    np.testing.assert_array_equal(again.truth, drawn[7].truth)
    assert source.pile(7, seed=1).facts != again.facts


def test_no_item_is_an_example_and_in_the_pile_and_the_truth_is_true(drawn):
    features, labels = digits()
    for pile in drawn:
        assert not set(pile.support_items) & set(pile.query_items)
        assert len(set(pile.query_items)) == len(pile.query_items)
        np.testing.assert_array_equal(pile.task.query[0], features[pile.query_items].astype(pile.task.query.dtype))
        names = labels[pile.support_items].reshape(pile.ways, pile.shots)[:, 0]
        known = pile.truth >= 0
        np.testing.assert_array_equal(labels[pile.query_items][known], names[pile.truth[known]])
        assert not np.isin(labels[pile.query_items][~known], names).any()


def test_piles_differ_in_everything(drawn):
    facts = [pile.facts for pile in drawn]
    assert {f["ways"] for f in facts} == set(range(2, 9))
    assert {f["shots"] for f in facts} == {1, 2, 3, 5, 10}
    shares = np.array([f["share"] for f in facts])
    assert (shares == 0).mean() == pytest.approx(0.1, abs=0.08)
    assert shares.max() > 0.85
    assert 0.25 < np.mean([f["is_near"] for f in facts]) < 0.55
    assert min(f["items"] for f in facts) < 30
    assert max(f["items"] for f in facts) > 250


def test_near_unknown_classes_are_nearer_than_random_ones(source, drawn):
    def nearness(pile):
        known = np.unique(pile.task.support[0], axis=0).mean(axis=0)
        unknown = pile.task.query[0][pile.truth < 0].mean(axis=0)
        return -np.linalg.norm(known - unknown)

    some = [pile for pile in drawn if 0 < pile.unknown_ways < 3 and pile.ways < 5]
    near, others = ([nearness(p) for p in some if p.is_near is wanted] for wanted in (True, False))
    assert np.mean(near) > np.mean(others)


def test_a_label_that_is_no_class_is_only_ever_unknown():
    features, labels = digits()
    names = np.where(labels == 9, "oos", labels.astype(str))
    source = Source(FeatureTable(features, names, name="digits"))
    piles = list(source.piles(60))
    taken = [pile for pile in piles if (names[pile.query_items] == "oos").any()]
    assert 3 < len(taken) < 40
    for pile in piles:
        assert "oos" not in names[pile.support_items]
        assert (pile.truth[names[pile.query_items] == "oos"] == -1).all()
        assert pile.has_never_known or "oos" not in names[pile.query_items]


def test_too_few_classes_are_told_of():
    features, labels = digits()
    with pytest.raises(ValueError, match="digits has 2 classes of 4 or more items: random piles need at least 3"):
        Source(FeatureTable(features[labels < 2], labels[labels < 2], name="digits"))


# The posterior


@pytest.fixture(scope="module")
def shown(drawn):
    return Shown.of(drawn)


def test_the_posterior_is_the_logistic_regression_of_scikit_learn(shown):
    from sklearn.linear_model import LogisticRegression

    some = {name: shown.columns[name] for name in ("r", "log c", "g")}
    tried = np.array(TRIED_SHARES)
    found = Posterior.learn(some, shown.shares, tried)
    x = np.stack([(some[n] - m) / s for n, m, s in zip(some, found.means, found.scales, strict=True)], axis=-1)
    steps = np.gradient(tried)
    weight = np.tile(steps / steps.mean(), len(shown.shares))
    truth = (shown.shares[:, None] > tried).ravel()
    other = LogisticRegression(C=1 / engine.RIDGE, tol=1e-8, max_iter=1000).fit(x.reshape(-1, 3), truth, weight)
    np.testing.assert_allclose(found.weights, other.coef_[0], rtol=0.01, atol=1e-3)
    assert found.constant == pytest.approx(other.intercept_[0], abs=0.01)


def test_it_never_rises_with_the_share_and_comes_back_from_its_file(shown):
    found = shown.learn()
    above = found.above(shown.columns)
    assert above.shape == (len(shown.shares), len(TRIED_SHARES))
    assert (np.diff(above, axis=1) <= 0).all()
    again = Posterior.from_json(found.as_json({"piles": 120}))
    np.testing.assert_allclose(again.above(shown.columns), above, atol=1e-4)


def test_the_shipped_posterior_takes_what_is_measured(shown):
    assert set(engine.shipped().names) == set(shown.columns)
    assert all(np.isfinite(values).all() for values in shown.columns.values())


def test_the_shipped_posterior_is_honest_on_pixels_that_it_never_saw(drawn):
    error, covered = [], []
    for pile in drawn:
        result = package.solve_task(pile.task, method="kdo")
        low, high = result.outlier_share_interval
        error.append(abs(result.outlier_share - pile.share))
        covered.append(low <= pile.share <= high)
    assert np.mean(error) < 0.14
    assert 0.7 < np.mean(covered) < 0.97


def test_a_source_is_judged_by_what_others_taught(shown):
    half = Shown({n: v[:60] for n, v in shown.columns.items()}, shown.shares[:60])
    rest = Shown({n: v[60:] for n, v in shown.columns.items()}, shown.shares[60:])
    learned = leave_one_out({"a": half, "b": rest, "b_2": rest}, {"a": "a", "b": "b", "b_2": "b"})
    np.testing.assert_allclose(learned["b"].weights, half.learn().weights)
    np.testing.assert_array_equal(learned["b"].weights, learned["b_2"].weights)
    assert not np.allclose(learned["a"].weights, learned["b"].weights)
    with pytest.raises(ValueError, match="at least two sources"):
        leave_one_out({"a": half}, {"a": "a"})


def test_another_posterior_is_used_for_a_while_and_given_back(shown, drawn):
    other = Posterior(("g",), -8.0, np.zeros(1), np.zeros(1), np.ones(1))  # hardly anything is unknown
    task = drawn[0].task
    before = package.solve_task(task, method="kdo").outlier_share
    with engine.using(other):
        assert package.solve_task(task, method="kdo").outlier_share < 0.02
    assert package.solve_task(task, method="kdo").outlier_share == before


# The benchmark


@pytest.fixture
def folder(tmp_path):
    features, labels = digits()
    (tmp_path / "sets").mkdir()
    for name, rows in (("even", labels % 2 == 0), ("odd", labels % 2 == 1)):
        write(FeatureTable(features[rows], labels[rows].astype(str)), tmp_path / "sets" / f"{name}.npz")
    return tmp_path / "sets"


def test_the_command_compares_methods_on_every_feature_set(folder, handful, tmp_path):
    done = handful("bench", "domains", folder, "--methods", "knn", "--tasks", 6, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "Auto (not told): AUROC" in done.stdout
    text = (tmp_path / "out/domains.md").read_text("utf-8")
    assert "6 piles of each of 2 feature sets" in text
    assert "## Precision of labels" in text
    assert "| odd |" in text
    with open(tmp_path / "out/domains.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 6 * 4
    assert "## Precision promised and found" in text
    assert "Auto (not told), precision: 80 asked, promised " in done.stdout
    document = json.loads((tmp_path / "out/domains.json").read_text())
    kept = [r for r in document["promises"] if r["method"] == "Auto (not told)" and r["domain"] == "all"]
    assert [r["asked"] for r in kept] == [None, 0.8, 0.9, 0.95]
    assert all(r["promised"] >= 100 * r["asked"] for r in kept[1:] if r["promised"] is not None)
    assert not any(r["method"] == "knn" for r in document["promises"])  # its scores only rank
    records = document["records"]
    told = [r for r in records if r["method"] == "EOL (told)"]
    assert all(abs(r["share_error"]) <= 1.0 for r in told)  # it is told a share from 1 to 99 %
    assert {r["domain"] for r in records} == {"even", "odd"}


def test_the_same_piles_for_every_method_and_paired_differences():
    records = [
        {"method": m, "domain": d, "pile": i, "auroc": a, "shots": 1}
        for m, d, i, a in [("x", "a", 0, 70.0), ("x", "b", 0, 90.0), ("y", "a", 0, 60.0), ("y", "b", 0, np.nan)]
    ]
    results = domains.DomainResults(records, 1)
    assert results.by_domain("x", "auroc") == {"a": 70.0, "b": 90.0}
    differences = results.by_domain("x", "auroc", "y")
    assert differences["a"] == 10.0
    assert np.isnan(differences["b"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("bench", "domains"), "give a folder of feature sets"),
        (("bench", "domains", "nowhere"), "nowhere holds no feature sets"),
        (("bench", "balanced", "."), "only domains takes a folder"),
        (("bench", "domains", ".", "--seeds", "2"), "domains has one seed"),
        (("bench", "domains", ".", "--piles", "tall"), "give one of random, equal, paper, no-class"),
    ],
)
def test_wrong_calls_are_told_of(arguments, sentence, handful):
    assert_refused(handful(*arguments), sentence)


def test_ranges_can_be_narrowed():
    ranges = PileRanges(ways=(3, 3), shots=(4,), share=(0.5, 0.5), no_unknowns=0.0, items=(50, 50))
    for pile in Source(FeatureTable(*digits(), name="digits"), ranges).piles(5):
        assert (pile.ways, pile.shots, len(pile.truth)) == (3, 4, 50)
        assert pile.share == 0.5


def test_piles_of_the_paper_are_its_balanced_tasks():
    for pile in Source(FeatureTable(*digits(), name="digits"), KINDS["paper"]).piles(6):
        assert (pile.ways, pile.unknown_ways, len(pile.truth), pile.share) == (5, 5, 150, 0.5)
        np.testing.assert_array_equal(np.bincount(pile.truth[pile.truth >= 0]), [15] * 5)


def test_piles_of_equal_classes_are_learned_from_too():
    piles = piles_to_learn_from(FeatureTable(*digits(), name="digits"), 20, seed=3)
    assert len(piles) == 26
    assert all(pile.known_sizes is None and 4 <= pile.ways <= 6 for pile in piles[20:])


def test_items_of_no_class_are_the_unknowns_and_never_known(folder, handful, tmp_path):
    features, labels = digits()
    names = np.where(labels == 9, "oos", labels.astype(str))
    write(FeatureTable(features, names), folder / "scope.npz")
    source = Source(FeatureTable(features, names, name="scope"), KINDS["no-class"])
    for pile in source.piles(10):
        assert "9" not in labels[pile.support_items].astype(str)
        assert pile.share == 0 or (labels[pile.query_items] == 9).any()
    done = handful(
        "bench", "domains", folder, "--piles", "no-class", "--methods", "knn", "--tasks", 4, "-o", tmp_path / "out"
    )
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "out/domains.json").read_text())
    assert {record["domain"] for record in document["records"]} == {"scope"}
    assert "--piles no-class" in document["command"]


def test_no_feature_set_has_items_of_no_class(folder, handful):
    assert_refused(handful("bench", "domains", folder, "--piles", "no-class", "--tasks", 2), "items of no class")


def test_the_picture_has_a_row_for_each_feature_set_and_a_point_for_each_method(folder, handful, tmp_path):
    pytest.importorskip("matplotlib")
    from PIL import Image

    done = handful("bench", "domains", folder, "--methods", "knn", "--tasks", 3, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "out/domains.png") as picture:
        assert picture.size[0] == 1800
    from handful.bench import domain_picture

    records = [
        {"method": m, "domain": d, "pile": 0, "auroc": a, "accuracy": a, "absolute_error": 5.0}
        for m, d, a in [("x", "a", 70.0), ("x", "b", 90.0), ("y", "a", 60.0), ("y", "b", 80.0)]
    ]
    panels = domain_picture.draw(domains.DomainResults(records, 1)).axes
    assert [text.get_text() for text in panels[0].get_yticklabels()] == ["a", "b"]
    (line,) = [line for line in panels[0].lines if line.get_label() == "y"]
    assert line.get_xdata().tolist() == [-10.0, -10.0]
