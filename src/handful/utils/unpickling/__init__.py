"""Pickles and torch files of strangers: arrays and plain containers, read without running anything.

    load_plain      a pickle: arrays of NumPy 1 and 2, torch tensors, containers, of any protocol
    load_torch      a file of `torch.save`, old or new, without torch
    Budget          what a file may cost; those who copy out of what was read go on counting with it

`machine.py` reads the instructions, `instructions.py` says what each does, `words.py` and `torchfiles.py` what names a
file may use, `budget.py` what it may cost.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from handful.utils.unpickling.budget import Budget, Damaged, Refused, quoted
from handful.utils.unpickling.machine import Machine
from handful.utils.unpickling.torchfiles import PICKLE_WORDS, ZIP, content_of

__all__ = ["ADVICE", "Budget", "Refused", "load_plain", "load_torch", "quoted"]
ADVICE = "where you trust the file, load it and save its arrays with numpy.savez(..., features=..., labels=...)"


def load_plain(path: Path, advice: str = ADVICE) -> Any:
    """What a pickle holds: strings of Python 2 as bytes, arrays and torch tensors as NumPy arrays, which are read-only.

    Raises ValueError for everything else; `advice` ends its sentence where the file asks for more than that.
    """
    try:
        return _read(path, _pickle)
    except Refused as error:
        raise ValueError(f"the pickle {error}{f'; {advice}' if error.advise else ''}") from None


def load_torch(path: Path) -> Any:
    """What a file of `torch.save` holds: plain containers and NumPy arrays, which are read-only views of the file.

    Raises `Refused`, a ValueError whose text goes on after the name of the file.
    """
    return _read(path, content_of)


def _pickle(buffer: bytes | mmap, budget: Budget) -> Any:
    if buffer[:2] == ZIP:
        raise Refused(
            "is an archive of torch.save: load it with torch.load(..., weights_only=True) and save its arrays with "
            "numpy.savez(..., features=..., labels=...)"
        )
    return Machine(buffer, budget, PICKLE_WORDS).run()


def _read(path: Path, reader: Callable[[bytes | mmap, Budget], Any]) -> Any:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        budget = Budget(size)
        if size == 0:
            raise Damaged("it is empty")
        buffer = mmap(file.fileno(), 0, access=ACCESS_READ)  # what is not needed twice is not copied
    collecting = gc.isenabled()
    gc.disable()  # it would look through millions of new containers again and again, and find nothing
    try:
        return reader(buffer, budget)
    except (Refused, ImportError):
        raise
    except MemoryError:
        raise Refused("does not fit into memory") from None
    except Exception as error:  # a damaged file can fail in any way; the error's words may be the file's, and long
        raise Damaged(type(error).__name__) from None
    finally:
        if collecting:
            gc.enable()
