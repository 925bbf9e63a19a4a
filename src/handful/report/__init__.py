"""Answers as a page that opens from disk: plain data in, one self-contained html file out."""

from handful.report.assembly import Gallery, make_report
from handful.report.contents import Expected, Figures, Group, Item, Report, Run
from handful.report.html_page import render, write
from handful.report.measured import write_measured
from handful.report.pictures import png

__all__ = [
    "Expected", "Figures", "Gallery", "Group", "Item", "Report", "Run", "make_report", "png", "render", "write",
    "write_measured",
]  # fmt: skip
