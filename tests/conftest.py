"""Shared fixtures. Tests that ask for `shared` need data that is not on a user's machine, and skip without it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from handful.features import Protocol, digits, draw

settings.register_profile("ci", derandomize=True, deadline=None)  # the same cases every time; explore at your desk
if os.environ.get("CI"):
    settings.load_profile("ci")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    if not (SHARED / "data").is_dir():
        pytest.skip(f"needs the reference data in {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def episodes():
    """Twenty tasks of five known and five unknown digits."""
    return draw(*digits(), Protocol(), seed=3, tasks=20)


@pytest.fixture(scope="session")
def own_cache(tmp_path_factory):
    """A cache folder of the tests' own, that of whoever runs them stays as it is."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("HANDFUL_CACHE", str(folder))
        yield folder


@pytest.fixture
def handful(own_cache, tmp_path, monkeypatch, capsys):
    """The command line in `tmp_path`, from its arguments to its exit code, without the second a process needs."""
    from handful.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["handful", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as left:
            code = left.code or 0
        return subprocess.CompletedProcess(sys.argv, code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory):
    """Commands on hostile files, each in a process of its own that is measured."""
    from hostile import Sandbox

    sandbox = Sandbox(tmp_path_factory.mktemp("hostile"))
    yield sandbox
    sandbox.close()


def random_task(rng, batch, shots, n_query, dimension, dtype=np.float64):
    """Features around class centres, [B, S, D], [B, S], [B, Q, D]; `shots` is a list, one number a class."""
    labels = np.repeat(np.arange(len(shots)), shots)
    centres = rng.normal(size=(batch, 2 * len(shots), dimension))
    support = centres[:, labels] + rng.normal(size=(batch, len(labels), dimension))
    kinds = rng.integers(0, 2 * len(shots), size=n_query)
    query = centres[:, kinds] + rng.normal(size=(batch, n_query, dimension))
    return support.astype(dtype), np.tile(labels, (batch, 1)), query.astype(dtype)


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium without a window, for the pages."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("needs Chromium")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
