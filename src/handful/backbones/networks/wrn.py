"""Wide ResNet (Zagoruyko & Komodakis, 2016), by default WRN-28-10, as few-shot learning uses it.

A 3x3 convolution, three groups of blocks in which batch normalisation and ReLU come before each convolution, then
normalisation, ReLU and the mean over the map: 640 features. Two published codes compute different features:

- `variant="s2m2"`, the default (Mangla et al., 2020, and the original): in a block that widens, the shortcut takes the
  normalised input, and the first convolution halves the map; no convolution has a bias;
- `variant="feat"` (Ye et al., 2020; Tian et al., 2020): the shortcut takes the input itself, the second convolution
  halves the map, and convolutions have biases.

Parameters are named as in the code of S2M2.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

VARIANTS = ("s2m2", "feat")


class WideResNet(nn.Module):
    """Three groups of wide residual blocks, then the mean of the last map."""

    block1: Group
    block2: Group
    block3: Group

    def __init__(self, channels: int = 3, depth: int = 28, widen: int = 10, variant: str = "s2m2"):
        super().__init__()
        if depth < 10 or (depth - 4) % 6 or widen < 1:
            raise ValueError(
                f"depth is {depth} and widen {widen}: 6 n + 4 layers (10, 16, 22, 28) and 1 or more are needed"
            )
        if variant not in VARIANTS:
            raise ValueError(f"variant is {variant!r}: choose from {', '.join(VARIANTS)}")
        self.channels, self.dimension = channels, 64 * widen
        self.options: dict[str, Any] = {"depth": depth, "widen": widen, "variant": variant}
        widths, kind = [16, 16 * widen, 32 * widen, 64 * widen], Block if variant == "s2m2" else BareBlock
        self.conv1 = nn.Conv2d(channels, widths[0], 3, padding=1, bias=variant == "feat")
        for i, stride in enumerate((1, 2, 2)):
            setattr(self, f"block{i + 1}", Group(kind, (depth - 4) // 6, widths[i], widths[i + 1], stride))
        self.bn1 = nn.BatchNorm2d(widths[-1])
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
                if part.bias is not None:
                    nn.init.zeros_(part.bias)

    def drop(self, rate: float) -> None:
        """Set the dropout rate between the two convolutions of each block in training."""
        for part in self.modules():
            if isinstance(part, Block):
                part.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of pictures [n, channels, height, width] as [n, D]."""
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        return F.relu(self.bn1(x)).mean(dim=(2, 3))  # [n, D]


class Group(nn.Module):
    """Blocks of one width; the first one changes the number of channels and the size of the map."""

    def __init__(self, kind: type[Block], blocks: int, into: int, out: int, stride: int):
        super().__init__()
        first = kind(into, out, stride)
        self.layer = nn.Sequential(first, *(kind(out, out, 1) for _ in range(blocks - 1)))

    def forward(self, x: Tensor) -> Tensor:
        """Return the map after all blocks."""
        y: Tensor = self.layer(x)
        return y


class Block(nn.Module):
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
        shortcut = x if self.convShortcut is None else self.convShortcut(y)
        y = F.relu(self.bn2(self.conv1(y)))
        if self.training and self.rate:
            y = F.dropout(y, self.rate)
        y = self.conv2(y) + shortcut
        return y


class BareBlock(Block):
    """The block of FEAT: its shortcut takes the input without normalisation."""

    strides, bias = (False, True), True

    def forward(self, x: Tensor) -> Tensor:
        """Return the map after the block; the shortcut takes the input without normalisation."""
        y: Tensor = self.conv1(F.relu(self.bn1(x)))
        if self.training and self.rate:
            y = F.dropout(y, self.rate)
        y = self.conv2(F.relu(self.bn2(y)))
        y = y + (x if self.convShortcut is None else self.convShortcut(x))
        return y
