"""The site builds without a warning, its links lead somewhere, and it works from disk without a request."""

import html
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "mkdocs.yml").exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
pytest.importorskip("mkdocs", reason="pip install 'handful[docs]'")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make site` builds it; strict, so a warning ends it."""
    folder = tmp_path_factory.mktemp("site")
    words = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--config-file",
        ROOT / "mkdocs.yml",
        "--site-dir",
        folder,
    ]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr + done.stdout
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: path.read_text("utf-8") for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_link_and_picture_leads_to_a_file_and_a_heading(site, pages):
    ids = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    broken, count = [], 0
    for path, text in pages.items():
        for link in re.findall(r'\b(?:href|src)="([^"]*)"', text):
            link = unquote(html.unescape(link))
            if not link or re.match(r"(?:https?|mailto|data):", link):
                continue
            count += 1
            name, _, heading = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if not target.is_file() or (heading and target in ids and heading not in ids[target]):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []
    assert count > 5000


def test_a_link_to_nowhere_would_end_the_build(tmp_path, site):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A\n\n[nowhere](b.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: a\nstrict: true\n")
    words = [sys.executable, "-m", "mkdocs", "build", "--config-file", tmp_path / "mkdocs.yml"]
    assert subprocess.run(words, capture_output=True).returncode != 0


def test_nothing_is_loaded_from_elsewhere(pages):
    for path, text in pages.items():
        loaded = re.findall(r'<(?:script|img|iframe|source)[^>]*\bsrc="(https?:[^"]*)"', text)
        loaded += re.findall(r'<link[^>]*\brel="(?:stylesheet|preconnect|icon)"[^>]*\bhref="(https?:[^"]*)"', text)
        assert loaded == [], path


def test_every_page_is_reached_from_the_navigation_or_another_page(site, pages):
    reached, left = set(), [site / "index.html"]
    while left:
        path = left.pop()
        if path in reached or path not in pages:
            continue
        reached.add(path)
        for link in re.findall(r'<a [^>]*href="([^"#]*)', pages[path]):
            if link and ":" not in link:
                left.append((path.parent / unquote(link)).resolve())
    assert sorted(str(path.relative_to(site)) for path in set(pages) - reached) == []


def test_equations_are_shown_as_equations(site):
    text = (site / "explanation" / "eol.html").read_text("utf-8")
    assert text.count("<math ") > 10
    assert "arithmatex" not in text
    assert r"\mathrm" not in text


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_from_disk_without_a_request_and_fits_the_window(site, browser, width, scheme):
    import site_screens

    with site_screens.reader(browser, width, scheme) as (page, problems):
        for name in site_screens.PAGES:
            site_screens.visit(page, site / name)
            assert site_screens.overflow(page) <= 0, name
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(float, re.findall(r"[\d.]+", ground)[:3])) < 380) == (scheme == "dark"), ground
        assert problems == []


def test_the_search_works_from_disk(site, browser):
    import site_screens

    with site_screens.reader(browser, 1280, "light") as (page, problems):
        site_screens.visit(page, site / "index.html")
        found = site_screens.search(page, "threshold")
        assert any("threshold" in title.lower() for title in found), found
        assert problems == []
