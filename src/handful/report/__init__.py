"""Answers as a page that opens from disk: plain data in, one self-contained html file out."""

from handful.report.contents import make_report
from handful.report.html_page import write
from handful.report.thumbnails import png

__all__ = ["make_report", "png", "write"]
