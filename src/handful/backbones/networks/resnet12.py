"""ResNet-12 as few-shot learning uses it (Lee et al., 2019; Ye et al., 2020; Tian et al., 2020).

Four blocks of three 3x3 convolutions, each with batch normalisation and a leaky ReLU, a 1x1 convolution as shortcut,
and pooling by 2 at the end; then the mean over the map: 640 features at the published widths. In the last two blocks,
dropout removes whole squares of a channel (DropBlock, Ghiasi et al., 2018). Parameters are named as in the published
code, so that its checkpoints fit.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTHS = (64, 160, 320, 640)
SLOPE = 0.1
DROP_SIDE = 5  # side of the squares that DropBlock removes


class ResNet12(nn.Module):
    """Four residual blocks of three convolutions each, then the mean of the last map."""

    layer1: nn.Sequential
    layer2: nn.Sequential
    layer3: nn.Sequential
    layer4: nn.Sequential

    def __init__(self, channels: int = 3, widths: Sequence[int] = WIDTHS):
        super().__init__()
        if len(widths) != 4 or min(widths) < 1:
            raise ValueError(f"widths are {list(widths)}: a ResNet-12 has four, as {', '.join(map(str, WIDTHS))}")
        self.channels, self.dimension = channels, widths[-1]
        self.options = {"widths": list(widths)}
        before = [channels, *widths[:-1]]
        for i, (into, out) in enumerate(zip(before, widths, strict=True), start=1):
            setattr(self, f"layer{i}", nn.Sequential(Block(into, out, block=DROP_SIDE if i > 2 else 1)))
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, a=SLOPE, mode="fan_out", nonlinearity="leaky_relu")

    def drop(self, rate: float) -> None:
        """Set the share of each block's output that is dropped in training. Raise it slowly during training."""
        for part in self.modules():
            if isinstance(part, Block):
                part.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of pictures [n, channels, height, width] as [n, D]."""
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean(dim=(2, 3))  # [n, D]


class Block(nn.Module):
    """Three convolutions and a 1 x 1 convolution as shortcut, pooling that halves the map, and dropout in training."""

    def __init__(self, into: int, out: int, block: int):
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.conv3 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.downsample = nn.Sequential(nn.Conv2d(into, out, 1, bias=False), nn.BatchNorm2d(out))
        self.block, self.rate = block, 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Return the map after the block, half as high and wide."""
        y = F.leaky_relu(self.bn1(self.conv1(x)), SLOPE)
        y = F.leaky_relu(self.bn2(self.conv2(y)), SLOPE)
        y = F.leaky_relu(self.bn3(self.conv3(y)) + self.downsample(x), SLOPE)
        y = F.max_pool2d(y, 2)
        if self.training and self.rate:
            y = drop_block(y, self.rate, self.block) if self.block > 1 else F.dropout(y, self.rate)
        return y


def drop_block(x: Tensor, rate: float, block: int) -> Tensor:
    """Set squares of side `block` to zero in each channel, about `rate` of the map, and scale up the rest.

    Centres are drawn with gamma = rate / block^2 * (h w) / ((h - block + 1)(w - block + 1)) among the positions around
    which a whole square fits. A map smaller than the square is dropped as a whole.
    """
    n, c, h, w = x.shape
    block = min(block, h, w)
    free = (h - block + 1) * (w - block + 1)
    gamma = min(1.0, rate / block**2 * (h * w) / free)
    centres = (torch.rand(n, c, h - block + 1, w - block + 1, device=x.device) < gamma).to(x.dtype)
    dropped = F.max_pool2d(F.pad(centres, [block - 1] * 4), block, stride=1)  # [n, c, h, w]
    mask = 1 - dropped
    return x * mask * (mask.numel() / mask.sum().clamp(min=1))
