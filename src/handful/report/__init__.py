"""Answers as a page that opens from disk: plain data in, one self-contained html file out."""

from handful.report.assembly import Gallery, make_report
from handful.report.contents import Figures, Group, Item, Report
from handful.report.html_page import render, write
from handful.report.pictures import png

__all__ = ["Figures", "Gallery", "Group", "Item", "Report", "make_report", "png", "render", "write"]
