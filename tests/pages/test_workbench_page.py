"""The workbench's page, used in a headless Chromium against the real server: name, label, run, correct, export."""

import io
import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("python_multipart")

from workbench_pages import (
    TEXT,
    add_class,
    chip,
    mixed,
    pick,
    project_on,
    run,
    settled,
    starred,
    tile,
    to_the_first_tile,
    until,
)
from workbenches import contents, opened, write_pile
from workbenches import run as run_job

NAMES = ["zero", "one", "two", "three", "four"]
NASTY = [
    "<img src=x onerror='pwned = 1'>.png",
    "<script>pwned = 2<\u2215script>.png",
    "\"quoted\" 'name' & ${css}.png",
    "\u202egpj.exe.png",
    "=1+1,2.png",
]
REFUSED = "Failed to load resource"  # what Chromium logs of any answer that is a refusal


def labels_in(folder):
    """{name: class} as the database holds them, and the names of classes."""
    now = contents(folder / "project.sqlite")
    classes = {number: name for number, (name, _) in now["classes"].items()} | {0: "unknown"}
    names = {row[0]: row[2] for row in now["items"]}
    return {names[item]: classes[code] for item, code in now["labels"].items()}, set(classes.values()) - {"unknown"}


# ---- The whole way --------------------------------------------------------------------------------------------------


@pytest.fixture
def pile(tmp_path):
    which, truth = mixed()
    names = [f"{n:04}.png" for n in range(len(which))]
    return write_pile(tmp_path, names, which), dict(zip(names, truth, strict=True))


def label_five_each(page, truth):
    """By number keys, by a click on the class, by a drag onto it."""
    for digit, name in enumerate(NAMES):
        add_class(page, name)
        examples = [file for file, one in truth.items() if one == digit][:5]
        pick(page, examples)
        assert page.inner_text("#picked b") == "5 selected"
        if digit == 3:
            chip(page, name).locator(".name").click()
        elif digit == 4:
            tile(page, examples[0]).drag_to(chip(page, name))
        else:
            page.keyboard.press(str(digit + 1))
        starred(page, name, 5)


def answer_ten(page, truth):
    """Answer the check truly by keys."""
    page.keyboard.press("c")
    for n in range(10):
        until(page, "document.querySelector('#checker .at')?.textContent ?? ''", f"{n + 1} of 10")
        digit = truth[page.inner_text("#checker .file-name")]
        right = NAMES[digit] if digit < 5 else "none of these"
        decided = page.inner_text("#checker .question bdi")
        page.keyboard.press("y" if decided == right else "u" if digit > 4 else str(digit + 1))
    page.locator("#check-result", has_text="Checked 10 of").wait_for()


def test_from_an_unlabelled_pile_to_a_download(serve, visit, pile):
    table, truth = pile
    kept = table.with_suffix(".workbench")
    page = visit(serve(table), expect=["409"])
    assert "token" not in page.url
    assert "Name what you want to find" in page.inner_text(".coach")
    label_five_each(page, truth)
    assert "3 of 3" in page.inner_text(".coach")

    # Run, and correct what is least sure
    labelled, unknown = map(int, re.match(r"([\d,]+) labelled, ([\d,]+) unknown", run(page)).groups())
    assert labelled + unknown == len(truth) - 25
    until(page, TEXT.format("split"), f"{labelled} labelled, {unknown} unknown")
    assert page.locator(".coach").count() == 0
    first = project_on(page)["run"]
    assert page.inner_text("#trust-text") == first["trust"]["sentence"]
    assert "should be right" in first["trust"]["sentence"]
    assert page.locator("#outdated").is_hidden()
    page.click("[data-view=unknown]")
    until(page, TEXT.format("found"), f"{unknown} pictures")
    page.click("[data-view=unsure]")
    page.locator(".lead h2", has_text="Least sure").wait_for()
    page.locator(".tile.decided").first.wait_for()
    corrected = {}
    for _ in range(3):  # each leaves the view, the next moves up
        to_the_first_tile(page)
        name = page.locator(".tile.cursor").get_attribute("title")
        digit = truth[name]
        page.keyboard.press("u" if digit > 4 else str(digit + 1))
        corrected[name] = "unknown" if digit > 4 else NAMES[digit]
        until(page, f"document.querySelector('.tile.cursor')?.title !== {json.dumps(name)}")
    page.locator("#outdated", has_text="3 labels have changed since this run.").wait_for()
    page.locator("#outdated").get_by_role("button", name="Run again").click()
    until(page, "fetch('/api/v1/run').then(r => r.json()).then(run => run.id)", 2)
    page.locator("#outdated").wait_for(state="hidden")
    assert labels_in(kept)[0].items() >= corrected.items()

    # A group becomes a class, and no class again
    page.keyboard.press("g")
    group = page.locator(".group").first
    group.get_by_label(re.compile("^Name for")).fill("something else")
    group.get_by_label("How many of them become examples").fill("5")
    group.get_by_role("button", name="Make this a class").click()
    starred(page, "something else", 5)
    assert "something else" in labels_in(kept)[1]
    assert "something else" in page.get_attribute("#undo", "aria-label")
    page.locator("#views [data-view=all]").click()
    page.keyboard.press("z")
    chip(page, "something else").wait_for(state="detached")
    assert "something else" in page.get_attribute("#redo", "aria-label")

    # The check, and its answers as examples
    answer_ten(page, truth)
    trust = project_on(page)["run"]["trust"]
    assert (trust["is_measured"], trust["checked"]) == (True, 10)
    assert page.locator(".ranges li").count() == len(trust["classes"])
    page.get_by_role("button", name=re.compile("Use the answers as examples")).click()
    page.locator("#outdated", has_text="10 labels have changed").wait_for()
    until(page, TEXT.format("trust-text"), trust["sentence"])
    page.keyboard.press("Escape")

    # What moved between the runs
    page.click("[data-view=compare]")
    page.locator(".compare td button").first.click()
    page.locator(".lead h2", has_text="run 1 to run 2").wait_for()

    # Export and download
    page.keyboard.press("e")
    page.get_by_label("Parquet").check()
    page.fill("#export-folder", str(table.parent / "exported"))
    page.get_by_role("dialog").get_by_role("button", name="Export").click()
    folder = Path(page.locator("#exported-to").inner_text())
    assert folder == (table.parent / "exported").resolve()
    assert set(page.locator(".exported li").all_inner_texts()) == {"labels.csv", "labels.parquet"}
    page.get_by_role("dialog").get_by_role("button", name="Export").click()
    page.locator(".exported", has_text="not empty").wait_for()
    page.get_by_label("Sorted folders").check()
    with page.expect_download() as coming:
        page.click("#download")
    with zipfile.ZipFile(io.BytesIO(Path(coming.value.path()).read_bytes())) as archive:
        assert {name.rpartition("/")[2] for name in archive.namelist() if name.startswith("sorted/")} == set(truth)
    page.keyboard.press("Escape")


# ---- Keys, selection, views -----------------------------------------------------------------------------------------


def chosen(page):
    settled(page)
    return sorted(page.locator(".tile.chosen").evaluate_all("nodes => nodes.map(n => n.title)"))


def test_items_are_selected_by_mouse_and_keys_and_labels_are_cleared_undone_and_done_again(serve, visit, pile):
    page = visit(serve(pile[0]))
    tile(page, "0002.png").click()
    assert chosen(page) == ["0002.png"]
    tile(page, "0005.png").click(modifiers=["Shift"])
    assert chosen(page) == [f"{n:04}.png" for n in range(2, 6)]
    tile(page, "0003.png").click(modifiers=["Control"])
    assert chosen(page) == ["0002.png", "0004.png", "0005.png"]
    page.keyboard.press("Escape")
    assert chosen(page) == []
    for key in ("Home", "Space", "ArrowRight", "ArrowRight", "Space"):
        page.keyboard.press(key)
    assert chosen(page) == ["0000.png", "0002.png"]
    page.keyboard.press("Escape")
    page.keyboard.press("Shift+ArrowRight")
    assert chosen(page) == ["0002.png", "0003.png"]
    page.keyboard.press("a")
    assert page.inner_text("#picked b") == "250 selected"
    page.keyboard.press("End")
    settled(page)
    assert page.locator(".tile.cursor").get_attribute("aria-posinset") == "250"
    assert page.locator(".tile").count() < 120  # only those in sight are in the page
    page.keyboard.press("?")
    assert "remove your label" in page.inner_text("#dialog")
    page.keyboard.press("Escape")
    assert not page.locator("#dialog").is_visible()
    page.keyboard.press("/")
    page.keyboard.type("014")
    until(page, TEXT.format("found"), "11 pictures")  # 0014, 0140..0149

    page.goto(page.url.split("#")[0])
    page.reload()
    page.wait_for_selector("html[data-ready]")
    add_class(page, "zero")
    tile(page, "0000.png").click()
    page.keyboard.press("1")
    for key, label in [("", "zero"), ("0", ""), ("z", "zero"), ("Shift+Z", ""), ("u", "unknown")]:
        if key:
            page.keyboard.press(key)
        until(page, "document.querySelector('[title=\"0000.png\"] .tag bdi').textContent", label)
    for key in "zzz":  # as fast as they come: unknown, and both before it; the class stays
        page.keyboard.press(key)
    until(page, TEXT.format("undo"), "\u21b6Undo: class zero added")


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """A pile whose project had its first run, with five examples of each class."""
    folder = tmp_path_factory.mktemp("solved")
    which, truth = mixed()
    names = [f"{n:04}.png" for n in range(len(which))]
    project, client = opened(write_pile(folder, names, which))
    ids = {one["name"]: one["id"] for one in client.get("/items?limit=1000").json()["items"]}
    for digit, name in enumerate(NAMES):
        number = client.post("/classes", json={"name": name}).json()["id"]
        items = [ids[file] for file, said in zip(names, truth, strict=True) if said == digit][:5]
        assert client.post("/labels", json={"items": items, "class": number}).json() == {"changed": 5}
    assert run_job(client, project)["run"] is not None
    project.close()
    return folder


@pytest.fixture
def ran(serve, visit, solved, tmp_path):
    """A page of a copy of it."""

    def open_page(**how):
        shutil.copytree(solved, tmp_path / "solved")
        return visit(serve(tmp_path / "solved" / "pile.parquet"), **how)

    return open_page


def test_the_threshold_is_moved_by_keys_and_points_of_the_map_are_selected(ran):
    page = ran()
    before = project_on(page)["run"]["counts"]["unknown"]
    slider = page.locator("#threshold")
    slider.focus()
    page.keyboard.press("Home")
    until(
        page, f"Number((/(\\d+) unknown/.exec(document.getElementById('split').textContent) ?? [0, -1])[1]) > {before}"
    )
    assert project_on(page)["run"]["counts"]["unknown"] > before
    page.keyboard.press("End")
    until(page, "/ 0 unknown/.test(document.getElementById('split').textContent)")

    page.keyboard.press("m")
    page.wait_for_selector("#points[data-points]")
    assert int(page.get_attribute("#points", "data-points")) >= 225
    box = page.locator("#points").bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    for x, y in [(0.5, 0.004), (0.995, 0.004), (0.995, 0.5), (0.995, 0.995), (0.5, 0.995), (0.004, 0.995)]:
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    page.mouse.up()
    settled(page)
    assert page.inner_text("#picked b") == f"{page.get_attribute('#points', 'data-points')} selected"
    page.keyboard.press("Escape")
    page.select_option("#choose", label=page.locator("#choose option").nth(1).inner_text())
    named = int(re.search(r"\((\d+)\)", page.locator("#choose option").nth(1).inner_text())[1])
    assert page.inner_text("#picked b") == f"{named} selected"
    page.keyboard.press("2")  # all of zero are one now
    starred(page, "one", named + 5)


def test_errors_are_told_in_one_place_and_nothing_that_was_typed_or_labelled_is_lost(serve, visit, pile):
    page = visit(serve(pile[0]), expect=[REFUSED])
    add_class(page, "zero")
    page.fill("#new-class", "Zero")
    page.keyboard.press("Enter")
    page.locator("#error:not([hidden])").wait_for()
    assert "already" in page.inner_text("#error")
    assert page.get_attribute("#error", "role") == "alert"
    until(page, "document.getElementById('new-class').value", "Zero")
    page.get_by_role("button", name="Close this message").click()
    assert not page.locator("#error").is_visible()
    page.click("#run")
    page.locator("#error:not([hidden])").wait_for()
    page.get_by_role("button", name="Close this message").click()

    page.route("**/api/v1/labels", lambda route: route.abort(), times=1)
    tile(page, "0000.png").click()
    page.keyboard.press("1")
    page.get_by_role("button", name="Try again").wait_for()
    until(page, "document.querySelector('.tile.labelled') === null")  # what is shown is what was kept
    assert labels_in(pile[0].with_suffix(".workbench"))[0] == {}
    page.get_by_role("button", name="Try again").click()
    starred(page, "zero", 1)
    assert labels_in(pile[0].with_suffix(".workbench"))[0] == {"0000.png": "zero"}
    assert not page.locator("#error").is_visible()


# ---- Names, widths, colours -----------------------------------------------------------------------------------------


def test_hostile_names_are_text_wherever_they_appear(serve, visit, tmp_path):
    which, _ = mixed()
    names = [*NASTY, *(f"{n:04}.png" for n in range(len(which) - len(NASTY)))]
    page = visit(serve(write_pile(tmp_path, names, which)))
    classes = ["<img src=x onerror=pwned=3>", "</script><script>pwned=4</script>", "${x}'\"&amp;"]
    for n, name in enumerate(classes):
        add_class(page, name)
        tile(page, f"{n:04}.png").click()
        page.keyboard.press(str(n + 1))
        starred(page, name, 1)
    page.keyboard.press("/")
    page.keyboard.insert_text("<img")
    page.locator("#found", has_text="1 picture").wait_for()
    page.keyboard.press("Enter")
    page.keyboard.press("Home")
    page.keyboard.press("d")
    page.locator(".detail h2").wait_for()
    assert page.inner_text(".detail h2") == NASTY[0]
    page.keyboard.press("1")
    starred(page, classes[0], 2)
    page.click(".chip .total >> nth=0")
    page.locator(".lead h2", has_text=classes[0]).wait_for()
    assert page.evaluate("typeof pwned") == "undefined"
    assert page.locator("script").count() == 1


def overflowing(page):
    return page.evaluate("document.documentElement.scrollWidth > innerWidth || document.body.scrollWidth > innerWidth")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_view_fits_the_window(ran, width, scheme):
    page = ran(scheme=scheme, width=width, height=844)
    views = "all unlabelled examples unsure ask changed unknown groups map compare class:1"
    for view in views.split():
        page.evaluate("view => { location.hash = new URLSearchParams({view}).toString(); }", view)
        page.wait_for_timeout(150)
        assert not overflowing(page), view
        assert page.locator(".lead h2").is_visible(), view
    page.keyboard.press("c")
    page.locator("#checker .question").wait_for()
    assert not overflowing(page)
    for button in page.locator("#checker button").all():
        box = button.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["y"] + box["height"] <= 844
    page.keyboard.press("Escape")
    page.locator("#checker").wait_for(state="hidden")
    page.evaluate("location.hash = 'view=all'")
    page.locator(".tile.labelled").first.wait_for()
    tile(page, "0000.png").click()
    page.keyboard.press("d")
    page.locator(".detail h2").wait_for()
    assert not overflowing(page)
    for button in page.locator("header button:visible").all():
        box = button.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", paper))) < 60) == (scheme == "dark")
