"""A result as a page that opens from disk: plain data in, one self-contained html file out."""

from .page import Figures, Group, Item, png, render, write
from .pile import PileGroup, PileItem, PileReport, render_pile, write_pile

__all__ = [
    "Figures",
    "Group",
    "Item",
    "PileGroup",
    "PileItem",
    "PileReport",
    "png",
    "render",
    "render_pile",
    "write",
    "write_pile",
]
