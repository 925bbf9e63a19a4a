"""Fixtures of the tests of pages: the workbench as a process of its own, and a browser that logs no error."""

from pathlib import Path

import pytest
from reports import listeners, reload
from servers import Server

from handful.report.html_page import write


@pytest.fixture
def serve(own_cache):
    """Start the workbench on a table as its own process; gives the address to open."""
    running = []

    def start(opened):
        running.append(Server(opened, "--port", "0"))
        return running[-1].facts["url"]

    start.running = running
    yield start
    for server in running:
        server.close()


@pytest.fixture
def visit(browser):
    """Open the workbench. Whatever the test does: no error is logged that it does not expect, no request leaves."""
    contexts, problems, allowed = [], [], set()

    def open_page(url, width=1280, height=900, scheme="light", expect=()):
        allowed.update(expect)
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        for event, listener in listeners(problems, lambda asked: asked.startswith(url.split("?")[0])).items():
            page.on(event, listener)
        page.goto(url)
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [text for text in problems if not any(part in text for part in allowed)] == []


@pytest.fixture
def open_report(page, tmp_path):
    """Open a report from disk. Whatever the test does: no request leaves, no error is logged, nothing pops up."""
    problems = []
    own = listeners(problems, lambda asked: asked.startswith(("file:", "data:", "blob:")))

    def open_page(report, width=1280, height=900, scheme="light"):
        path = report if isinstance(report, Path) else write(tmp_path / "report.html", report)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        page.goto(path.as_uri())
        page.evaluate("localStorage.clear()")
        reload(page)
        return page

    for event, listener in own.items():
        page.on(event, listener)
    yield open_page
    assert page.evaluate("typeof pwned") == "undefined"  # and what was logged before is known by now
    for event, listener in own.items():
        page.remove_listener(event, listener)
    assert problems == []
