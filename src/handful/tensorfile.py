"""Arrays with a JSON header in a safetensors file: what models and bases are kept in. Nothing is ever unpickled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def read_tensors(path: str | Path, key: str, otherwise: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header under `key` and the arrays; `otherwise` says what a safetensors file without that header is not."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            header = (file.metadata() or {}).get(key)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise ValueError(f"{str(path)!r} is not a safetensors file, or is damaged: {error}") from None
    if header is None:
        raise ValueError(f"{str(path)!r} is a safetensors file, but {otherwise}")
    try:
        return json.loads(header), arrays
    except json.JSONDecodeError as error:
        raise ValueError(f"{str(path)!r} is damaged: its header is not JSON: {error}") from None
