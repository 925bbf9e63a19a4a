"""Uploads: files are checked and stored in the folder of the project before they are added."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request

from handful.backbones.folders import BadFile
from handful.backbones.pictures import SUFFIXES, identify, picture_size
from handful.backbones.texts import TEXT_KINDS, TEXT_SUFFIXES, BadText, read_text
from handful.project.items import TEXTS
from handful.project.live import LiveProject
from handful.project.pile import UPLOAD_PREFIX
from handful.project.refusal import Refusal
from handful.utils.text import is_blank

MAX_FILES = 200
MAX_FILE_BYTES = 50 * 2**20  # of one file
MIN_FREE_BYTES = 10**9  # that must stay free on the disk


async def receive_uploads(project: LiveProject, request: Request) -> dict[str, Any]:
    """Add the files of a request; list those that cannot be used, and refuse the request if none is left."""
    if project.source.is_table and project.source.kind == TEXTS:
        raise Refusal("files cannot be added to a table of texts: add rows to it, or open a folder of texts", 409)
    if project.source.is_table:
        raise Refusal("pictures cannot be added to a table of embeddings: open a folder of pictures instead", 409)
    async with request.form(max_files=MAX_FILES) as form:
        files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
        return await run_in_threadpool(_take_in, project, files)


def _take_in(project: LiveProject, files: list[UploadFile]) -> dict[str, Any]:
    folder, kind = project.source.uploads, project.source.kind
    folder.mkdir(parents=True, exist_ok=True)
    if any((file.size or 0) > MAX_FILE_BYTES for file in files):
        raise Refusal(f"a file is larger than {MAX_FILE_BYTES // 2**20} MB, the limit: make it smaller", 413)
    if shutil.disk_usage(folder).free - sum(file.size or 0 for file in files) < MIN_FREE_BYTES:
        raise Refusal("less than 1 GB would be left on the disk: free some space, then send the files again", 507)
    good, refused, names = list[tuple[Path, str, str]](), list[dict[str, str]](), list[str]()
    with TemporaryDirectory(prefix=UPLOAD_PREFIX, dir=folder, ignore_cleanup_errors=True) as scratch:
        for number, file in enumerate(files):
            path, name = Path(scratch) / str(number), file.filename or ""
            with path.open("xb") as stored:
                shutil.copyfileobj(file.file, stored)
                stored.flush()
                os.fsync(stored.fileno())
            try:
                good.append((path, plain_name(name), _suffix_of(path, name, kind)))
            except BadFile as error:
                refused.append({"name": plain_name(name), "reason": error.reason})
        if not good:
            why = f"{refused[0]['name']} {refused[0]['reason']}" if refused else "there is no file in it"
            raise Refusal(f"no {kind.removesuffix('s')} was added: {why}", 422)
        try:
            for path, name, suffix in good:
                names.append(_new_name(folder, name, suffix))
                os.replace(path, folder / names[-1])
            project.add_uploads(names)
        except BaseException:  # the disk is full: files that were not confirmed must not appear later
            for name in names:
                with suppress(OSError):
                    (folder / name).unlink()
            raise
    return {"added": len(good), "refused": refused}


def plain_name(name: str) -> str:
    r"""The file name of a path with letters, digits, dots and a few signs: not hidden and without special characters.

    >>> plain_name("C:\\photos/../.a cat?.png")
    'a cat_.png'
    """
    last = re.split(r"[/\\]", name)[-1]
    return re.sub(r"[^\w .()-]", "_", last).strip(" .")[:80] or "item"


def _suffix_of(file: Path, name: str, kind: str) -> str:
    """The suffix that fits the content of a file; BadFile if it is no picture or no text."""
    if kind == TEXTS:
        if os.path.splitext(name)[1].lower() not in TEXT_SUFFIXES:
            raise BadText(file, f"is not a text, by its suffix: send {TEXT_KINDS} files")
        if is_blank(read_text(file).text):
            raise BadText(file, "has no text")
        return ".txt"
    picture_size(file)
    with file.open("rb") as stream, identify(stream) as picture:
        return str(SUFFIXES[str(picture.format)][0])


def _new_name(folder: Path, name: str, suffix: str) -> str:
    """Take a name in a folder, by an empty file: with the suffix of its format, and a number if it exists already."""
    stem = os.path.splitext(name)[0].strip(" .") or "item"
    for final in chain([f"{stem}{suffix}"], (f"{stem} ({k}){suffix}" for k in count(2))):
        with suppress(FileExistsError):
            (folder / final).touch(exist_ok=False)
            break
    return final
