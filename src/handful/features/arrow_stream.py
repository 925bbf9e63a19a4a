"""Read Arrow streams, in which Hugging Face `datasets` stores tables: memory-mapped, and checked first.

A plain stream holds its columns as they are in memory. In a compressed stream, each buffer begins with its uncompressed
length, and Arrow reserves that much memory. So these lengths are checked first, from the metadata (FlatBuffers).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from handful.features.file_checks import damaged
from handful.utils.limits import check_bytes

DICTIONARY_BATCH, RECORD_BATCH = 2, 3  # types of messages
BUFFERS, COMPRESSION = 2, 3  # fields of a record batch
ROW_BYTES = 8  # the least memory of a row


def read_stream(path: Path) -> Any:
    """The table of a stream, as a `pyarrow.Table` whose columns are valid."""
    import pyarrow as pa

    where, stored = f"{path.name}: ", path.stat().st_size
    try:
        with pa.memory_map(str(path)) as source:
            for rows, expanded in _sizes(source):
                check_bytes(rows * ROW_BYTES, f"{where}a batch of {rows:,} rows", stored)
                check_bytes(expanded, f"{where}a batch", stored)
        with pa.memory_map(str(path)) as source:
            batches: list[Any] = []
            total = rows = 0
            stream = pa.ipc.open_stream(source)
            for batch in stream:
                batches.append(batch)
                total, rows = total + batch.nbytes, rows + batch.num_rows
                check_bytes(max(total, rows * ROW_BYTES), f"{where}the table", stored)
            table = pa.Table.from_batches(batches, stream.schema)
        table.validate(full=True)  # Arrow does not check offsets when it reads: wrong ones would crash the process
        return table
    except (pa.ArrowException, OSError, MemoryError, struct.error, IndexError) as error:
        raise damaged(f"{path.name}: Arrow", error) from None


def _sizes(source: Any) -> Iterator[tuple[int, int]]:
    """For each batch: its rows, and the uncompressed bytes of its buffers; 0 if they are not compressed."""
    import pyarrow as pa

    reader = pa.ipc.MessageReader.open_stream(source)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        if message.type in ("record batch", "dictionary"):
            yield _batch(memoryview(message.metadata), message.body)


def _batch(data: memoryview, body: Any) -> tuple[int, int]:
    message = _offset(data, 0)
    kind = data[_field(data, message, 1)] if _field(data, message, 1) else 0
    batch = _offset(data, _field(data, message, 2))
    if kind == DICTIONARY_BATCH:
        batch = _offset(data, _field(data, batch, 1))
    place = _field(data, batch, 0)
    rows = struct.unpack_from("<q", data, place)[0] if place else 0
    if rows < 0:
        raise IndexError("a batch has a negative number of rows")
    if not _field(data, batch, COMPRESSION) or not _field(data, batch, BUFFERS):
        return rows, 0
    vector = _offset(data, _field(data, batch, BUFFERS))
    (count,) = struct.unpack_from("<I", data, vector)
    content = memoryview(body)
    total = 0
    for i in range(count):
        start, length = struct.unpack_from("<qq", data, vector + 4 + 16 * i)
        if length >= 8:
            (size,) = struct.unpack_from("<q", content, start) if start >= 0 else (0,)
            total += max(size, 0)  # -1: this buffer is not compressed
    return rows, total


def _offset(data: memoryview, place: int) -> int:
    """The place that a reference points to."""
    return place + int(struct.unpack_from("<I", data, place)[0])


def _field(data: memoryview, table: int, number: int) -> int:
    """The place of a field of a table; 0 if there is none."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    if fields < 0 or 4 + 2 * number + 2 > struct.unpack_from("<H", data, fields)[0]:
        return 0
    (place,) = struct.unpack_from("<H", data, fields + 4 + 2 * number)
    return table + place if place else 0
