"""Draw the pictures of how-to/notebooks.md: a result and its groups, as a notebook shows them. ::

    python docs/notebook_picture.py            # some seconds; writes docs/pictures/notebook-*.png
    python docs/notebook_picture.py --quick    # a small pile; writes into a temporary folder

The html is opened in Chromium, as a notebook would show it, and photographed.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_digits

import handful
from handful.features import Protocol, digits, draw

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from _script import Parser

DOCS = Path(__file__).resolve().parent
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
WIDTH = 960
COLOURS = 256  # of the file, to keep it small


def solved(queries: int) -> tuple[handful.Result, np.ndarray]:
    """A pile of digits, labelled from five examples of four of them, and its drawings [n, 8, 8]."""
    episode = draw(*digits(), Protocol(ways=4, queries=queries, outlier_queries=2 * queries // 3), seed=0, tasks=[0])
    task = episode.task[0]
    result = handful.solve(task.support[0], NAMES[task.classes][task.labels[0]], task.query[0])
    return result, load_digits().images[episode.query_items[0]]


def photographed(page_file: Path, scheme: str) -> Image.Image:
    """A page as Chromium shows it."""
    browser_file = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_file, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(viewport={"width": WIDTH, "height": 100}, color_scheme=scheme).new_page()
        page.goto(page_file.as_uri())
        picture = Image.open(io.BytesIO(page.screenshot(full_page=True)))
        browser.close()
    return picture


def main() -> None:
    parser = Parser(__doc__, "some seconds", DOCS / "pictures")
    parser.add_size("--queries", 30, 6, "items of each known class in the pile")
    options = parser.parse()
    result, drawings = solved(options.queries)
    with TemporaryDirectory() as folder:
        views = {"result": (result.view(pictures=drawings), "light"), "groups": (result.groups.view(drawings), "dark")}
        for name, (view, scheme) in views.items():
            file = options.output / f"notebook-{name}.png"
            picture = photographed(view.save(Path(folder) / f"{name}.html"), scheme)
            picture.convert("RGB").quantize(COLOURS).save(file, optimize=True)
            print(f"Written: {file}")


if __name__ == "__main__":
    main()
