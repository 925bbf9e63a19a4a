"""The folder for files that can be made again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """Return the cache folder: $HANDFUL_CACHE, or the usual folder of the platform. It may not exist yet."""
    if override := os.environ.get("HANDFUL_CACHE"):
        return Path(override).expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "handful" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "handful"
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says that a relative path must be ignored.
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "handful"
