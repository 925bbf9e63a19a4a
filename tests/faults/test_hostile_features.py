"""Files of features that are damaged or lie: each is refused in a sentence, and no code of it runs."""

import io
import json
import os
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from handful.features import FeatureTable, read, write
from handful.utils.limits import max_bytes

EYE = np.eye(4, dtype=np.float32)
LABELS = np.array(["hen", "hen", "owl", "owl"])
DEEP = "[" * 100_000


def refuse(paths):
    """Each file is refused in a sentence that names it."""
    for path in paths:
        with pytest.raises(ValueError, match=r".") as refusal:
            read(path, warn=False)
        text = str(refusal.value)
        assert str(path) in text, (path, text)
        assert len(text.replace(str(path), "")) < 700, (path, text)
        assert text.isprintable(), (path, text)


def npy(shape="(4, 4)", kind="'<f4'", order="False", data=bytes(64), version=b"\x01\x00", extra="") -> bytes:
    """A .npy file with any header."""
    header = f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}, {extra}}}\n".encode("latin1")
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", len(header) % 2**16)
    return b"\x93NUMPY" + version + size + header + data


def as_npz(path, features, labels=None):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("features.npy", features)
        buffer = io.BytesIO()
        np.save(buffer, LABELS)
        archive.writestr("labels.npy", buffer.getvalue() if labels is None else labels)


ARRAYS = {
    "petabytes": npy("(1000000000000, 900)"),
    "a negative side": npy("(-4, -4)"),
    "Python objects": npy(kind="'|O'"),
    "fields": npy("(8,)", "[('a', '<f4'), ('b', '<f4')]"),
    "a type that is code": npy(kind="__import__('os').system('true')"),
    "a header that is code": b"\x93NUMPY\x01\x00\x20\x00" + b"__import__('os').abort()".ljust(31) + b"\n" + bytes(64),
    "a version that does not exist": npy(version=b"\x09\x09"),
    "fewer numbers than it says": npy("(4000, 4)"),
    "nothing": b"",
    "another file": b"GIF89a" + bytes(100),
    "three axes": npy("(2, 2, 4)"),
    "complex numbers": npy("(4, 2)", "'<c8'"),
    "numbers that are none": npy(data=struct.pack("<16f", *[float("nan")] * 16)),
}


def test_hostile_arrays_are_refused(tmp_path):
    paths = []
    for i, content in enumerate(ARRAYS.values()):
        paths.append(tmp_path / f"{i}.npz")
        as_npz(paths[-1], content)
        paths.append(tmp_path / f"{i}.npy")
        paths[-1].write_bytes(content)
        np.save(tmp_path / f"{i}.labels.npy", LABELS)
    for name in ("petabytes", "Python objects", "nothing", "three axes"):
        paths.append(tmp_path / f"labels {name}.npz")
        as_npz(paths[-1], npy(), labels=ARRAYS[name])
    refuse(paths)


def test_damaged_archives_and_things_that_are_no_files_are_refused(tmp_path):
    as_npz(tmp_path / "whole.npz", npy())
    whole = (tmp_path / "whole.npz").read_bytes()
    for content in (whole.replace(bytes(32), b"\1" + bytes(31), 1), whole[:100]):
        (tmp_path / "a.npz").write_bytes(content)
        refuse([tmp_path / "a.npz"])
    for suffix in ("npz", "npy", "parquet", "csv", "safetensors", "pkl"):
        os.mkfifo(tmp_path / f"pipe.{suffix}")
        (tmp_path / f"device.{suffix}").symlink_to("/dev/zero")
        refuse([tmp_path / f"pipe.{suffix}", tmp_path / f"device.{suffix}"])


# ---- Parquet


def table(metadata=None, **columns):
    made = pa.table({"embedding": EYE.tolist(), "label": LABELS} | columns)
    return made if metadata is None else made.replace_schema_metadata(metadata)


def mean(content):
    return table({"handful.base_mean": json.dumps({"base_mean": content})})


TABLES = {
    "a mean that is a text": mean("x"),
    "a mean of texts": mean(["a", "b", "c", "d"]),
    "a mean that is not a number": mean([1, 2, 3, float("nan")]),
    "labels that are lists": table(label=[["hen"]] * 4),
    "no embeddings": pa.table({"label": LABELS}),
    "embeddings of dates": table(embedding=pa.array([[0]] * 4, pa.list_(pa.date32()))),
}


def test_hostile_parquet_files_are_refused(tmp_path):
    for name, content in TABLES.items():
        parquet.write_table(content, tmp_path / f"{name}.parquet")
        refuse([tmp_path / f"{name}.parquet"])
    parquet.write_table(table(), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for content in (b"", b"PAR1" + bytes(4) + b"PAR1", whole[:-20], whole[:-2000] + bytes(1992) + whole[-8:]):
        (tmp_path / "a.parquet").write_bytes(content)
        refuse([tmp_path / "a.parquet"])


def test_any_wrong_byte_is_refused_or_read_but_nothing_worse(tmp_path):
    """Bytes all over a file, one at a time; libraries in C could end the process on some."""
    for suffix, step in (("parquet", 15), ("npz", 15), ("npy", 5), ("safetensors", 9)):
        path = write(FeatureTable(np.eye(3, dtype=np.float32), ["hen", "owl", "hen"]), tmp_path / f"a.{suffix}")
        whole = path.read_bytes()
        places = range(0, len(whole), step)
        refused = 0
        for at in places:
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
            try:
                assert len(read(path)) >= 1
            except ValueError as error:
                refused += len(str(error)) < 1000
        assert refused > len(places) // 10


# ---- .safetensors


def tensors(header, data=bytes(64 + 32)) -> bytes:
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + data


def entry(kind="F32", shape=(4, 4), ends=(0, 64)):
    return {"dtype": kind, "shape": list(shape), "data_offsets": list(ends)}


def set_header(features=None, labels=None, **about):
    made = {"features": features or entry(), "labels": labels or entry("I64", (4,), (64, 96))}
    return made | ({"__metadata__": {"handful": json.dumps(about)}} if about else {})


TENSORS = {
    "a header longer than the file": struct.pack("<Q", 10**6) + b"{}",
    "a tensor beyond the end": tensors(set_header(entry(shape=(4000, 4), ends=(0, 64000)))),
    "tensors in each other": tensors(set_header(labels=entry("I64", (4,), (32, 64)))),
    "a shape that does not fit": tensors(set_header(entry(shape=(8, 4)))),
    "an unknown type": tensors(set_header(entry("F17"))),
    "bfloat16": tensors(set_header(entry("BF16", (8, 4)))),
    "no features": tensors({"labels": entry("I64", (12,), (0, 96))}),
    "names that are a text": tensors(set_header(columns="abcd")),
    "nothing": b"",
}


def test_hostile_safetensors_files_are_refused(tmp_path):
    paths = [tmp_path / f"{i}.safetensors" for i in range(len(TENSORS))]
    for path, content in zip(paths, TENSORS.values(), strict=True):
        path.write_bytes(content)
    refuse(paths)


# ---- folders


PARTS = {
    "a plan that is no JSON": ("shards.json", "{"),
    "a plan of a text": ("shards.json", '{"shards": "two"}'),
    "a plan of fewer parts": ("shards.json", '{"shards": 1}'),
    "a part of a large number": ("part-999999999.parquet", ""),
    "a part that is no parquet": ("part-00002.parquet", "PAR1"),
    "a mean that is a text": ("base_mean.json", '{"base_mean": "x"}'),
}


def test_hostile_folders_of_parts_are_refused(tmp_path):
    paths = [tmp_path / str(i) for i in range(len(PARTS))]
    for path, (file, content) in zip(paths, PARTS.values(), strict=True):
        path.mkdir()
        for number in range(2):
            parquet.write_table(table(), path / f"part-{number:05}.parquet")
        assert len(read(path)) == 8
        (path / file).write_text(content)
    refuse(paths)


# ---- tables that are labelled

PILES = {
    "an embedding as deep as can be": f'embedding,label\n"{DEEP}",hen\n',
    "an embedding of two lengths": 'embedding,label\n"[1]",hen\n"[1, 2]",owl\n',
    "an embedding without an end": 'embedding,label\n"[1e999]",hen\n"[1]",owl\n',
    "not UTF-8": b"label,a\n\xff\xfe,1\n",
    "nothing": "",
}


def test_hostile_tables_are_refused(tmp_path):
    paths = [tmp_path / f"{i}.csv" for i in range(len(PILES))]
    for path, content in zip(paths, PILES.values(), strict=True):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refuse(paths)


# ---- honest files


def test_honest_files_that_look_strange_are_read(tmp_path):
    rng = np.random.default_rng(0)
    wide = {f"c{i}": rng.normal(size=3) for i in range(3000)}
    parquet.write_table(pa.table(wide), tmp_path / "wide.parquet")
    np.testing.assert_array_equal(read(tmp_path / "wide.parquet").features.T, np.stack([*wide.values()]))
    np.save(tmp_path / "f.npy", np.asfortranarray(EYE + 0.5))
    np.testing.assert_array_equal(read(tmp_path / "f.npy").features, EYE + 0.5)
    names = np.array([f"{'long' * 50}-{i}" for i in range(2000)])
    parquet.write_table(
        table(label=names, embedding=rng.normal(size=(2000, 2)).tolist()), tmp_path / "a.parquet",
        use_dictionary=False, row_group_size=300, column_encoding={"label": "DELTA_BYTE_ARRAY"},
    )  # fmt: skip
    assert read(tmp_path / "a.parquet").labels.tolist() == names.tolist()


def test_the_limit_is_said_and_can_be_raised(tmp_path, monkeypatch, handful):
    np.savez(tmp_path / "a.npz", features=np.ones((100, 100)), labels=[0, 1] * 50)
    monkeypatch.setenv("HANDFUL_MAX_BYTES", "64KB")
    done = handful("info", "a.npz")
    assert done.returncode == 1
    assert "78.1 KiB of memory, more than the limit of 64 KiB" in done.stderr
    assert "HANDFUL_MAX_BYTES=79KB" in done.stderr
    monkeypatch.setenv("HANDFUL_MAX_BYTES", "79KB")
    assert handful("info", "a.npz").returncode == 0
    for wrong in ("much", "-1", "0", "1 ZB", "1e9"):
        monkeypatch.setenv("HANDFUL_MAX_BYTES", wrong)
        assert "give a number of bytes" in handful("info", "a.npz").stderr
    for text, count in (("1", 1), ("1.5 GiB", 3 * 2**29), ("2kb", 2048), ("3T", 3 * 2**40)):
        monkeypatch.setenv("HANDFUL_MAX_BYTES", text)
        assert max_bytes() == count
