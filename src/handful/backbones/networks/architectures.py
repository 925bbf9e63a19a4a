"""The networks of few-shot learning: Conv4, ResNet-12 and WRN-28-10, from pictures [n, C, H, W] to features [n, D].

Parameters are named as in published code, so that its checkpoints fit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CONV4_BLOCKS = 4
CONV4_POOLS = ("flatten", "max", "mean")
RESNET12_WIDTHS = (64, 160, 320, 640)
LEAK = 0.1  # slope of ResNet-12's leaky ReLU
DROPPED_SIDE = 5  # side of the squares that DropBlock removes
WIDE_RESNET_VARIANTS = ("s2m2", "feat")


class Conv4(nn.Module):
    """Conv4, the small network of few-shot learning (Vinyals et al., 2016; Snell et al., 2017).

    Four blocks of a 3x3 convolution with 64 channels, batch normalisation, ReLU and max pooling by 2. The literature
    uses the last map in different ways, which give different features:

    - `pool="flatten"`, the default: the whole map, as in Prototypical Networks; 64 x 5 x 5 = 1600 features at 84 px;
    - `pool="max"`: the maximum over the map, as in the code of FEAT; 64 features;
    - `pool="mean"`: the mean over the map; the code of RFS also omits the last pooling by 2 (`halvings=3`).
    """

    def __init__(
        self, channels: int = 3, width: int = 64, pool: str = "flatten", size: int = 84, halvings: int = CONV4_BLOCKS
    ):
        """`size` is the side of the pictures in pixels. It determines `dimension` when the map is flattened."""
        super().__init__()
        if pool not in CONV4_POOLS:
            raise ValueError(f"pool is {pool!r}: choose from {', '.join(CONV4_POOLS)}")
        if not 0 <= halvings <= CONV4_BLOCKS or width < 1 or (side := size >> halvings) < 1:
            raise ValueError(
                f"width is {width}, halvings {halvings} and size {size}: at least 1, 0 to {CONV4_BLOCKS}, and a size "
                "of which the halvings leave something are needed"
            )
        self.channels, self.pool = channels, pool
        self.dimension = width * side**2 if pool == "flatten" else width
        self.options: dict[str, Any] = {"width": width, "pool": pool, "size": size, "halvings": halvings}
        self.blocks = nn.Sequential(
            *(ConvBlock(width if i else channels, width, i < halvings) for i in range(CONV4_BLOCKS))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of pictures [n, channels, height, width] as [n, D]."""
        x = self.blocks(x)
        if self.pool == "flatten":
            return x.flatten(1)
        return x.amax(dim=(2, 3)) if self.pool == "max" else x.mean(dim=(2, 3))


class ConvBlock(nn.Module):
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


class ResNet12(nn.Module):
    """ResNet-12 as few-shot learning uses it (Lee et al., 2019; Ye et al., 2020), with DropBlock in two blocks."""

    def __init__(self, channels: int = 3, widths: Sequence[int] = RESNET12_WIDTHS):
        super().__init__()
        if len(widths) != 4 or min(widths) < 1:
            raise ValueError(f"widths are {list(widths)}: a ResNet-12 has four, as {RESNET12_WIDTHS}")
        self.channels, self.dimension = channels, widths[-1]
        self.options = {"widths": list(widths)}
        before = [channels, *widths[:-1]]
        for i, (into, out) in enumerate(zip(before, widths, strict=True), start=1):
            setattr(self, f"layer{i}", nn.Sequential(ResidualBlock(into, out, block=DROPPED_SIDE if i > 2 else 1)))
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, a=LEAK, mode="fan_out", nonlinearity="leaky_relu")

    def drop(self, rate: float) -> None:
        """Set the share of each block's output that is dropped in training. Raise it slowly during training."""
        for part in self.modules():
            if isinstance(part, ResidualBlock):
                part.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of pictures [n, channels, height, width] as [n, D]."""
        for layer in self.children():
            x = layer(x)
        return x.mean(dim=(2, 3))  # [n, D]


class ResidualBlock(nn.Module):
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
        y = F.leaky_relu(self.bn1(self.conv1(x)), LEAK)
        y = F.leaky_relu(self.bn2(self.conv2(y)), LEAK)
        y = F.leaky_relu(self.bn3(self.conv3(y)) + self.downsample(x), LEAK)
        y = F.max_pool2d(y, 2)
        if self.training and self.rate:
            y = drop_block(y, self.rate, self.block) if self.block > 1 else F.dropout(y, self.rate)
        return y


def drop_block(x: Tensor, rate: float, block: int) -> Tensor:
    """Set squares of side `block` to zero in each channel, about `rate` of the map, and scale up the rest."""
    n, c, h, w = x.shape
    block = min(block, h, w)
    free = (h - block + 1) * (w - block + 1)
    gamma = min(1.0, rate / block**2 * (h * w) / free)
    centres = (torch.rand(n, c, h - block + 1, w - block + 1, device=x.device) < gamma).to(x.dtype)
    dropped = F.max_pool2d(F.pad(centres, [block - 1] * 4), block, stride=1)  # [n, c, h, w]
    mask = 1 - dropped
    return x * mask * (mask.numel() / mask.sum().clamp(min=1))


class WideResNet(nn.Module):
    """Wide ResNet (Zagoruyko & Komodakis, 2016), by default WRN-28-10, as few-shot learning uses it.

    A 3x3 convolution, three groups of blocks in which batch normalisation and ReLU come before each convolution, then
    normalisation, ReLU and the mean over the map: 640 features. Two published codes compute different features:

    - `variant="s2m2"`, the default (Mangla et al., 2020, and the original): in a block that widens, the shortcut takes
      the normalised input, and the first convolution halves the map; no convolution has a bias;
    - `variant="feat"` (Ye et al., 2020; Tian et al., 2020): the shortcut takes the input itself, the second convolution
      halves the map, and convolutions have biases.

    Parameters are named as in the code of S2M2.
    """

    def __init__(self, channels: int = 3, depth: int = 28, widen: int = 10, variant: str = "s2m2"):
        super().__init__()
        if depth < 10 or (depth - 4) % 6 or widen < 1:
            raise ValueError(
                f"depth is {depth} and widen {widen}: 6 n + 4 layers (10, 16, 22, 28) and 1 or more are needed"
            )
        if variant not in WIDE_RESNET_VARIANTS:
            raise ValueError(f"variant is {variant!r}: choose from {', '.join(WIDE_RESNET_VARIANTS)}")
        self.channels, self.dimension = channels, 64 * widen
        self.options: dict[str, Any] = {"depth": depth, "widen": widen, "variant": variant}
        kind = WideBlock if variant == "s2m2" else BareBlock
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1, bias=variant == "feat")
        into = 16
        for i, stride in enumerate((1, 2, 2)):
            out = 16 * widen * 2**i
            layer = [kind(into, out, stride), *(kind(out, out, 1) for _ in range((depth - 4) // 6 - 1))]
            self.add_module(f"block{i + 1}", Group(OrderedDict(layer=nn.Sequential(*layer))))
            into = out
        self.bn1 = nn.BatchNorm2d(into)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
                if part.bias is not None:
                    nn.init.zeros_(part.bias)

    def drop(self, rate: float) -> None:
        """Set the dropout rate between the two convolutions of each block in training."""
        for part in self.modules():
            if isinstance(part, WideBlock):
                part.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of pictures [n, channels, height, width] as [n, D]."""
        for part in self.children():  # conv1, block1, block2, block3, bn1
            x = part(x)
        return F.relu(x).mean(dim=(2, 3))  # [n, D]


class Group(nn.Sequential):
    """Blocks of one width, as its part `layer`; the first one changes the number of channels and halves the map."""


class WideBlock(nn.Module):
    """Two convolutions, each after batch normalisation and ReLU, added to their input."""

    strides, bias = (True, False), False  # which convolution halves

    def __init__(self, into: int, out: int, stride: int):
        super().__init__()
        first, second = (stride if halves else 1 for halves in self.strides)
        self.bn1 = nn.BatchNorm2d(into)
        self.conv1 = nn.Conv2d(into, out, 3, stride=first, padding=1, bias=self.bias)
        self.bn2 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, stride=second, padding=1, bias=self.bias)
        # A block that halves always widens too.
        self.convShortcut = nn.Conv2d(into, out, 1, stride=stride, bias=self.bias) if into != out else None
        self.rate = 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Return the map after the block."""
        y: Tensor = F.relu(self.bn1(x))
        shortcut = x if self.convShortcut is None else self.convShortcut(x if self.bias else y)
        y = F.relu(self.bn2(self.conv1(y)))
        if self.training and self.rate:
            y = F.dropout(y, self.rate)
        y = self.conv2(y) + shortcut
        return y


class BareBlock(WideBlock):
    """The block of FEAT: it has biases, and its shortcut takes the input without normalisation."""

    strides, bias = (False, True), True
