"""Checks that readers of several formats share, and the user's choice of columns and arrays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from errno import EINVAL
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from handful.utils.limits import JSON_BYTES, in_units
from handful.utils.text import shortened

OPTIONS = {"embedding": "embedding= (--embedding)", "label": "label= (--label)", "columns": "columns= (--columns)"}
MAX_COLUMNS = 65_536
OTHER_COLUMNS = ("label", "path", "split")  # they are never features


@dataclass(frozen=True)
class ColumnChoice:
    """The columns or arrays that the user named; None for the usual names.

    columns and exclude are names, or patterns such as `f*`.
    """

    embedding: str | None = None
    label: str | None = None
    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()

    @property
    def embedding_column(self) -> str:
        """The name of the column of features."""
        return self.embedding or "embedding"

    @property
    def label_column(self) -> str:
        """The name of the column of labels."""
        return self.label or "label"

    @property
    def arrays(self) -> tuple[str, str]:
        """The names of arrays: the plural of the columns' usual names."""
        return self.embedding or "features", self.label or "labels"

    def check_label(self, names: Sequence[str], what: str) -> None:
        """Raise ValueError if the labels that the user named are missing. Otherwise a file may have no labels."""
        if self.label is not None or names.count(self.label_column) > 1:
            require(names, self.label_column, what, "label")

    def is_excluded(self, name: str) -> bool:
        """Whether a pattern of `exclude` matches the name of a column."""
        return any(fnmatchcase(name, pattern) for pattern in self.exclude)

    def find_columns(self, names: Sequence[str]) -> list[str]:
        """The columns that match `columns`, in that order; each pattern must match at least one."""
        columns: dict[str, None] = {}
        for pattern in self.columns or ():
            matches = [name for name in names if name == pattern] or [n for n in names if fnmatchcase(n, pattern)]
            if not matches:
                raise ValueError(
                    f"there is no column {shortened(pattern)!r}, only {listed(names)}: "
                    f"name the right ones with {OPTIONS['columns']}"
                )
            columns |= dict.fromkeys(name for name in matches if not self.is_excluded(name))
        return list(columns)


def require(names: Sequence[str], name: str, what: str, option: str) -> None:
    """Raise ValueError unless `name` is there once; `what` are columns, arrays or tensors."""
    if names.count(name) != 1:
        many = "more than one" if name in names else "no"
        raise ValueError(f"there is {many} {what} {name!r}, only {listed(names)}: name the right one with "
                         f"{OPTIONS[option]}")  # fmt: skip


def listed(names: Sequence[str]) -> str:
    """Some names for a message."""
    return shortened(", ".join(map(repr, names[:20])), 300) or "none"


def read_json(path: Path) -> dict[str, Any]:
    """A small JSON file that holds an object."""
    size = path.stat().st_size
    if size > JSON_BYTES:
        raise ValueError(f"{path.name} has {in_units(size)}, more than {in_units(JSON_BYTES)}: it is damaged")
    return parse_json(path.read_bytes(), path.name)


def parse_json(text: str | bytes, where: str) -> dict[str, Any]:
    """An object as JSON."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON, or is damaged: {shortened(str(error), 200)}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{where} holds a {type(content).__name__}, not an object")
    return content


def class_names(codes: list[Any], names: Any, where: str, unlabelled: Any = None) -> list[str | None]:
    """The names that codes of classes stand for; None for the code `unlabelled` and where the code is missing."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"the names of classes of {where} are not a list of texts: write the file again")
    result: list[str | None] = []
    for row, code in enumerate(codes):
        if code is None or code == unlabelled:
            result.append(None)
        elif not isinstance(code, int) or isinstance(code, bool) or not 0 <= code < len(names):
            raise ValueError(
                f"{where} has code {shortened(str(code))} in row {row}, but there are {len(names)} names: "
                "label that row"
            )
        else:
            result.append(names[code])
    return result


def damaged(kind: str, error: Exception | str, where: str = "") -> ValueError:
    """The error to raise for a file that cannot be parsed."""
    if isinstance(error, OSError) and error.errno not in (None, EINVAL):
        raise error  # a fault of the disk, or missing permissions; a damaged file gives EINVAL or no number
    return ValueError(f"the file is not a {kind} file, or is damaged or cut off: {where}{shortened(str(error), 300)}")
