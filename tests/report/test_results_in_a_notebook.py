"""A result in a notebook: the table and the figures show what the result says, and a name in it is only a name."""

import re
from html.parser import HTMLParser
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image

import handful
from handful.features import Protocol, digits, draw
from handful.report.plots import draw_result
from handful.solving.groups import Groups
from handful.utils.shares_in_words import percent

HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "{title}", "日本 & co"]


class Tables(HTMLParser):
    """The cells of all rows, the tags and the attributes of a fragment."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.tags, self.attributes = [], set(), set()
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attributes)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def solved(names=("$four$", "one", "six", "two"), **options):
    task = draw(*digits(), Protocol(ways=4, queries=20, outlier_queries=12), seed=1, tasks=[0]).task[0]
    return handful.solve(task.support[0], np.array(names)[task.labels[0]], task.query[0], **options)


@pytest.fixture(scope="module")
def result():
    return solved()


def test_the_table_says_what_the_result_says(result):
    html = result._repr_html_()
    labels = Tables(html).rows[1 : len(result.classes) + 2]
    for name, row in zip([*result.classes, "unknown"], labels, strict=True):
        count = int((result.labels == name).sum())
        assert row[:3] == [name, str(count), percent(count / len(result))]
    expected = result.expected_precision_by_class
    assert [row[3] for row in labels[:-1]] == [percent(expected[str(name)].precision) for name in result.classes]
    low, high = (round(100 * end) for end in result.outlier_share_interval)
    assert f"Estimated share of unknowns: about {percent(result.outlier_share)} (between {low} and {high} %" in html
    low, high = result.expected_precision_interval
    ends = f"at least {100 * low:.0f} %" if high == 1 else f"between {100 * low:.0f} and {100 * high:.0f} %"
    assert re.search(rf"labels .* should be right \({ends}\)\.", html)
    rows = [cells for cells in Tables(html).rows if len(cells) == 3]
    assert Tables(result.groups._repr_html_()).rows == rows
    for group, (name, size, items) in zip(result.groups, rows[1:], strict=True):
        assert (name, size.split(",")[0]) == (group.name, f"{group.size} items")
        assert items.removesuffix(", …") == ", ".join(map(str, group.items[:5]))


def test_names_are_only_names(episodes):
    result = solved(HOSTILE)
    for html in (result._repr_html_(), handful.solve(episodes.task)._repr_html_()):
        assert Tables(html).tags <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "bdi"}
        assert Tables(html).attributes == {"class"}
    assert {row[0] for row in Tables(result._repr_html_()).rows} >= set(HOSTILE)


def test_what_is_not_there_is_not_shown():
    assert "Share of unknowns: 25 %." in solved(outlier_share=0.25)._repr_html_()
    none = solved(threshold=2.0)._repr_html_()
    assert ["unknown", "0", "0 %", ""] in Tables(none).rows
    assert "roup" not in none
    assert "No groups of unknowns" in Groups()._repr_html_()
    empty = handful.solve(handful.Task.of_examples(np.eye(3), ["a", "b", "c"]), method="simpleshot")
    assert "0 items: 0 labelled, 0 unknown" in empty._repr_html_()
    ranks = solved(method="knn")._repr_html_()  # no probabilities: nothing is expected
    assert "should be right" not in ranks
    set_aside = solved().at_precision(0.99)
    assert f"{set_aside.set_aside.sum()} of the unknown were set aside" in set_aside._repr_html_()


def test_a_batch_is_a_row_for_each_task(episodes):
    batch = handful.solve(episodes.task)
    html = batch._repr_html_()
    assert f"20 tasks, {batch.unknown.size:,} items" in html
    expected = [[f"task {i}", str((~row).sum()), str(row.sum())] for i, row in enumerate(batch.unknown)]
    assert [row[:3] for row in Tables(html).rows[1:]] == expected
    many = handful.solve(draw(*digits(), Protocol(), seed=3, tasks=25).task, method="knn")
    assert "5 more tasks" in many._repr_html_()
    with pytest.raises(ValueError, match=r"a plot is of one task: take result\[i\]"):
        batch.plot()


# ---- figures

needs_matplotlib = pytest.mark.skipif(not find_spec("matplotlib"), reason="needs matplotlib")


def panels(figure):
    return {axes.get_label(): axes for axes in figure.axes}


def lengths(axes):
    return [bar.get_width() for bar in axes.patches]


@needs_matplotlib
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


@needs_matplotlib
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


@needs_matplotlib
def test_a_share_that_was_given_and_a_pile_without_features_have_fewer_panels(result):
    told = solved(outlier_share=0.3)
    assert list(panels(told.plot())) == ["counts", "scores", "map"]
    assert list(panels(draw_result(told, "eol"))) == ["counts", "scores"]
    assert result.plot()._repr_png_().startswith(b"\x89PNG")  # as a cell shows it


# ---- what the picture of the share is drawn from
