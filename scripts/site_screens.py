"""Open the built site from disk in Chromium, as a reader would, and take screenshots. ::

    make site && python scripts/site_screens.py screens/            # writes screens/index-1280-light.png, ...
    python scripts/site_screens.py screens/ --pages index.html      # some pages

It ends with 1 if a page asks for anything outside of the site, writes an error to the console, or is wider than its
window.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("index.html", "tutorials/pictures.html", "reference/python/solving.html", "reference/methods.html")
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")


@contextmanager
def reader(browser: Any, width: int, scheme: str) -> Iterator[tuple[Any, list[str]]]:
    """A page of a browser, and a list that fills with what went wrong."""
    problems: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    within = ("file:", "data:", "blob:")
    page.on("request", lambda one: one.url.startswith(within) or problems.append(f"asks for {one.url}"))
    page.on("console", lambda one: problems.append(f"console: {one.text}") if one.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    try:
        yield page, problems
    finally:
        context.close()


def visit(page: Any, address: Path) -> None:
    page.goto(address.as_uri())
    page.wait_for_load_state("load")


def overflow(page: Any) -> int:
    """By how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def search(page: Any, words: str) -> list[str]:
    """The titles that the search of the site finds."""
    page.locator("input.md-search__input").press_sequentially(words)
    page.wait_for_selector("li.md-search-result__item", timeout=20_000)
    return page.locator("li.md-search-result__item h1, li.md-search-result__item h2").all_inner_texts()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--site", type=Path, default=ROOT / "site")
    parser.add_argument("--pages", nargs="+", default=PAGES)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    from playwright.sync_api import sync_playwright

    failed = False
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for width, scheme in product(WIDTHS, SCHEMES):
            with reader(browser, width, scheme) as (page, problems):
                for name in options.pages:
                    visit(page, (options.site / name).resolve())
                    if (wider := overflow(page)) > 0:
                        problems.append(f"{name} is {wider} pixels wider than {width}")
                    stem = Path(name).with_suffix("").as_posix().replace("/", "-")
                    page.screenshot(path=options.output / f"{stem}-{width}-{scheme}.png")
                print(f"{width} pixels, {scheme}: {len(options.pages)} pages", *problems, sep="\n  ")
                failed |= bool(problems)
        browser.close()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
