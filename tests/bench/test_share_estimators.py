"""Estimators of the share of unknowns: on piles whose share is easy to see, on degenerate ones, and the benchmark."""

import csv
import json
import warnings

import numpy as np
import pytest
from piles import assert_refused

from handful import solve_task
from handful.bench import share_estimators
from handful.bench.estimators import ESTIMATORS, Scores, _on_simplex, _project, estimate
from handful.bench.piles import PileRanges, Source
from handful.core.prepare import prepare
from handful.core.task import Task
from handful.features import FeatureTable, digits, write

WIDE = 0.15  # kernels see 25 examples in 64 dimensions poorly


def pile(seed=0, ways=5, shots=5, share=0.4, items=150, unknown_ways=5, noise=0.08, dimension=64):
    """Clusters far apart, each around its own axis."""
    rng = np.random.default_rng(seed)
    unknowns = round(share * items)
    kinds = np.concatenate([np.arange(items - unknowns) % ways, ways + np.arange(unknowns) % unknown_ways])
    labels = np.repeat(np.arange(ways), shots)
    axes = np.eye(dimension)
    return Task(*(axes[labels] + noise * rng.normal(size=(len(labels), dimension)), labels), axes[kinds]
                + noise * rng.normal(size=(items, dimension)))  # fmt: skip


# Where theory says that the share can be seen


@pytest.mark.parametrize("share", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_clusters_far_apart_show_their_share(name, share):
    errors = [estimate(name, pile(seed, share=share)) - share for seed in range(3)]
    assert np.abs(errors).max() <= (WIDE if name == "km2" else 0.05)


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"km2"}))  # it needs more examples for so small a share
def test_a_small_share_is_seen_with_five_examples(name):
    assert estimate(name, pile(share=0.1)) == pytest.approx(0.1, abs=0.05)


@pytest.mark.parametrize("name", ["em", "bbse", "mixture", "otsu"])
def test_one_example_of_each_class_is_enough_for_clusters_far_apart(name):
    assert estimate(name, pile(shots=1, share=0.4)) == pytest.approx(0.4, abs=0.1)


@pytest.mark.parametrize("name", ["em", "bbse", "mixture"])
def test_nothing_is_unknown(name):
    assert estimate(name, pile(share=0.0)) < 0.05


def test_km2_comes_nearer_with_more_examples():
    errors = [abs(estimate("km2", pile(shots=shots, share=0.1)) - 0.1) for shots in (5, 40)]
    assert errors[1] < errors[0]


def test_otsu_finds_two_parts_even_if_nothing_is_unknown():
    assert estimate("otsu", pile(share=0.0)) > 0.2


def test_otsu_is_the_split_of_least_variance_within():
    task = pile(noise=0.3, items=40)
    prepared = prepare(task.support, task.query, ("task", "l2"))
    d = np.sort(np.linalg.norm(prepared.query[0][:, None] - prepared.support[0], axis=-1), axis=1)[:, :3].mean(axis=1)
    d = np.sort(d)
    within = [k * d[:k].var() + (len(d) - k) * d[k:].var() for k in range(1, len(d))]
    assert estimate("otsu", task) == pytest.approx(1 - (np.argmin(within) + 1) / len(d))


def test_scores_leave_an_example_out_of_its_class_and_a_class_out_of_all():
    task = pile(ways=3, shots=4, noise=0.3)
    unit = [x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (task.support[0], task.query[0])]
    scores = Scores.of(unit[0], task.labels[0], unit[1])
    for s, (x, label) in enumerate(zip(unit[0], task.labels[0], strict=True)):
        means = {k: unit[0][(task.labels[0] == k) & (np.arange(12) != s)].mean(axis=0) for k in range(3)}
        cosines = {k: x @ mean / np.linalg.norm(mean) for k, mean in means.items()}
        assert scores.known[s] == pytest.approx(max(cosines.values()))
        assert scores.unknown[s] == pytest.approx(max(c for k, c in cosines.items() if k != label))


def test_the_simplex_and_the_kernel_space_have_their_nearest_points():
    from scipy.optimize import minimize

    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 3))
    kernel = np.exp(-((x[:, None] - x) ** 2).sum(axis=-1))
    target = rng.normal(size=(2, 6))
    simplex = [{"type": "eq", "fun": lambda w: w.sum() - 1}]
    for matrix, found in ((np.eye(6), _on_simplex(target)), (kernel, _project(kernel, target))):
        for row, weights in zip(target, found, strict=True):
            best = minimize(
                lambda w, m=matrix, t=row: (w - t) @ m @ (w - t), np.full(6, 1 / 6), bounds=[(0, 1)] * 6,
                constraints=simplex, options={"ftol": 1e-12},
            )  # fmt: skip
            np.testing.assert_allclose(weights, best.x, atol=1e-3)


# Piles that show nothing

EDGES = {
    "one class": {"ways": 1},
    "one class, one example": {"ways": 1, "shots": 1},
    "one example": {"shots": 1},
    "no unknowns": {"share": 0.0},
    "only unknowns": {"share": 1.0},
    "20 items": {"items": 20},
    "one item": {"items": 1},
    "one dimension more than classes": {"dimension": 11},
    "copies": {"noise": 0.0},
    "copies of one item": {"noise": 0.0, "ways": 1, "unknown_ways": 1, "share": 0.0},
}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_there_is_always_a_share_and_no_warning(name, edge):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        share = estimate(name, pile(**EDGES[edge]))
    assert 0 <= share <= 1


@pytest.mark.parametrize("name", ESTIMATORS)
def test_items_that_are_all_alike_are_not_unknown_unless_the_estimator_cannot_tell(name):
    task = pile()
    alike = Task(np.ones_like(task.support), task.labels, np.ones_like(task.query))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0 <= estimate(name, alike) <= 0.5


# The benchmark


@pytest.fixture(scope="module")
def tables():
    features, labels = digits()
    return {
        name: FeatureTable(features[rows], labels[rows].astype(str), name=name)
        for name, rows in (("even", labels % 2 == 0), ("odd", labels % 2 == 1))
    }


def test_the_posterior_never_saw_the_source_that_it_is_judged_on(tables):
    def estimates(of):
        ranges = PileRanges(items=(30, 60))
        results = share_estimators.run(of, ["posterior"], piles=3, learning_piles=6, ranges=ranges)
        assert results.is_learned
        return {d: [r["estimate"] for r in results.records if r["domain"] == d] for d in ("even", "odd")}

    before = estimates(tables)
    even = tables["even"]
    scrambled = FeatureTable(even.features[::-1].copy(), even.labels, name="even")
    after = estimates({**tables, "even_2": scrambled})  # the same source as even, by its name
    assert after["even"] == before["even"]
    assert after["odd"] != before["odd"]


def test_one_source_alone_is_judged_by_the_posterior_of_handful(tables):
    results = share_estimators.run({"odd": tables["odd"]}, ["posterior"], piles=2)
    assert not results.is_learned
    table = tables["odd"]
    task = Source(table).pile(0).task
    assert results.records[0]["estimate"] == pytest.approx(100 * solve_task(task, method="kdo").outlier_share)


def test_every_estimator_sees_the_same_piles_and_errors_are_in_points(tables):
    results = share_estimators.run({"odd": tables["odd"]}, ["half", "otsu"], piles=4)
    half, otsu = ([r for r in results.records if r["estimator"] == name] for name in ("half", "otsu"))
    assert [r["share"] for r in half] == [r["share"] for r in otsu]
    np.testing.assert_allclose([r["error"] for r in half], [50 - 100 * r["share"] for r in half])
    assert results.by_domain("half", lambda e: float(e.mean()))["odd"] == pytest.approx(
        50 - 100 * np.mean([r["share"] for r in half])
    )


def test_differences_are_taken_over_sources():
    errors = {"a_1": (10, 12), "a_2": (-10, 16), "b": (4, -5)}  # of the first row and of another
    records = [
        {"estimator": name, "domain": domain, "error": float(error)}
        for domain, row in errors.items()
        for name, error in zip(("posterior", "otsu"), row, strict=True)
    ]
    mean, half_width = share_estimators.EstimatorResults(records, 1, True).lag("otsu")
    assert mean == pytest.approx(np.mean([4, 1]))  # a: the mean of 2 and 6; b: 1
    assert half_width == pytest.approx(1.96 * np.std([4, 1], ddof=1) / 2**0.5)


@pytest.fixture
def folder(tables, tmp_path):
    (tmp_path / "sets").mkdir()
    for name, table in tables.items():
        write(table, tmp_path / "sets" / f"{name}.npz")
    return tmp_path / "sets"


def test_the_command_compares_estimators_on_a_folder(folder, handful, tmp_path):
    command = ("bench", "share", folder, "--estimators", "--methods", "first,otsu,em", "--tasks", 4, "--seed", 3)
    done = handful(*command, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "handful: first estimate: mean absolute error" in done.stdout
    text = (tmp_path / "out/share-estimators.md").read_text("utf-8")
    assert "4 random piles of each of 2 feature sets" in text
    assert "--methods first,otsu,em --tasks 4 --seed 3" in text
    assert "| odd |" in text
    with open(tmp_path / "out/share-estimators.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 2 * 4 * 3
    as_json = handful(*command, "-o", tmp_path / "out", "--json")
    records = json.loads(as_json.stdout)["records"]
    assert {r["estimator"] for r in records} == {"first", "otsu", "em"}
    assert all(0 <= r["estimate"] <= 100 for r in records)


def test_without_a_folder_it_takes_the_digits_or_one_file(folder, handful, tmp_path):
    done = handful("bench", "share", "--estimators", "--methods", "posterior,half", "--tasks", 3, "-o", tmp_path / "a")
    assert done.returncode == 0, done.stderr
    assert "The posterior is the one that comes with handful" in (tmp_path / "a/share-estimators.md").read_text("utf-8")
    file = ("bench", "share", "--estimators", "--features", folder / "odd.npz", "--methods", "half", "--tasks", 3)
    done = handful(*file, "--piles", "equal", "-o", tmp_path / "b", "--json")
    records = json.loads(done.stdout)["records"]
    assert {r["domain"] for r in records} == {"odd"}
    assert {r["known_sizes"] for r in records} == {None}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("bench", "balanced", "--estimators"), "--estimators is for share"),
        (("bench", "domains", ".", "--estimators"), "--estimators is for share"),
        (("bench", "domains", ".", "--seed", "3"), "--seed is for share --estimators"),
        (("bench", "share", "--estimators", "--methods", "ticee"), "there is no estimator 'ticee'"),
        (("bench", "share", ".", "--estimators", "--features", "a.npz"), "give a folder or --features, not both"),
        (("bench", "share", "nowhere", "--estimators"), "nowhere holds no feature sets"),
        (("bench", "share", "--seed", "3"), "--seed is for share --estimators"),
        (("bench", "share", "--estimators", "--seeds", "2"), "share --estimators has one seed"),
        (("bench", "share", "--estimators", "--piles", "3"), "--piles is 3: with --estimators, give one of random"),
    ],
)
def test_wrong_calls_are_told_of(arguments, sentence, handful):
    assert_refused(handful(*arguments), sentence)
