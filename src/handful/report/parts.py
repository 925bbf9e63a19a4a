"""What both pages share: text made safe for html, and a file that is written whole or not at all."""

from __future__ import annotations

import html
import os
import secrets
from collections.abc import Mapping
from pathlib import Path


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
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")  # same folder: the rename is atomic
    try:
        part.write_text(page, encoding="utf-8", newline="\n")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path
