"""Which columns are features: never an id in silence. Other columns are carried along to every output."""

import json
import warnings

import numpy as np
import pyarrow as pa
import pytest
from piles import assert_refused
from pyarrow import csv, parquet

from handful.features import FeatureTable, Protocol, concatenate, draw, read, write
from handful.project.items import in_order

FORMATS = ["t.parquet", "t.npz", "t.safetensors", "t.csv"]


def rows(n=6, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([4 * np.eye(4)[k] + rng.normal(scale=0.2, size=(n, 4)) for k in (0, 1, 2)])


@pytest.fixture
def wide(tmp_path):
    """Eighteen rows of four features, an id, a date and a text; three rows of two classes have a label."""
    features = rows()
    labels = ["x"] * 3 + [None] * 3 + ["y"] * 3 + [None] * 9
    columns = {"id": np.arange(100, 118), "date": [f"2024-01-{i + 1:02d}" for i in range(18)]}
    columns |= {f"f{k}": features[:, k] for k in range(4)} | {"text": [f"note {i}" for i in range(18)], "label": labels}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    csv.write_csv(pa.table(columns), tmp_path / "t.csv")
    return tmp_path


def test_an_id_is_no_feature_and_it_is_said(wide):
    for name in ("t.parquet", "t.csv"):
        with pytest.warns(UserWarning, match="look like ids, row numbers or labels: id"):
            table = read(wide / name)
        assert list(table.columns) == ["f0", "f1", "f2", "f3"]
        np.testing.assert_allclose(table.features, rows())
        assert list(table.set_aside) == ["id"]
        assert table.others["id"].tolist() == list(range(100, 118))
        assert table.others["text"].tolist() == [f"note {i}" for i in range(18)]
        assert [str(date) for date in table.others["date"]] == [f"2024-01-{i + 1:02d}" for i in range(18)]
        assert table.about_columns.startswith("features: 4 columns f0 ... f3; carried along: ")


def test_columns_that_look_like_something_else(tmp_path):
    for name, values, is_feature in (
        ("id", [3, 1, 2, 9, 5, 5], False),
        ("image_id", [3, 1, 2, 9, 5, 5], False),
        ("imageId", [3, 1, 2, 9, 5, 5], False),
        ("index", [3, 1, 2, 9, 5, 5], False),
        ("row", [3.0, 1.0, 2.0, 9.0, 5.0, 5.0], False),
        ("n", [0, 1, 2, 3, 4, 5], False),
        ("n", [1, 2, 3, 4, 5, 6], False),
        ("n", [1, 2, 3, 4, 5, 7], True),
        ("n", [0.5, 1.5, 2.5, 3.5, 4.5, 5.5], True),
        ("width", [3, 1, 2, 9, 5, 5], True),
        ("avoid", [3, 1, 2, 9, 5, 5], True),
        ("refractive_index", [1.5, 1.3, 1.2, 1.1, 1.6, 1.4], True),
        ("target", [0, 1, 0, 1, 0, 1], False),  # there is no column `label`
    ):
        parquet.write_table(pa.table({"f": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], name: values}), tmp_path / "t.parquet")
        table = read(tmp_path / "t.parquet", warn=False)
        assert (name in table.columns) == is_feature
        assert (name in table.set_aside) == (name in table.others) == (not is_feature)


def test_a_table_without_sure_features_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"id": range(9), "label": ["a", "b", "c"] * 3}), path)
    with pytest.raises(ValueError, match=r"the only columns of numbers, 'id', look like .* columns= \(--columns"):
        read(path)
    parquet.write_table(pa.table({"clip": [[1.0, 2.0], [3.0, 4.0]], "species": [3, 4]}), path)
    with pytest.raises(ValueError, match=r"'clip' holds lists of numbers, name the right one with embedding="):
        read(path)
    assert read(path, embedding="clip").others["species"].tolist() == [3, 4]


def test_columns_can_be_named_and_left_out(wide):
    for path in (wide / "t.parquet", wide / "t.csv"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            named = read(path, columns=["f3", "f0"])
            assert list(named.columns) == ["f3", "f0"]
            np.testing.assert_allclose(named.features, rows()[:, [3, 0]])
            assert {"f1", "f2", "id"} <= set(named.others)
            assert list(read(path, columns="f*", exclude="f1").columns) == ["f0", "f2", "f3"]
            assert list(read(path, columns=["id", "f0"]).columns) == ["id", "f0"]  # as it was asked for
        assert "f2" in read(path, exclude=["f2"], warn=False).others
        with pytest.raises(ValueError, match=r"no column 'g\*', only .* name the right ones with columns="):
            read(path, columns=["g*"])
        with pytest.raises(ValueError, match="column 'text' holds .*: a feature is a number"):
            read(path, columns=["f0", "text"])


def test_other_columns_names_of_features_and_blank_labels_come_back(tmp_path):
    for name in FORMATS:
        others = {"id": np.array([7, 8, 9]), "size": np.array([0.5, 1, 2])}
        others["text"] = np.array(["a", None, "c d"], object)
        for labels in (["hen", None, "owl"], [4, -1, 2], None):
            columns = None if name == "t.csv" else ["f0", "f1"]  # a CSV has no place for them beside numbers
            original = FeatureTable(np.eye(3, 2), labels, ["a", "", "c"], columns=columns, others=others)
            table = read(write(original, tmp_path / name), warn=False)
            np.testing.assert_array_equal(table.features, original.features)
            assert table.label_names == original.label_names
            assert labels is None or table.labels.tolist() == original.labels.tolist()
            assert table.names == ["a", "row 1", "c"]
            assert (None if table.columns is None else list(table.columns)) == columns
            assert table.others["id"].tolist() == [7, 8, 9]
            assert [value or None for value in table.others["text"].tolist()] == ["a", None, "c d"]
            assert [float(value) for value in table.others["size"]] == [0.5, 1, 2]


def test_a_csv_of_features_alone_has_a_column_for_each(tmp_path):
    table = FeatureTable(np.array([[0.1, 2], [3, 4]], np.float32), ["a", "b"], others={"text": np.array(["u", "v"])})
    path = write(table, tmp_path / "t.csv")
    assert path.read_text().splitlines()[0] == '"label","text","f0","f1"'
    np.testing.assert_array_equal(read(path).features.astype(np.float32), table.features)
    with pytest.raises(ValueError, match="'=1\\+1' in row 0, which spreadsheets take for a formula: write .parquet"):
        write(FeatureTable(np.eye(1), ["=1+1"]), tmp_path / "u.csv")
    with pytest.raises(ValueError, match="no place for base_mean"):
        write(table.replace(base_mean=[1.0, 2.0]), tmp_path / "u.csv")


def test_tasks_are_drawn_from_labelled_rows_alone():
    features, protocol = np.random.default_rng(0).normal(size=(60, 3)), Protocol(2, 1, 3, 1, 3)
    named = np.array([*np.repeat(["a", "b", "c"], 15), *[None] * 15], object)
    for labels in (np.repeat([0, 1, 2, -1], 15), named):
        assert draw(features, labels, protocol, tasks=20).support_items.max() < 45
    with pytest.raises(ValueError, match="no item has a label"):
        draw(features, np.full(60, -1), protocol)
    table = FeatureTable(features, named)
    assert len(table.labelled()) == 45
    with pytest.raises(ValueError, match="features has no row with a label"):
        table.take(np.arange(45, 60)).labelled()


def test_rows_are_taken_and_put_together_with_all_that_belongs_to_them(tmp_path):
    others = {"id": np.arange(4)}
    table = FeatureTable(np.eye(4), ["a", None, "b", "a"], others=others, hashes=list("wxyz"), columns=list("pqrs"))
    part = table.take([2, 0])
    assert (part.names, part.label_names, part.hashes) == (["row 2", "row 0"], ["b", "a"], ["y", "w"])
    assert part.others["id"].tolist() == [2, 0]
    both = concatenate([part, table.take([3])])
    assert (both.names, both.label_names, both.hashes) == (["row 2", "row 0", "row 3"], ["b", "a", "a"], list("ywz"))
    assert both.others["id"].tolist() == [2, 0, 3]
    turned = in_order(table.replace(base_mean=[1.0, 2, 3, 4]), list("srqp"), tmp_path)
    assert (list(turned.columns), turned.base_mean.tolist()) == (list("srqp"), [4, 3, 2, 1])
    np.testing.assert_array_equal(turned.features, np.eye(4)[:, ::-1])


# ---- the command line


def test_label_predict_and_promote_carry_other_columns_along(wide, handful):
    done = handful("label", "t.parquet", "-o", "out", "--outlier-share", "0.5")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "Features: 4 columns f0 ... f3; carried along: " in said
    assert "look like ids, row numbers or labels: id" in said
    pile = [i for i in range(18) if i not in (0, 1, 2, 6, 7, 8)]
    assert handful("promote", "out", "1=z", "-o", "out2").returncode == 0
    assert handful("predict", "out/model.safetensors", "t.csv", "-o", "new.parquet").returncode == 0
    for file, places in (("out/labels.parquet", pile), ("out2/labels.parquet", pile), ("new.parquet", range(18))):
        labels = parquet.read_table(file)
        assert labels["id"].to_pylist() == [100 + i for i in places]
        assert labels["text"].to_pylist() == [f"note {i}" for i in places]
    assert csv.read_csv("out/labels.csv")["id"].to_pylist() == [100 + i for i in pile]
    with_json = json.loads(handful("label", "t.csv", "-o", "out3", "--set", "columns=f0,f1,f2", "--json").stdout)
    assert with_json["columns"]["features"] == ["f0", "f1", "f2"]
    info = handful("info", "t.parquet", "--exclude", "f3", "--label", "text", "--json")
    assert json.loads(info.stdout)["columns"] == ["f0", "f1", "f2"]


def test_arrays_of_any_name_reach_label_and_info(tmp_path, handful):
    labels = np.array([0] * 3 + [-1] * 3 + [1] * 3 + [-1] * 9)
    np.savez(tmp_path / "t.npz", X=rows(), y=labels, id=np.arange(18), confidence=np.arange(18))
    assert_refused(handful("label", "t.npz", "-o", "out"), "'features', only", "--set embedding=NAME")
    done = handful("label", "t.npz", "--set", "embedding=X", "-o", "out")
    assert_refused(done, "no row with a label", "--label", "'y'")
    done = handful("label", "t.npz", "--set", "embedding=X", "--label", "y", "-o", "out", "--outlier-share", "0.5")
    assert done.returncode == 0, done.stderr
    found = parquet.read_table("out/labels.parquet")
    assert found["id"].to_pylist() == np.flatnonzero(labels < 0).tolist()
    assert found["label"].to_pylist()[:6] == ["0"] * 3 + ["1"] * 3
    assert found["confidence_2"].to_pylist() == found["id"].to_pylist()  # a column of handful is called so
    assert handful("promote", "out", "1=z", "-o", "more").returncode == 0  # by what the project stored
    facts = json.loads(handful("info", "t.npz", "--embedding", "X", "--label", "y", "--json").stdout)
    assert (facts["items"], facts["unlabelled"], facts["classes"]) == (18, 12, 2)
