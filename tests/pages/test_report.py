"""The page of a labelled pile, used in a headless Chromium as a person would: drag, look, search, download."""

import base64
import csv
import hashlib
import io
import json
import math
import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from reports import (
    CLASSES,
    EXAMPLES,
    NAN,
    NASTY,
    PICTURE,
    PILE,
    a_report,
    contrast,
    counts,
    drag,
    example,
    is_within,
    item,
    look_at,
    names,
    settled,
    visit,
    words,
)

from handful.core.answers import Answers
from handful.report import Figures, Gallery, Group, make_report, png, render, write
from handful.report.contents import MAX_REPORT_ITEMS
from handful.solving.groups import Group as GroupOfUnknowns
from handful.utils.csv_file import unescape
from handful.utils.shares_in_words import about, chances_in_words, percent, span

__all__ = ["visit"]  # a fixture

GROUPS = [Group("group 1", 9, [39, 30, 31, 32, 33, 34, 35, 36, 37]), Group("group 2", 4, [22, 21, 23, 24])]


def place(page, x, y):
    """Where the map shows the point at the shares x, y of its ranges; y goes up."""
    page.locator("#points").scroll_into_view_if_needed()
    box = page.locator("#points").bounding_box()
    return box["x"] + 15 + x * (box["width"] - 30), box["y"] + 15 + (1 - y) * (box["height"] - 30)


def focused(page):
    return page.evaluate("document.activeElement.getAttribute('aria-label')")


def marked(page, section):
    return set(page.locator(f"#g{section} .cards:not(.probe) .look .name").all_text_contents())


def downloaded(page):
    with page.expect_download() as download:
        page.click("#download")
    assert download.value.suggested_filename == "labels.csv"
    with open(download.value.path(), encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def strip(page, k):
    page.locator(f"#k{k}").scroll_into_view_if_needed()
    page.wait_for_selector(f"#k{k} + .strip li")
    return page.locator(f"#k{k} + .strip")


# ---- Groups of cards ------------------------------------------------------------------------------------------------


def test_each_class_shows_its_examples_and_its_items_the_surest_first(visit):
    page = visit(a_report(), height=4000)
    assert counts(page) == (21, 19)
    assert page.inner_text("h1") == page.title() == "Pets"
    assert page.locator("header p:not(.alert)").all_text_contents() == ["Forty pictures."]
    assert words(page, "#links") == "cat 11 dog 10 unknown 19"
    assert words(page, "#h0") == "cat 11 pictures, 1 example"
    assert words(page, "#h2") == "unknown 19 pictures set aside"
    assert page.locator("#g0 .examples button").get_attribute("aria-label") == "cat/one.jpg"
    assert names(page, 0)[:3] == ["0000.jpg", "0002.jpg", "0004.jpg"]  # of equal confidence: the lowest score
    assert names(page, 2)[:3] == ["0039.jpg", "0038.jpg", "0037.jpg"]
    shown = [name for n in range(3) for name in names(page, n)]
    assert sorted(shown) == sorted(i.name for i in PILE)
    page.select_option("#order", "doubt")
    settled(page)
    assert names(page, 2)[:2] == ["0021.jpg", "0022.jpg"]
    page.click("text=1 file skipped, and why")
    assert words(page, ".skipped li") == "notes.txt is not a picture"
    page.click("text=How this page was made")
    assert page.inner_text("footer dl").split("\n") == ["method", "eol"]


def test_the_order_is_that_of_the_confidence_on_the_cards_and_items_without_one_come_last(visit):
    odd = [
        item(n, 10, confidence=(7 * n % 10) / 10, alternative_confidence=(3 * n % 10) / 10, closest="cat", label=label)
        for n, label in enumerate(["cat"] * 6 + ["unknown"] * 4)
    ]
    page = visit(a_report(odd))
    assert names(page, 0) == [f"{n:04}.jpg" for n in sorted(range(6), key=lambda n: -odd[n].confidence)]
    drag(page, 0.85)  # 6, 7 and 8 are known now, as sure as their other answer says
    sureness = {n: odd[n].confidence if n < 6 else odd[n].alternative_confidence for n in range(9)}
    assert names(page, 0) == [f"{n:04}.jpg" for n in sorted(range(9), key=lambda n: -sureness[n])]
    numbers = {"a": (NAN, 0.9), "b": (0.9, 0.9), "c": (NAN, NAN), "d": (0.1, 0.9)}
    for label, section, order in (("cat", 0, ["d", "b", "a", "c"]), ("unknown", 2, ["b", "d", "a", "c"])):
        items = [item(0, name=n, score=s, confidence=c, label=label) for n, (s, c) in numbers.items()]
        page = visit(a_report(items, threshold=0.95 if label == "cat" else 0.05))
        look_at(page, f"#g{section}")
        assert names(page, section) == order
        assert "nan" not in page.text_content(f"#g{section}").lower()


def test_what_is_worth_a_look_is_marked_and_can_be_shown_alone(visit):
    known = [item(0, name=f"i{n:02}", score=n / 100, confidence=0.2 if n == 3 else 0.9) for n in range(20)]
    unknown = [item(0, name=f"u{n:02}", score=0.5 + n / 100, label="unknown") for n in range(20)]
    page = visit(a_report([*known, *unknown], threshold=0.4), height=4000)
    assert {"i19", "i18", "i03"} <= marked(page, 0)
    assert len(marked(page, 0)) <= 4
    assert marked(page, 2) == {"u00", "u01"}
    reasons = page.locator("#g0 .look .mark").all_text_contents()
    assert sorted(reasons) == ["worth a look: least certain", *["worth a look: least known"] * 2]
    marks = marked(page, 0) | marked(page, 2)
    assert int(page.inner_text("label.only b")) == len(marks)
    page.check("#only")
    assert {*names(page, 0), *names(page, 2)} == marks
    page.uncheck("#only")
    page.locator("#threshold").evaluate("e => { e.value = 620; e.dispatchEvent(new Event('input')); }")
    settled(page)
    assert "u11" in marked(page, 0) | marked(page, 2)  # marks follow the threshold


# ---- The slider -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1280, 390])
def test_the_slider_moves_pictures_both_ways_and_reset_brings_them_back(visit, width):
    page = visit(a_report(), width=width, height=4000)
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
    look_at(page, "#g2")
    assert "was known" in page.locator("#g2").inner_text()
    drag(page, 1)
    assert counts(page) == (40, 0)
    assert page.locator("#g2 .nothing").is_visible()
    page.click("#reset")
    assert counts(page) == (21, 19)
    assert not page.locator("#reset").is_visible()
    page.locator("#threshold").focus()
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    assert counts(page) == (22, 18)  # 21/40 = 0.525 came over
    assert page.locator("#threshold").get_attribute("aria-valuetext") == "0.530: 22 labelled, 18 unknown"
    page.keyboard.press("Home")
    assert counts(page) == (1, 39)  # a score of 0 is not above 0


def test_at_its_own_threshold_the_page_says_what_the_labels_said(visit):
    """Scores may have been compared in float32: 0.1 is above 0.1 only in some precisions."""
    edge = [item(0, score=float(np.float32(0.1)), label="cat"), item(2, score=NAN, label="unknown")]
    page = visit(a_report(edge, threshold=0.1))
    assert counts(page) == (1, 1)
    drag(page, 0.9)
    assert counts(page) == (1, 1)  # without a score it stays what it is
    assert "n/a" in page.locator("#g2 .card").inner_text()


def test_ranks_have_their_own_range_whatever_it_is(visit):
    ranks = [item(n, score=-50.0 + n, label="unknown" if n > 29 else CLASSES[n % 2]) for n in range(40)]
    page = visit(a_report(ranks, threshold=-20.5, score_is_probability=False))
    assert counts(page) == (30, 10)
    assert "not probabilities" in page.inner_text("#scale")
    assert "from -50.0 to -11.0" in page.inner_text("#scale")
    drag(page, 0.5)
    assert float(page.inner_text("#value")) == pytest.approx(-30.5, abs=0.5)
    for low, high in ((-35.0, -2.5), (3e-4, 9e-4), (-1e9, 1e9)):
        scores = np.linspace(low, high, 5)
        items = [item(0, name=str(n), score=s) for n, s in enumerate(scores)]
        page = visit(a_report(items, threshold=1e12, score_is_probability=False))
        bars = page.locator("#g0 .bar").evaluate_all("l => l.map(b => parseFloat(b.style.getPropertyValue('--at')))")
        np.testing.assert_allclose(bars, [0, 25, 50, 75, 100], atol=0.11)  # a thousandth is kept for the slider's end
        texts = [text.removeprefix("outlier score ") for text in page.locator("#g0 .score").all_text_contents()]
        np.testing.assert_allclose([float(t) for t in texts], scores, atol=0.01 * (high - low))


def test_what_is_looked_at_stays_while_the_groups_above_it_grow(visit):
    page = visit(a_report([item(n, of=400) for n in range(400)]))
    look_at(page, "#g2")
    before = page.locator("#g2").bounding_box()["y"]
    page.locator("#threshold").evaluate("e => { e.value = 700; e.dispatchEvent(new Event('input')); }")
    assert counts(page)[0] == 281
    assert page.locator("#g2").bounding_box()["y"] == pytest.approx(before, abs=2)


# ---- The map, one item, search --------------------------------------------------------------------------------------


def test_the_map_shows_every_item_by_mouse_and_by_keys_and_leads_to_its_card(visit):
    page = visit(a_report())
    points = page.locator("#points")
    assert points.get_attribute("data-points") == "42"
    assert points.get_attribute("aria-label").startswith("Map of 42 pictures: 21 labelled, 19 unknown, 2 examples.")
    page.mouse.move(*place(page, 30 / 39, 30 / 39))
    assert page.inner_text("#tip .name") == "0030.jpg"
    assert "unknown, doubt 0.75" in page.inner_text("#tip")
    assert page.locator("#tip img").count() == 1
    page.mouse.move(*place(page, 0, 1))
    assert words(page, "#tip") == "cat/one.jpg example of cat"
    page.mouse.click(*place(page, 1, 1))
    settled(page)
    assert focused(page) == "0039.jpg"
    box = page.evaluate("document.activeElement.getBoundingClientRect().toJSON()")
    assert 0 <= box["top"] < box["bottom"] <= 900
    page.mouse.click(*place(page, 1, 0))
    assert focused(page) == "dog/one.jpg"
    page.focus("#points")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    walked = page.inner_text("#tip .name")
    page.keyboard.press("Enter")
    assert focused(page) == walked
    page = visit(a_report([*PILE[:3], item(3, xy=(NAN, 1.0)), item(4, xy=(math.inf, 1.0))]))
    assert page.locator("#points").get_attribute("data-points") == "3"
    assert page.inner_text("#map-note").endswith("2 pictures without a place")


def test_a_card_opens_to_the_whole_story(visit):
    chances = chances_in_words("picture", (0.4, 0.5))
    pile = [item(n, p_unknown=n / 80) for n in range(39)] + [item(39)]
    page = visit(a_report([*pile, *EXAMPLES], chances=chances))
    page.locator(".card .open").first.focus()
    page.keyboard.press("Enter")
    text = words(page, "#detail")
    assert text.startswith("0000.jpg label cat confidence 75% P(unknown) 0% doubt 0.000 (threshold 0.500)")
    assert "Nearest examples cat cat/one.jpg elsewhere.jpg" in text
    assert page.locator("#detail img").count() == 2
    page.keyboard.press("Escape")
    assert not page.locator("#detail").is_visible()
    assert focused(page) == "0000.jpg"
    assert words(page, "#scale").endswith(chances)
    head, *rows = downloaded(page)
    assert head == ["path", "label", "closest", "confidence", "p_unknown", "doubt"]
    assert rows[10][4:] == ["0.125", "0.25"]
    assert rows[39][4:] == ["", "0.975"]


def test_the_search_finds_by_name_and_a_click_on_the_map_finds_past_it(visit):
    page = visit(a_report([item(0, name="Ärger/Kätzchen.JPG"), *PILE[1:]]))
    page.fill("#filter", "ärger/kätz")
    settled(page)
    assert page.inner_text("#found") == "1 picture found"
    assert names(page, 0) == ["Ärger/Kätzchen.JPG"]
    assert [page.locator(f"#g{n}").is_visible() for n in range(3)] == [True, False, False]
    assert counts(page) == (21, 19)  # the search hides, it does not decide
    page.fill("#filter", "nothing like it")
    settled(page)
    assert page.inner_text("#nothing") == "No picture has this in its name."
    page.mouse.click(*place(page, 1, 1))
    assert page.input_value("#filter") == ""
    assert focused(page) == "0039.jpg"


def test_the_download_holds_the_labels_at_this_threshold(visit):
    odd = [item(0, name=name) for name in NASTY] + [item(1, confidence=0.6, alternative_confidence=0.25, score=1 / 3)]
    page = visit(a_report(odd + PILE[30:] + EXAMPLES))
    head, *rows = downloaded(page)
    assert head == ["path", "label", "closest", "confidence", "doubt"]
    assert [unescape(row[0]) for row in rows] == [*NASTY, "0001.jpg", *(i.name for i in PILE[30:])]
    assert rows[NASTY.index("=1+1,2.jpg")][0] == "'=1+1,2.jpg"  # no spreadsheet computes it
    assert [row[1] for row in rows] == ["cat"] * len(NASTY) + ["dog"] + ["unknown"] * 10
    assert rows[len(NASTY)] == ["0001.jpg", "dog", "dog", "0.6", repr(1 / 3)]
    drag(page, 0.2)
    assert downloaded(page)[1:][len(NASTY)] == ["0001.jpg", "unknown", "dog", "0.25", repr(1 / 3)]
    drag(page, 1)
    rows = downloaded(page)[1:]
    assert {row[1] for row in rows} == {"cat", "dog"}
    assert rows[-1][3] == ""  # nobody said how sure that answer would be


# ---- Groups of unknowns ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_groups_of_unknowns_have_a_strip_with_the_most_central_first(visit, width, scheme):
    page = visit(a_report(groups=GROUPS), width=width, scheme=scheme)
    assert words(page, "#k0") == "group 1 9 pictures"
    shown = strip(page, 0).locator("button")
    assert [button.get_attribute("aria-label") for button in shown.all()] == [PILE[n].name for n in GROUPS[0].items]
    assert "handful promote RESULTS 1=name" in page.inner_text(".kinds")
    assert is_within(page)
    shown.first.click()
    assert "group group 1" in words(page, "#detail dl")
    page.keyboard.press("Escape")
    rows = downloaded(page)
    assert rows[0][-1] == "group"
    expected = {PILE[n].name: str(k + 1) for k, group in enumerate(GROUPS) for n in group.items}
    assert {row[0]: row[-1] for row in rows[1:] if row[-1]} == expected
    strip(page, 1)
    drag(page, 0.7)  # 29 and more stay unknown
    assert strip(page, 1).locator(".left").count() == 4
    assert strip(page, 0).locator(".left").count() == 0
    page.fill("#filter", "0003")
    settled(page)
    assert page.locator(".kinds").is_hidden()


def test_a_group_that_looks_like_several_kinds_shows_each(visit):
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


def test_thousands_of_pictures_become_elements_only_near_the_window_or_on_paper(visit):
    many = [item(n, of=2000) for n in range(2000)]
    groups = [Group(f"group {k + 1}", 200, range(1001 + 40 * k, 1041 + 40 * k)) for k in range(20)]
    page = visit(a_report([*many, *EXAMPLES], groups=groups))
    assert counts(page) == (1001, 999)
    assert page.locator("#points").get_attribute("data-points") == "2002"
    assert page.evaluate("document.images.length") < 150
    assert page.locator(".strip li").count() == 0
    assert strip(page, 0).locator("button").count() == 30
    assert strip(page, 0).locator(".more").inner_text() == "and 170 more"
    assert page.locator(".strip li").count() < 20 * 31
    page.evaluate("scrollTo({top: 1e9, behavior: 'instant'})")
    settled(page)
    assert names(page, 2)[-1] == "1001.jpg"
    drag(page, 0.25)
    assert counts(page) == (501, 1499)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert len(names(page, 0)) + len(names(page, 1)) == 501
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert len(names(page, 0)) + len(names(page, 1)) < 501


# ---- Odd piles, nasty names, small windows --------------------------------------------------------------------------

ODD = {
    "no unknowns": ({"items": PILE[:10] + EXAMPLES}, (10, 0)),
    "no items": ({"items": []}, (0, 0)),
    "nothing": ({"items": [], "classes": []}, (0, 0)),
    "only examples": ({"items": EXAMPLES}, (0, 0)),
    "half without pictures": ({"items": [item(n, thumbnail=None if n % 2 else PICTURE) for n in range(40)]}, (21, 19)),
    "no map": ({"items": [item(n, xy=(NAN, NAN), confidence=NAN, nearest=[]) for n in range(40)]}, (21, 19)),
    "one score": ({"items": [item(n, score=0.25, label=CLASSES[n % 2]) for n in range(5)]}, (5, 0)),
    "one rank": ({"items": [item(0, score=3.0)], "score_is_probability": False, "threshold": math.inf}, (1, 0)),
    "infinite scores": ({"items": [item(0, score=-math.inf), item(1, score=math.inf, label="unknown")]}, (1, 1)),
    "one place": ({"items": [item(n, xy=(1.0, 2.0)) for n in range(40)]}, (21, 19)),
    "nothing to say": ({"sentences": [], "skipped": [], "made_by": {}}, (21, 19)),
}


def test_odd_piles_make_a_page(visit):
    for name, (changes, expected) in ODD.items():
        page = visit(a_report(**changes))
        assert counts(page) == expected, name
        if sum(expected):
            page.locator("#threshold").focus()
            for key in ("Home", "End", "PageDown"):
                page.keyboard.press(key)
                assert sum(counts(page)) == sum(expected), name
        else:
            assert page.inner_text("#nothing") == "The pile is empty."
            assert page.locator("#threshold").is_disabled()
        assert "NaN" not in page.inner_text("body")
        placed = [i for i in changes.get("items", [*PILE, *EXAMPLES]) if not math.isnan(i.xy[0])]
        assert page.locator("#map").is_visible() == bool(placed), name
        assert page.locator(".kinds").is_hidden()
        assert len(downloaded(page)) == 1 + sum(expected), name


def test_names_are_text_wherever_they_appear(visit):
    odd = [item(2 * n, name=name, nearest=[NASTY[0]], xy=(n, 0), note=name) for n, name in enumerate(NASTY)]
    odd.append(item(0, name="x", label=NASTY[1], closest=NASTY[1], nearest=NASTY))
    odd.append(example(NASTY[0], NASTY[1], (3.0, 3.0)))
    odd += [item(30, name=name, thumbnail=None) for name in NASTY]
    group = Group(NASTY[3], len(NASTY), range(len(odd) - len(NASTY), len(odd)))
    page = visit(
        a_report(
            odd, title=NASTY[0], sentences=NASTY, classes=["cat", "dog", NASTY[1]], skipped=[(n, n) for n in NASTY],
            made_by={n: {n: n} for n in NASTY}, groups=[group],
            tables=[Figures(NASTY[0], [NASTY[1], "n"], [[NASTY[2], NASTY[3]]], NASTY[4])],
        ),
        height=4000,
    )  # fmt: skip
    assert set(names(page, 0)) == set(NASTY)
    assert page.text_content("h1") == page.title() == NASTY[0]
    assert page.text_content("#h2 bdi") == NASTY[1]
    assert NASTY[3] in page.inner_text("#k0")
    assert strip(page, 0).locator("li").count() == len(NASTY)
    assert [page.text_content(f"{name} >> nth=0") for name in ("caption", "tbody th", "tbody td")] == [
        NASTY[0], NASTY[2], NASTY[3]
    ]  # fmt: skip
    shown = [name.replace("\r\n", "\n").replace("\x00", "") for name in NASTY]  # as html reads them
    assert page.locator(".skipped .file").all_text_contents() == shown
    for n in range(len(NASTY)):
        page.mouse.move(*place(page, n / (len(NASTY) - 1), 0))
    page.locator("#g2 .card .open").click()
    assert page.text_content("#detail-name") == "x"
    assert page.locator("#detail li").count() == len(NASTY)
    assert page.locator("script").count() == 1
    assert page.evaluate("[...document.images].every(i => i.src === '' || i.src.startsWith('data:image/'))")
    assert not page.evaluate(
        "[...document.querySelectorAll('*')].some(e => [...e.attributes].some(a => a.name.startsWith('on')))"
    )


def test_even_a_careless_script_could_not_turn_text_into_html(visit):
    page = visit(a_report(), expect=["This document requires 'TrustedHTML' assignment. The action has been blocked."])
    code = "() => { try { document.body.innerHTML = '<b>x</b>' } catch { return 'refused' } }"
    assert page.evaluate(code) == "refused"


def test_a_narrow_window_needs_no_sideways_scrolling(visit):
    long = [item(n, name="a/" * 30 + "x" * 300 + f"{n}.jpg", nearest=["y" * 300]) for n in range(30)]
    page = visit(a_report(long + EXAMPLES, title="T" * 200, skipped=[("s" * 300, "w" * 300)]), width=390)
    for top in (0, 900, 10**6):
        page.evaluate("top => scrollTo({top, behavior: 'instant'})", top)
        settled(page)
        assert is_within(page)
        assert page.locator("#threshold").bounding_box()["y"] < 844
    page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
    page.mouse.move(*place(page, 10 / 39, 10 / 39))
    assert page.locator("#tip").is_visible()
    assert is_within(page)


def test_the_page_can_be_read_in_light_and_dark_and_without_eyes(visit):
    texts = ["h1", "header p", "#counts", ".ends", "#scale", "#links bdi", "#links b", "h2 small", ".card .name"]
    texts += [".card .label", ".card .score", ".key li", "footer summary", "#found"]
    for scheme in ("light", "dark"):
        page = visit(a_report(PILE[:15], tables=[Figures("f", ["a", "b"], [["x", "1"]])]), scheme=scheme, height=4000)
        drag(page, 0.2)
        for selector in texts:
            assert contrast(page, selector, "body") >= 4.5, (scheme, selector)
        for selector in ("#download", ".was"):
            assert contrast(page, selector) >= 4.5, (scheme, selector)
    unnamed = """() => [...document.querySelectorAll('button, input, select, canvas, svg, nav, aside')].filter(e =>
        !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim())).map(e => e.outerHTML)"""
    assert page.evaluate(unnamed) == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    labels = page.evaluate("[...document.querySelectorAll('section')].map(s => s.getAttribute('aria-labelledby'))")
    assert set(labels) <= set(ids)
    headings = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map(h => h.tagName)")
    assert headings == ["H1"] + ["H2"] * (1 + 3)  # the map and the groups
    assert set(page.evaluate("[...document.querySelectorAll('th')].map(th => th.scope)")) == {"col", "row"}
    for role, name in (("slider", "Outlier threshold"), ("searchbox", "Find by name")):
        assert page.get_by_role(role, name=name).count() == 1


def test_pictures_decode_back_to_the_same_pixels(visit):
    for shape in ((8, 8), (120, 90), (5, 7, 3)):
        pixels = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
        image = visit(a_report([item(0, thumbnail=png(pixels))])).locator("#g0 .card .open img")
        head, data = image.get_attribute("src").split(",")
        assert head == "data:image/png;base64"
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))), pixels)
        assert image.evaluate("i => i.decode().then(() => [i.naturalHeight, i.naturalWidth])") == list(shape[:2])
        assert (image.evaluate("i => getComputedStyle(i).imageRendering") == "pixelated") == (max(shape) < 96)


# ---- Without a browser ----------------------------------------------------------------------------------------------


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
    file = io.BytesIO()
    Image.new("RGB", (9, 7), "red").save(file, "JPEG")
    page = render(a_report([item(0), item(1, thumbnail=file.getvalue()), item(2, thumbnail=None)]))
    pictures = [base64.b64encode(PICTURE).decode(), base64.b64encode(file.getvalue()).decode(), None]
    assert json.loads(Parts(page).blocks["pictures"]) == pictures


def test_writing_gives_the_rendered_page_or_keeps_the_earlier_one(tmp_path, monkeypatch):
    name = os.fsdecode(b"caf\xe9.jpg")  # a lone surrogate, which no utf-8 file can hold
    report = a_report([item(0, name=name)], title="$title ${css} $", sentences=[name], skipped=[(name, name)])
    path = write(tmp_path / "new" / "report.html", report)
    page = path.read_bytes().decode("utf-8")
    assert page == render(report) == render(report)
    assert json.loads(Parts(page).blocks["data"])["items"][0][0] == "caf\\udce9.jpg"
    assert '<bdi class="file">caf\\udce9.jpg</bdi>' in page
    assert "<h1" in page
    assert "$title ${css} $" in page
    assert "caf?.jpg" in page
    with pytest.raises(ValueError, match="'0000.jpg'.*neither a JPEG nor a PNG"):
        write(path, a_report([item(0, thumbnail=b"GIF89a")]))

    def full(*args, **kwargs):
        raise OSError("no space left on device")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, full)
            with pytest.raises(OSError, match="no space"):
                write(path, a_report(title="second"))
    assert path.read_text("utf-8") == page
    assert os.listdir(path.parent) == ["report.html"]


def test_wrong_input_is_named():
    for report, message in (
        (a_report([item(0, closest="cow")]), "'0000.jpg'.*'cow' is not one of the classes"),
        (a_report([item(0, label="dog")]), "'0000.jpg'.*label 'dog' is neither 'cat' nor 'unknown'"),
        (a_report([item(0, label="unknown", closest="unknown")]), "'unknown' is not one of the classes"),
        (a_report([], classes=["unknown"]), "class is named 'unknown'"),
        (a_report(threshold=NAN), "threshold is nan"),
        *((a_report(groups=[Group("g", 1, [n])]), "is not an unknown item of the report") for n in (0, 40, 400)),
        *(
            (a_report([item(0, file=file)]), "must be an address relative to the page")
            for file in ("javascript:alert(1)", "https://example.org/x.png", "//example.org/x.png", "data:,x")
        ),
    ):
        with pytest.raises(ValueError, match=message):
            render(report)
    with pytest.raises(ValueError, match=r"'Accuracy'.*\[1\].*2 cells"):
        Figures("Accuracy", ["a", "b"], [["1", "2"], ["1"]])


def test_png_stretches_numbers_to_bytes_and_keeps_bytes():
    for array, expected in (
        (np.array([[0, 4], [8, 16]]), [[0, 64], [128, 255]]),
        ([[-1.0, 0.0, 1.0]], [[0, 128, 255]]),
        (np.array([[True, False]]), [[255, 0]]),
        (np.array([[10, 20]], dtype=np.uint8), [[10, 20]]),
        (np.full((2, 2), 7.0), [[0, 0], [0, 0]]),
        ([[NAN, 0.0, float("inf"), 2.0]], [[0, 0, 0, 255]]),
        (np.arange(6).reshape(1, 2, 3), [[[0, 51, 102], [153, 204, 255]]]),
    ):
        assert np.asarray(Image.open(io.BytesIO(png(array)))).tolist() == expected
    for shape in ((3,), (0, 4), (3, 8, 8), (2, 8, 8, 3)):
        with pytest.raises(ValueError, match=re.escape(str(list(shape)))):
            png(np.zeros(shape))


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


def test_shares_in_words():
    for share, text in ((0.3149, "31 %"), (0, "0 %"), (1, "100 %"), (0.004, "0.4 %"), (0.996, "99.6 %"), (0.01, "1 %")):
        assert percent(share) == text
    for share, interval, text in (
        (0.314, (0.216, 0.404), "about 31 % (between 22 and 40 %)"),
        (0.02, (0.0, 0.07), "about 2 % (at most 7 %)"),
        (0.0199, (0.0, 0.07), "fewer than 2 % (at most 7 %)"),
        (0.01, (0.0, 0.0), "fewer than 2 %"),
        (0.01, (0.0, 0.02), "fewer than 2 %"),
        (0.95, (0.8, 1.0), "about 95 % (at least 80 %)"),
        (0.5, (0.0, 1.0), "about 50 %"),  # says nothing
        (0.97, (0.968, 0.972), "about 97 %"),
        (0.1, (0.2, 0.3), "about 10 %"),  # such an interval is of something else
    ):
        assert about(share) + span(share, interval) == text
