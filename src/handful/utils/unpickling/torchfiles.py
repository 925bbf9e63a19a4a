"""Read files of `torch.save` without torch: plain containers in which every tensor is a NumPy array.

The old format is five pickles, of which the fourth is the content, followed by the numbers of each storage. The zip
format (torch 1.6 and later) is an uncompressed archive with the pickle and each storage as a file. A tensor inside a
plain pickle has its storage as a file of the old format. Arrays are views of the file and never larger than it.
"""

from __future__ import annotations

import zipfile
import zlib
from mmap import mmap
from typing import Any, NamedTuple

import numpy as np

from handful.utils.text import shortened
from handful.utils.unpickling.budget import Budget, Damaged, Refused
from handful.utils.unpickling.machine import Machine
from handful.utils.unpickling.words import ARRAY, WORDS, Name, are_counts, bytes_of, named

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
BFLOAT16: np.dtype = np.dtype("<V2")  # NumPy has no bfloat16: it is the upper half of a float32
TYPES: dict[str, str | np.dtype] = {
    "Float": "<f4", "Double": "<f8", "Half": "<f2", "BFloat16": BFLOAT16, "Long": "<i8", "Int": "<i4",
    "Short": "<i2", "Char": "i1", "Byte": "u1", "Bool": "?",
}  # fmt: skip
STORAGES: dict[str, np.dtype] = {f"torch.{name}Storage": np.dtype(dtype) for name, dtype in TYPES.items()}
ZIP = b"PK"
LOCAL_HEADER_BYTES = 30


class Storage(NamedTuple):
    """The numbers of tensors as a flat array; None in the first pass, which only lists the storages."""

    flat: np.ndarray | None


class Description(NamedTuple):
    """The description, in a pickle, of a storage that is elsewhere in the file."""

    key: str
    dtype: np.dtype
    numbers: int


def content_of(buffer: bytes | mmap, budget: Budget) -> Any:
    """Return the object that was saved with `torch.save`."""
    return _of_archive(buffer, budget) if buffer[:2] == ZIP else _of_old_format(buffer, budget)


def _of_old_format(buffer: bytes | mmap, budget: Budget) -> Any:
    machine = Machine(buffer, budget, TORCH_WORDS)
    if machine.run() != MAGIC or machine.run() != PROTOCOL:
        raise Damaged("it does not start like a file of torch.save")
    system = machine.run()
    if type(system) is not dict or system.get("little_endian") is not True:
        raise Refused("was written on a big-endian machine: only little-endian files are read")
    start = machine.at
    described: dict[str, Description] = {}

    def describe(value: Any) -> Storage:
        one = _description(value)
        if described.setdefault(one.key, one) != one:
            raise Damaged(f"it describes the storage {shortened(one.key)} in two ways")
        return Storage(None)

    machine.storage_of = describe
    machine.run()  # this pickle names the storages; the next one gives their order
    keys = machine.run()
    if type(keys) is not list or not all(type(key) is str for key in keys):
        raise Damaged("it does not list its storages")
    if len(set(keys)) != len(keys) or set(keys) != set(described):
        raise Damaged("it does not list the storages that its tensors use")
    storages: dict[str, Storage] = {}
    for key in keys:
        _, dtype, numbers = described[key]
        end = machine.at + 8 + numbers * dtype.itemsize
        if end > len(buffer) or machine.number(8) != numbers:
            raise Damaged(f"it ends early or is wrong in storage {shortened(key)} of {numbers:,} numbers")
        storages[key] = _storage(buffer, budget, described[key], machine.at)
        machine.at = end
    if machine.at != len(buffer):
        raise Damaged("it goes on after its last tensor")
    machine.at = start
    machine.storage_of = lambda value: storages[_description(value).key]
    return machine.run()


def _of_archive(buffer: bytes | mmap, budget: Budget) -> Any:
    if not isinstance(buffer, mmap):
        raise Damaged("it has an archive inside")
    file: Any = buffer  # it can be read like one
    try:
        entries = {entry.filename: entry for entry in zipfile.ZipFile(file).infolist()}
    except (zipfile.BadZipFile, NotImplementedError):
        raise Damaged("it is an archive that is cut off") from None
    if sum(entry.file_size for entry in entries.values()) > len(buffer):
        raise Refused("is an archive whose files overlap or are compressed: torch writes none of these")
    roots = [name.removesuffix("data.pkl") for name in entries if name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise Damaged("it is an archive, but not of torch.save")
    root = roots[0]
    if f"{root}byteorder" in entries and _read(buffer, entries[f"{root}byteorder"]) != b"little":
        raise Refused("was written on a big-endian machine: only little-endian files are read")
    storages: dict[str, tuple[Description, Storage]] = {}

    def find(value: Any) -> Storage:
        one = _description(value)
        if one.key not in storages:
            entry = entries.get(f"{root}data/{one.key}")
            if entry is None or entry.file_size != one.numbers * one.dtype.itemsize:
                raise Damaged(f"it lacks the storage {shortened(one.key)} of {one.numbers:,} numbers")
            storages[one.key] = one, _storage(buffer, budget, one, _start(buffer, entry))
        described, storage = storages[one.key]
        if described != one:
            raise Damaged(f"it describes the storage {shortened(one.key)} in two ways")
        return storage

    machine = Machine(_read(buffer, entries[f"{root}data.pkl"]), budget, TORCH_WORDS)
    machine.storage_of = find
    return machine.run()


def _read(buffer: mmap, entry: zipfile.ZipInfo) -> bytes:
    start = _start(buffer, entry)
    return buffer[start : start + entry.file_size]


def _start(buffer: mmap, entry: zipfile.ZipInfo) -> int:
    """Return the position of the bytes of an entry, after checking that they are complete."""
    name, extra = (
        int.from_bytes(buffer[entry.header_offset + at : entry.header_offset + at + 2], "little") for at in (26, 28)
    )
    start = entry.header_offset + LOCAL_HEADER_BYTES + name + extra
    if entry.compress_type != zipfile.ZIP_STORED or start + entry.file_size > len(buffer):
        raise Damaged("it is an archive that is cut off, or compressed")
    with memoryview(buffer) as view, view[start : start + entry.file_size] as part:
        if zlib.crc32(part) != entry.CRC:
            raise Damaged("some of its bytes have changed since it was written")
    return start


# ---- storages and tensors


def _description(value: Any) -> Description:
    match value:
        case ("storage", Name(text=kind), str(key), str(), int(numbers), *rest) if rest in ([], [None]):
            if kind in STORAGES and are_counts((numbers,)):
                return Description(key, STORAGES[kind], numbers)
    raise Damaged("it describes a storage in an unknown way")


def _storage(buffer: bytes | mmap, budget: Budget, described: Description, start: int) -> Storage:
    """Return the numbers at `start`. The caller has checked that they are in the file."""
    budget.take(ARRAY)
    _, dtype, numbers = described
    if dtype == BFLOAT16:
        budget.take(4 * numbers)
        flat = np.zeros((numbers, 2), "<u2")
        flat[:, 1] = np.frombuffer(buffer, "<u2", numbers, start)
        return Storage(flat.view("<f4")[:, 0])
    if dtype == np.bool_:
        budget.take(numbers)
        return Storage(np.frombuffer(buffer, np.uint8, numbers, start) != 0)
    return Storage(np.frombuffer(buffer, dtype, numbers, start))


def _tensor(budget: Budget, storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> np.ndarray | None:
    """Return a view of the storage. It must not be larger: with strides of 0 it could be larger than the memory."""
    if type(storage) is not Storage or not (are_counts((offset,)) and are_counts(shape) and are_counts(strides)):
        raise Damaged("it describes a tensor in an unknown way")
    if len(shape) != len(strides):
        raise Damaged("it describes a tensor in an unknown way")
    budget.take(ARRAY)
    flat = storage.flat
    if flat is None:
        return None
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if bytes_of(shape, flat.dtype) > flat.nbytes or (0 not in shape and last >= len(flat)):
        raise Damaged(f"it has a tensor that is larger than its storage of {len(flat):,} numbers")
    if 0 in shape:
        return np.zeros(shape, flat.dtype)
    return np.ndarray(shape, flat.dtype, flat, offset * flat.itemsize, [step * flat.itemsize for step in strides])


def _parameter(budget: Budget, tensor: Any, *_: Any) -> Any:
    return tensor


def _size(budget: Budget, lengths: Any = ()) -> tuple[int, ...]:
    if not are_counts(lengths):
        raise Damaged("it describes a shape in an unknown way")
    return tuple(lengths)


def _device(budget: Budget, *_: Any) -> None:
    return None


def _storage_in_pickle(budget: Budget, data: Any) -> Storage:
    if type(data) is not bytes:
        raise Damaged("it makes a tensor of something that is not bytes")
    budget.take_nested(len(data))
    storage = content_of(data, budget)
    if type(storage) is not Storage:
        raise Damaged("it makes a tensor of something that is not a storage")
    return storage


TORCH_WORDS = WORDS | named(
    {
        **dict.fromkeys(STORAGES),
        **{f"torch.{name}": None for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8")},
        "torch._utils._rebuild_tensor": _tensor,
        "torch._utils._rebuild_tensor_v2": _tensor,
        "torch._utils._rebuild_parameter": _parameter,
        "torch.Size": _size,
        "torch.device": _device,
    }
)
PICKLE_WORDS = TORCH_WORDS | named({"torch.storage._load_from_bytes": _storage_in_pickle})
