"""The sizes of the columns of a Parquet file, from its footer and page headers. No column is decoded.

The footer, at the end of a file, says where the pages of each column begin and how large they are. It may be wrong, so
the header of each page is read as well. A few bytes of a page can be a billion numbers, because runs of the same number
are written once. The footer is parsed here although Arrow parses it too, because a damaged column can crash Arrow.
"""

from __future__ import annotations

from typing import IO, Any, NamedTuple

from handful.features.thrift import BadStruct, CutOffError, StructReader

MAX_HEADER_BYTES = 2**24  # Arrow's own limit
FIRST_READ_BYTES = 2**10
MAGIC = b"PAR1"
DATA_V1, INDEX, DICTIONARY, DATA_V2 = range(4)  # types of pages
DETAILS = {DATA_V1: 5, DICTIONARY: 7, DATA_V2: 8}  # the field of a header with details, by type of page
ENCODING = {DATA_V1: 2, DATA_V2: 4}  # the field of the details with the encoding
PLAIN, PLAIN_DICTIONARY, DELTA_BYTE_ARRAY, RLE_DICTIONARY = 0, 2, 7, 8  # encodings of values
PAGE = {1: None, 2: None, 3: None, 5: {1: None, 2: None}, 7: {}, 8: {1: None, 4: None}}
COLUMN = {5: None, 7: None, 9: None, 11: None}  # values, stored bytes, first data page, dictionary page
FOOTER = {4: {1: {3: COLUMN}, 3: None}}  # row groups: columns: their metadata; rows


class Chunk(NamedTuple):
    """One column of one row group, by the footer."""

    values: int  # also missing ones
    start: int  # byte of the file
    stored: int  # bytes


class RowGroup(NamedTuple):
    """The rows of a row group, and where its columns are in the file."""

    rows: int
    chunks: list[Chunk]  # one for each column of the schema, in its order


class Pages(NamedTuple):
    """The pages of one column of one row group, by their own headers."""

    values: int  # in all pages, also missing ones
    unpacked: int  # bytes of all of them, uncompressed
    largest: int  # bytes of the largest page, uncompressed
    encodings: frozenset[int]  # of their values

    @property
    def expands(self) -> bool:
        """Whether values may take more bytes than the pages: many rows can use one text or a part of it."""
        return not self.encodings.isdisjoint((PLAIN_DICTIONARY, RLE_DICTIONARY, DELTA_BYTE_ARRAY))


def read_footer(file: IO[bytes], size: int) -> list[RowGroup]:
    """The row groups of an open file of `size` bytes. Raises BadStruct."""
    file.seek(max(0, size - 8))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or length > size - 8:
        raise BadStruct("has no end")
    file.seek(size - 8 - length)
    try:
        groups = StructReader(file.read(length)).read(FOOTER).get(4, [])
    except CutOffError:
        raise BadStruct("has no end") from None
    return [_row_group(group) for group in groups]


def _row_group(group: dict[int, Any]) -> RowGroup:
    return RowGroup(_whole(group, 3, 63), [_chunk(column.get(3)) for column in group.get(1, [])])


def _chunk(column: Any) -> Chunk:
    first = _whole(column, 9, 63)
    dictionary = column.get(11, 0)
    return Chunk(_whole(column, 5, 63), dictionary if 0 < dictionary < first else first, _whole(column, 7, 63))


def read_pages(file: IO[bytes], chunk: Chunk) -> Pages:
    """Walk the headers of the pages of a column. Raises BadStruct."""
    place, end = chunk.start, chunk.start + chunk.stored
    values = unpacked = largest = 0
    encodings = set()
    while place < end and values < chunk.values:
        try:
            header, size = _read_header(file, place, end)
            kind = _whole(header, 1)
            about = header.get(DETAILS.get(kind, 0), {})
            count = _whole(about, 1) if kind in ENCODING else 0
            length, packed = _whole(header, 2), _whole(header, 3)
        except BadStruct as error:
            raise BadStruct(f"has a page at byte {place} that {error}") from None
        if count:
            encodings.add(_whole(about, ENCODING[kind]))
        values, unpacked, largest = values + count, unpacked + length, max(largest, length)
        place += size + packed
    if values < chunk.values:
        raise BadStruct(f"says it has {chunk.values} values, but its pages have {values}")
    return Pages(values, unpacked, largest, frozenset(encodings))


def _whole(fields: Any, number: int, bits: int = 31) -> int:
    value = fields.get(number) if isinstance(fields, dict) else None
    if not isinstance(value, int) or not 0 <= value < 2**bits:
        raise BadStruct("does not say how large it is")
    return value


def _read_header(file: IO[bytes], place: int, end: int) -> tuple[dict[int, Any], int]:
    """The fields of the header that begins at a byte, and its length."""
    length = FIRST_READ_BYTES
    while True:
        file.seek(place)
        data = file.read(min(length, end - place))
        reader = StructReader(data)
        try:
            return reader.read(PAGE), reader.at
        except CutOffError:
            if len(data) < length or length >= MAX_HEADER_BYTES:
                raise BadStruct("has no end") from None
            length *= 8
