"""Files of features that are damaged, wrong or lie: each is refused in a sentence, and no code of it runs."""

import io
import json
import os
import pickle
import struct
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from handful.features import FeatureTable, read, write
from handful.utils.limits import max_bytes

EYE = np.eye(4, dtype=np.float32)
LABELS = np.array(["hen", "hen", "owl", "owl"])
DEEP = "[" * 100_000
NAN = float("nan")


def refused(path, words="", **names):
    """The file is refused in a sentence that names it and has these words."""
    with pytest.raises(ValueError) as refusal:
        read(path, warn=False, **names)
    text = str(refusal.value)
    assert str(path) in text, (path, text)
    assert words in text, (words, text)
    assert len(text.replace(str(path), "")) < 700, (path, text)
    assert text.isprintable(), (path, text)


def make(path, content):
    """A file of this kind with this content."""
    if isinstance(content, pa.Table):
        parquet.write_table(content, path)
    elif path.suffix == ".npz" and isinstance(content, dict):
        np.savez(path, **content)
    elif path.suffix == ".npz":
        buffer = io.BytesIO()
        np.save(buffer, LABELS)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("features.npy", content)
            archive.writestr("labels.npy", buffer.getvalue())
    elif path.suffix == ".pkl":
        path.write_bytes(pickle.dumps(content))
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def npy(shape="(4, 4)", kind="'<f4'", data=bytes(64), version=b"\x01\x00") -> bytes:
    """A .npy file with any header."""
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode("latin1")
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + data


ARRAYS = [  # as .npy, and as the features of a .npz
    (npy("(1000000000000, 900)"), "more than the limit"),
    (npy("(-4, -4)"), "damaged"),
    (npy(kind="'|O'"), "Python objects, which could run code"),
    (npy("(8,)", "[('a', '<f4'), ('b', '<f4')]"), "one plain type is needed"),
    (npy(kind="__import__('os').system('true')"), "damaged"),
    (b"\x93NUMPY\x01\x00\x20\x00" + b"__import__('os').abort()".ljust(31) + b"\n" + bytes(64), "damaged"),
    (npy(version=b"\x09\x09"), "only 1.0 and 2.0 are read"),
    (npy("(4000, 4)"), "damaged"),
    (b"", "damaged"),
    (b"GIF89a" + bytes(100), "damaged"),
    (npy("(2, 2, 4)"), "shape (2, 2, 4): rows of features are needed"),
    (npy("(4, 2)", "'<c8'"), ""),
    (npy(data=struct.pack("<16f", *[NAN] * 16)), "NaN at row 0, column 0"),
]


def table(metadata=None, **columns):
    made = {"embedding": EYE.tolist(), "label": LABELS} | columns
    made = pa.table({name: values for name, values in made.items() if values is not None})
    return made if metadata is None else made.replace_schema_metadata(metadata)


def mean(content):
    return table({"handful.base_mean": json.dumps({"base_mean": content})})


def vectors(rows):
    return pa.table({"embedding": rows, "label": [1, 2, 3]})


TWICE = pa.Table.from_arrays([pa.array([[1.0]]), pa.array([1]), pa.array([2])], ["embedding", "label", "label"])
TABLES = [
    (mean("x"), "base mean"),
    (mean([1, 2, 3]), "base_mean has shape (3,) but items have 4 features"),
    (table(embedding=None, a=[1.0, 2.0, 3.0, 4.0], b=["1", "2", "3", "4"]), "column 'b' holds numbers as text"),
    (table(embedding=None, a=pa.array([1, None, 3, 4], pa.int64())), "NaN at row 1, column 0"),
    (mean([1, 2, 3, NAN]), "base_mean contains NaN"),
    (table(label=[["hen"]] * 4), "'label' holds list<"),
    (table(label=[1.0, 2.0, 1.5, 2.0]), "row 2 is 1.5: labels are integers or strings"),
    (table(embedding=pa.array([[0]] * 4, pa.list_(pa.date32()))), "a list of numbers in each row is needed"),
    (pa.table({"label": LABELS}), "no column 'embedding' and no column of numbers, only 'label'"),
    (TWICE, "more than one column 'label'"),
    (vectors([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0, 7.0]]), "2 numbers in row 0 but 3 in row 2"),
    (vectors([[1.0], None, [2.0]]), "no embedding in row 1"),
    (vectors(pa.array([[1.0], None, [2.0]], pa.list_(pa.float32(), 1))), "no embedding in row 1"),
    (vectors([[1.0, 2.0], [3.0, 4.0], [5.0, None]]), "no number in row 2, position 1"),
    (vectors([[1.0], [3.0], [NAN]]), "NaN at row 2, column 0"),
    (vectors([1.0, 2.0, 3.0]), "holds double: a list of numbers"),
    (vectors([["a"], ["b"], ["c"]]), "holds list<"),
    (vectors([[[1.0]], [[2.0]], [[3.0]]]), "a list of numbers in each row is needed"),
    (vectors(pa.array([[], [], []], pa.list_(pa.float32()))), "no features"),
]


def tensors(header, data=bytes(64 + 32)) -> bytes:
    header = json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + data


def entry(kind="F32", shape=(4, 4), ends=(0, 64)):
    return {"dtype": kind, "shape": list(shape), "data_offsets": list(ends)}


def set_header(features=None, labels=None, about=None):
    made = {"features": features or entry(), "labels": labels or entry("I64", (4,), (64, 96))}
    return made if about is None else made | {"__metadata__": {"handful": about}}


TENSORS = [
    (struct.pack("<Q", 10**6) + b"{}", "damaged"),
    (tensors(set_header(entry(shape=(4000, 4), ends=(0, 64000)))), "damaged"),
    (tensors(set_header(labels=entry("I64", (4,), (32, 64)))), "damaged"),
    (tensors(set_header(entry(shape=(8, 4)))), "damaged"),
    (tensors(set_header(entry("F17"))), "damaged"),
    (tensors(set_header(entry("BF16", (8, 4)))), "save it as float32"),
    (tensors({"labels": entry("I64", (12,), (0, 96))}), "no tensor 'features', only 'labels'"),
    (b"", "damaged"),
    (tensors(set_header(about="{")), "is not JSON"),
    (tensors(set_header(about='{"method": "eol"}')), "handful.load reads it"),
    (tensors(set_header(about='{"format": 99}')), "pip install -U handful"),
    (tensors(set_header(about='{"columns": "abcd"}')), "`columns` are not a list of texts"),
    (tensors(set_header(about='{"texts": {"path": ["x"]}}')), "4 rows of features but 1 paths"),
    (tensors(set_header(about='{"texts": {"path": "x"}}')), "`texts` are not lists by name"),
]
CELLS = [
    (f'embedding,label\n"{DEEP}",hen\n', "not a JSON list of numbers in row 0"),
    ('embedding,label\n"[1]",hen\n"[1, 2]",owl\n', "1 numbers in row 0 but 2 in row 1"),
    ('embedding,label\n"[1e999]",hen\n"[1]",owl\n', "infinity at row 0"),
    (b"label,a\n\xff\xfe,1\n", "not UTF-8 text, at byte"),
    ("", "it is empty"),
]
ARCHIVES = [
    ({"features": np.eye(3), "labels": np.arange(2)}, "3 rows of features but 2 labels"),
    ({"features": np.eye(3), "labels": np.ones((3, 1))}, "labels have shape (3, 1)"),
    ({"features": np.eye(3), "paths": np.array(["a"])}, "3 rows of features but 1 paths"),
    ({"features": np.eye(3), "labels": np.array([b"a", b"b", b"\xff"])}, "label of row 2 is b'\\xff', which is not"),
    ({"features": np.eye(3), "labels": np.array(["a", None, 1], object)}, "'labels' is an array of Python objects"),
    ({"features": np.empty((0, 4)), "labels": np.empty(0, int)}, "is empty"),
    ({"X": np.eye(2)}, "no array 'features', only 'X'"),
]
PICKLES = [
    ([np.eye(2)], "holds a list"),
    (np.eye(2), "holds an array of shape"),
    ({}, "no classes"),
    ({"hen": []}, "class 'hen' is a list"),
    ({"hen": 3}, "class 'hen' is a int"),
    ({"hen": np.ones(3)}, "class 'hen' is an array of shape (3,)"),
    ({"hen": [np.ones((2, 2, 2))]}, "class 'hen' is an array of shape (2, 2, 2)"),
    ({"hen": [np.ones(2), np.ones(3)]}, "class 'hen' has rows of several lengths"),
    ({"hen": np.eye(2), "owl": np.eye(3)}, "class 'owl' has 3 features in a row, but class 'hen' has 2"),
    ({"hen": np.eye(2), "owl": np.array([[0, 1], [NAN, 1]])}, "class 'owl' contains NaN at row 1, column 0"),
    ({("hen", 1): np.eye(2)}, "a class a tuple: names of classes are strings or integers"),
    ({"hen": np.array([["a", "b"]])}, "class 'hen'"),
    ({"hen": np.eye(1), 1: np.eye(1)}, "several types"),
    (pd.DataFrame({"a": [1]}), "asks for pandas"),
]
KINDS = {
    "npy": ARRAYS,
    "npz": ARRAYS + ARCHIVES,
    "parquet": TABLES,
    "safetensors": TENSORS,
    "csv": CELLS,
    "pkl": PICKLES,
}


def test_a_broken_file_is_refused_with_the_place_and_the_reason(tmp_path):
    for suffix, cases in KINDS.items():
        for number, (content, words) in enumerate(cases):
            refused(make(tmp_path / f"{number}.{suffix}", content), words)
    rows = pa.table({"embedding": [[1.0, 2.0]] * 5 + [[1.0]], "label": range(6)})
    parquet.write_table(rows, tmp_path / "a.parquet", row_group_size=2)
    refused(tmp_path / "a.parquet", "1 in row 5")


def test_damaged_files_and_things_that_are_no_files_are_refused(tmp_path):
    birds = FeatureTable(EYE, ["hen", "owl", "tit", "owl"])
    for name in ("set.parquet", "set.npz", "set.npy", "set.safetensors", "set.labels.npy"):
        path = write(birds, tmp_path / ("set.npy" if "npy" in name else name))
        whole = (tmp_path / name).read_bytes()
        for content in (b"", whole[:3], whole[: len(whole) // 2], b"hello, this is text and nothing else" * 9):
            (tmp_path / name).write_bytes(content)
            refused(path, "damaged")
    content = bytearray(write(birds, tmp_path / "a.npz").read_bytes())
    content[content.index(EYE.tobytes()) + 5] ^= 255
    (tmp_path / "a.npz").write_bytes(content)
    refused(tmp_path / "a.npz", "array 'features': Bad CRC")
    for suffix in KINDS:
        os.mkfifo(tmp_path / f"pipe.{suffix}")
        (tmp_path / f"device.{suffix}").symlink_to("/dev/zero")
        refused(tmp_path / f"pipe.{suffix}")
        refused(tmp_path / f"device.{suffix}")


def test_any_wrong_byte_is_refused_or_read_but_nothing_worse(tmp_path):
    """Bytes all over a file, one at a time; libraries in C could end the process on some."""
    for suffix, step in (("parquet", 15), ("npz", 15), ("npy", 5), ("safetensors", 9)):
        path = write(FeatureTable(np.eye(3, dtype=np.float32), ["hen", "owl", "hen"]), tmp_path / f"a.{suffix}")
        whole = path.read_bytes()
        places = range(0, len(whole), step)
        errors = 0
        for at in places:
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
            try:
                assert len(read(path)) >= 1
            except ValueError as error:
                errors += len(str(error)) < 1000
        assert errors > len(places) // 10


def test_wrong_folders_of_parts_are_refused(tmp_path):
    for number, (file, content) in enumerate(
        (
            ("shards.json", "{"),
            ("shards.json", '{"shards": "two"}'),
            ("shards.json", '{"shards": 1}'),
            ("part-999999999.parquet", ""),
            ("part-00002.parquet", "PAR1"),
            ("base_mean.json", '{"base_mean": "x"}'),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        for part in range(2):
            parquet.write_table(table(), folder / f"part-{part:05}.parquet")
        assert len(read(folder)) == 8
        (folder / file).write_text(content)
        refused(folder)


def test_the_limit_is_said_and_can_be_raised(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", features=np.ones((100, 100)), labels=[0, 1] * 50)
    monkeypatch.setenv("HANDFUL_MAX_BYTES", "64KB")
    refused(tmp_path / "a.npz", "78.1 KiB of memory, more than the limit of 64 KiB")
    refused(tmp_path / "a.npz", "HANDFUL_MAX_BYTES=79KB")
    monkeypatch.setenv("HANDFUL_MAX_BYTES", "79KB")
    assert len(read(tmp_path / "a.npz")) == 100
    for wrong in ("much", "-1", "0", "1 ZB", "1e9"):
        monkeypatch.setenv("HANDFUL_MAX_BYTES", wrong)
        refused(tmp_path / "a.npz", "give a number of bytes")
    for text, count in (("1", 1), ("1.5 GiB", 3 * 2**29), ("2kb", 2048), ("3T", 3 * 2**40)):
        monkeypatch.setenv("HANDFUL_MAX_BYTES", text)
        assert max_bytes() == count
