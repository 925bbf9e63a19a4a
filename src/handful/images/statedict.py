"""Weights out of a torch state dict without torch: its old serialisation, five pickles and then the storages' bytes.

A pickle is a program. This one is not run: its few instructions are read one by one, and the only things they can
make are names, numbers, tuples, dictionaries and descriptions of tensors. No name is ever looked up or called, so a
pickle that asks for anything else has asked in vain.
"""

from __future__ import annotations

import math
import struct
from io import BytesIO
from pathlib import Path
from pickletools import genops
from typing import Any, NamedTuple

import numpy as np

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
STORAGES: dict[str, np.dtype] = {"torch FloatStorage": np.dtype("<f4"), "torch LongStorage": np.dtype("<i8")}
ORDERED_DICT, TENSOR = "collections OrderedDict", "torch._utils _rebuild_tensor_v2"
LARGEST = 2**30  # bytes of a file; the default backbone's has 19 million


class _Name(NamedTuple):
    """What the pickle gets for `module.name`: the name, nothing that could be called."""

    text: str


class _Storage(NamedTuple):
    key: str
    dtype: np.dtype
    numbers: int


class _Tensor(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_state_dict(path: str | Path) -> dict[str, np.ndarray]:
    """{parameter: array} of a file written by `torch.save` before torch 1.6, or with its zip format switched off.

    Arrays are contiguous, float32 or int64. Anything but a plain state dict of such tensors raises ValueError.
    """
    path = Path(path)
    size = path.stat().st_size
    if size > LARGEST:
        raise ValueError(f"{path} has {size:,} bytes, more than a backbone's weights: at most {LARGEST:,} are read")
    content = BytesIO(path.read_bytes())  # from memory, reading never allocates more than there is
    try:
        return _read(content)
    except _Refused as error:
        raise ValueError(f"{path} {error}") from None
    except Exception as error:  # a damaged pickle can fail in any way
        raise ValueError(f"{path} is damaged, or no torch state dict: {type(error).__name__}: {error}") from None


class _Refused(ValueError):
    """Continues the sentence that begins with the file's path."""


def _read(content: BytesIO) -> dict[str, np.ndarray]:
    if content.getvalue()[:2] == b"PK":
        raise _Refused(
            "is torch's zip format, and the old one is read: load it with torch and save it again with "
            "torch.save(state, path, _use_new_zipfile_serialization=False)"
        )
    if _value(content) != MAGIC or _value(content) != PROTOCOL:
        raise _Refused("does not start like a file of torch.save: it is damaged, or something else")
    system = _value(content)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise _Refused("was written on a big-endian machine: only little-endian files are read")
    tensors, keys = _value(content), _value(content)
    if not isinstance(tensors, dict):
        raise _Refused(f"holds a {type(tensors).__name__}: a state dict {{parameter: tensor}} is needed")
    if not isinstance(keys, list) or not all(isinstance(k, str) for k in keys):
        raise _Refused("does not list its storages: it is damaged")
    for name, value in tensors.items():
        if not isinstance(value, _Tensor):
            raise _Refused(f"holds a {type(value).__name__} at {name!r}: a state dict holds tensors only")
    storages = {t.storage.key: t.storage for t in tensors.values()}
    if len(set(keys)) != len(keys) or set(keys) != set(storages):
        raise _Refused("does not list the storages that its tensors use: it is damaged")
    data = {key: _flat(content, storages[key]) for key in keys}
    if content.read(1):
        raise _Refused("goes on after its last tensor: it is damaged")
    return {name: _array(name, tensor, data[tensor.storage.key]) for name, tensor in tensors.items()}


def _flat(content: BytesIO, storage: _Storage) -> np.ndarray:
    """The next storage in the file: how many numbers, then the numbers."""
    head = content.read(8)
    count = struct.unpack("<q", head)[0] if len(head) == 8 else -1
    data = content.read(storage.numbers * storage.dtype.itemsize) if count == storage.numbers else b""
    if count != storage.numbers or len(data) != count * storage.dtype.itemsize:
        raise _Refused(f"ends or goes astray in storage {storage.key} of {storage.numbers:,} numbers: it is damaged")
    return np.frombuffer(data, storage.dtype)


def _array(name: str, tensor: _Tensor, flat: np.ndarray) -> np.ndarray:
    if tensor.storage.numbers != len(flat) or tensor.storage.dtype != flat.dtype:
        raise _Refused(f"describes the storage of {name!r} in two ways: it is damaged")
    # No more numbers than the storage has: a stride of 0 could stand for terabytes.
    last = tensor.offset + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.strides, strict=True))
    if math.prod(tensor.shape) > len(flat) or (0 not in tensor.shape and last >= len(flat)):
        raise _Refused(f"has a tensor {name!r} of shape {tensor.shape} that is larger than its storage: it is damaged")
    steps = tuple(step * flat.itemsize for step in tensor.strides)
    view = np.lib.stride_tricks.as_strided(flat[tensor.offset :], tensor.shape, steps, writeable=False)
    return view.astype(flat.dtype.newbyteorder("="), order="C")


def _value(content: BytesIO) -> Any:
    """What the next pickle says; on return the file stands behind it."""
    stack: list[Any] = []
    marks: list[int] = []  # where in the stack an open tuple, list or dictionary starts
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        start = marks.pop()
        items = stack[start:]
        del stack[start:]
        return items

    argument: Any
    for instruction, argument, _ in genops(content):
        code = instruction.name
        if code in ("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE"):
            stack.append(argument)
        elif code in _CONSTANTS:
            stack.append(_CONSTANTS[code])
        elif code == "GLOBAL":
            if argument not in (ORDERED_DICT, TENSOR, *STORAGES):
                raise _Refused(
                    f"asks for {'.'.join(argument.split())}, which no state dict needs and which could run anything: "
                    "it was not called and nothing was read"
                )
            stack.append(_Name(argument))
        elif code == "MARK":
            marks.append(len(stack))
        elif code == "EMPTY_DICT":
            stack.append({})
        elif code == "EMPTY_LIST":
            stack.append([])
        elif code == "TUPLE":
            stack.append(tuple(since_mark()))
        elif code in ("TUPLE1", "TUPLE2", "TUPLE3"):
            n = int(code[-1])
            stack[-n:] = [tuple(stack[-n:])]
        elif code in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif code in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif code in ("APPEND", "APPENDS"):
            items = since_mark() if code == "APPENDS" else [stack.pop()]
            stack[-1].extend(items)
        elif code in ("SETITEM", "SETITEMS"):
            items = since_mark() if code == "SETITEMS" else [stack.pop(-2), stack.pop()]
            if not all(isinstance(key, str) for key in items[::2]):  # hashing tuples of tuples could last for ever
                raise _Refused("has a dictionary with keys that are no names: no state dict has")
            stack[-1].update(zip(items[::2], items[1::2], strict=True))
        elif code == "REDUCE":
            arguments = stack.pop()
            stack[-1] = _made(stack[-1], arguments)
        elif code == "BUILD":
            if not (isinstance(stack.pop(), dict) and isinstance(stack[-1], dict)):
                raise _Refused("changes something that is no state dict: it was not changed and nothing was read")
            # The attributes of a state dict: versions of modules, of no use here.
        elif code == "BINPERSID":
            stack.append(_storage(stack.pop()))
        elif code == "STOP":
            return stack.pop()
        elif code != "PROTO":
            raise _Refused(f"has the instruction {code}, which no state dict needs: nothing was read")
    raise _Refused("ends early: it is damaged")


_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}


def _made(name: Any, arguments: Any) -> Any:
    if name == _Name(ORDERED_DICT) and arguments == ():
        return {}
    if name == _Name(TENSOR) and isinstance(arguments, tuple) and len(arguments) in (6, 7):
        storage, offset, shape, strides = arguments[:4]
        if isinstance(storage, _Storage) and _counts((offset,)) and _counts(shape) and _counts(strides):
            return _Tensor(storage, offset, shape, strides)
    raise _Refused("calls something other than an OrderedDict or a tensor: nothing was called and nothing was read")


def _storage(description: Any) -> _Storage:
    match description:
        case ("storage", _Name(text=str(kind)), str(key), str(), int(n), None) if kind in STORAGES and n >= 0:
            return _Storage(key, STORAGES[kind], n)
    raise _Refused("describes a storage in an unknown way: only plain float32 and int64 tensors are read")


def _counts(values: Any) -> bool:
    return isinstance(values, tuple) and all(type(v) is int and v >= 0 for v in values)
