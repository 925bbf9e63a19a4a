"""Limits on the memory and work of an untrusted pickle, and the errors that refuse it.

An honest pickle stays far below every limit. The size of the file is checked against `max_bytes`, which a user can
raise. The other limits follow from how pickles are written and never need to be raised.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from handful.utils.limits import VARIABLE, max_bytes
from handful.utils.text import shortened

MAX_INSTRUCTIONS = 200_000_000  # of one file, read at about 3 million a second
MAX_OPEN_MARKS = 1_000  # containers within containers; Python's own pickler stops at a depth of 1,000
MEMORY_PER_FILE_BYTE = 32  # bytes of containers and copies; a list of small dictionaries takes almost as many
SMALL_FILE_MEMORY = 2**26  # bytes that even the smallest file may take
MAX_KEY_LENGTH = 4_096  # characters of a key in a dictionary: equal keys are compared many times
MAX_KEY_ITEMS = 8  # of a tuple that is a key
MAX_INTEGER_BYTES = 64  # of one integer; arithmetic and printing of long integers are very slow
MAX_LINE = 1_000  # characters of a number or a name that is written as text
SMALL_INTEGERS = range(-(2**20), 2**20)  # as keys they have few hash collisions
MAX_NUMBER_KEYS = 2**14  # other numbers and tuples as keys, in one file: they can be chosen so that all collide
MAX_QUOTED = 100  # characters of a file in a message


class Refused(ValueError):
    """The file is refused. The text continues a sentence that begins with the file.

    advise: whether the file asks for other objects than arrays.
    """

    def __init__(self, predicate: str, advise: bool = False):
        super().__init__(predicate)
        self.advise = advise


class Damaged(Refused):
    """The file is damaged, or it is another kind of file."""

    def __init__(self, reason: str):
        super().__init__(f"is damaged, or something else: {reason}")


class Budget:
    """The remaining memory and work that a file of `size` bytes may take."""

    def __init__(self, size: int):
        if size > max_bytes():
            raise Refused(f"has {size:,} bytes, more than the limit of {max_bytes():,}: raise it with {VARIABLE}")
        self.limit = min(max_bytes(), SMALL_FILE_MEMORY + MEMORY_PER_FILE_BYTE * size)
        self.memory = self.limit
        self.instructions = MAX_INSTRUCTIONS
        self.nested_bytes = size  # of files within the file; each byte of an honest file is read once
        self.number_keys = MAX_NUMBER_KEYS

    def take(self, count: int) -> None:
        """Ask for `count` bytes, before they are allocated."""
        self.memory -= count
        if self.memory < 0:
            raise Refused(
                f"would take more than {self.limit:,} bytes of memory, which no honest file of its size does: "
                "it was not read"
            )

    def take_nested(self, count: int) -> None:
        """Count bytes that are read inside other parts of the file; raise Damaged if they are too many."""
        self.nested_bytes -= count
        if self.nested_bytes < 0:
            raise Damaged("it reads one part of itself many times")

    def check_keys(self, keys: Iterable[Any]) -> None:
        """Refuse keys that are slow to hash. Text, bytes, numbers and flat tuples of these are allowed."""
        for key in keys:
            kind = type(key)
            if kind is str or kind is bytes:
                if len(key) > MAX_KEY_LENGTH:
                    raise Refused(f"has a key of {len(key):,} characters: at most {MAX_KEY_LENGTH:,} are read")
            elif kind is int or kind is float or kind is tuple:
                if kind is tuple:
                    if len(key) > MAX_KEY_ITEMS or tuple in map(type, key):
                        raise Refused("has a tuple of tuples, or a long one, as a key: names and numbers are read")
                    self.check_keys(key)
                if kind is not int or key not in SMALL_INTEGERS:
                    self.number_keys -= 1
                    if self.number_keys < 0:
                        raise Refused(f"has more than {MAX_NUMBER_KEYS:,} keys that are numbers or tuples")
            elif key is not None and kind is not bool:
                raise Refused(f"has a key that is a {kind.__name__}: names and numbers are read")


def quoted(value: Any, limit: int = MAX_QUOTED) -> str:
    """Return a key or another plain value of a file as text for a message.

    >>> quoted(("hen", b"owl", 1)), quoted([[]]), quoted("x" * 1000, 5)
    ("('hen', b'owl', 1)", 'a list', "'x...")
    """
    if isinstance(value, str | bytes):
        text = repr(value[:limit])
    elif isinstance(value, tuple):
        text = f"({', '.join(quoted(v, limit) if type(v) is not tuple else '...' for v in value[:MAX_KEY_ITEMS])})"
    elif isinstance(value, float) or value is None or (isinstance(value, int) and abs(value) < 2**64):
        text = repr(value)
    else:
        text = f"a {type(value).__name__}"
    return shortened(text, limit)
