"""Structs of Thrift's compact protocol, which the metadata of Parquet files is written in.

Only the requested fields are stored; the others are skipped and take no memory. Input that Arrow would read in another
way is refused: a field that occurs twice, and types that do not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 16  # of nested structs and lists
MAX_STRUCTS = 2**18  # that are stored
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
WHOLE = (I16, I32, I64)

Fields = Mapping[int, Any]  # the numbers of the fields to read, each with the Fields of its structs, or None


class BadStruct(ValueError):
    """What is wrong with a struct; the message follows the name of the struct."""


class CutOffError(Exception):
    """The bytes end before the struct does."""


class StructReader:
    """Reads structs from the beginning of some bytes.

    >>> reader = StructReader(bytes([0x15, 0x08, 0x1C, 0x15, 0x02, 0x00, 0x00]))
    >>> reader.read({1: None, 2: {1: None}}), reader.at
    ({1: 4, 2: {1: 1}}, 7)
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stored = 0

    def read(self, fields: Fields, depth: int = 0) -> dict[int, Any]:
        """The struct that begins here: whole numbers as they are, structs as dictionaries, lists of them as lists."""
        self._count(depth)
        values: dict[int, Any] = {}
        for number, kind in self._heads():
            if number not in fields:
                self._skip(kind, depth + 1)
            elif kind in WHOLE:
                values[number] = self._zigzag()
            elif kind == STRUCT and fields[number] is not None:
                values[number] = self.read(fields[number], depth + 1)
            elif kind == LIST and fields[number] is not None:
                values[number] = self._read_list(fields[number], depth + 1)
            else:
                raise BadStruct(f"has a field {number} of a wrong type")
        return values

    def _read_list(self, fields: Fields, depth: int) -> list[dict[int, Any]]:
        kind, length = self._list_head()
        if kind != STRUCT and length:
            raise BadStruct("has a list of a wrong type")
        return [self.read(fields, depth + 1) for _ in range(length)]

    def _heads(self) -> Any:
        """Number and type of each field. The caller must read its value before the next field."""
        seen: set[int] = set()
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            if number in seen:
                raise BadStruct(f"has the field {number} twice")
            seen.add(number)
            yield number, head & 15

    def _skip(self, kind: int, depth: int) -> None:
        if kind in WHOLE:
            self._varint()
        elif kind == BINARY:
            self._leave(self._varint())
        elif kind == STRUCT:
            self._check_depth(depth)
            for _, inner in self._heads():
                self._skip(inner, depth + 1)
        elif kind in (LIST, SET):
            inner, length = self._list_head()
            self._check_depth(depth)
            if inner in (TRUE, FALSE, BYTE, DOUBLE):
                self._leave(length * (8 if inner == DOUBLE else 1))
            else:
                for _ in range(length):
                    self._skip(inner, depth + 1)
        elif kind in (BYTE, DOUBLE):
            self._leave(8 if kind == DOUBLE else 1)
        elif kind not in (TRUE, FALSE):  # Parquet has no maps
            raise BadStruct(f"holds a value of type {kind}, which Parquet does not have")

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        return head & 15, self._varint() if head >> 4 == 15 else head >> 4

    def _count(self, depth: int) -> None:
        self._check_depth(depth)
        self.stored += 1
        if self.stored > MAX_STRUCTS:
            raise BadStruct(f"has more than {MAX_STRUCTS:,} parts")

    def _check_depth(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise BadStruct("is nested too deeply")

    def _byte(self) -> int:
        if self.at >= len(self.data):
            raise CutOffError
        self.at += 1
        return self.data[self.at - 1]

    def _leave(self, length: int) -> None:
        if self.at + length > len(self.data):
            raise CutOffError
        self.at += length

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise BadStruct("has a number that does not end")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
