"""What tests of the workbench's page share: a pile of drawings, and what a person does on the page."""

import json
import re
import time

import numpy as np

from handful.features import digits

TEXT = "document.getElementById('{}').textContent.trim()"


def mixed(known=30, unknown=20):
    """Drawings of 0..4 and 5..9; the first 25 are 0 1 2 3 4 0 1 2 ..., the rest in any order: places, digits."""
    _, labels = digits()
    labels = np.asarray(labels)
    places = [np.flatnonzero(labels == digit)[: known if digit < 5 else unknown] for digit in range(10)]
    first = np.stack([part[:5] for part in places[:5]], axis=1).ravel()
    rest = np.setdiff1d(np.concatenate(places), first)
    which = np.concatenate([first, np.random.default_rng(0).permutation(rest)])
    return which, labels[which].tolist()


def to_the_first_tile(page):
    """Press Home until the first tile has the cursor: while the view is read again there is none."""
    for _ in range(100):
        page.locator("#grid").focus()
        page.keyboard.press("Home")
        settled(page)
        if page.locator(".tile.cursor").count():
            return
        page.wait_for_timeout(100)


def settled(page):
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def until(page, what, wanted=None, seconds=20):
    """Ask until it is so. (Playwright's own way is an eval in the page, which the page forbids.)"""
    end = time.monotonic() + seconds
    while not (page.evaluate(what) == wanted if wanted is not None else page.evaluate(what)):
        assert time.monotonic() < end, (what, page.evaluate(what), wanted)
        page.wait_for_timeout(50)


def add_class(page, name):
    page.keyboard.press("n")
    page.keyboard.insert_text(name)
    page.keyboard.press("Enter")
    page.locator(".chip bdi", has_text=re.compile(f"^{re.escape(name)}$")).wait_for()
    page.keyboard.press("Escape")


def tile(page, name):
    return page.locator(f"xpath=//*[@role='option' and @title={json.dumps(name)} and not(@hidden)]")


def chip(page, name):
    return page.locator(".chip", has=page.locator("bdi", has_text=re.compile(f"^{re.escape(name)}$")))


def pick(page, names):
    page.keyboard.press("Escape")
    for name in names:
        tile(page, name).click(modifiers=["Control"])


def starred(page, name, n):
    chip(page, name).locator(".total", has_text=f"★{n}").wait_for()


def run(page):
    """Press r and wait for the sentence of a new run."""
    before = project_on(page)["run"]
    page.keyboard.press("r")
    end = time.monotonic() + 60
    while (now := project_on(page)["run"]) is None or (before and now["id"] == before["id"]):
        assert time.monotonic() < end, project_on(page)["job"]
        page.wait_for_timeout(100)
    until(page, TEXT.format("said"), now["sentence"])
    return now["sentence"]


def project_on(page):
    return page.evaluate("fetch('/api/v1/project').then(r => r.json())")
