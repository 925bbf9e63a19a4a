"""The figures of a result: the data in their axes are those of the result."""

import numpy as np
import pytest
from PIL import Image

import handful
from handful.features import Protocol, digits, draw
from handful.report.plots import draw_result

EPISODE = draw(*digits(), Protocol(ways=4, queries=20, outlier_queries=12), seed=1, tasks=[0])


def solved(**options):
    task = EPISODE.task[0]
    names = np.array(["$four$", "one", "six", "two"])
    return handful.solve(task.support[0], names[task.labels[0]], task.query[0], **options)


@pytest.fixture(scope="module")
def result():
    pytest.importorskip("matplotlib")
    return solved()


def panels(figure):
    return {axes.get_label(): axes for axes in figure.axes}


def lengths(axes):
    return [bar.get_width() for bar in axes.patches]


def test_panels_show_the_numbers_of_the_result(result):
    result = result.at(0.37)
    drawn = panels(result.plot())
    classes = [*result.classes, "unknown"]
    counts = [int((result.labels == name).sum()) for name in classes]
    assert lengths(drawn["counts"]) == counts
    assert [label.get_text().replace("\\", "") for label in drawn["counts"].get_yticklabels()] == classes

    known, unknown = drawn["scores"].containers
    assert sum(bar.get_height() for bar in known) == (~result.unknown).sum()
    expected, _ = np.histogram(result.doubts[result.unknown], 40, (0, 1))
    assert [bar.get_height() for bar in unknown] == expected.tolist()
    assert [bar.get_y() for bar in unknown] == [bar.get_height() for bar in known]  # stacked
    assert drawn["scores"].lines[0].get_xdata()[0] == 0.37

    density, edges, _ = drawn["share"].patches[0].get_data()
    assert np.sum(density * np.diff(edges)) == pytest.approx(1)
    below = np.interp(result.outlier_share_interval, edges, np.r_[0, np.cumsum(density * np.diff(edges))])
    np.testing.assert_allclose(below, [0.1, 0.9], atol=1e-6)
    assert drawn["share"].lines[0].get_xdata()[0] == pytest.approx(result.outlier_share)

    dots = {collection.get_label(): len(collection.get_offsets()) for collection in drawn["map"].collections}
    names = [str(name).replace("$", r"\$") for name in classes]
    assert dots == dict(zip(names, counts, strict=True)) | {"examples": 20}


def test_groups_are_bars_and_pictures_are_put_beside_them_and_on_the_map(result, tmp_path):
    from matplotlib.offsetbox import AnnotationBbox

    assert lengths(panels(result.groups.plot())["groups"]) == [group.size for group in result.groups]
    assert lengths(panels(solved(threshold=2.0).groups.plot())["groups"]) == []
    blank = np.zeros((60, 90, 3), np.uint8)
    Image.fromarray(blank).save(tmp_path / "blank.png")
    kinds = {
        "array": np.zeros((len(result), 8, 8)),
        "paths": [tmp_path / "blank.png"] * len(result),
        "Pillow": [Image.fromarray(blank)] * len(result),
        "damaged": [__file__] * len(result),
        "too large": [Image.new("1", (10_000, 10_000))] * len(result),
    }
    for kind, pictures in kinds.items():
        boxes = [box for box in panels(result.plot(pictures))["map"].artists if isinstance(box, AnnotationBbox)]
        assert (len(boxes) > 10) == (kind not in ("damaged", "too large")), kind
    typical = panels(result.groups.plot(kinds["array"]))["pictures"].artists
    assert len(typical) == sum(min(group.size, 8) for group in result.groups)


def test_a_share_that_was_given_and_a_pile_without_features_have_fewer_panels(result):
    told = solved(outlier_share=0.3)
    assert list(panels(told.plot())) == ["counts", "scores", "map"]
    assert list(panels(draw_result(told, "eol"))) == ["counts", "scores"]
    assert result.plot()._repr_png_().startswith(b"\x89PNG")  # as a cell shows it


# ---- what the picture of the share is drawn from
