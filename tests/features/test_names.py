"""Two rows of one name stay two items: in the workbench, in labels, in exports and when groups become classes."""

import json

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from handful.project.export_files import export
from handful.project.live import LiveProject
from handful.utils.csv_file import read_table
from handful.utils.files import unique_names

ALIKE = st.sampled_from(["a", "a (row 0)", "a (row 1)", "a (row 1, 2)", "a (row 2)", "b", ""])


@given(st.lists(st.one_of(ALIKE, st.text(max_size=3))))
def test_names_become_as_many_as_there_are_rows(names):
    unique = unique_names(names)
    assert len(unique) == len(names) == len(set(unique))
    for before, after in zip(names, unique, strict=True):
        assert before == after or names.count(before) > 1
    assert set(names) <= set(unique)  # the first of equal ones stays, too
    assert unique_names(unique) == unique


def write(path, names, *centres, each, labels=None):
    """Features around the corners of a cube, in this order."""
    rng = np.random.default_rng(0)
    features = np.concatenate([4 * np.eye(6)[k] + rng.normal(scale=0.1, size=(each, 6)) for k in centres])
    columns = {"path": names, "embedding": list(features.astype(np.float32))}
    parquet.write_table(pa.table(columns | ({} if labels is None else {"label": labels})), path)
    return features.astype(np.float32)


def test_a_table_opens_with_an_item_for_each_row_and_exports_all(tmp_path):
    for k, names in enumerate((["a", "a", "a (row 1)", "b"], ["row 1", None, "row 0", None], ["'", "'", "''", "=a"])):
        features = write(tmp_path / f"{k}.parquet", names, 0, each=4, labels=["x", "y", "z", None])
        for _ in range(2):  # also when it is opened again
            project = LiveProject(tmp_path / f"{k}.parquet", tmp_path / f"{k}")
            try:
                pile = project.state.pile
                assert len(pile) == 4 == len(set(pile.names))
                np.testing.assert_array_equal(pile.features, features)
                given = [project.state.classes[k][0] if k >= 0 else None for k in project.state.labels.tolist()]
                assert given == ["x", "y", "z", None]
                folder = export(project, ["parquet", "fiftyone"])["folder"]
            finally:
                project.close()
            assert parquet.read_table(f"{folder}/labels.parquet").num_rows >= 3
            with open(f"{folder}/fiftyone.json") as file:
                assert {e["label"] for e in json.load(file)["labels"].values()} >= {"x", "y", "z"}


def test_commands_keep_every_row_and_tell_them_apart(handful, tmp_path):
    write(tmp_path / "examples.parquet", ["e"] * 8, 0, 1, each=4, labels=["x"] * 4 + ["y"] * 4)
    write(tmp_path / "pile.parquet", names := ["a", "a (row 1)", "b"] * 8, 0, 1, 2, each=8)
    formats = ("fiftyone", "coco", "label-studio")
    exports = [word for name in formats for word in ("--export", name)]
    done = handful("label", "examples.parquet", "pile.parquet", "-o", "out", "--outlier-share", "0.33", *exports)
    assert done.returncode == 0, done.stderr
    table = parquet.read_table("out/labels.parquet")
    assert table["path"].to_pylist() == names
    assert table["label"].to_pylist() == ["x"] * 8 + ["y"] * 8 + ["unknown"] * 8
    fiftyone, coco, tasks = (json.loads((tmp_path / "out" / f"{name}.json").read_text()) for name in formats)
    assert [entry["label"] for entry in fiftyone["labels"].values()] == table["label"].to_pylist()
    assert len(coco["images"]) == len({image["id"] for image in coco["images"]}) == len(tasks) == 24
    done = handful("promote", "out", "1=z", "-o", "out2", "--outlier-share", "0.05")
    assert done.returncode == 0, done.stderr
    labels = parquet.read_table("out2/labels.parquet")["label"].to_pylist()
    assert labels == ["x"] * 8 + ["y"] * 8 + ["z"] * 8
    assert handful("predict", "out/model.safetensors", "pile.parquet", "-o", "new.csv").returncode == 0
    assert read_table("new.csv")["path"].tolist() == names
