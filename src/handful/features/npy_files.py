"""Read arrays of .npy and .npz files. Shape, type and size in the header are checked before memory is reserved.

Arrays of Python objects are refused, because they could run code. Structured arrays are refused too.
"""

from __future__ import annotations

import io
import lzma
import math
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np

from handful.features.file_checks import damaged
from handful.utils.limits import check_bytes, in_units

OBJECT_ARRAY_ERROR = (
    "is an array of Python objects, which could run code: save names with labels.astype(str), numbers as float32"
)
DAMAGE_ERRORS = (
    ValueError, EOFError, OSError, RuntimeError, SyntaxError, MemoryError, TypeError, struct.error, TokenError,
    zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip
MAX_HEADER_BYTES = 10_000  # the limit of NumPy for files that are not trusted


@dataclass(frozen=True)
class Header:
    """The header of an array: shape, type, and where its numbers begin."""

    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int

    @property
    def nbytes(self) -> int:
        """The size of the values in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: IO[bytes], what: str) -> Header:
    """The header of the array that begins here; `what` names it in errors."""
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):  # 3.0 is for field names of structured arrays
            raise ValueError(f"it has format {version[0]}.{version[1]}, but only 1.0 and 2.0 are read")
        size = stream.read(2 if version == (1, 0) else 4)
        length = int.from_bytes(size, "little")
        if length > MAX_HEADER_BYTES:
            raise ValueError(f"its header has {length:,} bytes, more than {MAX_HEADER_BYTES:,}")
        parse = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = parse(io.BytesIO(size + stream.read(length)))
    except (*DAMAGE_ERRORS, RecursionError) as error:
        raise damaged(".npy", error, f"{what}: ") from None
    if dtype.hasobject:
        raise ValueError(f"{what} {OBJECT_ARRAY_ERROR}")
    if dtype.kind == "V":
        raise ValueError(f"{what} has dtype {str(dtype)[:80]}: one plain type is needed, such as float32")
    if any(isinstance(side, bool) or side < 0 for side in shape):
        raise ValueError(f"{what} has shape {_short(shape)}: sides of an array are 0 or more")
    return Header(shape, dtype, 6 + 2 + len(size) + length)


def read_npy(path: Path, what: str) -> np.ndarray:
    """The array of a .npy file."""
    with path.open("rb") as file:
        check_npy(file, what)
        return _array(file, what)


def check_npy(file: IO[bytes], what: str, whole: bool = True) -> Header:
    """Read and check the header of an open .npy file. whole: the array must fit into memory."""
    header = read_header(file, what)
    if whole:
        check_bytes(header.nbytes, what)
    stored = file.seek(0, io.SEEK_END) - header.offset
    if header.nbytes > stored:
        raise _short_of(what, header, stored)
    file.seek(header.offset)
    return header


def read_npz(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read those of the arrays that the archive has."""
    with open_npz(path) as archive:
        stored = path.stat().st_size
        members = {_name(member): member for member in archive.infolist()}
        stored_names = [name for name in names if name in members]
        return {name: _read_member(archive, members[name], f"array {name!r}", stored) for name in stored_names}


def read_rows(path: Path, names: Sequence[str], rows: int) -> dict[str, np.ndarray]:
    """Read those of the arrays that have one plain value for each row; the others are not read."""
    arrays = {}
    with open_npz(path) as archive:
        stored = path.stat().st_size
        members = {_name(member): member for member in archive.infolist()}
        for name in names:
            try:
                with archive.open(members[name]) as stream:
                    header = read_header(stream, f"array {name!r}")
                if header.shape == (rows,) and header.dtype.kind in "biufUS":
                    arrays[name] = _read_member(archive, members[name], f"array {name!r}", stored)
            except DAMAGE_ERRORS:  # the features can be used without it
                continue
    return arrays


@contextmanager
def open_npz(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive; raise ValueError if two of its members have the same name."""
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGE_ERRORS as error:
        raise damaged(".npz", error) from None
    with archive:
        members = archive.infolist()
        if twice := [name for name, count in Counter(map(_name, members)).items() if count > 1]:
            raise ValueError(f"there is more than one array {twice[0][:80]!r}: write the file again")
        yield archive


def names_of(archive: zipfile.ZipFile) -> list[str]:
    """The names of the arrays in an archive."""
    return [_name(member) for member in archive.infolist()]


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, what: str, stored: int) -> np.ndarray:
    try:
        with archive.open(member) as stream:
            header = read_header(stream, what)
            check_bytes(header.nbytes, what, stored)
            if header.offset + header.nbytes != member.file_size:
                raise _short_of(what, header, member.file_size - header.offset)
            return _array(stream, what)
    except ValueError:
        raise
    except DAMAGE_ERRORS as error:
        raise damaged(".npy", error, f"{what}: ") from None


def _array(stream: Any, what: str) -> np.ndarray:
    """The array of a stream whose header has been checked."""
    stream.seek(0)
    try:
        return np.lib.format.read_array(stream, allow_pickle=False)
    except MemoryError:
        raise ValueError(f"{what} is larger than the memory of this machine") from None


def _short_of(what: str, header: Header, stored: int) -> ValueError:
    kind = f"{header.dtype} of shape {_short(header.shape)}"
    return damaged(
        ".npy",
        f"{what} says it is {kind}, {in_units(header.nbytes)}, but the file has {in_units(max(stored, 0))} of it",
    )


def _short(shape: tuple[int, ...]) -> str:
    text = str(shape)
    return text if len(text) <= 80 else f"{text[:80]}..."
