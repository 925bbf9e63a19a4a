"""docs/benchmark.md runs as it stands, as a script, and prints the table that it shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "benchmark.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)


def rows(text):
    """Method -> figures, of the first Markdown table with half-widths in a text."""
    table = re.search(r"^\| Method \|.*?(?:\n\n|\Z)", text, re.M | re.S)[0]
    cells = [[c.strip(" *") for c in line.strip("|\n").split("|")] for line in table.strip().splitlines()[2:]]
    return {name.strip(): [float(c.split("±")[0]) for c in figures] for name, _kind, *figures in cells}


@pytest.fixture(scope="module")
def blocks():
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)


@pytest.fixture(scope="module")
def ran(blocks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "page.py").write_text("\n".join(blocks), "utf-8")
    done = subprocess.run([sys.executable, "page.py"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_it_takes_under_twenty_lines(blocks):
    assert sum(bool(line.strip()) for block in blocks[:2] for line in block.splitlines()) < 20


def test_the_page_prints_the_table_it_shows(ran):
    printed, shown = rows(ran[1]), rows(PAGE.read_text("utf-8"))
    assert "far_from_means" in printed
    assert printed.keys() == shown.keys()
    for name, figures in shown.items():
        assert printed[name] == pytest.approx(figures, abs=0.21), name  # another BLAS may turn a query or two


def test_the_page_leaves_what_it_says(ran):
    folder, printed = ran
    for suffix in ("md", "csv", "tex", "json", "png"):
        assert (folder / "results" / f"balanced.{suffix}").stat().st_size > 0
    assert "against far_from_means" in (folder / "results" / "balanced.md").read_text("utf-8")
    assert "1000 rows of ['seed', 'task', 'accuracy', 'auroc', 'aupr', 'prec@0.9']" in printed
    assert "(1, 150)" in printed
