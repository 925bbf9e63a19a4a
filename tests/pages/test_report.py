"""The report: what the page shows of its data, read back with an html parser or in a headless Chromium."""

import base64
import io
import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from handful.core.answers import Answers
from handful.report import Figures, Gallery, Item, Report, make_report, png, render, write
from handful.report.contents import MAX_REPORT_ITEMS
from handful.solving.groups import Group as GroupOfUnknowns
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


def item(name, score=0.5, confidence=0.9, thumbnail=None, label="cat", closest=None, **more):
    closest = closest or ("cat" if label == "unknown" else label)
    return Item(name, thumbnail, label, closest, confidence, score, **more)


def a_report(items=(), **changes):
    """Classes are those of the items; scores are ranks, so that any range will do."""
    values = {
        "title": "t", "sentences": [], "items": list(items), "classes": list(dict.fromkeys(i.closest for i in items)),
        "threshold": 1e12, "score_is_probability": False,
    }  # fmt: skip
    return Report(**values | changes)


def parse(report):
    return Tree(render(report)).root


@pytest.fixture
def pets():
    rng = np.random.default_rng(0)

    def some(prefix, n, **more):
        return [item(f"{prefix}{i}", s, c, **more) for i, (s, c) in enumerate(rng.random((n, 2)).tolist())]

    return a_report(
        [
            *some("c", 20, label="cat"), *some("d", 7, label="dog"), *some("u", 13, label="unknown"),
            *some("e", 4, label="cat", example=True),
        ],
        title="Pets", sentences=["One line.", "Another."], classes=["cat", "dog", "hen"], threshold=0.5,
    )  # fmt: skip


@pytest.fixture
def visit(page, tmp_path):
    """Open a report from disk, in a window so high that all its cards are made."""

    def open_page(report):
        page.set_viewport_size({"width": 1280, "height": 6000})
        page.goto(write(tmp_path / "report.html", report).as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    return open_page


def names(page, section):
    return page.locator(f"{section} .cards:not(.probe) .name").all_text_contents()


def marked(page, section):
    return set(page.locator(f"{section} .cards:not(.probe) .look .name").all_text_contents())


# ---- In the browser -------------------------------------------------------------------------------------------------


def test_groups_stand_in_the_order_of_the_classes_and_the_navigation_leads_to_them(visit, pets):
    page = visit(pets)
    sections = page.locator("#groups > section")
    assert sections.locator("h2 bdi").all_text_contents() == ["cat", "dog", "hen", "unknown"]
    assert [int(text.split()[0]) for text in sections.locator("h2 small").all_text_contents()] == [20, 7, 0, 13]
    links = page.locator("#links a")
    assert [text.split() for text in links.all_text_contents()] == [
        ["cat", "20"], ["dog", "7"], ["hen", "0"], ["unknown", "13"]
    ]  # fmt: skip
    assert [a.get_attribute("href") for a in links.all()] == [f"#{s.get_attribute('id')}" for s in sections.all()]
    assert page.inner_text("h1") == page.title() == "Pets"
    assert page.locator("header p:not(.alert)").all_text_contents() == ["One line.", "Another."]


def test_every_item_has_exactly_one_card_or_stands_among_the_examples(visit, pets):
    page = visit(pets)
    examples = [button.get_attribute("aria-label") for button in page.locator(".examples button").all()]
    assert sorted(names(page, "#groups") + examples) == sorted(i.name for i in pets.items)


def test_groups_start_with_the_highest_confidence_examples_keep_their_order(visit, pets):
    page = visit(pets)
    confidence = {i.name: i.confidence for i in pets.items}
    for section, count in (("#g0", 20), ("#g1", 7), ("#g3", 13)):
        shown = [confidence[name] for name in names(page, section)]
        assert len(shown) == count
        assert np.all(np.diff(shown) < 0)
    strip = page.locator("#g0 .examples")
    assert [button.get_attribute("aria-label") for button in strip.locator("button").all()] == ["e0", "e1", "e2", "e3"]
    assert not strip.locator(".score").count()


def test_items_of_equal_confidence_start_with_the_lowest_score_unknowns_with_the_highest(visit):
    known = [item(f"k{n}", score=n / 10) for n in (3, 1, 2)]
    unknown = [item(f"u{n}", score=n / 10, label="unknown") for n in (7, 9, 8)]
    page = visit(a_report([*known, *unknown], threshold=0.5))
    assert names(page, "#g0") == ["k1", "k2", "k3"]
    assert names(page, "#g1") == ["u9", "u8", "u7"]


@pytest.mark.parametrize(("label", "order"), [("cat", ["d", "b", "a", "c"]), ("unknown", ["b", "d", "a", "c"])])
def test_items_without_a_score_come_last_and_print_no_number(visit, label, order):
    numbers = {"a": (NAN, 0.9), "b": (0.9, 0.9), "c": (NAN, NAN), "d": (0.1, 0.9)}
    page = visit(a_report([item(name, *pair, label=label) for name, pair in numbers.items()], threshold=0.05))
    section = "#g0" if label == "cat" else "#g1"
    assert names(page, section) == order
    assert "nan" not in page.text_content(section).lower()
    page.select_option("#order", "doubt")
    assert names(page, section)[2:] == ["a", "c"]


def test_least_sure_items_are_marked_by_score_and_by_confidence(visit):
    known = [item(f"i{n:02}", score=n / 100, confidence=0.2 if n == 3 else 0.9) for n in range(20)]
    unknown = [item(f"u{n:02}", score=0.5 + n / 100, label="unknown") for n in range(20)]
    page = visit(a_report([*known, *unknown], threshold=0.4))
    assert marked(page, "#g0") >= {"i19", "i18", "i03"}
    assert len(marked(page, "#g0")) <= 4
    assert marked(page, "#g1") == {"u00", "u01"}
    reasons = page.locator("#g0 .look .mark").all_text_contents()
    assert sorted(reasons) == ["worth a look: least certain", *["worth a look: least known"] * 2]
    page.locator("#g1 .look .open").first.click()
    assert "worth a look least unknown" in " ".join(page.inner_text("#detail").split())


def test_equal_confidences_mark_nobody_and_the_box_counts_and_keeps_the_marks(visit, pets):
    page = visit(a_report([item(f"i{n}", score=n) for n in range(10)]))
    assert marked(page, "#groups") == {"i9"}
    page = visit(pets)
    marks = marked(page, "#groups")
    assert int(page.inner_text("label.only b")) == len(marks) > 0
    assert all(marked(page, section) for section in ("#g0", "#g1", "#g3"))
    page.check("#only")
    assert set(names(page, "#groups")) == marks
    assert page.locator("#g0 .examples button").count() == 4
    assert page.inner_text("#h0 small").startswith(f"{len(marked(page, '#g0'))} of 20 items")
    page.uncheck("#only")
    assert len(names(page, "#groups")) == 40


def test_marks_follow_the_threshold(visit):
    page = visit(a_report([item(f"i{n:02}", score=n / 20) for n in range(20)], score_is_probability=True, threshold=1))
    assert marked(page, "#g0") == {"i18", "i19"}
    page.locator("#threshold").evaluate("e => { e.value = 500; e.dispatchEvent(new Event('input')); }")
    page.wait_for_function("document.querySelectorAll('#g1 .look').length == 1")
    assert marked(page, "#g0") == {"i09", "i10"}
    assert marked(page, "#g1") == {"i11"}


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-35.0, -2.5), (3e-4, 9e-4), (-1e9, 1e9)])
def test_bars_are_linear_in_the_score_whatever_its_range(visit, low, high):
    scores = np.linspace(low, high, 5)
    page = visit(a_report([item(str(n), s) for n, s in enumerate(scores)]))
    widths = page.locator("#g0 .bar").evaluate_all(
        "bars => bars.map(b => parseFloat(b.style.getPropertyValue('--at')))"
    )
    np.testing.assert_allclose(widths, [0, 25, 50, 75, 100], atol=0.11)  # a thousandth is kept for the slider's end
    texts = [text.removeprefix("outlier score ") for text in page.locator("#g0 .score").all_text_contents()]
    assert len(set(texts)) == 5
    np.testing.assert_allclose([float(t) for t in texts], scores, atol=0.01 * (high - low))


def test_one_score_for_all_and_infinite_scores_still_make_a_page(visit):
    assert len(names(visit(a_report([item("a"), item("b")])), "#g0")) == 2
    items = [item("a", float("inf")), item("b", float("-inf")), item("c", 0.0), item("d", 1.0)]
    assert names(visit(a_report(items, threshold=float("inf"))), "#g0") == ["b", "c", "d", "a"]


def test_user_text_stays_text_everywhere_it_can_appear(visit):
    table = Figures(NASTY, [NASTY, "n"], [[NASTY, NASTY]], NASTY)
    odd = item(NASTY, thumbnail=png(np.eye(4)), label=NASTY, note=NASTY)
    page = visit(a_report([odd], title=NASTY, sentences=[NASTY], tables=[table], made_by={NASTY: {NASTY: NASTY}}))
    card = page.locator("#g0 .card")
    assert page.locator("img[src='x']").count() == 0
    assert card.locator(".name").text_content() == card.locator(".name").get_attribute("title") == NASTY
    assert card.locator(".open").get_attribute("aria-label") == NASTY
    assert card.locator(".label bdi").text_content() == card.locator(".remark").text_content() == NASTY
    for selector in ("title", "h1", "#h0 bdi", "caption", "footer dt"):
        assert page.locator(selector).text_content() == NASTY
    assert page.locator("footer dd").text_content() == f"{NASTY} {NASTY}"
    assert [cell.strip() for cell in page.locator("tbody > tr > *").all_text_contents()] == [NASTY, NASTY]
    card.locator(".open").click()
    assert page.locator("#detail dd").last.text_content() == NASTY


@pytest.mark.parametrize("shape", [(8, 8), (120, 90), (5, 7, 3)])
def test_pictures_decode_back_to_the_same_pixels(visit, shape):
    pixels = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    image = visit(a_report([item("a", thumbnail=png(pixels))])).locator("#g0 .card .open img")
    head, data = image.get_attribute("src").split(",")
    assert head == "data:image/png;base64"
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))), pixels)
    assert image.evaluate("i => i.decode().then(() => [i.naturalHeight, i.naturalWidth])") == list(shape[:2])
    rendering = image.evaluate("i => getComputedStyle(i).imageRendering")
    assert (rendering == "pixelated") == (max(shape) < 96)


def test_all_cards_are_there_on_paper(visit):
    page = visit(a_report([item(f"{n:04}", score=n) for n in range(2000)]))
    assert len(names(page, "#g0")) < 2000
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert len(names(page, "#g0")) == 2000
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert len(names(page, "#g0")) < 2000


def test_page_can_be_read_without_eyes(visit, pets):
    pictured = item("a.png", thumbnail=png(np.eye(9)), label="hen")
    report = a_report(
        [*pets.items, pictured], classes=pets.classes, threshold=0.5, tables=[Figures("f", ["a", "b"], [["x", "1"]])]
    )
    page = visit(report)
    assert page.get_attribute("html", "lang") == "en"
    headings = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map(h => h.tagName)")
    assert headings == ["H1"] + ["H2"] * (1 + 4)  # the map and the groups
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    labelled_by = page.evaluate("[...document.querySelectorAll('section')].map(s => s.getAttribute('aria-labelledby'))")
    assert set(labelled_by) <= set(ids)
    card = page.locator("#g2 .card")
    assert card.locator("button").first.get_attribute("aria-label") == "a.png"
    assert card.text_content().startswith("worth a look: least known✎a.pnghenconfidence 90%outlier score ")
    scopes = page.evaluate("[...document.querySelectorAll('th')].map(th => th.scope)")
    assert set(scopes) == {"col", "row"}


# ---- Without one ----------------------------------------------------------------------------------------------------


def test_dollar_signs_and_undecodable_file_names_survive(tmp_path):
    name = os.fsdecode(b"caf\xe9.png")  # not utf-8: a lone surrogate, which no file can hold
    path = write(tmp_path / "p.html", a_report([item(name)], title="$title ${css} $", sentences=[name]))
    root = Tree(path.read_text(encoding="utf-8")).root
    assert root.one("h1").text == "$title ${css} $"
    assert root.one("header").text.startswith("$title ${css} $ caf?.png")


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


def test_nothing_is_fetched_and_nothing_but_its_own_script_can_run(pets):
    pictured = item("a", thumbnail=png(np.eye(9)))
    text = render(a_report([*pets.items, pictured], threshold=0.5, made_by={"a": 1}))
    root = Tree(text).root
    first, *_ = (m for m in root.find("meta") if m.attrs.get("http-equiv"))
    policy = dict(rule.strip().split(" ", 1) for rule in first.attrs["content"].split(";"))
    assert first.attrs["http-equiv"] == "Content-Security-Policy"
    assert policy["default-src"] == "'none'"
    assert policy["img-src"] == "data: blob:"
    assert re.fullmatch(r"'sha256-[\w+/=]+'", policy["script-src"])
    rest = re.sub(r"(?s)<script.*?</script>", "", text)
    assert not re.search(r"https?://|//[a-z]|url\(|@import", rest)
    assert not {n.tag for n in root.find()} & {"link", "iframe", "object", "embed", "base", "form"}
    assert [n.attrs.get("type") for n in root.find("script")] == ["application/json"] * 4 + ["module"]
    assert not [n for n in root.find() if "src" in n.attrs]
    assert all(a.attrs["href"].startswith("#") for a in root.find("a"))


def test_tables_and_made_by_are_printed():
    table = Figures("Accuracy", ["method", "acc"], [["eol", "81.2"], ["tim", "79.0"]], "1,000 tasks")
    made_by = {"method": "eol", "parameters": {"b": 0.5, "steps": 100}, "seed": 0}
    root = parse(a_report(tables=[table], made_by=made_by))
    rows = [[c.text for c in tr.find() if c.tag in ("th", "td")] for tr in root.one("table").find("tr")]
    assert rows == [["method", "acc"], ["eol", "81.2"], ["tim", "79.0"]]
    assert "1,000 tasks" in root.one("div", "figures").text
    facts = list(root.find("details"))[-1].one("dl")
    assert [dt.text for dt in facts.find("dt")] == ["method", "parameters", "seed"]
    assert [dd.text for dd in facts.find("dd")] == ["eol", "b 0.5, steps 100", "0"]


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match=r"'Accuracy'.*\[1\].*2 cells"):
        Figures("Accuracy", ["a", "b"], [["1", "2"], ["1"]])
    with pytest.raises(ValueError, match="'a.gif'.*not a PNG|'a.gif'.*neither a JPEG nor a PNG"):
        render(a_report([item("a.gif", thumbnail=b"GIF89a")]))


def test_write_is_the_rendered_page_and_leaves_no_other_file(tmp_path, pets):
    path = write(tmp_path / "new" / "page.html", pets)
    assert path == tmp_path / "new" / "page.html"
    assert path.read_bytes().decode("utf-8") == render(pets)
    write(str(path), a_report(title="Other"))
    assert "Other" in path.read_text(encoding="utf-8")
    assert os.listdir(path.parent) == ["page.html"]


def test_failed_rendering_keeps_the_earlier_page(tmp_path):
    path = write(tmp_path / "page.html", a_report(title="first"))
    before = path.read_bytes()
    broken = a_report([item("x", thumbnail=b"not a picture")])
    with pytest.raises(ValueError):
        write(path, broken)
    with pytest.raises(ValueError):
        write(tmp_path / "never" / "page.html", broken)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["page.html"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failed_disk_keeps_the_earlier_page(tmp_path, monkeypatch, step):
    path = write(tmp_path / "page.html", a_report(title="first"))
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="no space"):
        write(path, a_report(title="second"))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["page.html"]


# ---- From answers to a report ---------------------------------------------------------------------------------------


def answers_of(n, seed=0):
    rng = np.random.default_rng(seed)
    return Answers(
        rng.dirichlet([1, 1], n), rng.random(n), np.array(["cat", "dog"]), 0.5, is_probability=True, outlier_share=0.5
    )


def test_a_report_says_of_each_item_what_the_answers_say():
    answers = answers_of(30)
    examples = Gallery(["one", "two"], labels=["cat", "dog"])
    nearest = np.arange(30)[:, None] % 2
    report = make_report(
        answers, Gallery([f"{n}" for n in range(30)]), title="t", sentences=["s"], examples=examples, nearest=nearest,
        places=lambda rows: [(float(n), 0.0) for n in range(len(rows) + 2)],
    )  # fmt: skip
    assert [i.label for i in report.items[:30]] == answers.labels.tolist()
    for field, values in {
        "confidence": answers.confidence, "alternative_confidence": answers.alternative_confidence,
        "p_unknown": answers.p_unknown, "score": answers.doubts, "closest": answers.closest,
    }.items():  # fmt: skip
        assert [getattr(i, field) for i in report.items[:30]] == values.tolist()
    assert [i.nearest for i in report.items[:2]] == [["one"], ["two"]]
    assert [(i.name, i.label, i.example, i.xy) for i in report.items[30:]] == [
        ("one", "cat", True, (30.0, 0.0)), ("two", "dog", True, (31.0, 0.0))
    ]  # fmt: skip
    render(report)


def test_a_large_pile_shows_its_least_sure_items_and_the_middle_of_its_groups():
    answers = answers_of(MAX_REPORT_ITEMS + 500)
    surest = np.argsort(-answers.confidence)
    central = [int(i) for i in surest if answers.unknown[i]][:3]
    group = GroupOfUnknowns(1, np.array(central), 0.9)
    report = make_report(
        answers, Gallery([f"{n}" for n in range(len(answers))]), title="t", sentences=["s"], groups=[group]
    )
    shown = {int(i.name) for i in report.items}
    assert len(shown) == MAX_REPORT_ITEMS
    assert set(central) <= shown
    assert shown >= set(np.argsort(answers.confidence)[: MAX_REPORT_ITEMS - 3].tolist())
    assert [int(report.items[place].name) for place in report.groups[0].items] == central
    assert report.sentences == ["s", "The report shows 5,000 of them, the least sure ones; the tables hold all."]
    render(report)


# ---- Shares in words ------------------------------------------------------------------------------------------------


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
