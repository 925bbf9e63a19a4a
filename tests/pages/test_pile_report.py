"""The page of a labelled pile, used in a headless Chromium as a person would: drag, look, search, download."""

import csv
import hashlib
import io
import json
import math
import os
import re
from base64 import b64encode
from html.parser import HTMLParser

import numpy as np
import pytest

from handful.report import Group, Item, Report, png, render, write
from handful.utils.csv_file import unescape
from handful.utils.shares_in_words import chances_in_words

NAN = float("nan")
CLASSES = ["cat", "dog"]
NASTY = [
    "<script>pwned = 1</script>.jpg",
    "</script><script>pwned = 2</script>.jpg",
    "<!--<script>.jpg",
    "<img src=x onerror='pwned = 3'>.jpg",
    "\"quoted\" 'name' & $title ${css}.jpg",
    "two\nlines\r\n.jpg",
    "\u202egpj.exe",
    "\u05d0\u05d1\u05d2/\u202b.jpg",
    "=1+1,2.jpg",
    "]]>\u2028\u2029\x00.jpg",
    "",
]
PICTURE = png(np.arange(64).reshape(8, 8))


def item(n, of=40, **changes):
    """The n-th of `of` pictures: score n / of, cat and dog in turn, on a rising line of the map."""
    score = n / of
    closest = CLASSES[n % 2]
    values = {
        "name": f"{n:04}.jpg", "thumbnail": PICTURE, "label": "unknown" if score > 0.5 else closest, "closest": closest,
        "confidence": 0.75, "score": score, "xy": (n, n), "nearest": ["cat/one.jpg", "elsewhere.jpg"],
    }  # fmt: skip
    return Item(**values | changes)


def example(name, closest, xy):
    return Item(name, PICTURE, closest, closest, 1.0, 0.0, xy, [], example=True)


EXAMPLES = [example("cat/one.jpg", "cat", (0.0, 39.0)), example("dog/one.jpg", "dog", (39.0, 0.0))]
PILE = [item(n) for n in range(40)]  # 0..20 are known at 0.5, 21..39 unknown


def a_report(items=(*PILE, *EXAMPLES), **changes):
    values = {
        "title": "Pets", "sentences": ["Forty pictures."], "items": list(items), "classes": CLASSES, "threshold": 0.5,
        "score_is_probability": True, "skipped": [("notes.txt", "is not a picture")], "made_by": {"method": "eol"},
    }  # fmt: skip
    return Report(**values | changes)


@pytest.fixture
def visit(page, tmp_path):
    """Open a report from disk. Whatever the test does: no request leaves, no error is logged, nothing pops up."""
    path, problems, allowed = tmp_path / "report.html", [], []
    own = path.as_uri()
    listeners = {
        "console": lambda message: problems.append(message.text),
        "pageerror": lambda error: problems.append(str(error)),
        "dialog": lambda dialog: (problems.append(dialog.message), dialog.dismiss()),
        "request": lambda r: r.url == own or r.url.startswith(("data:", "blob:")) or problems.append(r.url),
    }

    def open_page(report, width=1280, height=900, scheme="light", expect=()):
        allowed.extend(expect)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        page.goto(write(path, report).as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    for event, listener in listeners.items():
        page.on(event, listener)
    yield open_page
    page.evaluate("0")  # what was logged before is told by now
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    assert problems == allowed


def settled(page):
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def counts(page):
    settled(page)
    known, unknown = re.fullmatch(r"([\d,]+) labelled, ([\d,]+) unknown", page.inner_text("#counts")).groups()
    return int(known.replace(",", "")), int(unknown.replace(",", ""))


def words(page, selector):
    return " ".join(page.inner_text(selector).split())


def drag(page, share):
    """Drag the slider's thumb, by mouse, to that share of its way."""
    box = page.locator("#threshold").bounding_box()
    thumb = 22

    def at(share):
        return box["x"] + thumb / 2 + share * (box["width"] - thumb), box["y"] + box["height"] / 2

    page.mouse.move(*at(page.locator("#threshold").evaluate("e => e.value / e.max")))
    page.mouse.down()
    page.mouse.move(*at(share), steps=4)
    page.mouse.up()
    settled(page)


def names(page, section):
    return page.locator(f"#g{section} .cards .name").all_text_contents()


def place(page, x, y):
    """Where the map shows the point at the shares x, y of its ranges; y goes up."""
    page.locator("#points").scroll_into_view_if_needed()
    box = page.locator("#points").bounding_box()
    return box["x"] + 15 + x * (box["width"] - 30), box["y"] + 15 + (1 - y) * (box["height"] - 30)


# ---- In the browser -------------------------------------------------------------------------------------------------


def test_groups_start_with_the_surest_and_examples_stand_above_them(visit):
    page = visit(a_report())
    assert counts(page) == (21, 19)
    assert names(page, 0)[:3] == ["0000.jpg", "0002.jpg", "0004.jpg"]
    assert words(page, "#h0") == "cat 11 pictures, 1 example"
    assert words(page, "#h2") == "unknown 19 pictures set aside"
    assert page.locator("#g0 .examples button").get_attribute("aria-label") == "cat/one.jpg"
    page.locator("#g2").scroll_into_view_if_needed()
    settled(page)
    assert names(page, 2)[:3] == ["0039.jpg", "0038.jpg", "0037.jpg"]
    page.select_option("#order", "doubt")
    settled(page)
    assert names(page, 2)[:2] == ["0021.jpg", "0022.jpg"]
    assert words(page, "#links") == "cat 11 dog 10 unknown 19"


def test_the_order_is_that_of_the_confidence_on_the_cards(visit):
    odd = [
        item(
            n, of=10, confidence=(7 * n % 10) / 10, alternative_confidence=(3 * n % 10) / 10, closest="cat", label=label
        )
        for n, label in enumerate(["cat"] * 6 + ["unknown"] * 4)
    ]
    page = visit(a_report(odd))
    assert names(page, 0) == [f"{n:04}.jpg" for n in sorted(range(6), key=lambda n: -odd[n].confidence)]
    drag(page, 0.85)  # 6, 7 and 8 are known now, as sure as their other answer says
    sureness = {n: odd[n].confidence if n < 6 else odd[n].alternative_confidence for n in range(9)}
    assert names(page, 0) == [f"{n:04}.jpg" for n in sorted(range(9), key=lambda n: -sureness[n])]
    page.select_option("#order", "doubt")
    settled(page)
    texts = page.locator("#g0 .card .label i").all_text_contents()
    shown = [float(re.fullmatch(r"confidence (\d+)%", text)[1]) / 100 for text in texts]
    assert shown == sorted(sureness.values())


@pytest.mark.parametrize("width", [1280, 390])
def test_dragging_the_slider_moves_pictures_both_ways_and_reset_brings_them_back(visit, width):
    page = visit(a_report(), width=width)
    drag(page, 0.8)
    value = float(page.inner_text("#value"))
    assert value == pytest.approx(0.8, abs=0.01)
    unknown = sum(i.score > value for i in PILE)
    assert counts(page) == (40 - unknown, unknown)
    assert page.inner_text("#moved").endswith(f"{19 - unknown} moved")
    drag(page, 0.2)
    unknown = sum(i.score > float(page.inner_text("#value")) for i in PILE)
    assert unknown > 25
    assert counts(page) == (40 - unknown, unknown)
    page.locator("#g2").scroll_into_view_if_needed()
    settled(page)
    assert "was known" in page.locator("#g2").inner_text()
    drag(page, 0)
    assert counts(page) == (1, 39)  # a score of 0 is not above 0
    drag(page, 1)
    assert counts(page) == (40, 0)
    assert page.locator("#g2 .nothing").is_visible()
    page.evaluate("document.getElementById('g1').scrollIntoView({block: 'end', behavior: 'instant'})")
    settled(page)
    assert "was unknown" in page.locator("#g1").inner_text()
    page.click("#reset")
    assert counts(page) == (21, 19)
    assert not page.locator("#reset").is_visible()


def test_arrow_keys_move_the_threshold_and_tell_the_counts(visit):
    page = visit(a_report())
    slider = page.locator("#threshold")
    slider.focus()
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    assert counts(page) == (22, 18)  # 21/40 = 0.525 came over
    assert page.inner_text("#value") == "0.530"
    assert slider.get_attribute("aria-valuetext") == "0.530: 22 labelled, 18 unknown"
    page.keyboard.press("Home")
    assert counts(page) == (1, 39)
    page.keyboard.press("End")
    assert counts(page) == (40, 0)


def test_at_its_own_threshold_the_page_says_what_the_labels_said(visit):
    """Scores may have been compared in float32: 0.1 is above 0.1 only in some precisions."""
    edge = [item(0, score=float(np.float32(0.1)), label="cat"), item(2, score=NAN, label="unknown")]
    page = visit(a_report(edge, threshold=0.1))
    assert counts(page) == (1, 1)
    drag(page, 0.9)
    assert counts(page) == (1, 1)  # without a score it stays what it is
    assert "n/a" in page.locator("#g2 .card").inner_text()


def test_ranks_have_their_own_range_and_the_page_says_so(visit):
    ranks = [item(n, score=-50.0 + n, label="unknown" if n > 29 else CLASSES[n % 2]) for n in range(40)]
    page = visit(a_report(ranks, threshold=-20.5, score_is_probability=False))
    assert counts(page) == (30, 10)
    assert "not probabilities" in page.inner_text("#scale")
    assert "from -50.0 to -11.0" in page.inner_text("#scale")
    drag(page, 0)
    assert counts(page) == (0, 40)
    drag(page, 1)
    assert counts(page) == (40, 0)
    drag(page, 0.5)
    assert float(page.inner_text("#value")) == pytest.approx(-30.5, abs=0.5)


def test_what_is_looked_at_stays_while_the_groups_above_it_grow(visit):
    page = visit(a_report([item(n, of=400) for n in range(400)]))
    page.evaluate("document.getElementById('g2').scrollIntoView({behavior: 'instant'})")
    settled(page)
    before = page.locator("#g2").bounding_box()["y"]
    page.locator("#threshold").evaluate("e => { e.value = 700; e.dispatchEvent(new Event('input')); }")
    settled(page)
    assert counts(page)[0] == 281
    assert page.locator("#g2").bounding_box()["y"] == pytest.approx(before, abs=2)


def test_map_shows_every_item_names_it_on_hover_and_leads_to_its_card(visit):
    page = visit(a_report())
    points = page.locator("#points")
    assert points.get_attribute("data-points") == "42"
    assert points.get_attribute("aria-label").startswith("Map of 42 pictures: 21 labelled, 19 unknown, 2 examples.")
    assert not page.locator("#tip").is_visible()
    page.mouse.move(*place(page, 30 / 39, 30 / 39))
    assert page.inner_text("#tip .name") == "0030.jpg"
    assert "unknown, doubt 0.75" in page.inner_text("#tip")
    assert page.locator("#tip img").count() == 1
    page.mouse.move(*place(page, 0, 1))
    assert words(page, "#tip") == "cat/one.jpg example of cat"
    page.mouse.click(*place(page, 1, 1))
    settled(page)
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "0039.jpg"
    box = page.evaluate("document.activeElement.getBoundingClientRect().toJSON()")
    assert 0 <= box["top"] < box["bottom"] <= 900
    page.mouse.click(*place(page, 1, 0))
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "dog/one.jpg"


def test_map_is_walked_with_the_keyboard(visit):
    page = visit(a_report(PILE))
    page.focus("#points")
    page.keyboard.press("ArrowRight")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    walked = page.inner_text("#tip .name")
    page.keyboard.press("ArrowUp")
    assert int(page.inner_text("#tip .name")[:4]) == int(walked[:4]) + 1
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#tip .name") == walked
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == walked
    assert not page.locator("#detail").is_visible()


def test_card_opens_to_the_whole_story(visit):
    page = visit(a_report())
    page.locator(".card .open").first.focus()
    page.keyboard.press("Enter")
    said = words(page, "#detail")
    assert said.startswith("0000.jpg label cat confidence 75% doubt 0.000 (threshold 0.500)")
    assert "Nearest examples cat cat/one.jpg elsewhere.jpg" in said
    assert page.locator("#detail img").count() == 2
    page.keyboard.press("Escape")
    assert not page.locator("#detail").is_visible()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "0000.jpg"


def test_calibrated_probabilities_stand_beside_the_scores(visit):
    odd = [item(n, p_unknown=n / 80) for n in range(39)] + [item(39)]
    page = visit(a_report([*odd, *EXAMPLES], chances=chances_in_words("picture", (0.4, 0.5))))
    said = words(page, "#scale")
    assert said.startswith(
        "The slider runs over the doubt, P(unknown) beside P(closest class): above the threshold a picture is set aside"
    )
    assert said.endswith("Of 100 pictures with a P(unknown) of 80 %, about 80 are unknown.")
    page.locator("#points").scroll_into_view_if_needed()
    page.mouse.click(*place(page, 30 / 39, 30 / 39))
    page.keyboard.press("Enter")
    assert "confidence 75% P(unknown) 38% doubt 0.750" in words(page, "#detail")
    page.keyboard.press("Escape")
    head, *rows = downloaded(page)
    assert head == ["path", "label", "closest", "confidence", "p_unknown", "doubt"]
    assert rows[10][4:] == ["0.125", "0.25"]
    assert rows[39][4:] == ["", "0.975"]


def test_filter_finds_by_name_and_the_map_click_finds_past_it(visit):
    page = visit(a_report([item(0, name="Ärger/Kätzchen.JPG"), *PILE[1:]]))
    page.fill("#filter", "ärger/kätz")
    settled(page)
    assert page.inner_text("#found") == "1 picture found"
    assert names(page, 0) == ["Ärger/Kätzchen.JPG"]
    assert [page.locator(f"#g{n}").is_visible() for n in range(3)] == [True, False, False]
    assert counts(page) == (21, 19)  # the filter hides, it does not decide
    page.fill("#filter", "nothing like it")
    settled(page)
    assert page.inner_text("#nothing") == "No picture has this in its name."
    page.mouse.click(*place(page, 1, 1))
    assert page.input_value("#filter") == ""
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "0039.jpg"


def downloaded(page):
    with page.expect_download() as download:
        page.click("#download")
    assert download.value.suggested_filename == "labels.csv"
    with open(download.value.path(), encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_download_holds_the_labels_at_this_threshold(visit):
    odd = [item(0, name=name) for name in NASTY] + [item(1, confidence=0.6, alternative_confidence=0.25, score=1 / 3)]
    page = visit(a_report(odd + PILE[30:] + EXAMPLES))
    head, *rows = downloaded(page)
    assert head == ["path", "label", "closest", "confidence", "doubt"]
    assert [unescape(row[0]) for row in rows] == [*NASTY, "0001.jpg", *(i.name for i in PILE[30:])]
    assert rows[NASTY.index("=1+1,2.jpg")][0] == "'=1+1,2.jpg"  # no spreadsheet computes it
    assert [row[1] for row in rows] == ["cat"] * len(NASTY) + ["dog"] + ["unknown"] * 10
    assert rows[len(NASTY)] == ["0001.jpg", "dog", "dog", "0.6", repr(1 / 3)]
    drag(page, 0.2)
    rows = downloaded(page)[1:]
    assert rows[len(NASTY)] == ["0001.jpg", "unknown", "dog", "0.25", repr(1 / 3)]
    drag(page, 1)
    rows = downloaded(page)[1:]
    assert {row[1] for row in rows} == {"cat", "dog"}
    assert rows[-1][3] == ""  # nobody said how sure that answer would be


def test_names_are_text_wherever_they_appear(visit):
    odd = [item(2 * n, name=name, nearest=[NASTY[0]], xy=(n, 0)) for n, name in enumerate(NASTY)]
    classes = ["cat", "dog", NASTY[1]]
    odd.append(item(0, name="x", label=NASTY[1], closest=NASTY[1], nearest=NASTY))
    odd.append(example(NASTY[0], NASTY[1], (3.0, 3.0)))
    report = a_report(
        odd,
        title=NASTY[0],
        sentences=NASTY,
        classes=classes,
        skipped=[(n, n) for n in NASTY],
        made_by={n: n for n in NASTY},
    )
    page = visit(report, height=4000)
    assert set(names(page, 0)) == set(NASTY)
    assert page.text_content("h1") == page.title() == NASTY[0]
    assert page.text_content("#h2 bdi") == NASTY[1]
    shown = [name.replace("\r\n", "\n").replace("\x00", "") for name in NASTY]  # as html reads them
    assert page.locator(".skipped .file").all_text_contents() == shown
    for n in range(len(NASTY)):
        page.mouse.move(*place(page, n / (len(NASTY) - 1), 0))
    page.locator("#g2 .card .open").click()
    assert page.text_content("#detail-name") == "x"
    assert page.locator("#detail li").count() == len(NASTY)
    assert page.evaluate("typeof pwned") == "undefined"
    assert page.locator("script").count() == 1
    assert page.evaluate("[...document.images].every(i => i.src === '' || i.src.startsWith('data:image/'))")
    assert not page.evaluate(
        "[...document.querySelectorAll('*')].some(e => [...e.attributes].some(a => a.name.startsWith('on')))"
    )


def test_even_a_careless_script_could_not_turn_text_into_html(visit):
    page = visit(a_report(), expect=["This document requires 'TrustedHTML' assignment. The action has been blocked."])
    assert (
        page.evaluate("() => { try { document.body.innerHTML = '<b>x</b>' } catch { return 'refused' } }") == "refused"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_window_needs_no_sideways_scrolling(visit, scheme):
    long = [item(n, name="a/" * 30 + "x" * 300 + f"{n}.jpg", nearest=["y" * 300]) for n in range(30)]
    page = visit(a_report(long + EXAMPLES, title="T" * 200, skipped=[("s" * 300, "w" * 300)]), width=390, scheme=scheme)
    for top in (0, 900, 10**6):
        page.evaluate("top => scrollTo({top, behavior: 'instant'})", top)
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.locator("#threshold").bounding_box()["y"] < 844
    page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
    page.mouse.move(*place(page, 10 / 39, 10 / 39))
    assert page.locator("#tip").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def luminance(colour):
    r, g, b = (float(v) / 255 for v in re.findall(r"[\d.]+", colour)[:3])
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (r, g, b)]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(visit, scheme):
    page = visit(a_report(PILE[:15]), scheme=scheme)
    drag(page, 0.2)
    paper = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (paper > 0.5) == (scheme == "light")
    texts = ["h1", "header p", "#counts", ".ends", "#scale", "#links bdi", "#links b", "h2 small", ".card .name"]
    for selector in [*texts, ".card .label", ".card .score", ".key li", "footer summary", "#found"]:
        ink = luminance(page.locator(selector).first.evaluate("e => getComputedStyle(e).color"))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5, selector
    for selector in ["#download", ".was"]:
        style = page.locator(selector).first.evaluate(
            "e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]"
        )
        ink, ground = map(luminance, style)
        assert (max(ink, ground) + 0.05) / (min(ink, ground) + 0.05) >= 4.5, selector


def test_every_control_has_a_name(visit):
    page = visit(a_report())
    unnamed = """() => [...document.querySelectorAll('button, input, select, canvas, svg, nav, aside')].filter(e =>
        !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim())).map(e => e.outerHTML)"""
    assert page.evaluate(unnamed) == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    assert page.get_by_role("slider", name="Outlier threshold").count() == 1
    assert page.get_by_role("searchbox", name="Find by name").count() == 1
    assert page.get_by_role("button", name="0000.jpg", exact=True).count() >= 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"items": PILE[:10] + EXAMPLES}, (10, 0)),
        ({"items": []}, (0, 0)),
        ({"items": [], "classes": []}, (0, 0)),
        ({"items": EXAMPLES}, (0, 0)),
        ({"items": [item(n, thumbnail=None) for n in range(40)]}, (21, 19)),
        ({"items": [item(n, thumbnail=None if n % 2 else PICTURE) for n in range(40)]}, (21, 19)),
        ({"items": [item(n, xy=(NAN, NAN), confidence=NAN, nearest=[]) for n in range(40)]}, (21, 19)),
        ({"items": [item(n, score=0.25, label=CLASSES[n % 2]) for n in range(5)]}, (5, 0)),
        ({"items": [item(0, score=3.0)], "score_is_probability": False, "threshold": math.inf}, (1, 0)),
        ({"items": [item(0, score=-math.inf), item(1, score=math.inf, label="unknown"), item(2)]}, (2, 1)),
        ({"items": [item(n, xy=(1.0, 2.0)) for n in range(40)]}, (21, 19)),
        ({"sentences": [], "skipped": [], "made_by": {}}, (21, 19)),
    ],
    ids=["no unknowns", "no items", "nothing", "only examples", "no pictures", "half without pictures", "no map",
         "one score", "one rank, all known", "infinite scores", "one place", "nothing to say"],
)  # fmt: skip
def test_odd_piles_make_a_page(visit, changes, expected):
    page = visit(a_report(**changes))
    assert counts(page) == expected
    if sum(expected):
        page.locator("#threshold").focus()
        for key in ("Home", "End", "ArrowLeft", "PageDown"):
            page.keyboard.press(key)
            assert sum(counts(page)) == sum(expected)
    else:
        assert page.inner_text("#nothing") == "The pile is empty."
        assert page.locator("#threshold").is_disabled()
    assert "NaN" not in page.inner_text("body")
    placed = [i for i in changes.get("items", [*PILE, *EXAMPLES]) if not math.isnan(i.xy[0])]
    assert page.locator("#map").is_visible() == bool(placed)
    if placed:
        assert page.locator("#points").get_attribute("data-points") == str(len(placed))
    assert len(downloaded(page)) == 1 + sum(expected)


def test_items_without_a_place_are_counted_beside_the_map(visit):
    page = visit(a_report([*PILE[:3], item(3, xy=(NAN, 1.0)), item(4, xy=(math.inf, 1.0))]))
    assert page.locator("#points").get_attribute("data-points") == "3"
    assert page.inner_text("#map-note").endswith("2 pictures without a place")


def test_five_thousand_pictures_become_elements_only_near_the_window(visit):
    page = visit(a_report([item(n, of=5000) for n in range(5000)] + EXAMPLES))
    assert counts(page) == (2501, 2499)
    assert page.locator("#points").get_attribute("data-points") == "5002"
    assert page.evaluate("document.images.length") < 150
    page.evaluate("scrollTo({top: 1e9, behavior: 'instant'})")
    settled(page)
    assert names(page, 2)[-1] == "2501.jpg"
    assert page.evaluate("document.images.length") < 300
    drag(page, 0.25)
    assert counts(page) == (1251, 3749)
    page.mouse.click(*place(page, 0.5, 0.5))
    assert page.evaluate("document.activeElement.className") == "open"


GROUPS = [Group("group 1", 9, [39, 30, 31, 32, 33, 34, 35, 36, 37]), Group("group 2", 4, [22, 21, 23, 24])]


def strip(page, k):
    page.locator(f"#k{k}").scroll_into_view_if_needed()
    page.wait_for_selector(f"#k{k} + .strip li")
    return page.locator(f"#k{k} + .strip")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_groups_of_unknowns_have_a_strip_with_the_most_central_first(visit, width, scheme):
    page = visit(a_report(groups=GROUPS), width=width, scheme=scheme)
    assert words(page, "#k0") == "group 1 9 pictures"
    shown = strip(page, 0).locator("button")
    names_shown = [button.get_attribute("aria-label") for button in shown.all()]
    assert names_shown == [PILE[n].name for n in GROUPS[0].items]
    assert "handful promote RESULTS 1=name" in page.inner_text(".kinds")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shown.first.click()
    assert "group group 1" in words(page, "#detail dl")


def test_a_group_that_looks_like_several_kinds_says_so_and_shows_each(visit):
    mixed = Group("group 1", 9, GROUPS[0].items, [(5, GROUPS[0].items[:5]), (4, GROUPS[0].items[5:])])
    page = visit(a_report(groups=[mixed, GROUPS[1]]))
    assert words(page, "#k0") == "group 1 9 pictures looks like 2 kinds: 1.1, 1.2"
    assert "handful promote RESULTS 1.1=name1 1.2=name2" in page.inner_text(".kinds")
    for part, items in (("1.1, 5 pictures", mixed.items[:5]), ("1.2, 4 pictures", mixed.items[5:])):
        strip_of_part = page.get_by_role("list", name=part)
        strip_of_part.scroll_into_view_if_needed()
        strip_of_part.locator("button").first.wait_for()
        names_shown = [button.get_attribute("aria-label") for button in strip_of_part.locator("button").all()]
        assert names_shown == [PILE[n].name for n in items]
    assert strip(page, 1).locator("button").count() == 4


def test_groups_step_back_where_the_threshold_leaves_them(visit):
    page = visit(a_report(groups=GROUPS))
    assert strip(page, 1).locator(".left").count() == 0
    drag(page, 0.7)  # 29 and more stay unknown
    assert strip(page, 1).locator(".left").count() == 4
    assert strip(page, 0).locator(".left").count() == 0
    page.fill("#filter", "0003")
    settled(page)
    assert page.locator(".kinds").is_hidden()


def test_download_holds_the_groups(visit):
    page = visit(a_report(groups=GROUPS))
    head, *rows = downloaded(page)
    assert head[-1] == "group"
    assert {row[0]: row[-1] for row in rows if row[-1]} == {
        PILE[n].name: str(k + 1) for k, group in enumerate(GROUPS) for n in group.items
    }


def test_without_groups_nothing_is_said_of_them(visit):
    page = visit(a_report())
    assert page.locator(".kinds").is_hidden()


def test_groups_of_items_without_pictures_show_their_names(visit):
    bare = [item(n, thumbnail=None) for n in range(40)]
    page = visit(a_report(bare, groups=GROUPS))
    assert strip(page, 1).inner_text().split() == [PILE[n].name for n in GROUPS[1].items]


def test_names_in_groups_are_text(visit):
    odd = [item(30, name=name, thumbnail=None) for name in NASTY]
    page = visit(a_report(odd, groups=[Group(NASTY[3], len(odd), range(len(odd)))]))
    assert NASTY[3] in page.inner_text("#k0")
    assert strip(page, 0).locator("li").count() == len(NASTY)
    assert page.evaluate("typeof pwned") == "undefined"


def test_large_groups_show_a_part_and_far_ones_wait(visit):
    many = [item(n, of=5000) for n in range(5000)]
    groups = [Group(f"group {k + 1}", 200, range(2501 + 100 * k, 2601 + 100 * k)) for k in range(20)]
    page = visit(a_report(many, groups=groups))
    assert page.locator(".strip li").count() == 0
    shown = strip(page, 0)
    assert shown.locator("button").count() == 30
    assert shown.locator(".more").inner_text() == "and 170 more"
    assert page.locator(".strip li").count() < 20 * 31


def test_a_group_of_what_is_not_unknown_is_refused():
    for wrong in (0, 40, 400):
        with pytest.raises(ValueError, match="is not an unknown item of the report"):
            render(a_report(groups=[Group("group 1", 1, [wrong])]))


def test_what_was_skipped_and_how_it_was_made_can_be_unfolded(visit):
    page = visit(a_report(made_by={"method": "eol", "parameters": {"b": 0.5}}))
    page.click("text=1 file skipped, and why")
    assert words(page, ".skipped li") == "notes.txt is not a picture"
    page.click("text=How this page was made")
    assert page.inner_text("footer dl").split("\n") == ["method", "eol", "parameters", "b 0.5"]


# ---- Without one ----------------------------------------------------------------------------------------------------


class Parts(HTMLParser):
    """The text of the page's style and script blocks, and its policy."""

    def __init__(self, page):
        super().__init__()
        self.blocks, self.at, self.policy = {}, None, None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
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


def test_policy_allows_this_style_and_this_script_and_nothing_else():
    parts = Parts(render(a_report()))

    def source(block):
        return "'sha256-" + b64encode(hashlib.sha256(parts.blocks[block].encode()).digest()).decode() + "'"

    assert parts.policy == {
        "default-src": "'none'", "img-src": "data: blob:", "style-src": source("style"), "script-src": source("script"),
        "base-uri": "'none'", "form-action": "'none'",
        "require-trusted-types-for": "'script'", "trusted-types": "'none'",
    }  # fmt: skip
    code = parts.blocks["script"] + parts.blocks["style"]
    assert not re.search(
        r"https?://(?!www\.w3\.org/2000/svg)|url\((?!#)|@import|innerHTML|outerHTML|insertAdjacent|eval\(", code
    )


def test_data_cannot_end_its_block_and_reads_back_as_it_was():
    parts = Parts(render(a_report([item(n, name=name) for n, name in enumerate(NASTY)])))
    assert set(parts.blocks) == {"style", "measured", "data", "pictures", "texts", "script"}
    assert not re.search(r"[<>&]|[^\x20-\x7e]", parts.blocks["data"])
    assert [row[0] for row in json.loads(parts.blocks["data"])["items"]] == NASTY


def test_each_picture_is_on_the_page_once_as_it_came():
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.new("RGB", (9, 7), "red").save(file, "JPEG")
    page = render(a_report([item(0), item(1, thumbnail=file.getvalue()), item(2, thumbnail=None)]))
    assert json.loads(Parts(page).blocks["pictures"]) == [
        b64encode(PICTURE).decode(), b64encode(file.getvalue()).decode(), None
    ]  # fmt: skip


def test_the_same_report_gives_the_same_page(tmp_path):
    page = render(a_report())
    assert page == render(a_report())
    path = write(tmp_path / "new" / "report.html", a_report())
    assert path.read_bytes().decode("utf-8") == page
    assert os.listdir(path.parent) == ["report.html"]


def test_undecodable_file_names_are_written_as_in_the_tables(tmp_path):
    name = os.fsdecode(b"caf\xe9.jpg")  # a lone surrogate, which no utf-8 file can hold
    path = write(tmp_path / "p.html", a_report([item(0, name=name)], title=name, skipped=[(name, name)]))
    page = path.read_text(encoding="utf-8")
    assert json.loads(Parts(page).blocks["data"])["items"][0][0] == "caf\\udce9.jpg"
    assert '<bdi class="file">caf\\udce9.jpg</bdi>' in page


def test_failed_rendering_keeps_the_earlier_page(tmp_path):
    path = write(tmp_path / "p.html", a_report())
    before = path.read_bytes()
    with pytest.raises(ValueError, match="'0000.jpg'.*neither a JPEG nor a PNG"):
        write(path, a_report([item(0, thumbnail=b"GIF89a")]))
    assert path.read_bytes() == before


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="'0000.jpg'.*'cow' is not one of the classes"):
        render(a_report([item(0, closest="cow")]))
    with pytest.raises(ValueError, match="'0000.jpg'.*label 'dog' is neither 'cat' nor 'unknown'"):
        render(a_report([item(0, label="dog")]))
    with pytest.raises(ValueError, match="class is named 'unknown'"):
        render(a_report([], classes=["unknown"]))
    with pytest.raises(ValueError, match="threshold is nan"):
        render(a_report(threshold=NAN))
