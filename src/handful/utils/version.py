"""The version of handful."""

__version__ = "0.1.0"
