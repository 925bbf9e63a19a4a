"""Uploads: files are checked and stored in the folder of the project before they are added."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request

from handful.project.items import TEXTS
from handful.project.live import LiveProject
from handful.project.pile import UPLOAD_PREFIX
from handful.project.refusal import Refusal
from handful.utils.text import is_blank

MAX_FILES = 200
MAX_FILE_BYTES = 50 * 2**20  # of one file
MIN_FREE_BYTES = 10**9  # that must stay free on the disk


@dataclass
class _Part:
    path: Path
    name: str


async def receive_uploads(project: LiveProject, request: Request) -> dict[str, Any]:
    """Add the files of a request; list those that cannot be used, and refuse the request if none is left."""
    if project.source.is_table and project.source.kind == TEXTS:
        raise Refusal("files cannot be added to a table of texts: add rows to it, or open a folder of texts", 409)
    if project.source.is_table:
        raise Refusal("pictures cannot be added to a table of embeddings: open a folder of pictures instead", 409)
    folder = project.source.uploads
    folder.mkdir(parents=True, exist_ok=True)
    async with request.form(max_files=MAX_FILES) as form:
        files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
        return await run_in_threadpool(_take_in, project, files)


def _take_in(project: LiveProject, files: list[UploadFile]) -> dict[str, Any]:
    size = sum(file.size or 0 for file in files)
    if any((file.size or 0) > MAX_FILE_BYTES for file in files):
        raise Refusal(f"a file is larger than {MAX_FILE_BYTES // 2**20} MB, the limit: make it smaller", 413)
    folder = project.source.uploads
    if shutil.disk_usage(folder).free - size < MIN_FREE_BYTES:
        raise Refusal("less than 1 GB would be left on the disk: free some space, then send the files again", 507)
    with TemporaryDirectory(prefix=UPLOAD_PREFIX, dir=folder, ignore_cleanup_errors=True) as scratch:
        parts = [_store(file, Path(scratch) / str(number)) for number, file in enumerate(files)]
        return _add(project, parts)


def _store(file: UploadFile, path: Path) -> _Part:
    """Copy a file that was received; it is on the disk when this returns."""
    with path.open("xb") as stored:
        shutil.copyfileobj(file.file, stored)
        stored.flush()
        os.fsync(stored.fileno())
    return _Part(path, file.filename or "")


def _add(project: LiveProject, parts: list[_Part]) -> dict[str, Any]:
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
    from handful.backbones.pictures import BadPicture, picture_size

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

    from handful.backbones.pictures import SUFFIXES, identify

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
