"""Answers as a page that opens from disk: plain data in, one self-contained html file out."""
