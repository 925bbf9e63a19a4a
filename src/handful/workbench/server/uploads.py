"""Uploads: files are streamed to the disk, counted while they arrive, and checked before they are added."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from handful.project.live import LiveProject
from handful.project.pile import TEXTS, UPLOAD_PREFIX
from handful.project.refusal import Refusal
from handful.utils.text import is_blank

MAX_FILES = 200
MAX_FILE_BYTES = 50 * 2**20  # of one file
MAX_HEADER_BYTES = 8192  # bytes of a part's headers


@dataclass
class _Part:
    path: Path
    name: str = ""
    size: int = 0


class _Receiver:
    """The callbacks of the parser. It stops when a limit is exceeded."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.parts = folder, list[_Part]()
        self.file: BinaryIO | None = None
        self.field, self.value, self.header = b"", b"", 0

    def on_part_begin(self) -> None:
        if len(self.parts) == MAX_FILES:
            raise Refusal(f"more than {MAX_FILES} files are sent at once: send fewer at a time", 413)
        part = _Part(self.folder / f"{len(self.parts)}")
        self.parts.append(part)
        self.file, self.header = part.path.open("xb"), 0

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self.field += self._some(data, start, end)

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self.value += self._some(data, start, end)

    def _some(self, data: bytes, start: int, end: int) -> bytes:
        self.header += end - start
        if self.header > MAX_HEADER_BYTES:
            raise Refusal("the headers of a file that is sent are too long: give it a shorter name", 413)
        return data[start:end]

    def on_header_end(self) -> None:
        if self.field.lower() == b"content-disposition":
            _, options = parse_options_header(self.value)
            self.parts[-1].name = options.get(b"filename", b"").decode("utf-8", "replace")
        self.field = self.value = b""

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        part = self.parts[-1]
        part.size += end - start
        if part.size > MAX_FILE_BYTES:
            raise Refusal(f"a file is larger than {MAX_FILE_BYTES // 2**20} MB, the limit: make it smaller", 413)
        assert self.file is not None
        self.file.write(data[start:end])

    def on_part_end(self) -> None:
        assert self.file is not None
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        self.file = None

    def callbacks(self) -> dict[str, Callable[..., None]]:
        return {name: getattr(self, name) for name in dir(self) if name.startswith("on_")}


async def receive_uploads(project: LiveProject, request: Request) -> dict[str, Any]:
    """Add the files of a request; list those that cannot be used, and refuse the request if none is left."""
    if project.source.is_table and project.source.kind == TEXTS:
        raise Refusal("files cannot be added to a table of texts: add rows to it, or open a folder of texts", 409)
    if project.source.is_table:
        raise Refusal("pictures cannot be added to a table of embeddings: open a folder of pictures instead", 409)
    _, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if not 0 < len(boundary) <= 200:
        raise Refusal("the content type names no boundary: send the files as multipart/form-data")
    folder = project.source.uploads
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=UPLOAD_PREFIX, dir=folder, ignore_cleanup_errors=True) as scratch:
        receiver = _Receiver(Path(scratch))
        parser = MultipartParser(boundary, receiver.callbacks())  # type: ignore[arg-type]
        try:
            async for data in request.stream():
                await run_in_threadpool(parser.write, data)
            parser.finalize()
        except MultipartParseError as error:
            raise Refusal(f"the body is not multipart/form-data ({error}): send it again") from None
        finally:
            if receiver.file is not None:
                receiver.file.close()
                receiver.file = None
        return await run_in_threadpool(_take_in, project, receiver.parts)


def _take_in(project: LiveProject, parts: list[_Part]) -> dict[str, Any]:
    fault_of = _fault_of_text if project.source.kind == TEXTS else _fault_of_picture
    good, refused = list[_Part](), list[dict[str, str]]()
    for part in parts:
        if fault := fault_of(part):
            refused.append({"name": _plain(part.name), "reason": fault})
        else:
            good.append(part)
    if not good:
        why = f"{refused[0]['name']} {refused[0]['reason']}" if refused else "there is no file in it"
        raise Refusal(f"no {'text' if project.source.kind == TEXTS else 'picture'} was added: {why}", 422)
    folder, names = project.source.uploads, list[str]()
    try:
        for part in good:
            suffix = ".txt" if project.source.kind == TEXTS else _suffix_of_picture(part.path)
            names.append(_place(part.path, folder, _plain(part.name), suffix))
        project.add_uploads(names)
    except BaseException:  # the disk is full: files that were not confirmed must not appear later
        for name in names:
            with suppress(OSError):
                (folder / name).unlink()
        raise
    return {"added": len(good), "refused": refused}


def _plain(name: str) -> str:
    """The file name of a path with letters, digits, dots and a few signs: not hidden and without special characters."""
    last = re.split(r"[/\\]", name)[-1]
    return re.sub(r"[^\w .()-]", "_", last).strip(" .")[:80] or "item"


def _fault_of_picture(part: _Part) -> str:
    """Why a file is no picture; "" if it is one."""
    from handful.backbones import BadPicture, picture_size

    try:
        picture_size(part.path)
    except BadPicture as error:
        return error.reason
    return ""


def _fault_of_text(part: _Part) -> str:
    """Why a file is no text; "" if it is one."""
    from handful.backbones.texts import TEXT_KINDS, TEXT_SUFFIXES, BadText, read_text

    if os.path.splitext(part.name)[1].lower() not in TEXT_SUFFIXES:
        return f"is not a text, by its suffix: send {TEXT_KINDS} files"
    try:
        return "has no text" if is_blank(read_text(part.path).text) else ""
    except BadText as error:
        return error.reason


def _suffix_of_picture(file: Path) -> str:

    from handful.backbones.picture_formats import SUFFIXES, identify

    with file.open("rb") as stream, identify(stream) as picture:
        return str(SUFFIXES[str(picture.format)][0])


def _place(file: Path, folder: Path, name: str, suffix: str) -> str:
    """Move a file into the folder. Its name gets the suffix of its format, and a number if it exists already."""
    stem, k = os.path.splitext(name)[0].strip(" .") or "item", 1
    final = f"{stem}{suffix}"
    while True:
        try:
            (folder / final).touch(exist_ok=False)  # takes the name in one step
        except FileExistsError:
            k += 1
            final = f"{stem} ({k}){suffix}"
            continue
        try:
            os.replace(file, folder / final)
        except OSError:
            (folder / final).unlink()
            raise
        return final
