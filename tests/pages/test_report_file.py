"""The file of a report: what it holds, how it is written, which input is refused, and what it takes from answers."""

import base64
import hashlib
import io
import json
import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from reports import NAN, NASTY, PICTURE, a_report, item

from handful.core.answers import Answers
from handful.features import FeatureTable
from handful.report.contents import MAX_REPORT_ITEMS, make_report
from handful.report.html_page import render, write
from handful.report.plane import on_plane
from handful.report.thumbnails import png
from handful.solving.groups import Group as GroupOfUnknowns


class Parts(HTMLParser):
    """The text of the page's style and script blocks, its tags and its policy."""

    def __init__(self, page):
        super().__init__()
        self.blocks, self.at, self.policy, self.tags = {}, None, None, []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        self.at = attrs.get("id", tag) if tag in ("style", "script") else None
        if self.at:
            assert self.at not in self.blocks
            self.blocks[self.at] = ""
        if attrs.get("http-equiv") == "Content-Security-Policy":
            self.policy = dict(rule.strip().split(" ", 1) for rule in attrs["content"].split(";"))

    def handle_data(self, data):
        if self.at:
            self.blocks[self.at] += data

    def handle_endtag(self, tag):
        self.at = None


def test_nothing_is_fetched_and_the_policy_allows_this_style_and_this_script_alone():
    parts = Parts(render(a_report(made_by={"a": 1})))

    def source(block):
        return "'sha256-" + base64.b64encode(hashlib.sha256(parts.blocks[block].encode()).digest()).decode() + "'"

    assert parts.policy == {
        "default-src": "'none'", "img-src": "data: blob:", "style-src": source("style"), "script-src": source("script"),
        "base-uri": "'none'", "form-action": "'none'",
        "require-trusted-types-for": "'script'", "trusted-types": "'none'",
    }  # fmt: skip
    code = parts.blocks["script"] + parts.blocks["style"]
    assert not re.search(
        r"https?://(?!www\.w3\.org/2000/svg)|url\((?!#)|@import|innerHTML|outerHTML|insertAdjacent|eval\(", code
    )
    assert not {tag for tag, _ in parts.tags} & {"link", "iframe", "object", "embed", "base", "form"}
    assert not [tag for tag, attributes in parts.tags if "src" in attributes]
    assert all(attributes["href"].startswith("#") for tag, attributes in parts.tags if tag == "a")


def test_data_cannot_end_its_block_and_reads_back_as_it_was():
    parts = Parts(render(a_report([item(n, name=name) for n, name in enumerate(NASTY)])))
    assert set(parts.blocks) == {"style", "measured", "data", "pictures", "texts", "script"}
    assert not re.search(r"[<>&]|[^\x20-\x7e]", parts.blocks["data"])
    assert [row[0] for row in json.loads(parts.blocks["data"])["items"]] == NASTY
    page = render(a_report([item(0), item(2, thumbnail=None)]))
    assert json.loads(Parts(page).blocks["pictures"]) == [base64.b64encode(PICTURE).decode(), None]


def test_writing_gives_the_rendered_page_or_keeps_the_earlier_one(tmp_path, monkeypatch):
    name = os.fsdecode(b"caf\xe9.jpg")  # a lone surrogate, which no utf-8 file can hold
    report = a_report([item(0, name=name)], title="$title ${css} $", sentences=[name], skipped=[(name, name)])
    path = write(tmp_path / "new" / "report.html", report)
    page = path.read_bytes().decode("utf-8")
    assert page == render(report) == render(report)
    assert json.loads(Parts(page).blocks["data"])["items"][0][0] == "caf\\udce9.jpg"
    assert '<bdi class="file">caf\\udce9.jpg</bdi>' in page
    assert "$title ${css} $" in page

    def full(*args, **kwargs):
        raise OSError("no space left on device")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, full)
            with pytest.raises(OSError, match="no space"):
                write(path, a_report(title="second"))
    assert path.read_text("utf-8") == page
    assert os.listdir(path.parent) == ["report.html"]


def test_files_have_addresses_relative_to_the_page_whatever_they_are_called(tmp_path):
    files = [tmp_path / "pile" / name for name in ("a b.png", "javascript:alert(1).png", "#?%.png")]
    pile = FeatureTable(np.zeros((3, 1)), files=files, texts=["a"] * 3)
    report = make_report(answers_of(3), pile, title="t", sentences=[], folder=tmp_path / "out")
    addresses = ["../pile/a%20b.png", "../pile/javascript%3Aalert%281%29.png", "../pile/%23%3F%25.png"]
    assert [one.file for one in report.items] == addresses


def test_png_stretches_numbers_to_bytes_and_keeps_bytes():
    for array, expected in (
        (np.array([[0, 4], [8, 16]]), [[0, 64], [128, 255]]),
        (np.array([[True, False]]), [[255, 0]]),
        (np.array([[10, 20]], dtype=np.uint8), [[10, 20]]),
        (np.full((2, 2), 7.0), [[0, 0], [0, 0]]),
        ([[NAN, 0.0, float("inf"), 2.0]], [[0, 0, 0, 255]]),
        (np.arange(6).reshape(1, 2, 3), [[[0, 51, 102], [153, 204, 255]]]),
    ):
        assert np.asarray(Image.open(io.BytesIO(png(array)))).tolist() == expected
    with pytest.raises(ValueError, match=re.escape("[3, 8, 8]")):
        png(np.zeros((3, 8, 8)))


def answers_of(n, seed=0):
    rng = np.random.default_rng(seed)
    return Answers(
        rng.dirichlet([1, 1], n), rng.random(n), np.array(["cat", "dog"]), 0.5, is_probability=True, outlier_share=0.5
    )


def named(n):
    return FeatureTable(np.arange(2.0 * n).reshape(n, 2) ** 2, paths=[f"{row}" for row in range(n)])


def test_a_report_says_of_each_item_what_the_answers_say():
    answers = answers_of(30)
    examples = FeatureTable(np.eye(2), ["cat", "dog"], ["one", "two"])
    pile, nearest = named(30), np.arange(30)[:, None] % 2
    report = make_report(answers, pile, title="t", sentences=["s"], examples=examples, nearest=nearest)
    assert [i.label for i in report.items[:30]] == answers.labels.tolist()
    for field, values in {
        "confidence": answers.confidence, "alternative_confidence": answers.alternative_confidence,
        "p_unknown": answers.p_unknown, "score": answers.doubts, "closest": answers.closest,
    }.items():  # fmt: skip
        assert [getattr(i, field) for i in report.items[:30]] == values.tolist()
    assert [i.nearest for i in report.items[:2]] == [["one"], ["two"]]
    assert [(i.name, i.label, i.example) for i in report.items[30:]] == [("one", "cat", True), ("two", "dog", True)]
    np.testing.assert_allclose([i.xy for i in report.items], on_plane(np.r_[pile.features, np.eye(2)]))
    render(report)


def test_a_large_pile_shows_its_least_sure_items_and_the_middle_of_its_groups():
    answers = answers_of(MAX_REPORT_ITEMS + 500)
    surest = np.argsort(-answers.confidence)
    central = [int(i) for i in surest if answers.unknown[i]][:3]
    group = GroupOfUnknowns(1, np.array(central), 0.9)
    report = make_report(answers, named(len(answers)), title="t", sentences=["s"], groups=[group])
    shown = {int(i.name) for i in report.items}
    assert len(shown) == MAX_REPORT_ITEMS
    assert set(central) <= shown
    assert shown >= set(np.argsort(answers.confidence)[: MAX_REPORT_ITEMS - 3].tolist())
    assert [int(report.items[place].name) for place in report.groups[0].items] == central
    assert report.sentences == ["s", "The report shows 5,000 of them, the least sure ones; the tables hold all."]
