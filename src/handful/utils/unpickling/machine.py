"""A machine that reads pickles one instruction after the other.

A pickle is a program. Here it can make numbers, text, bytes and plain containers, and call a few names (`words.py`,
`torchfiles.py`), which are functions of handful. No name is looked up and nothing is imported. A file cannot choose an
object that is then called, changed or hashed. The loop runs in Python, so Ctrl-C works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from mmap import mmap
from typing import Any

from handful.utils.unpickling.budget import MAX_INSTRUCTIONS, MAX_LINE, Budget, Damaged, Refused
from handful.utils.unpickling.instructions import INSTRUCTIONS, STOP
from handful.utils.unpickling.words import Name


class Machine:
    """Reads the pickles in `buffer`, one after the other, from position `at`."""

    def __init__(self, buffer: bytes | mmap, budget: Budget, words: Mapping[str, Name]):
        self.buffer = buffer
        self.budget = budget
        self.words = words
        self.storage_of: Callable[[Any], Any] | None = None  # returns the storage for a description in a torch file
        self.at = 0
        self.stack: list[Any] = []
        self.outer: list[list[Any]] = []  # the stacks below open marks
        self.memo: dict[int, Any] = {}
        self.unfinished = 0  # number of arrays and types whose state has not been read yet

    def run(self) -> Any:
        """Return the content of the next pickle. Afterwards `at` is the position after it."""
        self.stack, self.outer, self.memo = [], [], {}
        buffer, size = self.buffer, len(self.buffer)
        for count in range(self.budget.instructions):
            at = self.at
            if at >= size:
                raise Damaged("it ends early")
            code = buffer[at]
            self.at = at + 1
            if code == STOP:
                self.budget.instructions -= count
                if self.outer or len(self.stack) != 1:
                    raise Damaged("it stops in the middle of something")
                if self.unfinished:
                    raise Refused("makes an array without data: nothing was read")
                return self.stack.pop()
            INSTRUCTIONS[code](self)
        raise Refused(f"has more than {MAX_INSTRUCTIONS:,} instructions, the limit for one file")

    def take(self, count: int) -> bytes:
        """Return the next bytes of the file."""
        start, self.at = self.at, self.at + count
        if self.at > len(self.buffer):
            raise Damaged("it ends early")
        return self.buffer[start : self.at]

    def number(self, count: int) -> int:
        """Read an unsigned number of `count` bytes."""
        return int.from_bytes(self.take(count), "little")

    def line(self, limit: int = MAX_LINE) -> bytes:
        """Return the bytes up to the next newline."""
        end = self.buffer.find(b"\n", self.at, self.at + limit + 1)
        if end < 0:
            raise Damaged("it has a line without an end")
        line = self.buffer[self.at : end]
        self.at = end + 1
        return line

    def since_mark(self) -> list[Any]:
        """Return what was put on the stack since the last mark, and remove the mark."""
        if not self.outer:
            raise Damaged("it closes a container that was not opened")
        items, self.stack = self.stack, self.outer.pop()
        return items
