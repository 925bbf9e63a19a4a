"""docs/tutorials/embeddings.md runs as it stands, and what it says of its rows is so."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import is_printed, outputs_on, run_page
from piles import rows_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "embeddings.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
pytest.importorskip("pyarrow")
KNOWN = ("zero", "one", "two", "three", "four")


@pytest.fixture(scope="module")
def ran(own_cache, tmp_path_factory):
    """The page's blocks in order, in one folder; gives the folder and what each block printed."""
    folder = tmp_path_factory.mktemp("embeddings")
    return folder, run_page(PAGE, folder)


def test_the_blocks_print_what_the_page_shows(ran):
    text = "\n".join(ran[1])
    parts = outputs_on(PAGE)
    for part, within in zip(parts, (3, 3, 0, 3, 1), strict=True):
        assert is_printed(part, text, within), part


def test_rows_of_a_table_are_not_called_pictures(ran):
    assert "275/275 items" in ran[1][0]
    assert "pictures" not in ran[1][0]


def test_most_labels_are_right_and_the_share_is_close(ran):
    rows = rows_of(ran[0] / "out" / "labels.csv")
    labelled = [row for row in rows if row["label"] != "unknown"]
    assert len(rows) == 275
    assert sum(row["truth"] not in KNOWN for row in rows) == 152
    assert sum(row["label"] == row["truth"] for row in labelled) == pytest.approx(111, abs=3)
    assert list(rows[0])[-2:] == ["id", "truth"]


def test_the_rows_of_the_page_are_those_of_the_labels(ran):
    (block,) = re.findall(r"^```csv\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    rows = {row["id"]: row for row in rows_of(ran[0] / "out" / "labels.csv")}
    for shown in csv.DictReader(block.splitlines()):
        row = rows[shown["id"]]
        assert all(row[name] == shown[name] for name in ("label", "group", "truth"))
        assert all(
            float(row[name]) == pytest.approx(float(shown[name]), abs=0.03) for name in ("confidence", "p_unknown")
        )


def test_the_written_table_is_labelled_as_the_page_says(ran):
    words = re.search(r"`handful (label vectors\.parquet -o [\w-]+)`", PAGE.read_text("utf-8"))[1].split()
    done = subprocess.run([sys.executable, "-m", "handful", *words], cwd=ran[0], env=os.environ, capture_output=True)
    assert done.returncode == 0, done.stderr
    rows = rows_of(ran[0] / words[-1] / "labels.csv")
    said = re.search(r"sets (\d+) of (\d+) rows aside", PAGE.read_text("utf-8"))
    assert len(rows) == int(said[2])
    assert sum(row["label"] == "unknown" for row in rows) == pytest.approx(int(said[1]), abs=4)


def test_new_rows_are_labelled_about_as_well_as_the_page_says(ran):
    said, was = (re.search(r"(\d+)% are right", text)[1] for text in (PAGE.read_text("utf-8"), ran[1][-1]))
    assert int(was) == pytest.approx(int(said), abs=1)
