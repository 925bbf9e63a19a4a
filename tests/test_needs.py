"""What the suite says when something that tests need is not installed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")


def run(*options):
    """The browser tests of a page, collected as on a machine without Chromium."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "browser", *options]
    page = "tests/pages/test_workbench_page.py"
    return subprocess.run(
        [*command, page], cwd=ROOT, env=os.environ | {"PATH": ""}, capture_output=True, text=True, timeout=120
    )


def test_what_is_missing_is_printed_or_stops_the_run():
    done = run()
    assert done.returncode == 0, done.stdout
    count = re.search(r"(\d+) skipped", done.stdout)[1]
    assert f"{count} tests were skipped because Chromium is not installed: apt-get install chromium" in done.stdout
    done = run("--require", "browser")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "Chromium is required and not installed: apt-get install chromium" in done.stderr
    assert "there is nothing called 'nonsense' to require" in run("--require", "nonsense").stderr


def test_the_default_environment_of_the_tests_has_no_torch():
    extras = dict(re.findall(r"^([\w-]+) = \[(.*)\]", PYPROJECT, re.M))

    def packages(extra):
        for requirement in re.findall(r'"([^"]+)"', extras[extra]):
            if own := re.fullmatch(r"handful\[(.+)\]", requirement):
                for part in own[1].split(","):
                    yield from packages(part)
            else:
                yield re.match(r"[\w.-]+", requirement)[0]

    assert "torch" in [*packages("all")]
    assert "torch" not in [*packages("most"), *packages("dev")]
    assert {"onnxruntime", "pyod", "fastapi", "ray", "matplotlib", "pytest"} <= {
        *packages("most"),
        *packages("dev"),
    }
    assert re.search(r"^EXTRAS \?= most$", (ROOT / "Makefile").read_text("utf-8"), re.M)
