"""Export of a network to an ONNX file, which runs without torch.

torch.fx traces the graph, and it is written node by node. Only the few operations of these networks are supported.
A batch norm after a convolution is folded into it. The same network gives the same bytes.
"""

from __future__ import annotations

import copy
import json
import operator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import fx, nn
from torch.nn import functional as F

from handful.backbones.onnx_runtime import Session
from handful.utils.extras import need
from handful.utils.files import write_whole

if TYPE_CHECKING:
    from handful.backbones.preprocessing import Preprocessing

INPUT, OUTPUT = "pictures", "features"
TOLERANCE = 1e-4
OPSET, IR_VERSION = 17, 8  # every version of ONNX Runtime that handful allows can read these
NORM = ("weight", "bias", "running_mean", "running_var")  # in the order of ONNX
TRIAL_PICTURES = 2  # pictures that the graph is compared on


class Agreement(NamedTuple):
    """How far the features of torch and of ONNX Runtime are apart."""

    relative: float  # largest difference, as a share of the largest feature
    elementwise: float  # largest difference as a share of the feature itself: rounding alone makes it large near 0


def export_onnx(
    network: nn.Module, path: str | Path, preprocessing: Preprocessing, *, about: dict[str, Any] | None = None
) -> Path:
    """Write `network` to `path` (.onnx), and its preprocessing to a .json file next to it.

    The graph takes any number of pictures of the size in `preprocessing`. `about` is stored in the file as JSON, to
    record its origin. The graph is run before anything is written: ValueError if its features differ from torch's.
    """
    write_onnx(network, Path(path), preprocessing, about)
    return Path(path)


def write_onnx(
    network: nn.Module, path: Path, preprocessing: Preprocessing, about: dict[str, Any] | None = None
) -> Agreement:
    """Write the files as `export_onnx` does, and return how well the graph agrees with torch."""
    if path.suffix.lower() != ".onnx":
        raise ValueError(f"{path}: the name of an ONNX file ends in .onnx")
    shape = len(preprocessing.mean), *preprocessing.size
    if shape[0] != (takes := getattr(network, "channels", shape[0])):
        raise ValueError(f"mean and std are of {shape[0]} channels, and the network takes {takes}")
    frozen = copy.deepcopy(network).cpu().float().eval()  # a copy: the caller may go on training its own
    graph = build_graph(frozen, shape, about)
    measured = agreement(frozen, graph, shape)
    if not measured.relative <= TOLERANCE:  # NaN must not pass
        raise ValueError(
            f"{path} was not written: its features would differ from those of torch by {measured.relative:.1e} of the "
            f"largest, and {TOLERANCE:g} is allowed. Are the weights finite?"
        )
    description = asdict(preprocessing) | {"output": OUTPUT}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, graph)
    write_whole(path.with_suffix(".json"), (json.dumps(description, indent=2) + "\n").encode())
    return measured


def agreement(network: nn.Module, graph: bytes | Path, shape: tuple[int, ...], seed: int = 0) -> Agreement:
    """Compare torch and ONNX Runtime on random pictures of `shape` [C, H, W], in a batch and one by one."""
    pictures = np.random.default_rng(seed).standard_normal((TRIAL_PICTURES, *shape), dtype=np.float32)
    session = Session(graph)
    with torch.inference_mode():
        expected = network(torch.from_numpy(pictures)).numpy()
    batch = session.run([OUTPUT], {INPUT: pictures})[0]
    alone = np.concatenate([session.run([OUTPUT], {INPUT: picture[None]})[0] for picture in pictures])
    difference = np.maximum(np.abs(batch - expected), np.abs(alone - expected))
    size = np.abs(expected)
    share = difference / np.maximum(size, 1e-30)
    return Agreement(float(difference.max() / max(size.max(), 1e-30)), float(share.max()))


def build_graph(network: nn.Module, shape: tuple[int, ...], about: dict[str, Any] | None = None) -> bytes:
    """Return the bytes of an ONNX file for a network in evaluation mode: pictures [n, C, H, W] to features [n, D]."""
    onnx = need("onnx", "an ONNX file")
    helper = onnx.helper
    with torch.inference_mode():
        dimension = network(torch.zeros(1, *shape)).shape[1]  # may depend on the size of the pictures
    traced = fx.symbolic_trace(network)
    writer = _Writer(onnx, traced)
    for node in traced.graph.nodes:
        writer.add(node)
    tensor, kind = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        writer.nodes,
        type(network).__name__,
        [tensor(INPUT, kind, ["n", *shape])],
        [tensor(OUTPUT, kind, ["n", dimension])],
        writer.constants,
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="handful")
    if about:
        helper.set_model_props(model, {"about": json.dumps(about, sort_keys=True)})
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


class _Writer:
    """Turns fx nodes into ONNX nodes, one by one in their order."""

    def __init__(self, onnx: Any, traced: fx.GraphModule):
        self.onnx, self.modules = onnx, dict(traced.named_modules())
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.names: dict[fx.Node, str] = {}  # the name of an fx node's value in the ONNX graph
        self.folded: set[fx.Node] = set()  # batch norms that were folded into a convolution

    def add(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            self.names[node] = INPUT
        elif node.op == "output":
            self.emit("Identity", [node.args[0]], OUTPUT)
        elif node.op == "call_module":
            self.names[node] = self.module(node, self.modules[str(node.target)])
        else:
            self.names[node] = self.function(node)

    def emit(self, kind: str, inputs: list[Any], name: str = "", **attributes: Any) -> str:
        name = name or f"{kind.lower()}_{len(self.nodes)}"
        names = [self.names[x] if isinstance(x, fx.Node) else x for x in inputs]
        self.nodes.append(self.onnx.helper.make_node(kind, names, [name], **attributes))
        return name

    def constant(self, name: str, value: Any) -> str:
        array = np.ascontiguousarray(value, np.float32)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def module(self, node: fx.Node, module: nn.Module) -> str:
        before = node.args[0]
        if node in self.folded or isinstance(module, nn.Dropout | nn.Identity):
            return self.names[before]  # type: ignore[index]
        at = str(node.target)
        if isinstance(module, nn.Conv2d):
            kernel, bias = self.kernel(node, module)
            inputs = [before, self.constant(f"{at}.weight", kernel), self.constant(f"{at}.bias", bias)]
            pads = [*module.padding, *module.padding]
            return self.emit(
                "Conv", inputs, kernel_shape=list(module.kernel_size), strides=list(module.stride), pads=pads
            )
        if isinstance(module, nn.BatchNorm2d):
            parts = [getattr(module, part).detach().numpy() for part in NORM]
            names = [self.constant(f"{at}.{part}", value) for part, value in zip(NORM, parts, strict=True)]
            return self.emit("BatchNormalization", [before, *names], epsilon=module.eps)
        raise _unknown(f"the module {at}, a {type(module).__name__}")

    def kernel(self, node: fx.Node, conv: nn.Conv2d) -> tuple[np.ndarray, np.ndarray]:
        """Return kernel [out, in, k, k] and bias [out], with the following batch norm folded in, if there is one."""
        if (
            conv.groups != 1
            or set(conv.dilation) != {1}
            or conv.padding_mode != "zeros"
            or isinstance(conv.padding, str)
        ):
            raise _unknown(f"the convolution {node.target}, {conv}")
        kernel = conv.weight.detach().double().numpy()
        bias = np.zeros(len(kernel)) if conv.bias is None else conv.bias.detach().double().numpy()
        (user,) = node.users if len(node.users) == 1 else (None,)
        norm = self.modules.get(str(user.target)) if user is not None and user.op == "call_module" else None
        if user is not None and isinstance(norm, nn.BatchNorm2d):
            self.folded.add(user)
            scale, shift = _affine(norm)
            kernel, bias = kernel * scale[:, None, None, None], bias * scale + shift
        return kernel, bias

    def function(self, node: fx.Node) -> str:
        x, *others = node.args
        keywords = dict(node.kwargs)
        match node.target:
            case F.relu:
                return self.emit("Relu", [x])
            case F.leaky_relu:
                slope = others[0] if others else keywords.get("negative_slope", 0.01)
                return self.emit("LeakyRelu", [x], alpha=slope)
            case F.max_pool2d if len(others) == 1 and isinstance(others[0], int) and _defaults(keywords):
                return self.emit("MaxPool", [x], kernel_shape=others * 2, strides=others * 2)
            case operator.add:
                return self.emit("Add", [x, *others])
            case "flatten" if others == [1]:
                return self.emit("Flatten", [x], axis=1)
            case "mean" | "amax" if keywords == {"dim": (2, 3)}:
                pool = "GlobalAveragePool" if node.target == "mean" else "GlobalMaxPool"
                return self.emit("Flatten", [self.emit(pool, [x])], axis=1)
        raise _unknown(f"{node.target} with {node.args[1:]} {keywords}")


def _affine(norm: nn.BatchNorm2d) -> tuple[np.ndarray, np.ndarray]:
    """Return scale and shift, float64: in evaluation mode a batch norm is scale * x + shift in each channel."""
    weight, bias, mean, variance = (getattr(norm, part).detach().double().numpy() for part in NORM)
    scale = weight / np.sqrt(variance + norm.eps)
    return scale, bias - mean * scale


def _defaults(keywords: dict[str, Any]) -> bool:
    """Return whether all options of a pooling, except its size, have their default values."""
    usual = {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False, "return_indices": False}
    return all(usual.get(name, ...) == value for name, value in keywords.items())


def _unknown(what: str) -> ValueError:
    return ValueError(f"there is no ONNX operation written here for {what}: use one of the networks of `build`")
