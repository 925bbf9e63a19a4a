"""Read the weights of a torch state dict without torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from handful.utils.unpickling import Refused, load_torch, quoted


def read_state_dict(path: str | Path) -> dict[str, np.ndarray]:
    """Return {parameter: array} of a file of `torch.save`. Arrays are contiguous copies in native byte order.

    Raises ValueError if the file is not a plain state dict.
    """
    path = Path(path)
    try:
        content = load_torch(path)
        if not isinstance(content, dict):
            raise Refused(f"holds a {type(content).__name__}: a state dict {{parameter: tensor}} is needed")
        state: dict[str, np.ndarray] = {}
        for name, value in content.items():
            if not isinstance(name, str) or not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
                raise Refused(f"holds a {type(value).__name__} at {quoted(name)}: a state dict holds tensors by name")
            state[name] = np.array(value, value.dtype.newbyteorder("="), order="C")
        return state
    except Refused as error:
        raise ValueError(f"{path} {error}") from None
