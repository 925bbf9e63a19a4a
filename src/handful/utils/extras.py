"""Packages that only some users have: imported where they are used, named where they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

IMAGES = '"handful[images]"'
TORCH = '"handful[torch]"'


def need(module: str, purpose: str, install: str = IMAGES) -> Any:
    """The module, or an ImportError that says what needs it and how to install it."""
    try:
        return import_module(module)
    except Exception as error:  # a package that does not fit its own dependencies can fail in any way
        package = module.split(".")[0]
        raise ImportError(
            f"{purpose} needs {package}: pip install {install} ({type(error).__name__}: {error})", name=package
        ) from error
