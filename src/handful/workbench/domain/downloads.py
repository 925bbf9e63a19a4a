"""An export that the browser downloads: one file, or an archive that is made while it is sent."""

from __future__ import annotations

import re
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from handful.workbench.domain.exports import COPY_BYTES, SORTED, sorted_files, write_tables
from handful.workbench.domain.pile import EXPORT_PREFIX
from handful.workbench.domain.project import Project
from handful.workbench.domain.state import State

MISSING_FILE = "missing.txt"  # lists the files that are gone


def download(project: Project, formats: Sequence[str]) -> tuple[str, Iterator[bytes]]:
    """The name of a file and its content: a .zip, unless one format is one file."""
    state, folder = project.state, project.folder / "exports"
    folder.mkdir(parents=True, exist_ok=True)
    scratch = TemporaryDirectory(prefix=EXPORT_PREFIX, dir=folder, ignore_cleanup_errors=True)
    try:
        write_tables(project, state, formats, Path(scratch.name))
        files = sorted(Path(scratch.name).iterdir())
    except BaseException:
        scratch.cleanup()
        raise
    if len(files) == 1 and SORTED not in formats:
        return files[0].name, _with_cleanup(scratch, _blocks(files[0]))
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", project.source.opened.resolve().stem)[:80].strip("._") or "items"
    return f"{name}-labels.zip", _with_cleanup(scratch, _archive(project, state, files, SORTED in formats))


def _with_cleanup(scratch: TemporaryDirectory[str], blocks: Iterator[bytes]) -> Iterator[bytes]:
    with scratch:
        yield from blocks


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(COPY_BYTES):
            yield block


class _Sink:
    """A file that can only be written; `take` gives what was written since."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data


def _archive(project: Project, state: State, files: Sequence[Path], is_sorted: bool) -> Iterator[bytes]:
    sink, missing = _Sink(), list[str]()
    with zipfile.ZipFile(sink, "w") as archive:  # type: ignore[call-overload]
        for path in files:
            with path.open("rb") as file:
                yield from _entry(archive, sink, path.name, file, zipfile.ZIP_DEFLATED)
        for place, open_file in sorted_files(project, state, Path(SORTED)) if is_sorted else ():
            # A name of one file here could be a path on the machine where the archive is unpacked
            name = re.sub(r"[\\:\x00-\x1f]", "_", place.as_posix())
            try:
                descriptor = open_file()
            except (OSError, ValueError):
                missing.append(name)
                continue
            with open(descriptor, "rb") as file:
                yield from _entry(archive, sink, name, file, zipfile.ZIP_STORED)  # a picture is compressed already
        if missing:
            archive.writestr(MISSING_FILE, "".join(f"{name}\n" for name in missing))
    yield sink.take()


def _entry(archive: zipfile.ZipFile, sink: _Sink, name: str, file: BinaryIO, compression: int) -> Iterator[bytes]:
    """Add a file to the archive, and give the bytes that this makes."""
    info = zipfile.ZipInfo(name, time.localtime()[:6])
    info.compress_type = compression
    with archive.open(info, "w", force_zip64=True) as entry:
        while block := file.read(COPY_BYTES):
            entry.write(block)
            yield sink.take()
    yield sink.take()
