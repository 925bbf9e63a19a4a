"""Take the screenshots of the documents: a report, and the workbench along its lesson. ::

    python docs/screenshots.py            # a minute; writes docs/pictures/*.png
    python docs/screenshots.py --quick    # less, with fewer pictures; writes into a temporary folder

A headless Chromium opens a report that `handful label` wrote, and does on the page of `handful workbench` what
docs/tutorials/workbench.md tells the reader to do. The report shows crops of the photographs that are installed with
scikit-learn and matplotlib. Three regions of them have five examples each; crops of others are the unknowns.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from handful.features import practice

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from _script import Parser

DOCS = Path(__file__).resolve().parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
REGIONS = {  # of a photograph: left, top, right, bottom in pixels
    "temple": ("china", (60, 40, 370, 420)),
    "trees": ("china", (370, 270, 640, 427)),
    "petals": ("flower", (170, 85, 450, 365)),
    "leaves": ("flower", (0, 0, 165, 427)),
    "sky": ("china", (380, 0, 560, 200)),
    "uniform": ("portrait", (30, 380, 512, 600)),
}
SHOWN = ("temple", "trees", "petals")
SHOTS = 5
EXAMPLES = 3  # that the lesson clicks in each class
EXACT_COLOURS = 128  # of 256 in a palette
TIMEOUT_S = 120


def handful(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "handful", *map(str, arguments)]


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        sys.exit("Chromium is needed to take screenshots: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def take(page: Any, path: Path) -> None:
    """Write what the window shows, as a PNG with a palette: it takes a third of the bytes of one in full colour.

    Colours that many pixels share (text, lines, points) stay as they are. Photos share the rest of the palette.
    """
    page.evaluate("() => { const toast = document.getElementById('toast'); if (toast) toast.textContent = ''; }")
    page.wait_for_timeout(400)  # pictures and transitions come to rest
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    counted = sorted(shown.getcolors(shown.width * shown.height), reverse=True)
    exact = [colour for _, colour in counted[:EXACT_COLOURS]]
    mixed = shown.quantize(256 - len(exact), Image.Quantize.MEDIANCUT, kmeans=1).getpalette()
    palette = Image.new("P", (1, 1))
    palette.putpalette([value for colour in exact for value in colour] + mixed)
    shown.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"Written: {path} ({path.stat().st_size / 1000:.0f} kB)", flush=True)


# ---- the report


def photographs() -> dict[str, Image.Image]:
    """Those that are installed with scikit-learn and matplotlib."""
    from matplotlib.cbook import get_sample_data
    from sklearn.datasets import load_sample_images

    china, flower = map(Image.fromarray, load_sample_images().images)
    with get_sample_data("grace_hopper.jpg") as file:
        return {"china": china, "flower": flower, "portrait": Image.open(file).convert("RGB")}


def write_photos(folder: Path, items: int) -> None:
    """Make examples/ and pile/ of crops, `items` of each region in the pile."""
    rng, photos, pile = random.Random(0), photographs(), []
    for name, (photo, (left, top, right, bottom)) in REGIONS.items():
        (folder / "examples" / name).mkdir(parents=True) if name in SHOWN else None
        for number in range(items + SHOTS * (name in SHOWN)):
            side = rng.randrange(72, 120)
            x, y = rng.randrange(left, right - side + 1), rng.randrange(top, bottom - side + 1)
            crop = photos[photo].crop((x, y, x + side, y + side))
            if number < SHOTS and name in SHOWN:
                crop.save(folder / "examples" / name / f"{number}.png")
            else:
                pile.append(crop)
    rng.shuffle(pile)
    (folder / "pile").mkdir()
    for number, crop in enumerate(pile):
        crop.save(folder / "pile" / f"{number:03}.png")


def shoot_report(browser: Any, folder: Path, path: Path) -> None:
    """The first class of the report, below the map, beside the slider."""
    subprocess.run(handful("label", "examples", "pile", "-o", "out"), cwd=folder, check=True, stdout=subprocess.DEVNULL)
    window = {"width": 1600, "height": 1000}
    page = browser.new_page(viewport=window, device_scale_factor=0.8, color_scheme="light")
    page.goto((folder / "out" / "report.html").as_uri())
    page.locator("h2", has_text="Map").first.scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, document.querySelector('h2').getBoundingClientRect().top + scrollY - 24)")
    take(page, path)
    page.close()


# ---- the workbench


@contextmanager
def workbench(folder: Path) -> Iterator[str]:
    command = handful("workbench", folder, "--no-browser", "--json")
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())["url"]
    finally:
        server.terminate()
        server.wait()


def add_class(page: Any, name: str) -> None:
    page.keyboard.press("n")
    page.keyboard.insert_text(name)
    page.keyboard.press("Enter")
    page.locator(".chip bdi", has_text=name).wait_for()
    page.keyboard.press("Escape")


def click_tiles(page: Any, names: list[str]) -> None:
    page.keyboard.press("Escape")
    for name in names:
        page.locator(f"[role=option][title='{name}']:not([hidden])").click(modifiers=["Control"])


def project(page: Any) -> Any:
    return page.evaluate("fetch('/api/v1/project').then(answer => answer.json())")


def run(page: Any) -> list[str]:
    """Press r, wait for the new run, and return its two sentences."""
    before = project(page)["run"]
    page.keyboard.press("r")
    end = time.monotonic() + TIMEOUT_S
    while (now := project(page)["run"]) is None or (before and now["id"] == before["id"]):
        if time.monotonic() > end:
            raise TimeoutError(f"the run did not end: {project(page)['job']}")
        page.wait_for_timeout(100)
    page.locator("#said", has_text=now["sentence"]).wait_for()
    page.locator("#trust-text", has_text=now["trust"]["sentence"]).wait_for()
    return [now["sentence"], now["trust"]["sentence"]]


def check(page: Any, path: Path) -> str:
    """Answer yes ten times, and return what was measured."""
    page.keyboard.press("c")
    for number in range(1, 11):
        page.locator("#checker .at", has_text=f"{number} of 10").wait_for()
        if number == 1:
            take(page, path)
        page.keyboard.press("y")
    page.locator("#check-result", has_text="Checked 10 of").wait_for()
    page.keyboard.press("Escape")
    page.locator("#trust-text", has_text="Checked 10 of").wait_for()
    return str(page.inner_text("#trust-text"))


def follow_lesson(browser: Any, folder: Path, output: Path) -> tuple[list[str], Path]:
    """Do the steps of docs/tutorials/workbench.md; return what the page said, and where the export is."""
    practice("pictures", folder)
    with workbench(folder / "pile") as url:
        page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
        page.goto(url)
        page.wait_for_selector("html[data-ready]")
        page.locator(".tile").first.wait_for()
        for key, name in enumerate(("box", "disc"), start=1):
            add_class(page, name)
            click_tiles(page, [f"{name}{i}.png" for i in range(EXAMPLES)])
            if name == "disc":
                take(page, output / "workbench-examples.png")
            page.keyboard.press(str(key))
            page.locator(".chip .total", has_text=f"★{EXAMPLES}").nth(key - 1).wait_for()
        sentences = run(page)
        take(page, output / "workbench-run.png")
        page.click("[data-view=unsure]")
        page.locator("#lead", has_text="Least sure first").wait_for()
        page.locator(".tile").first.click()
        take(page, output / "workbench-unsure.png")
        page.keyboard.press("Enter")
        page.locator("#outdated", has_text="1 label has changed").wait_for()
        page.keyboard.press("g")
        page.get_by_placeholder("Name this group").first.fill("stripes")
        take(page, output / "workbench-groups.png")
        page.get_by_role("button", name="Make this a class").first.click()
        page.locator(".chip bdi", has_text="stripes").wait_for()
        page.click("[data-view=all]")
        sentences += run(page)
        sentences.append(check(page, output / "workbench-check.png"))
        page.keyboard.press("e")
        page.get_by_label("Sorted folders").check()
        take(page, output / "workbench-export.png")
        page.get_by_role("dialog").get_by_role("button", name="Export").click()
        exported = Path(page.locator("#exported-to").inner_text())
        page.close()
    return sentences, exported


def main() -> None:
    parser = Parser(__doc__, "a minute", DOCS / "pictures")
    parser.add_size("--crops", 26, 6, "crops of each region in the pile of the report")
    given = parser.parse()
    os.environ["COLUMNS"] = "100"
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        photos, shapes = Path(folder, "photos"), Path(folder, "shapes")
        photos.mkdir()
        write_photos(photos, given.crops)
        shoot_report(browser, photos, given.output / "report.png")
        print(*follow_lesson(browser, shapes, given.output)[0], sep="\n")


if __name__ == "__main__":
    main()
