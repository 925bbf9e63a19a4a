"""Pickles and torch files that attack their reader: each is refused in a sentence, quickly and with little memory."""

import io
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fuzz_unpickling import (
    corpus,
    dictionary,
    floats,
    in_pickle,
    loaded,
    number,
    numbers,
    old_format,
    run,
    storage,
    tensor,
    text,
    zip_format,
)

from handful.backbones.state_dict import read_state_dict
from handful.features import read
from handful.utils.limits import max_bytes
from handful.utils.unpickling import load_plain, load_torch
from handful.utils.unpickling.budget import MAX_NUMBER_KEYS

MAX_SECONDS, MAX_BYTES, MAX_CHARACTERS = 2.0, 2**29, 500
POINTER = struct.pack("<qq", 0x4141414141414141, 7)
MINUS = b"J\xff\xff\xff\xff"


def dtype(code: bytes = b"U\x02f4", order: bytes = b"U\x01<", rest: bytes = b"NNN") -> bytes:
    """A type of NumPy with its state, as Python 2 writes it."""
    return b"cnumpy\ndtype\n" + code + b"K\x00K\x01\x87R(K\x03" + order + rest + MINUS * 2 + b"K\x00tb"


def array(data: bytes = bytes(16), shape=(2, 2), kind: bytes | None = None, filled: bytes | None = None) -> bytes:
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
    filled = b"B" + struct.pack("<I", len(data)) + data if filled is None else filled
    return made + numbers(shape) + (kind or dtype()) + b"\x89" + filled + b"tb"


def hen(value: bytes) -> bytes:
    """A pickle {1: value}."""
    return b"\x80\x04}K\x01" + value + b"s."


def calls(module: str, name: str, arguments: bytes = b")") -> bytes:
    return f"c{module}\n{name}\n".encode() + arguments + b"R"


def scalar(kind: bytes, data: bytes) -> bytes:
    return b"cnumpy._core.multiarray\nscalar\n" + kind + b"C" + bytes([len(data)]) + data + b"\x86R"


def bomb(depth: int = 100) -> bytes:
    """A pair of itself, a hundred times over: its hash takes 2 ** 100 steps."""
    return b")" + b"q\x05h\x05\x86" * depth


def stored(count: int = 6, kind: str = "FloatStorage", data: bytes | None = None) -> bytes:
    """The file of one storage, as a pickle has it inside."""
    return old_format(b"\x80\x02" + storage("0", count, kind) + b".", ["0"], data)


def big(count: int) -> bytes:
    """Bytes as they stand in a pickle."""
    return b"B" + struct.pack("<I", count) + bytes(count)


COLLIDING = b"".join(b"\x8a\x0a" + (i * (2**61 - 1)).to_bytes(10, "little") + b"N" for i in range(MAX_NUMBER_KEYS + 9))
BFLOATS = struct.pack("<q", 2**19) + bytes(2**20)
PICKLES = {
    # types that are no types of numbers
    "object dtype by its byte order, scalar": hen(scalar(dtype(b"U\x02i8", b"U\x03O,<"), POINTER)),
    "object dtype by its byte order, array": hen(array(POINTER, (1, 1), dtype(b"U\x02i8", b"U\x03O,<"))),
    "object dtype by its byte order, unicode": hen(scalar(dtype(text("i8"), text("O,<")), POINTER)),
    "object dtype by its code": hen(array(POINTER, (1, 2), dtype(b"U\x01O", b"U\x01|"))),
    "object dtype by a long code": hen(array(POINTER, (1, 2), dtype(b"U\x05O8,i8"))),
    "void dtype": hen(array(bytes(16), (1, 2), dtype(b"U\x02V8", b"U\x01|"))),
    "dtype with a sub-array": hen(array(kind=dtype(rest=dtype() + b"(K\x02t\x86NN"))),
    "dtype with fields": hen(array(kind=dtype(rest=b"N" + text("a") + b"\x85}"))),
    "dtype of an impossible order": hen(array(kind=dtype(order=b"U\x02<>"))),
    "dtype whose order is a number": hen(array(kind=dtype(order=b"K\x3c"))),
    "dtype whose order is empty": hen(array(kind=dtype(order=b"U\x00"))),
    "dtype whose state is a number": hen(array(kind=b"cnumpy\ndtype\nU\x02f4\x85RK\x03b")),
    "dtype whose state is short": hen(array(kind=b"cnumpy\ndtype\nU\x02f4\x85RK\x03\x85b")),
    "dtype by a class": hen(array(kind=b"cnumpy\ndtype\ncnumpy\nndarray\n\x85R")),
    "array whose type is a text": hen(array(kind=text("f4"))),
    "text with impossible characters": hen(scalar(dtype(b"U\x02U1"), b"\xff\xff\xff\xff")),
    # sizes
    "array without data of 2 ** 31 rows": hen(array(b"", (2**31 - 1, 0))),
    "array of 10 ** 9 texts without characters": hen(array(b"", (10**9,), dtype(b"U\x02U0"))),
    "array of a negative length": hen(array(shape=(-2, -2))),
    "array of lengths that overflow": hen(array(b"", filled=b"C\x00").replace(
        numbers((2, 2)), b"(" + (b"\x8a\x08" + bytes(7) + b"\x20") * 2 + b"t")),
    "array of 40 dimensions": hen(array(bytes(4), (1,) * 40)),
    "array of more numbers than data": hen(array(shape=(2**30, 2**30))),
    "array of fewer numbers than data": hen(array(shape=(2, 1))),
    "array filled with text": hen(array(filled=text("x" * 16))),
    "array filled with a list": hen(array(filled=b"]")),
    "array whose shape is a list": hen(array().replace(numbers((2, 2)), b"](K\x02K\x02e")),
    "array whose lengths are floats": hen(array().replace(number(2), b"G@" + bytes(7), 1)),
    "array whose state never comes": hen(b"cnumpy\nndarray\n"),
    "array changed after it was made": hen(array() + b"q\x07h\x07NbN\x86"),
    "array used before it is made": b"\x80\x04}K\x01cnumpy.core.multiarray\n_reconstruct\n)q\x01R)b.",
    "bytes of 2 ** 63": b"\x80\x04\x8e" + struct.pack("<Q", 2**63) + b"x.",
    "text of 2 ** 63": b"\x80\x04\x8d" + struct.pack("<Q", 2**63 - 1) + b"x.",
    "bytes of 4 GB": b"\x80\x04B\xff\xff\xff\xff.",
    "frame of 2 ** 62": b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"N.",
    "integer of 2 GB": b"\x80\x02\x8b\xff\xff\xff\x7f" + b"\1" * 1000 + b".",
    "integer of 2 MB": b"\x80\x02\x8b" + struct.pack("<I", 2**21) + b"\1" * 2**21 + b".",
    "integer of 100,000 digits": b"L" + b"9" * 100_000 + b"L\n.",
    "float of 100,000 digits": b"F" + b"9" * 100_000 + b"\n.",
    "memo place of 100,000 digits": b"Np" + b"9" * 100_000 + b"\n.",
    # names and calls
    "shell by REDUCE": hen(calls("os", "system", b"X\x04\x00\x00\x00true\x85")),
    "shell by STACK_GLOBAL": hen(text("posix") + text("system") + b"\x93" + text("true") + b"\x85R"),
    "shell by INST": b"(" + b"S'true'\nios\nsystem\n.",
    "shell by OBJ": b"(cos\nsystem\nS'true'\no.",
    "shell by NEWOBJ": hen(b"cos\nsystem\n)\x81"),
    "shell by NEWOBJ_EX": hen(b"cnumpy\ndtype\n)}\x92"),
    "eval": hen(calls("builtins", "eval", text("1/0") + b"\x85")),
    "attribute of an allowed name": hen(text("numpy") + text("dtype.__class__") + b"\x93"),
    "module of an allowed name": hen(text("numpy.dtype") + text("__init__") + b"\x93"),
    "numpy's own pickle reader": hen(calls("numpy", "load", text("/etc/passwd") + b"\x85")),
    "name that is a number": b"\x80\x04K\x01K\x02\x93.",
    "call of a text": hen(text("os.system") + b")R"),
    "call with a list": hen(b"ccollections\nOrderedDict\n]R"),
    "call with too many arguments": hen(b"ccollections\nOrderedDict\n(NNNNtR"),
    "call of a name that makes nothing": hen(calls("builtins", "list", b"](NNe\x85")),
    "state of a function": hen(b"cnumpy\ndtype\n}" + text("__call__") + b"Nsb"),
    "state of a list": hen(b"]}b"),
    "state of a dictionary with slots": hen(b"}N}\x86b"),
    "extension 1": hen(b"\x82\x01"),
    "extension 2": hen(b"\x83\x01\x00"),
    "extension 4": hen(b"\x84\x01\x00\x00\x00"),
    "persistent id as text": hen(b"P0\n"),
    "persistent id": hen(text("0") + b"Q"),
    "buffer outside the file": hen(b"\x97\x98"),
    "copy of the top": hen(b"]2a"),
    "codec zlib": hen(calls("_codecs", "encode", text("x") + text("zlib") + b"\x86")),
    # keys
    "hash bomb as a key": b"\x80\x02}" + bomb() + b"Ns.",
    "hash bomb in a dictionary of marks": b"\x80\x02(" + bomb() + b"Nd.",
    "hash bomb in a set": hen(b"\x8f(" + bomb() + b"\x90"),
    "hash bomb in a frozen set": hen(b"(" + bomb() + b"\x91"),
    "hash bomb in a called set": hen(calls("builtins", "frozenset", b"](" + bomb() + b"e\x85")),
    "hash bomb in an ordered dictionary": hen(calls("collections", "OrderedDict", b"](" + bomb() + b"N\x86e\x85")),
    "hash bomb as the name of a module": bomb() + b"K\x01\x93.",
    "frozen sets in frozen sets as a key": b"\x80\x04}(\x91" + b"\x94(h\x00\x91" * 50 + b"Ns.",
    "wide tuple as a key": b"\x80\x02}(" + b"N" * 100_000 + b"tNs.",
    "array as a key": b"\x80\x02}" + array() + b"Ns.",
    "numbers that collide as keys": b"\x80\x02}(" + COLLIDING + b"u.",
    "numbers that collide in a set": hen(b"\x8f(" + COLLIDING + b"\x90"),
    "keys of a megabyte, equal and compared": b"\x80\x02" + text("x" * 2**20) + b"q\x000" + text("x" * 2**20),
    "keys of a megabyte": b"\x80\x02}" + text("x" * 2**20) + b"q\x00" + text("x" * 2**20) + b"s.",
    # amplification
    "one array under 2,000 names": b"\x80\x04}(" + text("a") + array(bytes(2**20), (2**9, 2**9)) + b"q\x07"
    + b"".join(text(f"c{i}") + b"h\x07" for i in range(2_000)) + b"u.",
    "one array in 100,000 rows": hen(b"](" + array(bytes(2**20), (2**9, 2**9)) + b"q\x07" + b"h\x07" * 100_000 + b"e"),
    "one list in 100,000 rows": hen(b"](](" + b"G?\xf0" + bytes(6) + b"K\x01" * 9_000 + b"eq\x07"
    + b"h\x07" * 100_000 + b"e"),
    "one long name for a million rows": b"\x80\x04}" + text("x" * 4_000)
    + array(bytes(2**20), (2**20, 1), dtype(b"U\x02u1", b"U\x01|")) + b"s.",
    "text encoded 10,000 times": hen(b"](" + text("x" * 2**20) + b"q\x07"
    + (b"c_codecs\nencode\nh\x07" + text("latin1") + b"\x86R") * 10_000 + b"e"),
    "set made 10,000 times": hen(b"](](" + b"".join(b"M" + struct.pack("<H", i) for i in range(10_000)) + b"eq\x07"
    + b"cbuiltins\nset\nh\x07\x85R" * 10_000 + b"e"),
    "dictionary made 10,000 times": hen(b"](}(" + b"".join(b"M" + struct.pack("<H", i) + b"N" for i in range(10_000))
    + b"uq\x07" + b"ccollections\nOrderedDict\nh\x07\x85R" * 10_000 + b"e"),
    "truth values made 10,000 times": hen(b"](" + big(2**20) + b"q\x07" + dtype(b"U\x02b1", b"U\x01|") + b"q\x08"
    + b"cnumpy.core.numeric\n_frombuffer\n(h\x07h\x08J\x00\x00\x10\x00\x85U\x01CtR" * 10_000 + b"e"),
    "memo of 3 million places": b"\x80\x04]" + b"\x94" * 3_000_000 + b".",
    "3 million sets": b"\x80\x04(" + b"\x8f" * 3_000_000 + b"t.",
    "2 million dictionaries": b"\x80\x04(" + b"}" * 2_000_000 + b"t.",
    "tuples in tuples, a million deep": b"\x80\x04)" + b"\x85" * 1_000_000 + b".",
    "lists in lists, 200,000 deep": b"\x80\x04" + b"]" * 200_000 + b"a" * 199_999 + b".",
    "a million open marks": b"\x80\x04" + b"(" * 1_000_000 + b".",
    "dictionary that is its own class": b"\x80\x04}q\x00K\x01h\x00s.",
    "list that is its own row": hen(b"]q\x00h\x00a"),
    # messages
    "name of a megabyte": b"\x80\x04" + text("x" * 2**20) + text("y" * 2**20) + b"\x93.",
    "name of a megabyte in a line": b"c" + b"x" * 2**20 + b"\ny\n.",
    "name that drives the terminal": hen(calls("os\x1b[2J\r", "system")),
    "codec of a megabyte": hen(calls("_codecs", "encode", text("x") + text("z" * 2**20) + b"\x86")),
    "type of a megabyte": hen(array(kind=dtype(text("f" * 2**20)))),
    "class of 4,000 characters": b"\x80\x04}" + text("x" * 4_000) + b"Ns.",
    "class of 4,000 bytes that are no text": b"\x80\x04}T" + struct.pack("<I", 4_000) + b"\xff" * 4_000
    + array() + b"s.",
    # torch tensors inside
    "tensor of stride 0": hen(tensor(loaded(stored()), (2**15, 2**15), (0, 0))),
    "tensor with an offset beyond its storage": hen(tensor(loaded(stored()), offset=2**30)),
    "tensor of negative strides": hen(tensor(loaded(stored()), strides=(-3, -1))),
    "tensor in garbage": in_pickle(b"garbage"),
    "tensor in an archive": in_pickle(zip_format(b"N.")),
    "tensor in a file within a file": in_pickle(old_format(in_pickle(stored()))),
    "tensor in a file that holds a number": in_pickle(old_format(b"K\x01.", [], b"")),
    "tensor in a storage that runs code": in_pickle(old_format(calls("os", "system") + b".", [], b"")),
    "tensor in a storage of 2 ** 31 numbers": in_pickle(stored(2**31 - 1)),
    "tensor of a text": in_pickle(stored()).replace(b"ctorch.storage\n_load_from_bytes\n", b"cos\nsystem\n"),
    "storage read 20,000 times": hen(b"](B" + struct.pack("<I", len(stored())) + stored() + b"q\x07"
    + b"ctorch.storage\n_load_from_bytes\nh\x07\x85R" * 20_000 + b"e"),
    "half numbers made 1,000 times": hen(b"](B" + struct.pack("<I", len(s := stored(2**19, "BFloat16Storage", BFLOATS)))
    + s + b"q\x07" + b"ctorch.storage\n_load_from_bytes\nh\x07\x85R" * 1_000 + b"e"),
    # the frame
    "protocol 9": b"\x80\x09N.",
    "no end": b"\x80\x04}",
    "end in a container": b"\x80\x04}(.",
    "two values": b"\x80\x04}}.",
    "nothing": b"\x80\x04.",
    "unknown instruction": b"\x80\x04\xff.",
    "closed twice": b"\x80\x04}(uu.",
    "append to a dictionary": b"\x80\x04}Na.",
    "items of a list": b"\x80\x04](NNu.",
    "odd number of items": b"\x80\x04}(NNNu.",
    "string without quotes": b"Sabc\n.",
    "memo of nothing": b"\x80\x04h\x07.",
}  # fmt: skip


@pytest.mark.parametrize("name", PICKLES)
def test_a_hostile_pickle_is_refused_in_a_sentence(sandbox, tmp_path, name):
    path = tmp_path / "a.pkl"
    path.write_bytes(PICKLES[name])
    message = sandbox.refuses("info", path)
    assert len(message.replace(str(path), "")) < MAX_CHARACTERS
    assert message.isprintable() or message.rstrip("\n").isprintable()


def refused(reader, path: Path, seconds: float = MAX_SECONDS, most: int = MAX_BYTES) -> str:
    """The sentence with which a reader refuses a file, in a forked process that is measured."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    received, sent = os.pipe()
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, 10 * seconds)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        try:
            reader(path)
            message = "it was read"
        except BaseException as error:
            message = f"{type(error).__name__}: {str(error)[:5000]}"
        os.write(sent, message.encode("utf-8", "replace"))
        os._exit(0)
    os.close(sent)
    with os.fdopen(received, "rb") as pipe:
        message = pipe.read().decode()
    _, status, used = os.wait4(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"ended by {status}"
    assert message.startswith(("ValueError: ", "Refused: ", "Damaged: ")), message[:300]
    assert len(message) < MAX_CHARACTERS + len(str(path))
    assert used.ru_utime + used.ru_stime < seconds
    assert (used.ru_maxrss - before) * 1024 < most
    return message


def one(**changes) -> bytes:
    """A state dict of one tensor in one storage of 6 numbers, with changes."""
    return old_format(dictionary({"w": tensor(storage("0", changes.pop("count", 6)), **changes)}))


def overlapping() -> bytes:
    """An archive in which 2,000 names are the same bytes."""
    file = io.BytesIO(zip_format(dictionary({"w": tensor(storage("0", 2**18, view=b""))}), {"0": bytes(2**20)}))
    with zipfile.ZipFile(file, "a") as archive:
        entry = archive.getinfo("a/data/0")
        for i in range(1, 2_000):
            twin = zipfile.ZipInfo(f"a/data/{i}")
            twin.header_offset, twin.CRC = entry.header_offset, entry.CRC
            twin.file_size = twin.compress_size = entry.file_size
            archive.filelist.append(twin)
        archive._didModify = True
    return file.getvalue()


ALIASES = {f"w{i}": tensor(storage("0", 2**20), (2**20,), (1,)) for i in range(2_000)}
STATE_DICTS = {
    "stride 0": one(shape=(2**15, 2**15), strides=(0, 0)),
    "negative stride": one(shape=(2, 3), strides=(-3, 1)),
    "negative offset": one(offset=-1),
    "offset beyond the storage": one(offset=1),
    "shape beyond the storage": one(shape=(3, 3)),
    "more strides than lengths": one(strides=(3, 1, 1)),
    "no numbers, and a huge shape": one(shape=(2**31 - 1, 2**31 - 1, 0), strides=(1, 1, 1)),
    "storage of 2 ** 31 numbers": one(count=2**31 - 1),
    "storage of a negative length": one(count=-6),
    "storage whose length lies": old_format(dictionary({"w": tensor(storage("0", 6))}), ["0"], struct.pack("<q", 7)),
    "storage of an unknown kind": old_format(dictionary({"w": tensor(storage("0", 6, "UntypedStorage"))})),
    "storage in a view": old_format(dictionary({"w": tensor(storage("0", 6, view=b"(NNNt"))})),
    "storage described twice": old_format(
        dictionary({"w": tensor(storage("0", 6)), "v": tensor(storage("0", 3, "DoubleStorage"), (3,), (1,))})
    ),
    "storage that is not listed": old_format(dictionary({"w": tensor(storage("1", 6))})),
    "storage listed twice": old_format(dictionary({"w": tensor(storage("0", 6))}), ["0", "0"]),
    "storages listed as a number": one().replace(pickle.dumps(["0"], 2), b"K\x01."),
    "more after the end": one() + b"x",
    "one storage under 2,000 names": old_format(dictionary(ALIASES), ["0"], floats(np.zeros(2**20))),
    "big-endian": old_format(dictionary({}), [], b"", little_endian=False),
    "another magic number": one().replace(b"\x8a\x0a", b"\x8a\x09", 1),
    "20 MB of sets": old_format(b"\x80\x02(" + b"\x8f" * 20_000_000 + b"t.", [], b""),
    "hash bomb": old_format(b"\x80\x02}" + bomb() + b"Ns.", [], b""),
    "shell": old_format(b"\x80\x02" + calls("os", "system", text("true") + b"\x85") + b".", [], b""),
    "shell in the list of storages": one().replace(pickle.dumps(["0"], 2), calls("os", "system") + b"."),
    "text for a tensor": old_format(dictionary({"w": text("x")}), [], b""),
    "name of a megabyte": old_format(dictionary({"x" * 2**20: b"N"}), [], b""),
    "archive: other bytes": zip_format(dictionary({"w": tensor(storage("0", 6, view=b""))})).replace(
        np.arange(6, dtype="<f4").tobytes(), bytes(24)
    ),
    "archive: compressed": zip_format(
        dictionary({"w": tensor(storage("0", 2**18, view=b""))}), {"0": bytes(2**20)}, zipfile.ZIP_DEFLATED
    ),
    "archive: entries that overlap": overlapping(),
    "archive: storage outside": zip_format(dictionary({"w": tensor(storage("../../etc/passwd", 6, view=b""))})),
    "archive: storage too short": zip_format(dictionary({"w": tensor(storage("0", 7, view=b""))})),
    "archive: big-endian": zip_format(dictionary({}), order=b"big"),
    "archive: shell": zip_format(b"\x80\x02" + calls("os", "system") + b"."),
    "archive: hash bomb": zip_format(b"\x80\x02}" + bomb() + b"Ns."),
    "archive: cut off": zip_format(dictionary({}))[:-30],
    "archive of something else": zip_format(b"N.").replace(b"data.pkl", b"data.txt"),
}  # fmt: skip


@pytest.mark.parametrize("name", STATE_DICTS)
def test_a_hostile_state_dict_is_refused_in_a_sentence(tmp_path, name):
    path = tmp_path / "weights.pth"
    path.write_bytes(STATE_DICTS[name])
    limits = (8.0, 2**30) if "20 MB" in name else (MAX_SECONDS, MAX_BYTES)
    assert str(path) in refused(read_state_dict, path, *limits)


def test_the_honest_twins_of_hostile_files_are_read(tmp_path):
    path = tmp_path / "weights.pth"
    for content in (one(), zip_format(dictionary({"w": tensor(storage("0", 6, view=b""))}))):
        path.write_bytes(content)
        np.testing.assert_array_equal(read_state_dict(path)["w"], [[0, 1, 2], [3, 4, 5]])
    for content in (hen(array()), in_pickle(stored()), hen(scalar(dtype(), b"\0\0\x80?"))):
        path.write_bytes(content)
        assert list(load_plain(path)) == [1]


CHECKPOINTS = {
    "one storage under 2,000 names": (
        old_format(dictionary(ALIASES), ["0"], floats(np.zeros(2**20))),
        "none of the supported networks",
    ),
    "dictionary that holds itself 3,000 times": (
        old_format(b"\x80\x02}q\x00(" + b"".join(text(f"k{i}") + b"h\x00" for i in range(3_000)) + b"u.", [], b""),
        "no state dict",
    ),
    "name with a million parts": (
        old_format(dictionary({"a." * 2_000: tensor(storage("0", 6))})),
        "the longest name has 4,000 characters",
    ),
    "hash bomb": (zip_format(b"\x80\x02}" + bomb() + b"Ns."), "cannot be read as a checkpoint"),
    "20,000 parameters": (
        old_format(dictionary({f"{i}.{i}": tensor(storage("0", 6)) for i in range(20_000)})),
        "20,000 parameters",
    ),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_hostile_checkpoint_is_refused_in_a_sentence(tmp_path, name):
    from handful.backbones.networks.checkpoints import network_of

    content, message = CHECKPOINTS[name]
    path = tmp_path / "weights.pth"
    path.write_bytes(content)
    assert message in refused(network_of, path, 4.0)


@pytest.mark.torch
def test_the_export_command_refuses_a_hostile_checkpoint(sandbox, tmp_path):
    path = tmp_path / "weights.pth"
    path.write_bytes(STATE_DICTS["archive: hash bomb"])
    outcome = sandbox.run("export", path, "-o", tmp_path / "a.onnx")
    assert outcome.code == 1
    assert "cannot be read as a checkpoint of torch" in outcome.stderr
    assert "Traceback" not in outcome.stderr


# ---- limits, interruption, and nothing imported


def test_the_size_limit_can_be_changed(tmp_path, monkeypatch):
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps({"hen": np.eye(9), "owl": np.eye(9)}))
    assert max_bytes() == 8 * 2**30
    assert len(read(path).labels) == 18
    monkeypatch.setenv("HANDFUL_MAX_BYTES", "1000")
    with pytest.raises(ValueError, match=r"more than the limit of 1,000: raise it with HANDFUL_MAX_BYTES"):
        read(path)
    monkeypatch.setenv("HANDFUL_MAX_BYTES", "100000000")
    assert len(read(path).labels) == 18
    for nonsense in ("many", "-1", "0", "9" * 40):
        monkeypatch.setenv("HANDFUL_MAX_BYTES", nonsense)
        with pytest.raises(ValueError, match="HANDFUL_MAX_BYTES is"):
            read(path)


def test_reading_can_be_interrupted(tmp_path):
    path = tmp_path / "a.pkl"
    path.write_bytes(b"\x80\x04(" + b"N\x88" * 20_000_000)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            load_plain(path)
        except KeyboardInterrupt:
            os._exit(42)
        finally:
            os._exit(1)
    time.sleep(0.5)
    os.kill(child, signal.SIGINT)
    sent = time.perf_counter()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    assert time.perf_counter() - sent < 10  # seconds; a machine with much else to do


def test_reading_imports_nothing(tmp_path):
    allowed = {"encodings.cp437", "encodings.raw_unicode_escape"}  # of names in an archive, of text in protocol 0
    child = (
        "import sys, pathlib; from handful.utils.unpickling import load_plain, load_torch; before = set(sys.modules)\n"
        "for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):\n"
        "    (load_torch if path.suffix == '.pth' else load_plain)(path)\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    for i, file in enumerate(corpus()):
        (tmp_path / f"{i}{'.pth' if file.torch else '.pkl'}").write_bytes(file.whole)
    done = subprocess.run([sys.executable, "-c", child, str(tmp_path)], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= allowed


def test_thousands_of_damaged_files_do_no_harm(tmp_path):
    report = run(5_000, seed=1, folder=tmp_path)
    assert report.faults == []
    assert report.imports == set()
    assert report.events == set()
    assert report.count == sum(report.outcomes.values()) == 5_000
    assert report.outcomes["read"] > 50  # some changes do no harm; if none did, the reader would not be tested
    assert report.outcomes["ValueError"] > 1_000


def test_every_valid_file_of_the_fuzzer_is_read(tmp_path):
    for file in corpus():
        (tmp_path / "a").write_bytes(file.whole)
        (load_torch if file.torch else load_plain)(tmp_path / "a")
