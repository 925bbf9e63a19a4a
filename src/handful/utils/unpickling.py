"""Read arrays and plain containers from pickles and torch files of strangers, without running anything in them.

A pickle is a program that calls what it names. Here a name that is not in `_FUNCTIONS` is refused, and for the others a
file gets a function of this file. NumPy's own unpickling is never used, because it trusts the types and sizes in a
file: `_Type`, `_Array` and `_Tensor` stand for types and arrays, check what they are told, and become arrays when
everything has been read.
"""

from __future__ import annotations

import copyreg
import io
import math
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.utils.text import shortened

ADVICE = "if you trust the file, load it and save its arrays with numpy.savez(..., features=..., labels=...)"
MAX_EMPTY_LENGTH = 2**20  # of an array that has no data: nothing else in the file limits it
MAX_CODE_POINT = 0x10FFFF
MAX_QUOTED = 100  # characters of a file in a message
ARRAY_TYPES = re.compile(r"b1|[iu][1248]|f[248]|[US][1-9]\d{0,5}")  # numbers and strings; never Python's objects
PLAIN = frozenset((str, bytes, int, float, bool, type(None)))
ZIP = b"PK"
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # how a file of torch's old format begins
TORCH_TYPES = {
    "Float": "<f4", "Double": "<f8", "Half": "<f2", "BFloat16": "<V2", "Long": "<i8", "Int": "<i4", "Short": "<i2",
    "Char": "i1", "Byte": "u1", "Bool": "b1",
}  # fmt: skip
STORAGES = {f"torch.{name}Storage": np.dtype(code) for name, code in TORCH_TYPES.items()}


class Refused(ValueError):
    """The file is refused. The text continues a sentence that begins with the file.

    advise: whether the file asks for other objects than arrays.
    """

    def __init__(self, predicate: str, advise: bool = False):
        super().__init__(predicate)
        self.advise = advise


class Damaged(Refused):
    """The file is damaged, or it is another kind of file."""

    def __init__(self, reason: str):
        super().__init__(f"is damaged, or something else: {reason}")


def load_plain(path: Path, advice: str = ADVICE) -> Any:
    """Return the content of a pickle. Arrays and torch tensors become read-only NumPy arrays, Python 2 strings bytes.

    Raises ValueError for everything else. `advice` ends the message if the file asks for other objects.
    """
    try:
        return _read(path, _pickle)
    except Refused as error:
        raise ValueError(f"the pickle {error}{f'; {advice}' if error.advise else ''}") from None


def load_torch(path: Path) -> Any:
    """Return the content of a file of `torch.save`, in its old or new format: plain containers and read-only arrays.

    Raises `Refused`, a ValueError whose text continues a sentence that begins with the name of the file.
    """
    return _read(path, _torch_file)


def quoted(value: Any, max_length: int = MAX_QUOTED) -> str:
    """Return a key or another plain value of a file as text for a message.

    >>> quoted(b"owl"), quoted([[]]), quoted("x" * 1000, 5)
    ("b'owl'", 'a list', "'x...")
    """
    if isinstance(value, str | bytes):
        return shortened(repr(value[:max_length]), max_length)
    is_short = value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**64)
    return repr(value) if is_short else f"a {type(value).__name__}"


class _File(io.BufferedReader):
    """A file for Python's unpickler, which is written in C. It notices Ctrl-C only here, in a method of Python."""

    def peek(self, size: int = 0, /) -> bytes:
        return super().peek(size)


def _read(path: Path, reader: Callable[[Any], Any]) -> Any:
    with _File(io.FileIO(path), 2**17) as file:
        try:
            return _finished(reader(file), {})
        except (Refused, ImportError):
            raise
        except MemoryError:
            raise Refused("does not fit into memory") from None
        except RecursionError:
            raise Refused("has too many containers within containers") from None
        except Exception as error:  # a damaged file can fail in any way; the message may contain long text of the file
            early = isinstance(error, EOFError) or "truncated" in str(error)
            raise Damaged("it ends early" if early else type(error).__name__) from None


class _Unpickler(pickle.Unpickler):
    """Python's unpickler with an allow-list of names. Strings of Python 2 are bytes."""

    def __init__(self, file: Any, storage_of: Callable[[Any], _Storage] | None = None):
        copyreg.clear_extension_cache()  # its objects would be used without asking `find_class`
        super().__init__(file, encoding="bytes")
        self.storage_of = storage_of

    def find_class(self, module: str, name: str, /) -> Any:
        """A new object for each name, so that a file can change nothing but its own objects."""
        text = f"{module}.{name}"
        if text == "argparse.Namespace":  # the only one that pickles make without a call, so it must be a class
            return type("Namespace", (_Dictionary,), {})
        if text not in _FUNCTIONS:
            raise Refused(
                f"asks for {shortened(text)}, which is not an array or a plain container and could run anything: it "
                "was not called and nothing was read",
                advise=True,
            )
        return _Name(text)

    def persistent_load(self, value: Any) -> _Storage:
        if self.storage_of is None:
            raise Refused("points to data outside itself: nothing was read")
        return self.storage_of(value)


def _pickle(file: Any) -> Any:
    if not (start := file.peek(2)[:2]):
        raise Damaged("it is empty")
    if start == ZIP:
        raise Refused(
            "is an archive of torch.save: load it with torch.load(..., weights_only=True) and save its arrays with "
            "numpy.savez(..., features=..., labels=...)"
        )
    return _Unpickler(file).load()


# ---- what a file gets for a name


class _Name:
    """A name that a file may use. Calling it calls a function of this file, which is harmless with any arguments."""

    __slots__ = ("text",)

    def __init__(self, text: str):
        self.text = text

    def __call__(self, *arguments: Any) -> Any:
        if (function := _FUNCTIONS[self.text]) is None:
            raise Refused(f"calls {self.text}, which no pickle of arrays does: it was not called and nothing was read")
        return function(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise Refused(f"tries to change {self.text}: it was not changed and nothing was read")


class _Dictionary(dict[Any, Any]):
    """An OrderedDict, a namespace and the like. Attributes are not kept."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        pass


class _Type:
    """A numpy.dtype: its code, then its byte order."""

    __slots__ = ("dtype",)

    def __init__(self, code: Any, *_: Any):
        text = code.decode("ascii", "replace") if isinstance(code, bytes) else code
        if not isinstance(text, str) or not ARRAY_TYPES.fullmatch(text):
            raise Refused(f"holds an array of type {quoted(text)}: only numbers and strings are read", advise=True)
        self.dtype: np.dtype = np.dtype(text)

    def __setstate__(self, state: Any) -> None:
        order: Any = state[1].decode("ascii", "replace") if isinstance(state[1], bytes) else state[1]
        if any(part is not None for part in state[2:5]):
            raise Refused("holds an array of records: only numbers and strings are read", advise=True)
        if order not in ("<", ">", "|", "="):
            raise Refused(f"has the byte order {quoted(order)}: only <, >, | and = are read")
        self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """A numpy.ndarray."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray | None = None):
        self.array = array

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, data = state
        self.array = _filled(data, kind, shape, "F" if fortran else "C")

    def finished(self) -> np.ndarray:
        if self.array is None:
            raise Refused("makes an array without data: nothing was read")
        return self.array


def _filled(data: Any, kind: Any, shape: Any, order: Any = "C") -> np.ndarray:
    """Return a read-only array over `data`, which must have exactly the bytes that the shape needs."""
    if type(data) not in (bytes, bytearray) or type(kind) is not _Type:
        raise Refused("fills an array with something that is not bytes: nothing was read")
    _check_shape(shape)
    if math.prod(shape) * kind.dtype.itemsize != len(data):
        raise Damaged(f"an array has {len(data):,} bytes of data, but its shape needs another number")
    if kind.dtype.kind == "U" and len(data) and np.frombuffer(data, f"{kind.dtype.str[0]}u4").max() > MAX_CODE_POINT:
        raise Damaged("an array of text has characters that do not exist")
    data = _truths(data).tobytes() if kind.dtype.kind == "b" else bytes(data)  # the file could change a bytearray
    return np.ndarray(shape, kind.dtype, data, order=order)


def _truths(data: bytes) -> np.ndarray:
    """Return bytes as booleans. NumPy trusts that booleans are 0 or 1, and would write beyond its memory."""
    truths: np.ndarray = np.frombuffer(data, np.uint8) != 0
    return truths


def _check_shape(shape: Any) -> None:
    if not _are_counts(shape) or (0 in shape and max(shape) > MAX_EMPTY_LENGTH):
        raise Damaged("an array has an impossible shape")


def _are_counts(values: Any) -> bool:
    return type(values) is tuple and all(type(value) is int and value >= 0 for value in values)


def _from_buffer(data: Any, kind: Any, shape: Any, order: Any, axes: Any = None) -> _Array:
    array = _filled(data, kind, shape, "F" if order == "F" else "C")
    return _Array(array.transpose(axes) if order == "K" and axes is not None else array)


def _encode(text: Any, encoding: Any) -> bytes:
    """Return bytes as protocols write them that had none."""
    if type(text) is not str or encoding not in ("latin1", b"latin1"):
        raise Refused(f"asks for the codec {quoted(encoding)}: only bytes written as latin1 are read")
    return text.encode("latin1")


def _finished(value: Any, done: dict[int, tuple[Any, Any]]) -> Any:
    """Return the content with arrays in place of what stands for them. done: {id of a value: the value, its result}."""
    if type(value) in PLAIN:
        return value
    if id(value) in done:
        return done[id(value)][1]
    result: Any = value
    if isinstance(value, _Array | _Tensor):
        result = value.finished()
    elif isinstance(value, tuple) and not PLAIN.issuperset(map(type, value)):
        result = tuple([_finished(item, done) for item in value])
    done[id(value)] = value, result  # before its items, which may contain it
    if isinstance(value, list) and not PLAIN.issuperset(map(type, value)):
        value[:] = [_finished(item, done) for item in value]
    elif isinstance(value, dict):
        for key, item in value.items():
            value[key] = _finished(item, done)
    return result


# ---- files of torch


class _Storage:
    """The numbers of tensors, as a flat array. In the old format they follow the pickle, and come last."""

    __slots__ = ("count", "dtype", "flat", "key")

    def __init__(self, key: str, dtype: np.dtype, count: int):
        self.key, self.dtype, self.count = key, dtype, count
        self.flat: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        raise Refused("tries to change the numbers of a tensor: nothing was read")

    def fill(self, data: bytes) -> None:
        if len(data) != self.count * self.dtype.itemsize:
            raise Damaged(f"it ends early or is wrong in storage {shortened(self.key)} of {self.count:,} numbers")
        if self.dtype.kind == "V":  # NumPy has no bfloat16: it is the upper half of a float32
            self.flat = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        else:
            self.flat = _truths(data) if self.dtype.kind == "b" else np.frombuffer(data, self.dtype)
        self.flat.flags.writeable = False


class _Tensor(NamedTuple):
    """A view of a storage."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def finished(self) -> np.ndarray:
        flat = self.storage.flat
        if flat is None:
            raise Damaged(f"it lacks the storage {shortened(self.storage.key)}")
        if 0 in self.shape:
            return np.zeros(self.shape, flat.dtype)
        last = self.offset + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        if math.prod(self.shape) > len(flat) or last >= len(flat):  # steps of 0 could make it larger than the memory
            raise Damaged(f"it has a tensor that is larger than its storage of {len(flat):,} numbers")
        steps = [step * flat.itemsize for step in self.strides]
        return np.ndarray(self.shape, flat.dtype, flat, self.offset * flat.itemsize, steps)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
    _check_shape(shape)
    if type(storage) is not _Storage or not _are_counts((offset,)) or not _are_counts(strides):
        raise Damaged("it describes a tensor in an unknown way")
    return _Tensor(storage, offset, shape, strides)


def _described(value: Any, storages: dict[str, _Storage]) -> _Storage:
    """Return the storage that a pickle describes; one description stands for one storage."""
    match value:
        case ("storage", _Name(text=kind), str(key), str(), int(count), *_) if kind in STORAGES and count >= 0:
            storage = storages.setdefault(key, _Storage(key, STORAGES[kind], count))
            if (storage.dtype, storage.count) == (STORAGES[kind], count):
                return storage
    raise Damaged("it describes a storage in an unknown way")


def _torch_file(file: Any) -> Any:
    """Return the object that was saved with `torch.save`."""
    if file.peek(2)[:2] == ZIP:
        return _archive(file)
    if _Unpickler(file).load() != MAGIC or _Unpickler(file).load() != PROTOCOL:
        raise Damaged("it does not start like a file of torch.save")
    if _Unpickler(file).load().get("little_endian") is not True:
        raise Refused("was written on a big-endian machine: only little-endian files are read")
    storages: dict[str, _Storage] = {}
    content = _Unpickler(file, lambda value: _described(value, storages)).load()
    for key in _Unpickler(file).load():
        is_right = int.from_bytes(file.read(8), "little") == storages[key].count
        storages[key].fill(file.read(storages[key].count * storages[key].dtype.itemsize) if is_right else b"")
    return content


def _archive(file: Any) -> Any:
    """Read torch's zip format: the pickle, and each storage as a file."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = set(archive.namelist())
            roots = [name.removesuffix("data.pkl") for name in names if name.endswith("/data.pkl")]
            if len(roots) != 1:
                raise Damaged("it is an archive, but not of torch.save")
            root = roots[0]
            if f"{root}byteorder" in names and archive.read(f"{root}byteorder") != b"little":
                raise Refused("was written on a big-endian machine: only little-endian files are read")
            storages: dict[str, _Storage] = {}

            def find(value: Any) -> _Storage:
                storage = _described(value, storages)
                if storage.flat is None and f"{root}data/{storage.key}" in names:
                    storage.fill(archive.read(f"{root}data/{storage.key}"))
                return storage

            return _Unpickler(io.BytesIO(archive.read(f"{root}data.pkl")), find).load()
    except zipfile.BadZipFile as error:
        changed = "CRC" in str(error)
        reason = "some of its bytes have changed since it was written" if changed else "it is cut off"
        raise Damaged(reason) from None


def _storage_in_pickle(data: Any) -> _Storage:
    """Return the storage of a tensor in a plain pickle, where it is a file of the old format."""
    if type(data) is not bytes or data[:2] == ZIP:
        raise Damaged("it makes a tensor of something that is not a file of one storage")
    storage = _torch_file(io.BufferedReader(io.BytesIO(data)))
    if type(storage) is not _Storage:
        raise Damaged("it makes a tensor of something that is not a storage")
    return storage


_FUNCTIONS: dict[str, Any] = {  # what a call of each name calls; None for names that are never called
    **{
        f"{package}.{name}": function
        for package in ("numpy._core", "numpy.core")
        for name, function in {
            "multiarray._reconstruct": lambda *_: _Array(),
            "multiarray.scalar": lambda kind, data: _filled(data, kind, ()).item(),
            "numeric._frombuffer": _from_buffer,
        }.items()
    },
    "numpy.ndarray": None,  # named by _reconstruct, never called
    "numpy.dtype": _Type,
    **{
        f"{module}.{name}": function
        for module in ("builtins", "__builtin__")
        for name, function in {
            "dict": lambda items=(): _Dictionary(items),
            "set": lambda items=(): set(items),
            "frozenset": lambda items=(): frozenset(items),
            "bytes": lambda: b"",  # of protocols without bytes
            "list": None,  # named as the factory of a defaultdict
            "tuple": None,
        }.items()
    },
    "collections.OrderedDict": lambda items=(): _Dictionary(items),
    "collections.Counter": lambda items=(): _Dictionary(items),
    "collections.defaultdict": lambda *_: _Dictionary(),  # the factory is not kept
    "_codecs.encode": _encode,
    **dict.fromkeys(STORAGES),
    **{f"torch.{name}": None for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8")},
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
    "torch.Size": lambda lengths=(): tuple(lengths),
    "torch.device": lambda *_: None,
    "torch.storage._load_from_bytes": _storage_in_pickle,
}
