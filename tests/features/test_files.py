"""Feature sets in files: what is written comes back, what others write is read, and what is wrong is named."""

import json
import os
import pickle
import sys
from collections import OrderedDict, defaultdict
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from handful.features import FeatureTable, read, write
from handful.features.labels import MISSING_WORDS
from handful.features.parts import part_name, write_mean, write_part

WRITABLE = ["set.parquet", "set.npz", "set.npy", "set.safetensors"]
HOLDS_PATHS = [name for name in WRITABLE if name != "set.npy"]
light = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def birds() -> FeatureTable:
    rng = np.random.default_rng(0)
    features, paths = rng.normal(size=(6, 4)).astype(np.float32), [f"birds/{i}.jpg" for i in range(6)]
    splits = ["train", "train", "test", "test", "train", "test"]
    labels = ["hen", "owl", "hen", "tit", "owl", "hen"]
    return FeatureTable(features, labels, paths, splits, "birds", rng.normal(size=4))


@pytest.fixture
def plain(birds) -> FeatureTable:
    """What every kind of file has a place for."""
    return FeatureTable(birds.features, birds.labels)


def assert_same(a: FeatureTable, b: FeatureTable) -> None:
    assert a.features.dtype == b.features.dtype
    np.testing.assert_array_equal(a.features, b.features)
    assert a.labels.tolist() == b.labels.tolist()
    for x, y in ((a.paths, b.paths), (a.splits, b.splits), (a.base_mean, b.base_mean)):
        assert (x is None) == (y is None)
        assert x is None or x.tolist() == y.tolist()


def table(path: Path, **columns) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def error(path: Path, **names) -> str:
    """What `read` says; the file's name must be in it."""
    with pytest.raises(ValueError) as caught:
        read(path, **names)
    assert str(path) in str(caught.value)
    return str(caught.value)


# ---- round trips

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8).filter(
    lambda word: word.strip() not in MISSING_WORDS
)


@st.composite
def sets(draw, paths: bool):
    n, dimension = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    features = np.random.default_rng(draw(st.integers(0, 99))).normal(size=(n, dimension)).astype(dtype)
    kind = draw(st.sampled_from([words, st.integers(-(2**63), 2**63 - 1)]))
    labels = draw(st.lists(kind, min_size=n, max_size=n))
    beside = st.none() | st.lists(words, min_size=n, max_size=n) if paths else st.none()
    numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
    mean = draw(st.none() | st.lists(numbers, min_size=dimension, max_size=dimension))
    return FeatureTable(features, labels, draw(beside), draw(beside), base_mean=mean)


@pytest.mark.parametrize("name", WRITABLE)
@light
@given(data=st.data())
def test_what_is_written_comes_back_and_replaces_what_was_there(tmp_path, name, data):
    original = data.draw(sets(paths=name in HOLDS_PATHS))
    assert write(original, tmp_path / name) == tmp_path / name
    assert_same(read(tmp_path / name), original)
    left = {file.name for file in tmp_path.iterdir()}
    beside = {"set.labels.npy"} | ({"set.base_mean.npy"} if original.base_mean is not None else set())
    assert left == {name} | (beside if name == "set.npy" else set())


# ---- the mean of the base classes


def test_a_folder_of_parts_has_the_mean_of_the_folder_or_that_of_its_parts(tmp_path, birds, plain):
    for i in range(2):
        write_part(plain, tmp_path / part_name(i), {})
    assert read(tmp_path).base_mean is None
    write_mean(tmp_path, birds.base_mean)
    assert read(tmp_path).base_mean.tolist() == birds.base_mean.tolist()
    write_mean(tmp_path, None)
    write_part(plain.replace(base_mean=birds.base_mean), tmp_path / part_name(0), {})
    assert "part-00001.parquet has another base mean" in error(tmp_path)
    write_part(plain.replace(base_mean=birds.base_mean), tmp_path / part_name(1), {})
    assert read(tmp_path).base_mean.tolist() == birds.base_mean.tolist()


# ---- what others write


def test_tables_of_pandas_and_polars(tmp_path):
    rows = {"embedding": [[1.0, 2.0], [3.0, 4.0]], "label": ["hen", "owl"]}
    frame = pd.DataFrame(rows)
    frame["label"] = frame["label"].astype("category")
    frame.to_parquet(tmp_path / "pandas.parquet")
    schema = {"embedding": pl.Array(pl.Float32, 2), "label": pl.String}
    pl.DataFrame(rows, schema=schema).write_parquet(tmp_path / "polars.parquet")
    for name, dtype in (("pandas", np.float64), ("polars", np.float32)):
        found = read(tmp_path / f"{name}.parquet")
        assert found.features.dtype == dtype
        assert found.features.tolist() == rows["embedding"]
        assert found.labels.tolist() == rows["label"]


def test_embeddings_of_other_types_are_widened(tmp_path):
    values = np.array([[1, 2], [3, 4]])
    for kind, dtype in (
        (pa.list_(pa.float16()), np.float32),
        (pa.list_(pa.uint8(), 2), np.float32),
        (pa.list_(pa.int16()), np.float32),
        (pa.large_list(pa.float32()), np.float32),
        (pa.large_list(pa.int32()), np.float64),  # float32 has no place for its digits
        (pa.list_(pa.float64()), np.float64),
    ):
        embedding = pa.array(values.tolist(), kind)
        found = read(table(tmp_path / "a.parquet", embedding=embedding, label=[b"h\xc3\xa9n", b"owl"]))
        assert found.features.dtype == dtype
        assert found.features.tolist() == values.tolist()
        assert found.labels.tolist() == ["hén", "owl"]
    for code, dtype in (("<f2", np.float32), (">f4", np.float32), (">f8", np.float64), ("<i8", np.float32)):
        np.savez(tmp_path / "a.npz", features=values.astype(code), labels=np.arange(2, dtype=">i4"))
        found = read(tmp_path / "a.npz")
        assert found.features.dtype == np.dtype(dtype)
        assert found.features.tolist() == values.tolist()
        assert found.labels.tolist() == [0, 1]
    save_file({"features": values.astype(np.float16), "labels": np.array([4, 2])}, tmp_path / "a.safetensors")
    found = read(tmp_path / "a.safetensors")
    assert found.features.dtype == np.float32
    assert found.labels.tolist() == [4, 2]


def test_class_names_that_datasets_leaves_in_parquet(tmp_path):
    about = {"info": {"features": {"label": {"names": ["hen", "owl"], "_type": "ClassLabel"}}}}
    rows = pa.table({"embedding": [[1.0], [2.0]], "label": [1, 0]}).replace_schema_metadata
    pq.write_table(rows({"huggingface": json.dumps(about)}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").labels.tolist() == ["owl", "hen"]
    about["info"]["features"]["label"]["names"].pop()
    pq.write_table(rows({"huggingface": json.dumps(about)}), tmp_path / "a.parquet")
    assert "has code 1 in row 0, but there are 1 names" in error(tmp_path / "a.parquet")


def test_labels_beside_npy(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3, dtype=np.float32))
    assert read(tmp_path / "a.npy").labels is None
    np.save(tmp_path / "a_labels.npy", np.array([5, 6, 7]))
    assert read(tmp_path / "a.npy").labels.tolist() == [5, 6, 7]
    for content, labels in (
        ("\ufeffhen\r\né\u2028x\r\nowl\r\n", ["hen", "é\u2028x", "owl"]),
        ("3\n-1\n20", [3, -1, 20]),
        ("007\n1\n20\n", ["007", "1", "20"]),
        ("hen\n\nowl\n", ["hen", None, "owl"]),
    ):
        (tmp_path / "a.labels.txt").write_bytes(content.encode())
        assert read(tmp_path / "a.npy").labels.tolist() == labels
    np.save(tmp_path / "a.labels.npy", np.array(["x", "y", "z"]))
    assert read(tmp_path / "a.npy").labels.tolist() == ["x", "y", "z"]


# ---- pickles


def pickled(path: Path, content, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(content, protocol))
    return path


def test_per_class_pickles_of_every_protocol(tmp_path):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        hens, owls = np.arange(6, dtype=np.float32).reshape(3, 2), np.arange(10, 14, dtype=np.float32).reshape(2, 2)
        lists = defaultdict(list, {np.str_("hen"): list(hens), "owl": list(owls)})
        turned = {"hen": np.asfortranarray(hens), "owl": np.repeat(owls, 2, axis=1)[:, ::2]}
        ordered = OrderedDict(hen=hens.astype(">f8"), owl=[owls[:1], owls[1:]])
        for content in ({b"hen": hens, "owl": owls}, lists, turned, ordered, {"hen": hens.tolist(), "owl": owls}):
            found = read(pickled(tmp_path / "a.pkl", content, protocol))
            assert found.labels.tolist() == ["hen"] * 3 + ["owl"] * 2
            np.testing.assert_array_equal(found.features, np.concatenate([hens, owls]))
        found = read(pickled(tmp_path / "a.plk", {np.int64(3): hens.astype(np.float16), 1: owls.astype(int)}, protocol))
        assert found.labels.tolist() == [3, 3, 3, 1, 1]
        assert found.features.dtype == np.float32
    rows = {"hen": [[np.float64(1.5), 2.0], [True, 3]]}
    np.testing.assert_array_equal(read(pickled(tmp_path / "a.pkl", rows)).features, [[1.5, 2], [1, 3]])


def test_pickles_of_numpy_1_and_python_2(tmp_path):
    data = np.array([[1, 2]], "<f4").tobytes()
    python2 = (  # {'hen': array([[1, 2]], float32)} as Python 2 wrote it, strings being bytes
        b"\x80\x02}U\x03hencnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x01K\x02\x86cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89U\x08" + data + b"tbs."
    )
    (tmp_path / "a.pickle").write_bytes(python2)
    found = read(tmp_path / "a.pickle")
    assert found.features.tolist() == [[1, 2]]
    assert found.labels.tolist() == ["hen"]


def test_tensors_in_pickles_are_read_without_torch(torch, tmp_path, monkeypatch):
    rows = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    content = {"hen": rows, "owl": rows.T[:2, :].T.repeat(1, 2), "tit": [rows[1].bfloat16(), rows[2].double()]}
    paths = [pickled(tmp_path / f"{protocol}.pkl", content, protocol) for protocol in (2, 4, 5)]
    turned = pickled(tmp_path / "turned.pkl", {0: torch.tensor([[1.0, 2.0], [3.0, 4.0]]).T})
    expected = np.concatenate([rows.numpy(), rows[:, [0, 1, 0, 1]].numpy(), rows[1:].numpy()])
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    for path in paths:
        np.testing.assert_array_equal(read(path).features, expected)
    np.testing.assert_array_equal(read(turned).features, [[1, 3], [2, 4]])


# ---- what is wrong with a file


def test_missing_columns_and_arrays_are_named_with_those_there(tmp_path):
    path = table(tmp_path / "a.parquet", embedding=[[1.0]], species=["hen"])
    said = error(path, label="label")
    assert "no column 'label', only 'embedding', 'species': name the right one with label=" in said
    with pytest.raises(ValueError, match="a has no labels, only 'species': name the right column or array with label="):
        read(path).labelled()
    assert "no column 'vector', only" in error(path, embedding="vector", label="species")
    np.savez(tmp_path / "a.npz", features=np.eye(2), y=[1, 2])
    assert "no array 'labels', only 'features', 'y'" in error(tmp_path / "a.npz", label="labels")
    with pytest.raises(ValueError, match=r"a has no labels, only 'y': .* label= \(--label\)"):
        read(tmp_path / "a.npz").labelled()


def test_paths_that_do_not_lead_to_features(tmp_path, birds):
    with pytest.raises(FileNotFoundError, match=r"no file or folder .*gone.npz"):
        read(tmp_path / "gone.npz")
    (tmp_path / "a.txt").write_text("1,2")
    assert "suffix '.txt': features are read from .parquet, .npz, .npy, .safetensors" in error(tmp_path / "a.txt")
    (tmp_path / "b").write_text("1,2")
    assert "has no suffix" in error(tmp_path / "b")
    (tmp_path / "folder").mkdir()
    assert "is a folder, but not of Parquet parts: give a file of features" in error(tmp_path / "folder")
    (tmp_path / "folder" / "state.json").write_text("{}")  # as `save_to_disk` of Hugging Face `datasets` writes
    assert "load_from_disk(...).to_parquet('features.parquet'), and give that" in error(tmp_path / "folder")
    with pytest.raises(ValueError, match=r"suffix '.txt': write .parquet"):
        write(birds, tmp_path / "a.txt")
    with pytest.raises(ValueError, match=r"never written.*write .npz or .parquet"):
        write(birds, tmp_path / "a.pkl")
    with pytest.raises(ValueError, match=r"no place for paths or splits, .*: write .npz"):
        write(birds, tmp_path / "a.npy")
    with pytest.raises(FileNotFoundError, match="no folder .*nowhere.* make it first"):
        write(birds, tmp_path / "nowhere" / "a.npz")


# ---- writing never destroys


@contextmanager
def full_disk():
    """No file may grow beyond 4 kB. Only around the call under test: the limit holds for pytest's own output too."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_a_full_disk_or_a_folder_in_the_way_leaves_what_was_there(tmp_path):
    large = FeatureTable(np.random.default_rng(0).normal(size=(500, 40)), np.arange(500))
    for name in WRITABLE:
        path = write(FeatureTable(np.eye(2), ["hen", "owl"], base_mean=[1.0, 2.0]), tmp_path / name)
        before = contents(tmp_path)
        message = "the features were not written: (File too large|.* disk full)"
        with pytest.raises(OSError, match=message) as caught, full_disk():
            write(large, path)
        assert caught.value.filename == str(path)
        assert contents(tmp_path) == before
    (tmp_path / "set.labels.npy").unlink()
    (tmp_path / "set.labels.npy").mkdir()  # the labels cannot be written, so the features are not
    with pytest.raises(OSError, match="the features were not written"):
        write(large, tmp_path / "set.npy")
    assert contents(tmp_path).items() < before.items()


def test_names_that_are_no_unicode(tmp_path):
    """Names of files that are not UTF-8 come as surrogates; tables cannot hold them, arrays can."""
    odd = FeatureTable(np.eye(2), ["hen", "owl"], ["a.jpg", os.fsdecode(b"\xff.jpg")])
    message = r"a.parquet': path .* of row 1 is not valid Unicode: rename it, or write .npz"
    with pytest.raises(ValueError, match=message):
        write(odd, tmp_path / "a.parquet")
    assert contents(tmp_path) == {}
    assert_same(read(write(odd, tmp_path / "a.npz")), odd)
