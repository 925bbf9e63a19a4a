"""Pictures: what is drawn is what the tables say, and nothing is needed of matplotlib until it is drawn."""

import sys

import numpy as np
import pytest

from handful.bench import plots
from handful.bench.runner import Results
from handful.bench.settings import FIGURES, balanced, imbalanced, parse_methods, sweep_b
from handful.bench.tables import values
from handful.core.metrics import figures, mean_and_half_width
from handful.features import Protocol, draw
from handful.solving import solve

METHODS = "eol,ostim,oslo,knn,simpleshot,bdcspn,tim_gd,openmax:weibull=false"


@pytest.fixture(autouse=True)
def matplotlib():
    return pytest.importorskip("matplotlib")


def made_up(benchmark, tasks=12):
    """Figures that no method made, of a level that differs from cell to cell."""
    rng = np.random.default_rng(1)
    found = {
        (cell.column, cell.row): {name: rng.uniform(40, 80) + rng.uniform(0, 20, tasks) for name in FIGURES}
        for cell in benchmark.cells
    }
    return Results(benchmark, found, 1, tasks, "digits", None)


@pytest.fixture
def swept():
    return made_up(sweep_b(Protocol(), parse_methods("ostim,oslo")))


def lines(axes):
    return {line.get_label(): line for line in axes.lines}


def box_of(collection):
    return collection.get_paths()[0].vertices


@pytest.mark.filterwarnings("error")
def test_pictures_of_a_single_task_and_of_undefined_figures_are_drawn_alike_each_time(swept):
    for (column, _), found in swept.figures.items():
        if column == "20%":
            found["auroc"][:] = np.nan  # as no task defines it
    figure = plots.sweep(swept)
    assert ["best b" in lines(axes) for axes in figure.axes[:2]] == [True, False]
    assert plots.png(figure) == plots.png(plots.sweep(swept))
    assert plots.png(plots.scatter(made_up(balanced(Protocol(), parse_methods("oslo,knn")), 1)))  # no interval


def test_sweep_draws_eol_along_b_with_intervals_and_the_best_b_and_the_others_as_level_lines(swept):
    panels = np.reshape(plots.sweep(swept).axes, (3, 4))
    for column, row in zip(("20%", "50%", "80%"), panels, strict=True):
        for name, axes in zip(FIGURES, row, strict=True):
            b, drawn = lines(axes)["EOL"].get_data()
            of = [swept[column, f"EOL (b={x})"][name] for x in b]
            np.testing.assert_allclose(b, np.arange(1, 10) / 10)
            np.testing.assert_allclose(drawn, np.mean(of, axis=1))
            first = box_of(axes.collections[0])[np.isclose(box_of(axes.collections[0])[:, 0], 0.1), 1]
            half = 1.96 * np.std(of[0], ddof=1) / np.sqrt(12)
            np.testing.assert_allclose([first.min(), first.max()], [drawn[0] - half, drawn[0] + half])
            assert lines(axes)["best b"].get_data() == ([b[np.argmax(drawn)]], [drawn.max()])
            for other in ("OSTIM", "OSLO"):
                np.testing.assert_allclose(lines(axes)[other].get_ydata(), swept[column, other][name].mean())


def test_scatter_has_a_named_point_at_the_means_of_each_method_with_bars_of_half_widths():
    results = made_up(imbalanced(Protocol(), parse_methods(METHODS)))
    axes = plots.scatter(results).axes[0]
    points = {bar.get_label().split(", ")[0]: bar[0].get_xydata()[0] for bar in axes.containers}
    expected = {
        row: [values(results, None, row, name).mean() for name in ("accuracy", "auroc")]
        for row in results.benchmark.contenders
    }
    assert points.keys() == expected.keys()
    np.testing.assert_allclose(list(points.values()), list(expected.values()))
    looks = {(bar[0].get_marker(), bar[0].get_color()) for bar in axes.containers}
    assert len(looks) == len(points)  # the legend tells them apart
    results = made_up(balanced(Protocol(), parse_methods("eol")))
    (container,) = plots.scatter(results).axes[0].containers
    for bars, axis, name in zip(container[2], (0, 1), ("accuracy", "auroc"), strict=True):
        half = mean_and_half_width(results["15 + 15", "EOL"][name]).half_width_95
        assert np.ptp(bars.get_segments()[0][:, axis]) == pytest.approx(2 * half)


@pytest.mark.filterwarnings("error")
def test_curves_of_scores_whose_curves_are_known():
    outlier = np.tile([False, False, False, True], (3, 1))
    roc, recall = plots.curves({"perfect": (outlier * 1.0, outlier), "flat": (np.zeros((3, 4)), outlier)}).axes
    rate, found = lines(roc)["perfect"].get_data()
    assert (rate[0], found[0]) == (0, 1)  # through the corner
    assert (lines(recall)["perfect"].get_ydata() == 1).all()
    np.testing.assert_allclose(lines(roc)["flat"].get_ydata(), rate)  # on the diagonal
    np.testing.assert_allclose(lines(recall)["flat"].get_ydata(), 0.25)  # the share
    outlier = np.tile([False, True], (4, 1))
    scores = np.array([[0.0, 1.0]] * 3 + [[1.0, 0.0]])  # found at once in three of four tasks
    band = box_of(plots.curves({"some": (scores, outlier)}).axes[0].collections[0])
    at_half = band[np.isclose(band[:, 0], 0.5), 1]
    half = 1.96 * np.std([1, 1, 1, 0], ddof=1) / 2
    np.testing.assert_allclose([at_half.min(), at_half.max()], [0.75 - half, 0.75 + half])


def test_histograms_have_shared_bins_and_area_one():
    rng = np.random.default_rng(0)
    outlier = np.tile(np.arange(20) < 4, (5, 1))
    scores = rng.normal(size=(5, 20)) + 3 * outlier
    axes = plots.histogram(scores, outlier, "made up").axes[0]
    (known, known_edges), (unknown, unknown_edges) = (
        patch.get_data()[:2] for patch in axes.patches if not patch.get_fill()
    )
    np.testing.assert_array_equal(known_edges, unknown_edges)
    assert (known_edges[0], known_edges[-1]) == (scores.min(), scores.max())
    for density in (known, unknown):
        assert np.sum(density * np.diff(known_edges)) == pytest.approx(1)


def test_optimisation_shows_the_loss_and_the_figures_of_the_stopped_method(embedded):
    protocol = Protocol(queries=8, outlier_queries=8)
    loss, measured = plots.optimisation(embedded, None, protocol, seed=2, task=3).axes
    episode = draw(embedded.features, embedded.labels, protocol, seed=2, tasks=[3])
    history = solve(episode.task, method="eol", b=0.5, history=True).history[0]
    np.testing.assert_allclose(loss.lines[0].get_ydata(), history, rtol=1e-5)
    assert history[-1] < history[0]
    drawn = {line.get_label(): line for line in measured.lines}
    assert list(drawn) == ["Acc", "AUROC", "AUPR", "Prec@0.9"]
    stopped = solve(episode.task, method="eol", b=0.5, steps=5)
    found = figures(stopped.probabilities, stopped.outlier_scores, episode.truth)
    for line, value in zip(drawn.values(), found.values(), strict=True):
        at, shown = line.get_data()
        assert shown[list(at).index(5)] == pytest.approx(100 * value[0], abs=0.01)


def test_the_gallery_solves_the_methods_on_the_same_tasks_and_tells_them_the_share(embedded):
    protocol = Protocol(queries=4, outlier_queries=16)
    found = plots.gallery(embedded, None, protocol, ("eol", "knn:k=2"), tasks=3, seed=1)
    assert list(found) == ["curves", "histograms-eol", "histograms-knn-k=2", "optimisation"]
    episodes = draw(embedded.features, embedded.labels, protocol, seed=1, tasks=3)
    own = {
        "EOL": solve(episodes.task, method="eol", b=0.7).outlier_scores,
        "kNN distance (k=2)": solve(episodes.task, method="knn", k=2).outlier_scores,
    }
    expected = plots.curves({name: (scores, episodes.outlier) for name, scores in own.items()})
    for ours, theirs in zip(found["curves"].axes, expected.axes, strict=True):
        for name in own:
            np.testing.assert_allclose(lines(ours)[name].get_ydata(), lines(theirs)[name].get_ydata())


def test_the_absence_of_matplotlib_names_the_install_command(swept, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'a picture needs matplotlib: pip install "handful\[plots\]"'):
        plots.sweep(swept)
