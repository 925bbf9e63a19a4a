"""The page of a labelled pile, used in a headless Chromium as a person would: drag, look, search, download."""

import csv
import math

import pytest
from reports import (
    EXAMPLES,
    NAN,
    NASTY,
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
    words,
)

from handful.project.outputs import chances_in_words
from handful.report.contents import Figures, Group
from handful.utils.csv_file import unescape

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


def set_threshold(page, value):
    page.locator("#threshold").evaluate("(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", value)
    settled(page)


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


def test_each_class_shows_its_examples_and_its_items_the_surest_first(open_report):
    page = open_report(a_report(), height=4000)
    assert counts(page) == (21, 19)
    assert page.inner_text("h1") == page.title() == "Pets"
    assert page.locator("header p:not(.alert)").all_text_contents() == ["Forty pictures."]
    assert words(page, "#links") == "cat 11 dog 10 unknown 19"
    assert words(page, "#h0") == "cat 11 pictures, 1 example"
    assert words(page, "#h2") == "unknown 19 pictures set aside"
    assert page.locator("#g0 .examples button").get_attribute("aria-label") == "cat/one.jpg"
    assert names(page, 0)[:3] == ["0000.jpg", "0002.jpg", "0004.jpg"]  # of equal confidence: the lowest score
    assert names(page, 2)[:3] == ["0039.jpg", "0038.jpg", "0037.jpg"]
    assert sorted(name for n in range(3) for name in names(page, n)) == sorted(i.name for i in PILE)
    page.select_option("#order", "doubt")
    settled(page)
    assert names(page, 2)[:2] == ["0021.jpg", "0022.jpg"]
    page.click("text=1 file skipped, and why")
    assert words(page, ".skipped li") == "notes.txt is not a picture"


def test_the_order_is_that_of_the_confidence_on_the_cards_and_items_without_one_come_last(open_report):
    odd = [
        item(n, 10, confidence=(7 * n % 10) / 10, alternative_confidence=(3 * n % 10) / 10, closest="cat", label=label)
        for n, label in enumerate(["cat"] * 6 + ["unknown"] * 4)
    ]
    page = open_report(a_report(odd))
    assert names(page, 0) == [f"{n:04}.jpg" for n in sorted(range(6), key=lambda n: -odd[n].confidence)]
    numbers = {"a": (NAN, 0.9), "b": (0.9, 0.9), "c": (NAN, NAN), "d": (0.1, 0.9)}
    page = open_report(a_report([item(0, name=n, score=s, confidence=c) for n, (s, c) in numbers.items()]))
    assert names(page, 0) == ["d", "b", "a", "c"]
    assert "nan" not in page.text_content("#g0").lower()


def test_what_is_worth_a_look_is_marked_and_can_be_shown_alone(open_report):
    known = [item(0, name=f"i{n:02}", score=n / 100, confidence=0.2 if n == 3 else 0.9) for n in range(20)]
    unknown = [item(0, name=f"u{n:02}", score=0.5 + n / 100, label="unknown") for n in range(20)]
    page = open_report(a_report([*known, *unknown], threshold=0.4), height=4000)
    assert {"i19", "i18", "i03"} <= marked(page, 0)
    assert len(marked(page, 0)) <= 4
    assert marked(page, 2) == {"u00", "u01"}
    reasons = page.locator("#g0 .look .mark").all_text_contents()
    assert sorted(reasons) == ["worth a look: least certain", *["worth a look: least known"] * 2]
    page.check("#only")
    assert {*names(page, 0), *names(page, 2)} == marked(page, 0) | marked(page, 2)
    page.uncheck("#only")
    set_threshold(page, 620)
    assert "u11" in marked(page, 0) | marked(page, 2)  # marks follow the threshold


# ---- The slider -----------------------------------------------------------------------------------------------------


def test_the_slider_moves_pictures_both_ways_and_reset_brings_them_back(open_report):
    page = open_report(a_report(), width=390, height=4000)
    drag(page, 0.8)
    value = float(page.inner_text("#value"))
    assert value == pytest.approx(0.8, abs=0.01)
    unknown = sum(i.score > value for i in PILE)
    assert counts(page) == (40 - unknown, unknown)
    assert page.inner_text("#moved").endswith(f"{19 - unknown} moved")
    drag(page, 0.2)
    unknown = sum(i.score > float(page.inner_text("#value")) for i in PILE)
    assert counts(page) == (40 - unknown, unknown)
    drag(page, 1)
    assert counts(page) == (40, 0)
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


# ---- The map, one item, search --------------------------------------------------------------------------------------


def test_the_map_shows_every_item_by_mouse_and_by_keys_and_leads_to_its_card(open_report):
    page = open_report(a_report())
    points = page.locator("#points")
    assert points.get_attribute("data-points") == "42"
    assert points.get_attribute("aria-label").startswith("Map of 42 pictures: 21 labelled, 19 unknown, 2 examples.")
    page.mouse.move(*place(page, 30 / 39, 30 / 39))
    assert page.inner_text("#tip .name") == "0030.jpg"
    assert "unknown, doubt 0.75" in page.inner_text("#tip")
    page.mouse.move(*place(page, 0, 1))
    assert words(page, "#tip") == "cat/one.jpg example of cat"
    page.mouse.click(*place(page, 1, 1))
    settled(page)
    assert focused(page) == "0039.jpg"
    page.focus("#points")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    walked = page.inner_text("#tip .name")
    page.keyboard.press("Enter")
    assert focused(page) == walked
    page = open_report(a_report([*PILE[:3], item(3, xy=(NAN, 1.0)), item(4, xy=(math.inf, 1.0))]))
    assert page.locator("#points").get_attribute("data-points") == "3"
    assert page.inner_text("#map-note").endswith("2 pictures without a place")


def test_a_card_opens_to_the_whole_story(open_report):
    chances = chances_in_words("picture", (0.4, 0.5))
    pile = [item(n, p_unknown=n / 80) for n in range(39)] + [item(39)]
    page = open_report(a_report([*pile, *EXAMPLES], chances=chances))
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


def test_the_search_finds_by_name_and_a_click_on_the_map_finds_past_it(open_report):
    page = open_report(a_report([item(0, name="Ärger/Kätzchen.JPG"), *PILE[1:]]))
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


def test_the_download_holds_the_labels_at_this_threshold(open_report):
    odd = [item(0, name=name) for name in NASTY] + [item(1, confidence=0.6, alternative_confidence=0.25, score=1 / 3)]
    page = open_report(a_report(odd + PILE[30:] + EXAMPLES))
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


# ---- Groups of unknowns, and many items -----------------------------------------------------------------------------


def test_groups_of_unknowns_and_their_kinds_have_strips_with_the_most_central_first(open_report):
    kinds = [(5, GROUPS[0].items[:5], ()), (4, GROUPS[0].items[5:], ())]
    page = open_report(a_report(groups=[Group("group 1", 9, GROUPS[0].items, kinds), GROUPS[1]]), width=390)
    assert words(page, "#k0") == "group 1 9 pictures looks like 2 kinds: 1.1, 1.2"
    assert "handful promote RESULTS 1.1=name1 1.2=name2" in page.inner_text(".kinds")
    page = open_report(a_report(groups=GROUPS))
    assert "handful promote RESULTS 1=name" in page.inner_text(".kinds")
    shown = strip(page, 0).locator("button")
    assert [button.get_attribute("aria-label") for button in shown.all()] == [PILE[n].name for n in GROUPS[0].items]
    shown.first.click()
    assert "group group 1" in words(page, "#detail dl")
    page.keyboard.press("Escape")
    rows = downloaded(page)
    expected = {PILE[n].name: str(k + 1) for k, group in enumerate(GROUPS) for n in group.items}
    assert {row[0]: row[-1] for row in rows if row[-1]} == {"path": "group"} | expected
    strip(page, 1)
    drag(page, 0.7)  # 29 and more stay unknown
    assert strip(page, 1).locator(".left").count() == 4
    assert strip(page, 0).locator(".left").count() == 0
    page.fill("#filter", "0003")
    settled(page)
    assert page.locator(".kinds").is_hidden()


def test_thousands_of_pictures_become_elements_only_near_the_window_or_on_paper(open_report):
    many = [item(n, of=2000) for n in range(2000)]
    groups = [Group(f"group {k + 1}", 200, range(1001 + 40 * k, 1041 + 40 * k)) for k in range(20)]
    page = open_report(a_report([*many, *EXAMPLES], groups=groups))
    assert counts(page) == (1001, 999)
    assert page.locator("#points").get_attribute("data-points") == "2002"
    assert page.evaluate("document.images.length") < 150
    assert page.locator(".strip li").count() == 0
    assert strip(page, 0).locator("button").count() == 30
    assert strip(page, 0).locator(".more").inner_text() == "and 170 more"
    look_at(page, "#g2")
    before = page.locator("#g2").bounding_box()["y"]
    set_threshold(page, 700)
    assert counts(page)[0] == 1401
    assert page.locator("#g2").bounding_box()["y"] == pytest.approx(before, abs=2)  # the groups above it have grown
    page.evaluate("scrollTo({top: 1e9, behavior: 'instant'})")
    settled(page)
    assert names(page, 2)[-1] == "1401.jpg"
    for event, is_whole in (("beforeprint", True), ("afterprint", False)):
        page.evaluate(f"dispatchEvent(new Event('{event}'))")
        assert (len(names(page, 0)) + len(names(page, 1)) == 1401) is is_whole


# ---- Odd piles, nasty names, small windows --------------------------------------------------------------------------

ODD = {
    "no unknowns": ({"items": PILE[:10] + EXAMPLES}, (10, 0)),
    "nothing": ({"items": [], "classes": []}, (0, 0)),
    "only examples": ({"items": EXAMPLES}, (0, 0)),
    "no map, no pictures": (
        {"items": [item(n, thumbnail=None, xy=(NAN, NAN), confidence=NAN, nearest=[]) for n in range(40)]},
        (21, 19),
    ),
    "one rank": ({"items": [item(0, score=3.0)], "score_is_probability": False, "threshold": math.inf}, (1, 0)),
    "infinite scores": ({"items": [item(0, score=-math.inf), item(1, score=math.inf, label="unknown")]}, (1, 1)),
    "one place, long names": (
        {"items": [item(0, xy=(1, 2), name="a/" * 30 + "x" * 300)] * 5, "title": "T" * 200},
        (5, 0),
    ),
}


def test_odd_piles_make_a_page(open_report):
    for name, (changes, expected) in ODD.items():
        page = open_report(a_report(**changes), width=390)
        assert counts(page) == expected, name
        assert is_within(page), name
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


def test_names_are_text_wherever_they_appear(open_report):
    odd = [item(2 * n, name=name, nearest=[NASTY[0]], xy=(n, 0)) for n, name in enumerate(NASTY)]
    odd.append(item(0, name="x", label=NASTY[1], closest=NASTY[1], nearest=NASTY))
    odd.append(example(NASTY[0], NASTY[1], (3.0, 3.0)))
    odd += [item(30, name=name, thumbnail=None) for name in NASTY]
    group = Group(NASTY[3], len(NASTY), range(len(odd) - len(NASTY), len(odd)))
    more = {"title": NASTY[0], "sentences": NASTY, "skipped": [(n, n) for n in NASTY], "groups": [group]}
    more |= {"classes": ["cat", "dog", NASTY[1]], "made_by": {n: {n: n} for n in NASTY}}
    tables = [Figures(NASTY[0], [NASTY[1], "n"], [[NASTY[2], NASTY[3]]], NASTY[4])]
    page = open_report(a_report(odd, tables=tables, **more), height=4000)
    assert set(names(page, 0)) == set(NASTY)
    for selector, text in (("h1", NASTY[0]), ("#h2 bdi", NASTY[1]), ("caption", NASTY[0]), ("tbody td", NASTY[3])):
        assert page.locator(selector).first.text_content() == text
    assert NASTY[3] in page.inner_text("#k0")
    assert strip(page, 0).locator("li").count() == len(NASTY)
    shown = [name.replace("\r\n", "\n").replace("\x00", "") for name in NASTY]  # as html reads them
    assert page.locator(".skipped .file").all_text_contents() == shown
    for n in range(len(NASTY)):
        page.mouse.move(*place(page, n / (len(NASTY) - 1), 0))
    page.locator("#g2 .card .open").click()
    assert page.locator("#detail li").count() == len(NASTY)
    assert page.locator("script").count() == 1
    assert page.evaluate("[...document.images].every(i => i.src === '' || i.src.startsWith('data:image/'))")


def test_the_page_can_be_read_in_light_and_dark_and_without_eyes(open_report):
    texts = ["h1", "header p", "#counts", "#scale", "#links bdi", "h2 small", ".card .name", ".card .label", "#found"]
    for scheme in ("light", "dark"):
        page = open_report(a_report(PILE[:15]), scheme=scheme, height=4000)
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
    for role, name in (("slider", "Outlier threshold"), ("searchbox", "Find by name")):
        assert page.get_by_role(role, name=name).count() == 1
