"""docs/tutorials/paper-table.md prints the table that it shows; docs/reference/benchmark.md says what a run leaves."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
LESSON, FACTS = DOCS / "tutorials" / "paper-table.md", DOCS / "reference" / "benchmark.md"
if not LESSON.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)


def rows(text):
    """Method -> figures, of the first Markdown table with half-widths in a text."""
    table = re.search(r"^\| Method \|.*?(?:\n\n|\Z)", text, re.M | re.S)[0]
    cells = [[c.strip(" *") for c in line.strip("|\n").split("|")] for line in table.strip().splitlines()[2:]]
    return {name.strip(): [float(c.split("±")[0]) for c in figures] for name, _kind, *figures in cells}


def run(block, folder):
    done = subprocess.run([sys.executable, "-c", block], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def python_block(page, word):
    (block,) = (b for b in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S) if word in b)
    return block


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return folder, run(python_block(LESSON, "far_from_means"), folder)


def test_a_method_of_ones_own_takes_under_twenty_lines():
    block = python_block(LESSON, "far_from_means")
    assert sum(bool(line.strip()) for line in block.splitlines()) < 20


def test_the_lesson_prints_the_table_it_shows(ran):
    printed, shown = rows(ran[1]), rows(LESSON.read_text("utf-8"))
    assert "far_from_means" in printed
    assert printed.keys() == shown.keys()
    for name, figures in shown.items():
        assert printed[name] == pytest.approx(figures, abs=0.21), name  # another BLAS may turn a query or two


def test_the_lesson_leaves_the_files_of_a_run(ran):
    for suffix in ("md", "csv", "tex", "json", "png"):
        assert (ran[0] / "results-own" / f"balanced.{suffix}").stat().st_size > 0
    assert "against far_from_means" in (ran[0] / "results-own" / "balanced.md").read_text("utf-8")


def test_the_reference_shows_the_columns_of_blocks(tmp_path):
    printed = run(python_block(FACTS, "results/blocks"), tmp_path)
    assert f"```text\n{printed}```" in FACTS.read_text("utf-8")
