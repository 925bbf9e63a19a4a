"""Two rows of one name stay two items: in the workbench, in labels, in exports and when groups become classes."""

import json

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

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


def write(path, names, *centres, each, labels=None):
    """Features around the corners of a cube, in this order."""
    rng = np.random.default_rng(0)
    features = np.concatenate([4 * np.eye(6)[k] + rng.normal(scale=0.1, size=(each, 6)) for k in centres])
    columns = {"path": names, "embedding": list(features.astype(np.float32))}
    parquet.write_table(pa.table(columns | ({} if labels is None else {"label": labels})), path)


def test_the_workbench_opens_a_table_with_an_item_for_each_row(tmp_path):
    write(tmp_path / "t.parquet", ["a", "a", "a (row 1)", None], 0, each=4, labels=["x", "y", "z", None])
    for _ in range(2):  # also when it is opened again
        project = LiveProject(tmp_path / "t.parquet", tmp_path / "project")
        state = project.state
        project.close()
        assert len(set(state.pile.names)) == 4
        assert [state.classes[k][0] if k >= 0 else None for k in state.labels.tolist()] == ["x", "y", "z", None]


def test_commands_keep_every_row_and_tell_them_apart(handful, tmp_path):
    write(tmp_path / "examples.parquet", ["e"] * 8, 0, 1, each=4, labels=["x"] * 4 + ["y"] * 4)
    write(tmp_path / "pile.parquet", names := ["a", "a (row 1)", "b"] * 8, 0, 1, 2, each=8)
    options = ("--outlier-share", "0.33", "--export", "fiftyone", "--export", "coco")
    done = handful("label", "examples.parquet", "pile.parquet", "-o", "out", *options)
    assert done.returncode == 0, done.stderr
    table = parquet.read_table("out/labels.parquet")
    assert table["path"].to_pylist() == names
    assert table["label"].to_pylist() == ["x"] * 8 + ["y"] * 8 + ["unknown"] * 8
    fiftyone, coco = (json.loads((tmp_path / "out" / f"{name}.json").read_text()) for name in ("fiftyone", "coco"))
    assert [entry["label"] for entry in fiftyone["labels"].values()] == table["label"].to_pylist()
    assert len({image["id"] for image in coco["images"]}) == 24
    done = handful("promote", "out", "1=z", "-o", "out2", "--outlier-share", "0.05")
    assert done.returncode == 0, done.stderr
    labels = parquet.read_table("out2/labels.parquet")["label"].to_pylist()
    assert labels == ["x"] * 8 + ["y"] * 8 + ["z"] * 8
    assert handful("predict", "out/model.safetensors", "pile.parquet", "-o", "new.csv").returncode == 0
    assert read_table("new.csv")["path"].tolist() == names
