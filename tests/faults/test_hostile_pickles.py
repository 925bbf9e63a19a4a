"""Pickles and torch files of strangers: no code of them runs, no file is touched, and each fault is a sentence."""

import codecs
import io
import os
import pickle
import struct
import sys
import zipfile
from collections import OrderedDict
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from handful.utils import unpickling
from handful.utils.unpickling import load_plain, load_torch

MAX_CHARACTERS = 500  # of a message
HARMLESS = ("object.", "builtins.id", "sys.", "gc.", "cpython.")  # events that reading anything may cause
POINTER = struct.pack("<qq", 0x4141414141414141, 7)

# ---- files written by hand


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def numbers(values) -> bytes:
    return b"(" + b"".join(map(number, values)) + b"t"


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def dtype(code: str = "f4", order: bytes = text("<"), rest: bytes = b"NNN") -> bytes:
    return name("numpy", "dtype") + text(code) + b"\x85R(K\x03" + order + rest + number(-1) * 2 + b"K\x00tb"


def array(data: bytes = bytes(16), shape=(2, 2), kind: bytes | None = None, filled: bytes | None = None) -> bytes:
    made = name("numpy._core.multiarray", "_reconstruct") + name("numpy", "ndarray") + b"K\x00\x85C\x01b\x87R(K\x01"
    filled = b"B" + struct.pack("<I", len(data)) + data if filled is None else filled
    return made + numbers(shape) + (kind or dtype()) + b"\x89" + filled + b"tb"


def scalar(kind: bytes, data: bytes) -> bytes:
    return name("numpy._core.multiarray", "scalar") + kind + b"C" + bytes([len(data)]) + data + b"\x86R"


def storage(key: str = "0", count: int = 6, kind: str = "FloatStorage", end: bytes = b"Nt") -> bytes:
    return b"(" + text("storage") + name("torch", kind) + text(key) + text("cpu") + number(count) + end + b"Q"


def tensor(described: bytes | None = None, shape=(2, 3), strides=(3, 1), offset: int = 0) -> bytes:
    where = number(offset) + numbers(shape) + numbers(strides)
    return name("torch._utils", "_rebuild_tensor_v2") + b"(" + (described or storage()) + where + b"\x89}tR"


def dictionary(items: dict[str, bytes]) -> bytes:
    return b"\x80\x02}(" + b"".join(text(key) + value for key, value in items.items()) + b"u."


def floats(values) -> bytes:
    return struct.pack("<q", len(values)) + np.asarray(values, "<f4").tobytes()


def old_format(content: bytes, keys=("0",), storages: bytes = floats(range(6)), little_endian: bool = True) -> bytes:
    system = {"protocol_version": unpickling.PROTOCOL, "little_endian": little_endian}
    head = b"".join(pickle.dumps(value, 2) for value in (unpickling.MAGIC, unpickling.PROTOCOL, system))
    return head + content + pickle.dumps(list(keys), 2) + storages


def zip_format(content: bytes) -> bytes:
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr("a/data.pkl", content)
        archive.writestr("a/byteorder", b"little")
        archive.writestr("a/data/0", np.arange(6, dtype="<f4").tobytes())
    return file.getvalue()


def in_pickle(stored: bytes) -> bytes:
    """A plain pickle of a tensor, whose storage is a file in it."""
    file = name("torch.storage", "_load_from_bytes") + b"B" + struct.pack("<I", len(stored)) + stored + b"\x85R"
    return b"\x80\x03}K\x01" + tensor(file) + b"s."


_watched: list[tuple[str, list[str]]] = []  # the file that is read, and what happens meanwhile


def _watch(event: str, arguments: tuple) -> None:
    for path, events in _watched:
        if not event.startswith(HARMLESS) and not (event == "open" and str(arguments[0]) == path):
            events.append(f"{event} {arguments}")


sys.addaudithook(_watch)  # it stays until Python ends
for _codec in ("cp437", "raw_unicode_escape"):  # of names in an archive, of text in protocol 0
    codecs.lookup(_codec)


@contextmanager
def canary(path: Path):
    """Fail if anything is imported, opened, compiled, started or looked up while `path` is read."""
    _watched.append((str(path), events := []))
    try:
        yield
    finally:
        _watched.clear()
    assert not events


# ---- files that try to run code


class Call:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def programs(mark: Path) -> dict[str, bytes]:
    """Pickle bytes, without the end, each of which would run code or change the process if it could."""
    shell, command = name("os", "system"), text(f"touch {mark}")
    poison = b"N}" + text("text") + text("poison") + b"s\x86b"  # state as (None, slots), which sets an attribute
    files = {
        "shell by REDUCE": shell + command + b"\x85R",
        "shell by STACK_GLOBAL": b"\x80\x04" + text("posix") + text("system") + b"\x93" + command + b"\x85R",
        "shell by INST": b"(" + command + b"ios\nsystem\n",
        "shell by OBJ": b"(" + shell + command + b"o",
        "shell by NEWOBJ": shell + command + b"\x85\x81",
        "shell in a nested call": name("collections", "OrderedDict") + b"]" + shell + command + b"\x85R\x85Ra\x85R",
        "shell in the memo, in place of an allowed name": name("numpy", "dtype") + b"q\x000" + shell + b"q\x000h\x00"
        + command + b"\x85R",
        "eval": name("builtins", "eval") + text(f"open({str(mark)!r}, 'w')") + b"\x85R",
        "getattr": name("builtins", "getattr") + name("numpy", "dtype") + text("__class__") + b"\x86R",
        "attribute of an allowed name": b"\x80\x04" + text("numpy") + text("dtype.__class__") + b"\x93",
        "module of ours": name("handful.utils.unpickling", "os"),
        "call of a name that makes nothing": name("builtins", "list") + b"](NNe\x85R",
        "state of an allowed name": name("numpy", "dtype") + poison,
        "state of the class of namespaces": name("argparse", "Namespace") + poison,
        "state of a storage": storage() + poison,
        "codec": name("_codecs", "encode") + text("x") + text("zlib") + b"\x86R",
        "persistent id": text("../../etc/passwd") + b"Q",
        "objects by the byte order of a scalar": scalar(dtype("i8", text("O,<")), POINTER),
        "objects by the byte order of an array": array(POINTER, (1, 1), dtype("i8", text("O,<"))),
        "objects by their code": array(POINTER, (1, 2), dtype("O", text("|"))),
        "objects by fields": array(kind=dtype(rest=b"N" + text("a") + b"\x85}")),
        "type by a class": array(kind=name("numpy", "dtype") + name("numpy", "ndarray") + b"\x85R"),
        "array of more numbers than data": array(shape=(2**30, 2**30)),
        "array filled with a list": array(filled=b"]"),
    }  # fmt: skip
    real = {f"a real pickle, protocol {p}": pickle.dumps(Call(os.system, f"touch {mark}"), p)[:-1] for p in range(6)}
    return files | real


def test_no_pickle_runs_code_or_touches_a_file(tmp_path):
    path, mark, before = tmp_path / "a.pkl", tmp_path / "mark", dict(vars(unpickling))
    for title, program in programs(mark).items():
        content = (b"" if program[:1] == b"\x80" else b"\x80\x02") + program + b"."
        around = {
            "plain": content,
            "old format": old_format(content),
            "zip format": zip_format(content),
            "in a storage in a pickle": in_pickle(old_format(content)),
        }
        for place, whole in around.items():
            path.write_bytes(whole)
            with canary(path), pytest.raises(ValueError, match=".") as caught:
                load_plain(path)
            assert len(str(caught.value)) < MAX_CHARACTERS, (title, place)
            assert str(caught.value).isprintable(), (title, place)
            assert [*tmp_path.iterdir()] == [path], (title, place)
    assert vars(unpickling) == before


def test_a_refusal_says_what_was_asked_for_and_what_to_do(tmp_path):
    path = tmp_path / "a.pkl"
    for content, message in (
        (pickle.dumps(Call(os.system, "true")), r"asks for \w+\.system, which is not an array .* nothing was read; if"),
        (pickle.dumps(np.array([None, 1], object)), "array of type 'O8': only numbers and strings are read; if y"),
        (b"c" + b"x" * 2**20 + b"\ny\n.", r"asks for x+\.\.\."),
        (b"cos\x1b[2J\nsystem\n.", r"asks for os\\x1b\[2J\.system"),
        (pickle.dumps({"hen": np.eye(3)})[:-20], "the pickle is damaged, or something else: it ends early$"),
        (b"hen,owl\n1,2\n", "the pickle is damaged, or something else: "),
        (b"", "it ends early"),
    ):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            load_plain(path)


def test_memory_of_an_array_stays_as_it_was(tmp_path):
    """Bytes of an array cannot be moved afterwards, and booleans are 0 or 1, as NumPy trusts they are."""
    rows = b"\x96" + struct.pack("<Q", 16) + bytes(16) + b"q\x00"  # a bytearray
    made = name("numpy.core.numeric", "_frombuffer") + b"(h\x00" + dtype() + b"K\x04\x85" + text("C") + b"tR"
    (tmp_path / "a.pkl").write_bytes(b"\x80\x05](" + rows + made + b"h\x00(" + b"K\x01" * 4_000 + b"ee.")
    rows, made, again = load_plain(tmp_path / "a.pkl")
    assert again is rows
    assert made.tolist() == [0, 0, 0, 0]
    kind = dtype("b1", text("|"))
    (tmp_path / "a.pkl").write_bytes(b"\x80\x02" + array(b"\0\1\2\xff", (4,), kind) + b".")
    assert load_plain(tmp_path / "a.pkl").view(np.uint8).tolist() == [0, 1, 1, 1]
    content = dictionary({"w": tensor(storage(count=4, kind="BoolStorage"), (4,), (1,))})
    (tmp_path / "a.pth").write_bytes(old_format(content, storages=struct.pack("<q", 4) + b"\0\1\2\xff"))
    assert load_torch(tmp_path / "a.pth")["w"].view(np.uint8).tolist() == [0, 1, 1, 1]


def test_a_file_with_one_wrong_byte_is_read_or_refused(tmp_path):
    path, refused, tries = tmp_path / "a", 0, 0
    ordered = b"\x80\x02" + name("collections", "OrderedDict") + b")R(" + text("w") + tensor() + b"u"
    for whole in (
        pickle.dumps({"hen": np.eye(2, dtype=np.float32), "owl": [1.5, "a"]}, 2),
        in_pickle(old_format(b"\x80\x02" + storage() + b".")),
        old_format(ordered + b"}" + text("_metadata") + b"}sb."),
        zip_format(dictionary({"w": tensor(storage(end=b"t"))})),
    ):
        path.write_bytes(whole)
        load_plain(path)
        changed = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), 3)]
        for content in (*changed, *(whole[:at] for at in range(0, len(whole), 9))):
            path.write_bytes(content)
            tries += 1
            with canary(path):
                try:
                    load_plain(path)
                except ValueError as error:
                    refused += len(str(error)) < MAX_CHARACTERS
    assert tries / 3 < refused < tries


LARGER = "larger than its storage"
STATE_DICTS = {
    "stride 0": (old_format(dictionary({"w": tensor(shape=(2**15, 2**15), strides=(0, 0))})), LARGER),
    "offset beyond the storage": (old_format(dictionary({"w": tensor(offset=1)})), "damaged"),
    "storage whose length lies": (old_format(dictionary({"w": tensor()}), storages=struct.pack("<q", 7)), "storage 0"),
    "storage of an unknown kind": (old_format(dictionary({"w": tensor(storage(kind="UntypedStorage"))})), "asks for"),
    "storage described twice": (
        old_format(dictionary({"w": tensor(), "v": tensor(storage(count=3, kind="DoubleStorage"))})), "in an unknown"
    ),
    "big-endian": (old_format(dictionary({}), [], b"", little_endian=False), "big-endian machine"),
    "archive: other bytes": (zip_format(dictionary({"w": tensor(storage(end=b"t"))})).replace(
        np.arange(6, dtype="<f4").tobytes(), bytes(24)), "bytes have changed"),
    "archive: storage outside": (zip_format(dictionary({"w": tensor(storage("../../etc/passwd", end=b"t"))})), "lacks"),
    "archive: storage too short": (zip_format(dictionary({"w": tensor(storage(count=7, end=b"t"))})), "ends early in"),
}  # fmt: skip


def test_a_damaged_state_dict_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "weights.pth"
    for content, message in STATE_DICTS.values():
        path.write_bytes(content)
        with canary(path), pytest.raises(ValueError, match=message):
            load_torch(path)
    for content in (old_format(dictionary({"w": tensor()})), zip_format(dictionary({"w": tensor(storage(end=b"t"))}))):
        path.write_bytes(content)
        np.testing.assert_array_equal(load_torch(path)["w"], [[0, 1, 2], [3, 4, 5]])


@pytest.mark.torch
def test_what_torch_writes_is_read(tmp_path, torch):
    state = OrderedDict(w=torch.arange(6.0).reshape(2, 3).T, h=torch.ones(3, dtype=torch.bfloat16), n=torch.tensor(7))
    for new in (True, False):
        torch.save({"state_dict": state, "args": {"lr": 0.1}}, tmp_path / "a.pth", _use_new_zipfile_serialization=new)
        content = load_torch(tmp_path / "a.pth")
        np.testing.assert_array_equal(content["state_dict"]["w"], state["w"].numpy())
        assert content["state_dict"]["h"].tolist() == [1, 1, 1]
        assert content["args"] == {"lr": 0.1}
