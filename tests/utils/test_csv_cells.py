"""Tables that a spreadsheet opens without running anything, and that are read back exactly."""

import csv
import re

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from handful.utils.columns import ColumnTable, masked_numbers
from handful.utils.csv_file import escape, read_table, unescape, write_table

STARTS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
FORMULAS = [
    '=HYPERLINK("http://evil.example","cat")', "=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\t=1+1", "\r=1+1",
    "'=1+1", "''=1+1", "-", "-a.jpg", "+49 170", "-1e", "\uff1d1+1", "\n=1",
]  # fmt: skip
HARMLESS = ["", "cat", "don't", "'", "''", "'quoted'", "a=b", "1-1", "-5", "+5", "-0.25", "-1e-3", " =1", "007"]
TEXT = st.text(st.one_of(st.sampled_from("'=+-@\t\r\n1,;\" \x00"), st.characters(exclude_categories=["Cs"])))


@given(TEXT)
@example("'-5")
@example("-5")
def test_every_text_is_read_back_exactly(text):
    assert unescape(escape(text)) == text


@given(TEXT)
def test_no_cell_begins_like_a_formula_unless_it_is_a_number(text):
    cell = escape(text)
    assert cell[:1] not in STARTS or cell == "" or float(cell) == float(text)
    assert escape(text) == text or escape(text) == f"'{text}"


def test_formulas_get_an_apostrophe_and_other_text_stays_as_it_is():
    for text in FORMULAS:
        assert escape(text) == f"'{text}"
    for text in HARMLESS:
        assert escape(text) == text


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(TEXT, TEXT, st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=5))
def test_a_table_is_read_back_exactly(tmp_path_factory, rows):
    paths, labels, numbers = map(list, zip(*rows, strict=True))
    path = tmp_path_factory.mktemp("csv") / "labels.csv"
    table = ColumnTable(
        {"path": paths, "label": labels, "outlier_score": np.array(numbers), "p_=1+1": np.array(numbers)}
    )
    write_table(table, path)
    again = read_table(path)
    assert again["path"].tolist() == paths
    assert again["label"].tolist() == labels
    assert again["outlier_score"].tolist() == numbers
    assert list(again) == list(table)


def test_numbers_are_not_escaped(tmp_path):
    write_table(ColumnTable({"=a": [-1.5, None], "k": masked_numbers([-3, None], int)}), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == '"\'=a","k"\n-1.5,-3\n,\n'


def formula_cells(path):
    """The cells that a spreadsheet would compute."""
    with open(path, newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.reader(file) for cell in row if cell and cell[:1] in STARTS]
    return [cell for cell in cells if not re.fullmatch(r"[-+][\d.]+(e-?\d+)?", cell)]


CLASSES = ["=HYPERLINK(A1)", "@sum", "-x"]
PATHS = ["+a.jpg", "'=b.jpg", "-1.jpg", "c.jpg"]


def write_pile(path):
    rng = np.random.default_rng(0)
    centres = 4 * np.eye(8)
    features = np.concatenate([centres[k] + rng.normal(scale=0.1, size=(8, 8)) for k in (0, 1, 2, 3)])
    labels = [name if i < 4 else None for name in (*CLASSES, None) for i in range(8)]
    names = [f"{PATHS[i % 4][:-4]}{i}.jpg" for i in range(32)]
    columns = {"path": names, "label": labels, "embedding": list(features)}
    parquet.write_table(pa.table(columns), path)


def test_labels_hold_no_formula_and_are_read_back(handful, tmp_path):
    write_pile(tmp_path / "pile.parquet")
    done = handful("label", "pile.parquet", "-o", "out")
    assert done.returncode == 0, done.stderr
    exact = parquet.read_table(tmp_path / "out" / "labels.parquet")
    assert set(CLASSES) < set(exact["label"].to_pylist())
    assert formula_cells(tmp_path / "out" / "labels.csv") == []
    again = read_table(tmp_path / "out" / "labels.csv")
    for name in ("path", "label", "closest", "nearest_1", "nearest_2", "nearest_3"):
        assert again[name].tolist() == exact[name].to_pylist()
    np.testing.assert_allclose(again["p_-x"], exact["p_-x"].to_numpy())
    done = handful("predict", "out/model.safetensors", "pile.parquet", "-o", "new.csv")
    assert done.returncode == 0, done.stderr
    assert formula_cells(tmp_path / "new.csv") == []
    assert read_table(tmp_path / "new.csv")["path"].tolist() == [f"{PATHS[i % 4][:-4]}{i}.jpg" for i in range(32)]


def test_tables_of_benchmarks_hold_no_formula(tmp_path):
    from handful.bench.tables import TITLES, Row, Table, write_csv

    figures = dict.fromkeys(TITLES, -1.0)
    table = Table("=title", "@5", [Row("+knn", "-kind", figures, figures)], "")
    (tmp_path / "t.csv").write_text(write_csv([table]))
    assert formula_cells(tmp_path / "t.csv") == []
    assert "-1.0" in (tmp_path / "t.csv").read_text()


def test_a_table_of_somebody_else_keeps_its_apostrophes(tmp_path):
    from handful.features import read

    arrow_csv.write_csv(pa.table({"path": ["'=a", "b"], "label": ["'-x", None], "f": [1.0, 2.0]}), tmp_path / "t.csv")
    table = read(tmp_path / "t.csv")
    assert table.names == ["'=a", "b"]
    assert table.label_names == ["'-x", None]
