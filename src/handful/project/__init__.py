"""A project: a pile, what a person said of its items, and the answers computed from both.

`items.py` and `reading.py` read, `labelling.py` labels, `events.py` stores what a person said, `outputs.py` writes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handful.project.labelling import Labelled, label_items
    from handful.project.outputs import write_outputs
    from handful.project.project import Project
    from handful.project.reading import read_items

# The modules are imported when they are used: the processes of `handful serve` need none of them
_PLACES = {
    "Labelled": "labelling", "label_items": "labelling", "Project": "project",
    "read_items": "reading", "write_outputs": "outputs",
}  # fmt: skip

__all__ = ["Labelled", "Project", "label_items", "read_items", "write_outputs"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
