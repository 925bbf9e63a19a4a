"""How published codes name the parameters of a network, and which options follow from the shapes.

A layout maps a published name to ours. Where two codes compute different features from the same parameters, their names
differ, and the layout holds the option that this code needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Shapes = dict[str, tuple[int, ...]]  # by our names


@dataclass(frozen=True)
class Layout:
    """The parameter names of one published code, and how to turn them into ours."""

    name: str  # of the published code
    network: str
    pattern: str  # matches a whole published name
    ours: str | Callable[[re.Match[str]], str]  # the replacement that gives our name
    options: dict[str, Any] = field(default_factory=dict)

    def rename(self, name: str) -> str | None:
        """Return our name of a parameter; None if the name does not belong to this layout."""
        match = re.fullmatch(self.pattern, name)
        if match is None:
            return None
        return match.expand(self.ours) if isinstance(self.ours, str) else self.ours(match)


def _easy(match: re.Match[str]) -> str:
    return f"layer{int(match[1]) + 1}.0.{match[2].replace('shortcut', 'downsample')}"


def _wrn_of_feat(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    return f"block{match[1]}.layer.{match[2]}.{match[3].replace('shortcut.0', 'convShortcut')}"


_S2M2_WRN = r"(block\d\.layer\.\d+\..+|conv1\.(?:weight|bias)|bn1\..+)"
_PARTS = {"C": "conv", "BN": "bn", "0": "conv", "1": "bn"}

# If two layouts fit equally well, the first is used.
LAYOUTS = (
    Layout("FEAT, RFS, MetaOptNet", "resnet12", r"(layer[1-4]\.\d+\..+)", r"\1"),
    Layout("Meta-Baseline", "resnet12", r"(layer[1-4])\.((?!\d).+)", r"\1.0.\2"),
    Layout("EASY", "resnet12", r"layers\.([0-3])\.(.+)", _easy),
    Layout("S2M2", "wrn28_10", _S2M2_WRN, r"\1"),
    Layout("FEAT, RFS", "wrn28_10", r"layer([1-3])\.(\d+)\.(.+)|(?:conv1|bn1)\..+", _wrn_of_feat),
    Layout("handful", "conv4", r"(blocks\.[0-3]\..+)", r"\1"),
    Layout(
        "FEAT", "conv4", r"encoder\.encoder\.([0-3])\.([01])\.(.+)",
        lambda m: f"blocks.{m[1]}.{_PARTS[m[2]]}.{m[3]}", {"pool": "max"},
    ),
    Layout(
        "Prototypical Networks", "conv4", r"encoder\.([0-3])\.([01])\.(.+)",
        lambda m: f"blocks.{m[1]}.{_PARTS[m[2]]}.{m[3]}",
    ),
    Layout(
        "S2M2, A Closer Look", "conv4", r"trunk\.([0-3])\.(C|BN|trunk\.[01])\.(.+)",  # each parameter has two names
        lambda m: f"blocks.{m[1]}.{_PARTS[m[2].removeprefix('trunk.')]}.{m[3]}",
    ),
    Layout(
        "RFS", "conv4", r"layer([1-4])\.([01])\.([^.]+)",
        lambda m: f"blocks.{int(m[1]) - 1}.{_PARTS[m[2]]}.{m[3]}", {"pool": "mean", "halvings": 3},
    ),
)  # fmt: skip


def options_of(network: str, shapes: Shapes) -> dict[str, Any] | None:
    """Return the options of `build` for a network of these shapes; None if it is not this kind of network."""
    try:
        return _READERS[network](shapes)
    except KeyError:  # a required parameter is missing
        return None


def _resnet12(shapes: Shapes) -> dict[str, Any] | None:
    kernels = [shapes[f"layer{i}.0.conv{k}.weight"] for i in range(1, 5) for k in (1, 2, 3)]
    shortcuts = [shapes[f"layer{i}.0.downsample.0.weight"] for i in range(1, 5)]
    if any(shape[2:] != (3, 3) for shape in kernels) or any(shape[2:] != (1, 1) for shape in shortcuts):
        return None
    return {"channels": kernels[0][1], "widths": [shape[0] for shape in shortcuts]}


def _wrn(shapes: Shapes) -> dict[str, Any] | None:
    first, wide = shapes["conv1.weight"], shapes["block1.layer.0.conv1.weight"]
    blocks = sum(re.fullmatch(r"block1\.layer\.\d+\.conv2\.weight", name) is not None for name in shapes)
    if first[0] != 16 or first[2:] != (3, 3) or wide[0] % 16 or "block3.layer.0.convShortcut.weight" not in shapes:
        return None
    variant = "feat" if "conv1.bias" in shapes else "s2m2"  # only one of them has biases
    return {"channels": first[1], "depth": 6 * blocks + 4, "widen": wide[0] // 16, "variant": variant}


def _conv4(shapes: Shapes) -> dict[str, Any] | None:
    kernels = [shapes[f"blocks.{i}.conv.weight"] for i in range(4)]
    if any(shape[2:] != (3, 3) for shape in kernels):
        return None
    return {"channels": kernels[0][1], "width": kernels[0][0]}


_READERS: dict[str, Callable[[Shapes], dict[str, Any] | None]] = {
    "resnet12": _resnet12,
    "wrn28_10": _wrn,
    "conv4": _conv4,
}
