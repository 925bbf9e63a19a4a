"""Rules for the entries of a JSON document that anyone may have written, beside those of `handful.core.parameters`.

A document is checked as a whole before any of it is used: types, ranges, sizes, and that every entry is known.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handful.core.parameters import Rule
from handful.utils.files import in_brief, read_text

MIN_BYTES_PER_CONTAINER = 12  # brackets take 30 times their size in memory: a document with more of them is refused


@dataclass(frozen=True)
class Text:
    """A text. is_path: it must be a path that the system accepts."""

    max_length: int = 4096
    optional: bool = False
    is_path: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether a value of a record is of this kind."""
        if value is None:
            return self.optional
        if not isinstance(value, str) or len(value) > self.max_length:
            return False
        try:
            return not self.is_path or (0 < len(os.fsencode(value)) <= self.max_length and "\0" not in value)
        except ValueError:  # half of a character
            return False

    def __str__(self) -> str:
        what = "a path" if self.is_path else "text"
        return f"{what} of at most {self.max_length} characters" + (", or null" if self.optional else "")


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def accepts(self, value: Any) -> bool:
        """Whether a value of a record is of this kind."""
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class Anything:
    """The rule of an entry that is never used."""

    def accepts(self, value: Any) -> bool:
        """Whether a value of a record is of this kind."""
        return True


@dataclass(frozen=True)
class Pairs:
    """Lists of two texts."""

    max_length: int = 4096

    def accepts(self, value: Any) -> bool:
        """Whether a value of a record is of this kind."""
        return isinstance(value, list) and all(
            isinstance(pair, list)
            and len(pair) == 2
            and all(isinstance(text, str) and len(text) <= self.max_length for text in pair)
            for pair in value
        )

    def __str__(self) -> str:
        return "a list of pairs of text"


@dataclass(frozen=True)
class ListOf:
    """A list whose values all follow one rule."""

    rule: Any
    max_length: int = 100_000
    optional: bool = False


@dataclass(frozen=True)
class MapOf:
    """An object with any names, none longer than a path."""

    rule: Any
    max_length: int = 100_000


@dataclass(frozen=True)
class Fields:
    """An object with these names. needed: the names that must be there. others_allowed: other names do not matter."""

    rules: Mapping[str, Any]
    needed: Set[str] = field(default_factory=frozenset)
    optional: bool = False
    others_allowed: bool = False


def find_fault(value: Any, rule: Rule | ListOf | MapOf | Fields, where: str) -> str | None:
    """What is wrong with a value, in words; None if nothing is."""
    parts: list[tuple[Any, Any, str]]
    if value is None and getattr(rule, "optional", False):
        return None
    if isinstance(rule, Fields):
        if not isinstance(value, dict):
            return f"{where} must be an object"
        extra_names = sorted(value.keys() - rule.rules.keys())
        if extra_names and not rule.others_allowed:
            return f"{where} has an unknown entry {in_brief(extra_names[0], 40)}"
        if missing_names := sorted(rule.needed - value.keys()):
            return f"{where} has no {missing_names[0]}"
        parts = [(entry, rule.rules[name], f"{where}.{name}") for name, entry in value.items() if name in rule.rules]
    elif isinstance(rule, ListOf):
        if not isinstance(value, list) or len(value) > rule.max_length:
            return f"{where} must be a list of at most {rule.max_length:,} entries"
        parts = [(entry, rule.rule, f"{where}[{i}]") for i, entry in enumerate(value)]
    elif isinstance(rule, MapOf):
        if not isinstance(value, dict) or len(value) > rule.max_length:
            return f"{where} must be an object of at most {rule.max_length:,} entries"
        parts = [(name, Text(), f"a name in {where}") for name in value]
        parts += [(entry, rule.rule, f"{where}[{in_brief(name, 40)}]") for name, entry in value.items()]
    else:
        return None if rule.accepts(value) else f"{where} must be {rule}"
    return next(filter(None, (find_fault(*part) for part in parts)), None)


def read_json(path: Path, most_bytes: int) -> Any:
    """Read a document; raise ValueError if it is too large, too deep or not JSON."""
    content = read_text(path, most_bytes)
    if content.count("[") + content.count("{") > len(content) // MIN_BYTES_PER_CONTAINER + 1000:
        raise ValueError("it is made of brackets")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("its entries are nested too deeply") from None
