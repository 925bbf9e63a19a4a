"""The page that compares handful with other tools says what was measured, and names where handful loses."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "comparison.md"
RESULTS = [ROOT / "benchmarks" / "results" / f"{name}.md" for name in ("peers", "peers_setfit")]
if not PAGE.exists() or not all(path.exists() for path in RESULTS):
    pytest.skip("the documents are not part of this copy", allow_module_level=True)
TOOLS = ("PyOD", "easyfsl", "SetFit", "cleanlab", "FiftyOne", "BERTopic", "semantic-router")


def rows_of(text):
    """The first cell of each row of a table, and its other cells."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def test_every_figure_of_the_page_is_one_of_the_results():
    figures = set(re.findall(r"\d+\.\d+", PAGE.read_text("utf-8")))
    results = "\n".join(path.read_text("utf-8") for path in RESULTS)
    measured = set(re.findall(r"\d+\.\d+", results))
    assert len(figures) > 20
    assert not figures - measured


def test_every_row_of_figures_is_that_of_the_method():
    results = [row for path in RESULTS for row in rows_of(path.read_text("utf-8"))]
    checked = 0
    for name, *cells in rows_of(PAGE.read_text("utf-8")):
        of_method = {cell for row in results if row[0] == name for cell in row[1:]}
        figures = [cell for cell in cells if re.search(r"\d\.\d", cell)]
        if of_method and figures:
            assert set(figures) <= of_method, name
            checked += 1
    assert checked >= 5


def test_every_tool_has_a_row_and_some_sentences_and_the_page_says_where_handful_loses():
    text = PAGE.read_text("utf-8")
    for tool in TOOLS:
        assert any(tool in row[0] and len(row) == 4 for row in rows_of(text)), tool
        assert re.search(rf"^\*\*{tool}\*\*", text, re.MULTILINE), tool
    assert "## Where handful loses" in text
