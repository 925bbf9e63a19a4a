"""Optional packages: imported where they are used; if one is missing, the error gives the install command."""

from __future__ import annotations

from importlib import import_module
from typing import Any

IMAGES = '"handful[images]"'
TORCH = '"handful[torch]"'
TEXT = '"handful[text]"'
HEIC = '"handful[heic]"'
ENCODERS = '"handful[encoders]"'
PARQUET = '"handful[parquet]"'
PLOTS = '"handful[plots]"'


def need(module: str, purpose: str, install: str = IMAGES) -> Any:
    """Return the module, or raise ImportError that says what needs it and how to install it."""
    try:
        return import_module(module)
    except Exception as error:  # a package with wrong dependencies can fail in any way
        package = module.split(".")[0]
        raise ImportError(
            f"{purpose} needs {package}: pip install {install} ({type(error).__name__}: {error})", name=package
        ) from error


def has_pyarrow() -> bool:
    """Whether PyArrow can be imported, which Parquet files need."""
    try:
        return import_module("pyarrow") is not None
    except ImportError:
        return False


def need_pyarrow(purpose: str) -> None:
    """Raise ImportError that says what needs PyArrow and how to install it, unless it is there."""
    need("pyarrow", purpose, PARQUET)
