"""Conv4, the small network of few-shot learning (Vinyals et al., 2016; Snell et al., 2017).

Four blocks of a 3x3 convolution with 64 channels, batch normalisation, ReLU and max pooling by 2. The literature uses
the last map in different ways, which give different features:

- `pool="flatten"`, the default: the whole map, as in Prototypical Networks; 64 x 5 x 5 = 1600 features at 84 px;
- `pool="max"`: the maximum over the map, as in the code of FEAT; 64 features;
- `pool="mean"`: the mean over the map; the code of RFS also omits the last pooling by 2 (`halvings=3`).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

BLOCKS = 4
POOLS = ("flatten", "max", "mean")


class Conv4(nn.Module):
    """Blocks of a 3 x 3 convolution with `width` channels, then the map flattened or pooled."""

    def __init__(
        self, channels: int = 3, width: int = 64, pool: str = "flatten", size: int = 84, halvings: int = BLOCKS
    ):
        """`size` is the side of the pictures in pixels. It determines `dimension` when the map is flattened."""
        super().__init__()
        if pool not in POOLS:
            raise ValueError(f"pool is {pool!r}: choose from {', '.join(POOLS)}")
        if not 0 <= halvings <= BLOCKS or width < 1:
            raise ValueError(f"width is {width} and halvings {halvings}: at least 1, and 0 to {BLOCKS}, are needed")
        side = size >> halvings
        if side < 1:
            raise ValueError(f"size is {size}: {halvings} poolings by 2 leave nothing of it")
        self.channels, self.pool = channels, pool
        self.dimension = width * side**2 if pool == "flatten" else width
        self.options: dict[str, Any] = {"width": width, "pool": pool, "size": size, "halvings": halvings}
        self.blocks = nn.Sequential(*(Block(width if i else channels, width, i < halvings) for i in range(BLOCKS)))

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of pictures [n, channels, height, width] as [n, D]."""
        x = self.blocks(x)
        if self.pool == "flatten":
            return x.flatten(1)
        return x.amax(dim=(2, 3)) if self.pool == "max" else x.mean(dim=(2, 3))


class Block(nn.Module):
    """A convolution, batch normalisation, ReLU, and a pooling that halves the map if `halve`."""

    def __init__(self, into: int, out: int, halve: bool):
        super().__init__()
        self.conv = nn.Conv2d(into, out, 3, padding=1)
        self.bn = nn.BatchNorm2d(out)
        self.halve = halve
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.conv.bias)  # type: ignore[arg-type]  # this convolution has a bias

    def forward(self, x: Tensor) -> Tensor:
        """Return the map after the block."""
        x = F.relu(self.bn(self.conv(x)))
        return F.max_pool2d(x, 2) if self.halve else x
