"""Feature sets: what is written comes back, what is wrong is named, and no file can run anything."""

import functools
import json
import operator
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
from safetensors.numpy import load_file, save_file

from handful.features import FeatureTable, Protocol, describe, draw, read, write
from handful.features.labels import MISSING_WORDS
from handful.features.parts import part_name, write_mean, write_part

WRITABLE = ["set.parquet", "set.npz", "set.npy", "set.safetensors"]
HOLDS_PATHS = [name for name in WRITABLE if name != "set.npy"]
light = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def birds() -> FeatureTable:
    rng = np.random.default_rng(0)
    return FeatureTable(
        rng.normal(size=(6, 4)).astype(np.float32),
        ["hen", "owl", "hen", "tit", "owl", "hen"],
        [f"birds/{i}.jpg" for i in range(6)],
        ["train", "train", "test", "test", "train", "test"],
        "birds",
        rng.normal(size=4),
    )


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
def test_what_is_written_comes_back(tmp_path, name, data):
    original = data.draw(sets(paths=name in HOLDS_PATHS))
    assert write(original, tmp_path / name) == tmp_path / name
    assert_same(read(tmp_path / name), original)
    left = {file.name for file in tmp_path.iterdir()}
    beside = {"set.labels.npy"} | ({"set.base_mean.npy"} if original.base_mean is not None else set())
    assert left == {name} | (beside if name == "set.npy" else set())


def test_paths_and_splits_come_back(tmp_path, birds):
    for name in HOLDS_PATHS:
        again = read(write(birds, tmp_path / name))
        assert_same(again, birds)
        assert again.name == "set"
        assert again.features.flags.writeable
        assert again.features.flags.c_contiguous


def test_a_file_that_was_there_is_replaced(tmp_path, birds):
    for name in WRITABLE:
        plain = FeatureTable(birds.features, birds.labels)
        write(plain, tmp_path / name)
        write(FeatureTable(birds.features[:2], [1, 2]), tmp_path / name)
        assert read(tmp_path / name).labels.tolist() == [1, 2]


def test_suffixes_may_be_capital(tmp_path, birds):
    assert_same(read(write(birds, tmp_path / "A.NPZ")), birds)


# ---- the mean of the base classes


def test_a_base_mean_lies_where_other_tools_find_it_or_pass_over_it(tmp_path, birds):
    mean = birds.base_mean.tolist()
    frame = pd.read_parquet(write(birds, tmp_path / "a.parquet"))
    assert frame.columns.tolist() == ["embedding", "label", "path", "split"]
    assert pl.read_parquet(tmp_path / "a.parquet")["label"].to_list() == birds.labels.tolist()
    said = pq.read_schema(tmp_path / "a.parquet").metadata[b"handful.base_mean"]
    assert json.loads(said) == {"base_mean": mean}
    with np.load(write(birds, tmp_path / "a.npz")) as arrays:
        assert arrays["base_mean"].dtype == np.float32
        assert arrays["base_mean"].tolist() == mean
    assert load_file(write(birds, tmp_path / "a.safetensors"))["base_mean"].tolist() == mean
    write(FeatureTable(birds.features, birds.labels, base_mean=birds.base_mean), tmp_path / "a.npy")
    assert np.load(tmp_path / "a.base_mean.npy").tolist() == mean


def test_a_base_mean_that_is_no_more_goes_with_what_it_was_stored_with(tmp_path, birds):
    for name in WRITABLE:
        write(FeatureTable(birds.features, birds.labels, base_mean=birds.base_mean), tmp_path / name)
        write(FeatureTable(birds.features, birds.labels), tmp_path / name)
        assert read(tmp_path / name).base_mean is None


def test_a_folder_of_parts_has_the_mean_of_the_folder_or_that_of_its_parts(tmp_path, birds):
    columns = FeatureTable(birds.features, birds.labels)
    for i in range(2):
        write_part(columns, tmp_path / part_name(i), {})
    assert read(tmp_path).base_mean is None
    write_mean(tmp_path, birds.base_mean)
    assert read(tmp_path).base_mean.tolist() == birds.base_mean.tolist()
    assert read(tmp_path).base_mean.tolist() == birds.base_mean.tolist()
    write_mean(tmp_path, None)
    write_part(columns.replace(base_mean=birds.base_mean), tmp_path / part_name(0), {})
    assert "part-00001.parquet has another base mean" in error(tmp_path)
    write_part(columns.replace(base_mean=birds.base_mean), tmp_path / part_name(1), {})
    assert read(tmp_path).base_mean.tolist() == birds.base_mean.tolist()


def test_a_base_mean_of_other_features_is_refused(tmp_path, birds):
    for mean, words in (
        (np.ones(3), r"base_mean has shape \(3,\) but items have 4 features"),
        ([1.0, 2.0, np.nan, 4.0], "base_mean contains NaN"),
        ([1.0, 2.0, 1e39, 4.0], "base_mean contains NaN or infinity"),  # beyond float32
        (["a"] * 4, "base_mean is not a row of numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            FeatureTable(birds.features, birds.labels, base_mean=mean)
    wide = pq.read_table(write(birds, tmp_path / "a.parquet"))
    for said, words in (
        (b'{"base_mean": [1.0]}', "has shape (1,)"),
        (b"[1", "holds no base mean"),
        (b"7", "no base mean"),
    ):
        pq.write_table(wide.replace_schema_metadata({b"handful.base_mean": said}), tmp_path / "b.parquet")
        assert words in error(tmp_path / "b.parquet")
        with pytest.raises(ValueError, match=r"b\.parquet"):
            read(tmp_path / "b.parquet")


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
    for kind, dtype in (
        (pa.list_(pa.float16()), np.float32),
        (pa.list_(pa.uint8(), 2), np.float32),
        (pa.list_(pa.int16()), np.float32),
        (pa.large_list(pa.int32()), np.float64),  # float32 has no place for its digits
    ):
        embedding = pa.array([[1, 2], [3, 4]], kind)
        found = read(table(tmp_path / "a.parquet", embedding=embedding, label=[b"h\xc3\xa9n", b"owl"]))
        assert found.features.dtype == dtype
        assert found.features.tolist() == [[1, 2], [3, 4]]
        assert found.labels.tolist() == ["hén", "owl"]


def test_columns_and_arrays_may_have_other_names(tmp_path):
    path = table(tmp_path / "a.parquet", clip=[[1.0], [2.0]], species=[3, 4], junk=["x", "y"])
    assert read(path, embedding="clip", label="species").labels.tolist() == [3, 4]
    np.savez(tmp_path / "a.npz", X=np.eye(2), y=np.array([b"a", b"b"]))
    found = read(tmp_path / "a.npz", embedding="X", label="y")
    assert found.labels.tolist() == ["a", "b"]
    assert found.features.dtype == np.float64


def test_a_parquet_file_in_many_row_groups(tmp_path, birds):
    whole = pq.read_table(write(birds, tmp_path / "a.parquet"))
    pq.write_table(whole, tmp_path / "b.parquet", row_group_size=2)
    assert_same(read(tmp_path / "b.parquet"), birds)


def test_class_names_that_datasets_leaves_in_parquet(tmp_path):
    about = {"info": {"features": {"label": {"names": ["hen", "owl"], "_type": "ClassLabel"}}}}
    rows = pa.table({"embedding": [[1.0], [2.0]], "label": [1, 0]})
    pq.write_table(rows.replace_schema_metadata({"huggingface": json.dumps(about)}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").labels.tolist() == ["owl", "hen"]


def test_half_precision_big_endian_and_integers_in_npz(tmp_path):
    values = np.array([[1, 2], [3, 4]])
    for code, dtype in (("<f2", np.float32), (">f4", np.float32), (">f8", np.float64), ("<i8", np.float32)):
        np.savez(tmp_path / "a.npz", features=values.astype(code), labels=np.arange(2, dtype=">i4"))
        found = read(tmp_path / "a.npz")
        assert found.features.dtype == np.dtype(dtype)
        assert found.features.tolist() == values.tolist()
        assert found.labels.tolist() == [0, 1]


def test_labels_beside_npy(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3, dtype=np.float32))
    np.save(tmp_path / "a_labels.npy", np.array([5, 6, 7]))
    assert read(tmp_path / "a.npy").labels.tolist() == [5, 6, 7]
    text = tmp_path / "a.labels.txt"
    text.write_bytes("\ufeffhen\r\né\u2028x\r\nowl\r\n".encode())
    assert read(tmp_path / "a.npy").labels.tolist() == ["hen", "é\u2028x", "owl"]
    text.write_text("3\n-1\n20")
    assert read(tmp_path / "a.npy").labels.tolist() == [3, -1, 20]
    text.write_text("007\n1\n20\n")
    assert read(tmp_path / "a.npy").labels.tolist() == ["007", "1", "20"]
    np.save(tmp_path / "a.labels.npy", np.array(["x", "y", "z"]))
    assert read(tmp_path / "a.npy").labels.tolist() == ["x", "y", "z"]


def test_plain_safetensors_have_integer_labels(tmp_path):
    save_file({"features": np.eye(2, dtype=np.float16), "labels": np.array([4, 2])}, tmp_path / "a.safetensors")
    found = read(tmp_path / "a.safetensors")
    assert found.features.dtype == np.float32
    assert found.labels.tolist() == [4, 2]


def test_real_features(shared):
    found = read(shared / "data" / "tiny_imagenet_val.npz")
    assert found.features.shape == (1600, 1280)
    assert found.features.dtype == np.float32
    assert list(found.counts.values()) == [100] * 16
    assert found.name == "tiny_imagenet_val"
    said = describe(found)
    assert said["ways"] == {1: 11, 5: 11, 10: 11}
    assert said["norms"]["min"] > 0


# ---- pickles


class Calls:
    """Unpickled, this calls a function."""

    def __init__(self, function, *arguments):
        self.made_of = function, arguments

    def __reduce__(self):
        return self.made_of


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


def test_rows_of_a_pickle_may_be_lists_of_any_numbers(tmp_path):
    rows = [[np.float64(1.5), 2.0], [True, 3]]
    (tmp_path / "set.pkl").write_bytes(pickle.dumps({"hen": rows}))
    np.testing.assert_array_equal(read(tmp_path / "set.pkl").features, [[1.5, 2], [1, 3]])


def test_pickles_of_numpy_1_and_python_2(tmp_path):
    content = pickle.dumps({"hen": np.eye(2)}, 2).replace(b"numpy._core", b"numpy.core")
    assert b"numpy.core.multiarray" in content
    (tmp_path / "a.pickle").write_bytes(content)
    assert read(tmp_path / "a.pickle").features.tolist() == np.eye(2).tolist()
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


@pytest.mark.torch
def test_pickles_of_torch_tensors(tmp_path):
    import torch

    rows = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    content = {"hen": rows, "owl": rows.T[:2, :].T.repeat(1, 2), "tit": [rows[1].bfloat16(), rows[2].double()]}
    for protocol in (2, 4, 5):
        found = read(pickled(tmp_path / "a.pkl", content, protocol))
        np.testing.assert_array_equal(found.features[:3], rows.numpy())
        np.testing.assert_array_equal(found.features[3:6], rows[:, [0, 1, 0, 1]].numpy())
        np.testing.assert_array_equal(found.features[6:], rows[1:].numpy())
    view = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).T
    np.testing.assert_array_equal(read(pickled(tmp_path / "a.pkl", {0: view})).features, [[1, 3], [2, 4]])


def test_tensors_are_read_without_torch(torch, tmp_path, monkeypatch):
    path = pickled(tmp_path / "a.pkl", {"hen": torch.arange(6.0).reshape(3, 2).T}, 2)
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    np.testing.assert_array_equal(read(path).features, [[0, 2, 4], [1, 3, 5]])


def test_a_pickle_that_asks_for_anything_else_is_refused_by_name(tmp_path):
    for hostile, name in (
        (Calls(exec, "1/0"), "exec"),
        (Calls(getattr, Calls(getattr, "", "__class__"), "__mro__"), "getattr"),
        (Calls(__import__, "os"), "__import__"),
        (Calls(open, "/etc/passwd"), "open"),
        (functools.partial(print, "hen"), "functools.partial"),
        (operator.attrgetter("x"), "operator.attrgetter"),
        (np.load, "numpy.load"),
        (np.random.default_rng(0), "numpy.random"),
        (pd.DataFrame({"a": [1]}), "pandas"),
        (Path("x"), "pathlib"),
        (bytearray(b"x"), "bytearray"),
    ):
        assert name in error(pickled(tmp_path / "a.pkl", {"hen": hostile}))


def test_lists_that_hold_each_other_are_not_unrolled(tmp_path):
    laughs = [0.0]
    for _ in range(60):
        laughs = [laughs, laughs]
    assert "row 0 of class 'hen' is a list" in error(pickled(tmp_path / "a.pkl", {"hen": laughs}))


def test_pickles_of_another_shape_are_named(tmp_path):
    for content, message in (
        ([np.eye(2)], "holds a list"),
        (np.eye(2), "holds a ndarray"),
        ({}, "no classes"),
        ({"hen": []}, "class 'hen' is empty"),
        ({"hen": 3}, "class 'hen' is a int"),
        ({"hen": np.ones(3)}, r"class 'hen' is an array of shape \(3,\)"),
        ({"hen": [np.ones((2, 2, 2))]}, r"row 0 of class 'hen' is an array of shape \(2, 2, 2\)"),
        ({"hen": [np.ones(2), np.ones(3)]}, "class 'hen' has 2 features in row 0 but 3 in row 1"),
        ({"hen": np.eye(2), "owl": np.eye(3)}, "class 'owl' has 3 features in a row, but class 'hen' has 2"),
        ({"hen": np.eye(2), "owl": np.array([[0, 1], [np.nan, 1]])}, "class 'owl' contains NaN at row 1, column 0"),
        ({("hen", 1): np.eye(2)}, "a class a tuple: names of classes are strings or integers"),
        ({"hen": np.array([["a", "b"]])}, "class 'hen'"),
        ({"hen": np.eye(1), 1: np.eye(1)}, "several types"),
    ):
        with pytest.raises(ValueError, match=message):
            read(pickled(tmp_path / "a.pkl", content))


def test_pickles_are_never_written(tmp_path, birds):
    for name in ("a.pkl", "a.pickle", "a.plk"):
        with pytest.raises(ValueError, match=r"never written.*write .npz or .parquet"):
            write(birds, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


# ---- what is wrong with a file


def test_values_that_are_not_finite_are_found(tmp_path, birds):
    for value, kind in (("nan", "NaN"), ("inf", "infinity")):
        features = birds.features.copy()
        features[3, 1] = float(value)
        table(tmp_path / "a.parquet", embedding=list(features), label=birds.labels.tolist())
        np.savez(tmp_path / "a.npz", features=features, labels=birds.labels)
        np.save(tmp_path / "a.npy", features)
        np.save(tmp_path / "a.labels.npy", birds.labels)
        save_file({"features": features, "labels": np.arange(6)}, tmp_path / "a.safetensors")
        for suffix in ("parquet", "npz", "npy", "safetensors"):
            assert f"{kind} at row 3, column 1" in error(tmp_path / f"a.{suffix}")


def test_missing_columns_and_arrays_are_named_with_those_there(tmp_path):
    path = table(tmp_path / "a.parquet", embedding=[[1.0]], species=["hen"])
    assert "no column 'label', only 'embedding', 'species': name the right one with label=" in error(
        path, label="label"
    )
    with pytest.raises(ValueError, match="a has no labels, only 'species': name the right column or array with label="):
        read(path).labelled()
    assert "no column 'vector', only" in error(path, embedding="vector", label="species")
    np.savez(tmp_path / "a.npz", features=np.eye(2), y=[1, 2])
    assert "no array 'labels', only 'features', 'y'" in error(tmp_path / "a.npz", label="labels")
    with pytest.raises(ValueError, match=r"a has no labels, only 'y': .* label= \(--label\)"):
        read(tmp_path / "a.npz").labelled()
    np.savez(tmp_path / "a.npz", X=np.eye(2))
    assert "no array 'features', only 'X'" in error(tmp_path / "a.npz")
    save_file({"a": np.eye(2)}, tmp_path / "a.safetensors")
    assert "no tensor 'features', only 'a'" in error(tmp_path / "a.safetensors")
    twice = pa.Table.from_arrays([pa.array([[1.0]]), pa.array([1]), pa.array([2])], ["embedding", "label", "label"])
    pq.write_table(twice, tmp_path / "a.parquet")
    assert "more than one column 'label'" in error(tmp_path / "a.parquet")


def test_tables_with_unusable_embeddings(tmp_path):
    def said(embedding, label=(1, 2, 3)) -> str:
        return error(table(tmp_path / "a.parquet", embedding=embedding, label=list(label)))

    assert "2 numbers in row 0 but 3 in row 2" in said([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0, 7.0]])
    assert "no embedding in row 1" in said([[1.0], None, [2.0]])
    assert "no embedding in row 1" in said(pa.array([[1.0], None, [2.0]], pa.list_(pa.float32(), 1)))
    assert "no number in row 2, position 1" in said([[1.0, 2.0], [3.0, 4.0], [5.0, None]])
    assert "holds double: a list of numbers" in said([1.0, 2.0, 3.0])
    assert "holds list<" in said([["a"], ["b"], ["c"]])
    assert "no features" in said(pa.array([[], [], []], pa.list_(pa.float32())))
    assert "holds list<element: null>" in said([[], [], []])
    assert "row 2 is 1.5: labels are integers or strings" in said([[1.0], [2.0], [3.0]], [1.0, 2.0, 1.5])


def test_row_numbers_count_through_row_groups(tmp_path):
    rows = pa.table({"embedding": [[1.0, 2.0]] * 5 + [[1.0]], "label": range(6)})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=2)
    assert "1 in row 5" in error(tmp_path / "a.parquet")


def test_files_cut_off_or_of_another_kind(tmp_path, birds):
    for name in (*WRITABLE, "set.labels.npy"):
        path = tmp_path / ("set.npy" if "npy" in name else name)
        write(FeatureTable(birds.features, birds.labels), path)
        whole = (tmp_path / name).read_bytes()
        for content in (b"", whole[:3], whole[: len(whole) // 2], b"hello, this is text and nothing else" * 9):
            (tmp_path / name).write_bytes(content)
            assert "damaged" in error(path)


def test_a_damaged_array_inside_an_npz(tmp_path, birds):
    path = write(birds, tmp_path / "a.npz")
    content = bytearray(path.read_bytes())
    content[content.index(birds.features.tobytes()) + 5] ^= 255
    path.write_bytes(content)
    assert "damaged or cut off: array 'features': Bad CRC" in error(path)


def test_arrays_of_objects_are_refused_unread(tmp_path):
    trace = tmp_path / "ran"
    hostile = np.array([Calls(os.system, f"touch {trace}"), "owl"], object)
    np.savez(tmp_path / "a.npz", features=np.eye(2), labels=hostile)
    np.save(tmp_path / "b.npy", np.eye(2))
    np.save(tmp_path / "b.labels.npy", hostile)
    np.save(tmp_path / "c.npy", hostile)
    np.save(tmp_path / "c.labels.npy", np.arange(2))
    for name, what in (("a.npz", "array 'labels'"), ("b.npy", "b.labels.npy"), ("c.npy", "the file")):
        assert f"{what} is an array of Python objects" in error(tmp_path / name)
    assert not trace.exists()


def test_labels_that_are_not_one_for_each_row(tmp_path):
    np.savez(tmp_path / "a.npz", features=np.eye(3), labels=np.arange(2))
    assert "3 rows of features but 2 labels" in error(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", features=np.eye(3), labels=np.ones((3, 1)))
    assert "labels have shape (3, 1)" in error(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", features=np.eye(3), labels=np.arange(3), paths=np.array(["a"]))
    assert "3 rows of features but 1 paths" in error(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", features=np.eye(3), labels=np.array([b"a", b"b", b"\xff"]))
    assert "label of row 2 is b'\\xff', which is not UTF-8" in error(tmp_path / "a.npz")
    np.save(tmp_path / "b.npy", np.eye(3))
    assert read(tmp_path / "b.npy").labels is None
    (tmp_path / "b.labels.txt").write_text("hen\n\nowl\n")
    assert read(tmp_path / "b.npy").labels.tolist() == ["hen", None, "owl"]


def test_empty_sets(tmp_path):
    kind = pa.list_(pa.float32(), 4)
    table(tmp_path / "a.parquet", embedding=pa.array([], kind), label=pa.array([], pa.string()))
    np.savez(tmp_path / "a.npz", features=np.empty((0, 4)), labels=np.empty(0, int))
    for name in ("a.parquet", "a.npz"):
        assert "is empty" in error(tmp_path / name)
    with pytest.raises(ValueError, match="is empty"):
        FeatureTable([], [])


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
    with pytest.raises(FileNotFoundError, match="no folder .*nowhere.* make it first"):
        write(birds, tmp_path / "nowhere" / "a.npz")


def test_safetensors_with_a_strange_header(tmp_path):
    def said(about: str, labels=(0, 1), dtype=np.float32) -> str:
        arrays = {"features": np.eye(2, dtype=dtype), "labels": np.array(labels)}
        save_file(arrays, tmp_path / "a.safetensors", metadata={"handful": about})
        return error(tmp_path / "a.safetensors")

    assert "is not JSON" in said("{")
    assert "handful.load reads it" in said('{"method": "eol"}')
    assert "pip install -U handful" in said('{"format": 99}')
    assert "2 rows of features but 1 paths" in said('{"texts": {"path": ["x"]}}')
    assert "`texts` are not lists by name" in said('{"texts": {"path": "x"}}')


@pytest.mark.torch
def test_bfloat16_says_what_to_do(tmp_path):
    import torch
    from safetensors.torch import save_file as save_torch

    rows = {"features": torch.ones(2, 2, dtype=torch.bfloat16), "labels": torch.arange(2)}
    save_torch(rows, tmp_path / "a.safetensors")
    assert "save it as float32" in error(tmp_path / "a.safetensors")
    pytest.importorskip("onnx")  # which makes bfloat16 a type of NumPy's
    assert "save it as float32" in error(tmp_path / "a.safetensors")


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


def test_a_full_disk_or_a_closed_folder_leaves_what_was_there(tmp_path):
    large = FeatureTable(np.random.default_rng(0).normal(size=(500, 40)), np.arange(500))
    for name in WRITABLE:
        path = write(FeatureTable(np.eye(2), ["hen", "owl"], base_mean=[1.0, 2.0]), tmp_path / name)
        before = contents(tmp_path)
        message = "the features were not written: (File too large|.* disk full)"
        with pytest.raises(OSError, match=message) as caught, full_disk():
            write(large, path)
        assert caught.value.filename == str(path)
        assert contents(tmp_path) == before
        assert read(path).labels.tolist() == ["hen", "owl"]
        if getattr(os, "geteuid", int)() != 0:  # root may write anywhere
            tmp_path.chmod(0o500)
            with pytest.raises(PermissionError, match="the features were not written"):
                write(read(path), path)
            tmp_path.chmod(0o700)
            assert contents(tmp_path) == before


def test_names_that_are_no_unicode(tmp_path):
    """Names of files that are not UTF-8 come as surrogates; tables cannot hold them, arrays can."""
    odd = FeatureTable(np.eye(2), ["hen", "owl"], ["a.jpg", os.fsdecode(b"\xff.jpg")])
    path = write(FeatureTable(np.eye(2), ["hen", "owl"]), tmp_path / "a.parquet")
    before = contents(tmp_path)
    with pytest.raises(
        ValueError, match=r"a.parquet': path .* of row 1 is not valid Unicode: rename it, or write .npz"
    ):
        write(odd, path)
    assert contents(tmp_path) == before
    assert_same(read(write(odd, tmp_path / "a.npz")), odd)


def test_npy_refuses_what_it_cannot_hold(tmp_path, birds):
    with pytest.raises(ValueError, match=r"no place for paths or splits: write .npz"):
        write(birds, tmp_path / "a.npy")
    assert list(tmp_path.iterdir()) == []


def test_features_and_labels_of_npy_are_replaced_together(tmp_path):
    """The features are moved, then the labels cannot be: the features come back."""
    write(FeatureTable(np.eye(2), ["hen", "owl"]), tmp_path / "a.npy")
    (tmp_path / "a.labels.npy").unlink()
    before = contents(tmp_path)
    assert set(before) == {"a.npy"}
    for name in ("a", "b"):  # one was there before, the other was not
        (tmp_path / f"{name}.labels.npy").mkdir()
        with pytest.raises(OSError, match="the features were not written"):
            write(FeatureTable(np.ones((3, 2)), [1, 2, 3]), tmp_path / f"{name}.npy")
        assert (tmp_path / f"{name}.labels.npy").is_dir()
    assert contents(tmp_path) == before


def test_a_folder_is_not_replaced_by_a_file(tmp_path, birds):
    (tmp_path / "parts.parquet").mkdir()
    (tmp_path / "parts.parquet" / "0.parquet").write_bytes(b"PAR1")
    with pytest.raises(OSError, match="the features were not written: Is a directory"):
        write(birds, tmp_path / "parts.parquet")
    assert contents(tmp_path) == {"parts.parquet/0.parquet": b"PAR1"}


# ---- in memory


def test_labels_of_every_kind():
    def labels(values) -> list:
        return FeatureTable(np.eye(2), values).labels.tolist()

    assert labels([b"hen", "owl"]) == ["hen", "owl"]
    assert labels(np.array([1.0, 2.0])) == [1, 2]
    assert labels([True, False]) == [1, 0]
    assert labels(pd.Series(["a", "b"], dtype="category")) == ["a", "b"]
    assert labels(pl.Series(["a", "b"])) == ["a", "b"]
    assert labels(np.array(["a", "b"], dtype=np.dtypes.StringDType())) == ["a", "b"]
    for missing in ([1, None], np.array([1, np.nan]), [1, -1]):
        assert labels(missing) == [1, -1]
    for missing in (["a", None], pd.Series(["a", pd.NA]), ["a", ""], ["a ", " "], ["a", "-1"]):
        assert labels(missing) == ["a", None]
    infinite = np.array([1, np.inf]), "label of row 1 is inf"
    for wrong, said in (
        infinite,
        (["a", 1], "several types"),
        ([2**70, 1], "64-bit"),
        ([(1,), (2,)], "shape"),
        ("ab", "shape"),
    ):
        with pytest.raises(ValueError, match=said):
            labels(wrong)


def test_missing_paths_are_empty():
    assert FeatureTable(np.eye(3), [1, 2, 3], ["a", None, b"c"]).paths.tolist() == ["a", "", "c"]
    with pytest.raises(ValueError, match="path of row 1 is a list"):
        FeatureTable(np.eye(2), [1, 2], np.array(["a", ["b"]], dtype=object))


def test_features_must_be_rows():
    with pytest.raises(ValueError, match=r"shape \(2, 2, 2\): rows of features"):
        FeatureTable(np.ones((2, 2, 2)), [1, 2])


def test_classes_and_counts_agree_with_a_count_by_hand(birds):
    assert birds.classes.tolist() == ["hen", "owl", "tit"]
    assert birds.counts == {"hen": 3, "owl": 2, "tit": 1}
    assert len(birds) == 6
    assert birds.dimension == 4
    assert repr(birds) == "<FeatureTable birds: 6 items of 3 classes, 4 features>"


def test_the_mean_is_summed_in_double_precision():
    """A float32 running sum of 2^24 and ones stays at 2^24."""
    features = np.ones((5001, 1), np.float32)
    features[0] = 2.0**24
    mean = FeatureTable(features, np.zeros(5001, int)).mean
    assert mean.dtype == np.float32
    assert mean[0] == np.float32((2.0**24 + 5000) / 5001)


def test_select_keeps_rows_together(birds):
    part = birds.select(split="train", classes=["owl"])
    assert part.paths.tolist() == ["birds/1.jpg", "birds/4.jpg"]
    np.testing.assert_array_equal(part.features, birds.features[[1, 4]])
    assert part.base_mean.tolist() == birds.base_mean.tolist()
    assert birds.select(classes="tit").labels.tolist() == ["tit"]
    assert birds.select(split=["train", "test"]).labels.tolist() == birds.labels.tolist()
    numbers = FeatureTable(np.eye(3), [5, 6, 5])
    assert numbers.select(classes=np.array([5])).labels.tolist() == [5, 5]
    assert numbers.select(classes={6}).labels.tolist() == [6]


def test_select_names_what_is_not_there(birds):
    with pytest.raises(ValueError, match="birds has no split 'val': there are 'test', 'train'"):
        birds.select(split="val")
    with pytest.raises(ValueError, match="no class 'cat': there are 'hen', 'owl', 'tit'"):
        birds.select(classes=["hen", "cat"])
    with pytest.raises(ValueError, match="no split 'train': there are none"):
        FeatureTable(np.eye(2), [1, 2]).select(split="train")
    with pytest.raises(ValueError, match="nothing is left"):
        birds.select(split="train", classes="tit")


def test_describe_counts_what_was_put_in():
    features = np.array([[3.0, 4.0], [0.0, 0.0], [3.0, 4.0], [-0.0, 0.0], [6.0, 8.0]])
    others = {"id": np.arange(5)}
    labels, splits = ["a", "a", "b", "c", "a"], ["x", "x", "y", "y", "y"]
    said = describe(FeatureTable(features, labels, splits=splits, name="n", base_mean=[5.0, 12.0], others=others))
    assert said == {
        "name": "n",
        "items": 5,
        "unlabelled": 0,
        "classes": 3,
        "counts": {"a": 3, "b": 1, "c": 1},
        "items_per_class": {"min": 1, "median": 1.0, "max": 3},
        "dimension": 2,
        "dtype": "float64",
        "norms": {"min": 0.0, "median": 5.0, "max": 10.0},
        "mean_norm": pytest.approx(np.hypot(12 / 5, 16 / 5)),
        "base_mean_norm": 13.0,
        "zero_rows": 2,
        "duplicate_rows": 2,  # zero is zero, whatever its sign
        "ways": {1: 0, 5: 0, 10: 0},
        "paths": False,
        "splits": {"x": 2, "y": 3},
        "columns": None,
        "others": ["id"],
        "set_aside": [],
    }
    assert json.loads(json.dumps(said))["items"] == 5


def test_the_tasks_described_can_be_drawn_and_no_larger_ones():
    counts = [16] * 2 + [20] * 3 + [25] * 7  # 12 classes with enough items for 1 shot, 10 for 5, 7 for 10
    labels = np.repeat(np.arange(12), counts)
    found = FeatureTable(np.random.default_rng(0).normal(size=(len(labels), 3)), labels)
    ways = describe(found)["ways"]
    assert ways == {1: 7, 5: 5, 10: 2}
    for shots, most in ways.items():
        enough = found.select(classes=[k for k, count in found.counts.items() if count >= shots + 15])
        task = draw(enough.features, enough.labels, Protocol(ways=most, shots=shots), tasks=1).task
        assert task.ways == most
        with pytest.raises(ValueError, match="need"):
            draw(enough.features, enough.labels, Protocol(ways=most + 1, shots=shots), tasks=1)
