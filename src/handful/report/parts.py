"""What both pages share: text made safe for html, and saving."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from pathlib import Path

from handful.utils.files import write_whole


def text(value: object) -> str:
    """Escaped for text and attributes alike; a file name's undecodable bytes become '?'."""
    return html.escape(str(value).encode("utf-8", "replace").decode("utf-8"), quote=True)


def words(value: object) -> str:
    """A setting as text: a mapping becomes 'name value, name value'."""
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {words(v)}" for k, v in value.items())
    return str(value)


def facts(made_by: Mapping[str, object] | None) -> str:
    """The rows of a definition list."""
    return "\n".join(f"<dt>{text(k)}</dt><dd>{text(words(v))}</dd>" for k, v in (made_by or {}).items())


def save(path: str | os.PathLike, page: str) -> Path:
    """Write `page` to `path`; an earlier page stays whole if that fails."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page.encode("utf-8"))
    return path
