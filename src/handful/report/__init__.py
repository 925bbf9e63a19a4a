"""Answers as a page that opens from disk: plain data in, one self-contained html file out."""

from handful.report.contents import Expected, Figures, Gallery, Group, Item, Report, Run, make_report
from handful.report.html_page import render, write, write_measured
from handful.report.plane import centred, on_plane
from handful.report.thumbnails import png

__all__ = [
    "Expected", "Figures", "Gallery", "Group", "Item", "Report", "Run", "centred", "make_report", "on_plane", "png",
    "render", "write", "write_measured",
]  # fmt: skip
