"""What the suite says when something that tests need is not installed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")


def run(*options, **variables):
    """The browser tests of the report, collected as on a machine with these variables."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "browser", *options]
    environment = os.environ | variables
    return subprocess.run(
        [*command, "tests/pages/test_report.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
def test_without_chromium_the_number_of_skipped_tests_and_the_remedy_are_printed():
    done = run(PATH="")
    assert done.returncode == 0, done.stdout
    count = re.search(r"(\d+) skipped", done.stdout)[1]
    assert int(count) > 20
    assert f"{count} tests were skipped because Chromium is not installed: apt-get install chromium" in done.stdout


@pytest.mark.slow
def test_what_is_required_and_missing_stops_the_run():
    done = run("--require", "browser", PATH="")
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
    assert {"numba", "onnxruntime", "pyod", "fastapi", "ray", "matplotlib", "pytest"} <= {
        *packages("most"),
        *packages("dev"),
    }
    assert re.search(r"^EXTRAS \?= most$", (ROOT / "Makefile").read_text("utf-8"), re.M)
