"""Tables as people really have them: read right, or refused by a sentence that says where the mistake is."""

import decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from handful.features import read

HEADER = "path,label,a,b,c"
ROWS = ["p0,x,4,0.5,0.25", "p1,y,0.5,4,0.25", "p2,,4,0.25,0.5"]
FEATURES = [[4, 0.5, 0.25], [0.5, 4, 0.25], [4, 0.25, 0.5]]
X = [[1.0, 2.0], [3.0, 4.5], [-1.0, 0.25]]
LABELS = ["hen", None, "owl"]


def text(folder, *lines):
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return folder / "t.csv"


def save(folder, columns, name="t.parquet"):
    parquet.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), folder / name)
    return folder / name


# ---- features


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
    for name in ("", "Unnamed: 0", " "):
        found = read(text(tmp_path, f"{name},f,label", "0,5,x", "1,6,y"))
        np.testing.assert_array_equal(found.features, [[5], [6]])
    assert read(text(tmp_path, "0,1,2,label", "5,6,7,x")).columns == ["0", "1", "2"]  # names that pandas gives


def test_columns_of_any_kind_of_number_are_read(tmp_path):
    columns = {
        "a": [decimal.Decimal("1.5"), decimal.Decimal("2.5")], "b": pa.array([1, 2], pa.uint8()), "c": [0.5, 0.25],
        "when": pa.array([1, 2], pa.timestamp("s")), "kind": pa.array(["u", "v"]).dictionary_encode(),
        "label": pa.array(["x", None]).dictionary_encode(),
    }  # fmt: skip
    found = read(save(tmp_path, columns))
    np.testing.assert_array_equal(found.features, [[1.5, 1, 0.5], [2.5, 2, 0.25]])
    assert found.columns == ["a", "b", "c"]
    assert found.label_names == ["x", None]


# ---- files as they are written


def test_a_csv_file_is_read_as_it_is_written(tmp_path):
    for content, features, labels, others in (
        ("f0,f1,label\n1,2,7\n3,4,8\n5,-6,\n", [[1, 2], [3, 4], [5, -6]], ["7", "8", None], {}),
        ('f0,label\n1.5,"two\nlines"\n2e-3,"a ""b"", c"\n', [[1.5], [0.002]], ["two\nlines", 'a "b", c'], {}),
        ("f0,f1,note\n 1.5 ,2,\n3,4 ,x\n", [[1.5, 2], [3, 4]], [None] * 2, {"note": [None, "x"]}),
        ("f0,ok,note\n1,true,NA\n2,false,\n", [[1], [2]], [None] * 2, {"ok": ["true", "false"], "note": ["NA", None]}),
        ("f,f\n1,2\n3,4\n", [[1, 2], [3, 4]], [None] * 2, {}),
        ("f,note,when\n1,good,2024-01-01\n2,,\n", [[1], [2]], [None] * 2,
         {"note": ["good", None], "when": ["2024-01-01", None]}),
        ("f0,f1\n1,12345678901234567890\n2,3\n", [[1, 12345678901234567890], [2, 3]], [None] * 2, {}),
        (",id,day,f0\n0,007,2024-01-02,.5\n1,008,2024-01-03,.25\n", [[0.5], [0.25]], [None] * 2,
         {"id": ["007", "008"], "day": ["2024-01-02", "2024-01-03"]}),
        ("\ufefff0,label\r\n1.5,a\r\n\r\n2.5,b\r\n", [[1.5], [2.5]], ["a", "b"], {}),
    ):  # fmt: skip
        (tmp_path / "t.csv").write_bytes(content.encode())
        found = read(tmp_path / "t.csv", warn=False)
        np.testing.assert_array_equal(found.features, features)
        assert found.label_names == labels
        assert {name: values.tolist() for name, values in found.others.items()} == others


# ---- labels


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


def test_labels_are_compared_as_people_see_them(tmp_path):
    for labels, names in (
        (pa.array([1, None, 2]), ["1", None, "2"]),
        (pa.array([1.0, None, float("nan")]), ["1", None, None]),
        (pa.array([1, -1, 2]), ["1", None, "2"]),
        (pa.array(["a", "", "b"]).dictionary_encode(), ["a", None, "b"]),
        (pa.nulls(3), [None] * 3),
        ([" x", "x ", "\u00a0x"], ["x"] * 3),
        (["e\u0301", "\u00e9", None], ["\u00e9", "\u00e9", None]),
        (["1", "1.0", "2"], ["1", "1", "2"]),
        (["1.0", "1.50", None], ["1.0", "1.50", None]),
        (["007", "7", None], ["007", "7", None]),
        (["x", "X", None], ["x", "X", None]),
        ([b"x", b"\xc3\xa9", None], ["x", "\u00e9", None]),
        ([True, False, None], ["True", "False", None]),
    ):
        assert read(save(tmp_path, {"embedding": X, "label": labels})).label_names == names


# ---- mistakes


MISTAKES = {
    "semicolons": ([line.replace(",", ";") for line in (HEADER, *ROWS)], "separated by ';'"),
    "tabs": ([line.replace(",", "\t") for line in (HEADER, *ROWS)], r"separated by '\\t'"),
    "a word among numbers": ([HEADER, *ROWS, "p3,,1,abc,2"], "column 'b' holds numbers, but 'abc' in row 3"),
    "decimal commas": ([HEADER, 'p0,x,"4,5","0,5",1', 'p1,y,"1,5","4,5",2'], "'a' has numbers with a comma, as '4,5'"),
    "one decimal comma": ([HEADER, *ROWS, 'p3,,1,"0,5",2'], "'b' has numbers with a comma"),
    "no number in a cell": ([HEADER, *ROWS, "p3,,1,,2"], "NaN at row 3, column 1"),
    "the word nan": ([HEADER, *ROWS, "p3,,1,nan,2"], "NaN at row 3, column 1"),
    "a short row": ([HEADER, *ROWS, "p3,,1"], "line 5 has 3 cells, but the first line has 5"),
    "a comment above": (["# mine", HEADER, *ROWS], "line 2 has 5 cells, but the first line has 1"),
    "a comment below": ([HEADER, *ROWS, "# mine"], "line 5 has 1 cells, but the first line has 5"),
    "blanks in the header": ([HEADER.replace(",", ", "), *ROWS], "a column ' label', but no 'label'"),
    "capitals in the header": ([HEADER.title(), *ROWS], "a column 'Label', but no 'label'"),
    "two columns of labels": (["label,label,a", "x,y,1"], "more than one column 'label'"),
    "no header": (ROWS, "the first line holds numbers"),
    "no header of whole numbers": (["3,3,4", "1,2,3"], "the first line holds numbers"),
    "a quote that is never closed": ([HEADER, *ROWS, 'p3,"x,1,2,3'], "line 5 cannot be read .a quote is never closed"),
    "a missing label": ([HEADER, *ROWS, "p3,nan,1,2,3"], "the label 'nan' of row 3 looks like a missing label"),
    "words in place of a list": (["embedding", '"[1, 2]"', "hen"], "not a JSON list of numbers in row 1"),
    "lists of lists": (["embedding", '"[[1], [2]]"'], "not a JSON list of numbers in row 0"),
    "no rows": (["f,label"], "the table has no rows"),
    "a label of Python": ([HEADER, *ROWS, "p3,None,1,2,3"], "the label 'None' of row 3"),
}


def test_a_mistake_is_said_with_the_file_and_the_place(tmp_path):
    for name, (lines, said) in MISTAKES.items():
        path = text(tmp_path, *lines)
        with pytest.raises(ValueError, match=said) as refused:
            read(path)
        assert str(refused.value).startswith(f"{str(path)!r}: "), name
        assert len(str(refused.value)) < 450, name


# ---- commands on such tables


def rows(n=6):
    rng = np.random.default_rng(0)
    return np.concatenate([4 * np.eye(4)[k] + rng.normal(scale=0.2, size=(n, 4)) for k in (0, 1, 2)])


def table(tmp_path, features, first="x", second="y", name="t.parquet"):
    labels = [first] * 3 + [None] * 3 + [second] * 3 + [None] * 9
    return save(tmp_path, {"embedding": list(features), "label": labels}, name)


def test_classes_that_differ_in_case_stay_two(handful, tmp_path):
    done = handful("label", table(tmp_path, rows(), "a", "A"), "-o", "out", "--outlier-share", "0.5")
    assert done.returncode == 0, done.stderr
    assert set(parquet.read_table("out/labels.parquet")["label"].to_pylist()) == {"a", "A", "unknown"}


def test_examples_that_are_all_the_same_are_refused(handful, tmp_path):
    done = handful("label", table(tmp_path, np.full((18, 4), 3.0)), "-o", "out")
    assert done.returncode == 1
    assert "all examples have the same features" in done.stderr


# ---- columns of two tables


def wide(folder, features, order, name, labels=None, names="abcd"):
    columns = {names[k]: features[:, k] for k in order}
    return save(folder, columns | ({} if labels is None else {"label": labels}), name)


def test_columns_in_another_order_are_found_by_their_names_and_others_are_refused(handful, tmp_path):
    features = rows()
    wide(tmp_path, features[[0, 1, 2, 6, 7, 8]], (0, 1, 2, 3), "examples.parquet", ["x"] * 3 + ["y"] * 3)
    found = {}
    for name, order in (("same", (0, 1, 2, 3)), ("other", (1, 0, 3, 2))):
        wide(tmp_path, features, order, "pile.parquet")
        done = handful("label", "examples.parquet", "pile.parquet", "-o", name)
        assert done.returncode == 0, done.stderr
        done = handful("predict", "same/model.safetensors", "pile.parquet", "-o", f"{name}-predicted.parquet")
        assert done.returncode == 0, done.stderr
        files = (f"{name}/labels.parquet", f"{name}-predicted.parquet")
        found[name] = [parquet.read_table(file)["label"].to_pylist() for file in files]
    assert found["other"] == found["same"]
    assert found["same"][0][:12] == ["x"] * 6 + ["y"] * 6
    wide(tmp_path, features, (0, 1, 2, 3), "pile.parquet", names="abce")
    for command in (
        ["label", "examples.parquet", "pile.parquet", "-o", "refused"],
        ["predict", "same/model.safetensors", "pile.parquet"],
    ):
        done = handful(*command)
        assert done.returncode == 1
        assert "'pile.parquet': its columns of numbers are not those of the examples, as 'e'" in done.stderr
