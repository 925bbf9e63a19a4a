"""Fixtures of the tests of pages: the workbench as a process of its own, and a browser that logs no error."""

import json
import os

import pytest
from forks import Forked


@pytest.fixture
def serve(tmp_path):
    """Start the workbench on a table as its own process; gives the address to open."""
    running = []

    def start(opened):
        command = ["workbench", str(opened), "--no-browser", "--port", "0", "--json"]
        quiet = os.environ | {"OMP_NUM_THREADS": "1", "HANDFUL_CACHE": str(tmp_path / "cache")}
        log = (tmp_path / "server.log").open("a")
        running.append((Forked(*command, stderr=log, env=quiet), log))
        line = running[-1][0].stdout.readline()
        assert line, (tmp_path / "server.log").read_text()
        return json.loads(line)["url"]

    start.running = running
    yield start
    for process, log in running:
        process.terminate()
        process.wait(10)
        process.stdout.close()
        log.close()


@pytest.fixture
def visit(browser):
    """Open the page. Whatever the test does: no error is logged that it does not expect, no request leaves."""
    contexts, problems, allowed = [], [], set()

    def open_page(url, width=1280, height=900, scheme="light", expect=()):
        allowed.update(expect)
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: (problems.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda r: r.url.startswith(url.split("?")[0]) or problems.append(r.url))
        page.goto(url)
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [text for text in problems if not any(part in text for part in allowed)] == []
