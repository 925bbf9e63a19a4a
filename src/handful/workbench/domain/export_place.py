"""Where an export may go that a person typed on the page: a new folder, and nothing is overwritten."""

from __future__ import annotations

import os
from pathlib import Path

from handful.utils.files import is_within
from handful.workbench.domain.pile import EXAMPLES, PILE, Source
from handful.workbench.domain.refusal import Refusal


def checked_place(source: Source, typed: str) -> Path:
    """The folder that an export makes; Refusal if it may not.

    It must be below the user's home folder or beside what was opened, with all links followed. It must not exist, or be
    empty, and be no link. It must not be among the opened files or the examples: copies would become items.
    """
    if not typed.isprintable():
        raise Refusal("the folder has characters that cannot be read: type it again", 422)
    path = Path(source.opened.absolute().parent, os.path.expanduser(typed))
    above = os.path.realpath(path.parent)
    place = Path(above, path.name)
    if path.name in ("", "..") or not os.path.isdir(above):
        raise Refusal("there is no folder to make this one in: make it first, or type another one", 404)
    roots = [os.path.realpath(os.path.expanduser("~")), os.path.dirname(os.path.realpath(source.opened))]
    if not any(is_within(above, root) for root in roots):
        raise Refusal("an export goes into your home folder, or beside what was opened: type a folder there", 403)
    for origin, root in source.roots.items():
        is_pile = origin == EXAMPLES or (origin == PILE and not source.is_table)
        if is_pile and is_within(str(place), os.path.realpath(root)):
            raise Refusal(
                f"this folder is among the {source.kind}, and its copies would become items: type another one", 409
            )
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        raise Refusal("there is a file or a link of this name: type another folder", 409)
    if place.is_dir() and any(place.iterdir()):
        raise Refusal("this folder is not empty, and an export overwrites nothing: type a new one", 409)
    return place
