"""Tables of which some rows have a label: what is read of them, and what is refused."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from handful.features import read

X = [[1.0, 2.0], [3.0, 4.5], [-1.0, 0.25]]
LABELS = ["hen", None, "owl"]


def save(folder, columns, name="t.parquet"):
    parquet.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), folder / name)
    return folder / name


def text(folder, *lines):
    (folder / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "t.csv"


def test_a_parquet_of_lists(tmp_path):
    for kind in (
        pa.list_(pa.float64()),
        pa.large_list(pa.float32()),
        pa.list_(pa.float32(), 2),
        pa.list_(pa.float16()),
    ):
        values = pa.array([[np.float16(v) for v in row] for row in X]) if "half" in str(kind) else pa.array(X, kind)
        found = read(save(tmp_path, {"embedding": values, "label": LABELS, "path": ["a", "", "c"]}))
        np.testing.assert_array_equal(found.features, X)
        assert found.label_names == LABELS
        assert found.names == ["a", "row 1", "c"]


def test_a_parquet_in_several_pieces(tmp_path):
    parts = [pa.table({"embedding": X[i : i + 1], "label": pa.array(LABELS[i : i + 1], pa.string())}) for i in range(3)]
    found = read(save(tmp_path, pa.concat_tables(parts)))
    np.testing.assert_array_equal(found.features, X)
    assert found.paths is None


def test_columns_of_numbers_are_features_but_for_what_stands_beside_them(tmp_path):
    path = text(
        tmp_path, "path,f1,label,f2,split,note", "a.png,1,hen,2,1,x", "b.png,3,,4.5,2,y", "c.png,-1,owl,.25,3,z"
    )
    found = read(path)
    np.testing.assert_array_equal(found.features, X)
    assert found.label_names == LABELS
    assert found.names == ["a.png", "b.png", "c.png"]


def test_the_index_that_pandas_writes_is_no_feature(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"f1": [1.0, 3.0, -1.0], "f2": [2.0, 4.5, 0.25], "label": LABELS}, index=[7, 5, 6])
    frame.to_parquet(tmp_path / "t.parquet")
    np.testing.assert_array_equal(read(tmp_path / "t.parquet").features, X)


def test_a_column_of_json_lists(tmp_path):
    lines = [f'"{json.dumps(row)}",{label or ""}' for row, label in zip(X, LABELS, strict=True)]
    found = read(text(tmp_path, "embedding,label", *lines))
    np.testing.assert_array_equal(found.features, X)
    assert found.label_names == LABELS
    same = read(save(tmp_path, {"embedding": [json.dumps(row) for row in X], "label": LABELS}))
    np.testing.assert_array_equal(same.features, X)


def test_labels_of_a_csv_are_text_as_written_and_blank_where_blank(tmp_path):
    for written, labels in (
        (["hen", "", "  ", " owl "], ["hen", None, None, "owl"]),
        (["1", "", "2", "10"], ["1", None, "2", "10"]),
        (["1.0", "", "2.0", "10.0"], ["1", None, "2", "10"]),  # how pandas writes integers with blanks
        (["1.0", "", "2.5", "x"], ["1.0", None, "2.5", "x"]),
        (["007", "", "7", "1e3"], ["007", None, "7", "1e3"]),
        (["1", "-1", "2", "-1"], ["1", None, "2", None]),  # scikit-learn's unlabelled
        (["", "", "", ""], [None] * 4),
        (["true", "NA", "2020-01-01", "ünï"], ["true", "NA", "2020-01-01", "ünï"]),
    ):
        lines = [f"{i},{label}" for i, label in enumerate(written)]
        assert read(text(tmp_path, "f,label", *lines)).label_names == labels


def test_labels_of_a_parquet_may_be_numbers_too(tmp_path):
    for column, labels in (
        (pa.array([1, None, 2]), ["1", None, "2"]),
        (pa.array([1.0, None, 2.0]), ["1", None, "2"]),
        (pa.array([1.0, float("nan"), 2.0]), ["1", None, "2"]),
        (pa.array([1, -1, 2]), ["1", None, "2"]),
        (pa.array(["a", "", "b"]).dictionary_encode(), ["a", None, "b"]),
        (pa.nulls(3), [None] * 3),
    ):
        assert read(save(tmp_path, {"embedding": X, "label": column})).label_names == labels


def test_without_a_column_of_labels_no_row_has_one(tmp_path):
    assert read(text(tmp_path, "f,kind", "1,a", "2,b")).label_names == [None, None]
    assert read(text(tmp_path, "f,kind", "1,a", "2,b"), label="kind").label_names == ["a", "b"]


def test_a_name_with_a_newline_comes_back_as_it_was(tmp_path):
    assert read(text(tmp_path, "path,f", '"a\nb",1', '"c ""d""",2')).names == ["a\nb", 'c "d"']


BAD = {
    "NaN": (lambda d: save(d, {"embedding": [[1.0, 2.0], [3.0, float("nan")]]}), "NaN at row 1, column 1"),
    "infinity": (lambda d: save(d, {"embedding": [[1.0, 2.0], [3.0, float("inf")]]}), "infinity at row 1, column 1"),
    "a blank number": (lambda d: text(d, "f,g", "1,2", "3,"), "NaN at row 1, column 1"),
    "a missing number": (lambda d: save(d, {"embedding": [[1.0, 2.0], [None, 1.0]]}), "no number in row 1, position 0"),
    "a missing row": (lambda d: save(d, {"embedding": [[1.0, 2.0], None]}), "no embedding in row 1"),
    "unequal rows": (lambda d: save(d, {"embedding": [[1.0, 2.0], [1.0]]}), "2 numbers in row 0 but 1 in row 1"),
    "unequal JSON": (lambda d: text(d, "embedding", '"[1, 2]"', '"[1]"'), "2 numbers in row 0 but 1 in row 1"),
    "words": (lambda d: text(d, "embedding", '"[1, 2]"', "hen"), "not a JSON list of numbers in row 1"),
    "lists of lists": (lambda d: text(d, "embedding", '"[[1], [2]]"'), "not a JSON list of numbers in row 0"),
    "deep lists": (lambda d: text(d, "embedding", "[" * 100_000), "not a JSON list of numbers in row 0"),
    "lists of words": (lambda d: save(d, {"embedding": [["a"], ["b"]]}), "a list of numbers in each row is needed"),
    "numbers, not lists": (lambda d: save(d, {"embedding": [1.0, 2.0]}), "a list of numbers in each row is needed"),
    "empty lists": (lambda d: save(d, {"embedding": pa.array([[], []], pa.list_(pa.float32()))}), "no features"),
    "no numbers": (lambda d: text(d, "a,label", "x,hen"), "no column 'embedding' and no column of numbers, only 'a'"),
    "no rows": (lambda d: text(d, "f,label"), "the table has no rows"),
    "labels twice": (lambda d: text(d, "f,label,label", "1,a,b"), "more than one column 'label'"),
    "ragged lines": (lambda d: text(d, "f,label", "1,a", "1,2,3"), "not a csv file, or is damaged"),
}


def test_what_cannot_be_read_is_told_with_the_file_and_the_place(tmp_path):
    for what in BAD:
        make, sentence = BAD[what]
        path = make(tmp_path)
        with pytest.raises(ValueError, match=sentence) as refused:
            read(path)
        assert str(refused.value).startswith(f"{str(path)!r}: ")


def test_columns_of_one_name_are_all_features(tmp_path):
    np.testing.assert_array_equal(read(text(tmp_path, "f,f,label", "1,2,a")).features, [[1, 2]])


def test_damaged_files_are_refused_as_such(tmp_path):
    for name in ("t.parquet", "t.csv"):
        for content in (b"", b"PAR1", b"\x00\xff" * 50):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(ValueError, match=name):
                read(tmp_path / name)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "t.txt").touch()
    with pytest.raises(
        ValueError, match="suffix '.txt': features are read from .parquet, .npz, .npy, .safetensors, .csv"
    ):
        read(tmp_path / "t.txt")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read(tmp_path / "none.csv")
