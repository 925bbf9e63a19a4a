"""EfficientNet-Lite in torch, as a user would write it down from the paper's table: the yardstick of `embed.py`."""

from __future__ import annotations

import math
from collections import OrderedDict

import numpy as np
import torch
from torch import Tensor, nn

# (repeats, kernel, stride, expansion, channels) of each stage at width and depth coefficient 1
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


COEFFICIENTS = {"efficientnet_lite0": (1.0, 1.0), "efficientnet_lite1": (1.0, 1.1), "efficientnet_lite2": (1.1, 1.2)}


def scaled_width(channels: int, width: float) -> int:
    """The nearest multiple of 8 that is not more than a tenth smaller."""
    nearest = max(8, int(channels * width + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels * width else nearest


class Conv2dSame(nn.Conv2d):
    """A convolution that pads as TensorFlow does: evenly, the odd zero behind."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1):
        super().__init__(inputs, outputs, kernel, stride, kernel // 2 if stride == 1 else 0, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.stride[0] > 1:
            sides = []
            for n in (x.shape[3], x.shape[2]):
                missing = max((-(-n // self.stride[0]) - 1) * self.stride[0] + self.kernel_size[0] - n, 0)
                sides += [missing // 2, missing - missing // 2]
            x = nn.functional.pad(x, sides)
        return super().forward(x)


def norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class MBConv(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        middle = inputs * expansion
        if expansion > 1:
            self._expand_conv, self._bn0 = Conv2dSame(inputs, middle, 1), norm(middle)
        self._depthwise_conv, self._bn1 = Conv2dSame(middle, middle, kernel, stride, middle), norm(middle)
        self._project_conv, self._bn2 = Conv2dSame(middle, outputs, 1), norm(outputs)
        self.expands, self.residual = expansion > 1, stride == 1 and inputs == outputs
        self.relu6 = nn.ReLU6(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        y = self.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self.residual else y


class EfficientNetLite(nn.Module):
    """Pictures [n, 3, size, size] to features [n, 1280]; `classify` goes on to the 1000 classes of ImageNet.

    "Lite" scales neither the stem and the head nor the repeats of the first and the last stage.
    """

    def __init__(self, width: float = 1.0, depth: float = 1.0) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = Conv2dSame(3, 32, 3, 2), norm(32)
        blocks, channels = [], 32
        for i, (repeats, kernel, stride, expansion, outputs) in enumerate(STAGES):
            outputs = scaled_width(outputs, width)
            for k in range(repeats if i in (0, len(STAGES) - 1) else math.ceil(depth * repeats)):
                blocks.append(MBConv(channels, outputs, kernel, stride if k == 0 else 1, expansion))
                channels = outputs
        self._blocks = nn.Sequential(*blocks)
        self._conv_head, self._bn1 = Conv2dSame(channels, 1280, 1), norm(1280)
        self._fc = nn.Linear(1280, 1000)
        self.relu6 = nn.ReLU6(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu6(self._bn0(self._conv_stem(x)))
        x = self.relu6(self._bn1(self._conv_head(self._blocks(x))))
        return x.mean((2, 3))

    def classify(self, x: Tensor) -> Tensor:
        return self._fc(self(x))


def twin(weights: dict[str, np.ndarray], name: str = "efficientnet_lite0") -> EfficientNetLite:
    """The network with these weights, for inference; every parameter must find its place."""
    network = EfficientNetLite(*COEFFICIENTS[name])
    network.load_state_dict(OrderedDict((key, torch.from_numpy(w)) for key, w in weights.items()), strict=True)
    return network.eval()
