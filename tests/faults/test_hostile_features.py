"""Files of features that attack their reader: each is refused in a sentence, and no code of it runs."""

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


def as_npz(path, features, labels=None, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("features.npy", features)
        buffer = io.BytesIO()
        np.save(buffer, LABELS)
        archive.writestr("labels.npy", buffer.getvalue() if labels is None else labels)


ARRAYS = {
    "petabytes": npy("(1000000000000, 900)"),
    "more bytes than a machine can count": npy("(1099511627776, 1099511627776)"),
    "hundreds of digits": npy(f"({'9' * 400}, 4)"),
    "9,000 axes": npy(f"({'1,' * 4000})"),
    "a negative side": npy("(-4, -4)"),
    "sides that are yes and no": npy("(True, True)"),
    "a side with a fraction": npy("(4.0, 4)"),
    "a shape that is a number": npy("4"),
    "Python objects": npy(kind="'|O'"),
    "objects in a field": npy(kind="[('a', '|O')]"),
    "fields": npy("(8,)", "[('a', '<f4'), ('b', '<f4')]"),
    "arrays of arrays": npy("(1,)", "('<f4', (16,))"),
    "texts of two gigabytes": npy("(1, 1)", "'<U500000000'"),
    "an unknown type": npy(kind="'<f5'"),
    "a type that is code": npy(kind="__import__('os').system('true')"),
    "a header that is code": b"\x93NUMPY\x01\x00\x20\x00" + b"__import__('os').abort()".ljust(31) + b"\n" + bytes(64),
    "nested brackets": npy("(" * 3000 + ")" * 3000),
    "a header without an end": b"\x93NUMPY\x01\x00\xff\xff{",
    "a header of gigabytes": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
    "a header of a megabyte": npy(version=b"\x02\x00", extra=f"'a': '{'x' * 10**6}'"),
    "an unknown entry": npy(extra="'a': 1"),
    "a version that does not exist": npy(version=b"\x09\x09"),
    "fewer numbers than it says": npy("(4000, 4)"),
    "nothing": b"",
    "half a header": npy()[:20],
    "another file": b"GIF89a" + bytes(100),
    "three axes": npy("(2, 2, 4)"),
    "complex numbers": npy("(4, 2)", "'<c8'"),
    "dates": npy("(4, 2)", "'<M8[s]'"),
    "numbers that are none": npy(data=struct.pack("<16f", *[float("nan")] * 16)),
    "endless numbers": npy(data=struct.pack("<16f", *[float("inf")] * 16)),
}


def test_hostile_arrays_are_refused(tmp_path):
    paths = []
    for i, content in enumerate(ARRAYS.values()):
        for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            paths.append(tmp_path / f"{i}-{compression}.npz")
            as_npz(paths[-1], content, compression=compression)
        paths.append(tmp_path / f"{i}.npy")
        paths[-1].write_bytes(content)
        np.save(tmp_path / f"{i}.labels.npy", LABELS)
    for name in ("petabytes", "Python objects", "fields", "nothing", "another file", "three axes"):
        paths.append(tmp_path / f"labels {name}.npz")
        as_npz(paths[-1], npy(), labels=ARRAYS[name])
    refuse(paths)


def a_list_of_gigabytes(path):
    as_npz(path, npy())
    data = bytearray(path.read_bytes())
    end = data.index(b"PK\x05\x06")
    struct.pack_into("<I", data, end + 12, 2**32 - 2)
    path.write_bytes(data)


def encrypted(path):
    as_npz(path, npy())
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)


def a_wrong_checksum(path):
    as_npz(path, npy())
    path.write_bytes(path.read_bytes().replace(bytes(32), b"\1" + bytes(31), 1))


def cut_off(path):
    as_npz(path, npy())
    path.write_bytes(path.read_bytes()[:100])


def a_pipe(path):
    os.mkfifo(path)


def a_device(path):
    path.symlink_to("/dev/zero")


ARCHIVES = [a_list_of_gigabytes, encrypted, a_wrong_checksum, cut_off, a_pipe, a_device]


def test_hostile_archives_are_refused(tmp_path):
    paths = [tmp_path / f"{make.__name__}.npz" for make in ARCHIVES]
    for make, path in zip(ARCHIVES, paths, strict=True):
        make(path)
    refuse(paths)


# ---- Parquet


def table(metadata=None, **columns):
    made = pa.table({"embedding": EYE.tolist(), "label": LABELS} | columns)
    return made if metadata is None else made.replace_schema_metadata(metadata)


def hugging(features):
    return {"huggingface": features if isinstance(features, str) else json.dumps({"info": {"features": features}})}


def class_label(names):
    return table(hugging({"label": {"_type": "ClassLabel", "names": names}}), label=[0, 0, 1, 1])


def mean(text):
    return table({"handful.base_mean": text if isinstance(text, str) else json.dumps({"base_mean": text})})


TABLES = {
    "too few names": lambda: class_label(["hen"]),
    "a mean that is a text": lambda: mean("x"),
    "a mean as deep as can be": lambda: mean(DEEP),
    "a mean of texts": lambda: mean(["a", "b", "c", "d"]),
    "a mean of objects": lambda: mean({"a": 1}),
    "a mean of another length": lambda: mean([1.0, 2.0]),
    "a mean that is none": lambda: mean([1.0, None, 2.0, 3.0]),
    "a mean that is not a number": lambda: mean('{"base_mean": [1, 2, 3, NaN]}'),
    "a mean of numbers without an end": lambda: mean('{"base_mean": [1, 2, 3, 1e999]}'),
    "labels that are lists": lambda: table(label=[["hen"]] * 4),
    "labels that are objects": lambda: table(label=[{"a": 1}] * 4),
    "no embeddings": lambda: pa.table({"label": LABELS}),
    "no rows": lambda: table(label=pa.array([], pa.string()), embedding=pa.array([], pa.list_(pa.float32()))),
    "a missing embedding": lambda: table(embedding=[[1.0], None, [1.0], [1.0]]),
    "a missing number": lambda: table(embedding=[[1.0], [None], [1.0], [1.0]]),
    "embeddings of two lengths": lambda: table(embedding=[[1.0], [1.0, 2.0], [1.0], [1.0]]),
    "embeddings of no length": lambda: table(embedding=pa.array([[]] * 4, pa.list_(pa.float32()))),
    "embeddings in embeddings": lambda: table(embedding=[[[1.0]]] * 4),
    "embeddings of texts": lambda: table(embedding=[["1"]] * 4),
    "embeddings of dates": lambda: table(embedding=pa.array([[0]] * 4, pa.list_(pa.date32()))),
    "two columns of labels": lambda: pa.Table.from_arrays(
        [pa.array(EYE.tolist()), pa.array(LABELS), pa.array(LABELS)], ["embedding", "label", "label"]
    ),
    "names of a megabyte": lambda: pa.table({"x" * 10**6: [1.0]}),
}  # fmt: skip


def test_hostile_parquet_files_are_refused(tmp_path):
    paths = [tmp_path / f"{i}.parquet" for i in range(len(TABLES) + len(FILES))]
    for make, path in zip((*TABLES.values(), *FILES.values()), paths, strict=True):
        parquet.write_table(make(), path) if make in TABLES.values() else make(path)
    refuse(paths)


def with_footer(change):
    """A file whose description was changed."""

    def make(path):
        parquet.write_table(table(), path)
        data = path.read_bytes()
        length = int.from_bytes(data[-8:-4], "little")
        footer = change(bytearray(data[-8 - length : -8]))
        path.write_bytes(data[: -8 - length] + footer + struct.pack("<I", len(footer)) + b"PAR1")

    return make


def with_tail(tail):
    def make(path):
        parquet.write_table(table(), path)
        path.write_bytes(path.read_bytes()[: -len(tail)] + tail)

    return make


FILES = {
    "a description of gigabytes": with_tail(b"\xff\xff\xff\xffPAR1"),
    "another end": with_tail(b"PARE"),
    "a description of nothing": with_footer(lambda footer: b""),
    "a description that ends at once": with_footer(lambda footer: b"\x00"),
    "half a description": with_footer(lambda footer: footer[: len(footer) // 2]),
    "a list of two billion row groups": with_footer(lambda footer: b"\x49\xfc\xff\xff\xff\xff\x07"),
    "a text of two gigabytes": with_footer(lambda footer: b"\x68\xff\xff\xff\xff\x07"),
    "structs in structs": with_footer(lambda footer: b"\x1c" * 100_000),
    "lists in lists": with_footer(lambda footer: b"\x19" * 100_000),
    "a number without an end": with_footer(lambda footer: b"\x15" + b"\xff" * 1000),
    "empty structs": with_footer(lambda footer: b"\x15\x04\x39\xfc\xc0\x84\x3d" + bytes(10**6)),
    "nothing": lambda path: path.write_bytes(b""),
    "only a beginning": lambda path: path.write_bytes(b"PAR1"),
    "a beginning and an end": lambda path: path.write_bytes(b"PAR1" + bytes(4) + b"PAR1"),
    "noise": lambda path: path.write_bytes(b"PAR1" + np.random.default_rng(0).bytes(4000) + b"\xa0\x0f\0\0PAR1"),
    "a pipe": a_pipe,
    "a device": a_device,
}


def test_any_wrong_byte_is_refused_or_read_but_nothing_worse(tmp_path):
    """Bytes all over a file, one at a time; libraries in C could end the process on some."""
    for suffix, step in (("parquet", 5), ("npz", 9), ("npy", 5), ("safetensors", 5)):
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


def noted(text):
    return set_header() | {"__metadata__": {"handful": text}}


TENSORS = {
    "a header of exabytes": struct.pack("<Q", 2**63) + b"{}",
    "a header longer than the file": struct.pack("<Q", 10**6) + b"{}",
    "a header that is no JSON": tensors(b"{{{{"),
    "a header that is a list": tensors(b"[]"),
    "a header as deep as can be": tensors(DEEP.encode()),
    "a header that is not UTF-8": tensors(b'{"\xff\xfe": 1}'),
    "a tensor beyond the end": tensors(set_header(entry(shape=(4000, 4), ends=(0, 64000)))),
    "tensors in each other": tensors(set_header(labels=entry("I64", (4,), (32, 64)))),
    "a shape that does not fit": tensors(set_header(entry(shape=(8, 4)))),
    "a shape that overflows": tensors(set_header(entry(shape=(2**62, 2**62)))),
    "a negative shape": tensors(set_header(entry(shape=(-4, -4)))),
    "ends that are exchanged": tensors(set_header(entry(ends=(64, 0)))),
    "an unknown type": tensors(set_header(entry("F17"))),
    "a type of 8 bits": tensors(set_header(entry("F8_E4M3", (16, 4)))),
    "bfloat16": tensors(set_header(entry("BF16", (8, 4)))),
    "no features": tensors({"labels": entry("I64", (12,), (0, 96))}),
    "a note that is no JSON": tensors(noted("{")),
    "a note that is a list": tensors(noted("[]")),
    "a note that is a number": tensors(noted("7")),
    "a note as deep as can be": tensors(noted(DEEP)),
    "a note that is no text": tensors(set_header() | {"__metadata__": {"handful": 7}}),
    "a format of the future": tensors(set_header(format=10**30)),
    "paths that are a text": tensors(set_header(texts={"path": "abcd"})),
    "texts that are a list": tensors(set_header(texts=["a"])),
    "paths that are lists": tensors(set_header(texts={"path": [["a"], ["b"], ["c"], ["d"]]})),
    "too few paths": tensors(set_header(texts={"path": ["a"]})),
    "names that are a text": tensors(set_header(columns="abcd")),
    "nothing": b"",
    "seven bytes": bytes(7),
}


def test_hostile_safetensors_files_are_refused(tmp_path):
    paths = [tmp_path / f"{i}.safetensors" for i in range(len(TENSORS))]
    for path, content in zip(paths, TENSORS.values(), strict=True):
        path.write_bytes(content)
    refuse(paths)


# ---- folders


PARTS = {
    "a plan that is no JSON": ("shards.json", "{"),
    "a plan that is a list": ("shards.json", "[]"),
    "a plan of a text": ("shards.json", '{"shards": "two"}'),
    "a plan of yes": ("shards.json", '{"shards": true}'),
    "a plan of fewer than none": ("shards.json", '{"shards": -1}'),
    "a plan of a googol": ("shards.json", f'{{"shards": 1{"0" * 100}}}'),
    "a plan of fewer parts": ("shards.json", '{"shards": 1}'),
    "a part of a large number": ("part-999999999999999999.parquet", ""),
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
    "an embedding of texts": 'embedding,label\n"[""a""]",hen\n',
    "an embedding of two lengths": 'embedding,label\n"[1]",hen\n"[1, 2]",owl\n',
    "an embedding without an end": 'embedding,label\n"[1e999]",hen\n"[1]",owl\n',
    "zeros": "\0" * 10_000,
    "quotes that do not end": 'label,a\n"' + "x" * 10**6,
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
    """Large of their kind, compressed well, of other types; what they hold is as it was."""
    rng = np.random.default_rng(0)
    wide = {f"c{i}": rng.normal(size=3) for i in range(3000)}
    parquet.write_table(pa.table(wide), tmp_path / "wide.parquet")

    np.testing.assert_array_equal(read(tmp_path / "wide.parquet").features.T, np.stack([*wide.values()]))
    np.save(tmp_path / "f.npy", np.asfortranarray(EYE + 0.5))
    np.save(tmp_path / "f.labels.npy", LABELS)
    np.testing.assert_array_equal(read(tmp_path / "f.npy").features, EYE + 0.5)
    names = np.array([f"{'long' * 50}-{i}" for i in range(2000)])
    for encoding in ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"):
        parquet.write_table(
            table(label=names, embedding=rng.normal(size=(2000, 2)).tolist()), tmp_path / "a.parquet",
            use_dictionary=False, row_group_size=300, data_page_version="2.0",
            column_encoding={"label": encoding, "embedding.list.element": "BYTE_STREAM_SPLIT"},
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
