"""The networks of the few-shot literature, in torch: from pictures [n, C, H, W] to features [n, D].

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

NETWORKS = {"resnet12": "ResNet12", "conv4": "Conv4", "wrn28_10": "WideResNet"}  # the classes in architectures.py


def build(name: str, /, channels: int = 3, **options: Any) -> nn.Module:
    """Return a network with random weights, drawn by torch.

    It has the attributes `dimension`, `channels` and `options`. With `options`, `build` makes a network like it.
    """
    if name not in NETWORKS:
        raise ValueError(f"there is no network {name!r}: choose from {', '.join(NETWORKS)}")
    need("torch", f"the network {name}", TORCH)
    architectures = import_module("handful.backbones.networks.architectures")
    try:
        network: nn.Module = getattr(architectures, NETWORKS[name])(channels, **options)
        return network
    except TypeError as error:  # an option that it does not have
        raise ValueError(f"the network {name} cannot be built with these options: {error}") from None


__all__ = ["NETWORKS", "build"]
