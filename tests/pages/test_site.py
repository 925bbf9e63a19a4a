"""The site builds without a warning, its links lead somewhere, and it works from disk without a request."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from reports import listeners

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "mkdocs.yml").exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
pytest.importorskip("mkdocs", reason="pip install 'handful[docs]'")
PAGES = ("index.html", "tutorials/pictures.html", "reference/python/solving.html", "reference/methods.html")
READS = ("mkdocs.yml", "docs/site*", "docs/iframe-worker.js")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make site` builds it; strict, so a link or a page of the navigation that is not there ends it."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--config-file", ROOT / "mkdocs.yml", "--site-dir", folder]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr + done.stdout
    return folder


def test_nothing_is_loaded_from_elsewhere(site):
    pages = [path for path in site.rglob("*.html") if path.name != "404.html"]
    assert len(pages) > 80
    for path in pages:
        text = path.read_text("utf-8")
        loaded = re.findall(r'<(?:script|img|iframe|source)[^>]*\bsrc="(https?:[^"]*)"', text)
        loaded += re.findall(r'<link[^>]*\brel="(?:stylesheet|preconnect|icon)"[^>]*\bhref="(https?:[^"]*)"', text)
        assert loaded == [], path


def test_equations_are_shown_as_equations(site):
    text = (site / "explanation" / "eol.html").read_text("utf-8")
    assert text.count("<math ") > 10
    assert "arithmatex" not in text
    assert r"\mathrm" not in text


def test_it_opens_from_disk_without_a_request_fits_the_window_and_can_be_searched(site, browser):
    for width, scheme in ((1280, "light"), (390, "dark")):
        problems = []
        page = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme).new_page()
        own = listeners(problems, lambda asked: asked.startswith(("file:", "data:", "blob:")))
        for event, listener in own.items():
            page.on(event, listener)
        for name in PAGES:
            page.goto((site / name).as_uri())
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(float, re.findall(r"[\d.]+", ground)[:3])) < 380) == (scheme == "dark"), ground
        assert problems == []
        page.context.close()
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.locator("input.md-search__input").press_sequentially("threshold")
    page.wait_for_selector("li.md-search-result__item", timeout=20_000)
    titles = page.locator("li.md-search-result__item h1, li.md-search-result__item h2").all_inner_texts()
    assert any("threshold" in title.lower() for title in titles), titles
