"""The networks of the few-shot literature, by torch: pictures [n, C, H, W] to features [n, D].

>>> network = build("conv4", channels=1)
>>> network.dimension
1600
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from handful.utils.extras import TORCH, need

if TYPE_CHECKING:
    from torch import nn

NETWORKS = {
    "resnet12": ("resnet12", "ResNet12"),
    "conv4": ("conv4", "Conv4"),
    "wrn28_10": ("wrn", "WideResNet"),
}


def build(name: str, channels: int = 3, **options: Any) -> nn.Module:
    """A network with fresh weights, by torch's own random numbers.

    It has `dimension`, `channels`, and `options`: what `build` needs beside its name to make one like it.
    """
    if name not in NETWORKS:
        raise ValueError(f"there is no network {name!r}: choose from {', '.join(NETWORKS)}")
    need("torch", f"the network {name}", TORCH)
    module, kind = NETWORKS[name]
    try:
        network: nn.Module = getattr(import_module(f"handful.backbones.networks.{module}"), kind)(channels, **options)
        return network
    except TypeError as error:  # an option that it has not got
        raise ValueError(f"the network {name} cannot be built so: {error}") from None


__all__ = ["NETWORKS", "build"]
