"""Read arrays and plain containers from untrusted pickles and torch files, without running anything in them.

    load_plain      a pickle of any protocol: arrays of NumPy 1 and 2, torch tensors, containers
    load_torch      a file of `torch.save`, in the old or new format, without torch
    Budget          the memory and work that a file may take; code that copies its content uses it too

`machine.py` reads the instructions, `instructions.py` defines each one, `words.py` and `torchfiles.py` define the names
that a file may use, and `budget.py` limits memory and work.
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
ADVICE = "if you trust the file, load it and save its arrays with numpy.savez(..., features=..., labels=...)"


def load_plain(path: Path, advice: str = ADVICE) -> Any:
    """Return the content of a pickle. Arrays and torch tensors become read-only NumPy arrays, Python 2 strings bytes.

    Raises ValueError for everything else. `advice` ends the message if the file asks for other objects.
    """
    try:
        return _read(path, _pickle)
    except Refused as error:
        raise ValueError(f"the pickle {error}{f'; {advice}' if error.advise else ''}") from None


def load_torch(path: Path) -> Any:
    """Return the content of a file of `torch.save`: plain containers and NumPy arrays, read-only views of the file.

    Raises `Refused`, a ValueError whose text continues a sentence that begins with the name of the file.
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
        buffer = mmap(file.fileno(), 0, access=ACCESS_READ)  # so that data is not copied
    collecting = gc.isenabled()
    gc.disable()  # it would check millions of new containers again and again without finding garbage
    try:
        return reader(buffer, budget)
    except (Refused, ImportError):
        raise
    except MemoryError:
        raise Refused("does not fit into memory") from None
    except Exception as error:  # a damaged file can fail in any way; the message may contain long text of the file
        raise Damaged(type(error).__name__) from None
    finally:
        if collecting:
            gc.enable()
