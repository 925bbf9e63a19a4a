"""The whole story in a real browser: examples, run, none of these, run, check, undo, compare, export, download."""

import csv
import io
import re
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("python_multipart")

from workbench_pages import TEXT, add_class, chip, mixed, pick, run, starred, tile, told, until, write_pile

NAMES = ("zero", "one", "two")


@pytest.fixture
def pile(tmp_path):
    """A table of drawings beside the drawings, and the digit of each. Digits from 3 on are of no class here."""
    which, truth = mixed(known=22, unknown=8)
    names = [f"{n:04}.png" for n in range(len(which))]
    folder = tmp_path / "pile"
    folder.mkdir()
    return write_pile(folder, names, which), dict(zip(names, truth, strict=True))


def mistaken(page, truth):
    """Drawings of no class: first those that the run gave to a class."""
    items = page.evaluate("fetch('/api/v1/items?limit=1000').then(r => r.json())")["items"]
    return [one["name"] for one in sorted(items, key=lambda one: not one["decision"]) if truth[one["name"]] > 2]


def answer_ten(page, truth):
    """Answer the check truly by keys; give the answers that were wrong."""
    page.keyboard.press("c")
    wrong = 0
    for n in range(10):
        until(page, "document.querySelector('#checker .at')?.textContent ?? ''", f"{n + 1} of 10")
        name = page.inner_text("#checker .file-name")
        decided = page.inner_text("#checker .question bdi")
        right = NAMES[truth[name]] if truth[name] < 3 else "none of these"
        wrong += decided != right
        page.keyboard.press("y" if decided == right else "u" if truth[name] > 2 else str(truth[name] + 1))
    page.locator("#check-result", has_text="Checked 10 of").wait_for()
    return wrong


def test_from_five_examples_to_a_download(serve, visit, pile):
    table, truth = pile
    page = visit(serve(table), height=3200, expect=["409"])  # all drawings are in sight
    for digit, name in enumerate(NAMES):
        add_class(page, name)
        pick(page, [file for file, said in truth.items() if said == digit][:5])
        page.keyboard.press(str(digit + 1))
        starred(page, name, 5)
    run(page)
    first = told(page)["run"]
    assert page.inner_text("#trust-text") == first["trust"]["sentence"]
    assert "should be right" in first["trust"]["sentence"]
    assert page.locator("#outdated").is_hidden()

    # None of these
    page.click("[data-view=all]")
    pick(page, mistaken(page, truth)[:5])
    page.keyboard.press("u")
    starred(page, "none of these", 5)
    assert "none of these: 5 examples" in chip(page, "none of these").locator(".total").get_attribute("title")
    page.locator("#outdated", has_text="5 labels have changed since this run.").wait_for()
    page.keyboard.press("z")
    page.locator("#outdated").wait_for(state="hidden")
    page.keyboard.press("Shift+Z")
    page.locator("#outdated").get_by_role("button", name="Run again").click()
    until(page, "fetch('/api/v1/run').then(r => r.json()).then(run => run.id)", 2)
    page.locator("#outdated").wait_for(state="hidden")
    page.click("[data-view=map]")
    page.locator(".legend", has_text="none of these, by you").wait_for()
    second = told(page)["run"]

    # The check
    wrong = answer_ten(page, truth)
    trust = told(page)["run"]["trust"]
    assert (trust["is_measured"], trust["checked"]) == (True, 10)
    assert trust["sentence"].startswith("Checked 10 of")
    assert page.locator(".ranges li").count() == len(trust["classes"])
    page.keyboard.press("Escape")
    until(page, TEXT.format("trust-text"), trust["sentence"])
    assert told(page)["run"]["outdated"] == ""  # answers are no labels
    page.keyboard.press("z")
    page.locator("#trust-text", has_text="Checked 9 of").wait_for()
    page.keyboard.press("Shift+Z")
    until(page, TEXT.format("trust-text"), trust["sentence"])
    page.keyboard.press("c")
    page.get_by_role("button", name=re.compile("Use the answers as examples")).click()
    page.locator("#outdated", has_text="10 labels have changed").wait_for()
    assert wrong <= 5

    # Undo: the labels, the ten answers, and the run
    for _ in range(12):
        page.keyboard.press("z")
    until(page, "fetch('/api/v1/run').then(r => r.json()).then(run => run.id)", 1)
    until(page, TEXT.format("trust-text"), first["trust"]["sentence"])
    for _ in range(11):
        page.keyboard.press("Shift+Z")
    until(page, TEXT.format("trust-text"), trust["sentence"])
    assert told(page)["run"]["counts"] == second["counts"]

    # What moved between the runs
    page.click("[data-view=compare]")
    page.locator("#moved").wait_for()
    moved = told_moves(page)
    assert page.locator(".compare td button").count() == len(moved)
    for count in [move["count"] for move in moved[:1]]:
        page.locator(".compare td button").get_by_text(str(count), exact=True).first.click()
        page.locator(".lead h2", has_text="run 1 to run 2").wait_for()
        until(page, TEXT.format("found"), f"{count} picture{'s' * (count != 1)}")

    # Export and download
    page.keyboard.press("e")
    page.fill("#export-folder", str(table.parent / "exported"))
    page.get_by_role("dialog").get_by_role("button", name="Export").click()
    folder = Path(page.locator("#exported-to").inner_text())
    assert folder == (table.parent / "exported").resolve()
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == sorted(truth)
    page.get_by_role("dialog").get_by_role("button", name="Export").click()
    page.locator(".exported", has_text="not empty").wait_for()
    page.get_by_label("Sorted folders").check()
    with page.expect_download() as coming:
        page.click("#download")
    with zipfile.ZipFile(io.BytesIO(Path(coming.value.path()).read_bytes())) as archive:
        names = set(archive.namelist())
    assert names == {"labels.csv", *(f"sorted/{row['label']}/{row['path']}" for row in rows)}
    page.keyboard.press("Escape")
    assert tile(page, rows[0]["path"]).count() <= 1


def told_moves(page):
    return page.evaluate("fetch('/api/v1/compare?first=1&second=2').then(r => r.json())")["moves"]
