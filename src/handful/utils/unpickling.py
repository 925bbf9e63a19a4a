"""Read arrays and plain containers from pickles and torch files of strangers, without running anything in them.

A pickle is a program that calls what it names. Here a file gets only the names in `_FUNCTIONS`, and for each of them a
function of this module. NumPy's own unpickling trusts the type that a file gives an array, so `_Type` stands for a type
and `_Array` checks what it is filled with.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from handful.utils.text import shortened

ADVICE = "if you trust the file, load it and save its arrays with numpy.savez(..., features=..., labels=...)"
ARRAY_TYPES = re.compile(r"b1|[iu][1248]|f[248]|[US][1-9]\d{0,5}")  # numbers and strings; never Python's objects
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # how a file of torch's old format begins
BFLOAT16 = "torch.BFloat16Storage"  # NumPy has no such type: it is the upper half of a float32
STORAGES = {
    BFLOAT16: "<f4", "torch.FloatStorage": "<f4", "torch.DoubleStorage": "<f8", "torch.HalfStorage": "<f2",
    "torch.LongStorage": "<i8", "torch.IntStorage": "<i4", "torch.ShortStorage": "<i2", "torch.CharStorage": "i1",
    "torch.ByteStorage": "u1", "torch.BoolStorage": "b1",
}  # fmt: skip


class Refused(ValueError):
    """The file is refused. The text continues a sentence that begins with the file."""


class Damaged(Refused):
    """The file is damaged, or it is another kind of file; for this `reason`."""

    def __init__(self, reason: str):
        super().__init__(f"is damaged, or something else: {reason}")


def load_plain(path: Path, advice: str = ADVICE) -> Any:
    """As `load_torch`, with a plain ValueError; `advice` ends the message for a file that holds other objects."""
    try:
        return load_torch(path)
    except Refused as error:
        raise ValueError(f"the pickle {error}{'' if isinstance(error, Damaged) else f'; {advice}'}") from None


def load_torch(path: Path) -> Any:
    """The content of a pickle or of a file of `torch.save`: plain containers, arrays for tensors, or else `Refused`."""
    with path.open("rb") as file:
        return _content(file)


def quoted(value: Any) -> str:
    """Return a key or another plain value of a file as text for a message; of a container only its kind."""
    is_plain = value is None or isinstance(value, str | bytes | int | float)
    return shortened(repr(value)) if is_plain else f"a {type(value).__name__}"


def _content(file: Any) -> Any:
    try:
        return _archive(file) if file.peek(2)[:2] == b"PK" else _stream(file)
    except (Refused, ImportError):
        raise
    except MemoryError:
        raise Refused("does not fit into memory") from None
    except zipfile.BadZipFile as error:
        raise Damaged("some of its bytes have changed" if "CRC" in str(error) else "it is cut off") from None
    except Exception as error:  # a damaged file can fail in any way; the message may contain long text of the file
        early = isinstance(error, EOFError) or "truncated" in str(error)
        raise Damaged("it ends early" if early else type(error).__name__) from None


def _stream(file: Any) -> Any:
    """A pickle, or torch's old format: several pickles, and then the numbers of the tensors."""
    start = _Unpickler(file).load()
    if type(start) is not int or start != MAGIC:
        return start
    if _Unpickler(file).load() != PROTOCOL:
        raise Damaged("it does not start like a file of torch.save")
    _check_byte_order(_Unpickler(file).load().get("little_endian") is True)
    unpickler = _Unpickler(file)
    content = unpickler.load()
    for key in _Unpickler(file).load():
        kind, storage = unpickler.storages[key]
        if int.from_bytes(file.read(8), "little") != len(storage):
            raise Damaged(f"it gives the storage {shortened(key)} two lengths")
        _fill(storage, kind, file.read(len(storage) * (2 if kind == BFLOAT16 else storage.itemsize)))
    return content


def _archive(file: Any) -> Any:
    """Torch's new format, a zip: the pickle, and the numbers of each storage as a file."""
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        roots = [name.removesuffix("data.pkl") for name in names if name.endswith("/data.pkl")]
        if len(roots) != 1:
            raise Damaged("it is an archive, but not of torch.save")
        _check_byte_order(f"{roots[0]}byteorder" not in names or archive.read(f"{roots[0]}byteorder") == b"little")
        unpickler = _Unpickler(io.BytesIO(archive.read(f"{roots[0]}data.pkl")))
        content = unpickler.load()
        for key, (kind, storage) in unpickler.storages.items():
            if f"{roots[0]}data/{key}" not in names:
                raise Damaged(f"it lacks the storage {shortened(key)}")
            _fill(storage, kind, archive.read(f"{roots[0]}data/{key}"))
        return content


def _check_byte_order(is_little: bool) -> None:
    if not is_little:
        raise Refused("was written on a big-endian machine: only little-endian files are read")


def _fill(storage: np.ndarray, kind: str, data: bytes) -> None:
    if kind == BFLOAT16:
        numbers = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    else:
        numbers = _numbers(data, storage.dtype)
    if len(numbers) != len(storage):
        raise Damaged(f"it ends early in a storage of {len(storage):,} numbers")
    storage[:] = numbers


def _numbers(data: bytes, kind: np.dtype) -> np.ndarray:
    """Bytes as an array. NumPy trusts that booleans are 0 or 1, and would write beyond its memory."""
    return np.frombuffer(data, np.uint8) != 0 if kind.kind == "b" else np.frombuffer(data, kind)


class _Unpickler(pickle.Unpickler):
    """Python's unpickler with an allow-list of names. Strings of Python 2 are bytes."""

    def __init__(self, file: Any):
        super().__init__(file, encoding="bytes")
        self.storages: dict[str, tuple[str, np.ndarray]] = {}

    def find_class(self, module: str, name: str, /) -> Any:
        text = f"{module}.{name}".replace("numpy.core.", "numpy._core.").replace("__builtin__.", "builtins.")
        if text == "argparse.Namespace":  # the only one that pickles make without a call, so it must be a class
            return type("Namespace", (_Dictionary,), {})
        if text not in _FUNCTIONS and text not in _NAMED:
            raise Refused(
                f"asks for {shortened(text)}, which is not an array or a plain container and could run anything: it "
                "was not called and nothing was read"
            )
        return _Name(text)

    def persistent_load(self, value: Any) -> np.ndarray:
        """The numbers of tensors, which are filled in when the pickle has been read."""
        match value:
            case ("storage", _Name(text=kind), str(key), str(), int(count), *_) if kind in STORAGES and count >= 0:
                if key not in self.storages:
                    self.storages[key] = kind, np.zeros(count, STORAGES[kind])
                if self.storages[key][0] == kind and len(self.storages[key][1]) == count:
                    return self.storages[key][1]
        raise Damaged("it points to data in an unknown way")


class _Name:
    """A name that a file may call. It is no function, because a file could change the defaults of a function."""

    __slots__ = ("text",)

    def __init__(self, text: str):
        self.text = text

    def __call__(self, *arguments: Any) -> Any:
        if self.text not in _FUNCTIONS:
            raise Refused(f"calls {self.text}, which no pickle of arrays does: it was not called and nothing was read")
        return _FUNCTIONS[self.text](*arguments)

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
        text = code.decode("latin1") if isinstance(code, bytes) else code
        if not isinstance(text, str) or not ARRAY_TYPES.fullmatch(text):
            raise Refused(f"holds an array of type {quoted(text)}: only numbers and strings are read")
        self.dtype: np.dtype = np.dtype(text)

    def __setstate__(self, state: Any) -> None:
        order: Any = state[1].decode("latin1") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise Refused("holds an array of records: only numbers and strings are read")
        self.dtype = self.dtype.newbyteorder(order)


class _Array(np.ndarray):
    """A numpy.ndarray that checks the state which a file gives it."""

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, data = state
        filled = _filled(data, kind, shape, "F" if fortran else "C")
        super().__setstate__((1, filled.shape, filled.dtype, bool(fortran), filled.tobytes("A")))  # type: ignore[arg-type]


def _filled(data: Any, kind: Any, shape: Any, order: Any = "C", axes: Any = None) -> np.ndarray:
    """An array of `data`, which must have exactly the bytes that the shape needs. A file could change a bytearray."""
    if type(data) not in (bytes, bytearray) or type(kind) is not _Type:
        raise Refused("fills an array with something that is not bytes: nothing was read")
    array = _numbers(bytes(data), kind.dtype)
    if type(shape) is not tuple or min(shape, default=0) < 0 or math.prod(shape) != array.size:
        raise Damaged(f"an array has {array.size:,} numbers, but its shape needs another count")
    array = array.reshape(shape, order="F" if order == "F" else "C")
    return array.transpose(axes) if order == "K" and axes is not None else array


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> np.ndarray:
    """A view of a storage; NumPy checks that it does not end after it. Steps of 0 could make it larger."""
    if type(storage) is not np.ndarray or storage.ndim != 1:  # `_Array` could be filled again below its views
        raise Damaged("it describes a tensor in an unknown way")
    if math.prod(shape) > len(storage) or min(strides, default=0) < 0:
        raise Damaged(f"it has a tensor that is larger than its storage of {len(storage):,} numbers")
    steps = [step * storage.itemsize for step in strides]
    return np.ndarray(shape, storage.dtype, storage, offset * storage.itemsize, steps)


def _encode(text: Any, encoding: Any) -> bytes:
    """Bytes as protocols write them that had none."""
    if type(text) is not str or encoding not in ("latin1", b"latin1"):
        raise Refused(f"asks for the codec {quoted(encoding)}: only bytes written as latin1 are read")
    return text.encode("latin1")


_FUNCTIONS: dict[str, Any] = {  # what a call of each name calls
    "numpy._core.multiarray._reconstruct": lambda *_: np.empty(0).view(_Array),
    "numpy._core.multiarray.scalar": lambda kind, data: _filled(data, kind, ()).item(),
    "numpy._core.numeric._frombuffer": _filled,
    "numpy.dtype": _Type,
    "builtins.dict": lambda items=(): _Dictionary(items),
    "builtins.set": lambda items=(): set(items),
    "builtins.frozenset": lambda items=(): frozenset(items),
    "builtins.bytes": lambda: b"",  # of protocols without bytes
    "collections.OrderedDict": lambda items=(): _Dictionary(items),
    "collections.Counter": lambda items=(): _Dictionary(items),
    "collections.defaultdict": lambda *_: _Dictionary(),  # the factory is not kept
    "_codecs.encode": _encode,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
    "torch.Size": lambda lengths=(): tuple(lengths),
    "torch.device": lambda *_: None,
    "torch.storage._load_from_bytes": lambda data: _content(io.BufferedReader(io.BytesIO(data))),  # in the old format
}
_NAMED = {  # and names that are never called: of types, and of the factory of a defaultdict
    *STORAGES, "numpy.ndarray", "builtins.list", "builtins.tuple", "torch.float32", "torch.float64", "torch.float16",
    "torch.bfloat16", "torch.int64", "torch.int32", "torch.uint8",
}  # fmt: skip
