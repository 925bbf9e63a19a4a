"""The figures of a result: the data in their axes are those of the result."""

import sys

import numpy as np
import pytest

import handful
from handful.engines.share_statistics import TRIED_SHARES
from handful.features import Protocol, digits, draw

EPISODE = draw(*digits(), Protocol(ways=4, queries=20, outlier_queries=12), seed=1, tasks=[0])


def solved(**options):
    task = EPISODE.task[0]
    names = np.array(["$four$", "one", "six", "two"])
    return handful.solve(task.support[0], names[task.labels[0]], task.query[0], **options)


def panels(figure):
    return {axes.get_label(): axes for axes in figure.axes}


def lengths(axes):
    return [bar.get_width() for bar in axes.patches]


def test_bars_are_as_long_as_the_counts():
    pytest.importorskip("matplotlib")
    result = solved()
    axes = panels(result.plot())["counts"]
    assert lengths(axes) == [(result.labels == name).sum() for name in [*result.classes, "unknown"]]
    assert [label.get_text().replace("\\", "") for label in axes.get_yticklabels()] == [*result.classes, "unknown"]


def test_the_histogram_counts_every_item_and_the_line_is_at_the_threshold():
    pytest.importorskip("matplotlib")
    result = solved().at(0.37)
    axes = panels(result.plot())["scores"]
    known, unknown = axes.containers
    assert sum(bar.get_height() for bar in known) == (~result.unknown).sum()
    assert sum(bar.get_height() for bar in unknown) == result.unknown.sum()
    expected, _ = np.histogram(result.doubts[result.unknown], 40, (0, 1))
    assert [bar.get_height() for bar in unknown] == expected.tolist()
    assert axes.lines[0].get_xdata()[0] == 0.37


def test_the_density_of_the_share_holds_four_fifths_in_the_interval():
    pytest.importorskip("matplotlib")
    result = solved()
    axes = panels(result.plot())["share"]
    density, edges, _ = axes.patches[0].get_data()
    assert np.sum(density * np.diff(edges)) == pytest.approx(1)
    below = np.interp(result.outlier_share_interval, edges, np.r_[0, np.cumsum(density * np.diff(edges))])
    np.testing.assert_allclose(below, [0.1, 0.9], atol=1e-6)
    assert axes.lines[0].get_xdata()[0] == pytest.approx(result.outlier_share)


def test_the_map_has_every_item_in_its_class_and_every_example():
    pytest.importorskip("matplotlib")
    result = solved()
    axes = panels(result.plot())["map"]
    dots = {collection.get_label(): len(collection.get_offsets()) for collection in axes.collections}
    counts = {str(name).replace("$", r"\$"): (result.labels == name).sum() for name in [*result.classes, "unknown"]}
    assert dots == counts | {"examples": 20}


def test_pictures_are_put_on_the_map_and_beside_groups(tmp_path):
    offsetbox = pytest.importorskip("matplotlib.offsetbox")
    result = solved()
    figure = result.plot(pictures=np.zeros((len(result), 8, 8)))
    assert any(isinstance(artist, offsetbox.AnnotationBbox) for artist in panels(figure)["map"].artists)
    figure = result.groups.plot(pictures=np.zeros((len(result), 8, 8)))
    typical = panels(figure)["pictures"].artists
    assert len(typical) == sum(min(group.size, 8) for group in result.groups)
    figure.savefig(tmp_path / "groups.png")


def test_bars_of_groups_are_their_sizes():
    pytest.importorskip("matplotlib")
    result = solved()
    assert lengths(panels(result.groups.plot())["groups"]) == [group.size for group in result.groups]
    assert lengths(panels(solved(threshold=2.0).groups.plot())["groups"]) == []


def test_a_share_that_was_given_and_a_large_pile_have_fewer_panels(monkeypatch):
    pytest.importorskip("matplotlib")
    assert list(panels(solved(outlier_share=0.3).plot())) == ["counts", "scores", "map"]
    monkeypatch.setattr("handful.core.task.LARGE_PILE_BYTES", 1)
    assert list(panels(solved(outlier_share=0.3).plot())) == ["counts", "scores"]


def test_pyplot_is_left_alone_and_a_cell_shows_the_figure():
    pytest.importorskip("matplotlib")
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    assert solved().plot()._repr_png_().startswith(b"\x89PNG")
    assert pyplot.get_fignums() == before


def test_without_matplotlib_the_install_command_is_named(monkeypatch):
    result = solved()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "handful\[plots\]"'):
        result.plot()
    with pytest.raises(ImportError, match=r'pip install "handful\[plots\]"'):
        result.groups.plot()
    assert "Outlier scores" in result._repr_html_()  # needs none


# ---- what the picture of the share is drawn from


@pytest.mark.parametrize("method", ["eol_kdo", "kdo", "eol", "knn", "simpleshot+knn"])
def test_results_keep_the_posterior_that_their_interval_is_of(method):
    tasks = draw(*digits(), Protocol(), seed=2, tasks=3).task
    batch = handful.solve_task(tasks, method=method)
    assert batch.outlier_share_posterior.shape == (3, len(TRIED_SHARES))
    for i in range(3):
        above = batch[i].outlier_share_posterior
        np.testing.assert_array_equal(above, batch.outlier_share_posterior[i])
        below = np.interp(batch[i].outlier_share_interval, [0, *TRIED_SHARES, 1], [0, *(1 - above), 1])
        np.testing.assert_allclose(below, [0.1, 0.9], atol=1e-6)
