"""Shared fixtures, and what tests need beyond the plain install.

Tests that ask for `shared` need data that is not on a user's machine, and skip without it. A test marked `torch`, `ray`
or `browser` (which asking for the fixture of that name does) skips where that is not installed, and the last lines of
a run say how many did and what to install. `--require torch,browser` makes that an error at the start instead.
"""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

if "PYTEST_XDIST_WORKER" in os.environ:  # before NumPy: BLAS threads of several workers wait for one another
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from handful.features import Protocol, digits, draw

settings.register_profile("same", derandomize=True, deadline=None)  # the same cases every time
settings.register_profile("explore", deadline=None)  # pytest --hypothesis-profile explore
settings.load_profile("same")

SHARED = Path(__file__).resolve().parents[2] / "shared"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NEEDS = {  # by marker: whether it is there, and how to get it
    "torch": (find_spec("torch"), "torch: make test EXTRAS=all"),
    "ray": (find_spec("ray"), "Ray: pip install 'handful[scale]'"),
    "browser": (CHROMIUM and find_spec("playwright"), "Chromium: apt-get install chromium"),
}

# Files whose tests share no expensive fixture, or whose cases take long: each test goes to the next free process
BY_TEST = {"test_benchmark_scripts", "test_blocks", "test_examples", "test_tutorials"}


def pytest_addoption(parser):
    names = ", ".join(NEEDS)
    parser.addoption("--require", default="", help=f"fail instead of skipping where one of these is missing: {names}")


def pytest_configure(config):
    for name in filter(None, config.getoption("--require").split(",")):
        there, what = NEEDS[name]
        if not there:
            raise pytest.UsageError(f"--require {name} needs {what}")


def pytest_collection_modifyitems(items):
    for item in items:
        if "networks" in item.path.parts:  # examples in its docstrings
            item.add_marker("torch")
        for name, (there, what) in NEEDS.items():
            if name in item.fixturenames:
                item.add_marker(name)
            if not there and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=f"needs {what}"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file stays in one process, which makes its servers and models once; all files that use `nodes` share one, too.

    Files begin in alphabetical order, so that those with the cluster, which take longest, do not come last.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            if Path(file).stem in BY_TEST:
                return nodeid
            return "cluster" if _uses_cluster(config.rootpath / file) else file

    config.option.loadscopereorder = False
    return ByFile(config, log)


@cache
def _uses_cluster(file):
    return file.suffix == ".py" and re.search(r"def test_\w+\([^)]*\bnodes\b", file.read_text("utf-8")) is not None


@pytest.fixture(scope="session")
def torch():
    """torch itself; a test that asks for it is marked `torch`."""
    return pytest.importorskip("torch")


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


@pytest.fixture(scope="session")
def ray(own_cache):
    """A Ray cluster of two nodes on this machine, which this process is connected to."""
    from clusters import two_nodes

    with two_nodes() as nodes:
        yield nodes


@pytest.fixture
def nodes(ray):
    """The same cluster with both nodes alive."""
    ray.revive()
    return ray


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


@pytest.fixture
def refuses(own_cache):
    """`refuses("info", path)` is the sentence with which `handful info path` ends."""
    import forks

    def run(*arguments):
        done = forks.run(*arguments)
        assert done.returncode in (1, 2), done
        assert "Traceback" not in done.stderr, done.stderr
        assert done.stderr.strip()
        return done.stderr

    return run


@pytest.fixture(scope="session")
def service():
    """`handful serve` for all tests that only ask it."""
    from servers import Server

    started = Server(command="serve")
    yield started
    started.close()


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium without a window, for the pages. It runs an event loop, which other files must not meet."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        browser = p.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--in-process-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def only_page(browser):
    return browser.new_page()


@pytest.fixture
def page(only_page):
    """A page that all tests of a file open their files in, one after the other: a new one takes a second."""
    only_page.mouse.move(0, 0)
    yield only_page
    only_page.goto("about:blank")
