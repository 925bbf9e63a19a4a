"""Labels are corrected on the report, in a headless Chromium: with the pencil, with keys, and on a large picture."""

import csv
import json

from reports import (
    EXAMPLES,
    NASTY,
    PILE,
    a_report,
    contrast,
    drag,
    is_within,
    item,
    look_at,
    reload,
    settled,
    words,
)

from handful import __version__
from handful.project.corrections import read_corrections
from handful.report.contents import Run

COMMAND = "handful label '/tmp/my out' --corrections corrections.json"
RUN = Run("a run", "handful check '/tmp/my out'", COMMAND)
REPORT = a_report(run=RUN)


def card(page, name):
    return page.locator(f"section .card:has(.open[aria-label='{name}'])")


def press(page, name, key):
    card(page, name).locator(".open").focus()
    page.keyboard.press(key)


def label_on(page, name):
    return " ".join(card(page, name).locator(".correct").inner_text().split())


def downloaded(page, button, tmp_path):
    with page.expect_download() as download:
        page.click(button)
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    return path


def focused(page):
    return page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent")


def test_keys_correct_the_card_that_has_the_focus_and_take_it_back(open_report):
    page = open_report(REPORT)
    assert not page.locator("#corrections").is_visible()
    press(page, "0000.jpg", "2")
    assert label_on(page, "0000.jpg") == "→ dog"
    assert focused(page) == "0000.jpg"  # the card keeps it
    press(page, "0002.jpg", "u")
    assert label_on(page, "0002.jpg") == "→ unknown"
    press(page, "0004.jpg", "1")
    assert label_on(page, "0004.jpg") == "✓ cat"
    drag(page, 1)  # another threshold changes labels, and no corrections
    assert page.inner_text("#correction-count") == "2 corrections, 1 label confirmed"
    page.click("#reset")
    press(page, "0002.jpg", "Delete")
    press(page, "0004.jpg", "Backspace")
    assert label_on(page, "0002.jpg") == "✎"
    assert page.inner_text("#correction-count") == "1 correction"
    press(page, "0000.jpg", "9")  # there is no ninth class
    press(page, "0000.jpg", "Control+1")
    assert label_on(page, "0000.jpg") == "→ dog"
    assert page.inner_text("#command") == COMMAND
    page.locator("#g0 .examples .open").focus()  # an example cannot be corrected
    page.keyboard.press("2")
    assert page.inner_text("#correction-count") == "1 correction"


def test_the_pencil_offers_the_classes_none_of_them_and_a_new_one(open_report):
    page = open_report(REPORT, width=390, scheme="dark")
    look_at(page, "#g0")
    pencil = card(page, "0000.jpg").locator(".correct")
    pencil.click()
    assert words(page, "#chooser") == "0000.jpg cat 1 dog 2 none of these u Add"
    box = page.locator("#chooser").bounding_box()
    assert 0 <= box["x"] <= 390 - box["width"]
    page.click("#chooser >> text=dog")
    assert not page.locator("#chooser").is_visible()
    assert focused(page) == "Corrected: dog. Change, 0000.jpg"
    assert contrast(page, ".correct.corrected") >= 4.5
    page.keyboard.press("Enter")
    page.fill("#chooser input", "  Maine Coon ")
    page.keyboard.press("Enter")
    assert label_on(page, "0000.jpg") == "→ Maine Coon"
    card(page, "0002.jpg").locator(".correct").click()
    assert "Maine Coon" in words(page, "#chooser")  # a class that was added is offered to others
    page.keyboard.press("Escape")
    pencil.click()
    page.click("#chooser >> text=take it back")
    assert label_on(page, "0000.jpg") == "✎"
    assert is_within(page)
    for typed, label in (("u 1 owl", "u 1 owl"), ("UNKNOWN", "unknown")):
        press(page, "0000.jpg", "n")  # a new class is named by keys alone
        page.keyboard.type(typed)  # keys that correct elsewhere are letters here
        page.keyboard.press("Enter")
        assert label_on(page, "0000.jpg") == f"→ {label}"


def test_corrections_survive_a_reload_belong_to_one_run_and_can_be_forgotten_and_brought_back(open_report):
    page = open_report(REPORT)
    press(page, "0000.jpg", "2")
    press(page, "0002.jpg", "u")
    reload(page)
    assert label_on(page, "0000.jpg") == "→ dog"
    page.click("#forget")
    assert (label_on(page, "0000.jpg"), label_on(page, "0002.jpg")) == ("✎", "✎")
    assert page.inner_text("#correction-count") == "Forgotten: 2"
    page.click("#forget")
    assert page.inner_text("#correction-count") == "2 corrections"
    assert label_on(page, "0002.jpg") == "→ unknown"
    page.click("#forget")
    reload(page)
    assert not page.locator("#corrections").is_visible()
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new DOMException('denied') } }")
    press(page, "0000.jpg", "2")
    assert label_on(page, "0000.jpg") == "→ dog"
    assert "does not store them: download them" in page.inner_text("#correction-note")


def test_corrections_need_a_run_of_their_own_and_a_command_that_takes_them(open_report):
    page = open_report(REPORT)
    press(page, "0000.jpg", "2")
    page = open_report(a_report(run=Run("another run")))
    assert label_on(page, "0000.jpg") == "✎"
    assert "EXAMPLES PILE --corrections corrections.json" in page.text_content("#command")
    page = open_report(a_report(can_promote=False))
    assert page.locator("section .correct").count() == 0
    press(page, "0000.jpg", "2")
    assert not page.locator("#corrections").is_visible()
    assert not page.locator("#correct-note").is_visible()


def test_the_downloads_are_what_handful_label_takes(open_report, tmp_path):
    odd = [item(2 * n, name=name, score=0.1, thumbnail=None) for n, name in enumerate(NASTY) if name]
    page = open_report(a_report([*odd, *EXAMPLES], run=RUN), height=4000)
    expected = {}
    for n, one in enumerate(odd):
        page.locator(f"section .card[data-id='{n}'] .open").focus()
        page.keyboard.press("2" if n % 2 else "u")
        expected[one.name] = "dog" if n % 2 else "unknown"
    as_json = downloaded(page, "#corrections-json", tmp_path)
    document = json.loads(as_json.read_text("utf-8"))
    assert (document["handful"], document["run"]) == (__version__, "a run")
    assert document["corrections"][1] == {"item": odd[1].name, "label": "dog", "was": "cat"}
    as_csv = downloaded(page, "#corrections-csv", tmp_path)
    with as_csv.open(encoding="utf-8", newline="") as file:
        assert "'=1+1,2.jpg" in [row[0] for row in csv.reader(file)]  # no spreadsheet computes it
    assert read_corrections([as_json]) == read_corrections([as_csv]) == expected


# ---- An item large --------------------------------------------------------------------------------------------------


def test_a_large_item_fills_the_window_has_a_link_to_its_file_and_is_corrected(open_report):
    for width, least in ((390, 300), (1280, 600)):
        page = open_report(a_report([item(0, file="../pile/a%20b.jpg"), *PILE[1:]], run=RUN), width=width)
        look_at(page, "#g0")
        card(page, "0000.jpg").locator(".open").click()
        box = page.locator("#detail .about > img").bounding_box()
        assert min(box["width"], box["height"]) >= least
        assert is_within(page)
    link = page.locator("#detail a")
    assert link.get_attribute("href") == "../pile/a%20b.jpg"
    assert link.get_attribute("rel") == "noreferrer"
    page.keyboard.press("2")
    assert page.locator("#detail .choice[aria-pressed=true]").inner_text().startswith("dog")
    page.keyboard.press("ArrowRight")
    assert page.locator("#detail a").count() == 0
    page.click("#detail .choice >> text=none of these")
    assert focused(page) == "none of these u"
    page.keyboard.press("n")
    page.keyboard.type("owl")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert (label_on(page, "0000.jpg"), label_on(page, "0002.jpg")) == ("→ dog", "→ owl")
    assert page.inner_text("#correction-count") == "2 corrections"


def test_arrows_go_through_the_items_as_the_page_orders_them(open_report):
    page = open_report(REPORT)
    card(page, "0002.jpg").locator(".open").focus()
    page.keyboard.press("Enter")
    assert words(page, ".position") == "2 of 40"
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#detail-name") == "0004.jpg"
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    assert page.inner_text("#detail-name") == "0000.jpg"  # there is nothing before the first
    assert page.locator("text=Previous").is_disabled()
    page.click("text=Next")
    page.keyboard.press("Escape")
    settled(page)
    assert focused(page) == "0002.jpg"  # the focus is on the card of the item that was looked at last
