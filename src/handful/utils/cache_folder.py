"""Where things that can be made again are kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """The user's cache folder of handful: $HANDFUL_CACHE, else the platform's usual place. It may not exist yet."""
    if override := os.environ.get("HANDFUL_CACHE"):
        return Path(override).expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "handful" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "handful"
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path is to be ignored.
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "handful"
