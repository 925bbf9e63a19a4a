"""A picture of a result that a notebook shows, and that can be saved as a page."""

from __future__ import annotations

import os
from pathlib import Path

from handful.report.html_text import escape
from handful.utils.files import write_whole

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="handful">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<title>{title}</title></head><body style="max-width:60rem;margin:2rem auto;padding:0 1rem">
{fragment}
</body></html>
"""


class View:
    """A picture of a result: a notebook shows it, and `save` writes it as a page.

    Parameters
    ----------
    fragment : str
        The html, complete in itself.
    title : str
        The title of the page.

    Examples
    --------
    >>> View("<p>60 items</p>", "A pile")._repr_html_()
    '<p>60 items</p>'
    """

    def __init__(self, fragment: str, title: str) -> None:
        self.fragment, self.title = fragment, title

    def _repr_html_(self) -> str:
        return self.fragment

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as one html file that opens from disk and loads nothing.

        Parameters
        ----------
        path : path
            The .html file. Folders that are missing are created.

        Returns
        -------
        Path
            The file.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, PAGE.format(title=escape(self.title), fragment=self.fragment).encode("utf-8"))
        return path

    def __repr__(self) -> str:
        return f"<View of {self.title}: the last line of a cell shows it; save(path) writes a page>"
