"""A result as a page that opens from disk: plain data in, one self-contained html file out."""

from .page import Figures, Group, Item, png, render, write

__all__ = ["Figures", "Group", "Item", "png", "render", "write"]
