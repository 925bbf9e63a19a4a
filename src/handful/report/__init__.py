"""Answers as a page that opens from disk: plain data in, one self-contained html file out."""

from handful.report.assembly import Gallery, make_report
from handful.report.contents import Expected, Figures, Group, Item, Report, Run
from handful.report.html_page import render, write
from handful.report.measured import write_measured
from handful.report.pictures import png
from handful.report.plane import centred, on_plane

__all__ = [
    "Expected", "Figures", "Gallery", "Group", "Item", "Report", "Run", "centred", "make_report", "on_plane", "png",
    "render", "write", "write_measured",
]  # fmt: skip
