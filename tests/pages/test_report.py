"""The report page, read back with the standard library's html parser: what a browser would find on it."""

import base64
import io
import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from handful.report import Figures, Group, Item, png, render, write
from handful.utils.shares_in_words import about, percent, span

Image = pytest.importorskip("PIL.Image")
VOID = {"meta", "img", "input", "br", "link"}
NASTY = "<script>alert('x')</script> & \"quoted\" 'name' <img src=x onerror=alert(1)>"
NAN = float("nan")


class Node:
    def __init__(self, tag, attrs, parent):
        self.tag, self.attrs, self.parent, self.children = tag, dict(attrs), parent, []

    def raw(self):
        return "".join(c if isinstance(c, str) else c.raw() for c in self.children)

    @property
    def text(self):
        return re.sub(r"\s+", " ", self.raw()).strip()

    def find(self, tag=None, cls=None):
        """All nodes below with that tag and class, in document order."""
        for child in self.children:
            if isinstance(child, Node):
                if tag in (None, child.tag) and cls in (None, *child.attrs.get("class", "").split()):
                    yield child
                yield from child.find(tag, cls)

    def one(self, tag=None, cls=None):
        (node,) = self.find(tag, cls)
        return node


class Tree(HTMLParser):
    """The page as nodes; a tag that is closed out of turn fails the test."""

    def __init__(self, text):
        super().__init__()
        self.root = self.at = Node("root", [], None)
        self.feed(text)
        self.close()
        assert self.at is self.root, f"<{self.at.tag}> is never closed"

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in <{tag}>"
        node = Node(tag, attrs, self.at)
        self.at.children.append(node)
        if tag not in VOID:
            self.at = node

    def handle_endtag(self, tag):
        assert tag == self.at.tag, f"</{tag}> closes <{self.at.tag}>"
        self.at = self.at.parent

    def handle_data(self, data):
        self.at.children.append(data)


def parse(*args, **kwargs):
    return Tree(render(*args, **kwargs)).root


def item(name, score=0.5, confidence=0.9, picture=None, label="cat", note=""):
    return Item(picture, name, label, score, confidence, note)


def names(section):
    return [p.text for p in section.find("p", "name")]


def marked(section):
    return {card.one("p", "name").text for card in section.find("li", "look")}


@pytest.fixture
def groups():
    rng = np.random.default_rng(0)

    def some(prefix, n):
        return [item(f"{prefix}{i}", s, c) for i, (s, c) in enumerate(rng.random((n, 2)).tolist())]

    return [
        Group("cat", some("c", 20), "known"),
        Group("dog", some("d", 7), "known"),
        Group("Unknown", some("u", 13), "unknown"),
        Group("Examples", some("e", 4), "example"),
        Group("nobody", [], "known"),
    ]


def test_groups_stand_in_the_order_given_with_their_counts_and_the_navigation_leads_to_them(groups):
    root = parse("Pets", ["One line.", "Another."], groups)
    sections = list(root.find("section"))
    assert [s.one("h2").one("bdi").text for s in sections] == [g.name for g in groups]
    assert [int(s.one("small").text.split()[0]) for s in sections] == [20, 7, 13, 4, 0]
    links = list(root.one("nav").find("a"))
    assert [(a.one("bdi").text, int(a.one("b").text)) for a in links] == [(g.name, len(g.items)) for g in groups]
    assert [a.attrs["href"] for a in links] == [f"#{s.attrs['id']}" for s in sections]
    assert root.one("h1").text == root.one("title").text == "Pets"
    assert [p.text for p in root.one("header").find("p")] == ["One line.", "Another."]


def test_every_item_has_exactly_one_card(groups):
    cards = list(parse("t", [], groups).find("li", "card"))
    assert sorted(c.one("p", "name").text for c in cards) == sorted(i.name for g in groups for i in g.items)


def test_known_start_with_the_lowest_score_unknowns_with_the_highest_examples_stay(groups):
    cat, dog, unknown, examples, _ = parse("t", [], groups).find("section")
    for section, group in ((cat, groups[0]), (dog, groups[1])):
        scores = {i.name: i.score for i in group.items}
        assert np.all(np.diff([scores[n] for n in names(section)]) > 0)
    scores = {i.name: i.score for i in groups[2].items}
    assert np.all(np.diff([scores[n] for n in names(unknown)]) < 0)
    assert names(examples) == ["e0", "e1", "e2", "e3"]
    assert not list(examples.find("p", "score"))


def test_items_without_a_score_come_last_and_print_no_number():
    items = [item("a", NAN), item("b", 0.9), item("c", NAN, NAN), item("d", 0.1)]
    for kind, order in (("known", ["d", "b", "a", "c"]), ("unknown", ["b", "d", "a", "c"])):
        section = parse("t", [], [Group("g", items, kind)]).one("section")
        assert names(section) == order
        assert "nan" not in section.text


def test_least_sure_items_are_marked_by_score_and_by_confidence():
    items = [item(f"i{n:02}", score=n / 100, confidence=0.2 if n == 3 else 0.9) for n in range(20)]
    known, unknown = parse("t", [], [Group("k", items, "known"), Group("u", items, "unknown")]).find("section")
    assert marked(known) >= {"i19", "i18", "i03"}
    assert len(marked(known)) <= 4
    assert marked(unknown) == {"i00", "i01"}
    assert all("worth a look" in card.text for card in known.find("li", "look"))


def test_equal_confidences_mark_nobody_and_the_box_counts_the_marks(groups):
    equal = [item(f"i{n}", score=n) for n in range(10)]
    root = parse("t", [], [Group("k", equal, "known")])
    assert marked(root) == {"i9"}
    root = parse("t", [], groups)
    assert int(root.one("label", "only").one("b").text) == len(list(root.find("li", "look"))) > 0
    assert all(marked(s) for s in list(root.find("section"))[:3])


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-35.0, -2.5), (3e-4, 9e-4), (-1e9, 1e9)])
def test_bars_are_linear_in_the_score_whatever_its_range(low, high):
    scores = np.linspace(low, high, 5)
    root = parse("t", [], [Group("k", [item(str(n), s) for n, s in enumerate(scores)], "known")])
    section = root.one("section")
    widths = [bar.attrs["style"] for bar in section.find("span", "bar")]
    assert widths == ["--at:0.0%", "--at:25.0%", "--at:50.0%", "--at:75.0%", "--at:100.0%"]
    texts = [p.text.removeprefix("outlier score ") for p in section.find("p", "score")]
    assert len(set(texts)) == 5
    np.testing.assert_allclose([float(t) for t in texts], scores, atol=0.01 * (high - low))


def test_one_score_for_all_and_infinite_scores_still_make_a_page():
    assert len(names(parse("t", [], [Group("k", [item("a"), item("b")], "known")]))) == 2
    items = [item("a", float("inf")), item("b", float("-inf")), item("c", 0.0), item("d", 1.0)]
    assert names(parse("t", [], [Group("k", items, "known")])) == ["b", "c", "d", "a"]


def test_user_text_stays_text_everywhere_it_can_appear():
    table = Figures(NASTY, [NASTY, "n"], [[NASTY, NASTY]], NASTY)
    cards = [item(NASTY, picture=png(np.eye(4)), label=NASTY, note=NASTY)]
    root = parse(NASTY, [NASTY], [Group(NASTY, cards, "known")], [table], {NASTY: {NASTY: NASTY}})
    assert not list(root.find("script"))
    assert len(list(root.find("img"))) == 1
    assert not [n.tag for n in root.find() if any(a.startswith("on") for a in n.attrs)]
    card = root.one("li", "card")
    assert card.one("p", "name").text == card.one("p", "name").attrs["title"] == NASTY
    assert card.one("img").attrs["alt"] == f"{NASTY}, {NASTY}"
    assert card.one("p", "label").one("bdi").text == card.one("p", "note").text == NASTY
    for node in (
        root.one("title"),
        root.one("h1"),
        root.one("h2").one("bdi"),
        root.one("caption"),
        root.one("dt"),
    ):
        assert node.text == NASTY
    assert root.one("dd").text == f"{NASTY} {NASTY}"


def test_dollar_signs_and_undecodable_file_names_survive(tmp_path):
    name = os.fsdecode(b"caf\xe9.png")  # not utf-8: a lone surrogate, which no file can hold
    path = write(tmp_path / "p.html", "$title ${css} $", [], [Group("g", [item(name)], "known")])
    root = Tree(path.read_text(encoding="utf-8")).root
    assert root.one("h1").text == "$title ${css} $"
    assert names(root) == ["caf?.png"]


@pytest.mark.parametrize("shape", [(8, 8), (120, 90), (5, 7, 3)])
def test_pictures_decode_back_to_the_same_pixels(shape):
    pixels = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    img = parse("t", [], [Group("g", [item("a", picture=png(pixels))], "known")]).one("img")
    head, data = img.attrs["src"].split(",")
    assert head == "data:image/png;base64"
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))), pixels)
    assert (int(img.attrs["height"]), int(img.attrs["width"])) == shape[:2]
    assert ("small" in img.attrs.get("class", "")) == (max(shape) < 96)
    assert re.search(r"\.small \{[^}]*image-rendering: pixelated", render("t", [], []))


def test_png_stretches_numbers_to_bytes_and_keeps_bytes():
    def back(array):
        return np.asarray(Image.open(io.BytesIO(png(array)))).tolist()

    assert back(np.array([[0, 4], [8, 16]])) == [[0, 64], [128, 255]]
    assert back([[-1.0, 0.0, 1.0]]) == [[0, 128, 255]]
    assert back(np.array([[True, False]])) == [[255, 0]]
    assert back(np.array([[10, 20]], dtype=np.uint8)) == [[10, 20]]
    assert back(np.full((2, 2), 7.0)) == [[0, 0], [0, 0]]
    assert back([[NAN, 0.0, float("inf"), 2.0]]) == [[0, 0, 0, 255]]
    assert back(np.full((1, 2), NAN)) == [[0, 0]]
    assert back(np.arange(12).reshape(2, 2, 3)[:, ::-1])[0][1] == [0, 23, 46]


@pytest.mark.parametrize("shape", [(3,), (0, 4), (3, 8, 8), (8, 8, 4), (2, 8, 8, 3)])
def test_png_names_the_shape_it_cannot_draw(shape):
    with pytest.raises(ValueError, match=re.escape(str(list(shape)))):
        png(np.zeros(shape))


def test_nothing_is_fetched_and_nothing_can_run(groups):
    text = render("t", [], [*groups, Group("p", [item("a", picture=png(np.eye(9)))], "known")], made_by={"a": 1})
    root = Tree(text).root
    first, *_ = (m for m in root.find("meta") if m.attrs.get("http-equiv"))
    policy = dict(rule.strip().split(" ", 1) for rule in first.attrs["content"].split(";"))
    assert first.attrs["http-equiv"] == "Content-Security-Policy"
    assert policy["default-src"] == "'none'"
    assert policy["img-src"] == "data:"
    assert "script-src" not in policy  # default-src rules: no script at all
    assert not re.search(r"https?://|//[a-z]|url\(|@import", re.sub(r"data:image/png;base64,[\w+/=]+", "", text))
    assert not {n.tag for n in root.find()} & {"script", "link", "iframe", "object", "embed", "base", "form"}
    sources = [n.attrs["src"] for n in root.find() if "src" in n.attrs]
    assert all(s.startswith("data:image/png;base64,") for s in sources)
    assert all(a.attrs["href"].startswith("#") for a in root.find("a"))


def test_page_can_be_read_without_eyes(groups):
    groups = [*groups, Group("p", [item("a.png", picture=png(np.eye(9)))], "known")]
    root = parse("t", [], groups, [Figures("f", ["a", "b"], [["x", "1"]])])
    assert root.one("html").attrs["lang"] == "en"
    assert [n.tag for n in root.find() if re.fullmatch(r"h\d", n.tag)] == ["h1"] + ["h2"] * len(groups)
    ids = [n.attrs["id"] for n in root.find() if "id" in n.attrs]
    assert len(ids) == len(set(ids))
    assert all(s.attrs["aria-labelledby"] in ids for s in root.find("section"))
    assert root.one("img").attrs["alt"] == "a.png, cat"
    assert {th.attrs["scope"] for th in root.find("th")} == {"col", "row"}


def test_tables_and_made_by_are_printed():
    table = Figures("Accuracy", ["method", "acc"], [["eol", "81.2"], ["tim", "79.0"]], "1,000 tasks")
    made_by = {"method": "eol", "parameters": {"b": 0.5, "steps": 100}, "seed": 0}
    root = parse("t", [], [], [table], made_by)
    rows = [[c.text for c in tr.find() if c.tag in ("th", "td")] for tr in root.one("table").find("tr")]
    assert rows == [["method", "acc"], ["eol", "81.2"], ["tim", "79.0"]]
    assert "1,000 tasks" in root.one("div", "figures").text
    facts = root.one("details").one("dl")
    assert [dt.text for dt in facts.find("dt")] == ["method", "parameters", "seed"]
    assert [dd.text for dd in facts.find("dd")] == ["eol", "b 0.5, steps 100", "0"]


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="'cat'.*'strange'"):
        Group("cat", [], "strange")
    with pytest.raises(ValueError, match=r"'Accuracy'.*\[1\].*2 cells"):
        Figures("Accuracy", ["a", "b"], [["1", "2"], ["1"]])
    with pytest.raises(ValueError, match="'a.jpg'.*not a PNG"):
        render("t", [], [Group("g", [item("a.jpg", picture=b"\xff\xd8\xff\xe0 a jpeg")], "known")])


def test_write_is_the_rendered_page_and_leaves_no_other_file(tmp_path, groups):
    path = write(tmp_path / "new" / "page.html", "Pets", ["s"], groups, made_by={"seed": 1})
    assert path == tmp_path / "new" / "page.html"
    assert path.read_bytes().decode("utf-8") == render("Pets", ["s"], groups, made_by={"seed": 1})
    write(str(path), "Other", [], groups)
    assert "Other" in path.read_text(encoding="utf-8")
    assert os.listdir(path.parent) == ["page.html"]


def test_failed_rendering_keeps_the_earlier_page(tmp_path):
    path = write(tmp_path / "page.html", "first", [], [])
    before = path.read_bytes()
    broken = [Group("g", [item("x", picture=b"not a picture")], "known")]
    with pytest.raises(ValueError):
        write(path, "second", [], broken)
    with pytest.raises(ValueError):
        write(tmp_path / "never" / "page.html", "second", [], broken)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["page.html"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failed_disk_keeps_the_earlier_page(tmp_path, monkeypatch, step):
    path = write(tmp_path / "page.html", "first", [], [])
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="no space"):
        write(path, "second", [], [])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["page.html"]


# Shares in words


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.3149, "31 %"), (0, "0 %"), (1, "100 %"), (0.004, "0.4 %"), (0.996, "99.6 %"), (0.01, "1 %"), (2 / 3, "67 %")],
)
def test_percentages_are_whole_but_near_the_ends(share, said):
    assert percent(share) == said


@pytest.mark.parametrize(
    ("share", "interval", "said"),
    [
        (0.314, (0.216, 0.404), "about 31 % (between 22 and 40 %)"),
        (0.02, (0.0, 0.07), "about 2 % (at most 7 %)"),
        (0.0199, (0.0, 0.07), "fewer than 2 % (at most 7 %)"),
        (0.01, (0.0, 0.0), "fewer than 2 %"),
        (0.01, (0.0, 0.02), "fewer than 2 %"),
        (0.95, (0.8, 1.0), "about 95 % (at least 80 %)"),
        (0.5, (0.0, 1.0), "about 50 %"),  # says nothing
        (0.97, (0.968, 0.972), "about 97 %"),
        (0.1, (0.2, 0.3), "about 10 %"),  # such an interval is of something else
    ],
)
def test_an_estimate_is_said_with_what_its_interval_tells(share, interval, said):
    assert about(share) + span(share, interval) == said
