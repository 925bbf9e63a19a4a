"""Two rows of one name stay two items: in the workbench, in labels, in exports and when groups become classes."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from handful.project.export_files import export
from handful.project.live import LiveProject
from handful.utils.csv_file import read_table
from handful.utils.files import unique_names

NAMES = ["a", "a", "a (row 1)", "b"]
ALIKE = st.sampled_from(["a", "a (row 0)", "a (row 1)", "a (row 1, 2)", "a (row 2)", "b", ""])


@given(st.lists(st.one_of(ALIKE, st.text(max_size=3))))
def test_names_become_as_many_as_there_are_rows(names):
    unique = unique_names(names)
    assert len(unique) == len(names) == len(set(unique))
    for before, after in zip(names, unique, strict=True):
        assert before == after or names.count(before) > 1
    assert set(names) <= set(unique)  # the first of equal ones stays, too
    assert unique_names(unique) == unique


def test_a_name_that_another_row_has_already_is_not_given():
    assert unique_names(NAMES) == ["a", "a (row 1, 2)", "a (row 1)", "b"]
    assert unique_names(["a", "a", "a"]) == ["a", "a (row 1)", "a (row 2)"]


def rows(*centres, each=4, seed=0):
    """Features around the corners of a square, in this order."""
    rng = np.random.default_rng(seed)
    return np.concatenate([4 * np.eye(6)[k] + rng.normal(scale=0.1, size=(each, 6)) for k in centres])


def write(path, features, paths, labels=None):
    columns = {"path": paths, "embedding": list(features.astype(np.float32))}
    if labels is not None:
        columns["label"] = labels
    parquet.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("names", [NAMES, ["row 1", None, "row 0", None], ["'", "'", "''", "=a"]])
def test_a_table_opens_with_an_item_for_each_row(names, tmp_path):
    features = rows(0, each=4)
    table = write(tmp_path / "t.parquet", features, names, ["x", "y", "z", None])
    for _ in range(2):  # also when it is opened again
        project = LiveProject(table, tmp_path / "project")
        try:
            pile = project.state.pile
            assert len(pile) == 4 == len(set(pile.names))
            assert pile.ready.all()
            np.testing.assert_array_equal(pile.features, features.astype(np.float32))
            given = [project.state.classes[k][0] if k >= 0 else None for k in project.state.labels.tolist()]
            assert given == ["x", "y", "z", None]
        finally:
            project.close()


@pytest.fixture
def labelled(handful, tmp_path):
    """Examples of two classes, and a pile whose twelve rows have three names."""
    write(tmp_path / "examples.parquet", rows(0, 1), ["e"] * 8, ["x"] * 4 + ["y"] * 4)
    write(tmp_path / "pile.parquet", rows(0, 1, 2, each=8, seed=1), ["a", "a (row 1)", "b"] * 8)
    done = handful("label", "examples.parquet", "pile.parquet", "-o", "out", "--outlier-share", "0.33",
                   "--export", "fiftyone", "--export", "coco", "--export", "label-studio")  # fmt: skip
    assert done.returncode == 0, done.stderr
    return tmp_path / "out"


def test_labels_and_exports_have_every_row(labelled):
    table = parquet.read_table(labelled / "labels.parquet")
    assert table["path"].to_pylist() == ["a", "a (row 1)", "b"] * 8
    assert table["label"].to_pylist() == ["x"] * 8 + ["y"] * 8 + ["unknown"] * 8
    of_file = json.loads((labelled / "fiftyone.json").read_text())["labels"]
    assert len(of_file) == 24
    assert [entry["label"] for entry in of_file.values()] == table["label"].to_pylist()
    coco = json.loads((labelled / "coco.json").read_text())
    assert len(coco["images"]) == len({image["id"] for image in coco["images"]}) == 24
    assert len(json.loads((labelled / "label-studio.json").read_text())) == 24


def test_promoting_and_predicting_tell_rows_of_one_name_apart(labelled, handful):
    done = handful("promote", labelled, "1=z", "-o", "out2", "--outlier-share", "0.05")
    assert done.returncode == 0, done.stderr
    table = parquet.read_table(labelled.parent / "out2" / "labels.parquet")
    assert table["label"].to_pylist() == ["x"] * 8 + ["y"] * 8 + ["z"] * 8
    done = handful("predict", labelled / "model.safetensors", labelled.parent / "pile.parquet", "-o", "new.csv")
    assert done.returncode == 0, done.stderr
    assert read_table(labelled.parent / "new.csv")["path"].tolist() == ["a", "a (row 1)", "b"] * 8


def test_the_workbench_exports_every_row(tmp_path):
    table = write(tmp_path / "t.parquet", rows(0, 1), ["a", "a (row 1)"] * 4, ["x"] * 4 + ["y"] * 4)
    project = LiveProject(table, tmp_path / "project")
    try:
        folder = export(project, ["parquet", "fiftyone"])["folder"]
    finally:
        project.close()
    assert parquet.read_table(f"{folder}/labels.parquet").num_rows == 8
    with open(f"{folder}/fiftyone.json") as file:
        assert sorted(e["label"] for e in json.load(file)["labels"].values()) == ["x"] * 4 + ["y"] * 4
